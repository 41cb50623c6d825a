"""What administrators do to a running server: rotate, purge, reset, restart, set variables."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.binlog import MAGIC_LENGTH, format_log_file_name
from tallystick.producers.simulator.backup import backup_locks, outer_locks
from tallystick.producers.simulator.backup.lock_state import BackupLocks
from tallystick.producers.simulator.backup.outer_locks import OuterLocks
from tallystick.producers.simulator.innodb import gtid_persistence, redo_log
from tallystick.producers.simulator.innodb.gtid_persistence import CRASH
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.kernel.bus import Notice
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.kernel.world import BOOT, WENT_DOWN
from tallystick.producers.simulator.replication_info import (
    crash_points,
    master_info,
    recovery,
    rpl_info_factory,
    worker_info,
)
from tallystick.producers.simulator.replication_info.crash_points import CrashPlan, CrashPoint
from tallystick.producers.simulator.replication_info.master_info import MasterInfo
from tallystick.producers.simulator.replication_info.relay_log_info import RelayLogInfo
from tallystick.producers.simulator.replication_info.worker_info import Workers
from tallystick.producers.simulator.server import (
    applier,
    binary_log,
    commit,
    gtid_state,
    receiver,
    relay_log,
    workload,
)
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import (
    Applier,
    Channel,
    ChannelMap,
    QueuedGroup,
    Receiver,
    RelayLog,
)
from tallystick.producers.simulator.server.commit_queue import VISIBLE, CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState
from tallystick.producers.simulator.server.locks import MAY_MOVE

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.bus import Bus
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

STOPPED: Notice[[World, Instance, bool]] = Notice(
    "the instance goes down, crashed or not; its binary log is as it was written"
)
RECOVERED: Notice[[World, Instance, dict[str, Any]]] = Notice(
    "recovery has ended; the body of the start record, before it is written"
)

RECONNECT_US = (20_000, 120_000)
DOWN_US = (150_000, 500_000)


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
    """FLUSH NO_WRITE_TO_BINLOG RELAY LOGS: the relay log rotates, F_c stays where it was."""
    if not channel.replica.is_running or not channel[RelayLog].files or has_partial_group(channel):
        return
    channel.record("flush_relay_logs")
    relay_log.rotate(fleet, channel, with_source_format=bool(channel[Receiver].read[0]))
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
    if not channel.auto_position and has_partial_group(channel):
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
    """CHANGE REPLICATION SOURCE TO: a new channel lineage; receiver and applier stand still.

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
    if channel in channel.source[ChannelMap].subscribers:
        channel.source[ChannelMap].subscribers.remove(channel)
    source[ChannelMap].subscribers.append(channel)
    channel.source = source
    channel.is_configured = True
    channel[Receiver].ignore_server_ids = ignore_server_ids
    channel[MasterInfo].connection = master_info.connection(fleet.scenario.seed, channel)
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
    receiver.persist_position(fleet, channel, "change_source")
    crash_points.reach(channel, CrashPoint.BETWEEN_REPOSITORIES)
    applier.persist_positions(fleet, channel, "change_source")


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
    channel.pending = []
    channel[Receiver].retrieved = GtidIntervals()
    channel[Receiver].read = ("", 4)
    channel[Receiver].flushed = channel[Applier].applied = channel[Applier].executed = ("", 0)
    channel[Applier].group_end = ("", 0, "", 0)
    channel[MasterInfo].flush(channel, force=True)
    channel[RelayLogInfo].handler.reset_info()
    worker_info.forget(channel)


def has_partial_group(channel: Channel) -> bool:
    """Whether the receiver stands inside a group."""
    last = channel.pending[-1] if channel.pending else None
    return isinstance(last, QueuedGroup) and not last.is_complete


def shut_down(fleet: World, instance: Instance) -> None:
    """A clean shutdown, and the start after a while."""
    if not instance.is_running:
        return
    backup_locks.end_all(fleet, instance)
    commit.finish_all(fleet, instance)
    for channel in instance[ChannelMap].channels.values():
        if channel.is_configured:
            was_running = channel[Receiver].is_running, channel[Applier].is_running
            stop_replication(fleet, channel)
            channel.starts_at_boot = any(was_running)
            if channel[RelayLog].files:
                relay_log.write_stop(fleet, channel)
            recovery.end_cleanly(channel)
    gtid_persistence.wait_flush(instance)
    if instance[BinaryLog].is_open:
        binary_log.close_with_stop(fleet, instance)
    fleet.bus.emit(STOPPED, fleet, instance, False)  # noqa: FBT003 - did not crash
    instance.journal.record(RecordType.STOP, {"clean": True})
    _go_down(fleet, instance, crashed=False)


def crash(fleet: World, instance: Instance, *, torn: bool = True, power_cut: bool = False) -> None:
    """A crash in the middle of the write of a group, and the start after a while.

    Args:
        fleet: The fleet.
        instance: Who crashes.
        torn: Some events of the group are in the file; recovery truncates them.
        power_cut: The machine crashes with the server: what was not synced is gone.
    """
    instance.remove(CrashPlan)
    if not instance.is_running:
        return
    if torn and instance[BinaryLog].is_open and not instance[BackupLocks].stops_coordinates:
        _write_torn_group(fleet, instance)
    # Groups behind the flush stage are prepared in the engine: recovery commits them.
    while instance[CommitQueue].in_commit:
        pending = instance[CommitQueue].in_commit.pop(0)
        group = pending.logged.group
        fleet.bus.emit(VISIBLE, instance, group)
        gtid_persistence.recover_from_binary_log(instance, group)
        if pending.channel is not None and pending.queued is not None:
            applier.recover_position(fleet, pending.channel, pending.queued)
    fleet.bus.emit(STOPPED, fleet, instance, True)  # noqa: FBT003 - crashed
    for channel in instance[ChannelMap].channels.values():
        channel.starts_at_boot |= channel[Receiver].is_running or channel[Applier].is_running
        recovery.lose_connection(channel)
    if power_cut:
        recovery.lose_power(instance)
    _go_down(fleet, instance, crashed=True)


