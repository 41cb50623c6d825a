"""The statements of a tail, on a thread of their own: collections, and how far the log reaches.

No statement here takes part in a transaction or waits for one; the binary log's stream goes on
while one of them waits.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, final

from tallystick.producers.mysql.connection import connect, dialect_of, mysql_error
from tallystick.producers.mysql.dialect import lsns_of
from tallystick.producers.mysql.errors import MysqlError, OtherServerError

if TYPE_CHECKING:
    from pymysql.connections import Connection

    from tallystick.coordinates.events.collect_request import CollectRequest
    from tallystick.producers.mysql.clone_shown import CloneShown
    from tallystick.producers.mysql.settings import ServerSettings


SAMPLE_US = 1_000_000


class Collects(Protocol):
    """What is asked of a server for its journal: ``producers.mysql.collection.Collector``."""

    def start_body(self) -> dict[str, Any]:
        """Body of a ``start`` record."""

    def variables(self) -> dict[str, Any]:
        """The journal's variables."""

    def channels(self) -> list[dict[str, Any]]:
        """Bodies of ``change_source`` records."""

    def channel_changes(self) -> int | None:
        """How many statements may have let a relay log begin anew."""

    def gtid_table(self) -> str | None:
        """``mysql.gtid_executed`` as a set text."""

    def clone(self) -> CloneShown:
        """What is shown of the clone that the server's data came with."""

    def collect(self, collection_id: str, requested_at: int) -> dict[str, Any]:
        """Body of a ``log_status`` record."""

    def close(self) -> None:
        """End the session."""


@dataclass(frozen=True, slots=True)
class Collected:
    """An answer to a collection.

    Attributes:
        body: Of the ``log_status`` record.
        ts: When it had been read, microseconds.
        variables: As they were before it.
        channels: Bodies of ``change_source`` records, as they were after it.
        changes: How many statements may have let a relay log begin anew, counted after that.
        begun_ts: Before anything of it was read.
    """

    request: CollectRequest
    body: dict[str, Any]
    ts: int
    variables: dict[str, Any] = field(default_factory=dict)
    channels: list[dict[str, Any]] = field(default_factory=list)
    changes: int | None = None
    begun_ts: int = 0


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The binary log ended at this position, or later, at ``ts``; file None: there is no log.

    Attributes:
        ts: Taken before the question, microseconds.
        seen: Where the stream had come before the question: a log does not end before that.
    """

    ts: int
    file: str | None
    position: int
    seen: tuple[str, int]


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """The server ended the connection on which the end of the log is asked for."""


@dataclass(frozen=True, slots=True)
class LedElsewhere:
    """The address led to another server."""

    error: OtherServerError


class ChannelsRead(NamedTuple):
    """Bodies of ``change_source`` records, as the server described its channels before `ts`.

    Attributes:
        changes: How many statements may have let a relay log begin anew, counted before that.
    """

    ts: int
    channels: list[dict[str, Any]]
    changes: int | None


@dataclass(frozen=True, slots=True)
class RedoSampled:
    """Body of a ``redo_status`` record: one sample of the redo log's status variables."""

    body: dict[str, int]


Report = Collected | LogEnd | ChannelsRead | ConnectionLost | LedElsewhere | RedoSampled


