"""Follow one real server and write its journal: binary log, relay logs, starts, answers.

The binary log comes as a stream (``binlog_dump``), relay logs from their files where they can be
read, everything else by statements on another thread (``server_watch``). ``server_history`` makes
records of it, ``collection_scheduler`` puts rows into their positions. Here is the life of it all:
connecting, reading, losing the server, trying again, ending.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, final

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.mysql.binlog_dump import PURGED_OR_UNKNOWN, BinlogDump
from tallystick.producers.mysql.binlog_events import EventError
from tallystick.producers.mysql.clone_shown import donor_of
from tallystick.producers.mysql.collection_scheduler import CollectionScheduler
from tallystick.producers.mysql.errors import MysqlError, RsaMissingError, UnsupportedServerError
from tallystick.producers.mysql.relay_logs import RelayLogs
from tallystick.producers.mysql.remote_directory import relay_log_directory
from tallystick.producers.mysql.same_server import FollowedServers
from tallystick.producers.mysql.server_history import ServerHistory
from tallystick.producers.mysql.server_now import learn_server
from tallystick.producers.mysql.server_watch import (
    ChannelsRead,
    Collects,
    ConnectionLost,
    LedElsewhere,
    LogEnd,
    RedoSampled,
    Report,
    ServerWatch,
)
from tallystick.producers.mysql.tail_journal import TailJournal
from tallystick.producers.mysql.tail_options import TailOptions, steady_clock_us
from tallystick.producers.mysql.tail_state import TailState

if TYPE_CHECKING:
    from tallystick.coordinates.events.collect_request import CollectRequest
    from tallystick.producers.mysql.settings import ServerSettings
    from tallystick.producers.publisher import EventSink

__all__ = ["Tail", "TailOptions", "steady_clock_us"]

READ_S = 0.05
RELAY_READ_S = 0.1
RETRY_S = 0.5
RETRY_FOLLOWED_MAX_S = 2.0
RETRY_ASKED_S = 0.3
"""While somebody waits for its answer."""
RETRY_AT_ONCE_S = 0.1
"""After an end that the server explained: it is there."""
_STOP_MARGIN_US = 1_000_000
_STOP_S = 8.0
"""So long an end may take on a machine that is busy; what is not known by then is a gap."""
_OPTIONS = TailOptions()


@final
class Tail:
    """Follows one server until it is stopped; reconnects as long as that takes.

    Args:
        settings: The server.
        sink: Takes the blocks of its journal.
        collector_of: Makes what asks it for collections.
        state: How far its journal has come; a new one begins a journal.
        state_file: Where the state is saved; None: nowhere.
        options: How it is followed.
        notice: Takes one line about what went wrong or was noticed.
        answered: Is called with a collection's id when its answer is in the journal.
        followed: All servers that are followed here: none is under two names, and the donor of a
            clone is looked for among them.

    Attributes:
        journal: What has been recorded, and how far it has come.
    """

    def __init__(
        self,
        settings: ServerSettings,
        sink: EventSink,
        collector_of: Callable[[ServerSettings], Collects],
        *,
        state: TailState,
        notice: Callable[[str], None],
        state_file: Path | None = None,
        options: TailOptions = _OPTIONS,
        answered: Callable[[str], None] | None = None,
        followed: FollowedServers | None = None,
    ) -> None:
        self._settings = settings
        self._collector_of = collector_of
        self._options = options
        self._to_notice = notice
        self._clock = time.monotonic
        self.journal = TailJournal(
            settings.name,
            sink,
            state,
            state_file=state_file,
            clock=self._clock,
            cluster=settings.cluster or "",
        )
        self._followed = followed or FollowedServers()
        self._history = ServerHistory(
            settings.name,
            self.journal,
            RelayLogs(relay_log_directory(settings), self.journal, self._notice, steady_clock_us),
            notice=self._notice,
            clock_us=steady_clock_us,
            from_oldest=options.from_oldest,
            first_file=options.first_file,
            donor_of=lambda clone: donor_of(clone, settings, self._followed.settings),
        )
        self._scheduler = CollectionScheduler(self.journal, self._history, options, answered)
        self._reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self._dump: BinlogDump | None = None
        self._saved_at = self._relays_at = self._clock()
        self._problem = ""
        self._goes_on = state_file is not None
        self._is_known_to_end = False
        self._is_followed = self._was_followed = False

    @property
    def name(self) -> str:
        """Our key of the server."""
        return self._settings.name

    @property
    def collections(self) -> int:
        """How many collections were answered."""
        return self._scheduler.answers

    def ask(self, request: CollectRequest) -> None:
        """Have a collection made and its answer put into the journal; from any thread."""
        self._scheduler.ask(request)

    def run(self, stop: threading.Event) -> None:
        """Follow the server until `stop`; everything recorded is delivered then.

        Raises:
            DeliveryError: The sink does not take the journal.
            RsaMissingError: The password needs RSA, and its package is not installed.
            UnsupportedServerError: The server is no MySQL, or too old.
            OSError: The state cannot be saved.
        """
        with closing(self._history.relays):
            self._run(stop)

    def _run(self, stop: threading.Event) -> None:
        history = self._history
        # What is published before the next save is found from the state saved here.
        self.journal.save()
        wait_s = RETRY_S
        while not stop.is_set():
            begun = self._clock()
            try:
                self._follow(stop)
            except (RsaMissingError, UnsupportedServerError):
                raise
            except (MysqlError, EventError) as error:
                self._report_problem(str(error))
                history.ended_code = error.code if isinstance(error, MysqlError) else None
            while not self._reports.empty():
                self._reports.get()
            self._scheduler.end_session()
            if stop.is_set() and not self._goes_on:
                self._scheduler.withdraw()
            is_there = history.is_anew or history.ended_code == PURGED_OR_UNKNOWN
            self._save()
            if self._clock() - begun > self._options.back_off_max_s:
                wait_s = RETRY_S
            # One that was followed may come back for seconds only.
            most = RETRY_FOLLOWED_MAX_S if self._was_followed else self._options.back_off_max_s
            if not self._is_followed:
                self._scheduler.answer_unreachable(self._problem, is_awaited=self._was_followed)
            self._rest(RETRY_AT_ONCE_S if is_there else wait_s, stop)
            wait_s = min(2 * wait_s, most)
        self._scheduler.answer_unreachable(self._problem, is_awaited=False)
        has_begun = self.journal.state.server_uuid is not None
        if has_begun and not self._goes_on:
            # The end of a journal may count as known up to the latest time of all.
            if self._is_known_to_end:
                self.journal.server_record(RecordType.HEARTBEAT, {"ends": True})
            else:
                self.journal.server_record(RecordType.GAP, {})
        self.journal.save()

    def _follow(self, stop: threading.Event) -> None:
        """One session: from connecting until the stream ends or is to end."""
        history = self._history
        collector = self._collector_of(self._settings)
        self._is_followed = False
        watch = dump = connection = None
        try:
            server, connection = learn_server(self._settings, collector)
            server_uuid = str(server.start_body["server_uuid"])
            watch = ServerWatch(
                self._settings,
                collector,
                server_uuid=server_uuid,
                clock_us=steady_clock_us,
                interval_s=self._options.probe_interval_s,
                seen=self._seen,
                report=self._reports.put,
            )
            # Nothing is recorded before all connections have led to one server, and to no other's.
            watch.connect()
            self._followed.lead(self._settings, server_uuid)
            history.begin(server)
            if server.has_binlog:
                file, position = history.start
                dump = BinlogDump(
                    connection,
                    server_id=self._settings.server_id,
                    file=file,
                    position=position,
                    heartbeat_s=self._options.heartbeat_s,
                )
            else:
                connection.close()
            self._dump = dump
            watch.start()
            self._is_followed = self._was_followed = True
            if self._problem:
                self._problem = ""
                self._notice("followed again")
            while not stop.is_set():
                self._step(dump, watch)
            self._drain(dump, watch)
        finally:
            self._dump = None
            if dump is not None:
                dump.close()
            elif connection is not None and connection.open:
                connection.close()
            if watch is not None:
                watch.close()
            else:
                collector.close()
            history.end_session()

    def _step(self, dump: BinlogDump | None, watch: ServerWatch) -> None:
        history, scheduler = self._history, self._scheduler
        self._read(dump)
        scheduler.hand_on(watch)
        self._take_reports()
        if history.wants_channels:
            watch.ask_channels()
        if self._clock() - self._relays_at > RELAY_READ_S:
            history.relays.read()
            self._relays_at = self._clock()
        if not scheduler.holds_events:
            history.release(None)
        scheduler.settle()
        self.journal.poll()
        if self._clock() - self._saved_at > self._options.save_interval_s:
            self._save()

    def _read(self, dump: BinlogDump | None) -> None:
        if dump is None:
            time.sleep(READ_S)
            return
        is_identified = dump.first_format is not None
        try:
            found = dump.read(READ_S)
        except (MysqlError, EventError):
            # Inside an event of another log, the server sends how the file begins, and an error.
            if not is_identified:
                self._history.identify(dump.first_format)
            raise
        if not is_identified:
            self._history.identify(dump.first_format)
        self._history.receive(found)

    def _take_reports(self) -> None:
        while not self._reports.empty():
            report = self._reports.get()
            if isinstance(report, ChannelsRead):
                self._history.describe_channels(report)
            elif isinstance(report, LogEnd):
                self._history.note_log_end(report)
            elif isinstance(report, ConnectionLost):
                self._check_session()
            elif isinstance(report, LedElsewhere):
                raise report.error
            elif isinstance(report, RedoSampled):
                self.journal.server_record(RecordType.REDO_STATUS, report.body)
            else:
                self._scheduler.collected(report)

    def _check_session(self) -> None:
        """Without a stream that ends with it, nothing else shows that the server may be another.

        Raises:
            MysqlError: There is no stream.
        """
        if self._dump is None:
            raise MysqlError(f"{self.name}: the server ended the connection")

    def _seen(self) -> tuple[str, int]:
        dump = self._dump
        return ("", 0) if dump is None else (dump.file, dump.position)

    def _drain(self, dump: BinlogDump | None, watch: ServerWatch) -> None:
        """Follow the log until it is known beyond what the tails beside this one have recorded.

        Where the journals end, each is taken as known up to the latest time of all. A collection
        that all of them were asked for is answered: one without an answer would be in doubt.
        """
        until = steady_clock_us() + _STOP_MARGIN_US
        self._history.is_stopping = True
        deadline = self._clock() + _STOP_S
        while self._clock() < deadline and (
            self.journal.state.ts < until or not self._scheduler.is_idle
        ):
            self._read(dump)
            self._scheduler.hand_on(watch)
            self._take_reports()
            if self._history.wants_channels:
                watch.ask_channels()
            if not self._scheduler.holds_events:
                self._history.release(None)
            self._scheduler.settle()
        self._is_known_to_end = self.journal.state.ts >= until

    def _save(self) -> None:
        self.journal.state.channels = self._history.channels.known
        self.journal.save()
        self._saved_at = self._clock()

    def _rest(self, seconds: float, stop: threading.Event) -> None:
        begun = self._clock()
        end = begun + seconds
        while not stop.wait(min(0.1, max(0.0, end - self._clock()))) and self._clock() < end:
            if self._scheduler.is_asked and self._clock() - begun >= RETRY_ASKED_S:
                return  # the server may be there again
            self._history.relays.read()
            self.journal.poll()

    def _report_problem(self, text: str) -> None:
        if text != self._problem:
            self._problem = text
            self._notice(text)

    def _notice(self, text: str) -> None:
        is_named = text.startswith((f"{self.name}: ", f"server {self.name!r}"))
        self._to_notice(text if is_named else f"{self.name}: {text}")
