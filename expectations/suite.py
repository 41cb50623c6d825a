"""The suite that every collection is validated by: every rule, grouped by design document."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from great_expectations import ExpectationSuite
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metadata_types import FailureSeverity

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.describe import DESIGNS, MYSQL, PERCONA, design_of
from tallystick.expectations import rules

SUITE_NAME = "tallystick_cuts"
COLLECTION = "the collection"
GROUPS = (COLLECTION, *DESIGNS, PERCONA, MYSQL)
"""The groups of the suite, in its order."""

_GX_SEVERITIES = {
    Severity.CRITICAL: FailureSeverity.CRITICAL,
    Severity.ERROR: FailureSeverity.WARNING,
    Severity.WARNING: FailureSeverity.INFO,
}
"""Three names against three, in the same order."""


def build_suite(disabled: Collection[str] = ()) -> ExpectationSuite:
    """Build the suite.

    Args:
        disabled: Rules that the audit does not judge.

    Raises:
        ValueError: A name is no rule's.
    """
    if unknown := sorted(set(disabled) - set(RULES)):
        raise ValueError(f"expected names of rules, found {unknown!r}")
    suite = ExpectationSuite(name=SUITE_NAME)
    suite.expectations = [*_on_the_collection(), *_on_rules(disabled)]
    return suite


def _on_the_collection() -> Iterator[BatchExpectation]:
    yield _made(
        rules.ExpectCutsToBeUnique,
        Severity.CRITICAL,
        COLLECTION,
        "A collection has one row for each instance and one for each of its channels.",
    )
    yield _made(
        rules.ExpectEveryInstanceToAnswer,
        Severity.ERROR,
        COLLECTION,
        "Every instance answers the collection with a row; an error leaves its row undecided.",
    )
    yield _made(
        rules.ExpectVerdictToBeKnown,
        Severity.CRITICAL,
        COLLECTION,
        "The audit's verdict on each row is one of the three.",
    )


def _on_rules(disabled: Collection[str]) -> Iterator[BatchExpectation]:
    named = [(design_of(rule), rule) for name, rule in RULES.items() if name not in disabled]
    for group in GROUPS:
        for design, rule in named:
            if design == group:
                kind = rules.EXPECTATIONS[rule.name]
                yield _made(kind, rule.severity, design, rule.claim, rule=rule.name)


def _made(
    kind: type[BatchExpectation],
    severity: Severity,
    group: str,
    description: str,
    rule: str | None = None,
) -> BatchExpectation:
    meta: dict[str, Any] = {"severity": severity.value, "group": group, "rule": rule}
    return kind(severity=_GX_SEVERITIES[severity], description=description, meta=meta)
