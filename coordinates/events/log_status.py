"""One instance's answer to a collection, read into values: the row and what came with it.

Reading is tier 0 of the audit: a datum that cannot be read becomes None and a `Problem`, and no
other check gets to see it. Unknown keys are ignored, as servers and versions differ.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from tallystick.coordinates.values._gtid_text import is_uuid
from tallystick.coordinates.values.binlog import (
    LogCoordinates,
    parse_log_file_name,
    strip_directory,
)
from tallystick.coordinates.values.errors import CoordinateError, GtidSetParseError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

INTEGER_END = 2**63
LENGTH_UNKNOWN = -1
COLUMNS = ("server_uuid", "local", "replication", "storage_engines")
GROUP_REPLICATION = "group_replication_"
"""Channels of this prefix are the plugin's: they follow the group, not a source."""
_COLUMN_ALIASES = {"master": "local", "channels": "replication"}
_FILTERS = (
    *("replicate_do_db", "replicate_ignore_db", "replicate_do_table", "replicate_ignore_table"),
    *("replicate_wild_do_table", "replicate_wild_ignore_table", "replicate_rewrite_db"),
    "replicate_ignore_server_ids",
)
"""Columns of SHOW REPLICA STATUS, each "" where there is no such filter; the last one is the
receiver's, the others are the applier's."""


class ProblemKind(str, Enum):
    """Why a datum could not be read; `coordinates.rules.readable` has a rule for each."""

    GTIDS_UNREADABLE = "gtids_unreadable"
    GTIDS_NOT_CANONICAL = "gtids_not_canonical"
    INCOMPLETE = "incomplete"
    CHANNEL_TWICE = "channel_twice"
    NO_BINLOG = "no_binlog"


@dataclass(frozen=True, slots=True)
class Problem:
    """A datum that could not be read.

    Attributes:
        kind: Why.
        datum: Its name; a doubled channel as ``table:channel``.
        observed: What was found.
        expected: What was expected.
        error: The parser's message.
        channel: The channel concerned, None when none is.
    """

    kind: ProblemKind
    datum: str
    observed: str
    expected: str
    error: str = ""
    channel: str | None = None


@dataclass(frozen=True, slots=True)
class ThreadState:
    """A replication thread as SHOW REPLICA STATUS has it.

    Attributes:
        is_stopped, is_connecting: Neither: it runs.
        errno: Number of its last error, 0 where there is none since its start.
        error: The server's text.
        since: When, as the server gives it.
        group: GTID of the group that failed, "" where that is not known.
    """

    is_stopped: bool = False
    is_connecting: bool = False
    errno: int = 0
    error: str = ""
    since: str = ""
    group: str = ""

    @property
    def is_running(self) -> bool:
        """Of a receiver: it is connected."""
        return not (self.is_stopped or self.is_connecting)


class StoredWorker(NamedTuple):
    """A row of slave_worker_info. None: without coordinates, or not readable."""

    number: int
    relay: LogCoordinates | None
    source: LogCoordinates | None
    checkpoint: LogCoordinates | None


@dataclass(slots=True)
class ChannelState:
    """What the answer has of one channel. None: not reported, or not readable."""

    channel: str
    is_listed: bool = False
    """Whether log_status lists it."""
    has_status: bool = False
    """Whether SHOW REPLICA STATUS has it."""
    shows_applied: bool = False
    """Whether that says how far the applier is in the relay log."""
    shows_executed: bool = False
    """Whether that says how far the applier is in the source's log."""
    relay_is_empty: bool = False
    """File "" and position 0: the channel has no relay log."""
    relay: LogCoordinates | None = None
    """F: relay coordinates of the last flush of the receiver's positions."""
    may_name_former: bool = False
    """Whether that may be of the relay log from before CHANGE REPLICATION SOURCE."""
    applied: LogCoordinates | None = None
    """A: relay coordinates applied."""
    read: LogCoordinates | None = None
    """Rd: source coordinates read."""
    executed: LogCoordinates | None = None
    """Ex: source coordinates executed."""
    retrieved: GtidSet | None = None
    source_uuid: str | None = None
    source_server_id: int | None = None
    auto_position: bool | None = None
    is_filtered: bool | None = None
    """Whether receiver or applier may leave groups of the source out."""
    ignores_servers: bool | None = None
    """Whether the receiver does, by the ids of the servers that wrote them."""
    receiver: ThreadState | None = None
    applier: ThreadState | None = None
    left_out_of: tuple[str, ...] = ()
    """Replication info tables that have rows of other channels, and none of this one."""
    unused: tuple[str, ...] = ()
    """Those that were read and have no row at all."""
    stored_read: LogCoordinates | None = None
    """Source coordinates in the master info repository."""
    stored_applied: LogCoordinates | None = None
    """Relay coordinates in the relay log info repository."""
    stored_executed: LogCoordinates | None = None
    """Source coordinates in the relay log info repository."""
    is_gtid_only: bool = False
    workers: list[StoredWorker] = field(default_factory=list)
    """What the workers of its applier have stored."""

    def without_tables(self) -> ChannelState:
        """Nothing of the replication info tables."""
        return replace(
            self,
            left_out_of=(),
            unused=(),
            stored_read=None,
            stored_applied=None,
            stored_executed=None,
            workers=[],
        )

    def of_row_alone(self) -> ChannelState:
        """Where it is named, and what log_status itself says: nothing that is read beside it."""
        return ChannelState(
            self.channel,
            is_listed=self.is_listed,
            has_status=self.has_status,
            shows_applied=self.shows_applied,
            shows_executed=self.shows_executed,
            relay_is_empty=self.relay_is_empty,
            relay=self.relay,
        )


