"""What one instance's journal shows of its binary log, at every position that it has had.

The audit reads the journal; its fleet events are kept whole here. Where the journal has a gap, or
another log begins, nothing from before explains what comes after.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallystick.coordinates.audit.fleet_events import FleetEvent, FleetEventKind
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.audit.packed_events import BinlogGroups
from tallystick.coordinates.audit.timeline_file import BinlogFile, PositionKind
from tallystick.coordinates.events.journal import RecordType, Stream
from tallystick.coordinates.events.log_status import read_log_status
from tallystick.coordinates.values.binlog import FIRST_POSITION
from tallystick.coordinates.values.errors import JournalError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    import numpy.typing as npt

    from tallystick.coordinates.audit.server import Server
    from tallystick.coordinates.events.journal import Block

_HEAD_EVENTS = 2

LogKey = tuple[int, int]
"""Which of the instance's binary logs: how often the audit began anew, and the binlog lineage."""


class Row(NamedTuple):
    """What an accepted log_status row shows.

    Attributes:
        order: Its place among all that the journal shows.
        span: What was recorded without a gap between shares this number.
        file_number, position: Its binary log coordinates, 0 if it has none.
        purged: @@gtid_purged, None not known.
        lsn: InnoDB's LSN, None not known.
        ts: Its time, microseconds.
    """

    order: int
    span: int
    file_number: int
    position: int
    purged: GtidSet | None
    lsn: int | None
    ts: int


class Channel(NamedTuple):
    """A replication channel as rows show it."""

    source_uuids: frozenset[str]
    auto_position: bool
    ignores_servers: bool


class Groups(NamedTuple):
    """Groups in the order of the log; sid -1 is one without a GTID."""

    file_number: npt.NDArray[Any]
    end: npt.NDArray[Any]
    sid: npt.NDArray[Any]
    gno: npt.NDArray[Any]

    def chosen(self, which: Any) -> Groups:
        """Some of them, as an index of numpy says."""
        return Groups(*(column[which] for column in self))


@dataclass(eq=False)
class BinaryLog:
    """One binary log of the instance, from its beginning or a RESET to the next one."""

    base_name: str | None = None
    files: dict[int, BinlogFile] = field(default_factory=dict)
    head_ends: dict[int, list[int]] = field(default_factory=dict)
    """Where the first two events of a file end."""
    closed: dict[int, int] = field(default_factory=dict)
    """Where files ended that others follow, or a start."""
    runs: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    """Of each file: where a run of events ended, its order and span."""
    rows: list[Row] = field(default_factory=list)
    assigned: list[tuple[int, GtidSet]] = field(default_factory=list)
    """SET gtid_purged: order, and what was added."""
    logs_everything: bool = True
    is_ended: bool = False
    """Whether a RESET, clone or restore ended it."""
    after_gap: set[int] = field(default_factory=set)
    """Files of which a crash in a gap of the journal may have taken the end back."""
    after_start: set[int] = field(default_factory=set)
    """Files that were open at a start whose recovery is not known."""

    def run_at(self, number: int, position: int) -> tuple[int, int] | None:
        """Order and span of the run of events that a position is in."""
        runs = self.runs.get(number, [])
        at = bisect_left(runs, position, key=lambda run: run[0])
        return runs[at][1:] if at < len(runs) else None


