"""Traps: legal histories that look wrong. A scenario names those it exercises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from producers.simulator.engine import Fleet


@dataclass(frozen=True, slots=True)
class Trap:
    """A healthy act that looks like a fault."""

    name: str
    number: str
    text: str
    arrange: Callable[[Fleet], None]


CATALOGUE: dict[str, Trap] = {}
