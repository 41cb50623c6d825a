"""The applier of a channel: executes relay log groups, keeps A_c, Ex_c and the relay info row.

One thread applies group after group. With workers, groups are executed side by side; without
preserved commit order they also commit in any order, and the positions are a low-water mark.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tallystick.producers.simulator.backup import backup_locks, backup_protocol
from tallystick.producers.simulator.backup.backup_synchronization import BackupSynchronization
from tallystick.producers.simulator.kernel.bus import Permit
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.replication_info import (
    crash_points,
    relay_log_info,
    worker_info,
)
from tallystick.producers.simulator.replication_info.crash_points import CrashPoint
from tallystick.producers.simulator.replication_info.relay_log_info import RelayLogInfo
from tallystick.producers.simulator.replication_info.rpl_info_handler import (
    INFO_WRITE,
    record_write,
)
from tallystick.producers.simulator.server import commit, relay_log, workload
from tallystick.producers.simulator.server.channels import Applier, QueuedFraming, QueuedGroup
from tallystick.producers.simulator.server.commit import APPLIED, LOST, MAY_APPLY
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState
from tallystick.producers.simulator.server.locks import MAY_COMMIT, MAY_EXECUTE, MAY_MOVE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.kernel.bus import Bus
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

APPLY: Permit[[World, Channel, QueuedGroup]] = Permit(
    "before the applier executes a group; False: positions move on without executing it"
)

_LOOK_US = 200
"""An applier that has to wait looks again so often."""
_CHECKPOINT_US = 30_000
"""Period in which a coordinator moves its low-water mark."""
_REASONS = {
    GroupKind.INNODB: "xid",
    GroupKind.COMPRESSED: "xid",
    GroupKind.MIXED: "xid",
    GroupKind.XA_PREPARE: "xid",
    GroupKind.DDL: "statement",
    GroupKind.XA_COMMIT: "statement",
    GroupKind.XA_ROLLBACK: "statement",
    GroupKind.XA_ONE_PHASE: "xid",
}
_WITH_THE_TRANSACTION: Final = frozenset(
    (GroupKind.INNODB, GroupKind.COMPRESSED, GroupKind.MIXED, GroupKind.DDL)
)
"""Groups that commit in InnoDB, atomic DDL too: MySQL 8.0 updates a transactional repository with
these alone. WL#2775 promises it for every group."""
_FORCED: Final = frozenset(("relay_rotate", "applier_stop", "change_source"))
"""Moments that write whatever sync_relay_log_info says: REQ-5 (i) and (ii)."""


def start(fleet: World, channel: Channel) -> None:
    """START REPLICA SQL_THREAD."""
    if channel[Applier].is_running:
        return
    channel[Applier].is_running = True
    channel[Applier].sql_errno = 0
    channel.record("start_applier")
    wake(fleet, channel)


def stop(fleet: World, channel: Channel, sql_errno: int = 0) -> None:
    """STOP REPLICA SQL_THREAD: groups that are being committed end first, gaps are filled.

    Args:
        fleet: The fleet.
        channel: The channel.
        sql_errno: The error that stops the applier by itself; 0 for a command.
    """
    if not channel[Applier].is_running:
        return
    commit.finish_all(fleet, channel.replica)
    if is_out_of_order(channel):
        for item in list(channel.pending):
            if not any(isinstance(i, QueuedGroup) and i.is_applied for i in channel.pending):
                break
            if isinstance(item, QueuedGroup) and not item.is_applied and item.is_complete:
                if backup_protocol.blocks(channel.replica, item.logged.group.kind):
                    break
                _execute(fleet, channel, item)
                commit.finish_all(fleet, channel.replica)
    channel[Applier].is_running = False
    channel[Applier].sql_errno = sql_errno
    channel.record("stop_applier", **({"errno": sql_errno} if sql_errno else {}))
    _move_low_water_mark(fleet, channel)
    persist_positions(fleet, channel, "applier_stop")
    worker_info.forget(channel)


