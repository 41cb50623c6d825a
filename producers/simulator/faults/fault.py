"""What a fault is: how it is called, what it changes, and what that breaks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class FaultGroup(str, Enum):
    """Which account of the history a fault tampers with."""

    SNAPSHOT = "snapshot content"
    STREAM = "event streams"
    CHANNEL = "replication channel"
    FLEET = "fleet"
    PROTOCOL = "collection, locks, clone"


class BaseHistory(str, Enum):
    """The smallest fleet in which a fault finds its moment."""

    SERVER = "a server"
    REPLICA = "a source and a replica"
    SINGLE_CHANNEL = "a replica with one channel, that nobody reads from"

    @property
    def topologies(self) -> tuple[str, ...]:
        """The topologies of a scenario that hold such a fleet."""
        one_channel = ("pair", "chain", "star", "demo")
        if self is BaseHistory.SINGLE_CHANNEL:
            return one_channel
        several = (*one_channel, "multi_source")
        return several if self is BaseHistory.REPLICA else (*several, "single")


@dataclass(frozen=True, slots=True)
class Fault:
    """One way in which accounts of one history can disagree.

    Attributes:
        number: Its number in the catalogue, from 1.
        name: Its name on the command line.
        group: The account that is tampered with.
        injection: What is changed, and nothing else is.
        must_fire: Names of the invariants that it breaks; every other one still holds.
        is_core: True for the faults that every campaign must be able to inject.
        base: The fleet that it needs.
        heals: False when the damage stays: the fault is found once, at its first evidence.
        bears_acts: Whether everyday rotation, purge and reconnects may go on beside it; where they
            would carry the damage on into other accounts, the fault has a quiet fleet to itself.
    """

    number: int
    name: str
    group: FaultGroup
    injection: str
    must_fire: frozenset[str]
    is_core: bool
    base: BaseHistory
    heals: bool
    bears_acts: bool

    @property
    def label(self) -> str:
        """``F9``: as tables of results name it."""
        return f"F{self.number}"


def declare(
    number: int,
    group: FaultGroup,
    name: str,
    injection: str,
    *must_fire: str,
    base: BaseHistory | None = None,
    heals: bool = True,
    bears_acts: bool = True,
    is_core: bool = False,
) -> Fault:
    """A fault; without ``base`` it needs what the faults of its group usually need."""
    if base is None:
        needs_replica = group in (FaultGroup.CHANNEL, FaultGroup.FLEET)
        base = BaseHistory.REPLICA if needs_replica else BaseHistory.SERVER
    return Fault(
        number=number,
        name=name,
        group=group,
        injection=injection,
        must_fire=frozenset(must_fire),
        is_core=is_core,
        base=base,
        heals=heals,
        bears_acts=bears_acts,
    )
