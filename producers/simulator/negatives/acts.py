"""What the families of negative cases share: whom an act concerns, and when it comes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tallystick.producers.simulator.backup.lock_state import BackupLocks
from tallystick.producers.simulator.innodb.gtid_persistence import GtidPersistence
from tallystick.producers.simulator.server.channels import ChannelMap
from tallystick.producers.simulator.server.clients import Clients

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

MS_US: Final = 1_000
SECOND_US: Final = 1_000_000


def channels(fleet: World) -> list[Channel]:
    """All channels that have a source."""
    return [c for instance in fleet.instances.values() for c in instance[ChannelMap].configured]


def sources(fleet: World) -> list[Instance]:
    """The instances to which clients write."""
    return [instance for instance in fleet.instances.values() if instance[Clients].writes]


def replicas(fleet: World) -> list[Instance]:
    """The instances that have a channel."""
    return [instance for instance in fleet.instances.values() if instance[ChannelMap].channels]


def is_reset_harmless(instance: Instance) -> bool:
    """Whether nobody replicates from a server or backs it up: its log can begin anew."""
    return not instance[ChannelMap].subscribers and not any(instance[BackupLocks].holders.values())


def foreign_uuid(fleet: World) -> str:
    """The UUID of a server that is not in the fleet."""
    digits = f"{fleet.rng.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def watch_persisters(fleet: World) -> None:
    """Every journal records what its GTID persister does."""
    for instance in fleet.instances.values():
        instance[GtidPersistence].is_recorded = True


def time_at(fleet: World, share: float, since: int | None = None) -> int:
    """The time when a share of the load's duration has passed since the start, or ``since``."""
    load = fleet.load_ends_at - fleet.start_ts
    return (fleet.start_ts if since is None else since) + int(load * share)


def at(
    fleet: World,
    share: float,
    instance: Instance | None,
    act: Callable[..., Any],
    *args: object,
    **options: object,
) -> None:
    """Schedule an act when a share of the load's duration has passed."""
    fleet.schedule(time_at(fleet, share), instance, partial(act, **options), *args)


def near(
    fleet: World,
    share: float,
    instance: Instance | None,
    act: Callable[..., None],
    *args: object,
    since: int | None = None,
) -> None:
    """Schedule an act up to 50 ms before or after a share of the load's duration has passed."""
    shift = fleet.rng.randrange(-SECOND_US // 20, SECOND_US // 20)
    fleet.schedule(max(fleet.now + 1, time_at(fleet, share, since) + shift), instance, act, *args)


def after_ms(
    fleet: World, ms: int, instance: Instance | None, act: Callable[..., Any], *args: object
) -> None:
    """Schedule an act so many milliseconds after the start."""
    fleet.schedule(fleet.start_ts + ms * MS_US, instance, act, *args)