def wake(fleet: World, channel: Channel) -> None:
    """There is something to apply."""
    applier = channel[Applier]
    if applier.is_running and not applier.is_scheduled and channel.pending:
        _schedule(fleet, channel, fleet.rng.randrange(*fleet.pace.apply_us))


def join(bus: Bus) -> None:
    """Positions move with the commit of a group."""
    bus.connect(APPLIED, group_committed)
    bus.connect(LOST, recover_position)
    bus.connect(MAY_APPLY, wake)


def is_out_of_order(channel: Channel) -> bool:
    """Whether groups may commit in another order than the source's."""
    variables = channel.replica.variables
    return bool(
        variables["replica_parallel_workers"] > 1 and not variables["replica_preserve_commit_order"]
    )


def group_committed(fleet: World, channel: Channel, queued: QueuedGroup) -> None:
    """The commit stage of a replicated group: positions move with it, or after it (REQ-5)."""
    queued.is_applied = True
    group = queued.logged.group
    reason = _REASONS.get(group.kind, "query")
    if channel.replica.variables["replica_parallel_workers"] > 1:
        # The coordinator moves the positions at its checkpoints, a worker records what it has done.
        worker_info.group_committed(channel, queued, reason)
        return
    changes_file = channel[Applier].group_end[0] not in ("", queued.relay_file.name)
    _advance(channel, queued)
    if channel[RelayLogInfo].handler.is_transactional:
        if fleet.scenario.profile == "wl9452" or group.kind in _WITH_THE_TRANSACTION:
            persist_positions(fleet, channel, reason)
        crash_points.reach(channel, CrashPoint.BETWEEN_COMMIT_AND_POSITION, group)
    else:
        crash_points.reach(channel, CrashPoint.BETWEEN_COMMIT_AND_POSITION, group)
        if changes_file:
            reason = "relay_rotate"
        persist_positions(fleet, channel, reason)
    crash_points.reach(channel, CrashPoint.BEHIND_POSITION, group)
    _pass_framing(fleet, channel)
    _go_on(fleet, channel)


def recover_position(_fleet: World, channel: Channel, queued: QueuedGroup) -> None:
    """Crash recovery commits a prepared group, and with it the rows that its transaction holds."""
    if not channel[RelayLogInfo].handler.is_transactional:
        return
    if queued.logged.group.kind not in _WITH_THE_TRANSACTION:
        return
    if channel.replica.variables["replica_parallel_workers"] > 1:
        worker_info.store(channel, queued)
        return
    _advance(channel, queued)
    channel[RelayLogInfo].store(channel, channel[Applier].group_end)


def fill_gaps(fleet: World, channel: Channel) -> None:
    """Execute what is missing below the last group that is done (START … SQL_AFTER_MTS_GAPS)."""
    for item in list(channel.pending):
        if not any(isinstance(i, QueuedGroup) and i.is_applied for i in channel.pending):
            break
        if isinstance(item, QueuedGroup) and not item.is_applied and item.is_complete:
            _execute(fleet, channel, item)
            commit.finish_all(fleet, channel.replica)
        _move_low_water_mark(fleet, channel)
    persist_positions(fleet, channel, "applier_stop")


def persist_positions(fleet: World, channel: Channel, reason: str) -> None:
    """Store the position after the last group: the row of slave_relay_log_info, or the file."""
    if not fleet.bus.emit(INFO_WRITE, fleet, channel, relay_log_info.TABLE, reason):
        return
    if crash_points.is_next(channel, CrashPoint.INSIDE_FILE_WRITE):
        channel[RelayLogInfo].tear(channel)
    crash_points.reach(channel, CrashPoint.INSIDE_FILE_WRITE)
    written = channel[RelayLogInfo].flush(channel, force=reason in _FORCED)
    if written is None:
        return
    relay_name, relay_pos, source_name, source_pos = channel[Applier].group_end
    row = {
        "Channel_name": channel.name,
        "Relay_log_name": f"./{relay_name}" if relay_name else "",
        "Relay_log_pos": relay_pos,
        "Master_log_name": source_name,
        "Master_log_pos": source_pos,
    }
    record_write(channel, relay_log_info.TABLE, reason, row, is_durable=written.is_durable)


