"""Who replicates from whom: the instances of a fleet and the channels between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random


@dataclass(frozen=True, slots=True)
class ChannelPlan:
    """A channel that a replica is to have."""

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class InstancePlan:
    """An instance and its channels."""

    instance_id: str
    channels: tuple[ChannelPlan, ...] = ()

    @property
    def writes(self) -> bool:
        """Whether clients write there: it replicates from nobody."""
        return not self.channels


def _replica(instance_id: str, *sources: str, name: str | None = None) -> InstancePlan:
    return InstancePlan(
        instance_id,
        tuple(
            ChannelPlan(name if name is not None else source.removeprefix("source-"), source)
            for source in sources
        ),
    )


PLANS: dict[str, tuple[InstancePlan, ...]] = {
    "single": (InstancePlan("source-a"),),
    "pair": (InstancePlan("source-a"), _replica("replica-a1", "source-a", name="")),
    "chain": (
        InstancePlan("source-a"),
        _replica("replica-a1", "source-a", name=""),
        _replica("replica-a2", "replica-a1", name=""),
    ),
    "star": (
        InstancePlan("source-a"),
        _replica("replica-a1", "source-a", name=""),
        _replica("replica-a2", "source-a", name=""),
        _replica("replica-a3", "source-a", name=""),
    ),
    "diamond": (
        InstancePlan("source-a"),
        _replica("replica-a1", "source-a", name=""),
        InstancePlan(
            "hub", (ChannelPlan("direct", "source-a"), ChannelPlan("relayed", "replica-a1"))
        ),
    ),
    "multi_source": (
        InstancePlan("source-a"),
        InstancePlan("source-b"),
        _replica("hub", "source-a", "source-b"),
    ),
    "demo": (
        InstancePlan("source-a"),
        _replica("replica-a1", "source-a", name=""),
        _replica("replica-a2", "source-a", name=""),
        InstancePlan("source-b"),
        _replica("hub", "source-a", "source-b"),
    ),
}
"""Sources come before their replicas. ``demo`` is the fleet that ``tallystick demo`` shows."""


def choose(name: str | None, rng: Random) -> tuple[InstancePlan, ...]:
    """The plan of that name, or one that the seed chooses."""
    return PLANS[name if name is not None else rng.choice(sorted(PLANS))]


def server_uuids(rng: Random, count: int) -> Iterator[str]:
    """Distinct server UUIDs."""
    for _ in range(count):
        digits = f"{rng.getrandbits(128):032x}"
        yield "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
