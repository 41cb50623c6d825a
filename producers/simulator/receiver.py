"""The receiver of a channel: connects to the source, copies its events, keeps Rd_c and F_c."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.binlog import MAGIC_LENGTH, EventType
from tallystick.producers.simulator import applier, relay_log
from tallystick.producers.simulator.backup_safe_binlog import backup_locks
from tallystick.producers.simulator.model import BinlogFile, FramingEvent, LoggedGroup, QueuedGroup
from tallystick.producers.simulator.replication_info import crash_points, master_info
from tallystick.producers.simulator.replication_info.crash_points import CrashPoint

if TYPE_CHECKING:
    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.model import Channel

ER_SOURCE_FATAL_ERROR = 13114
"""Last_IO_Errno when the source cannot serve what the replica asks for."""
_GROUPS_AT_ONCE = 16
_NETWORK_US = (200, 3_000)
_RETRY_US = 50_000
_NUMBER_AFTER_RESET = 2


def start(fleet: Fleet, channel: Channel) -> None:
    """START REPLICA IO_THREAD."""
    if channel.receiver_runs:
        return
    channel.receiver_runs = True
    _administer(channel, "start_receiver")
    if not channel.relay_files:
        create_relay_log(fleet, channel, _NUMBER_AFTER_RESET)
    connect(fleet, channel, channel.generation)


def stop(fleet: Fleet, channel: Channel) -> None:
    """STOP REPLICA IO_THREAD: the position is persisted."""
    if not channel.receiver_runs:
        return
    disconnect(fleet, channel)
    channel.receiver_runs = False
    _administer(channel, "stop_receiver")
    flush_position(fleet, channel)
    persist_position(fleet, channel, "receiver_stop")
    applier.wake(fleet, channel)


def create_relay_log(fleet: Fleet, channel: Channel, number: int) -> None:
    """The first relay file of a lineage; the position counts as flushed there."""
    relay_log.open_file(fleet, channel, number)
    flush_position(fleet, channel)
    channel.applied = (channel.relay_files[-1].name, MAGIC_LENGTH)
    channel.group_end = (*channel.applied, *channel.executed)


def disconnect(fleet: Fleet, channel: Channel) -> None:
    """The connection to the source is lost or given up.

    By GTID set a partial group will come again. By position the receiver would go on inside it, so
    here the connection lasts until the group is complete.
    """
    channel.is_connected = False
    channel.generation += 1
    channel.receive_is_scheduled = False
    channel.apply_is_scheduled = False
    partial = channel.pending[-1] if channel.pending else None
    if isinstance(partial, QueuedGroup) and not partial.is_complete:
        if not channel.auto_position:
            relay_log.write_group_events(channel, partial, len(partial.logged.group.body) + 1)
            channel.read = (partial.source_file, partial.logged.end)
            flush_position(fleet, channel)
            return
        channel.pending.pop()
        partial.relay_file.groups.remove(partial)


def reconnect(fleet: Fleet, channel: Channel, delay: int) -> None:
    """The connection breaks; the receiver connects anew after ``delay``."""
    if not channel.receiver_runs:
        return
    later = partial(reconnect, fleet, channel, delay)
    if not channel.auto_position and backup_locks.coordinates_wait(channel.replica, later):
        return  # what has arrived of a group will move the position
    disconnect(fleet, channel)
    applier.wake(fleet, channel)
    fleet.clock.schedule(
        fleet.now + delay, channel.replica, _connect_anew, fleet, channel, channel.generation
    )


def _connect_anew(fleet: Fleet, channel: Channel, generation: int) -> None:
    if generation != channel.generation or not channel.replica.is_running:
        return
    if not channel.source.is_running or not channel.source.log_bin:
        fleet.clock.schedule(
            fleet.now + _RETRY_US, channel.replica, _connect_anew, fleet, channel, generation
        )
        return
    _administer(channel, "reconnect")
    connect(fleet, channel, generation)


def connect(fleet: Fleet, channel: Channel, generation: int) -> None:
    """Ask the source for its log: by GTID set, or from file and position."""
    if generation != channel.generation or not channel.receiver_runs:
        return
    later = partial(connect, fleet, channel, generation)
    if backup_locks.coordinates_wait(channel.replica, later):
        return
    source = channel.source
    if not source.is_running or not source.log_bin:
        fleet.clock.schedule(
            fleet.now + _RETRY_US, channel.replica, connect, fleet, channel, generation
        )
        return
    file = _file_by_gtids(channel) if channel.auto_position else _file_by_position(channel)
    if file is None:
        channel.io_errno = ER_SOURCE_FATAL_ERROR
        channel.receiver_runs = False
        _administer(channel, "stop_receiver")
        persist_position(fleet, channel, "receiver_stop")
        return
    channel.io_errno = 0
    channel.is_connected = True
    channel.cursor_lineage = source.binlog.lineage
    channel.cursor_file = file.number
    position = 4
    channel.cursor_entry = 0
    if not channel.auto_position and channel.read[0] == file.name and channel.read[1] > 4:
        position = channel.read[1]
        channel.cursor_entry = next(
            (i for i, entry in enumerate(file.entries) if entry.start >= position),
            len(file.entries),
        )
    _begin_file(fleet, channel, file, position)
    applier.wake(fleet, channel)
    wake(fleet, channel)


def wake(fleet: Fleet, channel: Channel) -> None:
    """The source's log has grown: the events arrive after a while."""
    if not channel.is_connected or channel.receive_is_scheduled:
        return
    channel.receive_is_scheduled = True
    fleet.clock.schedule(
        fleet.now + fleet.rng.randrange(*_NETWORK_US),
        channel.replica,
        _receive,
        fleet,
        channel,
        channel.generation,
    )


