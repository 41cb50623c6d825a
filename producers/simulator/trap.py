"""What a trap is: a legal history that looks wrong, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.producers.simulator import trap_acts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallystick.producers.simulator.engine import Fleet


@dataclass(frozen=True, slots=True)
class Trap:
    """A healthy history that looks like a fault.

    Attributes:
        name: What a scenario calls it.
        number: ``T1`` to ``T40``.
        text: What looks wrong, and why it is not.
        options: Fields of the scenario that it sets.
        arrange: Schedules its acts when the fleet has been built.
    """

    name: str
    number: str
    text: str
    options: Mapping[str, Any] = field(default_factory=dict)
    arrange: Callable[[Fleet], None] = trap_acts.nothing
