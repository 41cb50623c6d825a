"""The clients of an instance: what they write, and its everyday background work."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tallystick.producers.simulator.innodb import redo_log
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.server import administration, commit, workload
from tallystick.producers.simulator.server.channels import ChannelMap
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState
from tallystick.producers.simulator.server.locks import MAY_WRITE

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import LoggedGroup
    from tallystick.producers.simulator.kernel.world import World

_BACKGROUND_US = (150_000, 600_000)
_ACT_US = (800_000, 4_000_000)
_BURST_CHANCE = 0.3
_BURST_MAX = 4


@dataclass(slots=True, eq=False)
class Clients:
    """The clients of an instance.

    Attributes:
        writes: Whether they write here (the role of a source).
    """

    writes: bool = False


def arrange(fleet: World, instance: Instance) -> None:
    """Begin the everyday life of an instance; it ends with the fleet's load."""
    fleet.schedule(_after(fleet, _BACKGROUND_US), instance, _work_in_background, instance)
    fleet.schedule(_next_write(fleet), instance, _write, instance)
    if fleet.scenario.acts:
        fleet.schedule(_after(fleet, _ACT_US), instance, _administer, instance)


def _after(fleet: World, least_and_most: tuple[int, int]) -> int:
    return fleet.now + fleet.rng.randrange(*least_and_most)


def _next_write(fleet: World) -> int:
    return fleet.now + 1 + int(fleet.rng.expovariate(fleet.scenario.writes_per_second) * 1e6)


def _write(fleet: World, instance: Instance) -> None:
    if fleet.now > fleet.load_ends_at:
        return
    if not instance[Clients].writes:  # look again later: a failover may bring the clients here
        fleet.schedule(fleet.now + 200_000, instance, _write, instance)
        return
    if instance.is_running:
        rng = fleet.rng
        for _ in range(rng.randrange(2, _BURST_MAX + 1) if rng.random() < _BURST_CHANCE else 1):
            write(fleet, instance, rng.choice(fleet.pace.kinds))
    fleet.schedule(_next_write(fleet), instance, _write, instance)


def write(
    fleet: World, instance: Instance, kind: GroupKind = GroupKind.INNODB, **options: Any
) -> LoggedGroup | None:
    """A client commits one transaction; ``options`` as of ``workload.make_group``."""
    if not instance.is_running:
        return None
    later = partial(_write_later, fleet, instance, kind, **options)
    if not fleet.bus.emit(MAY_WRITE, instance, kind, later):
        return None
    # Clients that write at one moment still commit one after the other.
    queue = instance[CommitQueue]
    queue.last_commit_ts = max(fleet.now, queue.last_commit_ts + 1)
    group = workload.make_group(
        fleet.rng, kind, instance.server_id, queue.last_commit_ts, **options
    )
    return commit.commit(fleet, instance, group)


def commit_empty(fleet: World, instance: Instance, sid: str, gno: int) -> None:
    """SET gtid_next, BEGIN, COMMIT; of a GTID that is executed already nothing comes."""
    state = instance[GtidState]
    if instance.is_running and state.mode != "OFF" and (sid, gno) not in state.executed:
        group = workload.make_group(fleet.rng, GroupKind.EMPTY, instance.server_id, fleet.now)
        group.sid, group.gno = sid, gno
        commit.commit(fleet, instance, group)


def _write_later(fleet: World, instance: Instance, kind: GroupKind, **options: Any) -> None:
    if instance.is_running:
        write(fleet, instance, kind, **options)


def _work_in_background(fleet: World, instance: Instance) -> None:
    if fleet.now > fleet.load_ends_at:
        if instance.is_running:
            redo_log.write_checkpoint(instance)
        return
    if instance.is_running:
        redo_log.work_in_background(instance, fleet.rng)
    fleet.schedule(_after(fleet, _BACKGROUND_US), instance, _work_in_background, instance)


def _administer(fleet: World, instance: Instance) -> None:
    if fleet.now > fleet.load_ends_at:
        return
    channels = instance[ChannelMap].configured
    choice = fleet.rng.randrange(6)
    if not instance.is_running:
        pass
    elif choice == 0:
        administration.flush_binary_logs(fleet, instance)
    elif choice == 1:
        administration.purge_binary_logs(fleet, instance)
    elif choice == 2 and channels:
        administration.reconnect(fleet, fleet.rng.choice(channels))
    elif choice == 3 and channels:
        administration.flush_relay_logs(fleet, fleet.rng.choice(channels))
    fleet.schedule(_after(fleet, _ACT_US), instance, _administer, instance)
