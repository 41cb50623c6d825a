"""The life of a server: shutdown, crash, and the start after a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.backup import backup_locks
from tallystick.producers.simulator.backup.lock_state import BackupLocks
from tallystick.producers.simulator.backup.outer_locks import OuterLocks
from tallystick.producers.simulator.innodb import gtid_persistence, redo_log
from tallystick.producers.simulator.innodb.gtid_persistence import CRASH
from tallystick.producers.simulator.kernel.bus import Notice
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.kernel.world import BOOT, WENT_DOWN
from tallystick.producers.simulator.replication_info import (
    recovery,
)
from tallystick.producers.simulator.replication_info.crash_points import CrashPlan
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
    ChannelMap,
    Receiver,
    RelayLog,
)
from tallystick.producers.simulator.server.commit_queue import VISIBLE, CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.bus import Bus
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

from tallystick.producers.simulator.server.administration import (
    RECONNECT_US,
    start_replication,
    stop_replication,
)

STOPPED: Notice[[World, Instance, bool]] = Notice(
    "the instance goes down, crashed or not; its binary log is as it was written"
)
RECOVERED: Notice[[World, Instance, dict[str, Any]]] = Notice(
    "recovery has ended; the body of the start record, before it is written"
)

DOWN_US = (150_000, 500_000)


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
    redo_log.write_checkpoint(instance)
    fleet.bus.emit(STOPPED, fleet, instance, False)  # noqa: FBT003 - did not crash
    instance.journal.record(RecordType.STOP, {"clean": True})
    _go_down(fleet, instance, crashed=False)


def restart_without_log(fleet: World, instance: Instance) -> None:
    """Restart with --skip-log-bin."""
    shut_down(fleet, instance)
    instance[BinaryLog].is_open = instance.variables["log_bin"] = False
    instance[GtidState].purged = instance[GtidState].executed.copy()


def restart_with_log(fleet: World, instance: Instance) -> None:
    """Restart with a binary log again."""
    shut_down(fleet, instance)
    instance[BinaryLog].is_open = instance.variables["log_bin"] = True
    files = instance[BinaryLog].files
    # A clone that was made meanwhile has left none.
    instance[GtidState].purged = (
        files[0].previous_gtids if files else instance[GtidState].executed
    ).copy()
    instance[GtidState].purged.update(instance[GtidState].table_only)


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
    # Groups past the flush stage are prepared in the engine: recovery commits them.
    while instance[CommitQueue].in_commit:
        pending = instance[CommitQueue].in_commit.pop(0)
        group = pending.logged.group
        fleet.bus.emit(VISIBLE, instance, group)
        gtid_persistence.recover_from_binary_log(instance, group)
        if pending.channel is not None and pending.queued is not None:
            applier.recover_position(fleet, pending.channel, pending.queued)
    fleet.bus.emit(STOPPED, fleet, instance, True)  # noqa: FBT003 - crashed
    redo_log.crash(instance, power_cut=power_cut)
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
    torn = binary_log.append_group(
        instance, group, last_committed=0, gtid_checksum=fleet.rng.getrandbits(32)
    )
    count = fleet.rng.randrange(len(group.body))
    binary_log.journal_group(instance, file, torn, group.body[:count])


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
    if fleet.scenario.cluster is not None:
        body["cluster"] = fleet.scenario.cluster
    if recovered is not None:
        body["recovered"] = recovered
    return body


def join(bus: Bus) -> None:
    """A server may crash in the middle of GTID persistence."""
    bus.connect(CRASH, crash)


def start_later(fleet: World, instance: Instance, *, crashed: bool) -> None:
    """The service manager starts a server that is down."""
    fleet.schedule(fleet.now + fleet.rng.randrange(*DOWN_US), instance, start, instance, crashed)


def start(fleet: World, instance: Instance, crashed: bool) -> None:
    """A boot after a stop or crash: recovery, the next binary log file, replication."""
    if not fleet.bus.emit(BOOT, fleet, instance, crashed):
        return
    redo_log.recover(instance, fleet.rng)
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
    redo_log.started(instance)
    gtid_persistence.record_recovery(instance, undo_gtids)
    if last is not None:
        last.is_closed = True
    if instance[BinaryLog].is_open:
        number = 1 if last is None else instance[BinaryLog].number_after(last)
        binary_log.open_file(fleet, instance, number, logged)
    for channel in instance[ChannelMap].channels.values():
        if channel.is_configured and channel[RelayLog].files:
            recovery.recover(fleet, channel)
        if channel.is_configured and channel.starts_at_boot:
            channel.starts_at_boot = False
            start_replication(fleet, channel)