@final
class ServerWatch:
    """Asks one server until it is closed.

    Args:
        settings: The server.
        collector: Its statements for a collection; closed with the watch.
        server_uuid: Its own.
        clock_us: Microseconds since 1970.
        interval_s: How often the end of the log is asked for.
        seen: Where the stream has come: file and position.
        report: Takes what was found, from the watch's thread.
    """

    def __init__(
        self,
        settings: ServerSettings,
        collector: Collects,
        *,
        server_uuid: str,
        clock_us: Callable[[], int],
        interval_s: float,
        seen: Callable[[], tuple[str, int]],
        report: Callable[[Report], None],
    ) -> None:
        self._settings = settings
        self._collector = collector
        self._server_uuid = server_uuid
        self._clock_us = clock_us
        self._interval_s = interval_s
        self._seen = seen
        self._report = report
        self._wants_channels = threading.Event()
        self._connection: Connection[Any] | None = None
        self._statement = ""
        self._show_lsns: str | None = None
        self._sampled_at = -SAMPLE_US
        self._asked: queue.SimpleQueue[CollectRequest | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"watch {settings.name}", daemon=True
        )

    def connect(self) -> None:
        """Connect, for the first time or again.

        Raises:
            OtherServerError: The address led to another server.
            MysqlError: The server cannot be reached.
        """
        connection = connect(self._settings, server_uuid=self._server_uuid)
        try:
            dialect = dialect_of(connection)
        except Exception as error:  # noqa: BLE001  what a stranger sends may raise anything
            connection.close()
            raise mysql_error(error, self._settings, "cannot connect") from None
        self._connection = connection
        self._statement = dialect.show_binary_log_status
        self._show_lsns = dialect.show_lsns

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def ask(self, request: CollectRequest) -> None:
        """Have a collection made when those asked for before are done."""
        self._asked.put(request)

    def ask_channels(self) -> None:
        """Have the channels described, soon."""
        if not self._wants_channels.is_set():
            self._wants_channels.set()
            self._asked.put(None)

    def close(self) -> None:
        """Ask for nothing more; a statement that waits in the server is not waited for."""
        self._closed.set()
        self._asked.put(None)
        if self._thread.ident is None:
            self._end()
        else:
            self._thread.join(1.0)

    def _run(self) -> None:
        while not self._closed.is_set():
            self._probe()
            with suppress(queue.Empty):
                request = self._asked.get(timeout=self._interval_s)
                if request is not None and not self._closed.is_set():
                    self._report(self._collect(request))
            if self._wants_channels.is_set() and not self._closed.is_set():
                with suppress(MysqlError):
                    changes = self._collector.channel_changes()
                    channels = self._collector.channels()
                    self._report(ChannelsRead(self._clock_us(), channels, changes))
                self._wants_channels.clear()
        self._end()

    def _end(self) -> None:
        self._collector.close()
        self._disconnect()

    def _collect(self, request: CollectRequest) -> Collected:
        begun_ts = self._clock_us()
        try:
            variables = self._collector.variables()
        except MysqlError:
            variables = {}  # the collection itself reports what is wrong
        body = self._collector.collect(request.collection_id, request.requested_at)
        ts = self._clock_us()
        channels: list[dict[str, Any]] = []
        changes = None
        if body.get("replica_status"):
            with suppress(MysqlError):
                channels = self._collector.channels()
                changes = self._collector.channel_changes()
        return Collected(request, body, ts, variables, channels, changes, begun_ts)

    def _probe(self) -> None:
        ts = self._clock_us()
        try:
            if self._connection is None:
                self.connect()
            assert self._connection is not None
            with self._connection.cursor() as cursor:
                seen = self._seen()
                ts = self._clock_us()
                cursor.execute(self._statement)
                row = cursor.fetchone()
            self._sample(self._connection)
        except OtherServerError as error:
            self._report(LedElsewhere(error))
            return
        except Exception:  # noqa: BLE001  the stream reports what is wrong; here it is tried again
            if self._connection is not None:
                self._disconnect()
                self._report(ConnectionLost())
            return
        file, position = (None, 0) if row is None else (str(row[0]), int(row[1]))
        self._report(LogEnd(ts, file, position, seen))

    def _sample(self, connection: Connection[Any]) -> None:
        """Read InnoDB's LSNs, once a second at most: the statement counts what all sessions did."""
        if self._show_lsns is None or self._clock_us() - self._sampled_at < SAMPLE_US:
            return
        with connection.cursor() as cursor:
            cursor.execute(self._show_lsns)
            found = lsns_of((str(name).lower(), str(value)) for name, value in cursor.fetchall())
        self._sampled_at = self._clock_us()
        if found:
            self._report(RedoSampled(found))

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()
