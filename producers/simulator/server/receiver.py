"""The receiver of a channel: connects to the source, copies its events, keeps Rd_c and F_c."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tallystick.coordinates.values.binlog import MAGIC_LENGTH, EventType
from tallystick.producers.simulator.kernel.bus import Permit
from tallystick.producers.simulator.kernel.transactions import LoggedGroup
from tallystick.producers.simulator.replication_info import crash_points, master_info
from tallystick.producers.simulator.replication_info.crash_points import CrashPoint
from tallystick.producers.simulator.replication_info.master_info import MasterInfo
from tallystick.producers.simulator.replication_info.rpl_info_handler import (
    INFO_WRITE,
    record_write,
)
from tallystick.producers.simulator.server import applier, commit, relay_log
from tallystick.producers.simulator.server.binary_log import (
    GREW,
    BinaryLog,
    BinlogFile,
    FramingEvent,
)
from tallystick.producers.simulator.server.channels import (
    Applier,
    ChannelMap,
    QueuedGroup,
    Receiver,
    RelayLog,
)
from tallystick.producers.simulator.server.gtid_state import GtidState
from tallystick.producers.simulator.server.locks import MAY_MOVE

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.bus import Bus
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

QUEUE: Permit[[World, Channel, LoggedGroup]] = Permit(
    "before the receiver queues the first event of a group; False: it skips the group"
)

FLUSH: Permit[[World, Channel]] = Permit(
    "before the receiver flushes its coordinates while it receives; False: the flush fails"
)

ER_SOURCE_FATAL_ERROR = 13114
"""Last_IO_Errno when the source cannot serve what the replica asks for."""
ER_REPLICA_FATAL_ERROR = 13117
"""Last_IO_Errno when source and replica have one server_id."""
_GROUPS_AT_ONCE = 16
_NETWORK_US = (200, 3_000)
_RETRY_US = 50_000
_NUMBER_AFTER_RESET = 2


def start(fleet: World, channel: Channel) -> None:
    """START REPLICA IO_THREAD."""
    if channel[Receiver].is_running:
        return
    channel[Receiver].is_running = True
    channel.record("start_receiver")
    if not channel[RelayLog].files:
        create_relay_log(fleet, channel, _NUMBER_AFTER_RESET)
    connect(fleet, channel, channel.generation)


def stop(fleet: World, channel: Channel) -> None:
    """STOP REPLICA IO_THREAD: the position is persisted."""
    if not channel[Receiver].is_running:
        return
    disconnect(fleet, channel)
    channel[Receiver].is_running = False
    channel.record("stop_receiver")
    flush_position(fleet, channel)
    persist_position(fleet, channel, "receiver_stop")
    applier.wake(fleet, channel)


def create_relay_log(fleet: World, channel: Channel, number: int) -> None:
    """The first relay file of a lineage; the position counts as flushed there."""
    relay_log.open_file(fleet, channel, number)
    flush_position(fleet, channel)
    channel[Applier].applied = (channel[RelayLog].files[-1].name, MAGIC_LENGTH)
    channel[Applier].group_end = (*channel[Applier].applied, *channel[Applier].executed)


def disconnect(fleet: World, channel: Channel) -> None:
    """The connection to the source is lost or given up.

    By GTID set a partial group will come again. By position the receiver would go on inside it, so
    here the connection lasts until the group is complete.
    """
    channel[Receiver].is_connected = False
    channel.generation += 1
    channel[Receiver].is_scheduled = False
    channel[Applier].is_scheduled = False
    partial = channel.partial_group
    if partial is not None:
        if not channel.auto_position:
            count = len(partial.logged.group.body) + 1
            events = count - partial.events_received
            relay_log.write_group_events(channel, partial, count)
            channel[Receiver].read = (partial.source_file, partial.logged.end)
            flush_position(fleet, channel, events)
            return
        channel.pending.pop()
        partial.relay_file.groups.remove(partial)
        channel[RelayLog].is_left_open = True


def reconnect(fleet: World, channel: Channel, delay: int) -> None:
    """The connection breaks; the receiver connects anew after ``delay``."""
    if not channel[Receiver].is_running:
        return
    later = partial(reconnect, fleet, channel, delay)
    if not channel.auto_position and not fleet.bus.emit(MAY_MOVE, channel.replica, later):
        return  # what has arrived of a group will move the position
    disconnect(fleet, channel)
    applier.wake(fleet, channel)
    fleet.schedule(fleet.now + delay, channel.replica, _connect_anew, channel, channel.generation)


def _connect_anew(fleet: World, channel: Channel, generation: int) -> None:
    if generation != channel.generation or not channel.replica.is_running:
        return
    if not channel.source.is_running or not channel.source[BinaryLog].is_open:
        fleet.schedule(fleet.now + _RETRY_US, channel.replica, _connect_anew, channel, generation)
        return
    channel.record("reconnect")
    connect(fleet, channel, generation)


def connect(fleet: World, channel: Channel, generation: int) -> None:
    """Ask the source for its log: by GTID set, or from file and position."""
    if generation != channel.generation or not channel[Receiver].is_running:
        return
    later = partial(connect, fleet, channel, generation)
    if not fleet.bus.emit(MAY_MOVE, channel.replica, later):
        return
    source = channel.source
    if not source.is_running or not source[BinaryLog].is_open:
        fleet.schedule(fleet.now + _RETRY_US, channel.replica, connect, channel, generation)
        return
    file = _file_by_gtids(channel) if channel.auto_position else _file_by_position(channel)
    has_equal_ids = source.server_id == channel.replica.server_id
    if file is None or has_equal_ids:
        errno = ER_REPLICA_FATAL_ERROR if has_equal_ids else ER_SOURCE_FATAL_ERROR
        channel[Receiver].io_errno = errno
        channel[Receiver].is_running = False
        channel.record("stop_receiver")
        persist_position(fleet, channel, "receiver_stop")
        return
    channel[Receiver].io_errno = 0
    channel[Receiver].is_connected = True
    channel[Receiver].cursor_lineage = source[BinaryLog].lineage
    channel[Receiver].cursor_file = file.number
    position = 4
    channel[Receiver].cursor_entry = 0
    if (
        not channel.auto_position
        and channel[Receiver].read[0] == file.name
        and channel[Receiver].read[1] > 4
    ):
        position = channel[Receiver].read[1]
        channel[Receiver].cursor_entry = next(
            (i for i, entry in enumerate(file.entries) if entry.start >= position),
            len(file.entries),
        )
    _begin_file(fleet, channel, file, position)
    applier.wake(fleet, channel)
    wake(fleet, channel)


def wake(fleet: World, channel: Channel) -> None:
    """The source's log has grown: the events arrive after a while."""
    if not channel[Receiver].is_connected or channel[Receiver].is_scheduled:
        return
    channel[Receiver].is_scheduled = True
    fleet.schedule(
        fleet.now + fleet.rng.randrange(*_NETWORK_US),
        channel.replica,
        _receive,
        channel,
        channel.generation,
    )