def flush_position(fleet: Fleet, channel: Channel, events: int = 1) -> None:
    """flush_info: F_c becomes the end of the relay log; it is stored every sync_source_info events.

    By position a stored place inside a group would be where a new connection begins, so the write
    waits for the end of the group there.
    """
    channel.flushed = relay_log.end(channel)
    last = channel.pending[-1] if channel.pending else None
    is_inside = isinstance(last, QueuedGroup) and not last.is_complete
    if is_inside and not channel.auto_position:
        channel.mi.handler.sync_counter += events
        return
    _flush_info(fleet, channel, "sync", events, force=False)


def persist_position(fleet: Fleet, channel: Channel, reason: str) -> None:
    """Store Rd_c at once: a moment that REQ-3 names."""
    _flush_info(fleet, channel, reason, 0, force=True)


def _flush_info(fleet: Fleet, channel: Channel, reason: str, events: int, *, force: bool) -> None:
    if force and not fleet.hooks.on_info_write(fleet, channel, master_info.TABLE, reason):
        return
    written = channel.mi.flush(channel, force=force, count=events)
    if written is None:
        return
    body: dict[str, Any] = {
        "table": master_info.TABLE,
        "channel": channel.name,
        "reason": reason,
        "row": {
            "Channel_name": channel.name,
            "Master_log_name": channel.read[0],
            "Master_log_pos": channel.read[1],
        },
    }
    if not written.is_durable:
        body["durable"] = False
    channel.replica.journal.fact(RecordType.INFO_WRITE, body, channel.name)


def _receive(fleet: Fleet, channel: Channel, generation: int) -> None:
    if generation != channel.generation or not channel.is_connected:
        return
    later = partial(_receive, fleet, channel, generation)
    if backup_locks.coordinates_wait(channel.replica, later):
        return
    channel.receive_is_scheduled = False
    source = channel.source
    if channel.cursor_lineage != source.binlog.lineage:
        return  # RESET under a connected replica: both threads stay Yes and receive nothing
    for _ in range(_GROUPS_AT_ONCE):
        file = source.binlog.file_of_number(channel.cursor_file)
        if file is None:
            break
        if channel.cursor_entry >= len(file.entries):
            following = source.binlog.file_of_number(file.number + 1)
            if following is None:
                break
            # The file before ended with STOP or a crash, so no ROTATE has been sent.
            _next_file(fleet, channel, following)
            continue
        entry = file.entries[channel.cursor_entry]
        if isinstance(entry, FramingEvent):
            channel.cursor_entry += 1
            _receive_framing(fleet, channel, file, entry)
        elif not _receive_group(fleet, channel, file, entry):
            wake(fleet, channel)
            break
    else:
        wake(fleet, channel)
    applier.wake(fleet, channel)


