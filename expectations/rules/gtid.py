"""Expectations on GTID sets."""

from __future__ import annotations

from typing import ClassVar, Literal

from tallystick.expectations.judgement import RowRule
from tallystick.expectations.judges import RULES
from tallystick.expectations.rules._row_rule import RowRuleExpectation


class _OneSetExpectation(RowRuleExpectation):
    """Names one column, and the scope of the rows that have a set in it."""

    rule: ClassVar[RowRule] = RULES["gtid_set_wellformed"]

    column: str
    scope: Literal["instance", "channel"] = "instance"

    def columns(self) -> dict[str, str]:
        """Give the one column."""
        (role,) = self.rule.roles
        return {role: self.column}

    def rows_in_scope(self) -> str | None:
        """Give the scope asked for."""
        return self.scope if self.scope_column is not None else None


class ExpectGtidSetToBeWellFormed(_OneSetExpectation):
    """Expect the column to hold GTID sets that a MySQL server can read."""

    rule: ClassVar[RowRule] = RULES["gtid_set_wellformed"]


class ExpectGtidSetToBeCanonical(_OneSetExpectation):
    """Expect each GTID set to be spelt as a server prints it: sorted, merged, lower case."""

    rule: ClassVar[RowRule] = RULES["gtid_set_canonical"]


class ExpectOwnedGtidsToBeWellFormed(_OneSetExpectation):
    """Expect the column to hold what ``@@gtid_owned`` shows: GTIDs, each with its thread."""

    rule: ClassVar[RowRule] = RULES["gtid_owned_wellformed"]

    column: str = "gtid_owned"


class ExpectExecutedGtidsToBeLogged(RowRuleExpectation):
    """Expect every executed GTID to be in the binary log up to the position, or purged."""

    rule: ClassVar[RowRule] = RULES["executed_logged"]

    gtid_executed_column: str = "gtid_executed"
    journal_gtid_set_column: str = "journal_gtid_set"
    gtid_purged_column: str = "gtid_purged"
    binary_log_file_column: str = "binary_log_file"


class ExpectPurgedGtidsToBeExecuted(RowRuleExpectation):
    """Expect every purged GTID to be executed."""

    rule: ClassVar[RowRule] = RULES["purged_executed"]

    gtid_executed_column: str = "gtid_executed"
    gtid_purged_column: str = "gtid_purged"


class ExpectOwnedGtidsNotToBeExecuted(RowRuleExpectation):
    """Expect no GTID to be owned by a running transaction and executed at once."""

    rule: ClassVar[RowRule] = RULES["owned_disjoint"]

    gtid_executed_column: str = "gtid_executed"
    gtid_owned_column: str = "gtid_owned"


class ExpectRetrievedGtidsToBeReceived(RowRuleExpectation):
    """Expect Retrieved_Gtid_Set to name only what the retained relay logs hold."""

    rule: ClassVar[RowRule] = RULES["retrieved_received"]

    retrieved_gtid_set_column: str = "retrieved_gtid_set"
    journal_retrieved_gtid_set_column: str = "journal_retrieved_gtid_set"


class ExpectCommitLagToBeBounded(RowRuleExpectation):
    """Expect no more logged GTIDs outside gtid_executed than can be in flight."""

    rule: ClassVar[RowRule] = RULES["lag_bounded"]

    gtid_executed_column: str = "gtid_executed"
    journal_gtid_set_column: str = "journal_gtid_set"
    commit_lag_max_column: str = "commit_lag_max"
    binary_log_file_column: str = "binary_log_file"


class ExpectExecutedGtidsNotToShrink(RowRuleExpectation):
    """Expect gtid_executed to hold all that it held in the row before."""

    rule: ClassVar[RowRule] = RULES["executed_kept"]

    gtid_executed_column: str = "gtid_executed"
    previous_gtid_executed_column: str = "previous_gtid_executed"


class ExpectPurgedGtidsNotToShrink(RowRuleExpectation):
    """Expect gtid_purged to hold all that it held in the row before."""

    rule: ClassVar[RowRule] = RULES["purged_kept"]

    gtid_purged_column: str = "gtid_purged"
    previous_gtid_purged_column: str = "previous_gtid_purged"