def join(bus: Bus) -> None:
    """Replicas receive when the binary log of their source grows."""
    bus.connect(GREW, _wake_subscribers)


def _wake_subscribers(fleet: World, source: Instance) -> None:
    for channel in source[ChannelMap].subscribers:
        wake(fleet, channel)


def flush_position(fleet: World, channel: Channel, events: int = 1) -> None:
    """flush_info: F_c becomes the end of the relay log; it is stored every sync_source_info events.

    By position a coordinate stored inside a group would be where a new connection begins, so the
    write waits for the end of the group there.
    """
    channel[Receiver].flushed = relay_log.end(channel)
    if channel.partial_group is not None and not channel.auto_position:
        channel[MasterInfo].handler.sync_counter += events
        return
    _flush_info(fleet, channel, "sync", events, force=False)


def persist_position(fleet: World, channel: Channel, reason: str) -> None:
    """Store Rd_c at once: a moment that REQ-3 names."""
    _flush_info(fleet, channel, reason, 0, force=True)


def _flush_info(fleet: World, channel: Channel, reason: str, events: int, *, force: bool) -> None:
    if force and not fleet.bus.emit(INFO_WRITE, fleet, channel, master_info.TABLE, reason):
        return
    written = channel[MasterInfo].flush(channel, force=force, count=events)
    if written is None:
        return
    file, position = channel[Receiver].read
    row = {"Channel_name": channel.name, "Master_log_name": file, "Master_log_pos": position}
    record_write(channel, master_info.TABLE, reason, row, is_durable=written.is_durable)


