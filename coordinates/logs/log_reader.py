"""Reading one log of one instance event by event, or whole columns at a time when all is regular.

`LogReader` knows what binary logs and relay logs share: files of contiguous events, groups, and
deliveries that repeat. `binlog_reader` and `relay_reader` add what is theirs. A run of events that
is regular in every respect is taken in one vectorised step; any doubt sends it through the
event-by-event path, which alone decides what is wrong. So both paths leave equal state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import structs

from tallystick.coordinates.events.journal import QueryVerb
from tallystick.coordinates.events.log_events import (
    CLASS,
    CLASS_ROWS,
    LOG_COLUMNS,
    NO_FILE,
    EventClass,
)
from tallystick.coordinates.logs.anomaly import Anomaly, AnomalyKind, DroppedEvents
from tallystick.coordinates.logs.event_window import (
    CHECKSUM,
    COLUMN_COUNT,
    END,
    FILE,
    GNO,
    SID,
    START,
    TYPE,
    EventWindow,
    Mark,
    pack_row,
)
from tallystick.coordinates.logs.log_groups import (
    EMPTY_EVENTS,
    STEP_AFTER_OPENER,
    STEP_IN_BODY,
    GroupScan,
    GroupState,
    GroupStep,
    OpenGroup,
    scan_groups,
)
from tallystick.coordinates.logs.sid_table import SidTable
from tallystick.coordinates.state_codec import COLLABORATOR, TRANSIENT
from tallystick.coordinates.values.binlog import (
    MAGIC_LENGTH,
    EventType,
    LogCoordinates,
    format_log_file_name,
    parse_log_file_name,
)
from tallystick.coordinates.values.errors import CoordinateError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from tallystick.coordinates.audit.reporter import Reporter
    from tallystick.coordinates.audit.server import Server
    from tallystick.coordinates.events.journal import Block
    from tallystick.coordinates.events.log_events import Event, EventColumns

    Array = npt.NDArray[Any]

FAST_MIN = 48
"""Below this many events the event-by-event path is as quick as the vectorised one."""

_SPECIAL = (CLASS[:, 0] == EventClass.FRAMING) | (CLASS[:, 0] == EventClass.HEARTBEAT)
# Names of members are looked up by a function each time; these are read for every event.
_HEARTBEAT, _OPENER = int(EventClass.HEARTBEAT), int(EventClass.OPENER)
_INCIDENT = int(EventClass.INCIDENT)
_GOES_ON, _ENDS = GroupStep.GOES_ON, GroupStep.ENDS
_BEGINS_BODY = GroupStep.BEGINS_BODY
_IDLE, _OPENED = GroupState.IDLE, GroupState.OPENED
_BODY, _RESYNC = GroupState.BODY, GroupState.RESYNC
_QUERY, _COMMIT = int(EventType.QUERY), int(QueryVerb.COMMIT)
_NOTHING, _GROUP = Mark.NOTHING, Mark.GROUP


# Without slots Python calls methods slowly where more than 30 attributes are. Slots make each class
# anew, which `super()` does not know: subclasses name the class whose method they go on with.
@dataclass(slots=True, eq=False)
class LogReader(SidTable):
    """One log (a binary log, or a channel's relay log) as the journal has shown it so far.

    ``base_name`` is None until the first event. ``end`` is the offset after the last event, -1
    after part of the log was missed. Every sid index refers to its table of sids.

    Attributes:
        log_name: What the log is called in texts.
        begun_by: Commands that begin it anew, under names of files that were there before.
        has_begun_unrecorded: Whether it began anew without a record of that, and the audit has not
            noted it yet.
    """

    log_name = "log"
    begun_by = ""

    reporter: Reporter = field(metadata=COLLABORATOR)
    server: Server = field(metadata=COLLABORATOR)
    channel: str | None = None
    base_name: str | None = None
    file_number: int = 0
    end: int = -1
    offsets_doubtful: bool = False
    group_state: GroupState = GroupState.IDLE
    group: OpenGroup = field(default_factory=OpenGroup)
    window: EventWindow = field(default_factory=EventWindow)
    source_number: int = -1
    position_end: int = -1
    """Source file number and position after the event just read (relay logs)."""
    has_begun_unrecorded: bool = field(default=False, metadata=TRANSIENT)
    _redelivering: bool = False
    _is_from_head: bool = False
    """Whether the second delivery began with the first event of a file."""
    _may_restart: bool = False
    _gathered_at: tuple[int, int, int] = field(default=(0, 0, 0), metadata=TRANSIENT)
    """Journal position of the last event that is held: it precedes any other fleet event."""

    def compact(self) -> None:
        """Forget what was recorded of a group that has ended: both paths leave equal state."""
        if self.group_state not in (_OPENED, _BODY):
            self.group = OpenGroup()

    # Names

    @property
    def file_name(self) -> str:
        """Name of the file being read."""
        if self.base_name is None:
            return "(no file)"
        return format_log_file_name(self.base_name, self.file_number)

    @property
    def end_coordinates(self) -> LogCoordinates | None:
        """Where the log ends, None not known."""
        if self.base_name is None or self.end < 0:
            return None
        return LogCoordinates(self.base_name, self.file_number, self.end)

    def _sid_mapping(self, block: Block, indices: Array) -> npt.NDArray[np.int32]:
        # A sid that only other logs of the block have is not entered.
        column = block.columns["sid"][indices]
        mapping = np.full(len(block.sids) + 1, -1, dtype=np.int32)
        for index in np.bincount(column[column >= 0]).nonzero()[0].tolist():
            mapping[index] = self.sid_number(block.sids[index])
        return mapping

    def sids_in(self, column: Array) -> tuple[list[str], npt.NDArray[np.int32]]:
        """The sids that a column of the reader's numbers has, and the column with theirs."""
        if len(column) < FAST_MIN:
            used = sorted({*column.tolist()} - {-1})
        else:
            used = np.bincount(column[column >= 0]).nonzero()[0].tolist()
        numbers = column.astype(np.int32)
        if used and used[-1] >= len(used):
            table = np.full(len(self.sids) + 1, -1, dtype=np.int32)
            table[used] = range(len(used))
            numbers = table[numbers]
        return [self.sids[i] for i in used], numbers

    # Reading

    def read(self, block: Block, indices: Array, events: EventColumns) -> None:
        """Read the events of ``block`` at ``indices``, which belong to this log, in order."""
        types = block.columns["type"][indices]
        files = block.columns["file"][indices]
        special = _SPECIAL.take(types)
        special[1:] |= files[1:] != files[:-1]
        stops = special.nonzero()[0]
        mapping = self._sid_mapping(block, indices)
        at = 0
        for stop in [*stops.tolist(), len(indices)]:
            if stop - at >= FAST_MIN and self._read_run(block, indices[at:stop], mapping):
                at = stop
            while at < min(stop + 1, len(indices)):
                index = int(indices[at])
                self.read_event(block, index, events.event(index), events)
                at += 1

    def read_event(self, block: Block, index: int, event: Event, events: EventColumns) -> bool:
        """Read one event on the event-by-event path; it is at ``index`` of the block.

        Returns:
            Whether the log has grown by it: a second delivery, or what cannot be read, is none.
        """
        event_class = CLASS_ROWS[event.type][event.query]
        if event_class == _HEARTBEAT:
            return False
        self.reporter.position = (block.epoch, block.first_sequence + index, event.ts)
        base_name, file_number = events.file_names[event.file] if event.file >= 0 else NO_FILE
        if not base_name:
            self._unreadable_file_name(block, event)
            return False
        start = event.start
        if event.sid >= 0:
            number = self.sid_number(block.sids[event.sid])
            if number != event.sid:
                event = structs.replace(event, sid=number)
        if file_number != self.file_number or base_name != self.base_name:
            if not self._switch_file(event, base_name, file_number):
                return False
        elif 0 <= start < self.end:
            if self._is_redelivery(event):
                return False
            if self.base_name != base_name and not self._switch_file(event, base_name, file_number):
                return False
        self._redelivering = False
        if start != self.end and self.end >= 0:
            self._check_contiguity(event)
        end = start + event.length
        mark = self._read_in_file(event, event_class, end, block.texts.get(index))
        self.end = end
        carried = self.group if mark is _GROUP else event
        self.window.append(
            pack_row(
                file_number,
                start,
                end,
                mark,
                event.type,
                event.checksum,
                carried.sid,
                carried.gno,
                self.source_number,
                self.position_end,
                event.ts,
            )
        )
        return True

    def _read_in_file(self, event: Event, event_class: int, end: int, text: str | None) -> Mark:
        """Judge an event that is at its position in the file; returns what it ends."""
        raise NotImplementedError

    def _switch_file(self, event: Event, base_name: str, file_number: int) -> bool:
        """Begin another file; False when the event is to be dropped."""
        raise NotImplementedError

    def emit_gathered(self) -> None:
        """Hand what the event-by-event path has gathered to the fleet."""
        raise NotImplementedError

    def _unreadable_file_name(self, block: Block, event: Event) -> None:
        name = block.files[event.file] if 0 <= event.file < len(block.files) else ""
        self.reporter.dropped(
            DroppedEvents.FILE_NAME_UNREADABLE,
            at=f"{name}:{event.start}",
            log=self.log_name,
            file=name,
            channel=self.channel,
        )
        self.mark_gap()

    # What does not fit

    def report_anomaly(
        self, kind: AnomalyKind, at: str, /, *, witness: object = None, **data: Any
    ) -> None:
        """Report a contradiction of this log with itself.

        Args:
            kind: Which one.
            at: Its coordinates.
            witness: The smallest thing that shows it, None: the coordinates.
            data: Both sides of it.
        """
        self.reporter.anomaly(
            Anomaly(kind, at, at if witness is None else witness, self.channel, data)
        )

    def _report_unreadable_head(self, at: str, text: str, error: Exception) -> None:
        self.report_anomaly(
            AnomalyKind.PREVIOUS_GTIDS_UNREADABLE,
            at,
            witness=repr(text[:60]),
            log=self.log_name,
            file=self.file_name,
            error=error,
            text=text,
        )

    def _note_missing(self, kind: DroppedEvents, base_name: str, file_number: int) -> None:
        """Another file begins, and what must be between the present one and that was not seen."""
        self.reporter.dropped(
            kind,
            at=f"{self.file_name}:{self.end}",
            log=self.log_name,
            file=self.file_name,
            next_file=format_log_file_name(base_name, file_number),
            channel=self.channel,
        )

    # Contiguity and delivery

    def _check_contiguity(self, event: Event) -> None:
        file_name = self.file_name
        self.report_anomaly(
            AnomalyKind.EVENTS_NOT_CONTIGUOUS,
            f"{file_name}:{event.start}",
            witness=f"{file_name}:{self.end}",
            log=self.log_name,
            file=file_name,
            start=event.start,
            expected=self.end,
        )
        self.offsets_doubtful = self.offsets_doubtful or event.start < self.end
        self.lose_continuity()

    def lose_continuity(self) -> None:
        """Part of the present file is missing: resume at the next group (reading rule R2)."""
        self.group_state = GroupState.RESYNC
        self.window.clear()

    def mark_gap(self) -> None:
        """Part of the journal is missing: nothing is known of where the log ends now."""
        self.lose_continuity()
        self.end = -1

    def _is_redelivery(self, event: Event) -> bool:
        """Whether an event before the log's end is a second delivery; if so it is compared."""
        if not self._redelivering:
            self._is_from_head = event.start == MAGIC_LENGTH
        first = self.window.find_event(self.file_number, event.start)
        at = f"{self.file_name}:{event.start}"
        if first is None:
            wrapped = self.end >= 2**32 and event.start == self.end % 2**32
            rows = self.window.rows()
            is_remembered = len(rows) > 0 and (
                (int(rows[0, FILE]), int(rows[0, START])) <= (self.file_number, event.start)
            )
            if wrapped or self.begins_another_file(event) or is_remembered:
                return False
            if not self._redelivering:
                self.reporter.dropped(
                    DroppedEvents.REDELIVERED_FORGOTTEN,
                    at=at,
                    file=self.file_name,
                    start=event.start,
                    channel=self.channel,
                )
            self._redelivering = True
            return True
        is_opener = CLASS_ROWS[event.type][event.query] == _OPENER
        sid, gno = (int(first[SID]), int(first[GNO])) if is_opener else (-1, -1)
        before = int(first[TYPE]), int(first[END]) - event.start, sid, gno
        again = event.type, event.length, event.sid, event.gno
        sums = int(first[CHECKSUM]), event.checksum
        if before != again or (-1 not in sums and sums[0] != sums[1]):
            if self.begins_another_file(event):
                return False
            self.report_anomaly(
                AnomalyKind.REDELIVERY_DIFFERS,
                at,
                **self._content("first", before, sums[0]),
                **self._content("second", again, sums[1]),
            )
        elif not self._redelivering:
            self.reporter.dropped(
                DroppedEvents.REDELIVERED_UNCHANGED,
                at=at,
                file=self.file_name,
                start=event.start,
                channel=self.channel,
            )
        self._redelivering = True
        return True

    def begins_another_file(self, event: Event) -> bool:
        """Whether an event that is not what came before is of another file of its name.

        What comes again from the middle of a file on is a second delivery, and has to be equal.
        """
        if self._is_from_head:
            self.begin_unrecorded(event)
        return self._is_from_head

    def begin_unrecorded(self, event: Event) -> None:
        """The names of files are given again, and the command that did so is not in the journal."""
        self.has_begun_unrecorded = True
        self.reporter.dropped(
            DroppedEvents.LOG_BEGUN_UNRECORDED,
            at=f"{self.file_name}:{event.start}",
            log=self.log_name,
            file=self.file_name,
            commands=self.begun_by,
            channel=self.channel,
        )

    def _content(
        self, delivery: str, content: tuple[int, int, int, int], checksum: int
    ) -> Mapping[str, Any]:
        event_type, length, sid, gno = content
        return {
            f"{delivery}_type": event_type,
            f"{delivery}_length": length,
            f"{delivery}_gtid": f"{self.sids[sid]}:{gno}" if sid >= 0 else "none",
            f"{delivery}_checksum": checksum,
        }

    # Groups, event by event

    def _read_group_event(self, event: Event, event_class: int, end: int) -> Mark:
        state = self.group_state
        if event_class == _OPENER:
            if state in (_OPENED, _BODY) and not self._may_restart:
                self._malformed_group(AnomalyKind.GROUP_INSIDE_GROUP, event)
            self._may_restart = False
            self._open_group(event)
            return _NOTHING
        self._may_restart = False
        if event_class == _INCIDENT:
            self._read_incident(event)
            if state is _IDLE:
                # As the server writes it after a group of which it could not log all.
                return Mark.FILE
        if state is _RESYNC:
            return Mark.UNKNOWN
        if state is _IDLE:
            self._malformed_group(AnomalyKind.EVENT_OUTSIDE_GROUP, event)
            return _NOTHING
        self.group.size += event.length
        self.group.events += 1
        step = (STEP_IN_BODY if state is _BODY else STEP_AFTER_OPENER)[event_class]
        if step is _ENDS:
            return self._close_group(event, end)
        if step is _BEGINS_BODY:
            self.group_state = _BODY
        elif step is not _GOES_ON:
            is_twice = state is _BODY
            kind = AnomalyKind.GROUP_BEGINS_TWICE if is_twice else AnomalyKind.GROUP_WITHOUT_BEGIN
            self._malformed_group(kind, event)
        return _NOTHING

    def _open_group(self, event: Event) -> None:
        has_gtid = event.gno > 0
        self.group = OpenGroup(
            event.start,
            event.length,
            event.type,
            event.sid if has_gtid else -1,
            event.gno if has_gtid else -1,
            event.transaction_length,
            event.server_id,
            event.original_commit_timestamp,
            events=1,
        )
        self.group_state = _OPENED

    def _check_gtid_text(self, event: Event, text: str | None) -> None:
        if event.type == EventType.ANONYMOUS_GTID or event.gno > 0:
            return
        self.report_anomaly(
            AnomalyKind.GTID_UNREADABLE,
            f"{self.file_name}:{event.start}",
            witness=repr(text or ""),
        )

    def _read_incident(self, event: Event) -> None:
        """The writer of the log says that the log lacks something."""

    def _close_group(self, event: Event, end: int) -> Mark:
        group = self.group
        if group.transaction_length > 0 and group.size != group.transaction_length:
            self.report_anomaly(
                AnomalyKind.TRANSACTION_LENGTH_DIFFERS,
                f"{self.file_name}:{group.start}",
                size=group.size,
                announced=group.transaction_length,
            )
        self.group_state = _IDLE
        self._group_complete(event, end)
        return _GROUP

    def is_empty_group(self, last: Event) -> bool:
        """Whether the group that ended with ``last`` changed nothing."""
        is_commit = last.type == _QUERY and last.query == _COMMIT
        return is_commit and self.group.events == EMPTY_EVENTS

    def _group_complete(self, event: Event, end: int) -> None:
        """Take a complete group into account."""
        raise NotImplementedError

    def _malformed_group(self, kind: AnomalyKind, event: Event, **data: Any) -> None:
        self.report_anomaly(
            kind,
            f"{self.file_name}:{event.start}",
            log=self.log_name,
            type=event.type,
            state=self.group_state.name.lower(),
            **data,
        )
        self.group_state = GroupState.RESYNC

    def drop_open_group(self) -> None:
        """Forget an incomplete group without judging it."""
        if self.group_state is not GroupState.IDLE:
            self.group_state = GroupState.RESYNC

    def interrupt_group(self) -> None:
        """An incomplete group may go on, or come again from its beginning."""
        self._may_restart = True

    # Groups, whole columns

    def _read_run(self, block: Block, indices: Array, mapping: Array) -> bool:
        """Take a regular run of events in one step; False (and nothing changed) in any doubt."""
        columns = block.columns
        if self.end < 0 or self.group_state is GroupState.RESYNC:
            return False
        try:
            name = block.files[int(columns["file"][indices[0]])]
            if parse_log_file_name(name) != (self.base_name, self.file_number):
                return False
        except (CoordinateError, IndexError):
            return False
        first, last = int(indices[0]), int(indices[-1])
        rows: Any = slice(first, last + 1) if last - first + 1 == len(indices) else indices
        run = {name: columns[name][rows] for name in LOG_COLUMNS}
        starts = run["start"]
        ends = starts + run["length"]
        if int(starts[0]) != self.end or not np.array_equal(starts[1:], ends[:-1]):
            return False
        run["end"], run["ts"] = ends, columns["ts"][rows]
        scan = scan_groups(run, mapping, self.group_state, self.group)
        if scan is None or not self._run_is_regular(run, scan):
            return False
        ts = int(columns["ts"][last])
        self.reporter.position = (block.epoch, block.first_sequence + last, ts)
        self._take_run(run, scan, mapping)
        self.group = scan.tail
        self.group_state = scan.state
        self.end = int(ends[-1])
        self._redelivering = False
        self._may_restart = False
        return True

    def _run_is_regular(self, run: dict[str, Array], scan: GroupScan) -> bool:
        """Whether every rule of this log holds for the run; must change nothing."""
        raise NotImplementedError

    def _take_run(self, run: dict[str, Array], scan: GroupScan, mapping: Array) -> None:
        """Take a regular run into account; the common state follows."""
        raise NotImplementedError

    def _remember_run(
        self, run: dict[str, Array], scan: GroupScan, mapping: Array, source: Array | None
    ) -> None:
        """Put the last events of a run into the window; ``source``: source position of each."""
        count = len(run["start"])
        kept = min(count, self.window.limit)
        skipped = count - kept
        rows = np.empty((kept, COLUMN_COUNT), dtype=np.int64)
        rows[:, 0] = self.file_number
        rows[:, 1] = run["start"][skipped:]
        rows[:, 2] = run["end"][skipped:]
        rows[:, 3] = Mark.NOTHING
        ends = scan.ends[np.searchsorted(scan.ends, skipped) :]
        rows[ends - skipped, 3] = Mark.GROUP
        rows[:, 4] = run["type"][skipped:]
        rows[:, 5] = run["checksum"][skipped:]
        rows[:, 6] = mapping[run["sid"][skipped:]]
        rows[:, 7] = run["gno"][skipped:]
        rows[:, 8] = self.source_number
        rows[:, 9] = -1 if source is None else source[skipped:]
        rows[:, 10] = run["ts"][skipped:]
        # The event that ends a group carries the group's GTID, as on the event-by-event path.
        first_group = len(scan.ends) - len(ends)
        rows[ends - skipped, 6] = scan.sid[first_group:]
        rows[ends - skipped, 7] = scan.gno[first_group:]
        if skipped:
            self.window.has_forgotten = True
        self.window.extend(rows)
