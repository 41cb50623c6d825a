"""The binary log: framing, groups, rotation, purge, reset, and the lengths of its events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.coordinates.events.journal import RecordType, Stream
from tallystick.coordinates.values.binlog import (
    FLAG_IN_USE,
    MAGIC_LENGTH,
    PREVIOUS_GTIDS_LENGTH_MIN,
    PREVIOUS_GTIDS_LENGTH_PER_INTERVAL,
    PREVIOUS_GTIDS_LENGTH_PER_SID,
    ROTATE_EVENT_LENGTH_MIN,
    STOP_EVENT_LENGTH,
    WRAP,
    EventType,
    format_log_file_name,
)
from tallystick.producers.simulator.backup import outer_locks
from tallystick.producers.simulator.kernel.bus import Change, Notice, Permit
from tallystick.producers.simulator.kernel.transactions import LoggedGroup
from tallystick.producers.simulator.server import gtid_state
from tallystick.producers.simulator.server.channels import Applier, ChannelMap, Receiver
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import BodyEvent, Group
    from tallystick.producers.simulator.kernel.world import World

PREVIOUS_GTIDS: Change[[World, Instance, GtidIntervals], GtidIntervals] = Change(
    "the set that a new binary log file's PREVIOUS_GTIDS will hold"
)
ROTATE: Change[[World, Instance, int], int] = Change(
    "the number of the next file, before the ROTATE event is written"
)
PURGED: Permit[[World, Instance, GtidIntervals]] = Permit(
    "PURGE has removed files; False: gtid_purged stays"
)
LOGGED: Notice[[World, Instance, LoggedGroup]] = Notice(
    "a group has its position and numbers, its events are not in the journal yet"
)
GREW: Notice[[World, Instance]] = Notice("the binary log has grown: its replicas will receive")

_FORMAT_DESCRIPTION_LENGTH = 122
_FORMAT_DESCRIPTION_LENGTH_TAGS = 123
"""From 8.3: one more event type has its header length in it."""
_TAGS_SINCE = (8, 3)
FLAG_IGNORABLE = 0x80
_FILES_KEPT_MAX = 8
GTID_LENGTH_REPLICATED = 7
"""A GTID event with an original commit time of its own is longer by this."""
_GTID_LENGTH_WITHOUT_LENGTH_FIELD = 76
_UUID_LENGTH = 36


@dataclass(slots=True, eq=False)
class FramingEvent:
    """An event of a log file that belongs to no group."""

    type: int
    start: int
    length: int
    checksum: int
    next_file: str | None = None
    next_position: int = -1

    @property
    def end(self) -> int:
        """Offset of its end."""
        return self.start + self.length


@dataclass(slots=True, eq=False)
class BinlogFile:
    """One binary log file and everything written to it."""

    base_name: str
    number: int
    previous_gtids: GtidIntervals
    entries: list[LoggedGroup | FramingEvent] = field(default_factory=list)
    end: int = 4
    sequence_number: int = 0
    """Of the last group."""
    is_closed: bool = False
    name: str = field(init=False)
    """File name without a directory."""

    def __post_init__(self) -> None:
        self.name = format_log_file_name(self.base_name, self.number)

    def groups(self) -> list[LoggedGroup]:
        """The groups in log order."""
        return [entry for entry in self.entries if isinstance(entry, LoggedGroup)]

    def gtids(self, position: int | None = None) -> GtidIntervals:
        """PREVIOUS_GTIDS and the groups that end at or before a position; None: all of them."""
        gtids = self.previous_gtids.copy()
        for logged in self.groups():
            group = logged.group
            if group.sid is not None and (position is None or logged.end <= position):
                gtids.add(group.sid, group.gno)
        return gtids


@dataclass(slots=True, eq=False)
class BinaryLog:
    """The binary log of one instance: its retained files and the set of each."""

    base_name: str
    max_size: int
    """``max_binlog_size``: a file that is longer than this is rotated."""
    files: list[BinlogFile] = field(default_factory=list)
    lineage: int = 0
    """How many times RESET, clone or restore began the log anew."""
    archive: list[tuple[int, BinlogFile]] | None = None
    """Every file with its lineage, purged or not, kept elsewhere; None: nobody does that."""
    is_open: bool = True
    """Mirror of ``variables["log_bin"]`` for the hot path."""
    rotation_is_due: bool = False
    """A group crossed ``max_size``."""
    stray_number: int = 0
    """The highest number of a file in the directory that the index does not list, 0 none."""
    files_are_held: bool = False
    """Whether nobody purges a file."""
    awaited_by: set[str] = field(default_factory=set)
    """Servers that are brought to a position of it, to replicate from there on."""

    @property
    def active(self) -> BinlogFile:
        """The file that is written."""
        return self.files[-1]

    @property
    def position(self) -> tuple[str, int]:
        """Binary log coordinate P: active file and its end."""
        return self.files[-1].name, self.files[-1].end

    def file_of_number(self, number: int) -> BinlogFile | None:
        """The retained file of that number."""
        for file in reversed(self.files):
            if file.number == number:
                return file
        return None

    def number_after(self, file: BinlogFile) -> int:
        """The number that the next file takes: one more than the highest in the directory."""
        return max(file.number, self.stray_number) + 1

    def file_after(self, number: int) -> BinlogFile | None:
        """The retained file that follows the one of that number, whatever its own number is."""
        following = None
        for file in reversed(self.files):
            if file.number <= number:
                break
            following = file
        return following


def format_description_length(instance: Instance) -> int:
    """Length of the FORMAT_DESCRIPTION event that the version of a server writes."""
    major, minor, *_ = instance.version.split(".")
    if (int(major), int(minor)) >= _TAGS_SINCE:
        return _FORMAT_DESCRIPTION_LENGTH_TAGS
    return _FORMAT_DESCRIPTION_LENGTH


def gtid_event_length(group: Group, body_length: int, instance: Instance) -> int:
    """Length of the GTID event; the transaction's length in it is packed."""
    length = _GTID_LENGTH_WITHOUT_LENGTH_FIELD
    if group.server_id != instance.server_id:
        length += GTID_LENGTH_REPLICATED
    if group.sid is not None and len(group.sid) > _UUID_LENGTH:
        length += len(group.sid) - _UUID_LENGTH
    transaction_length = length + 3 + body_length
    if transaction_length - 2 < 251:
        return length + 1
    if transaction_length < 1 << 16:
        return length + 3
    return length + 4 if transaction_length + 1 < 1 << 24 else length + 9