@dataclass(slots=True)
class ServerState:
    """What one answer has of one instance. None: not reported, or not readable."""

    server_uuid: str | None = None
    position: LogCoordinates | None = None
    """P: binary log coordinates."""
    has_binlog: bool | None = None
    """Whether the row names a binary log; None, too, where it does not although there is one."""
    may_lack_binlog: bool = False
    """Whether the row names none, and it is not known whether there is one."""
    executed: GtidSet | None = None
    fallen: GtidSet | None = None
    """gtid_executed of a row that lost GTIDs, and is wrong in nothing else."""
    executed_first: GtidSet | None = None
    executed_in_status: GtidSet = GtidSet.EMPTY
    """Executed_Gtid_Set of SHOW REPLICA STATUS, as far as it can be read."""
    purged: GtidSet | None = None
    owned: GtidSet | None = None
    gtid_table: GtidSet | None = None
    prepared_xa: GtidSet | None = None
    lsn: int | None = None
    lsn_checkpoint: int | None = None
    engines: tuple[str, ...] | None = None
    """The engines that the row names."""
    has_other_engines: bool = False
    """Whether engines beside InnoDB keep logs: their commits need not write InnoDB's."""
    has_workers: bool = False
    """Whether slave_worker_info was read."""
    innodb: dict[str, int] = field(default_factory=dict)
    binary_logs: list[tuple[str, int]] | None = None
    """Name and length of each file, `LENGTH_UNKNOWN` where that is not reported."""
    binary_logs_changed: bool = False
    binary_logs_confirmed: bool = False
    """Whether the list was read before and after gtid_purged, and was the same."""
    trx_sys: LogCoordinates | None = None
    clone_status: dict[str, Any] | None = None
    channels: dict[str, ChannelState] = field(default_factory=dict)
    lists_channels: bool = False
    """Whether the row's list of channels was read whole."""
    has_replica_status: bool = False
    """Whether SHOW REPLICA STATUS was read, which may have no rows."""
    channels_went_on: bool = False
    """Whether it was read again after the row, and no channel had begun anew."""
    problems: list[Problem] = field(default_factory=list)


class Logging(str, Enum):
    """Whether the server of a row writes a binary log."""

    NONE = "none"
    """It writes none, or nothing is known of one: what the row says counts."""
    ON = "on"
    MAY_END = "may_end"
    """There is one that may have ended: after an error, with binlog_error_action=IGNORE_ERROR, or
    at a start of which log_bin is not known."""


def read_log_status(
    body: Mapping[str, Any], *, tags: bool, logging: Logging = Logging.NONE
) -> ServerState:
    """Read a ``log_status`` record that has a row.

    Args:
        body: The record's body (docs/journal.md).
        tags: Whether the server's GTIDs may carry tags.
        logging: Whether the server writes a binary log.
    """
    reader = _Reader(tags, logging)
    reader.read_row(body.get("row"))
    reader.read_beside(body)
    return reader.state


