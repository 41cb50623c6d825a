"""What a component may ask of the fleet that its server is part of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tallystick.producers.simulator.kernel.bus import Change, Notice, Permit

if TYPE_CHECKING:
    from random import Random

    from tallystick.producers.simulator.kernel.bus import Bus
    from tallystick.producers.simulator.kernel.clock import Clock
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.journal_writer import JournalWriter
    from tallystick.producers.simulator.kernel.scenario import Scenario
    from tallystick.producers.simulator.kernel.topology import InstancePlan
    from tallystick.producers.simulator.kernel.transactions import GroupKind

BUILT: Notice[[World]] = Notice(
    "the fleet is built, nothing is written but the first files: acts are scheduled here"
)
VARIABLES: Notice[[str, dict[str, Any]]] = Notice(
    "the variables that an instance is first started with; they may be changed"
)
JOURNAL: Change[[str, Clock, JournalWriter], JournalWriter] = Change(
    "where an instance's records are written, before anything is written"
)

WENT_DOWN: Notice[[World, Instance]] = Notice("the server is gone")
BOOT: Permit[[World, Instance, bool]] = Permit(
    "a start after a stop or crash; False: a component has started the server its own way"
)


@dataclass(slots=True)
class ServerPace:
    """How fast servers work, and what clients write.

    Attributes:
        kinds: What clients write; one of them at random.
        partial_chance: How often a receiver gets a group in pieces.
        apply_us: Least and most time that an applier takes for a group.
        commit_stage_us: Least and most time from flush to commit stage.
        passing_us: Least and most time that a source takes for a group which it passes, as a
            replica has it, with a heartbeat within it; none: it passes many at once.
    """

    kinds: tuple[GroupKind, ...]
    partial_chance: float = 0.07
    apply_us: tuple[int, int] = (300, 4_000)
    commit_stage_us: tuple[int, int] = (150, 2_500)
    passing_us: tuple[int, int] | None = None


class World(Protocol):
    """A running simulation, as components see it.

    Attributes:
        scenario: What is simulated.
        start_ts: Virtual time of the first moment.
        load_ends_at: Virtual time after which clients write no more.
        fault_at: Virtual time from which the fault may be injected.
        rng: Decides everything that the scenario leaves open.
        clock: Virtual time.
        bus: Where components and faults take part in what happens.
        instances: The servers by their keys.
        pace: How fast servers work.
    """

    scenario: Scenario
    start_ts: int
    load_ends_at: int
    fault_at: int
    rng: Random
    clock: Clock
    bus: Bus
    instances: dict[str, Instance]
    pace: ServerPace

    @property
    def now(self) -> int:
        """Virtual time in microseconds."""

    def schedule(self, ts: int, instance: Instance | None, act: Any, *args: Any) -> None:
        """Call ``act(world, *args)`` at ``ts``, or as soon as the instance is free then."""

    def add_instance(self, plan: InstancePlan, number: int, uuid: str, base_name: str) -> Instance:
        """Start a new server; it has no channel yet, and clients do nothing there of themselves."""

    def note_injection(self, fault: str, instance: Instance, **where: Any) -> None:
        """Remember what the fault did."""

    def show(self, requirement: str, instance: Instance, sentence: str) -> None:
        """Remember what is seen of a requirement; ``sentence`` has its values."""
