"""What a rule may answer: it holds, it is broken, it stays undecided, or it waits for evidence.

Answers are data. A case or a reason is a code with values; the sentences for them are with the rule
and are made by ``coordinates.rules.explanation`` where something is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.rules.families import Lack


@final
@dataclass(frozen=True, slots=True)
class Holds:
    """The subject keeps the rule."""


HOLDS: Final = Holds()

GTIDS_SHOWN: Final = 3
"""As many GTIDs are where a finding is: a person can look these up."""


@final
@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The rule says nothing about such a subject: no check is written down."""


NOT_APPLICABLE: Final = NotApplicable()


@final
@dataclass(frozen=True, slots=True, init=False)
class Broken:
    """Two values that no healthy server gives together.

    Attributes:
        case: Which contradiction of the rule it is.
        witness: The smallest thing that shows it.
        at: Its coordinates, the first of its GTIDs, None: the collection whose row shows it.
        data: What the texts of the case name.
    """

    case: str
    witness: str
    at: str | None
    data: Mapping[str, Any]

    def __init__(
        self, case: str, /, *, witness: object, at: object | None = None, **data: object
    ) -> None:
        object.__setattr__(self, "case", case)
        object.__setattr__(self, "witness", str(witness))
        if isinstance(at, GtidSet):
            at = at.first(GTIDS_SHOWN)
        object.__setattr__(self, "at", None if at is None else str(at))
        object.__setattr__(self, "data", json_values(data))


@final
@dataclass(frozen=True, slots=True)
class Reason:
    """Why evidence does not suffice: a code, a text that names its values, and what it lacks."""

    code: str
    text: str
    lack: Lack


@final
@dataclass(frozen=True, slots=True, init=False)
class Undecided:
    """The evidence does not suffice, and never will."""

    reason: Reason
    data: Mapping[str, Any]

    def __init__(self, reason: Reason, /, **data: object) -> None:
        object.__setattr__(self, "reason", reason)
        object.__setattr__(self, "data", json_values(data))


@final
@dataclass(frozen=True, slots=True, init=False)
class Waiting:
    """The evidence does not suffice yet; the reason becomes that of Undecided at the deadline."""

    reason: Reason
    data: Mapping[str, Any]

    def __init__(self, reason: Reason, /, **data: object) -> None:
        object.__setattr__(self, "reason", reason)
        object.__setattr__(self, "data", json_values(data))


Answer = Holds | Broken | Undecided | Waiting

RowAnswer = Answer | NotApplicable
"""What a rule may answer about one row."""


def json_values(data: Mapping[str, object]) -> dict[str, Any]:
    """Values as JSON knows them: GTID sets and coordinates become their text, whole."""
    return {name: _json_value(value) for name, value in data.items()}


def _json_value(value: object) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_json_value(item) for item in value]
    if isinstance(value, dict):
        return json_values(value)
    return str(value)
