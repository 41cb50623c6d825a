"""The result of validating one collection, without Great Expectations."""

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
        description: What it promises.
        severity: How grave a breach is.
        rule: The rule of the registry, None: it is about the collection itself.
        group: The design document that the rule is from, in the suite's groups.
        outcome: BROKEN, UNDECIDED, HELD, or NOT_APPLICABLE to any row.
        tally: How many rows of which kind. The rows themselves are in the two lists.
        broken: The first rows that broke it.
        undecided: The first rows that left it undecided.
        error: Why it could not be computed, None when it could.
    """

    expectation: str
    description: str
    severity: Severity
    rule: str | None
    group: str
    outcome: Outcome
    tally: Tally
    broken: tuple[RowResult, ...]
    undecided: tuple[RowResult, ...]
    error: str | None

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        tally = self.tally
        return {
            "expectation": self.expectation,
            "description": self.description,
            "severity": self.severity.value,
            "rule": self.rule,
            "group": self.group,
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
        """How many expectations had which outcome; they add up to ``expectations``."""
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