def _write_torn_group(fleet: World, instance: Instance) -> None:
    """The first events of a group reach the file, then the server is gone."""
    group = workload.make_group(fleet.rng, GroupKind.INNODB, instance.server_id, fleet.now)
    commit.assign_gtid(instance, group)
    file = instance[BinaryLog].active
    torn = binary_log.place_group(
        instance, group, last_committed=0, gtid_checksum=fleet.rng.getrandbits(32)
    )
    start, gtid_length = torn.start, torn.gtid_length
    ends = [start + gtid_length, *(s + n for _, _, s, n, _ in torn.events())]
    binary_log.journal_group(instance, file, torn, ends[fleet.rng.randrange(len(ends) - 1)])


def die_at(fleet: World, instance: Instance, *, power_cut: bool) -> None:
    """The server has died in the middle of an act, a start included."""
    if instance.is_running:
        crash(fleet, instance, torn=False, power_cut=power_cut)
    else:
        _go_down(fleet, instance, crashed=True)


def _go_down(fleet: World, instance: Instance, *, crashed: bool) -> None:
    instance.is_running = False
    gtid_persistence.forget_memory(instance)
    instance[CommitQueue].generation += 1
    backup_locks.lose_all(fleet, instance)
    instance.remove(OuterLocks)
    for channel in instance[ChannelMap].channels.values():
        recovery.lose_memory(channel)
    for channel in instance[ChannelMap].subscribers:
        receiver.reconnect(fleet, channel, fleet.rng.randrange(*RECONNECT_US))
    fleet.bus.emit(WENT_DOWN, fleet, instance)
    start_later(fleet, instance, crashed=crashed)


def start_body(
    fleet: World,
    instance: Instance,
    *,
    crashed: bool = False,
    recovered: dict[str, Any] | None = None,
    repositories: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """The body of a ``start`` record; ``repositories`` is what the start found (REQ-6)."""
    body: dict[str, Any] = {
        "server_uuid": instance.server_uuid,
        "server_id": instance.server_id,
        "version": instance.version,
        "profile": fleet.scenario.profile,
        "crashed": crashed,
        "gtid_executed_table": instance[GtidState].table.text(),
        "repositories": repositories or [],
        "variables": dict(instance.variables),
    }
    if recovered is not None:
        body["recovered"] = recovered
    return body


def join(bus: Bus) -> None:
    """A server may crash in the middle of GTID persistence."""
    bus.connect(CRASH, crash)


def start_later(fleet: World, instance: Instance, *, crashed: bool) -> None:
    """The service manager starts a server that is down."""
    fleet.clock.schedule(
        fleet.now + fleet.rng.randrange(*DOWN_US), instance, start, fleet, instance, crashed
    )


def start(fleet: World, instance: Instance, crashed: bool) -> None:
    """A boot after a stop or crash: recovery, the next binary log file, replication."""
    if not fleet.bus.emit(BOOT, fleet, instance, crashed):
        return
    redo_log.restart(instance[Innodb], fleet.rng, crashed=crashed)
    # None: without a binary log, or with none yet.
    last = (
        instance[BinaryLog].files[-1]
        if instance[BinaryLog].is_open and instance[BinaryLog].files
        else None
    )
    recovered = None
    if crashed and last is not None:
        file, position = instance[BinaryLog].position
        recovered = {"file": file, "position": position}
    undo_gtids = gtid_persistence.recover(fleet, instance)
    if undo_gtids is None:  # it crashed again
        start_later(fleet, instance, crashed=True)
        return
    # After a start the server lists its channels in alphabetic order.
    instance[ChannelMap].channels = dict(sorted(instance[ChannelMap].channels.items()))
    repositories = recovery.read_back(instance)
    body = start_body(
        fleet, instance, crashed=crashed, recovered=recovered, repositories=repositories
    )
    if crashed:
        body["undo_gtids"] = undo_gtids.text()
    logged = GtidIntervals() if last is None else last.gtids()
    gtid_state.init_gtid_sets(instance, logged)
    fleet.bus.emit(RECOVERED, fleet, instance, body)
    instance.is_running = True
    instance[BinaryLog].rotation_is_due = False
    instance.journal.record(RecordType.START, body)
    gtid_persistence.record_recovery(instance, undo_gtids)
    if last is not None:
        last.is_closed = True
    if instance[BinaryLog].is_open:
        number = 1 if last is None else last.number + 1
        binary_log.open_file(fleet, instance, number, logged)
    for channel in instance[ChannelMap].channels.values():
        if channel.is_configured and channel[RelayLog].files:
            recovery.recover(fleet, channel)
        if channel.is_configured and channel.starts_at_boot:
            channel.starts_at_boot = False
            start_replication(fleet, channel)
