"""Expectations that any Great Expectations project can use, on pandas and on Spark.

One class a rule, made from the registry: ``executed_within_logged`` is
``ExpectExecutedWithinLogged``. Importing this module registers all of them. Columns default to
those of the cut table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from great_expectations.compatibility import pydantic
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.expectation_configuration import parse_result_format
from great_expectations.validator.metric_configuration import MetricConfiguration
from great_expectations.validator.validator import ValidationDependencies

from tallystick.coordinates.rules.catalogue import RULES
from tallystick.expectations.judgement import JudgedRow, Outcome, Tally
from tallystick.expectations.judges import JUDGES
from tallystick.expectations.metrics import row_key, row_rule

if TYPE_CHECKING:
    from collections.abc import Iterable

ROWS_MAX = 20
ROWS_MAX_COMPLETE = 200

_OUTCOME_WORDS = {
    Outcome.HELD: "held",
    Outcome.BROKEN: "BROKEN",
    Outcome.UNDECIDED: "UNDECIDED",
    Outcome.NOT_APPLICABLE: "not applicable",
}
_KEY_COLUMNS = ("collection_id", "instance_id", "channel")


class _TallyExpectation(BatchExpectation):
    """An expectation whose metric is a tally; a row without the needed values is no success."""

    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)
    metric: ClassVar[str] = row_rule.METRIC_NAME

    row_key_columns: tuple[str, ...] = _KEY_COLUMNS
    """What identifies a row to a reader."""
    mostly: float = pydantic.Field(default=1.0, gt=0.0, le=1.0)
    """Which share of the rows that it applies to must hold."""

    def value_kwargs(self) -> dict[str, Any]:
        """What the metric is asked beside the key and the number of rows to list."""
        raise NotImplementedError

    def get_validation_dependencies(
        self,
        execution_engine: Any = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> Any:
        """Ask for the tally.

        The base class would make all arguments of a result, and use this one.
        """
        asked = (runtime_configuration or {}).get("result_format", self.result_format)
        result_format = parse_result_format(asked)
        dependencies = ValidationDependencies(metric_configurations={}, result_format=result_format)
        is_complete = result_format["result_format"] == "COMPLETE"
        dependencies.set_metric_configuration(
            self.metric,
            MetricConfiguration(
                metric_name=self.metric,
                metric_domain_kwargs={"batch_id": self.batch_id},
                metric_value_kwargs={
                    **self.value_kwargs(),
                    "key_columns": list(self.row_key_columns),
                    "rows_max": ROWS_MAX_COMPLETE if is_complete else ROWS_MAX,
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
        return _result(row_rule.read_tally(metrics[self.metric]), self.mostly)


class RowExpectation(_TallyExpectation):
    """Judges every row.

    ``details`` of the result accounts for all rows: held, broken, undecided, not applicable.
    """

    judge: ClassVar[str]
    """Key of ``JUDGES``: the name of the rule, if it is one."""

    scope_column: str | None = "scope"
    """Says whether a row is about an instance or a channel; None: the table does not mix them."""

    def columns(self) -> dict[str, str]:
        """Name the column of each role."""
        return {role: getattr(self, f"{role}_column") for role in JUDGES[self.judge].columns}

    def value_kwargs(self) -> dict[str, Any]:
        """What the metric is asked."""
        return {
            "judge": self.judge,
            "columns": list(self.columns().values()),
            "scope_column": self.scope_column,
            "checks_column": None,
        }


class RuleExpectation(RowExpectation):
    """Judges every row by a rule of the registry."""

    checks_column: str | None = "checks"
    """The audit's checks of the row; None: the columns alone decide."""

    def value_kwargs(self) -> dict[str, Any]:
        """What the metric is asked."""
        return super().value_kwargs() | {"checks_column": self.checks_column}


class ExpectCutsToBeUnique(_TallyExpectation):
    """Expect one row for each collection, instance and channel."""

    metric: ClassVar[str] = row_key.METRIC_NAME
    success_keys: ClassVar[tuple[str, ...]] = ("row_key_columns", "nullable_key_columns", "mostly")

    nullable_key_columns: tuple[str, ...] = ("channel",)
    """Parts of the key that may be NULL; two NULLs are one value."""

    def value_kwargs(self) -> dict[str, Any]:
        """What the metric is asked."""
        return {"nullable_key_columns": list(self.nullable_key_columns)}


def _made(name: str, judge: str, base: type[RowExpectation], text: str) -> type[RowExpectation]:
    columns = {f"{role}_column": role for role in JUDGES[judge].columns}
    optional = [field for field in ("scope_column", "checks_column") if field in base.__fields__]
    body = {
        "__module__": __name__,
        "__qualname__": name,
        "__doc__": text,
        "__annotations__": dict.fromkeys(columns, str),
        "judge": judge,
        "success_keys": (*columns, *optional, "row_key_columns", "mostly"),
        **columns,
    }
    metaclass: Any = type(base)
    made: type[RowExpectation] = metaclass(name, (base,), body)
    return made


def class_name(rule: str) -> str:
    """The name of a rule's expectation class."""
    return "Expect" + "".join(part.capitalize() for part in rule.split("_"))


EXPECTATIONS: Mapping[str, type[RowExpectation]] = {
    name: _made(class_name(name), name, RuleExpectation, f"Expect: {rule.claim}")
    for name, rule in RULES.items()
}
"""The expectation class of each rule, by the rule's name."""

ExpectEveryInstanceToAnswer = _made(
    "ExpectEveryInstanceToAnswer",
    "answered",
    RowExpectation,
    "Expect a row from every instance; an error is undecided, silence without one a breach.",
)
ExpectVerdictToBeKnown = _made(
    "ExpectVerdictToBeKnown", "verdict_known", RowExpectation, "Expect one of the three verdicts."
)

_by_class_name = {made.__name__: made for made in EXPECTATIONS.values()}


def __getattr__(name: str) -> type[RowExpectation]:
    try:
        return _by_class_name[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> Iterable[str]:
    return sorted({*globals(), *_by_class_name})


def _result(tally: Tally, mostly: float) -> dict[str, Any]:
    """A tally as a result of Great Expectations: success only where nothing is open."""
    outcome = tally.outcome(mostly)
    return {
        "success": outcome in (Outcome.HELD, Outcome.NOT_APPLICABLE),
        "result": {
            "observed_value": _summary(tally, outcome),
            "element_count": tally.rows,
            "unexpected_count": tally.broken,
            "unexpected_percent": 100.0 * tally.broken / tally.rows if tally.rows else 0.0,
            "missing_count": tally.undecided,
            "partial_unexpected_list": [_shown(row) for row in tally.broken_rows],
            "details": {"outcome": outcome.name, **tally.to_dict()},
        },
    }


def _summary(tally: Tally, outcome: Outcome) -> str:
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
    first = f"; first undecided: {_shown(tally.undecided_rows[0])}" if tally.undecided_rows else ""
    return f"{_OUTCOME_WORDS[outcome]}: {counts}, of {tally.rows} rows{first}"


def _shown(row: JudgedRow) -> str:
    key = " / ".join(part or "default channel" for part in row.key if part is not None)
    witness = f" [{row.witness}]" if row.witness else ""
    return f"{key}: {row.sentence}{witness}"
