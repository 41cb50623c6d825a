"""The everyday life of an instance: client writes, background work, small administration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.producers.simulator import administration, innodb

if TYPE_CHECKING:
    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.model import Instance

_BACKGROUND_US = (150_000, 600_000)
_ACT_US = (800_000, 4_000_000)
_BURST_CHANCE = 0.3
_BURST_MAX = 4


def arrange(fleet: Fleet, instance: Instance) -> None:
    """Begin the everyday life of an instance; it ends with the fleet's load."""
    fleet.schedule(_after(fleet, _BACKGROUND_US), instance, _work_in_background, instance)
    fleet.schedule(_next_write(fleet), instance, _write, instance)
    if fleet.scenario.acts:
        fleet.schedule(_after(fleet, _ACT_US), instance, _administer, instance)


def _after(fleet: Fleet, least_and_most: tuple[int, int]) -> int:
    return fleet.now + fleet.rng.randrange(*least_and_most)


def _next_write(fleet: Fleet) -> int:
    return fleet.now + 1 + int(fleet.rng.expovariate(fleet.scenario.writes_per_second) * 1e6)


def _write(fleet: Fleet, instance: Instance) -> None:
    if fleet.now > fleet.load_ends_at:
        return
    if not instance.writes:  # look again later: a failover may bring the clients here
        fleet.schedule(fleet.now + 200_000, instance, _write, instance)
        return
    if instance.is_running:
        rng = fleet.rng
        for _ in range(rng.randrange(2, _BURST_MAX + 1) if rng.random() < _BURST_CHANCE else 1):
            fleet.write(instance, rng.choice(fleet.kinds))
    fleet.schedule(_next_write(fleet), instance, _write, instance)


def _work_in_background(fleet: Fleet, instance: Instance) -> None:
    if fleet.now > fleet.load_ends_at:
        innodb.write_checkpoint(instance.innodb)
        return
    if instance.is_running:
        innodb.work_in_background(instance.innodb, fleet.rng)
    fleet.schedule(_after(fleet, _BACKGROUND_US), instance, _work_in_background, instance)


def _administer(fleet: Fleet, instance: Instance) -> None:
    if fleet.now > fleet.load_ends_at:
        return
    channels = [channel for channel in instance.channels.values() if channel.is_configured]
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
