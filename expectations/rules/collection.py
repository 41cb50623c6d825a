"""Expectations on the collection itself, and on what the audit said about it."""

from __future__ import annotations

from typing import Any, ClassVar

from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.expectation_configuration import parse_result_format
from great_expectations.validator.metric_configuration import MetricConfiguration

from tallystick.expectations.judgement import RowRule
from tallystick.expectations.judges import RULES
from tallystick.expectations.metrics.row_key import METRIC_NAME
from tallystick.expectations.metrics.row_rule import read_tally
from tallystick.expectations.rules._row_rule import (
    ROWS_MAX,
    ROWS_MAX_COMPLETE,
    RowRuleExpectation,
    result_of,
)


class ExpectEveryInstanceToAnswer(RowRuleExpectation):
    """Expect a row from every instance; an error is UNDECIDED, silence without one a breach."""

    rule: ClassVar[RowRule] = RULES["answered"]

    answer_column: str = "answer"
    error_code_column: str = "error_code"
    error_text_column: str = "error_text"


class ExpectVerdictToBeKnown(RowRuleExpectation):
    """Expect one of the three verdicts."""

    rule: ClassVar[RowRule] = RULES["verdict_known"]

    verdict_column: str = "verdict"


class ExpectAuditToFindNothingBroken(RowRuleExpectation):
    """Expect the audit to have found the row consistent; what it left undecided stays so."""

    rule: ClassVar[RowRule] = RULES["audit_consistent"]

    verdict_column: str = "verdict"
    broken_column: str = "broken"
    undecided_column: str = "undecided"


class ExpectNoEventFindings(RowRuleExpectation):
    """Expect no broken invariant in the journal since the cut before."""

    rule: ClassVar[RowRule] = RULES["no_event_findings"]

    event_findings_column: str = "event_findings"


class ExpectAuditToAgreeWithTheHalves(RowRuleExpectation):
    """Expect the audit's verdict on each cut to be what the two halves of the cut show.

    Reads the columns of the cut table by their own names.
    """

    rule: ClassVar[RowRule] = RULES["audit_agrees"]

    def columns(self) -> dict[str, str]:
        """Give the cut table's names."""
        return {role: role for role in self.rule.roles}


class ExpectCutsToBeUnique(BatchExpectation):
    """Expect one row for each collection, instance and channel."""

    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)
    success_keys: ClassVar[tuple[str, ...]] = ("row_key_columns", "nullable_key_columns")

    row_key_columns: tuple[str, ...] = ("collection_id", "instance_id", "channel")
    nullable_key_columns: tuple[str, ...] = ("channel",)
    """Parts of the key that may be NULL; two NULLs are one value."""

    def get_validation_dependencies(
        self,
        execution_engine: Any = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> Any:
        """Ask for the tally of the keys."""
        dependencies = super().get_validation_dependencies(
            execution_engine=execution_engine, runtime_configuration=runtime_configuration
        )
        result_format = parse_result_format(dependencies.result_format)["result_format"]
        dependencies.set_metric_configuration(
            METRIC_NAME,
            MetricConfiguration(
                metric_name=METRIC_NAME,
                metric_domain_kwargs={"batch_id": self.batch_id},
                metric_value_kwargs={
                    "key_columns": list(self.row_key_columns),
                    "nullable_key_columns": list(self.nullable_key_columns),
                    "rows_max": ROWS_MAX_COMPLETE if result_format == "COMPLETE" else ROWS_MAX,
                },
            ),
        )
        return dependencies

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,
    ) -> dict[str, Any]:
        return result_of(read_tally(metrics[METRIC_NAME]))
