"""The commit of a group: flush stage (log, GNO), then commit stage (engine, gtid_executed).

Profile ``wl9452`` makes both one instant. Profile ``mysql-8.0`` lets time pass between them, so a
log_status row taken in between shows a position that leads gtid_executed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.backup import backup_synchronization
from tallystick.producers.simulator.backup.backup_synchronization import BackupSynchronization
from tallystick.producers.simulator.innodb import gtid_persistence, redo_log
from tallystick.producers.simulator.kernel.bus import Change, Notice, Permit
from tallystick.producers.simulator.kernel.transactions import GroupKind, LoggedGroup
from tallystick.producers.simulator.replication_info import crash_points
from tallystick.producers.simulator.replication_info.crash_points import CrashPoint
from tallystick.producers.simulator.server import binary_log
from tallystick.producers.simulator.server.binary_log import GREW, BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap, Receiver
from tallystick.producers.simulator.server.commit_queue import (
    COMMITS_ENDED,
    ENGINE_COMMIT,
    EXECUTED,
    MAY_REORDER,
    VISIBLE,
    CommitQueue,
    Pending,
)
from tallystick.producers.simulator.server.gtid_state import GtidState
from tallystick.producers.simulator.server.locks import (
    MAY_COMMIT,
    MAY_EXECUTE,
    MAY_MOVE,
    MAY_WRITE,
)

if TYPE_CHECKING:
    from tallystick.producers.simulator.backup.threads import Thread
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel, QueuedGroup

BEFORE_COMMIT: Change[[World, Instance, Group | None], Group | None] = Change(
    "before a group is written to a binary log; None: it is not logged and not committed"
)
COMMITTED: Permit[[World, Instance, LoggedGroup]] = Permit(
    "commit stage, before the GTID enters gtid_executed; False: it never does"
)
APPLIED: Notice[[World, Channel, QueuedGroup]] = Notice("the commit stage of a replicated group")
LOST: Notice[[World, Channel, QueuedGroup]] = Notice(
    "the server dies with a replicated group prepared: recovery commits it"
)
MAY_APPLY: Notice[[World, Channel]] = Notice("what an applier waited for has ended")

_COMMIT_REDO_LENGTH = 60
_HELD_BACK_US = 1_000
"""After this time a statement that was held back is tried again."""
_ACKNOWLEDGED_US = (1_500, 6_000)
"""Least and most time from a replica's receipt to the source that waits for it."""
_SEMI_SYNC_TIMEOUT_US = 1_000_000
"""After that a commit goes on without an acknowledgement. Servers wait for ten seconds."""


def assign_gtid(instance: Instance, group: Group) -> None:
    """GTID_NEXT = AUTOMATIC: the smallest free GNO, where the mode asks for a GTID.

    It belongs to the own UUID, or the tag or Group Replication block that the session uses. What
    was committed without one is replayed with GTID_NEXT = ANONYMOUS.
    """
    if group.sid is not None or group.is_anonymous:
        return
    gtids = instance[GtidState]
    if instance[BinaryLog].is_open and gtids.mode in ("ON", "ON_PERMISSIVE"):
        group.sid = gtids.automatic_sid
        group.gno = gtids.logged.next_free(group.sid, gtids.gno_block)
    else:
        group.is_anonymous = True


def commit(
    fleet: World,
    instance: Instance,
    group: Group,
    channel: Channel | None = None,
    queued: QueuedGroup | None = None,
) -> LoggedGroup | None:
    """Commit a group of a client (no channel) or of an applier.

    Returns:
        Where it was logged; None if the instance does not log it, or not yet.
    """
    if channel is None:
        again = partial(_try_again, fleet, instance, group)
        if not fleet.bus.emit(MAY_EXECUTE, instance, group.kind, again):
            return None
    if instance.get(BackupSynchronization) is None:
        return _run(fleet, instance, group, channel, queued)
    if group.kind is GroupKind.DDL:
        # A backup blocks metadata operations, so they need no zone.
        backup_synchronization.record_metadata_operation(instance, group)
        return _run(fleet, instance, group, channel, queued)
    if channel is None or queued is None:
        backup_synchronization.begin(
            fleet, instance, group, partial(_run_in_zone, fleet, instance, channel, queued)
        )
    else:
        backup_synchronization.apply(
            instance,
            queued,
            partial(_run_in_zone, fleet, instance, channel, queued),
            partial(fleet.bus.emit, MAY_APPLY, fleet, channel),
        )
    return None


def _run_in_zone(
    fleet: World,
    instance: Instance,
    channel: Channel | None,
    queued: QueuedGroup | None,
    thread: Thread,
) -> None:
    _run(fleet, instance, thread.group, channel, queued, thread=thread)