class _Reader:
    def __init__(self, tags: bool, logging: Logging) -> None:
        self.tags = tags
        self.logging = logging
        self.state = ServerState()
        self._doubled: set[str] = set()

    # The row

    def read_row(self, row: Any) -> None:
        if not isinstance(row, dict):
            self._incomplete("row", row, "an object with the four columns")
            return
        columns: dict[str, Any] = {}
        for key, value in row.items():
            name = str(key).lower()
            columns[_COLUMN_ALIASES.get(name, name)] = value
        missing = [name.upper() for name in COLUMNS if columns.get(name) is None]
        if missing:
            self._incomplete("row", ", ".join(sorted(columns)), f"column {missing[0]} as well")
        uuid = columns.get("server_uuid")
        if is_uuid(uuid):
            self.state.server_uuid = str(uuid).lower()
        elif uuid is not None:
            self._incomplete("SERVER_UUID", uuid, "a UUID")
        self._read_local(self._document(columns.get("local"), "LOCAL"))
        self._read_replication(self._document(columns.get("replication"), "REPLICATION"))
        self._read_engines(self._document(columns.get("storage_engines"), "STORAGE_ENGINES"))

    def _document(self, value: Any, name: str) -> dict[str, Any] | None:
        if isinstance(value, str):
            with suppress(ValueError, RecursionError):
                value = json.loads(value)
        if value is None:
            return None
        if not isinstance(value, dict):
            self._incomplete(name, value, "a JSON object")
            return None
        return value

    def _read_local(self, local: Mapping[str, Any] | None) -> None:
        if local is None:
            return
        if "gtid_executed" not in local:
            self._incomplete("LOCAL", ", ".join(local), "the key gtid_executed")
        else:
            self.state.executed = self._gtid_set(local["gtid_executed"], "gtid_executed")
        has_file, has_position = "binary_log_file" in local, "binary_log_position" in local
        if has_file != has_position:
            absent = "binary_log_position" if has_file else "binary_log_file"
            self._incomplete("LOCAL", ", ".join(local), f"{absent} as well")
        elif has_file:
            self.state.has_binlog = True
            self.state.position = self._coordinates(
                local["binary_log_file"], local["binary_log_position"], "binary log coordinates"
            )
        elif self.logging is Logging.NONE:
            self.state.has_binlog = False
        elif self.logging is Logging.MAY_END:
            self.state.may_lack_binlog = True
        else:
            # What it says of the binary log counts as not read.
            self.state.problems.append(
                Problem(
                    ProblemKind.NO_BINLOG,
                    "LOCAL",
                    ", ".join(local),
                    "binary_log_file and binary_log_position",
                )
            )

    def _read_replication(self, replication: Mapping[str, Any] | None) -> None:
        if replication is None:
            return
        rows = replication.get("channels")
        if rows is None:
            self._incomplete("REPLICATION", ", ".join(replication), "the key channels")
            return
        if not isinstance(rows, list):
            self._incomplete("REPLICATION", rows, "a list of channels")
            return
        self._find_doubled([r.get("channel_name") for r in rows if isinstance(r, dict)], "channels")
        self.state.lists_channels = True
        for row in rows:
            if not isinstance(row, dict) or not isinstance(row.get("channel_name"), str):
                self._incomplete("REPLICATION", row, "an object with channel_name")
                self.state.lists_channels = False
                continue
            name = row["channel_name"].lower()
            if name in self._doubled:
                continue
            channel = self._channel(name)
            channel.is_listed = True
            position = row.get("relay_log_position", row.get("relay_log_pos"))
            file = row.get("relay_log_file")
            if file == "" and position == 0:
                channel.relay_is_empty = True
            elif file is None or position is None:
                self._incomplete(
                    "REPLICATION", ", ".join(row), "relay_log_file and relay_log_position", name
                )
            else:
                channel.relay = self._coordinates(file, position, "relay log coordinates", name)

    def _read_engines(self, engines: Mapping[str, Any] | None) -> None:
        if engines is None:
            return
        self.state.engines = tuple(engines)
        self.state.has_other_engines = any(name != "InnoDB" for name in engines)
        innodb = engines.get("InnoDB")
        if innodb is None:
            self._incomplete("STORAGE_ENGINES", ", ".join(engines), "the key InnoDB")
            return
        if not isinstance(innodb, dict):
            self._incomplete("STORAGE_ENGINES", innodb, "an object for InnoDB")
            return
        self.state.lsn = self._integer(innodb.get("LSN"), "LSN")
        if "LSN_checkpoint" in innodb:
            self.state.lsn_checkpoint = self._integer(innodb["LSN_checkpoint"], "LSN_checkpoint")

    # What was read beside it

    def read_beside(self, body: Mapping[str, Any]) -> None:
        state = self.state
        state.executed_first = self._optional_set(body, "gtid_executed_first")
        state.gtid_table = self._optional_set(body, "gtid_executed_table", canonical=False)
        state.purged = self._optional_set(body, "gtid_purged")
        state.prepared_xa = self._optional_set(body, "prepared_xa", canonical=False)
        owned = body.get("gtid_owned")
        if isinstance(owned, str):
            try:
                state.owned = GtidSet.parse_owned(owned, tags=self.tags)
            except GtidSetParseError as error:
                self._unreadable_gtids("gtid_owned", owned, str(error))
        self._read_innodb(body.get("innodb"))
        state.binary_logs = self._binary_logs(body.get("binary_logs"))
        again = self._binary_logs(body.get("binary_logs_again"))
        if again is not None and state.binary_logs is not None:
            names = [name for name, _ in state.binary_logs]
            state.binary_logs_confirmed = names == [name for name, _ in again]
            state.binary_logs_changed = not state.binary_logs_confirmed
        trx_sys = body.get("trx_sys")
        if isinstance(trx_sys, dict) and trx_sys.get("binary_log_file"):
            state.trx_sys = self._coordinates(
                trx_sys["binary_log_file"],
                trx_sys.get("binary_log_position"),
                "TRX_SYS coordinates",
            )
        if isinstance(body.get("clone_status"), dict):
            state.clone_status = {k.lower(): v for k, v in body["clone_status"].items()}
        status, rows = body.get("replica_status"), self._rows(body, "replica_status")
        state.has_replica_status = isinstance(status, list) and len(rows) == len(status)
        state.channels_went_on = body.get("channels_went_on") is True
        for row in rows:
            self._read_replica_status(row)
        for row in self._rows(body, "replication_applier_status_by_worker", one_each=False):
            self._read_worker_status(row)
        master_info = self._rows(body, "slave_master_info")
        for channel, row in self._stored_rows(master_info):
            channel.is_gtid_only = _is_true(row.get("gtid_only"))
            channel.stored_read = self._stored(row, "source_log_name", "source_log_pos")
        relay_log_info = self._rows(body, "slave_relay_log_info")
        for channel, row in self._stored_rows(relay_log_info):
            channel.stored_applied = self._stored(row, "relay_log_name", "relay_log_pos")
            channel.stored_executed = self._stored(row, "source_log_name", "source_log_pos")
        state.has_workers = isinstance(body.get("slave_worker_info"), list)
        for row in self._rows(body, "slave_worker_info", one_each=False):
            self._read_worker(row)
        self._find_left_out(body, "slave_master_info", master_info)
        self._find_left_out(body, "slave_relay_log_info", relay_log_info)
        for name in self._doubled:
            # The channel is there, but nothing that the row says of it can be believed.
            state.channels[name] = ChannelState(name, is_listed=True)

    def _read_innodb(self, innodb: Any) -> None:
        if not isinstance(innodb, dict):
            return
        for key in ("current", "written", "flushed", "checkpoint"):
            if innodb.get(key) is not None:
                value = self._integer(innodb[key], f"innodb {key}")
                if value is not None:
                    self.state.innodb[key] = value

    def _rows(
        self, body: Mapping[str, Any], key: str, *, one_each: bool = True
    ) -> list[dict[str, Any]]:
        """Rows of a table with lower-case keys under today's names; one a channel, or several.

        A row without a channel's name is of the default channel (servers before 5.7 have no other),
        or, if it is not the only one, of any.
        """
        rows = body.get(key)
        if not isinstance(rows, list):
            return []
        renamed = [
            {_name_today(k): v for k, v in row.items()} for row in rows if isinstance(row, dict)
        ]
        if one_each:
            if len(renamed) > 1:
                renamed = [row for row in renamed if "channel_name" in row]
            self._find_doubled([row.get("channel_name", "") for row in renamed], key)
        return renamed

    def _stored_rows(
        self, rows: Iterable[dict[str, Any]]
    ) -> Iterator[tuple[ChannelState, dict[str, Any]]]:
        """The rows of a repository, each with its channel.

        What is in the tables and nowhere else is no channel where it names no file of a source:
        START REPLICA is refused on a server that is no replica, and leaves a row. Nor is one of a
        group: its plugin stores its channels before it opens them, and a member that never had to
        catch up has group_replication_recovery there alone.
        """
        for row in rows:
            name = str(row.get("channel_name", "")).lower()
            is_made = bool(row.get("source_log_name")) and not name.startswith(GROUP_REPLICATION)
            if is_made or name in self.state.channels:
                yield self._channel(name), row

    def _find_left_out(
        self, body: Mapping[str, Any], table: str, rows: Sequence[dict[str, Any]]
    ) -> None:
        """Channels of the status that an info table lacks; without any row it may be unused."""
        stored = {str(row.get("channel_name", "")).lower() for row in rows}
        for name, channel in self.state.channels.items():
            # Those of a group are made and removed by its plugin.
            is_ours = channel.has_status and not name.startswith(GROUP_REPLICATION)
            if body.get(table) == []:
                channel.unused += (table,)
            elif rows and is_ours and name not in stored:
                channel.left_out_of += (table,)

    def _read_replica_status(self, row: Mapping[str, Any]) -> None:
        name = str(row.get("channel_name") or "").lower()
        channel = self._channel(name)
        channel.has_status = True
        channel.shows_applied = _has(row, "relay_log_file", "relay_log_pos")
        channel.shows_executed = _has(row, "relay_source_log_file", "exec_source_log_pos")
        channel.applied = self._stored(row, "relay_log_file", "relay_log_pos")
        channel.read = self._stored(row, "source_log_file", "read_source_log_pos")
        channel.executed = self._stored(row, "relay_source_log_file", "exec_source_log_pos")
        if isinstance(row.get("retrieved_gtid_set"), str):
            channel.retrieved = self._gtid_set(
                row["retrieved_gtid_set"], "Retrieved_Gtid_Set", name
            )
        with suppress(GtidSetParseError):
            executed = GtidSet.parse(str(row.get("executed_gtid_set") or ""), tags=self.tags)
            self.state.executed_in_status = self.state.executed_in_status | executed
        uuid = row.get("source_uuid")
        channel.source_uuid = str(uuid).lower() if uuid else None
        server_id = row.get("source_server_id")
        # 0 before the first connection.
        channel.source_server_id = server_id if isinstance(server_id, int) and server_id else None
        if row.get("auto_position") is not None:
            channel.auto_position = _is_true(row["auto_position"])
        channel.is_filtered = _is_filtered(row)
        if row.get(_FILTERS[-1]) is not None:
            channel.ignores_servers = bool(row[_FILTERS[-1]])
        channel.receiver = _thread(row, "io")
        channel.applier = _thread(row, "sql")

    def _read_worker_status(self, row: Mapping[str, Any]) -> None:
        """A worker's own error says more than what its coordinator reports of it."""
        channel = self.state.channels.get(str(row.get("channel_name", "")).lower())
        applier = None if channel is None else channel.applier
        if channel is None or applier is None or not applier.errno:
            return
        if row.get("last_error_number") != applier.errno:
            return
        error = row.get("last_error_message")
        channel.applier = replace(
            applier,
            error=error if isinstance(error, str) and error else applier.error,
            group=str(row.get("applying_transaction") or ""),
        )

    def _read_worker(self, row: Mapping[str, Any]) -> None:
        """Of a channel that is gone, rows may stay."""
        channel = self.state.channels.get(str(row.get("channel_name", "")).lower())
        number = row.get("id")
        if channel is None or not isinstance(number, int):
            return
        pairs = (
            ("relay_log_name", "relay_log_pos"),
            ("source_log_name", "source_log_pos"),
            ("checkpoint_relay_log_name", "checkpoint_relay_log_pos"),
        )
        channel.workers.append(StoredWorker(number, *(self._stored(row, *pair) for pair in pairs)))

    def _stored(self, row: Mapping[str, Any], file: str, position: str) -> LogCoordinates | None:
        name, offset = row.get(file), row.get(position)
        if not isinstance(name, str) or type(offset) is not int:
            return None
        try:
            return LogCoordinates.of_file(strip_directory(name), offset)
        except CoordinateError:
            return None

    def _binary_logs(self, rows: Any) -> list[tuple[str, int]] | None:
        if not isinstance(rows, list):
            return None
        logs = []
        for row in rows:
            lower = {str(k).lower(): v for k, v in row.items()} if isinstance(row, dict) else {}
            name = lower.get("name", lower.get("log_name"))
            size = lower.get("size", lower.get("file_size"))
            try:
                parse_log_file_name(str(name))
            except CoordinateError:
                self._incomplete("binary_logs", name, "base.NNNNNN")
                return None
            logs.append((str(name), size if isinstance(size, int) else LENGTH_UNKNOWN))
        return logs

    # Values

    def _channel(self, name: str) -> ChannelState:
        channel = self.state.channels.get(name)
        if channel is None:
            channel = self.state.channels[name] = ChannelState(name)
        return channel

    def _find_doubled(self, names: Sequence[Any], where: str) -> None:
        seen: set[str] = set()
        for name in names:
            lower = str(name).lower()
            if lower in seen and lower not in self._doubled:
                self._doubled.add(lower)
                self.state.problems.append(
                    Problem(
                        ProblemKind.CHANNEL_TWICE,
                        f"{where}:{lower}",
                        ", ".join(repr(str(n)) for n in names),
                        "each channel name once, whatever its case",
                        channel=lower,
                    )
                )
            seen.add(lower)

    def _optional_set(
        self, body: Mapping[str, Any], key: str, *, canonical: bool = True
    ) -> GtidSet | None:
        value = body.get(key)
        return self._gtid_set(value, key, canonical=canonical) if isinstance(value, str) else None

    def _gtid_set(
        self, text: Any, datum: str, channel: str | None = None, *, canonical: bool = True
    ) -> GtidSet | None:
        if not isinstance(text, str):
            self._incomplete(datum, text, "a GTID set as text", channel)
            return None
        try:
            gtids = GtidSet.parse(text, tags=self.tags)
        except GtidSetParseError as error:
            self._unreadable_gtids(datum, text, str(error), channel)
            return None
        if canonical and not gtids.is_printed_as(text):
            self.state.problems.append(
                Problem(ProblemKind.GTIDS_NOT_CANONICAL, datum, text, str(gtids), channel=channel)
            )
            return None
        return gtids

    def _unreadable_gtids(
        self, datum: str, text: str, reason: str, channel: str | None = None
    ) -> None:
        self.state.problems.append(
            Problem(ProblemKind.GTIDS_UNREADABLE, datum, repr(text), "a GTID set", reason, channel)
        )

    def _coordinates(
        self, file: Any, position: Any, datum: str, channel: str | None = None
    ) -> LogCoordinates | None:
        number = self._integer(position, datum, channel)
        if number is None:
            return None
        try:
            return LogCoordinates.of_file(file if isinstance(file, str) else repr(file), number)
        except CoordinateError:
            self._incomplete(datum, file, "a file name base.NNNNNN without a directory", channel)
            return None

    def _integer(self, value: Any, datum: str, channel: str | None = None) -> int | None:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < INTEGER_END:
            return value
        self._incomplete(datum, value, "an integer from 0 to 2^63-1", channel)
        return None

    def _incomplete(
        self, datum: str, observed: Any, expected: str, channel: str | None = None
    ) -> None:
        self.state.problems.append(
            Problem(ProblemKind.INCOMPLETE, datum, repr(observed), expected, channel=channel)
        )


