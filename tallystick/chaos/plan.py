"""Which acts come in a round, and which fleet it is: all drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tallystick.chaos.acts import Act, acts_of
from tallystick.chaos.lab_fleet import CANARY

CANARIES = (CANARY, "executed_shrunk", "lsn_regressed")
TOPOLOGIES = ("pair", "chain", "star")
SECONDS = (2.0, 20.0)
DAMAGE, DAMAGED = 0.02, 0.5
"""In half of the rounds messages are damaged, one of fifty."""


@dataclass(frozen=True, slots=True)
class Step:
    """One act of a round.

    Attributes:
        act: What is done.
        seconds: How long until it is undone; 0: at once, or when it has ended by itself.
    """

    act: Act
    seconds: float

    def __str__(self) -> str:
        """In words."""
        return f"{self.act}, for {self.seconds:.1f} s" if self.seconds else str(self.act)


@dataclass(frozen=True, slots=True)
class Plan:
    """A round.

    Attributes:
        seed: What it was drawn from, and the seed of the fleet.
        topology: Of the fleet.
        canary: The fault of the fleet, which must be found.
        steps: What is done, in order.
        damage: Share of the journal's messages that are damaged on their way to the audit.
        is_lab: Whether the fleet is two real servers.
    """

    seed: int
    topology: str
    canary: str
    steps: tuple[Step, ...]
    damage: float
    is_lab: bool

    @property
    def begins_epochs(self) -> bool:
        """Whether a journal goes on under a higher epoch."""
        return any(step.act.begins_epochs for step in self.steps)


def draw(seed: int, acts: int, *, is_lab: bool = False) -> Plan:
    """The plan of a seed; no act comes twice before all others have come once."""
    known = acts_of(is_lab=is_lab)
    chance = Random(f"chaos {seed}")  # noqa: S311  drawn, not secret
    drawn: list[Act] = []
    while len(drawn) < acts:
        drawn += chance.sample(known, len(known))
    # A breach that goes on is found whatever was damaged before.
    damage = DAMAGE if chance.random() < DAMAGED else 0.0
    return Plan(
        seed,
        chance.choice(TOPOLOGIES),
        CANARY if damage or is_lab else chance.choice(CANARIES),
        tuple(
            Step(act, round(chance.uniform(*SECONDS), 1) if act.lasts else 0.0)
            for act in drawn[:acts]
        ),
        damage,
        is_lab,
    )
