"""What the validation of one collection says; knows nothing of Great Expectations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tallystick.coordinates.results import Severity, Verdict
from tallystick.expectations.judgement import Outcome, Tally


@dataclass(frozen=True, slots=True)
class RowResult:
    """A row of the cut table that broke an expectation or left it undecided."""

    collection_id: str | None
    instance_id: str | None
    channel: str | None
    sentence: str
    witness: str


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """One expectation's answer for one collection.

    Attributes:
        expectation: Its type, ``expect_executed_gtids_to_be_logged``.
        column: The column it was made for, None when its type says all.
        description: What it promises.
        severity: How grave a breach is.
        invariant: The invariant that it mirrors, if any.
        outcome: BROKEN, UNDECIDED, HELD, or NOT_APPLICABLE to any row.
        tally: How many rows of which kind. The rows themselves are in the two lists.
        broken: The first rows that broke it.
        undecided: The first rows that left it undecided.
        error: Why it could not be computed, None when it could.
    """

    expectation: str
    column: str | None
    description: str
    severity: Severity
    invariant: str | None
    outcome: Outcome
    tally: Tally
    broken: tuple[RowResult, ...]
    undecided: tuple[RowResult, ...]
    error: str | None

    @property
    def name(self) -> str:
        """The type, and the column where one type was asked of several."""
        return self.expectation if self.column is None else f"{self.expectation}({self.column})"

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        tally = self.tally
        return {
            "expectation": self.expectation,
            "column": self.column,
            "description": self.description,
            "severity": self.severity.value,
            "invariant": self.invariant,
            "outcome": self.outcome.name,
            "rows": tally.rows,
            "held": tally.held,
            "broken": tally.broken,
            "undecided": tally.undecided,
            "not_applicable": tally.not_applicable,
            "broken_rows": [_row_dict(row) for row in self.broken],
            "undecided_rows": [_row_dict(row) for row in self.undecided],
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class CollectionValidation:
    """The validation of one collection.

    Attributes:
        collection_id: The collection.
        verdict: INCONSISTENT beats UNDECIDED beats CONSISTENT.
        results: Every expectation's answer, in the order of the suite.
        reasons: Why the whole validation could not be done, empty when it could.
        run_id: Name of the run in Data Docs, empty when there was none.
        engine: ``pandas`` or ``spark``, empty when there was no run.
    """

    collection_id: str
    verdict: Verdict
    results: tuple[ExpectationResult, ...]
    reasons: tuple[str, ...]
    run_id: str
    engine: str

    @property
    def failed(self) -> tuple[ExpectationResult, ...]:
        """The expectations that some row broke."""
        return tuple(r for r in self.results if r.outcome is Outcome.BROKEN)

    @property
    def undecided(self) -> tuple[ExpectationResult, ...]:
        """The expectations that no row broke and some row, or an error, left undecided."""
        return tuple(r for r in self.results if r.outcome is Outcome.UNDECIDED)

    @property
    def statistics(self) -> dict[str, int]:
        """How many expectations gave which answer; they add up to ``expectations``."""
        counts = {outcome.name.lower(): 0 for outcome in Outcome}
        for result in self.results:
            counts[result.outcome.name.lower()] += 1
        return {"expectations": len(self.results), **counts}

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "collection_id": self.collection_id,
            "verdict": self.verdict.value,
            "reasons": list(self.reasons),
            "run_id": self.run_id,
            "engine": self.engine,
            "statistics": self.statistics,
            "results": [result.to_dict() for result in self.results],
        }


def _row_dict(row: RowResult) -> dict[str, Any]:
    return {
        "collection_id": row.collection_id,
        "instance_id": row.instance_id,
        "channel": row.channel,
        "sentence": row.sentence,
        "witness": row.witness,
    }