def _run(
    fleet: World,
    instance: Instance,
    group: Group,
    channel: Channel | None,
    queued: QueuedGroup | None,
    *,
    thread: Thread | None = None,
) -> LoggedGroup | None:
    """The critical sequence of a thread, up to the commit stage."""
    if channel is None:
        if _is_kept_out(fleet, instance, group, is_in_zone=thread is not None):
            return None
        assign_gtid(instance, group)
    changed = fleet.bus.emit(BEFORE_COMMIT, fleet, instance, group)
    if changed is None:
        return None
    group = changed
    if crash_points.is_next(channel, CrashPoint.BETWEEN_EXECUTION_AND_BINARY_LOG, group):
        _leave_behind(instance, group)
    crash_points.reach(channel, CrashPoint.BETWEEN_EXECUTION_AND_BINARY_LOG, group)
    if group.sid is not None:
        instance[GtidState].logged.add(group.sid, group.gno)
    redo_lsn = redo_log.add_redo(instance, group.redo_length) if group.redo_length else 0
    log = instance[BinaryLog]
    logs = log.is_open and (channel is None or instance.variables.get("log_replica_updates", True))
    if not logs:
        _commit_without_log(fleet, instance, group, channel, queued, redo_lsn=redo_lsn)
        return None
    if redo_lsn:
        redo_log.wait_for_redo(instance)
    if thread is not None:
        backup_synchronization.write_binlog(instance, thread)
    logged = binary_log.write_group(fleet, instance, group)
    fleet.bus.emit(GREW, fleet, instance)
    pending = Pending(logged, log.active, channel, queued, thread, redo_lsn)
    instance[CommitQueue].in_commit.append(pending)
    if thread is not None:
        thread.stay_inside()
    crash_points.reach(channel, CrashPoint.BETWEEN_BINARY_LOG_AND_COMMIT, group)
    if fleet.scenario.profile == "wl9452":
        finish_all(fleet, instance)
        return logged
    _schedule_commit_stage(fleet, instance, pending)
    return logged


def _schedule_commit_stage(fleet: World, instance: Instance, pending: Pending) -> None:
    waits = pending.channel is None and _is_semi_sync(instance)
    after_us = _SEMI_SYNC_TIMEOUT_US if waits else fleet.rng.randrange(*fleet.pace.commit_stage_us)
    generation = instance[CommitQueue].generation
    fleet.schedule(fleet.now + after_us, instance, _commit_stage, instance, pending, generation)


def acknowledge(fleet: World, channel: Channel, logged: LoggedGroup) -> None:
    """A replica has a whole group in its relay log: a semi-sync source goes on with its commit."""
    if not channel[Receiver].semi_sync:
        return
    source = channel.source
    queue = source[CommitQueue]
    for pending in queue.in_commit:
        if pending.logged is logged:
            at = fleet.now + fleet.rng.randrange(*_ACKNOWLEDGED_US)
            fleet.schedule(at, source, _commit_stage, source, pending, queue.generation)


def _is_kept_out(fleet: World, instance: Instance, group: Group, *, is_in_zone: bool) -> bool:
    """Whether a client fails, or waits for the end of a lock and begins its commit again then."""
    if instance[CommitQueue].super_read_only or _is_taken(instance, group):
        return True
    again = partial(_try_again, fleet, instance, group)
    # Who is in the critical zone has waited for the binlog lock in front of it.
    if not is_in_zone and not fleet.bus.emit(MAY_MOVE, instance, again):
        return True
    if not fleet.bus.emit(MAY_COMMIT, instance, group):
        fleet.clock.schedule(fleet.now + _HELD_BACK_US, instance, again)
        return True
    return False


def _is_taken(instance: Instance, group: Group) -> bool:
    """GTID_NEXT names what an applier has committed, or logged, while this session waited."""
    if group.sid is None:
        return False
    gtid = group.sid, group.gno
    in_commit = (pending.logged.group for pending in instance[CommitQueue].in_commit)
    return gtid in instance[GtidState].executed or any(
        (other.sid, other.gno) == gtid for other in in_commit
    )


def _leave_behind(instance: Instance, group: Group) -> None:
    """The server dies with an open transaction: what MyISAM has of it cannot be rolled back."""
    if group.kind is GroupKind.MIXED:
        statement = {"engine": "myisam", "type": "dml", "binlogged": False}
        instance.journal.record(RecordType.STATEMENT, statement)


def _try_again(fleet: World, instance: Instance, group: Group) -> None:
    """Another lock may have been taken while it waited for the first."""
    again = partial(_try_again, fleet, instance, group)
    if instance.is_running and fleet.bus.emit(MAY_WRITE, instance, group.kind, again):
        commit(fleet, instance, group)


