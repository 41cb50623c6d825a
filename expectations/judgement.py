"""The judgement of a rule on one row of a table, and how those of many rows are counted.

Knows neither Great Expectations nor Spark: Spark's workers import this module and `judges` alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

CellType = type[str] | type[int] | type[bool]

_EXACT_FLOAT_MAX = 2**53


class Outcome(str, Enum):
    """The outcome of one rule on one row; the value is the first letter of an encoded judgement."""

    HELD = "H"
    BROKEN = "B"
    UNDECIDED = "U"
    NOT_APPLICABLE = "N"


@dataclass(frozen=True, slots=True)
class Judgement:
    """An outcome with its reason, and for a broken rule the smallest thing that shows it."""

    outcome: Outcome
    sentence: str = ""
    witness: str = ""


HELD = Judgement(Outcome.HELD)


def broken(sentence: str, witness: object) -> Judgement:
    """Judge that two values contradict each other."""
    return Judgement(Outcome.BROKEN, sentence, str(witness))


def undecided(reason: str) -> Judgement:
    """Judge that evidence is missing."""
    return Judgement(Outcome.UNDECIDED, reason)


def not_applicable(reason: str) -> Judgement:
    """Judge that the rule is not about such a row."""
    return Judgement(Outcome.NOT_APPLICABLE, reason)


class UnreadableCellError(ValueError):
    """A cell has a value of a type that cannot be evidence."""


def read_cell(value: Any, kind: CellType) -> Any:
    """Give the Python value of a table's cell, None for every kind of NULL.

    Spark hands integers over as text: its way through pandas would make them floats.

    Raises:
        UnreadableCellError: The value is not of the kind, or a float that has lost exactness.
    """
    if (
        value is None
        # pandas is not imported here; comparing its NA with anything raises.
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float) and math.isnan(value))
    ):
        return None
    if kind is str:
        if isinstance(value, str):
            return value
        raise UnreadableCellError(f"expected text, found {_shown(value)}")
    if kind is bool:
        return _read_bool(value)
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            try:
                value = float(value)
            except ValueError:
                raise UnreadableCellError(f"expected an integer, found {_shown(value)}") from None
    if _is_bool(value):
        raise UnreadableCellError(f"expected an integer, found {_shown(value)}")
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise UnreadableCellError(f"expected an integer, found {_shown(value)}") from None
    if number != value or (isinstance(value, float) and abs(number) >= _EXACT_FLOAT_MAX):
        raise UnreadableCellError(f"expected an exact integer, found {_shown(value)}")
    return number


def _read_bool(value: Any) -> bool:
    if _is_bool(value):
        return bool(value)
    if value in ("true", "false"):
        return bool(value == "true")
    raise UnreadableCellError(f"expected true or false, found {_shown(value)}")


def encode_judgement(key: Sequence[Any], judgement: Judgement) -> str:
    """Write a judgement as text that sorts by outcome and then by the row's key."""
    if judgement.outcome in (Outcome.HELD, Outcome.NOT_APPLICABLE):
        return str(judgement.outcome.value)
    shown = [None if _is_null(part) else str(part) for part in key]
    return f"{judgement.outcome.value}" + json.dumps([shown, judgement.sentence, judgement.witness])


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """A row that broke a rule or left it undecided."""

    key: tuple[str | None, ...]
    sentence: str
    witness: str

    @classmethod
    def decode(cls, text: str) -> JudgedRow:
        """Inverse of ``encode_judgement`` for what is broken or undecided."""
        key, sentence, witness = json.loads(text[1:])
        return cls(tuple(key), sentence, witness)


@dataclass(frozen=True, slots=True)
class Tally:
    """How often a rule was held, broken, undecided or not applicable, and the first such rows.

    The counts add up to the rows; the lists are in the order of the keys and may be cut short.
    """

    rows: int
    held: int
    broken: int
    undecided: int
    not_applicable: int
    broken_rows: tuple[JudgedRow, ...] = field(default=())
    undecided_rows: tuple[JudgedRow, ...] = field(default=())

    @classmethod
    def of(cls, encoded: Iterable[str], rows_max: int) -> Tally:
        """Count encoded judgements."""
        by_outcome: dict[str, list[str]] = {outcome.value: [] for outcome in Outcome}
        for text in encoded:
            by_outcome[text[0]].append(text)
        return cls.from_parts(
            {outcome: len(texts) for outcome, texts in by_outcome.items()},
            sorted(by_outcome["B"])[:rows_max],
            sorted(by_outcome["U"])[:rows_max],
        )

    @classmethod
    def from_parts(
        cls, counts: Mapping[str, int], broken_rows: Sequence[str], undecided_rows: Sequence[str]
    ) -> Tally:
        """Put together what an engine counted, outcome letter to number, and its first rows."""
        return cls(
            rows=sum(counts.values()),
            held=counts["H"],
            broken=counts["B"],
            undecided=counts["U"],
            not_applicable=counts["N"],
            broken_rows=tuple(JudgedRow.decode(text) for text in broken_rows),
            undecided_rows=tuple(JudgedRow.decode(text) for text in undecided_rows),
        )

    def outcome(self, mostly: float = 1.0) -> Outcome:
        """The answer for the whole table: no rows at all are no evidence.

        Args:
            mostly: The share of the rows, of those that the rule applies to, that must hold.
        """
        if not self.rows:
            return Outcome.UNDECIDED
        applicable = self.rows - self.not_applicable
        if not applicable:
            return Outcome.NOT_APPLICABLE
        if self.held and self.held >= mostly * applicable:
            return Outcome.HELD
        # Where all that is undecided could turn out to hold, it may still be enough.
        if self.held + self.undecided < mostly * applicable:
            return Outcome.BROKEN
        return Outcome.UNDECIDED

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return json.loads(json.dumps(asdict(self)))  # type: ignore[no-any-return]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Tally:
        """Inverse of ``to_dict``."""
        known = dict(values)
        for name in ("broken_rows", "undecided_rows"):
            known[name] = tuple(
                JudgedRow(tuple(row["key"]), row["sentence"], row["witness"]) for row in known[name]
            )
        return cls(**known)


def _is_null(value: Any) -> bool:
    try:
        return read_cell(value, str) is None
    except UnreadableCellError:
        return False


def _is_bool(value: Any) -> bool:
    """Python's or numpy's, which is not imported here."""
    return type(value).__name__ == "bool"


def _shown(value: Any) -> str:
    return f"{str(value)[:60]!r} ({type(value).__name__})"