def _receive(fleet: World, channel: Channel, generation: int) -> None:
    receiver = channel[Receiver]
    if generation != channel.generation or not receiver.is_connected:
        return
    later = partial(_receive, fleet, channel, generation)
    if not fleet.bus.emit(MAY_MOVE, channel.replica, later):
        return
    receiver.is_scheduled = False
    log = channel.source[BinaryLog]
    if receiver.cursor_lineage != log.lineage:
        return  # RESET under a connected replica: both threads stay Yes and receive nothing
    for _ in range(_GROUPS_AT_ONCE):
        file = log.file_of_number(receiver.cursor_file)
        if file is None:
            break
        if receiver.cursor_entry >= len(file.entries):
            following = log.file_after(file.number)
            if following is None:
                break
            # The file before ended with STOP or a crash, so no ROTATE has been sent.
            _next_file(fleet, channel, following)
            continue
        entry = file.entries[receiver.cursor_entry]
        if isinstance(entry, FramingEvent):
            receiver.cursor_entry += 1
            _receive_framing(fleet, channel, file, entry)
        elif not _receive_group(fleet, channel, file, entry):
            wake(fleet, channel)
            break
    else:
        wake(fleet, channel)
    applier.wake(fleet, channel)


def _receive_group(fleet: World, channel: Channel, file: BinlogFile, logged: LoggedGroup) -> bool:
    """Queue the next events of a group; False: the rest of it comes later."""
    receiver, group = channel[Receiver], logged.group
    last = channel.pending[-1] if channel.pending else None
    if isinstance(last, QueuedGroup) and last.logged is logged:
        queued = last
    else:
        if _is_excluded(channel, logged):
            return _pass_what_is_there(fleet, channel, file, logged)
        # What a replica wrote itself comes back to it in a ring: it is ignored as well.
        is_ignored = group.server_id in (*receiver.ignore_server_ids, channel.replica.server_id)
        if is_ignored or not fleet.bus.emit(QUEUE, fleet, channel, logged):
            receiver.cursor_entry += 1
            receiver.read = (file.name, logged.end)
            return True
        queued = _queue(channel, file, logged)
    count = len(group.body) + 1
    up_to = count
    if count - queued.events_received > 2 and fleet.rng.random() < fleet.pace.partial_chance:
        up_to = fleet.rng.randrange(queued.events_received + 1, count)
    events = _append(channel, queued, up_to)
    if up_to < count:
        if fleet.rng.random() < 0.5:
            _try_to_flush(fleet, channel, events)
        else:
            _leave_unflushed(channel, events)
        return False
    _try_to_flush(fleet, channel, events)
    commit.acknowledge(fleet, channel, logged)
    if group.sid is not None:
        receiver.retrieved.add(group.sid, group.gno)
    receiver.cursor_entry += 1
    relay_file = channel[RelayLog].files[-1]
    if relay_file.end >= channel.replica[BinaryLog].max_size:
        # A rotation by size stores nothing: MySQL 8.0 does so where the source's file changes.
        relay_log.rotate(fleet, channel, with_source_format=True)
        flush_position(fleet, channel)
    return True


def _queue(channel: Channel, file: BinlogFile, logged: LoggedGroup) -> QueuedGroup:
    relay_file = channel[RelayLog].files[-1]
    queued = QueuedGroup(logged, file.name, relay_file, relay_file.end)
    relay_file.groups.append(queued)
    channel.pending.append(queued)
    channel[RelayLog].is_left_open = False
    return queued


def _append(channel: Channel, queued: QueuedGroup, up_to: int) -> int:
    """Write the next events of a group to the relay log; how many."""
    events = up_to - queued.events_received
    logged = queued.logged
    relay_log.write_group_events(channel, queued, up_to)
    crash_points.reach(channel, CrashPoint.BETWEEN_RELAY_LOG_AND_MASTER_INFO, logged.group)
    channel[Receiver].read = (queued.source_file, logged.start + queued.end - queued.start)
    return events


def _try_to_flush(fleet: World, channel: Channel, events: int) -> None:
    """F_c stays where it was if the flush fails (WL#9452, Step-1 (a)); the next one may succeed."""
    if fleet.bus.emit(FLUSH, fleet, channel):
        flush_position(fleet, channel, events)
    else:
        _leave_unflushed(channel, events)


def _leave_unflushed(channel: Channel, events: int) -> None:
    """Written and not yet flushed: the relay log is beyond F_c."""
    channel[MasterInfo].handler.sync_counter += events


def write_first_event(channel: Channel) -> QueuedGroup | None:
    """Write the first event of the next group, and be on the way to flush it.

    A session that takes data_lock then finds the relay log beyond what is flushed (WL#9452,
    Step-1). None: nothing waits at the source, or the receiver is inside a group.
    """
    receiver = channel[Receiver]
    file = channel.source[BinaryLog].file_of_number(receiver.cursor_file)
    if file is None or not receiver.is_connected or channel.partial_group is not None:
        return None
    for entry in file.entries[receiver.cursor_entry :][:1]:
        if isinstance(entry, LoggedGroup) and not _is_excluded(channel, entry):
            queued = _queue(channel, file, entry)
            _leave_unflushed(channel, _append(channel, queued, 1))
            return queued
    return None