class History:
    """One instance's journal as a whole.

    Args:
        instance_id: The instance.
    """

    def __init__(self, instance_id: str) -> None:
        self.instance_id = instance_id
        self.logs: dict[LogKey, BinaryLog] = {}
        self.sids: list[str] = []
        self.server_uuids: set[str] = set()
        self.channels: dict[str, Channel] = {}
        self._audit = InstanceAudit(instance_id)
        self._sid_index: dict[str, int] = {}
        self._lsn: dict[str, int] = {}
        self._era = self._order = self._span = 0
        self._lineage = 0

    @property
    def server(self) -> Server:
        """What the instance said of itself last."""
        return self._audit.server

    @property
    def newest(self) -> BinaryLog | None:
        """The binary log that it has now."""
        return self.logs.get((self._era, self._lineage))

    def absorb(self, block: Block) -> None:
        """The next block of the journal."""
        self._read_lsns(block)
        output, _ = self._audit.absorb_or_refuse(block)
        self._take(output.fleet_events)

    def finish(self) -> None:
        """The journal has ended."""
        self._take(self._audit.finish_or_refuse().fleet_events)
        if self.server.server_uuid is not None:
            self.server_uuids.add(self.server.server_uuid)

    def _read_lsns(self, block: Block) -> None:
        columns = block.columns
        is_row = (columns["stream"] == Stream.SERVER) & (columns["type"] == RecordType.LOG_STATUS)
        for index in is_row.nonzero()[0].tolist():
            try:
                body = block.body(index)
                lsn = read_log_status(body, tags=True).lsn
            except JournalError:
                continue  # the audit reports it
            if lsn is not None:
                self._lsn[str(body.get("collection_id"))] = lsn

    # What the audit shows

    def _take(self, events: Iterable[FleetEvent]) -> None:
        handlers: dict[FleetEventKind, Callable[[FleetEvent], None]] = {
            FleetEventKind.LOGGED: self._logged,
            FleetEventKind.PREVIOUS: self._head_read,
            FleetEventKind.FILE_END: self._file_ended,
            FleetEventKind.LINEAGE: self._log_began,
            FleetEventKind.GAP: self._records_lost,
            FleetEventKind.BEGUN_ANEW: self._begun_anew,
            FleetEventKind.GTID_PURGED: self._gtids_assigned,
            FleetEventKind.STATUS: self._row_read,
            FleetEventKind.BOOT: self._booted,
        }
        for event in events:
            self._order += 1
            handler = handlers.get(event.kind)
            if handler is not None:
                handler(event)

    def _log(self, lineage: int) -> BinaryLog:
        self._lineage = lineage
        return self.logs.setdefault((self._era, lineage), BinaryLog())

    def _file(self, lineage: int, body: dict[str, Any]) -> BinlogFile:
        log, number = self._log(lineage), body["file_number"]
        log.base_name = body["base_name"]
        if number not in log.files:
            log.files[number] = BinlogFile(lineage, number)
        return log.files[number]

    def _logged(self, event: FleetEvent) -> None:
        body, arrays = event.body, event.arrays
        file = self._file(body["binlog_lineage"], body)
        log, number = self._log(body["binlog_lineage"]), body["file_number"]
        table = np.array([*(self._sid_number(sid) for sid in body["sids"]), -1], dtype=np.int32)
        ends = arrays["event_ends"].astype(np.int64, copy=False)
        if body["start"] == file.end:
            log.after_gap.discard(number)
            log.after_start.discard(number)
            head = log.head_ends.setdefault(number, [])
            head += ends[: _HEAD_EVENTS - len(head)].tolist()
        gno = arrays["group_gno"].astype(np.int64, copy=False)
        groups = BinlogGroups(arrays["group_event"], table[arrays["group_sid"]], gno)
        file.append(body["start"], ends, groups)
        if len(ends):
            run = int(ends[-1]), self._order, self._span
            log.runs.setdefault(number, []).append(run)

    def _sid_number(self, sid: str) -> int:
        number = self._sid_index.setdefault(sid, len(self.sids))
        if number == len(self.sids):
            self.sids.append(sid)
        return number

    def _head_read(self, event: FleetEvent) -> None:
        body = event.body
        self._file(body["binlog_lineage"], body).previous = GtidSet.parse(body["gtid_set"])

    def _file_ended(self, event: FleetEvent) -> None:
        """What is beyond the end that a crash left was never there."""
        body = event.body
        file, end = self._file(body["binlog_lineage"], body), body["end"]
        log, number = self._log(body["binlog_lineage"]), body["file_number"]
        if file.end < end:
            file.skip_to(end)
        elif file.end > end:
            file.truncate(end)
        file.next_number = body["next_number"] or 0
        for later in [n for n in log.files if n > number]:
            del log.files[later]
            log.runs.pop(later, None)
            log.head_ends.pop(later, None)
        log.closed[number] = end
        log.after_start.discard(number)

    def _log_began(self, event: FleetEvent) -> None:
        log = self.newest
        if log is not None:
            log.is_ended = event.body["reason"] not in ("unseen", "renamed")
        self._span += 1
        self._lineage = event.body["binlog_lineage"]

    def _records_lost(self, event: FleetEvent) -> None:
        if event.body.get("channel") is None:
            self._missed(event.body["binlog_lineage"])

    def _begun_anew(self, event: FleetEvent) -> None:
        self._missed(0)
        self._era += 1

    def _missed(self, lineage: int) -> None:
        log = self.newest
        if log is not None and log.files:
            log.files[max(log.files)].is_open_ended = True
            log.after_gap.add(max(log.files))
        self._span += 1
        self._lineage = lineage

    def _gtids_assigned(self, event: FleetEvent) -> None:
        added = GtidSet.parse(event.body["added"])
        self._log(self._lineage).assigned.append((self._order, added))

    def _booted(self, event: FleetEvent) -> None:
        """Where the file that was open ends is known when the next one begins."""
        log = self.newest
        if log is not None and log.files:
            log.after_start.add(max(log.files))
        if event.body.get("server_uuid"):
            self.server_uuids.add(str(event.body["server_uuid"]))

    def _row_read(self, event: FleetEvent) -> None:
        body = event.body
        if body["server_uuid"]:
            self.server_uuids.add(body["server_uuid"])
        log = self._log(body["binlog_lineage"])
        log.logs_everything &= body["logs_everything"]
        name, purged = body["binary_log_file"], body["gtid_purged"]
        log.rows.append(
            Row(
                self._order,
                self._span,
                int(name.rpartition(".")[2]) if name else 0,
                body["binary_log_position"] or 0,
                None if purged is None else GtidSet.parse(purged),
                self._lsn.get(body["collection_id"]),
                event.ts,
            )
        )
        for channel in body["channels"]:
            known = self.channels.get(channel["channel"])
            uuid = channel["source_uuid"]
            before = frozenset[str]() if known is None else known.source_uuids
            self.channels[channel["channel"]] = Channel(
                before | ({uuid} if uuid else set()),
                channel["auto_position"],
                channel["ignores_servers"] or (known is not None and known.ignores_servers),
            )

    # Questions

    def kind_at(self, log: BinaryLog, number: int, position: int) -> PositionKind:
        """What is at a position of a file that the log has had."""
        file = log.files[number]
        if position > file.end:
            is_whole = number in log.closed and not (file.is_open_ended or file.is_doubtful)
            return PositionKind.BEYOND if is_whole else PositionKind.UNKNOWN
        kind = file.kind_at(position, file.end)
        if kind is not PositionKind.OUTSIDE:
            return kind
        # The end of a ROTATE or STOP, or of an event of a group that the journal has not whole.
        is_head = position == FIRST_POSITION or log.head_ends.get(number, [])[1:] == [position]
        return kind if is_head else PositionKind.UNKNOWN

    def may_be_lost(self, log: BinaryLog, number: int, logged: GtidSet | None) -> bool:
        """Whether a crash may have taken back what a file holds, for all that the journal shows.

        Args:
            log: The binary log.
            number: The file's number.
            logged: What it holds up to the position in question, None not known.
        """
        if number not in log.after_gap | log.after_start:
            return False
        following = log.files.get(log.files[number].following)
        previous = None if following is None else following.previous
        return previous is None or logged is None or not logged <= previous

    def logged_at(self, log: BinaryLog, number: int, position: int) -> GtidSet | None:
        """L(P): what the log holds up to a position; None not known."""
        file = log.files[number]
        if file.previous is None or file.is_doubtful or any(a < position for a, _ in file.holes):
            return None
        logged = file.previous | self.gtids(self.groups(log, number, position))
        before = [n for n in log.files if n < number]
        earlier = GtidSet.EMPTY
        for each in before:
            earlier = earlier | self.gtids(self.groups(log, each))
        return logged if earlier <= logged else None

    def groups(self, log: BinaryLog, number: int, up_to: int | None = None) -> Groups:
        """The groups of a file, up to a position."""
        file = log.files[number]
        count = None if up_to is None else file.count_groups(up_to, "right")
        end, sid, gno = file.groups(0, count)
        return Groups(np.full(len(end), number), end, sid, gno)

    def gtids(self, groups: Groups) -> GtidSet:
        """The GTIDs of groups as a set."""
        named = groups.sid >= 0
        return GtidSet.from_groups(self.sids, groups.sid[named], groups.gno[named])

    def unlogged_at(self, log: BinaryLog, number: int, position: int) -> GtidSet | None:
        """What was executed at a position without being in the binary log; None not known.

        It is all in gtid_purged: set by hand, restored, or executed while nothing was logged.
        """
        run = log.run_at(number, position)
        if run is None:
            return None
        order, span = run
        rows = [
            row
            for row in log.rows
            if row.span == span and row.purged is not None and row.file_number in log.files
        ]
        where = number, position
        before = [row for row in rows if (row.file_number, row.position) <= where]
        after = [row for row in rows if (row.file_number, row.position) > where]
        row = before[-1] if before else after[0] if after else None
        if row is None or row.purged is None:
            return None
        logged = self.logged_at(log, row.file_number, row.position)
        if logged is None:
            return None
        first, last = sorted((row.order, order))
        between = [gtids for at, gtids in log.assigned if first < at < last]
        if between and not before:
            return None
        unlogged = row.purged - logged
        for gtids in between:
            unlogged = unlogged | gtids
        return unlogged

    def lsns_at(self, log: BinaryLog, number: int, position: int) -> tuple[Row | None, list[Row]]:
        """The last row with an LSN before a position was reached, and those since.

        A server that logs nothing goes on writing redo, so a row at the position bounds nothing.
        """
        rows = [row for row in log.rows if row.lsn is not None]
        where = number, position
        before = [row for row in rows if (row.file_number, row.position) < where]
        after = [row for row in rows if (row.file_number, row.position) >= where]
        return (before[-1] if before else None), after

    def has_anonymous(self, log: BinaryLog) -> bool:
        """Whether a group of the log has no GTID."""
        return any(file.has_anonymous_group for file in log.files.values())


def histories_of(blocks: Iterable[Block]) -> dict[str, History]:
    """The journals of all instances.

    Raises:
        JournalError: A record cannot be read.
    """
    histories: dict[str, History] = {}
    for block in blocks:
        history = histories.get(block.instance_id)
        if history is None:
            history = histories[block.instance_id] = History(block.instance_id)
        history.absorb(block)
    for history in histories.values():
        history.finish()
    return histories


def logs_with(history: History, base_name: str, number: int) -> Iterator[BinaryLog]:
    """The binary logs of an instance that had a file, oldest first."""
    for key in sorted(history.logs):
        log = history.logs[key]
        if log.base_name == base_name and number in log.files:
            yield log
