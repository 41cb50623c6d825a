"""The suite that every collection is validated by: which rule, how grave, and what it promises."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from great_expectations import ExpectationSuite
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metadata_types import FailureSeverity

from tallystick.coordinates.audit.cut import cut_columns
from tallystick.coordinates.results import Severity
from tallystick.expectations import rules
from tallystick.expectations.rules._row_rule import RowRuleExpectation

SUITE_NAME = "tallystick_cuts"

_GX_SEVERITIES = {
    Severity.CRITICAL: FailureSeverity.CRITICAL,
    Severity.ERROR: FailureSeverity.WARNING,
    Severity.WARNING: FailureSeverity.INFO,
}
"""Three names against three, in the same order."""

_SET_COLUMNS = (
    ("gtid_executed", "instance"),
    ("gtid_purged", "instance"),
    ("retrieved_gtid_set", "channel"),
)


def build_suite(not_collected: Collection[str] = ()) -> ExpectationSuite:
    """Build the suite.

    Args:
        not_collected: Columns of the cut table that this deployment never reads from its servers.
            Expectations that need one of them are left out; else they would answer UNDECIDED at
            every collection.

    Raises:
        ValueError: A name is no column of the cut table.
    """
    if unknown := sorted(set(not_collected) - set(cut_columns())):
        raise ValueError(f"expected columns of the cut table, found {unknown!r}")
    suite = ExpectationSuite(name=SUITE_NAME)
    suite.expectations = [
        expectation
        for expectation in _expectations()
        if not _columns_needed(expectation) & set(not_collected)
    ]
    return suite


def _columns_needed(expectation: BatchExpectation) -> set[str]:
    if isinstance(expectation, RowRuleExpectation):
        columns = set(expectation.columns().values())
        # These two judge by whatever is there; what they miss they leave out of the judgement.
        if isinstance(expectation, rules.ExpectAuditToAgreeWithTheHalves):
            return set()
        if isinstance(expectation, rules.ExpectExecutedGtidsToBeLogged):
            return columns - {expectation.gtid_purged_column}
        return columns
    return set()


def _expectations() -> Iterator[BatchExpectation]:
    critical, error, warning = Severity.CRITICAL, Severity.ERROR, Severity.WARNING
    yield _made(
        rules.ExpectCutsToBeUnique,
        critical,
        "A collection has one row for each instance and one for each of its channels.",
    )
    yield _made(
        rules.ExpectEveryInstanceToAnswer,
        error,
        "Every instance answers the collection with a row; an error leaves its row undecided.",
    )
    yield _made(
        rules.ExpectBinaryLogCoordinatesToBeComplete,
        critical,
        "The row names binary log file and position, or neither where binary logging is off.",
    )
    for column, scope in _SET_COLUMNS:
        yield _made(
            rules.ExpectGtidSetToBeWellFormed,
            critical,
            f"{column} is a GTID set that a server can read.",
            column=column,
            scope=scope,
        )
        yield _made(
            rules.ExpectGtidSetToBeCanonical,
            warning,
            f"{column} is spelt as servers print sets: sorted, merged, lower case.",
            column=column,
            scope=scope,
        )
    yield _made(
        rules.ExpectOwnedGtidsToBeWellFormed,
        critical,
        "gtid_owned lists GTIDs, each with the thread that owns it.",
    )
    yield _made(
        rules.ExpectBinaryLogPositionToBeOnGroupBoundary,
        critical,
        "The binary log position is where a group of events ends: the server can be cut there.",
    )
    yield _made(
        rules.ExpectExecutedGtidsToBeLogged,
        critical,
        "Every executed GTID is in the binary log up to the position, or was purged from it.",
    )
    yield _made(
        rules.ExpectCommitLagToBeBounded,
        error,
        "No more logged GTIDs are unexecuted than commits can be in flight.",
    )
    yield _made(
        rules.ExpectPurgedGtidsToBeExecuted, critical, "Every purged GTID is an executed one."
    )
    yield _made(
        rules.ExpectOwnedGtidsNotToBeExecuted,
        error,
        "No GTID is owned by a running transaction and executed at once.",
    )
    yield _made(
        rules.ExpectRelayLogPositionToBeOnWrittenBoundary,
        critical,
        "The relay log position is where an event of that relay log ends.",
    )
    yield _made(
        rules.ExpectExecutedSourcePositionToBeRead,
        critical,
        "The applier is not further in the source's log than the receiver.",
    )
    yield _made(
        rules.ExpectRetrievedGtidsToBeReceived,
        error,
        "Retrieved_Gtid_Set names only what the retained relay logs hold.",
    )
    yield _made(rules.ExpectLsnsToBeInOrder, critical, "The redo checkpoint is not beyond the LSN.")
    yield _made(
        rules.ExpectLsnsToBeInBlockData,
        error,
        "LSN and checkpoint lie where a redo record can start.",
    )
    yield _made(
        rules.ExpectBinaryLogPositionNotToFall,
        critical,
        "The binary log position never falls within one history.",
    )
    yield _made(
        rules.ExpectExecutedGtidsNotToShrink,
        critical,
        "gtid_executed loses nothing within one history.",
    )
    yield _made(
        rules.ExpectPurgedGtidsNotToShrink, error, "gtid_purged loses nothing within one history."
    )
    yield _made(rules.ExpectLsnNotToFall, critical, "The LSN never falls within one history.")
    yield _made(
        rules.ExpectNoEventFindings,
        critical,
        "The logs themselves broke no invariant since the collection before.",
    )
    yield _made(
        rules.ExpectAuditToFindNothingBroken, critical, "The audit found the row consistent."
    )
    yield _made(rules.ExpectVerdictToBeKnown, critical, "The audit's verdict is one of the three.")
    yield _made(
        rules.ExpectAuditToAgreeWithTheHalves,
        critical,
        "The audit's verdict is what the two halves of the cut show when looked at anew.",
    )


def _made(
    kind: type[BatchExpectation], severity: Severity, description: str, **kwargs: Any
) -> BatchExpectation:
    meta: dict[str, Any] = {"severity": severity.value}
    if issubclass(kind, RowRuleExpectation) and kind.rule.invariant is not None:
        meta["invariant"] = kind.rule.invariant
    return kind(severity=_GX_SEVERITIES[severity], description=description, meta=meta, **kwargs)
