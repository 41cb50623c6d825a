"""The base of expectations whose subject is one row: parameters in, tally out."""

from __future__ import annotations

from typing import Any, ClassVar

from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.expectation_configuration import parse_result_format
from great_expectations.validator.metric_configuration import MetricConfiguration

from tallystick.expectations.judgement import JudgedRow, Outcome, RowRule, Tally
from tallystick.expectations.metrics.row_rule import METRIC_NAME, read_tally

ROWS_MAX = 20
ROWS_MAX_COMPLETE = 200

_OUTCOME_WORDS = {
    Outcome.HELD: "held",
    Outcome.BROKEN: "BROKEN",
    Outcome.UNDECIDED: "UNDECIDED",
    Outcome.NOT_APPLICABLE: "not applicable",
}


class RowRuleExpectation(BatchExpectation):
    """Judges every row by a rule; a row without the needed values is no success.

    ``details`` of the result accounts for all rows: held, broken, undecided, not applicable.
    """

    rule: ClassVar[RowRule]
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)

    row_key_columns: tuple[str, ...] = ("collection_id", "instance_id", "channel")
    """What identifies a row to a reader."""
    scope_column: str | None = "scope"
    """Says whether a row is about an instance or a channel; None: the rule is for every row."""
    undecided_column: str | None = "undecided"
    """Says what the audit could not decide on a row, and so cannot be held against it; or None."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.success_keys = tuple(
            name
            for name in cls.__fields__
            if name.endswith(("_column", "_columns")) or name in ("column", "scope")
        )

    def columns(self) -> dict[str, str]:
        """Name the column of each role."""
        return {role: getattr(self, f"{role}_column") for role in self.rule.roles}

    def rows_in_scope(self) -> str | None:
        """Name the scope of the rows that the rule is about, None for every row."""
        return self.rule.scope if self.scope_column is not None else None

    def get_validation_dependencies(
        self,
        execution_engine: Any = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> Any:
        """Ask for the tally of the rule over the named columns."""
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
                    "rule": self.rule.name,
                    "columns": self.columns(),
                    "scope_column": self.scope_column,
                    "scope": self.rows_in_scope(),
                    "undecided_column": (
                        self.undecided_column if self.rule.invariant is not None else None
                    ),
                    "key_columns": list(self.row_key_columns),
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


def result_of(tally: Tally) -> dict[str, Any]:
    """Write a tally as a result of Great Expectations: success only where nothing is open."""
    return {
        "success": tally.outcome in (Outcome.HELD, Outcome.NOT_APPLICABLE),
        "result": {
            "observed_value": _summary(tally),
            "element_count": tally.rows,
            "unexpected_count": tally.broken,
            "unexpected_percent": 100.0 * tally.broken / tally.rows if tally.rows else 0.0,
            "missing_count": tally.undecided,
            "partial_unexpected_list": [_told(row) for row in tally.broken_rows],
            "details": {"outcome": tally.outcome.name, **tally.to_dict()},
        },
    }


def _summary(tally: Tally) -> str:
    if not tally.rows:
        return "UNDECIDED: the table is empty"
    counts = ", ".join(
        f"{count} {word}"
        for count, word in (
            (tally.broken, "broken"),
            (tally.undecided, "undecided"),
            (tally.held, "held"),
            (tally.not_applicable, "not applicable"),
        )
        if count
    )
    first = f"; first undecided: {_told(tally.undecided_rows[0])}" if tally.undecided_rows else ""
    return f"{_OUTCOME_WORDS[tally.outcome]}: {counts}, of {tally.rows} rows{first}"


def _told(row: JudgedRow) -> str:
    key = " / ".join(part or "default channel" for part in row.key if part is not None)
    witness = f" [{row.witness}]" if row.witness else ""
    return f"{key}: {row.sentence}{witness}"