def finish_all(fleet: World, instance: Instance) -> None:
    """Bring every group between the stages through the commit stage, in log order."""
    in_commit = instance[CommitQueue].in_commit
    while in_commit:
        _finish(fleet, instance, in_commit.pop(0))
    if instance[BinaryLog].rotation_is_due:
        binary_log.rotate(fleet, instance)
        binary_log.expire(fleet, instance)
    redo_log.return_commits(instance)
    fleet.bus.emit(COMMITS_ENDED, fleet, instance)


def _commit_stage(fleet: World, instance: Instance, pending: Pending, generation: int) -> None:
    queue, log = instance[CommitQueue], instance[BinaryLog]
    if generation != queue.generation or pending not in queue.in_commit:
        return
    if gtid_persistence.crashes_before_add(fleet, instance, pending.logged.group):
        return
    is_ordered = (
        instance.variables["binlog_order_commits"]
        if pending.channel is None
        else instance.variables["replica_preserve_commit_order"]
    )
    if is_ordered or log.rotation_is_due or not fleet.bus.emit(MAY_REORDER, instance, pending):
        while queue.in_commit:
            first = queue.in_commit.pop(0)
            _finish(fleet, instance, first)
            if first is pending:
                break
    else:
        queue.in_commit.remove(pending)
        _finish(fleet, instance, pending)
    if log.rotation_is_due:
        # A rotation waits until no group is between its stages.
        finish_all(fleet, instance)
    redo_log.return_commits(instance)
    fleet.bus.emit(COMMITS_ENDED, fleet, instance)


def _finish(fleet: World, instance: Instance, pending: Pending) -> None:
    group = pending.logged.group
    if group.redo_length:
        # Nobody waits for this: prepared redo and binary log are enough to recover the commit.
        redo_log.add_redo(instance, _COMMIT_REDO_LENGTH)
        redo_log.committed(instance, pending.redo_lsn)
    fleet.bus.emit(ENGINE_COMMIT, instance, pending)
    thread = pending.thread
    unlocking_shows = thread is not None and group.kind is GroupKind.NON_TRANSACTIONAL
    if not unlocking_shows:
        _make_visible(fleet, instance, group)
    is_executed = fleet.bus.emit(COMMITTED, fleet, instance, pending.logged)
    gtid_persistence.end_transaction(fleet, instance, group, with_gtid=is_executed)
    if is_executed and group.sid is not None:
        instance[GtidState].executed.add(group.sid, group.gno)
    fleet.bus.emit(EXECUTED, instance, pending)
    if pending.channel is not None and pending.queued is not None:
        fleet.bus.emit(APPLIED, fleet, pending.channel, pending.queued)
    if thread is not None:
        # Last of all: a validity point may follow, and finds the applier's positions moved.
        make_visible = (
            partial(_make_visible, fleet, instance, group) if unlocking_shows else _do_nothing
        )
        backup_synchronization.committed(fleet, instance, thread, make_visible)


def _do_nothing() -> None:
    """Committing has made the change visible."""


def _commit_without_log(
    fleet: World,
    instance: Instance,
    group: Group,
    channel: Channel | None,
    queued: QueuedGroup | None,
    *,
    redo_lsn: int,
) -> None:
    if redo_lsn:
        redo_log.wait_for_redo(instance)
        redo_log.committed(instance, redo_lsn)
    if gtid_persistence.crashes_before_add(fleet, instance, group):
        if channel is not None and queued is not None:
            fleet.bus.emit(LOST, fleet, channel, queued)
        fleet.bus.emit(VISIBLE, instance, group)
        return
    _make_visible(fleet, instance, group)
    is_persisted = gtid_persistence.end_transaction(fleet, instance, group)
    if group.sid is not None:
        gtids = instance[GtidState]
        for written in (gtids.executed, gtids.table_only, gtids.purged):
            written.add(group.sid, group.gno)
        if not is_persisted:
            gtids.table.add(group.sid, group.gno)
    if channel is not None and queued is not None:
        fleet.bus.emit(APPLIED, fleet, channel, queued)
    redo_log.return_commits(instance)


def _make_visible(fleet: World, instance: Instance, group: Group) -> None:
    fleet.bus.emit(VISIBLE, instance, group)
    if group.kind is GroupKind.XA_PREPARE:
        instance[CommitQueue].prepared_xa.append(group)
    elif group.xa_of is not None and group.xa_of in instance[CommitQueue].prepared_xa:
        instance[CommitQueue].prepared_xa.remove(group.xa_of)


def _is_semi_sync(instance: Instance) -> bool:
    return any(
        channel[Receiver].semi_sync and channel[Receiver].is_connected
        for channel in instance[ChannelMap].subscribers
    )