def _receive_group(fleet: Fleet, channel: Channel, file: BinlogFile, logged: LoggedGroup) -> bool:
    """Queue the next events of a group; False: the rest of it comes later."""
    group = logged.group
    last = channel.pending[-1] if channel.pending else None
    if isinstance(last, QueuedGroup) and last.logged is logged:
        queued = last
    else:
        if _is_excluded(channel, logged):
            _skip_what_is_there(fleet, channel, file)
            return True
        if group.server_id in channel.ignore_server_ids or not fleet.hooks.on_queue(
            fleet, channel, logged
        ):
            channel.cursor_entry += 1
            channel.read = (file.name, logged.end)
            return True
        relay_file = channel.relay_files[-1]
        queued = QueuedGroup(logged, file.name, relay_file, relay_file.end)
        relay_file.groups.append(queued)
        channel.pending.append(queued)
    count = len(group.body) + 1
    up_to = count
    if count - queued.events_received > 2 and fleet.rng.random() < fleet.partial_chance:
        up_to = fleet.rng.randrange(queued.events_received + 1, count)
    events = up_to - queued.events_received
    relay_log.write_group_events(channel, queued, up_to)
    crash_points.reach(channel, CrashPoint.BETWEEN_RELAY_LOG_AND_MASTER_INFO, group)
    channel.read = (file.name, logged.start + queued.end - queued.start)
    if up_to < count:
        if fleet.rng.random() < 0.5:  # else written and not yet flushed: the log is beyond F_c
            flush_position(fleet, channel, events)
        return False
    flush_position(fleet, channel, events)
    if group.sid is not None:
        channel.retrieved.add(group.sid, group.gno)
    channel.cursor_entry += 1
    relay_file = channel.relay_files[-1]
    if relay_file.end >= channel.replica.max_binlog_size:
        # A rotation by size stores nothing: MySQL 8.0 does so where the source's file changes.
        relay_log.rotate(fleet, channel, with_source_format=True)
        flush_position(fleet, channel)
    return True


def _skip_what_is_there(fleet: Fleet, channel: Channel, file: BinlogFile) -> None:
    """Pass the groups that auto-position excludes, up to the first one that is to be sent."""
    skipped_to = 0
    while channel.cursor_entry < len(file.entries):
        entry = file.entries[channel.cursor_entry]
        if not isinstance(entry, LoggedGroup) or not _is_excluded(channel, entry):
            break
        skipped_to = entry.end
        channel.cursor_entry += 1
    if skipped_to:
        # The source sends a heartbeat so that the replica's position follows.
        channel.read = (file.name, skipped_to)
        relay_log.write_position(fleet, channel, *channel.read)
        flush_position(fleet, channel)


def _is_excluded(channel: Channel, logged: LoggedGroup) -> bool:
    group = logged.group
    return (
        channel.auto_position
        and group.sid is not None
        and (group.sid, group.gno) in channel.excluded
    )


def _receive_framing(fleet: Fleet, channel: Channel, file: BinlogFile, event: FramingEvent) -> None:
    if event.type == EventType.STOP:
        channel.read = (file.name, event.end)
    if event.type != EventType.ROTATE or event.next_file is None:
        return
    channel.read = (event.next_file, 4)
    relay_log.rotate(fleet, channel, with_source_format=False)
    relay_log.write_source_rotate(fleet, channel, event.end, event.checksum, event.next_file)
    flush_position(fleet, channel)
    persist_position(fleet, channel, "relay_rotate")
    following = channel.source.binlog.file_of_number(file.number + 1)
    if following is not None and following.name == event.next_file:
        _next_file(fleet, channel, following)


def _next_file(fleet: Fleet, channel: Channel, file: BinlogFile) -> None:
    channel.cursor_file = file.number
    channel.cursor_entry = 0
    _begin_file(fleet, channel, file, 4)


def _begin_file(fleet: Fleet, channel: Channel, file: BinlogFile, position: int) -> None:
    """What a dump sends before the first group of a file, as the receiver writes it."""
    channel.read = (file.name, position)
    relay_log.rotate(fleet, channel, with_source_format=False)
    relay_log.write_artificial_rotate(fleet, channel, file.name, position)
    from_start = position == 4
    relay_log.write_source_format(fleet, channel, file.entries[0].end if from_start else 0)
    if from_start:
        # PREVIOUS_GTIDS means nothing to a replica: a ROTATE with the position after it stands in.
        channel.read = (file.name, file.entries[1].end)
        relay_log.write_position(fleet, channel, *channel.read)
        channel.cursor_entry = 2
    flush_position(fleet, channel)
    persist_position(fleet, channel, "relay_rotate")


def _file_by_gtids(channel: Channel) -> BinlogFile | None:
    """The newest file whose PREVIOUS_GTIDS the replica has all of; remembers what it has."""
    source = channel.source
    has = channel.replica.executed.copy()
    has.update(channel.retrieved)
    channel.excluded = has
    own = source.server_uuid
    if any(sid == own and (sid, last) not in source.logged for sid, _, last in has):
        return None  # the replica has GTIDs of the source that the source has not
    for file in reversed(source.binlog.files):
        if file.previous_gtids.is_subset(has):
            return file if source.purged.is_subset(has) else None
    return None


def _file_by_position(channel: Channel) -> BinlogFile | None:
    files = channel.source.binlog.files
    if not channel.read[0]:
        return files[0]
    return next((file for file in files if file.name == channel.read[0]), None)


def _administer(channel: Channel, action: str) -> None:
    channel.replica.journal.fact(
        RecordType.CHANNEL, {"channel": channel.name, "action": action}, channel.name
    )
