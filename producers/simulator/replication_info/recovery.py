"""What is left when a server is gone, and what a start makes of it (REQ-4).

Memory is lost at every end. A killed server leaves its files as the operating system has them; a
power cut takes what was not synced. A start reads the repositories, then either throws the relay
logs away and asks the source again after what is applied (relay_log_recovery), or goes on in them.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.values.binlog import parse_log_file_name
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.replication_info import rpl_info_factory, worker_info
from tallystick.producers.simulator.replication_info.master_info import MasterInfo
from tallystick.producers.simulator.replication_info.relay_log_info import RelayLogInfo
from tallystick.producers.simulator.replication_info.rpl_info_table_access import InfoRepositories
from tallystick.producers.simulator.replication_info.worker_info import Workers
from tallystick.producers.simulator.server import applier, receiver, relay_log
from tallystick.producers.simulator.server.channels import (
    Applier,
    ChannelMap,
    QueuedGroup,
    Receiver,
    RelayLog,
)

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.replication_info.relay_log_info import Coordinates
    from tallystick.producers.simulator.server.channels import Channel, QueuedFraming, RelayFile


def end_cleanly(channel: Channel) -> None:
    """A clean shutdown closes the repositories: everything is on disk."""
    channel[MasterInfo].handler.end_info()
    channel[RelayLogInfo].handler.end_info()
    sync_relay_log(channel)


def sync_relay_log(channel: Channel) -> None:
    """The relay log is on disk up to its end."""
    if channel[RelayLog].files:
        channel[RelayLog].synced = (
            channel[RelayLog].files[-1].number,
            channel[RelayLog].files[-1].end,
        )
    channel[RelayLog].events_since_sync = 0


def lose_power(instance: Instance) -> None:
    """The machine goes down: caches of files and of tables without transactions are gone."""
    for table in instance[InfoRepositories].tables.values():
        table.lose_power()
    for info_file in instance[InfoRepositories].files.values():
        info_file.lose_power()
    for channel in instance[ChannelMap].channels.values():
        number, end = channel[RelayLog].synced
        for file in channel[RelayLog].files:
            if file.number == number and end < file.end:
                truncate(file, end)


def lose_connection(channel: Channel) -> None:
    """The threads of a channel are gone; a group that was being received stays a torso."""
    channel[Receiver].is_connected = False
    channel.generation += 1
    channel[Receiver].is_scheduled = channel[Applier].is_scheduled = False
    channel[Receiver].is_running = channel[Applier].is_running = False
    for file in channel[RelayLog].files[-1:]:
        file.groups = [group for group in file.groups if group.is_complete]


def lose_memory(channel: Channel) -> None:
    """Nothing of what the threads knew outlives the server."""
    channel.pending = []
    channel[Receiver].retrieved = GtidIntervals()
    channel[Receiver].read = ("", 4)
    channel[Receiver].flushed = channel[Applier].applied = channel[Applier].executed = ("", 0)
    channel[Applier].group_end = ("", 0, "", 0)
    channel[Workers].workers = []


def read_back(instance: Instance) -> list[dict[str, Any]]:
    """A start reads every repository; what the ``start`` record has of them."""
    found = []
    for channel in instance[ChannelMap].channels.values():
        if channel.is_configured or channel.init_error:
            found += rpl_info_factory.initialise(channel)
    return found


def recover(fleet: World, channel: Channel) -> None:
    """Bring the relay log of a channel into order, so that its threads can start."""
    number = channel[RelayLog].files[-1].number + 1
    unread = _unread(channel, channel[Applier].group_end)
    if unread is None and not channel.replica.variables["relay_log_recovery"]:
        channel.is_configured = False
        channel.init_error = rpl_info_factory.ER_REPLICA_INIT_REPOSITORY
        return
    channel.pending = unread or []
    channel[Receiver].retrieved = _retrieved(channel)
    _mark_done(channel)
    if channel.replica.variables["relay_log_recovery"]:
        if any(isinstance(item, QueuedGroup) and item.is_applied for item in channel.pending):
            applier.fill_gaps(fleet, channel)
        _throw_relay_logs_away(fleet, channel, number)
        worker_info.forget(channel)
        return
    relay_log.open_file(fleet, channel, number)
    channel[Receiver].flushed = relay_log.end(channel)
    if any(isinstance(item, QueuedGroup) and item.is_applied for item in channel.pending):
        applier.fill_gaps(fleet, channel)
    worker_info.forget(channel)


def _throw_relay_logs_away(fleet: World, channel: Channel, number: int) -> None:
    """relay_log_recovery: relay logs are not trusted, the source is asked again."""
    channel.record("relay_log_recovery")
    channel[RelayLog].files = []
    channel[RelayLog].is_left_open = False
    channel.pending = []
    channel[Receiver].retrieved = GtidIntervals()
    channel[Applier].executed = (channel[Applier].group_end[2], channel[Applier].group_end[3])
    channel[Receiver].read = channel[Applier].executed if channel[Applier].executed[0] else ("", 4)
    receiver.create_relay_log(fleet, channel, number)
    applier.persist_positions(fleet, channel, "relay_rotate")


def _unread(channel: Channel, coordinates: Coordinates) -> list[QueuedGroup | QueuedFraming] | None:
    """What the relay log holds after coordinates; None when their file is gone."""
    relay_name, relay_pos, source_name, _ = coordinates
    names = [file.name for file in channel[RelayLog].files]
    first = 0
    if relay_name in names:
        first = names.index(relay_name)
    elif source_name and _number(relay_name) < channel[RelayLog].files[0].number:
        return None
    items: list[QueuedGroup | QueuedFraming] = []
    for file in channel[RelayLog].files[first:]:
        after = relay_pos if file.name == relay_name else 0
        found: list[QueuedGroup | QueuedFraming] = [*file.groups, *file.framings]
        found = [item for item in found if item.end > after]
        items += sorted(found, key=lambda item: item.end)
    for item in items:
        if isinstance(item, QueuedGroup):
            item.is_applied = False
    return items


def _mark_done(channel: Channel) -> None:
    """Multi-threaded recovery: mark the groups that workers had committed beyond the mark."""
    groups = [item for item in channel.pending if isinstance(item, QueuedGroup)]
    for at in worker_info.groups_done(channel, groups):
        groups[at].is_applied = True


def _retrieved(channel: Channel) -> GtidIntervals:
    """Retrieved_Gtid_Set as the relay logs have it."""
    gtids = channel[RelayLog].files[0].previous_gtids.copy()
    for file in channel[RelayLog].files:
        for queued in file.groups:
            group = queued.logged.group
            if queued.is_complete and group.sid is not None:
                gtids.add(group.sid, group.gno)
    return gtids


def truncate(file: RelayFile, end: int) -> None:
    """A relay file ends earlier than it was written."""
    file.end = end
    file.event_ends = file.event_ends[: bisect_right(file.event_ends, end)]
    file.groups = [group for group in file.groups if group.end <= end]
    file.framings = [framing for framing in file.framings if framing.end <= end]


def _number(name: str) -> int:
    return parse_log_file_name(name)[1]