def _pass_what_is_there(
    fleet: World, channel: Channel, file: BinlogFile, logged: LoggedGroup
) -> bool:
    """Pass a group that auto-position excludes, with those up to the first that is to be sent.

    Returns:
        False: the source is within the group.
    """
    receiver, end = channel[Receiver], logged.end
    is_begun = receiver.read[0] == file.name and receiver.read[1] > logged.start
    if fleet.pace.passing_us is not None and not is_begun:
        lengths = [logged.gtid_length, *(length for _, _, length, _ in logged.group.body[:-1])]
        passed = sum(lengths[: fleet.rng.randrange(len(lengths)) + 1])
        _name_position(fleet, channel, (file.name, logged.start + passed))
        later = fleet.now + fleet.rng.randrange(*fleet.pace.passing_us)
        receiver.is_scheduled = True
        fleet.schedule(later, channel.replica, _receive, channel, channel.generation)
        return False
    for entry in file.entries[receiver.cursor_entry :]:
        if not isinstance(entry, LoggedGroup) or not _is_excluded(channel, entry):
            break
        receiver.cursor_entry += 1
        end = entry.end
        if fleet.pace.passing_us is not None:
            break
    _name_position(fleet, channel, (file.name, end))
    return True


def _name_position(fleet: World, channel: Channel, position: tuple[str, int]) -> None:
    """The source sends a heartbeat so that the replica's position follows."""
    channel[Receiver].read = position
    relay_log.write_position(fleet, channel, *position)
    flush_position(fleet, channel)


def _is_excluded(channel: Channel, logged: LoggedGroup) -> bool:
    group = logged.group
    return (
        channel.auto_position
        and group.sid is not None
        and (group.sid, group.gno) in channel[Receiver].excluded
    )


def _receive_framing(fleet: World, channel: Channel, file: BinlogFile, event: FramingEvent) -> None:
    if event.type == EventType.STOP:
        channel[Receiver].read = (file.name, event.end)
    if event.type != EventType.ROTATE or event.next_file is None:
        return
    channel[Receiver].read = (event.next_file, 4)
    relay_log.rotate(fleet, channel, with_source_format=False)
    relay_log.write_source_rotate(fleet, channel, event.end, event.checksum, event.next_file)
    flush_position(fleet, channel)
    persist_position(fleet, channel, "relay_rotate")
    following = channel.source[BinaryLog].file_after(file.number)
    if following is not None and following.name == event.next_file:
        _next_file(fleet, channel, following)


def _next_file(fleet: World, channel: Channel, file: BinlogFile) -> None:
    channel[Receiver].cursor_file = file.number
    channel[Receiver].cursor_entry = 0
    _begin_file(fleet, channel, file, 4)


def _begin_file(fleet: World, channel: Channel, file: BinlogFile, position: int) -> None:
    """What a dump sends before the first group of a file, as the receiver writes it."""
    channel[Receiver].read = (file.name, position)
    relay_log.rotate(fleet, channel, with_source_format=False)
    relay_log.write_artificial_rotate(fleet, channel, file.name, position)
    from_start = position == 4
    relay_log.write_source_format(fleet, channel, file.entries[0].end if from_start else 0)
    if from_start:
        # PREVIOUS_GTIDS means nothing to a replica: it has a ROTATE to the position after it.
        channel[Receiver].read = (file.name, file.entries[1].end)
        relay_log.write_position(fleet, channel, *channel[Receiver].read)
        channel[Receiver].cursor_entry = 2
    flush_position(fleet, channel)
    persist_position(fleet, channel, "relay_rotate")


def _file_by_gtids(channel: Channel) -> BinlogFile | None:
    """The newest file whose PREVIOUS_GTIDS the replica has all of; remembers what it has."""
    source = channel.source
    has = channel.replica[GtidState].executed.copy()
    has.update(channel[Receiver].retrieved)
    channel[Receiver].excluded = has
    own = source.server_uuid
    if any(sid == own and (sid, last) not in source[GtidState].logged for sid, _, last in has):
        return None  # the replica has GTIDs of the source that the source has not
    for file in reversed(source[BinaryLog].files):
        if file.previous_gtids.is_subset(has):
            return file if source[GtidState].purged.is_subset(has) else None
    return None


def _file_by_position(channel: Channel) -> BinlogFile | None:
    files = channel.source[BinaryLog].files
    if not channel[Receiver].read[0]:
        return files[0]
    return next((file for file in files if file.name == channel[Receiver].read[0]), None)
