"""What a fault is: its entry in the catalogue and what injects it, as one class."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from tallystick.producers.simulator.faults.hooks import FaultHooks

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World


class FaultGroup(str, Enum):
    """What of the history a fault tampers with."""

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


class Fault(FaultHooks):
    """One way in which records of one history can disagree; a subclass with a number is registered.

    It changes one thing and leaves everything else as it is; it waits for a moment at which that is
    possible.

    Attributes:
        number: Its number in the catalogue, from 1.
        name: Its name on the command line.
        text: What is changed, and nothing else is.
        must_fire: Names of the rules that it breaks; every other one still holds. They are texts:
            a producer does not know the auditor.
        group: What it tampers with.
        base: The fleet that it needs.
        heals: False when the damage stays: the fault is found once, at its first evidence.
        stays_because: Why nothing that an operator does ends what it breaks, so that he can only
            acknowledge it; empty where its cure does, or where that ends by itself or never.
        shown_after_ms: How long after the load collections go on, for what only time shows.
        bears_acts: Whether everyday rotation, purge and reconnects may go on beside it; where they
            would carry the damage on, the fault has a quiet fleet to itself.
        injected: Whether the history shows the fault.
        injected_in: The instance that shows it, empty before.
        injected_at: When, microseconds of virtual time; -1 before.
    """

    registered: ClassVar[list[type[Fault]]] = []
    number: ClassVar[int]
    name: ClassVar[str]
    text: ClassVar[str]
    must_fire: ClassVar[frozenset[str]]
    group: ClassVar[FaultGroup] = FaultGroup.PROTOCOL
    base: ClassVar[BaseHistory] = BaseHistory.SERVER
    heals: ClassVar[bool] = True
    stays_because: ClassVar[str] = ""
    shown_after_ms: ClassVar[int] = 0
    bears_acts: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        if "number" in vars(cls):
            cls.registered.append(cls)

    def __init__(self) -> None:
        self.injected = False
        self.injected_in = ""
        self.injected_at = -1

    def is_due(self, fleet: World) -> bool:
        """Whether the fault is still to be injected and its time has come."""
        return not self.injected and fleet.now >= fleet.fault_at

    def withdraw(self, fleet: World) -> None:
        """Change nothing any more: what is wrong with the server itself was put right."""
        fleet.bus.disconnect(self)

    def cure(self, fleet: World) -> None:
        """Do what the remedies of its rules ask for, where that is not to rebuild a server."""
        raise NotImplementedError(f"{self.name} has no cure of its own")

    @classmethod
    def has_own_cure(cls) -> bool:
        """Whether more, or less, is to be done than to rebuild the server that shows it."""
        return cls.cure is not Fault.cure

    def mark(self, fleet: World, instance: Instance) -> None:
        """Note that the history shows the fault from now on."""
        self.injected = True
        self.injected_in = instance.instance_id
        self.injected_at = fleet.now
        fleet.note_injection(self.name, instance)


class ActFault(Fault):
    """Something is done to the fleet as soon as the fault is due, and tried again until it can be.

    Attributes:
        retry_us: How long after an attempt the next one comes.
    """

    retry_us: ClassVar[int] = 1_000

    def on_fleet(self, fleet: World) -> None:
        """Make the first attempt when the fault is due."""
        super().on_fleet(fleet)
        fleet.schedule(fleet.fault_at, None, self.attempt)

    def attempt(self, fleet: World) -> None:
        """Do it now or a little later."""
        if not self.act(fleet):
            fleet.schedule(fleet.now + self.retry_us, None, self.attempt)

    def act(self, fleet: World) -> bool:
        """Do it, if the moment allows it; whether it is done."""
        raise NotImplementedError