@lru_cache(maxsize=1024)
def _name_today(column: str) -> str:
    return column.lower().replace("master", "source")


def _thread(row: Mapping[str, Any], name: str) -> ThreadState | None:
    """A thread of a row of SHOW REPLICA STATUS: ``io`` or ``sql``."""
    runs = row.get(f"replica_{name}_running", row.get(f"slave_{name}_running"))
    if runs is None:
        return None
    errno, error = row.get(f"last_{name}_errno"), row.get(f"last_{name}_error")
    since = row.get(f"last_{name}_error_timestamp")
    return ThreadState(
        is_stopped=str(runs).upper() == "NO",
        is_connecting=str(runs).upper() == "CONNECTING",
        errno=errno if isinstance(errno, int) and not isinstance(errno, bool) else 0,
        error=error if isinstance(error, str) else "",
        since=since if isinstance(since, str) else "",
    )


def _is_filtered(row: Mapping[str, Any]) -> bool | None:
    """Whether a row of SHOW REPLICA STATUS names a filter; None: not all that could were read."""
    filters = [row.get(column) for column in _FILTERS]
    return True if any(filters) else None if None in filters else False


def _has(row: Mapping[str, Any], *columns: str) -> bool:
    """Whether a row has values for columns; a server has "" and 0 where nothing has come yet."""
    return all(row.get(column) is not None for column in columns)


def _is_true(value: Any) -> bool:
    return str(value).upper() in {"1", "TRUE", "YES", "ON"}