def previous_gtids_length(gtids: GtidIntervals) -> int:
    """Length of the PREVIOUS_GTIDS event of a set, tags included."""
    sids, intervals = gtids.shape()
    tags = [sid[_UUID_LENGTH + 1 :] for sid, _, _ in gtids]
    length = (
        PREVIOUS_GTIDS_LENGTH_MIN
        + sids * PREVIOUS_GTIDS_LENGTH_PER_SID
        + intervals * PREVIOUS_GTIDS_LENGTH_PER_INTERVAL
    )
    if any(tags):
        length += sids + sum(map(len, {sid[_UUID_LENGTH + 1 :] for sid, _, _ in gtids if sid}))
    return length


def open_file(fleet: World, instance: Instance, number: int, previous: GtidIntervals) -> None:
    """Begin the file of that number: FORMAT_DESCRIPTION, then PREVIOUS_GTIDS."""
    previous = fleet.bus.emit(PREVIOUS_GTIDS, fleet, instance, previous)
    log = instance[BinaryLog]
    file = BinlogFile(log.base_name, number, previous)
    log.files.append(file)
    if log.archive is not None:
        log.archive.append((log.lineage, file))
    _frame(
        fleet,
        instance,
        EventType.FORMAT_DESCRIPTION,
        format_description_length(instance),
        FLAG_IN_USE,
    )
    _frame(
        fleet,
        instance,
        EventType.PREVIOUS_GTIDS,
        previous_gtids_length(previous),
        FLAG_IGNORABLE,
        text=previous.text(),
    )


def rotate(fleet: World, instance: Instance) -> None:
    """Close the active file with ROTATE and open the next; no group is between its stages."""
    file = instance[BinaryLog].active
    number = fleet.bus.emit(ROTATE, fleet, instance, instance[BinaryLog].number_after(file))
    write_rotate(fleet, instance, number)
    file.is_closed = True
    instance[BinaryLog].rotation_is_due = False
    gtid_state.save_gtids_of_last_binlog_into_table(instance)
    open_file(fleet, instance, number, file.gtids())
    fleet.bus.emit(GREW, fleet, instance)


def write_rotate(fleet: World, instance: Instance, number: int) -> None:
    """The ROTATE event that names the file of that number."""
    name = format_log_file_name(instance[BinaryLog].base_name, number)
    _frame(
        fleet, instance, EventType.ROTATE, ROTATE_EVENT_LENGTH_MIN + len(name), 0, next_file=name
    )


def close_with_stop(fleet: World, instance: Instance) -> None:
    """A clean shutdown ends the active file with STOP."""
    _frame(fleet, instance, EventType.STOP, STOP_EVENT_LENGTH, 0)
    instance[BinaryLog].active.is_closed = True
    gtid_state.save_gtids_of_last_binlog_into_table(instance)


def purge(fleet: World, instance: Instance, to_number: int) -> None:
    """Remove the files before ``to_number``: PURGE BINARY LOGS TO."""
    files = instance[BinaryLog].files
    kept = [file for file in files if file.number >= to_number]
    if not kept or len(kept) == len(files) or instance[BinaryLog].files_are_held:
        return
    purged = instance[GtidState].purged.copy()
    purged.update(kept[0].previous_gtids)
    instance[BinaryLog].files = kept
    if fleet.bus.emit(PURGED, fleet, instance, purged):
        instance[GtidState].purged = purged
    instance.journal.record(RecordType.BINLOG_PURGE, {"to_file": kept[0].name})


