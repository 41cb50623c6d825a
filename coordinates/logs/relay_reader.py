"""Reading one channel's relay log: source positions, received GTIDs, groups to be applied."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.events.journal import FLAG_ARTIFICIAL, FLAG_RELAY_LOG
from tallystick.coordinates.events.log_events import EventClass
from tallystick.coordinates.logs.anomaly import AnomalyKind, DroppedEvents
from tallystick.coordinates.logs.applied_file_names import AppliedFileNames
from tallystick.coordinates.logs.event_window import EventWindow, Mark
from tallystick.coordinates.logs.group_queue import (
    Q_END,
    Q_FILE,
    Q_GNO,
    Q_SID,
    Q_SOURCE_END,
    Q_SOURCE_FILE,
    Q_TYPE,
    QUEUE_COLUMNS,
    GroupQueue,
)
from tallystick.coordinates.logs.log_groups import GroupState
from tallystick.coordinates.logs.log_reader import LogReader
from tallystick.coordinates.state_codec import TRANSIENT
from tallystick.coordinates.values.binlog import (
    FIRST_POSITION,
    POSITION_MAX,
    WRAP,
    EventType,
    format_log_file_name,
    parse_log_file_name,
)
from tallystick.coordinates.values.errors import CoordinateError, GtidSetParseError
from tallystick.coordinates.values.growing_set import GrowingGtidSet
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallystick.coordinates.events.log_events import Event
    from tallystick.coordinates.logs.log_groups import GroupScan
    from tallystick.coordinates.values.binlog import LogCoordinates

    Array = npt.NDArray[Any]

ABSENT = -1
EVENTS_REMEMBERED = 512
WRAP_ZONE = 2**30
"""An event is at most 1 GiB, so a field can only have wrapped from within 1 GiB below 2^32."""

# Names of members are looked up by a function each time; these are read for every event.
_FRAMING, _OPENER = int(EventClass.FRAMING), int(EventClass.OPENER)
_ANONYMOUS_GTID = int(EventType.ANONYMOUS_GTID)


@dataclass(slots=True, eq=False)
class RelayReader(LogReader):
    """The relay log of one channel.

    Attributes:
        lineage: How many times the channel began anew.
        received: Q, GTIDs of complete groups received; what Retrieved_Gtid_Set should say.
        received_is_complete: False while part of the relay log was missed.
        received_ever: The same over all lineages.
        inherited: What of Q only the head of a file says, of files that were not seen.
        source_base: Base name of the source's file being copied, None not known.
        source_number: Its number.
        has_renamed: Whether files of the source of another base name were copied before.
        source_end: Source position after the last event, 64 bits, -1 not known.
        sender: server_id of the server that the receiver was connected to, -1 not known.
        source_high: Highest (file number, position) read of the source; relay log recovery gives
            up what was received, not what was executed of it.
        has_missed: Whether events were not seen, so that more may have been read than
            ``source_high`` says.
        steps_back: How often a new connection began at an earlier position of the source's log; the
            applier then executes the source's ROTATE, and Ex steps back as well.
        steps_ahead: From where to where such ROTATE events end that the applier has not come to:
            file numbers and positions.
        position_end: Source position after the very last event, even where it fell.
        has_unpositioned: Whether the last events of the source had no ``log_pos``: ``source_end``
            and ``source_high`` are then of an earlier one.
        follows_hole: Whether part of the relay log is missing since the last groups emitted.
        is_given_up: Whether the channel has given up its relay log, and no file of the next one was
            read.
        may_be_closed: Whether the present file has ended with ROTATE or STOP, or with its server.
        may_name_former: Whether log_status may name the relay log that CHANGE REPLICATION SOURCE
            has removed: nothing was seen of a source since that, or since records were missed.
        is_of_one_source: Whether all of it was read from its first file on, which came after the
            channel had given up the one before, and all of it is of one sender.
        file_names: Which file of the source an applier names.
    """

    log_name = "relay log"
    begun_by = "RESET REPLICA, CHANGE REPLICATION SOURCE"

    window: EventWindow = field(default_factory=lambda: EventWindow(EVENTS_REMEMBERED))
    lineage: int = 0
    received: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    received_is_complete: bool = True
    received_ever: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    inherited: GtidSet = GtidSet.EMPTY
    forgotten: GtidSet = GtidSet.EMPTY
    """What the head of the present file does not know, though nobody was seen to begin anew."""
    cut: GtidSet = GtidSet.EMPTY
    """What the head of the present file does not know, though the server was stopped in order and
    the file follows the one that held it."""
    is_next_file: bool = False
    has_restarted: bool = False
    """Whether the server was stopped in order and started since the last head."""
    source_base: str | None = None
    has_renamed: bool = False
    source_end: int = ABSENT
    sender: int = ABSENT
    source_high: tuple[int, int] = (ABSENT, ABSENT)
    has_missed: bool = False
    has_fallen: bool = False
    has_unpositioned: bool = False
    follows_hole: bool = False
    may_step_back: bool = True
    steps_back: int = 0
    steps_ahead: tuple[tuple[int, int], tuple[int, int]] | None = None
    queue: GroupQueue = field(default_factory=GroupQueue)
    """Received groups not yet known to be applied, and a few before them."""
    has_anonymous: bool = False
    is_of_one_source: bool = False
    is_given_up: bool = False
    may_name_former: bool = True
    may_be_closed: bool = False
    file_names: AppliedFileNames = field(default_factory=AppliedFileNames)
    _gathered: list[tuple[int, ...]] = field(default_factory=list, metadata=TRANSIENT)

    def compact(self) -> None:
        """As of every log; and bring the queue into the one array that is saved."""
        LogReader.compact(self)
        self.queue.compact()

    @property
    def is_of_one_base(self) -> bool:
        """Whether all of it is known to be of files of ``source_base``."""
        is_all_seen = self.is_of_one_source and not (self.has_missed or self.has_renamed)
        return is_all_seen and self.source_base is not None

    # Files

    def _switch_file(self, event: Event, base_name: str, file_number: int) -> bool:
        if base_name == self.base_name and file_number < self.file_number and self.end >= 0:
            present, self.file_number = self.file_number, file_number
            if self._is_redelivery(event):
                self.file_number = present
                return False
            if self.base_name is not None:
                self.begin_unrecorded(event)
        is_known = self.base_name == base_name and self.end >= 0
        if not is_known:
            self.queue.clear()
        if is_known and not self.may_be_closed:
            self._note_missing(DroppedEvents.FILE_LEFT_OPEN, base_name, file_number)
        self.may_be_closed = False
        self.is_next_file = is_known and file_number == self.file_number + 1
        if not is_known and event.start > FIRST_POSITION:
            self.group_state = GroupState.RESYNC
            self.received_is_complete = False
            self.has_missed = True
        # What a receiver alone that is pointed elsewhere goes on with has a later number.
        is_first = file_number == 1 and event.start == FIRST_POSITION
        if is_first:
            self.file_names = AppliedFileNames.from_the_start()
        if self.is_given_up:
            self.is_of_one_source, self.is_given_up = is_first, False
        self.base_name = base_name
        self.file_number = file_number
        self.offsets_doubtful = False
        self.end = FIRST_POSITION if event.start == FIRST_POSITION or is_known else event.start
        return True

    def begin_unrecorded(self, event: Event) -> None:
        """RESET REPLICA or CHANGE REPLICATION SOURCE, which is not in the journal."""
        LogReader.begin_unrecorded(self, event)
        self.begin_lineage()
        self.forget_files()
        self.reporter.fleet_event(FleetEventKind.GAP, {"channel": self.channel})

    # One event in its file

    def _read_in_file(self, event: Event, event_class: int, end: int, text: str | None) -> Mark:
        is_own = event.flags & FLAG_RELAY_LOG
        if event_class == _FRAMING:
            if event.type == EventType.PREVIOUS_GTIDS:
                self._read_previous_gtids(event, text or "")
                return Mark.HEADER
            if event.type == EventType.FORMAT_DESCRIPTION:
                if not is_own and event.start > FIRST_POSITION:
                    self.interrupt_group()
                    self._name_sender(event)
                return Mark.FRAMING
            if event.type == EventType.ROTATE:
                return self._read_rotate(event, text or "")
            # STOP: a receiver never copies the source's, so it is the replica's own.
            self.may_be_closed = True
            return Mark.FILE
        if event_class == _OPENER:
            self._check_gtid_text(event, text)
        if not is_own:
            self._move_source(event)
        return self._read_group_event(event, event_class, end)

    def _read_rotate(self, event: Event, next_file: str) -> Mark:
        try:
            base_name, number = parse_log_file_name(next_file)
        except CoordinateError:
            return Mark.FRAMING
        is_own = event.flags & FLAG_RELAY_LOG or (
            base_name == self.base_name and base_name != self.source_base
        )
        self.may_be_closed |= base_name == self.base_name
        if is_own:
            return Mark.FILE
        position = FIRST_POSITION if event.value == ABSENT else event.value
        self._name_file(event, (base_name, number))
        is_connecting = self.may_step_back
        if event.flags & FLAG_ARTIFICIAL or event.log_pos == 0:
            here = (self.source_base, self.source_number, self.position_end)
            if here == (base_name, number, position):
                # By file and position a new connection goes on inside the group.
                self.interrupt_group()
            else:
                self.drop_open_group()
            self.may_step_back = True
        self.emit_gathered()
        if event.flags & FLAG_ARTIFICIAL:
            self._name_sender(event)
        is_back = base_name != self.source_base or (number, position) < (
            self.source_number,
            self.source_end,
        )
        self.steps_back += is_back
        if is_back or is_connecting:
            at = self.file_number, event.start + event.length
            self.steps_ahead = at if self.steps_ahead is None else self.steps_ahead[0], at
        self.may_name_former = False
        self.has_renamed |= self.source_base not in (None, base_name)
        self.source_base = base_name
        self.source_number = number
        self.source_end = self.position_end = position
        self.has_unpositioned = False
        self.source_high = max(self.source_high, (self.source_number, self.source_end))
        return Mark.FRAMING

    def _name_file(self, event: Event, to: tuple[str, int]) -> None:
        is_within: bool | None = self.group_state is not GroupState.IDLE
        if not is_within and not self.file_names.is_known() and not self.queue:
            is_within = None  # a group may have been left open where nothing was read
        former = None if self.source_base is None else (self.source_base, self.source_number)
        end = self.file_number, event.start + event.length
        self.file_names.rotated(end, former, to, is_within=is_within)

    def _name_sender(self, event: Event) -> None:
        """What a new connection begins with names the server that it is to, and so do new files."""
        if event.server_id > 0 and event.server_id != self.sender:
            self.emit_gathered()
            self.is_of_one_source &= self.sender == ABSENT
            self.sender = event.server_id

    def _move_source(self, event: Event) -> None:
        """Follow the source position; it may fall only when the receiver has connected anew."""
        if event.flags & FLAG_ARTIFICIAL:
            return
        position = self._unwrapped(event) if event.log_pos > 0 else ABSENT
        if not 0 < position <= POSITION_MAX:
            self.position_end = ABSENT
            self.has_unpositioned = self.may_step_back = True
            return
        self.has_unpositioned = False
        if self.source_base is None:
            self.source_end = ABSENT
            self.position_end = ABSENT
            return
        self.position_end = position
        if position < self.source_end and not self.may_step_back:
            if self.has_fallen:
                return
            self.has_fallen = True
            source = format_log_file_name(self.source_base, self.source_number)
            self.report_anomaly(
                AnomalyKind.SOURCE_POSITION_FELL,
                f"{self.file_name}:{event.start}",
                witness=f"{source}:{position}",
                file=self.file_name,
                source=source,
                position=position,
                previous=self.source_end,
            )
            return
        self.has_fallen = False
        self.may_step_back = False
        self.source_end = position
        self.source_high = max(self.source_high, (self.source_number, position))

    def _unwrapped(self, event: Event) -> int:
        """The source position of 64 bits that a field of 32 means."""
        end = self.source_end
        if end < 0:
            return event.log_pos
        if (end + event.length) % WRAP == event.log_pos:
            return end + event.length
        position = end + event.log_pos - end % WRAP
        if end % WRAP >= WRAP - WRAP_ZONE and event.log_pos < WRAP_ZONE:
            position += WRAP
        return position

    def _read_previous_gtids(self, event: Event, text: str) -> None:
        try:
            previous = GtidSet.parse(text, tags=self.server.knows_tags)
        except GtidSetParseError as error:
            self._report_unreadable_head(f"{self.file_name}:{event.start}", text, error)
            self.received_is_complete = False
            return
        if self.source_high[0] < 1 and previous:
            self.has_missed = True  # earlier files were not seen
        received = self.received.freeze()
        if not received <= previous:
            # Relay logs were given up and begun anew; only then does the head know less.
            forgotten = received - previous if self.received_is_complete else GtidSet.EMPTY
            is_cut = self.has_restarted and self.is_next_file and bool(previous)
            self.begin_lineage()
            self.forgotten = forgotten
            self.cut = forgotten if is_cut else GtidSet.EMPTY
        elif not self.received_is_complete:
            self.received = GrowingGtidSet()
        self.inherited = self.inherited | (previous - self.received.freeze())
        self.received.add_set(previous)
        self.received_ever.add_set(previous)
        self.received_is_complete = True
        self.has_restarted = False

    # Groups

    def _group_complete(self, event: Event, end: int) -> None:
        group = self.group
        if group.sid < 0:
            self.has_anonymous = True
        else:
            sid = self.sids[group.sid]
            self.received.add(sid, group.gno)
            self.received_ever.add(sid, group.gno)
        row = (
            self.file_number,
            end,
            self.source_number,
            self.position_end,
            group.sid,
            group.gno,
            event.type,
        )
        self.queue.add(row)
        if not self._gathered:
            self.reporter.hold(self.emit_gathered)
        self._gathered_at = self.reporter.position
        self._gathered.append(
            (
                self.position_end,
                group.sid,
                group.gno,
                group.server_id,
                group.commit_ts,
                self.is_empty_group(event),
                event.type,
            )
        )

    def emit_gathered(self) -> None:
        """Hand what the event-by-event path has gathered to the fleet."""
        if not self._gathered:
            return
        groups = np.array(self._gathered, dtype=np.int64)
        self._gathered = []
        self._emit_received(groups.T, self._gathered_at)

    def _emit_received(
        self, groups: Sequence[Array] | Array, journal_position: tuple[int, int, int] | None = None
    ) -> None:
        """Hand groups to the fleet: RECEIVED's ``group_…``."""
        source_end, sid, gno, server_id, commit_ts, is_empty, types = groups
        sids, sid = self.sids_in(sid)
        self.reporter.fleet_event(
            FleetEventKind.RECEIVED,
            {
                "channel": self.channel,
                "channel_lineage": self.lineage,
                "source_base_name": self.source_base,
                "source_file_number": self.source_number,
                "sender_server_id": None if self.sender < 0 else self.sender,
                "follows_hole": self.follows_hole,
                "sids": sids,
            },
            {
                "group_source_end": source_end,
                "group_sid": sid,
                "group_gno": gno,
                "group_server_id": server_id,
                "group_commit_ts": commit_ts,
                "group_is_empty": is_empty.astype(np.bool_),
                "group_type": types.astype(np.int32),
            },
            journal_position,
        )
        self.follows_hole = False

    # Whole columns

    def _run_is_regular(self, run: dict[str, Array], scan: GroupScan) -> bool:
        if self.source_base is None:
            return False
        if (run["flags"] & (FLAG_RELAY_LOG | FLAG_ARTIFICIAL)).any():
            return False
        fields = run["log_pos"]
        if int(fields[0]) <= self.source_end or not (fields[1:] > fields[:-1]).all():
            return False
        openers = scan.openers
        anonymous = run["type"][openers] == _ANONYMOUS_GTID
        named = ~anonymous
        return not (
            (run["gno"][openers][named] < 1).any() or (run["sid"][openers][named] < 0).any()
        )

    def _take_run(self, run: dict[str, Array], scan: GroupScan, mapping: Array) -> None:
        self.emit_gathered()
        fields = run["log_pos"]
        self.may_step_back = False
        for number in np.unique(scan.sid).tolist():
            if number < 0:
                self.has_anonymous = True
                continue
            gnos = scan.gno[scan.sid == number]
            self.received.add_gnos(self.sids[number], gnos)
            self.received_ever.add_gnos(self.sids[number], gnos)
        rows = np.empty((len(scan.ends), QUEUE_COLUMNS), dtype=np.int64)
        rows[:, Q_FILE] = self.file_number
        rows[:, Q_END] = run["end"][scan.ends]
        rows[:, Q_SOURCE_FILE] = self.source_number
        rows[:, Q_SOURCE_END] = fields[scan.ends]
        rows[:, Q_SID] = scan.sid
        rows[:, Q_GNO] = scan.gno
        rows[:, Q_TYPE] = run["type"][scan.ends]
        self.queue.extend(rows)
        self.source_end = self.position_end = int(fields[-1])
        self.has_fallen = self.has_unpositioned = False
        self.source_high = max(self.source_high, (self.source_number, self.source_end))
        self._remember_run(run, scan, mapping, fields)
        if len(scan.ends):
            columns = (
                fields[scan.ends],
                scan.sid,
                scan.gno,
                scan.server_id,
                scan.commit_ts,
                scan.is_empty,
                run["type"][scan.ends],
            )
            self._emit_received(columns)

    def arriving(self) -> GtidSet:
        """The GTID of the group whose end is not read yet."""
        group = self.group
        if self.group_state not in (GroupState.OPENED, GroupState.BODY) or group.sid < 0:
            return GtidSet.EMPTY
        gnos = np.array([group.gno], dtype=np.int64)
        return GtidSet.from_gnos(self.sids[group.sid], gnos)

    def waiting_behind(self, at: LogCoordinates) -> GtidSet:
        """GTIDs of the groups that end after coordinates, as far as they are remembered."""
        if at.base_name != self.base_name:
            return GtidSet.EMPTY
        rows = self.queue.rows()[self.queue.count_until(at.file_number, at.position) :]
        named = rows[rows[:, Q_SID] >= 0]
        return GtidSet.from_groups(self.sids, named[:, Q_SID], named[:, Q_GNO])

    def steps_back_until(
        self, before: LogCoordinates | None, applied: LogCoordinates | None
    ) -> bool:
        """Whether the applier, which was at `before`, may have come to a connection further back.

        None: not known.
        """
        passed, now = (
            None if at is None or at.base_name != self.base_name else (at.file_number, at.position)
            for at in (before, applied)
        )
        if self.steps_ahead is not None and passed is not None:
            first, last = self.steps_ahead
            # Those between the first and the last are not remembered.
            first = first if first > passed else (passed[0], passed[1] + 1)
            self.steps_ahead = None if last <= passed else (first, last)
        return self.steps_ahead is not None and (now is None or now >= self.steps_ahead[0])

    # What happens to the channel as a whole

    def begin_lineage(self) -> None:
        """The relay log begins anew: RESET REPLICA, CHANGE SOURCE, relay log recovery."""
        self.emit_gathered()
        self.lineage += 1
        self.received = GrowingGtidSet()
        self.received_is_complete = True
        self.follows_hole = False
        self.inherited = self.forgotten = self.cut = GtidSet.EMPTY
        self.has_restarted = False
        self.may_step_back = True
        self.steps_ahead = None
        self.queue.clear()
        self.drop_open_group()

    def forget_files(self) -> None:
        """RESET REPLICA: the files are gone, numbers begin again."""
        self.is_given_up, self.is_of_one_source = True, False
        self.may_name_former = True
        self.file_names = AppliedFileNames()
        self.base_name = None
        self.end = ABSENT
        self.window.clear()
        self.window.has_forgotten = False
        self.source_base = None
        self.source_end = self.position_end = self.sender = ABSENT
        self.source_high = (ABSENT, ABSENT)
        self.has_missed = self.has_renamed = False

    def rotated(self, source_file: str, source_position: int) -> None:
        """FLUSH RELAY LOGS: the next file goes on with the source's file, and does not name it.

        What was read before names it, too, but where the relay log was not read so far.
        """
        if self.source_base is None:
            self.source_base, self.source_number = parse_log_file_name(source_file)
            self.source_end = self.position_end = source_position
            self.source_high = max(self.source_high, (self.source_number, source_position))
            self.has_missed = True

    def reconnected(self) -> None:
        """The receiver connected anew: the source position may step back."""
        self.may_step_back = True
        self.interrupt_group()

    def restarted(self, *, crashed: bool) -> None:
        """A boot of the server: after a clean stop the next head knows what the files held."""
        self.reconnected()
        self.may_name_former = False
        self.may_be_closed = True
        self.has_restarted = not crashed

    def mark_gap(self) -> None:
        """Records are missing, maybe a ROTATE of the source among them: its file is not known."""
        LogReader.mark_gap(self)
        self.may_name_former = True
        self.file_names = AppliedFileNames()
        self.source_base = None
        self.source_number = self.source_end = self.position_end = self.sender = ABSENT

    def lose_continuity(self) -> None:
        """Part of the relay file is missing: Q is a lower bound until the next PREVIOUS_GTIDS."""
        LogReader.lose_continuity(self)
        self.is_given_up = self.is_of_one_source = False
        self.received_is_complete = False
        self.has_missed = True
        self.may_step_back = True
        self.emit_gathered()
        self.follows_hole = True
        self.queue.clear()
