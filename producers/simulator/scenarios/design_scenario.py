"""The scenario of a document: acts that show its requirements one by one, as data.

A scenario says what it shows when it happens, with the values that were seen; whether the records
of the servers agree with that is for the audit, which reads the journal alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallystick.producers.simulator.kernel.world import World


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that a document says and a scenario shows.

    Attributes:
        requirement: Label of a row of docs/designs.md in the section of the document.
        text: What is shown, in one sentence.
        rules: Names of the rules that the audit judges for it.
    """

    requirement: str
    text: str
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Expected:
    """A finding that the document foretells for the unsafe way, which the scenario goes too.

    Attributes:
        instance: Where it is found.
        rule: What is broken there.
        why: What the document says about it, in one sentence.
    """

    instance: str
    rule: str
    why: str


@dataclass(frozen=True, slots=True)
class Showing:
    """What was seen of a requirement, when it was seen.

    Attributes:
        requirement: As in ``Claim``.
        instance: Where.
        after_us: Virtual time since the fleet's first moment, microseconds.
        sentence: What was seen, with its values.
    """

    requirement: str
    instance: str
    after_us: int
    sentence: str


@dataclass(frozen=True, slots=True)
class DesignScenario:
    """A scenario that shows a design.

    Attributes:
        name: What the command line calls it.
        design: The document, as ``WL#9452``.
        title: The document's title.
        options: Fields of ``Scenario`` that it sets.
        arrange: Schedules its acts when the fleet has been built.
        claims: What it shows, in the order of the document; each must be shown at least once.
        expected: What the audit must find, and nothing else.
    """

    name: str
    design: str
    title: str
    options: Mapping[str, Any]
    arrange: Callable[[World], None]
    claims: tuple[Claim, ...]
    expected: tuple[Expected, ...] = ()


def text_of(coordinates: tuple[str, int]) -> str:
    """A log coordinate as it is shown: file and position."""
    return f"{coordinates[0]}:{coordinates[1]}"
