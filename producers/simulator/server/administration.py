"""What administrators do to a running server: rotate, purge, reset, set variables, replicate."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.binlog import MAGIC_LENGTH, format_log_file_name
from tallystick.producers.simulator.backup import backup_locks, outer_locks
from tallystick.producers.simulator.innodb import gtid_persistence
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.replication_info import (
    crash_points,
    master_info,
    rpl_info_factory,
    worker_info,
)
from tallystick.producers.simulator.replication_info.crash_points import CrashPoint
from tallystick.producers.simulator.replication_info.master_info import MasterInfo
from tallystick.producers.simulator.replication_info.relay_log_info import RelayLogInfo
from tallystick.producers.simulator.replication_info.worker_info import Workers
from tallystick.producers.simulator.server import (
    applier,
    binary_log,
    commit,
    receiver,
    relay_log,
)
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import (
    Applier,
    Channel,
    ChannelMap,
    Receiver,
    RelayLog,
)
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState
from tallystick.producers.simulator.server.locks import MAY_MOVE

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

RECONNECT_US = (20_000, 120_000)


def flush_binary_logs(fleet: World, instance: Instance) -> None:
    """FLUSH NO_WRITE_TO_BINLOG BINARY LOGS."""
    if not instance.is_running or not instance[BinaryLog].is_open:
        return
    if not fleet.bus.emit(MAY_MOVE, instance, partial(flush_binary_logs, fleet, instance)):
        return
    commit.finish_all(fleet, instance)
    binary_log.rotate(fleet, instance)


def purge_binary_logs(fleet: World, instance: Instance) -> None:
    """PURGE BINARY LOGS TO the oldest file that a replica still needs."""
    if (
        instance.is_running
        and instance[BinaryLog].is_open
        and not outer_locks.forbids_purge(instance)
    ):
        binary_log.purge(fleet, instance, binary_log.purge_limit(instance))


def reset_binary_logs(fleet: World, instance: Instance) -> None:
    """RESET MASTER: a new lineage from file 000001, no GTID executed."""
    if not fleet.bus.emit(MAY_MOVE, instance, partial(reset_binary_logs, fleet, instance)):
        return
    commit.finish_all(fleet, instance)
    gtid_persistence.reset(fleet, instance)
    instance[CommitQueue].generation += 1
    instance[BinaryLog].files = []
    instance[BinaryLog].lineage += 1
    instance[GtidState].begin_with(GtidIntervals())
    instance.journal.record(RecordType.BINLOG_RESET, {})
    binary_log.open_file(fleet, instance, 1, GtidIntervals())


def set_gtid_purged(fleet: World, instance: Instance, added: GtidIntervals) -> None:
    """SET gtid_purged = '+...': executed and purged grow without an event."""
    commit.finish_all(fleet, instance)
    for gtids in (
        instance[GtidState].executed,
        instance[GtidState].purged,
        instance[GtidState].table,
        instance[GtidState].table_only,
        instance[GtidState].logged,
    ):
        gtids.update(added)
    instance.journal.record(RecordType.GTID_PURGED, {"added": added.text()})


def set_variables(instance: Instance, **variables: Any) -> None:
    """SET GLOBAL."""
    instance.variables.update(variables)
    instance[GtidState].mode = instance.variables["gtid_mode"]
    instance.journal.record(RecordType.VARIABLES, {"variables": variables})


def flush_relay_logs(fleet: World, channel: Channel) -> None:
    """FLUSH NO_WRITE_TO_BINLOG RELAY LOGS: the relay log rotates.

    WL#2775, REQ-3 (i) asks for a write of the receiver's repository then; MySQL 8.0 makes none, and
    F_c stays where it was. Of a channel whose repositories could not be initialised none is open.
    """
    if (
        not channel.replica.is_running
        or not channel.is_configured
        or not channel[RelayLog].files
        or channel.partial_group is not None
    ):
        return
    channel.record("flush_relay_logs")
    relay_log.rotate(fleet, channel, with_source_format=bool(channel[Receiver].read[0]))
    if fleet.scenario.profile == "wl9452":
        receiver.flush_position(fleet, channel)
        receiver.persist_position(fleet, channel, "relay_rotate")
    if channel[Applier].is_running and not channel.pending and fleet.rng.random() < 0.5:
        # An applier that waits at the end of the relay log may move on into the new file.
        channel[Applier].applied = relay_log.end(channel)
        channel[Applier].group_end = (*channel[Applier].applied, *channel[Applier].executed)
        applier.persist_positions(fleet, channel, "relay_rotate")
        relay_log.purge_applied(channel)


def reconnect(fleet: World, channel: Channel) -> None:
    """The network breaks the connection for a while."""
    if not channel[Receiver].is_connected or not channel.replica.is_running:
        return
    if not channel.auto_position and channel.partial_group is not None:
        return  # by position the receiver would go on inside the group
    receiver.reconnect(fleet, channel, fleet.rng.randrange(*RECONNECT_US))


def change_source(
    fleet: World,
    channel: Channel,
    source: Instance,
    *,
    ignore_server_ids: tuple[int, ...] = (),
    position: tuple[str, int] | None = None,
) -> None:
    """CHANGE REPLICATION SOURCE TO: a new channel lineage; receiver and applier are stopped.

    The server flushes the receiver's positions, then removes the relay log and begins the new one:
    until the next flush F_c is the end of the relay log that is gone.

    Args:
        fleet: The fleet.
        channel: The channel.
        source: Its source from now on.
        ignore_server_ids: Servers whose groups are left out.
        position: Where a channel without auto-position begins; None: at the first file.
    """
    assert not channel[Receiver].is_running
    assert not channel[Applier].is_running
    backup_locks.end_all(fleet, channel.replica)
    _subscribe(fleet, channel, source)
    channel.is_configured = True
    channel[Receiver].ignore_server_ids = ignore_server_ids
    removed = relay_log.end(channel)
    clear_channel(channel)
    body: dict[str, Any] = {
        "source_uuid": source.server_uuid,
        "source_instance": source.instance_id,
        "auto_position": channel.auto_position,
    }
    if position is not None and not channel.auto_position:
        channel[Receiver].read = channel[Applier].executed = position
        body["source_log_file"], body["source_log_pos"] = position
    if ignore_server_ids:
        body["ignore_server_ids"] = list(ignore_server_ids)
        body["filtered"] = True
    channel.record("change_source", **body)
    receiver.create_relay_log(fleet, channel, 1)
    if removed[0]:
        channel[Receiver].flushed = removed
    receiver.persist_position(fleet, channel, "change_source")
    crash_points.reach(channel, CrashPoint.BETWEEN_REPOSITORIES)
    applier.persist_positions(fleet, channel, "change_source")


def point_receiver(fleet: World, channel: Channel, source: Instance) -> None:
    """CHANGE REPLICATION SOURCE TO while the applier runs: the relay log goes on.

    No record says so, but each row does.
    """
    receiver.stop(fleet, channel)
    _subscribe(fleet, channel, source)
    receiver.persist_position(fleet, channel, "change_source")
    receiver.start(fleet, channel)


def _subscribe(fleet: World, channel: Channel, source: Instance) -> None:
    if channel in channel.source[ChannelMap].subscribers:
        channel.source[ChannelMap].subscribers.remove(channel)
    source[ChannelMap].subscribers.append(channel)
    channel.source = source
    # Where the receiver will begin to read is not known before it connects: no file may go.
    channel[Receiver].cursor_lineage, channel[Receiver].cursor_file = source[BinaryLog].lineage, 0
    channel[MasterInfo].connection = master_info.connection(fleet.scenario.seed, channel)


def stop_replication(fleet: World, channel: Channel) -> None:
    """STOP REPLICA; a backup that holds the positions still is killed first."""
    backup_locks.end_all(fleet, channel.replica)
    receiver.stop(fleet, channel)
    crash_points.reach(channel, CrashPoint.BETWEEN_REPOSITORIES)
    applier.stop(fleet, channel)


def restart_appliers(fleet: World, replica: Instance) -> None:
    """START REPLICA SQL_THREAD where an error has stopped an applier."""
    for channel in replica[ChannelMap].channels.values():
        if channel[Applier].sql_errno:
            applier.start(fleet, channel)


def add_channel(
    fleet: World,
    replica: Instance,
    name: str,
    source: Instance,
    position: tuple[str, int] | None = None,
) -> Channel:
    """Configure a new channel and start replication on it.

    Args:
        fleet: The fleet.
        replica: Who receives.
        name: Of the channel.
        source: Who sends.
        position: Where a channel without auto-position begins; None: at the first file.
    """
    suffix = f"-{name}" if name else ""
    channels = replica[ChannelMap].channels
    channel = Channel(
        name,
        replica,
        source,
        number=len(channels) + 1,
        auto_position=fleet.scenario.auto_position and replica[GtidState].mode == "ON",
    )
    channel.add(
        RelayLog(f"{replica.instance_id}-relay-bin{suffix}"), Receiver(), Applier(), Workers()
    )
    channels[name] = channel
    rpl_info_factory.create(fleet, channel)
    change_source(fleet, channel, source, position=position)
    start_replication(fleet, channel)
    return channel


def start_replication(fleet: World, channel: Channel) -> None:
    """START REPLICA; an operator leaves it alone until a clone that is under way has succeeded."""
    if channel.replica[ChannelMap].awaits_clone:
        return
    applier.start(fleet, channel)
    receiver.start(fleet, channel)


def reset_replica(fleet: World, channel: Channel, *, everything: bool = False) -> None:
    """RESET REPLICA [ALL]: relay logs gone, with ALL the channel too."""
    stop_replication(fleet, channel)
    clear_channel(channel)
    channel[Applier].applied = (format_log_file_name(channel[RelayLog].base_name, 1), MAGIC_LENGTH)
    channel.record("reset_all" if everything else "reset")
    if everything:
        channel[MasterInfo].handler.reset_info()
        channel.is_configured = False
        if channel in channel.source[ChannelMap].subscribers:
            channel.source[ChannelMap].subscribers.remove(channel)


def clear_channel(channel: Channel) -> None:
    """Forget relay logs and positions; how to reach the source is still stored."""
    channel.generation += 1
    channel[Receiver].is_scheduled = channel[Applier].is_scheduled = False
    channel[Receiver].is_connected = False
    channel[RelayLog].files = []
    channel[RelayLog].beginnings += 1
    channel[RelayLog].is_left_open, channel[Applier].kept_file = False, ""
    channel.pending = []
    channel[Receiver].retrieved = GtidIntervals()
    channel[Receiver].read = ("", 4)
    channel[Receiver].flushed = channel[Applier].applied = channel[Applier].executed = ("", 0)
    channel[Applier].group_end = ("", 0, "", 0)
    channel[MasterInfo].flush(channel, force=True)
    channel[RelayLogInfo].handler.reset_info()
    worker_info.forget(channel)