def expire(fleet: World, instance: Instance) -> None:
    """binlog_expire_logs: at rotation the oldest files go, unless a replica reads them."""
    files = instance[BinaryLog].files
    if len(files) > _FILES_KEPT_MAX and not outer_locks.forbids_purge(instance):
        purge(fleet, instance, min(purge_limit(instance), files[-_FILES_KEPT_MAX].number))


def purge_limit(instance: Instance) -> int:
    """The oldest file number that a connected replica still reads or will have to ask for."""
    limit = instance[BinaryLog].active.number
    if instance[BinaryLog].awaited_by:
        return instance[BinaryLog].files[0].number
    for channel in instance[ChannelMap].subscribers:
        replica = channel.replica
        if replica[ChannelMap].awaits_clone or not replica.is_running or channel.init_error:
            # Nobody knows yet where the clone, the next boot, or the channel whose repositories
            # were refused will begin to read: its operator keeps all files.
            return instance[BinaryLog].files[0].number
        if (
            channel[Receiver].cursor_lineage != instance[BinaryLog].lineage
            or not channel.is_configured
        ):
            continue
        limit = min(limit, channel[Receiver].cursor_file)
        # A crash may take the relay log: then it asks again from the end of the last group on.
        applied = channel[Applier].group_end[2]
        limit = min([limit, *(f.number for f in instance[BinaryLog].files if f.name == applied)])
    return limit


def write_group(fleet: World, instance: Instance, group: Group) -> LoggedGroup:
    """Flush stage: write a group at the end of the active file."""
    log = instance[BinaryLog]
    file = log.active
    logged = append_group(
        instance,
        group,
        last_committed=max(0, file.sequence_number - fleet.rng.randrange(3)),
        gtid_checksum=fleet.rng.getrandbits(32),
    )
    file.sequence_number += 1
    fleet.bus.emit(LOGGED, fleet, instance, logged)
    journal_group(instance, file, logged, logged.group.body)
    file.entries.append(logged)
    file.end = logged.end
    if file.end >= log.max_size:
        log.rotation_is_due = True
    return logged


def append_group(
    instance: Instance, group: Group, *, last_committed: int, gtid_checksum: int
) -> LoggedGroup:
    """A group at the end of the active file, as if it were written there."""
    file = instance[BinaryLog].active
    body_length = group.body_length
    gtid_length = gtid_event_length(group, body_length, instance)
    length = gtid_length + body_length
    return LoggedGroup(
        group=group,
        start=file.end,
        gtid_length=gtid_length,
        end=file.end + length,
        last_committed=last_committed,
        sequence_number=file.sequence_number + 1,
        gtid_checksum=gtid_checksum,
        transaction_length=length,
    )


def journal_group(
    instance: Instance, file: BinlogFile, logged: LoggedGroup, body: tuple[BodyEvent, ...]
) -> None:
    """Put a group into the journal, with the events of its body that are written."""
    journal = instance.journal
    group = logged.group
    ts = journal.moment()
    name = file.name
    body_start = logged.start + logged.gtid_length
    journal.log_event(
        Stream.BINLOG,
        gtid_event_type(group),
        file=name,
        start=logged.start,
        length=logged.gtid_length,
        ts=ts,
        log_pos=body_start % WRAP,
        server_id=group.server_id,
        checksum=logged.gtid_checksum,
        sid=group.sid,
        gno=group.gno,
        last_committed=logged.last_committed,
        sequence_number=logged.sequence_number,
        transaction_length=logged.transaction_length,
        original_commit_timestamp=group.original_commit_timestamp,
    )
    journal.group_events(
        Stream.BINLOG, body, file=name, start=body_start, ts=ts, server_id=group.server_id
    )


def gtid_event_type(group: Group) -> EventType:
    """The event that opens a group."""
    if group.sid is None:
        return EventType.ANONYMOUS_GTID
    return EventType.GTID_TAGGED if len(group.sid) > _UUID_LENGTH else EventType.GTID


def _frame(
    fleet: World,
    instance: Instance,
    event_type: EventType,
    length: int,
    flags: int,
    *,
    text: str | None = None,
    next_file: str | None = None,
) -> None:
    file = instance[BinaryLog].active
    event = FramingEvent(
        type=event_type,
        start=file.end,
        length=length,
        checksum=fleet.rng.getrandbits(32),
        next_file=next_file,
        next_position=MAGIC_LENGTH if next_file else -1,
    )
    journal = instance.journal
    journal.log_event(
        Stream.BINLOG,
        event_type,
        file=file.name,
        start=event.start,
        length=length,
        ts=journal.moment(),
        log_pos=event.end % WRAP,
        flags=flags,
        server_id=instance.server_id,
        checksum=event.checksum,
        value=event.next_position,
        text=next_file or text,
    )
    file.entries.append(event)
    file.end = event.end