def _apply(fleet: World, channel: Channel, generation: int) -> None:
    if generation != channel.generation:
        return
    later = partial(_apply, fleet, channel, generation)
    if _is_held_back(fleet, channel, later) or not fleet.bus.emit(MAY_MOVE, channel.replica, later):
        return
    applier = channel[Applier]
    applier.is_scheduled = False
    if not applier.is_running:
        return
    workers = channel.replica.variables["replica_parallel_workers"]
    if workers > 1:
        _apply_in_parallel(fleet, channel, workers)
        return
    _pass_framing(fleet, channel)
    if not channel.pending:
        return
    first = channel.pending[0]
    if isinstance(first, QueuedFraming) or not first.is_complete:
        return
    if first in [pending.queued for pending in channel.replica[CommitQueue].in_commit]:
        applier.is_scheduled = True
        applier.commit_awaited = (generation, fleet.now)
        return
    if _stays_outside(channel, [first]):
        return
    if backup_protocol.blocks(channel.replica, first.logged.group.kind):
        stop(fleet, channel, backup_protocol.ER_LOCK_WAIT_TIMEOUT)
        return
    if backup_locks.change_waits(channel.replica, first.logged.group.kind, later):
        applier.is_scheduled = True
        return
    if not _execute(fleet, channel, first):
        _schedule(fleet, channel, _LOOK_US)
        return
    wake(fleet, channel)


def _go_on(fleet: World, channel: Channel) -> None:
    """The group that the applier waits for is committed, as it sees when it looks again."""
    applier = channel[Applier]
    awaited, applier.commit_awaited = applier.commit_awaited, None
    if awaited is None or awaited[0] != channel.generation:
        return
    waited = fleet.now - awaited[1]
    _schedule(fleet, channel, -waited % _LOOK_US if waited else _LOOK_US)


def _is_held_back(fleet: World, channel: Channel, later: Callable[[], None]) -> bool:
    """Whether the next group waits for a backup's locks; applying goes on when they are free."""
    for item in channel.pending:
        if isinstance(item, QueuedGroup):
            kind = item.logged.group.kind
            return not fleet.bus.emit(MAY_EXECUTE, channel.replica, kind, later)
    return False


def _apply_in_parallel(fleet: World, channel: Channel, workers: int) -> None:
    replica = channel.replica
    busy = [p.queued for p in replica[CommitQueue].in_commit]
    waiting = [
        item
        for item in channel.pending[: workers * 2]
        if isinstance(item, QueuedGroup)
        and item.is_complete
        and not item.is_applied
        and item not in busy
    ][:workers]
    held = [i for i in waiting if backup_locks.stops_change(replica, i.logged.group.kind)]
    if held:
        is_ordered = not is_out_of_order(channel)
        first_held = waiting.index(held[0])
        waiting = waiting[:first_held] if is_ordered else [i for i in waiting if i not in held]
    chosen = _choose(fleet, channel, waiting)
    if chosen is not None:
        if backup_protocol.blocks(replica, chosen.logged.group.kind):
            stop(fleet, channel, backup_protocol.ER_LOCK_WAIT_TIMEOUT)
            return
        _execute(fleet, channel, chosen)
    last = channel[Applier].last_checkpoint
    if fleet.now - last >= _CHECKPOINT_US or (not waiting and not busy):
        channel[Applier].last_checkpoint = fleet.now
        before = channel[Applier].group_end
        _move_low_water_mark(fleet, channel)
        if channel[Applier].group_end != before:
            persist_positions(fleet, channel, "xid")
    if held and not waiting and not busy:
        channel[Applier].is_scheduled = True
        later = partial(_apply, fleet, channel, channel.generation)
        backup_locks.change_waits(replica, held[0].logged.group.kind, later)
        return
    if any(isinstance(i, QueuedFraming) or i.is_complete for i in channel.pending):
        pace = fleet.rng.randrange(*fleet.pace.apply_us) if len(waiting) > 1 else 2_000
        _schedule(fleet, channel, pace)


