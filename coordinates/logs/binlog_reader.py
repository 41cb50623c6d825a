"""Reading an instance's binary log: framing, positions, GTIDs, and the set L that it has logged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.events.journal import ABSENT
from tallystick.coordinates.events.log_events import EventClass
from tallystick.coordinates.logs.anomaly import AnomalyKind, DroppedEvents
from tallystick.coordinates.logs.binlog_framing import (
    FIELD_MASK,
    FILE_HEAD,
    BinlogFileReader,
)
from tallystick.coordinates.logs.event_window import END, FILE, GNO, MARK, SID, TYPE, Mark
from tallystick.coordinates.logs.log_groups import GroupState
from tallystick.coordinates.state_codec import TRANSIENT
from tallystick.coordinates.values.binlog import (
    FIRST_POSITION,
    EventType,
    format_log_file_name,
    parse_log_file_name,
)
from tallystick.coordinates.values.errors import CoordinateError, GtidSetParseError
from tallystick.coordinates.values.growing_set import GrowingGtidSet
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tallystick.coordinates.events.log_events import Event
    from tallystick.coordinates.logs.log_groups import GroupScan

    Array = npt.NDArray[Any]

FIRST_NUMBER = 1
XID_GROUPS_REMEMBERED = 64
EMPTY_INTERVALS_MAX = 1_024
_FIRST_EVENT_END = 100
"""No FORMAT_DESCRIPTION ends before."""
# Names of members are looked up by a function each time; these are read for every event.
_XID, _PREVIOUS_GTIDS = int(EventType.XID), int(EventType.PREVIOUS_GTIDS)
_FRAMING_CLASS, _OPENER = int(EventClass.FRAMING), int(EventClass.OPENER)
_FRAMING, _GROUP = Mark.FRAMING, Mark.GROUP
_GROUP_MARK = int(Mark.GROUP)
_AWAITED = (EventType.XID, EventType.XA_PREPARE, EventType.TRANSACTION_PAYLOAD)
"""What a group ends with that InnoDB has prepared: a rotation waits until it is committed."""


@dataclass(slots=True, eq=False)
class BinlogReader(BinlogFileReader):
    """The binary log.

    Attributes:
        lineage: How many times the binary log, or the numbers of its files, began anew; 0 for the
            first.
        logged: L so far: Previous_gtids of all files and the GTIDs of all complete groups.
        logged_is_complete: False while part of the log was missed and no PREVIOUS_GTIDS has closed
            the gap; then `logged` is a lower bound.
        grouped: GTIDs of the groups alone, without what only a PREVIOUS_GTIDS listed.
        empty: Those of `grouped` whose groups changed nothing.
        maybe_empty: Those of `grouped` of which that is not remembered, as there were too many.
        local: GTIDs of other servers' UUIDs that this server logged under its own server id.
        of_unknown_writer: Those whose server id, or this server's own one, is not known.
        previous: Previous_gtids of each file seen and still kept, by its name, the oldest first.
        closed: Where each file ends that was read from its head to a ROTATE or STOP, or that a
            start after a crash found, by its name.
        oldest_file: The oldest file kept as far as the journal has it, None unknown.
        table_only: GTIDs that a PREVIOUS_GTIDS added without a group: they must be purged ones.
        xid_groups: The first groups that ended in XID since the last log_status row.
        torn_off: GTIDs of the groups that crashes took out of the log.
        base_has_past: Whether the journal has what the files before the present one logged.
        is_renamed: Whether files of another base name begin, of which no head was read yet.
    """

    lineage: int = 0
    logged: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    logged_is_complete: bool = True
    grouped: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    empty: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    maybe_empty: GtidSet = GtidSet.EMPTY
    file_set: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    local: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    of_unknown_writer: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    previous: dict[str, GtidSet] = field(default_factory=dict)
    closed: dict[str, int] = field(default_factory=dict)
    oldest_file: str | None = None
    table_only: GtidSet = GtidSet.EMPTY
    xid_groups: list[tuple[int, int]] = field(default_factory=list)
    torn_off: GtidSet = GtidSet.EMPTY
    base_has_past: bool = False
    is_renamed: bool = False
    _gathered_start: int = field(default=0, metadata=TRANSIENT)
    _gathered_instant: tuple[int, int] = field(default=(0, 0), metadata=TRANSIENT)
    _gathered_ends: list[int] = field(default_factory=list, metadata=TRANSIENT)
    _gathered_groups: list[tuple[int, ...]] = field(default_factory=list, metadata=TRANSIENT)

    # Files

    def _switch_file(self, event: Event, base_name: str, file_number: int) -> bool:
        if self.base_name == base_name and file_number < self.file_number:
            if self.end >= 0:
                self._check_old_file(event, file_number)
                return False
            # Behind a gap: a RESET went unseen, or the observer began anew further back.
            self.begin_lineage("unseen")
        elif self.base_name not in (None, base_name):
            name = format_log_file_name(base_name, file_number)
            if self.end >= 0 and name in self.previous:
                self._drop_again(event, name)
                return False
            self._begin_names()
        self._check_end(base_name, file_number)
        is_known = self.base_name == base_name and self.end >= 0
        if is_known:
            self._check_next_number(base_name, file_number)
            self._file_ended(self.file_number, self.end, file_number)
        self.emit_gathered()
        if self.group_state in (GroupState.OPENED, GroupState.BODY):
            # A crash took the rest of it: ROTATE inside it would have been judged.
            self.group_state = GroupState.IDLE
        if self.base_name is None and self.oldest_file is None and file_number == FIRST_NUMBER:
            # Of another first file nobody knows how many are older.
            self.oldest_file = format_log_file_name(base_name, file_number)
        self.base_name = base_name
        self.file_number = file_number
        self.rotate_at, self.next_number = "", file_number + 1
        self.is_closed = self.has_stopped = False
        self.must_open_file = False
        self.offsets_doubtful = False
        if event.start == FIRST_POSITION or is_known:
            self.end = FIRST_POSITION
            self.file_events = 0
            self.last_sequence_number = 0
        else:
            self.end = event.start
            self.file_events = len(FILE_HEAD)
            self.last_sequence_number = ABSENT
            self.logged_is_complete = False
            self.group_state = GroupState.RESYNC
        return True

    def _check_end(self, base_name: str, file_number: int) -> None:
        """Another file begins: what must be between the present one and that?

        With a start that is not in the journal settings have changed, and after a crash the end of
        a file is gone: nothing of that is held against what follows.
        """
        if self.end >= 0 and not self.must_open_file:
            if not self.is_closed:
                self._note_missing(DroppedEvents.FILE_LEFT_OPEN, base_name, file_number)
                self.server_ended = True
                self.lineage += 1
                self.mark_gap()
                self.server.started_unseen()
            elif self.has_stopped:
                self._note_missing(DroppedEvents.START_LEFT_OUT, base_name, file_number)
                self.server.started_unseen()
        is_beyond = file_number > self.next_number and base_name == self.base_name
        self.may_lack_files = self.end >= 0 and is_beyond and not self.rotate_at

    def _check_left_out(self, event: Event, previous: GtidSet | None) -> None:
        """A start has left out numbers: if there were files of them, what had they logged?

        Nothing, if there are GTIDs alone and the next file's PREVIOUS_GTIDS has no more of them.
        """
        self.may_lack_files = False
        is_known = self.logged_is_complete and self.server.gtid_mode == "ON"
        if is_known and previous is not None and previous <= self.logged.freeze():
            return
        self.reporter.dropped(
            DroppedEvents.NUMBERS_LEFT_OUT,
            at=f"{self.file_name}:{event.start}",
            log=self.log_name,
            file=self.followed.pop(self.file_name),
            next_file=self.file_name,
            channel=self.channel,
        )
        self.lineage += 1
        self.forget_logged()
        self.closed = {}
        self.oldest_file = None
        self.reporter.fleet_event(FleetEventKind.GAP, {"binlog_lineage": self.lineage})

    def _begin_names(self) -> None:
        """Files of another base name: positions of old ones mean nothing among their numbers.

        Whether the index goes on, and what the log holds stays, is shown by the next head.
        """
        self.is_renamed = True
        if self.end >= 0:
            self._file_ended(self.file_number, self.end)
        else:
            # Behind a gap: a RESET may have gone unseen, and old names been given out again.
            self.previous = {}
            self.closed = {}
            self.followed = {}
        self.emit_gathered()
        self.window.clear()
        self.lineage += 1
        self.reporter.fleet_event(
            FleetEventKind.LINEAGE, {"binlog_lineage": self.lineage, "reason": "renamed"}
        )

    def _begin_index(self, previous: GtidSet) -> None:
        """The new name has an index of its own: no file of the old name is in it.

        What those held counts as purged then. Behind an empty head there is no older file.
        """
        self.logged = GrowingGtidSet()
        self.grouped = GrowingGtidSet()
        self._forget_empty()
        self.previous = {}
        self.closed = {}
        self.followed = {}
        self.table_only = GtidSet.EMPTY
        self.base_has_past = False
        self.oldest_file = None if previous else self.file_name

    def _check_old_file(self, event: Event, file_number: int) -> None:
        """An event of a file before the present one can only be a second delivery."""
        present, self.file_number = self.file_number, file_number
        if not self._is_redelivery(event) and not self.has_begun_unrecorded:
            self._drop_again(event, self.file_name)
        self._redelivering = True
        self.file_number = present

    def _drop_again(self, event: Event, file: str) -> None:
        """A second delivery of what is not remembered."""
        if not self._redelivering:
            self.reporter.dropped(
                DroppedEvents.REDELIVERED_LATE, at=f"{file}:{event.start}", file=file
            )
        self._redelivering = True

    def _file_ended(self, file_number: int, end: int, next_number: int | None = None) -> None:
        self.emit_gathered()
        self.reporter.fleet_event(
            FleetEventKind.FILE_END,
            {
                "binlog_lineage": self.lineage,
                "base_name": self.base_name,
                "file_number": file_number,
                "end": end,
                "next_number": next_number,
            },
        )

    # One event in its file

    def _read_in_file(self, event: Event, event_class: int, end: int, text: str | None) -> Mark:
        if self.must_open_file:
            self._check_appended(event)
        if self.is_closed or self.file_events < len(FILE_HEAD):
            self._check_framing(event)
        if event.log_pos != end & FIELD_MASK:
            self._check_log_pos(event, end)
        self.file_events += 1
        mark = _FRAMING
        if event_class == _FRAMING_CLASS:
            mark = self._read_framing(event, text or "")
        # Another type where FORMAT_DESCRIPTION belongs was judged by its framing alone.
        elif self.file_events > 1:
            if event_class == _OPENER:
                self._check_gtid_text(event, text)
                self._check_sequence_number(event)
                self._check_gtid_mode(event)
            mark = self._read_group_event(event, event_class, end)
        ends = self._gathered_ends
        if not ends:
            self.reporter.hold(self.emit_gathered)
            self._gathered_start = event.start
            self._gathered_instant = self.reporter.position[2], 0
        self._gathered_at = self.reporter.position
        first_ts, count = self._gathered_instant
        if count == len(ends) and self._gathered_at[2] == first_ts:
            self._gathered_instant = first_ts, count + 1
        ends.append(end)
        if mark is _GROUP:
            group = self.group
            is_empty = self.is_empty_group(event)
            if is_empty and group.sid >= 0:
                self._note_empty(self.sids[group.sid], group.gno)
            self._gathered_groups.append(
                (len(ends) - 1, group.sid, group.gno, group.server_id, group.commit_ts, is_empty)
            )
        if self.rotate_at and self.next_number > self.file_number + 1:
            self._file_ended(self.file_number, end, self.next_number)
        return mark

    def _read_framing(self, event: Event, text: str) -> Mark:
        is_inside = self.group_state in (GroupState.OPENED, GroupState.BODY)
        if event.type == _PREVIOUS_GTIDS:
            self._read_previous_gtids(event, text)
            return Mark.HEADER
        if event.type in (EventType.ROTATE, EventType.STOP):
            if is_inside:
                self._malformed_group(AnomalyKind.FILE_ENDS_INSIDE_GROUP, event)
            if event.type == EventType.ROTATE:
                self._check_rotate(event, text)
            self.is_closed = True
            self.has_stopped = self.server_ended = event.type == EventType.STOP
            if self.logged_is_complete and not self.offsets_doubtful:
                self.closed[self.file_name] = event.start + event.length
            return Mark.FILE
        if is_inside:
            self._malformed_group(AnomalyKind.FORMAT_DESCRIPTION_INSIDE_GROUP, event)
        return _FRAMING

    def emit_gathered(self) -> None:
        """Hand what the event-by-event path has gathered to the fleet."""
        if not self._gathered_ends:
            return
        groups = np.array(self._gathered_groups, dtype=np.int64).reshape(-1, 6).T
        ends = np.array(self._gathered_ends, dtype=np.int64)
        self._gathered_ends = []
        self._gathered_groups = []
        self._emit_logged(
            self._gathered_start, ends, groups, self._gathered_instant, self._gathered_at
        )

    def _read_previous_gtids(self, event: Event, text: str) -> None:
        at = f"{self.file_name}:{event.start}"
        try:
            previous = GtidSet.parse(text, tags=self.server.knows_tags)
        except GtidSetParseError as error:
            self._report_unreadable_head(at, text, error)
            if self.may_lack_files:
                self._check_left_out(event, None)
            self.logged_is_complete = False
            return
        if self.may_lack_files:
            self._check_left_out(event, previous)
        if self.is_renamed and previous.isdisjoint(self.logged.freeze()):
            self._begin_index(previous)
        self.is_renamed = False
        logged = GtidSet.EMPTY
        if self.logged_is_complete and self.base_has_past:
            before = self.file_set.freeze()
            missing = before - previous
            if missing:
                self.report_anomaly(
                    AnomalyKind.ROTATED_WHILE_COMMITTING
                    if missing <= self._unawaited()
                    else AnomalyKind.PREVIOUS_GTIDS_LACK,
                    at,
                    witness=missing,
                    file=self.file_name,
                    missing=missing,
                    previous=previous,
                    expected=before,
                )
            logged = self.logged.freeze()
            extra = previous - before - logged
            if extra:
                self.table_only = self.table_only | extra
        self.base_has_past = True
        self.logged.add_set(previous)
        self.logged_is_complete = True
        self.file_set = GrowingGtidSet(previous)
        self.previous[self.file_name] = previous
        self.emit_gathered()
        self.reporter.fleet_event(
            FleetEventKind.PREVIOUS,
            {
                "binlog_lineage": self.lineage,
                "base_name": self.base_name,
                "file_number": self.file_number,
                # What it lacks is in earlier files all the same.
                "gtid_set": str(previous | logged),
            },
        )

    def _unawaited(self) -> GtidSet:
        """GTIDs of the last groups, which may be committed after the rotation.

        It waits for those that InnoDB has prepared, and so for all before one of these where
        commits are ordered.
        """
        rows = self.window.rows()
        groups = rows[rows[:, MARK] == Mark.GROUP]
        is_awaited = np.isin(groups[:, TYPE], _AWAITED)
        if self.server.commits_are_ordered:
            last = int(np.flatnonzero(is_awaited).max(initial=-1))
            groups, is_awaited = groups[last + 1 :], is_awaited[last + 1 :]
        named = groups[~is_awaited & (groups[:, SID] >= 0)]
        return GtidSet.from_groups(self.sids, named[:, SID], named[:, GNO])

    # Groups

    def _read_incident(self, event: Event) -> None:
        self.report_anomaly(
            AnomalyKind.EVENTS_LOST, f"{self.file_name}:{event.start}", log=self.log_name
        )

    def _group_complete(self, event: Event, end: int) -> None:
        group = self.group
        if event.type == _XID and len(self.xid_groups) < XID_GROUPS_REMEMBERED:
            self.xid_groups.append((group.sid, group.gno))
        if group.sid < 0:
            return
        sid = self.sids[group.sid]
        if self.logged.contains(sid, group.gno):
            at = f"{self.file_name}:{group.start}"
            self.report_anomaly(AnomalyKind.GTID_LOGGED_TWICE, at, witness=f"{sid}:{group.gno}")
        for gtids in (self.logged, self.grouped, self.file_set):
            gtids.add(sid, group.gno)
        own, own_id = self.server.server_uuid, self.server.server_id
        if own is not None and not sid.startswith(own):
            if group.server_id == ABSENT or own_id is None:
                self.of_unknown_writer.add(sid, group.gno)
            elif group.server_id == own_id:
                self.local.add(sid, group.gno)

    def _note_empty(self, sid: str, gno: int) -> None:
        """In the order of the log; scattered ones, as filters leave them, are forgotten at once."""
        self.empty.add(sid, gno)
        if self.empty.interval_count() > EMPTY_INTERVALS_MAX:
            bounds = self.empty.freeze().bounds().items()
            hull = {sid: [ends[0], ends[-1]] for sid, ends in bounds}
            self.maybe_empty = self.maybe_empty | GtidSet.from_bounds(hull)
            self.empty = GrowingGtidSet()

    def _emit_logged(
        self,
        start: int,
        event_ends: Array,
        groups: Sequence[Array] | Array,
        instant: tuple[int, int],
        journal_position: tuple[int, int, int] | None = None,
    ) -> None:
        """Hand a run of events to the fleet.

        Args:
            start: Where the first one begins.
            event_ends: Where each ends.
            groups: LOGGED's ``group_…``.
            instant: The time of the first one, and how many from it on have that time.
            journal_position: Of the last one; None: where the journal is read.
        """
        event, sid, gno, server_id, commit_ts, is_empty = groups
        sids, sid = self.sids_in(sid)
        self.reporter.fleet_event(
            FleetEventKind.LOGGED,
            {
                "binlog_lineage": self.lineage,
                "base_name": self.base_name,
                "file_number": self.file_number,
                "start": start,
                "sids": sids,
                "first_ts": instant[0],
                "first_count": instant[1],
            },
            {
                "event_ends": event_ends,
                "group_event": event.astype(np.int32),
                "group_sid": sid,
                "group_gno": gno,
                "group_server_id": server_id,
                "group_commit_ts": commit_ts,
                "group_is_empty": is_empty.astype(np.bool_),
            },
            journal_position,
        )

    # Whole columns

    def _run_is_regular(self, run: dict[str, Array], scan: GroupScan) -> bool:
        if not self._fits_the_file(run, scan.openers):
            return False
        for number, gnos in _by_sid(scan):
            if self.logged.contains_any(self.sids[number], gnos):
                return False
            is_ascending = (gnos[1:] > gnos[:-1]).all()
            if not is_ascending and len(np.unique(gnos)) < len(gnos):
                return False
        return True

    def _take_run(self, run: dict[str, Array], scan: GroupScan, mapping: Array) -> None:
        self.emit_gathered()
        self._count_in_file(run, scan.openers)
        for number, gnos in _by_sid(scan):
            sid = self.sids[number]
            for gtids in (self.logged, self.grouped, self.file_set):
                gtids.add_gnos(sid, gnos)
            own, own_id = self.server.server_uuid, self.server.server_id
            if own is not None and not sid.startswith(own):
                writers = scan.server_id[scan.sid == number]
                unknown = gnos if own_id is None else gnos[writers == ABSENT]
                mine = gnos[:0] if own_id is None else gnos[writers == own_id]
                if len(unknown):
                    self.of_unknown_writer.add_gnos(sid, unknown)
                if len(mine):
                    self.local.add_gnos(sid, mine)
        for index in np.flatnonzero(scan.is_empty & (scan.sid >= 0)).tolist():
            self._note_empty(self.sids[int(scan.sid[index])], int(scan.gno[index]))
        if len(self.xid_groups) < XID_GROUPS_REMEMBERED:
            xids = np.flatnonzero(run["type"][scan.ends] == _XID)
            xids = xids[: XID_GROUPS_REMEMBERED - len(self.xid_groups)]
            self.xid_groups += zip(scan.sid[xids].tolist(), scan.gno[xids].tolist(), strict=True)
        self._remember_run(run, scan, mapping, None)
        ts = run["ts"]
        self._emit_logged(
            int(run["start"][0]),
            run["end"],
            (scan.ends, scan.sid, scan.gno, scan.server_id, scan.commit_ts, scan.is_empty),
            (int(ts[0]), int((ts != ts[0]).argmax()) or len(ts)),
        )

    # What happens to the log as a whole

    def server_started(self, crashed: bool, recovered: tuple[str, int] | None) -> None:
        """A boot: the next event opens a file; after a crash what was torn or lost leaves L."""
        self.emit_gathered()
        self.must_open_file = self.base_name is not None
        self.group_state = GroupState.IDLE
        if not crashed or self.base_name is None:
            return
        known, self.closed = self.closed, {}
        if recovered is None:
            self._lose_end()
            return
        try:
            base_name, file_number = parse_log_file_name(recovered[0])
        except CoordinateError:
            base_name, file_number = recovered[0], -1
        if base_name == self.base_name:
            self.closed = {
                name: end for name, end in known.items() if _is_older(name, base_name, file_number)
            }
            self.closed[recovered[0]] = recovered[1]
        if base_name != self.base_name or not self.window.covers(file_number, recovered[1]):
            self._lose_end()
            return
        gone = self.window.truncate(file_number, recovered[1])
        lost = gone[(gone[:, MARK] == Mark.GROUP) & (gone[:, SID] >= 0)]
        if len(lost):
            gtids = GtidSet.from_groups(self.sids, lost[:, SID], lost[:, GNO])
            self.torn_off = self.torn_off | gtids
            self.logged = GrowingGtidSet(self.logged.freeze() - gtids)
            self.grouped = GrowingGtidSet(self.grouped.freeze() - gtids)
            self.empty = GrowingGtidSet(self.empty.freeze() - gtids)
            self.maybe_empty = self.maybe_empty - gtids
            self.file_set = GrowingGtidSet(self.file_set.freeze() - gtids)
            self.local = GrowingGtidSet(self.local.freeze() - gtids)
            self.of_unknown_writer = GrowingGtidSet(self.of_unknown_writer.freeze() - gtids)
        if file_number == self.file_number:
            if recovered[1] < self.end:
                self.rotate_at = ""
                self.end = recovered[1]
        elif len(gone) and (gone[:, FILE] > file_number).any():
            self.rotate_at = ""
            self.file_number = file_number
            self.end = recovered[1]
        elif file_number == self.next_number and recovered[1] < _FIRST_EVENT_END:
            # A power cut left nothing of the file's head that could be read.
            self._follow(base_name, file_number)
            self.rotate_at, self.next_number = "", file_number + 1
            self.file_number = file_number
            self.end = recovered[1]

    def _lose_end(self) -> None:
        """A crash took groups out of the log, and which ones is not known."""
        self.rotate_at = ""
        self.forget_logged()
        self.reporter.fleet_event(FleetEventKind.GAP, {"binlog_lineage": self.lineage})

    def begins_another_file(self, event: Event) -> bool:
        """Not right after a start: then it is the data that has gone back."""
        return not self.must_open_file and BinlogFileReader.begins_another_file(self, event)

    def begin_unrecorded(self, event: Event) -> None:
        """RESET BINARY LOGS AND GTIDS, which is not in the journal."""
        BinlogFileReader.begin_unrecorded(self, event)
        self.mark_gap()

    def forget_logged(self) -> None:
        """What was logged is uncertain until the next PREVIOUS_GTIDS."""
        self.logged_is_complete = False
        self.torn_off = GtidSet.EMPTY
        self.logged = GrowingGtidSet()
        self.grouped = GrowingGtidSet()
        self._forget_empty()
        self.file_set = GrowingGtidSet()
        self.window.clear()

    def _forget_empty(self) -> None:
        self.empty = GrowingGtidSet()
        self.maybe_empty = GtidSet.EMPTY

    def lose_continuity(self) -> None:
        """Part of the file is missing: L is a lower bound until the next PREVIOUS_GTIDS."""
        BinlogFileReader.lose_continuity(self)
        self.file_events = max(self.file_events, len(FILE_HEAD))
        self.logged_is_complete = False
        self.last_sequence_number = ABSENT
        self.emit_gathered()
        self.reporter.fleet_event(FleetEventKind.GAP, {"binlog_lineage": self.lineage})

    def mark_gap(self) -> None:
        """Records are missing, maybe a RESET among them: nothing earlier bounds what comes."""
        BinlogFileReader.mark_gap(self)
        self.forget_logged()
        self.closed = {}
        self.oldest_file = None
        self.rotate_at = ""
        self.is_closed = self.has_stopped = False
        self.must_open_file = False

    def begin_lineage(self, reason: str) -> None:
        """The binary log begins anew: RESET, clone, restore, or unseen after a gap."""
        self.emit_gathered()
        self.lineage += 1
        self.base_name = None
        self.end = -1
        self.group_state = GroupState.IDLE
        self.logged = GrowingGtidSet()
        self.grouped = GrowingGtidSet()
        self._forget_empty()
        self.file_set = GrowingGtidSet()
        self.local = GrowingGtidSet()
        self.of_unknown_writer = GrowingGtidSet()
        self.logged_is_complete = True
        self.base_has_past = False
        self.previous = {}
        self.followed = {}
        self.closed = {}
        self.oldest_file = None
        self.table_only = self.torn_off = GtidSet.EMPTY
        self.xid_groups = []
        self.rotate_at, self.next_number = "", ABSENT
        self.may_lack_files = False
        self.is_closed = self.has_stopped = False
        self.must_open_file = False
        self.window.clear()
        self.window.has_forgotten = False
        self.reporter.fleet_event(
            FleetEventKind.LINEAGE, {"binlog_lineage": self.lineage, "reason": reason}
        )

    def purge(self, to_file: str) -> None:
        """PURGE: `to_file` is the oldest file now."""
        try:
            base_name, number = parse_log_file_name(to_file)
        except CoordinateError:
            self.oldest_file = None
            return
        is_beyond = base_name == self.base_name and number > self.file_number
        if is_beyond and self.end >= 0 and not self.must_open_file:
            self.report_anomaly(
                AnomalyKind.ACTIVE_FILE_PURGED,
                f"purge to {to_file}",
                witness=to_file,
                to_file=to_file,
                file=self.file_name,
            )
        self.oldest_file = to_file
        names = list(self.previous)
        if to_file in self.previous:
            gone = set(names[: names.index(to_file)])
        else:
            gone = {name for name in names if _is_older(name, base_name, number)}
        self.previous = {n: gtids for n, gtids in self.previous.items() if n not in gone}
        self.closed = {n: end for n, end in self.closed.items() if n in self.previous}
        self.followed = {n: file for n, file in self.followed.items() if n in self.previous}
        self.reporter.fleet_event(
            FleetEventKind.PURGED,
            {"binlog_lineage": self.lineage, "base_name": base_name, "file_number": number},
        )

    # What rows are compared with

    def free_own_gnos(self) -> GtidSet | None:
        """GNOs of the own UUID below the last one logged that the log does not hold; None unknown.

        They count as free as long as they are not executed, purged, or owned by a session.
        """
        own = self.server.server_uuid
        if own is None or not self.logged_is_complete:
            return None
        logged = self.logged.freeze().restrict(own)
        up_to = {sid: [1, self.logged.last(sid) + 1] for sid in logged.sids()}
        return GtidSet.from_bounds(up_to) - logged

    def changing(self, gtids: GtidSet) -> GtidSet:
        """Those of the GTIDs whose groups are known to have changed something."""
        return (gtids & self.grouped.freeze()) - self.empty.freeze() - self.maybe_empty

    def logged_at(self, file_number: int, position: int) -> GtidSet | None:
        """L(P), None when the position is older than what is remembered or L is incomplete."""
        if not self.logged_is_complete:
            return None
        logged = self.logged.freeze()
        if (file_number, position) >= (self.file_number, self.end):
            return logged
        if not self.window.covers(file_number, position):
            return None
        later = self.groups_after(file_number, position)
        if not len(later):
            return logged
        return logged - GtidSet.from_groups(self.sids, later[:, SID], later[:, GNO])

    def groups_after(self, file_number: int, position: int) -> npt.NDArray[np.int64]:
        """Remembered groups with a GTID that end beyond the position."""
        rows = self.window.after(file_number, position)
        groups: npt.NDArray[np.int64] = rows[(rows[:, MARK] == _GROUP_MARK) & (rows[:, SID] >= 0)]
        return groups

    def groups_up_to(self, file_number: int, position: int) -> npt.NDArray[np.int64]:
        """Remembered groups with a GTID that end at or before the position, oldest first."""
        rows = self.window.rows()
        rows = rows[(rows[:, MARK] == _GROUP_MARK) & (rows[:, SID] >= 0)]
        earlier = (rows[:, FILE] < file_number) | (
            (rows[:, FILE] == file_number) & (rows[:, END] <= position)
        )
        found: npt.NDArray[np.int64] = rows[earlier]
        return found


def _is_older(name: str, base_name: str, number: int) -> bool:
    base, own_number = parse_log_file_name(name)
    return base == base_name and own_number < number


def _by_sid(scan: GroupScan) -> list[tuple[int, Array]]:
    """(index of a sid, its GNOs in log order) for each sid of the run."""
    sid, gno = scan.sid, scan.gno
    if not len(sid):
        return []
    if sid[0] == sid[-1] and (sid == sid[0]).all():
        return [] if sid[0] < 0 else [(int(sid[0]), gno)]
    return [(int(n), gno[sid == n]) for n in np.unique(sid) if n >= 0]
