"""What administrators do to a running server: rotate, purge, reset, restart, set variables."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.binlog import MAGIC_LENGTH, format_log_file_name
from tallystick.producers.simulator import applier, binary_log, commit, innodb, receiver, relay_log
from tallystick.producers.simulator.backup_safe_binlog import backup_locks
from tallystick.producers.simulator.clone import gtid_persistence, gtid_state
from tallystick.producers.simulator.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.log_position_lock import outer_locks
from tallystick.producers.simulator.model import QueuedGroup
from tallystick.producers.simulator.online_backup import backup_synchronization
from tallystick.producers.simulator.replication_info import (
    crash_points,
    master_info,
    recovery,
    worker_info,
)
from tallystick.producers.simulator.replication_info.crash_points import CrashPoint

if TYPE_CHECKING:
    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.model import Channel, Instance

RECONNECT_US = (20_000, 120_000)
DOWN_US = (150_000, 500_000)


def flush_binary_logs(fleet: Fleet, instance: Instance) -> None:
    """FLUSH NO_WRITE_TO_BINLOG BINARY LOGS."""
    if not instance.is_running or not instance.log_bin:
        return
    if backup_locks.coordinates_wait(instance, partial(flush_binary_logs, fleet, instance)):
        return
    commit.finish_all(fleet, instance)
    binary_log.rotate(fleet, instance)


def purge_binary_logs(fleet: Fleet, instance: Instance) -> None:
    """PURGE BINARY LOGS TO the oldest file that a replica still needs."""
    if instance.is_running and instance.log_bin and not outer_locks.forbids_purge(instance):
        binary_log.purge(fleet, instance, binary_log.purge_limit(instance))


def reset_binary_logs(fleet: Fleet, instance: Instance) -> None:
    """RESET MASTER: a new lineage from file 000001, no GTID executed."""
    if backup_locks.coordinates_wait(instance, partial(reset_binary_logs, fleet, instance)):
        return
    commit.finish_all(fleet, instance)
    gtid_persistence.reset(fleet, instance)
    instance.commit_generation += 1
    instance.binlog.files = []
    instance.binlog.lineage += 1
    for name in ("executed", "purged", "table", "table_only", "gtids_saved", "logged"):
        setattr(instance, name, GtidIntervals())
    instance.journal.fact(RecordType.BINLOG_RESET, {})
    binary_log.open_file(fleet, instance, 1, GtidIntervals())


def set_gtid_purged(fleet: Fleet, instance: Instance, added: GtidIntervals) -> None:
    """SET gtid_purged = '+...': executed and purged grow without an event."""
    commit.finish_all(fleet, instance)
    for gtids in (
        instance.executed,
        instance.purged,
        instance.table,
        instance.table_only,
        instance.logged,
    ):
        gtids.update(added)
    instance.journal.fact(RecordType.GTID_PURGED, {"added": added.text()})


def set_variables(instance: Instance, **variables: Any) -> None:
    """SET GLOBAL."""
    instance.variables.update(variables)
    instance.gtid_mode = instance.variables["gtid_mode"]
    instance.journal.fact(RecordType.VARIABLES, {"variables": variables})


def flush_relay_logs(fleet: Fleet, channel: Channel) -> None:
    """FLUSH NO_WRITE_TO_BINLOG RELAY LOGS: the relay log rotates, F_c stays where it was."""
    if not channel.replica.is_running or not channel.relay_files or has_partial_group(channel):
        return
    channel.replica.journal.fact(
        RecordType.CHANNEL, {"channel": channel.name, "action": "flush_relay_logs"}, channel.name
    )
    relay_log.rotate(fleet, channel, with_source_format=bool(channel.read[0]))
    if channel.applier_runs and not channel.pending and fleet.rng.random() < 0.5:
        # An applier that waits at the end of the relay log may move on into the new file.
        channel.applied = relay_log.end(channel)
        channel.group_end = (*channel.applied, *channel.executed)
        applier.persist_positions(fleet, channel, "relay_rotate")
        relay_log.purge_applied(channel)


def reconnect(fleet: Fleet, channel: Channel) -> None:
    """The network breaks the connection for a while."""
    if not channel.is_connected or not channel.replica.is_running:
        return
    if not channel.auto_position and has_partial_group(channel):
        return  # by position the receiver would go on inside the group
    receiver.reconnect(fleet, channel, fleet.rng.randrange(*RECONNECT_US))


def change_source(
    fleet: Fleet,
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
    assert not channel.receiver_runs
    assert not channel.applier_runs
    backup_locks.end_all(fleet, channel.replica)
    if channel in channel.source.subscribers:
        channel.source.subscribers.remove(channel)
    source.subscribers.append(channel)
    channel.source = source
    channel.is_configured = True
    channel.ignore_server_ids = ignore_server_ids
    channel.mi.connection = master_info.connection(fleet.scenario.seed, channel)
    clear_channel(channel)
    body: dict[str, Any] = {
        "channel": channel.name,
        "action": "change_source",
        "source_uuid": source.server_uuid,
        "source_instance": source.instance_id,
        "auto_position": channel.auto_position,
    }
    if position is not None and not channel.auto_position:
        channel.read = channel.executed = position
        body["source_log_file"], body["source_log_pos"] = position
    if ignore_server_ids:
        body["ignore_server_ids"] = list(ignore_server_ids)
        body["filtered"] = True
    channel.replica.journal.fact(RecordType.CHANNEL, body, channel.name)
    receiver.create_relay_log(fleet, channel, 1)
    receiver.persist_position(fleet, channel, "change_source")
    crash_points.reach(channel, CrashPoint.BETWEEN_REPOSITORIES)
    applier.persist_positions(fleet, channel, "change_source")


def stop_replication(fleet: Fleet, channel: Channel) -> None:
    """STOP REPLICA; a backup that holds the positions still is killed first."""
    backup_locks.end_all(fleet, channel.replica)
    receiver.stop(fleet, channel)
    crash_points.reach(channel, CrashPoint.BETWEEN_REPOSITORIES)
    applier.stop(fleet, channel)


def restart_appliers(fleet: Fleet, replica: Instance) -> None:
    """START REPLICA SQL_THREAD where an error has stopped an applier."""
    for channel in replica.channels.values():
        if channel.sql_errno:
            applier.start(fleet, channel)


def start_replication(fleet: Fleet, channel: Channel) -> None:
    """START REPLICA; an operator leaves it alone until a clone that is under way has succeeded."""
    if channel.replica.awaits_clone:
        return
    applier.start(fleet, channel)
    receiver.start(fleet, channel)


def reset_replica(fleet: Fleet, channel: Channel, *, everything: bool = False) -> None:
    """RESET REPLICA [ALL]: relay logs gone, with ALL the channel too."""
    stop_replication(fleet, channel)
    clear_channel(channel)
    channel.applied = (format_log_file_name(channel.relay_base_name, 1), MAGIC_LENGTH)
    action = "reset_all" if everything else "reset"
    channel.replica.journal.fact(
        RecordType.CHANNEL, {"channel": channel.name, "action": action}, channel.name
    )
    if everything:
        channel.mi.handler.reset_info()
        channel.is_configured = False
        if channel in channel.source.subscribers:
            channel.source.subscribers.remove(channel)


def clear_channel(channel: Channel) -> None:
    """Forget relay logs and positions; how to reach the source is still stored."""
    channel.generation += 1
    channel.receive_is_scheduled = channel.apply_is_scheduled = False
    channel.is_connected = False
    channel.relay_files = []
    channel.pending = []
    channel.retrieved = GtidIntervals()
    channel.read = ("", 4)
    channel.flushed = channel.applied = channel.executed = ("", 0)
    channel.group_end = ("", 0, "", 0)
    channel.mi.flush(channel, force=True)
    channel.rli.handler.reset_info()
    worker_info.forget(channel)


def has_partial_group(channel: Channel) -> bool:
    """Whether the receiver stands inside a group."""
    last = channel.pending[-1] if channel.pending else None
    return isinstance(last, QueuedGroup) and not last.is_complete


def shut_down(fleet: Fleet, instance: Instance) -> None:
    """A clean shutdown, and the start after a while."""
    if not instance.is_running:
        return
    backup_locks.end_all(fleet, instance)
    commit.finish_all(fleet, instance)
    for channel in instance.channels.values():
        if channel.is_configured:
            was_running = channel.receiver_runs, channel.applier_runs
            stop_replication(fleet, channel)
            channel.starts_at_boot = any(was_running)
            if channel.relay_files:
                relay_log.write_stop(fleet, channel)
            recovery.end_cleanly(channel)
    gtid_persistence.wait_flush(instance)
    if instance.log_bin:
        binary_log.close_with_stop(fleet, instance)
    fleet.hooks.on_stop(fleet, instance, crashed=False)
    instance.journal.fact(RecordType.STOP, {"clean": True})
    _go_down(fleet, instance, crashed=False)


def crash(fleet: Fleet, instance: Instance, *, torn: bool = True, power_cut: bool = False) -> None:
    """A crash in the middle of the write of a group, and the start after a while.

    Args:
        fleet: The fleet.
        instance: Who crashes.
        torn: Some events of the group are in the file; recovery truncates them.
        power_cut: The machine crashes with the server: what was not synced is gone.
    """
    instance.crash_plan = None
    if not instance.is_running:
        return
    if torn and instance.log_bin and not instance.backup_locks.stops_coordinates:
        fleet.write_torn_group(instance)
    # Groups behind the flush stage are prepared in the engine: recovery commits them.
    while instance.in_commit:
        pending = instance.in_commit.pop(0)
        group = pending.logged.group
        if instance.tables is not None:
            instance.tables.change(group)
        gtid_persistence.recover_from_binary_log(instance, group)
        if pending.channel is not None and pending.queued is not None:
            applier.recover_position(pending.channel, pending.queued)
    fleet.hooks.on_stop(fleet, instance, crashed=True)
    for channel in instance.channels.values():
        channel.starts_at_boot |= channel.receiver_runs or channel.applier_runs
        recovery.lose_connection(channel)
    if power_cut:
        recovery.lose_power(instance)
    _go_down(fleet, instance, crashed=True)


def die_at(fleet: Fleet, instance: Instance, *, power_cut: bool) -> None:
    """The server has died in the middle of an act, a start included."""
    if instance.is_running:
        crash(fleet, instance, torn=False, power_cut=power_cut)
    else:
        _go_down(fleet, instance, crashed=True)


def _go_down(fleet: Fleet, instance: Instance, *, crashed: bool) -> None:
    instance.is_running = False
    gtid_persistence.forget_memory(instance)
    instance.commit_generation += 1
    backup_locks.lose_all(fleet, instance)
    instance.outer_locks = None
    for channel in instance.channels.values():
        recovery.lose_memory(channel)
    if instance.backup_synchronization is not None:
        backup_synchronization.interrupt(fleet, instance)
    for channel in instance.subscribers:
        receiver.reconnect(fleet, channel, fleet.rng.randrange(*RECONNECT_US))
    if instance.donation is not None:
        instance.donation.donor_went_down()
    if instance.clone is not None:
        instance.clone.recipient_went_down()
    start_later(fleet, instance, crashed=crashed)


def start_later(fleet: Fleet, instance: Instance, *, crashed: bool) -> None:
    """The service manager starts a server that is down."""
    fleet.clock.schedule(
        fleet.now + fleet.rng.randrange(*DOWN_US), instance, start, fleet, instance, crashed
    )


def start(fleet: Fleet, instance: Instance, crashed: bool) -> None:
    """A boot after a stop or crash: recovery, the next binary log file, replication."""
    if instance.clone is not None:
        instance.clone.boot(crashed=crashed)
        return
    if instance.restored_from is not None:
        copy, instance.restored_from = instance.restored_from, None
        copy.boot(fleet, instance)
        return
    innodb.restart(instance.innodb, fleet.rng, crashed=crashed)
    # None: without a binary log, or with none yet.
    last = instance.binlog.files[-1] if instance.log_bin and instance.binlog.files else None
    recovered = None
    if crashed and last is not None:
        file, position = instance.binlog.position
        recovered = {"file": file, "position": position}
    undo_gtids = gtid_persistence.recover(fleet, instance)
    if undo_gtids is None:  # it crashed again
        start_later(fleet, instance, crashed=True)
        return
    # After a start the server lists its channels in alphabetic order.
    instance.channels = dict(sorted(instance.channels.items()))
    repositories = recovery.read_back(instance)
    body = fleet.start_body(
        instance, crashed=crashed, recovered=recovered, repositories=repositories
    )
    if crashed:
        body["undo_gtids"] = undo_gtids.text()
    logged = GtidIntervals() if last is None else binary_log.gtids_through(last)
    gtid_state.init_gtid_sets(instance, logged)
    fleet.hooks.on_recovered(fleet, instance, body)
    instance.is_running = True
    instance.rotation_is_due = False
    instance.journal.fact(RecordType.START, body)
    gtid_persistence.tell_recovery(instance, undo_gtids)
    if last is not None:
        last.is_closed = True
    if instance.log_bin:
        number = 1 if last is None else last.number + 1
        binary_log.open_file(fleet, instance, number, logged)
    for channel in instance.channels.values():
        if channel.is_configured and channel.relay_files:
            recovery.recover(fleet, channel)
        if channel.is_configured and channel.starts_at_boot:
            channel.starts_at_boot = False
            start_replication(fleet, channel)
