"""What is done to which process, and which fleet it is done to: all drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random

CANARIES = ("errant_write", "executed_shrunk", "lsn_regressed")
TOPOLOGIES = ("pair", "chain", "star")
SECONDS = (2.0, 20.0)
DAMAGE, DAMAGED = 0.02, 0.5
"""In half of the rounds messages are damaged, one of fifty."""


class Kind(Enum):
    """What is done."""

    DRIVER_KILLED = "kill -9 of the audit"
    DRIVER_STOPPED = "SIGSTOP of the audit"
    DRIVER_ENDED = "SIGTERM of the audit"
    JVM_KILLED = "kill -9 of its JVM"
    JVM_STOPPED = "SIGSTOP of its JVM"
    WORKER_KILLED = "kill -9 of its Python workers"
    BROKER_KILLED = "kill -9 of the broker"
    BROKER_STOPPED = "SIGSTOP of the broker"
    BROKER_RESTARTED = "a restart of the broker"
    FLEET_STOPPED = "SIGSTOP of the producer"


LASTING = frozenset(Kind) - {
    Kind.DRIVER_ENDED, Kind.JVM_KILLED, Kind.WORKER_KILLED, Kind.BROKER_RESTARTED,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Act:
    """One disturbance.

    Attributes:
        kind: What is done.
        seconds: How long the process is stopped, or away; 0: it is not, or as long as it takes.
    """

    kind: Kind
    seconds: float

    def __str__(self) -> str:
        """In words."""
        return f"{self.kind.value}, for {self.seconds:.1f} s" if self.seconds else self.kind.value


@dataclass(frozen=True, slots=True)
class Plan:
    """A round.

    Attributes:
        seed: What it was drawn from, and the seed of the fleet.
        topology: Of the fleet.
        canary: The fault of the fleet, which must be found.
        acts: What is done, in order.
        damage: Share of the journal's messages that are damaged on their way to the audit.
    """

    seed: int
    topology: str
    canary: str
    acts: tuple[Act, ...]
    damage: float


def draw(seed: int, acts: int) -> Plan:
    """The plan of a seed; no kind comes twice before all others have come once."""
    chance = Random(f"chaos {seed}")  # noqa: S311  drawn, not secret
    kinds: list[Kind] = []
    while len(kinds) < acts:
        kinds += chance.sample(list(Kind), len(Kind))
    # A breach that goes on is found whatever was damaged before.
    damage = DAMAGE if chance.random() < DAMAGED else 0.0
    return Plan(
        seed,
        chance.choice(TOPOLOGIES),
        CANARIES[0] if damage else chance.choice(CANARIES),
        tuple(
            Act(kind, round(chance.uniform(*SECONDS), 1) if kind in LASTING else 0.0)
            for kind in kinds[:acts]
        ),
        damage,
    )