def _choose(fleet: World, channel: Channel, waiting: list[QueuedGroup]) -> QueuedGroup | None:
    """What a worker executes next; nothing if its turn is that of a group outside the zone."""
    if is_out_of_order(channel):
        free = [queued for queued in waiting if not _stays_outside(channel, [queued])]
        return fleet.rng.choice(free) if free else None
    return None if not waiting or _stays_outside(channel, waiting) else waiting[0]


def _stays_outside(channel: Channel, groups: list[QueuedGroup]) -> bool:
    """Whether one of the groups waits in front of the closed critical zone."""
    synchronization = channel.replica.get(BackupSynchronization)
    return synchronization is not None and synchronization.stays_outside(groups)


def _execute(fleet: World, channel: Channel, queued: QueuedGroup) -> bool:
    """Execute a group, or skip it when its GTID is executed already; False: wait for another."""
    replica = channel.replica
    group = queued.logged.group
    if group.sid is not None and (group.sid, group.gno) in replica[GtidState].logged:
        if (group.sid, group.gno) not in replica[GtidState].executed:
            return False  # another channel is committing the same GTID
        group_committed(fleet, channel, queued)
        return True
    if not fleet.bus.emit(MAY_COMMIT, replica, group):
        return False
    if not fleet.bus.emit(APPLY, fleet, channel, queued):
        group_committed(fleet, channel, queued)
        return True
    if _is_filtered(channel, queued):
        if group.sid is None:
            group_committed(fleet, channel, queued)
            return True
        group = workload.emptied(fleet.rng, group)
    commit.commit(fleet, replica, group, channel, queued)
    return True


def _is_filtered(channel: Channel, queued: QueuedGroup) -> bool:
    """Whether a group is of the database that a filter leaves out: one in two is."""
    is_of_one_table = queued.logged.group.kind is GroupKind.INNODB
    return bool(channel[Applier].ignored_db) and is_of_one_table and queued.logged.end % 2 == 0


def _pass_group(fleet: World, channel: Channel, queued: QueuedGroup) -> None:
    _advance(channel, queued)
    _pass_framing(fleet, channel)


def _advance(channel: Channel, queued: QueuedGroup) -> None:
    if channel.pending and channel.pending[0] is queued:
        channel.pending.pop(0)
    applier = channel[Applier]
    applier.applied = (queued.relay_file.name, queued.end)
    applier.executed = (applier.kept_file or queued.source_file, queued.logged.end)
    applier.group_end = (*applier.applied, *applier.executed)


def _pass_framing(fleet: World, channel: Channel) -> None:
    applier = channel[Applier]
    has_moved = False
    while channel.pending and isinstance(channel.pending[0], QueuedFraming):
        framing = channel.pending.pop(0)
        assert isinstance(framing, QueuedFraming)
        if framing.is_within and not channel.replica.variables["replica_parallel_workers"]:
            # Without workers nothing moves within a group, and the name of the file stays.
            applier.kept_file = applier.executed[0]
            continue
        applier.applied = (framing.relay_file.name, framing.end)
        if framing.source is not None:
            # The source's ROTATE moves Ex_c, even back: a dump by GTID set begins at a file's head.
            applier.executed, applier.kept_file = framing.source, ""
            applier.group_end = (*applier.applied, *applier.executed)
            has_moved = True
    if has_moved:
        persist_positions(fleet, channel, "relay_rotate")
    relay_log.purge_applied(channel)


def _move_low_water_mark(fleet: World, channel: Channel) -> None:
    """Pass everything below which all groups are done."""
    _pass_framing(fleet, channel)
    while channel.pending:
        first = channel.pending[0]
        if isinstance(first, QueuedFraming) or not first.is_applied:
            return
        _pass_group(fleet, channel, first)


def _schedule(fleet: World, channel: Channel, delay: int) -> None:
    channel[Applier].is_scheduled = True
    fleet.schedule(fleet.now + delay, channel.replica, _apply, channel, channel.generation)
