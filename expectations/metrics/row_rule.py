"""The metric of every rule: judge each row, count, keep the first that are not held.

On Spark it is an aggregate, so Great Expectations computes any number of them in one job.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pandas as pd
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.metrics.metric_provider import metric_partial, metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from tallystick.expectations.judgement import Tally, encode_judgement
from tallystick.expectations.judges import judge_row
from tallystick.expectations.metrics._table import quoted, whole_table

METRIC_NAME = "tallystick.row_rule.tally"
VALUE_KEYS = ("judge", "columns", "scope_column", "checks_column", "key_columns", "rows_max")


class RowRuleTally(TableMetricProvider):
    """Tally of one row rule over a table, as the JSON form of ``Tally``."""

    metric_name = METRIC_NAME
    value_keys = VALUE_KEYS

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,  # noqa: N805  # great_expectations makes a class method of it
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> dict[str, Any]:
        frame = whole_table(execution_engine, metric_domain_kwargs)
        keys, cells = _columns(metric_value_kwargs)
        judge = _encoder(metric_value_kwargs)
        series = [frame[name].array for name in (*keys, *cells)]
        tally = Tally.of(
            (judge(row) for row in zip(*series, strict=True)), metric_value_kwargs["rows_max"]
        )
        return tally.to_dict()

    @metric_partial(
        engine=SparkDFExecutionEngine,
        partial_fn_type=MetricPartialFunctionTypes.AGGREGATE_FN,
        domain_type=MetricDomainTypes.TABLE,
    )
    def _spark(
        cls,  # noqa: N805  # great_expectations makes a class method of it
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        keys, cells = _columns(metric_value_kwargs)
        rows_max = metric_value_kwargs["rows_max"]
        frame = whole_table(execution_engine, metric_domain_kwargs)
        nested = {
            name
            for name, kind in frame.dtypes
            if name == metric_value_kwargs["checks_column"] and kind != "string"
        }
        encode = _encoder(metric_value_kwargs)
        aggregate = _spark_aggregate((*keys, *cells), nested, encode, rows_max)
        return aggregate, metric_domain_kwargs, {}


def read_tally(value: Any) -> Tally:
    """Give the tally, whichever engine computed it."""
    if isinstance(value, str):
        counted = json.loads(value)
        counts = {letter: counted[letter] for letter in "HBUN"}
        return Tally.from_parts(counts, counted["broken_rows"], counted["undecided_rows"])
    return Tally.from_dict(value)


def _columns(kwargs: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    optional = [kwargs["scope_column"], kwargs["checks_column"]]
    named = [name for name in optional if name is not None]
    return list(kwargs["key_columns"]), [*named, *kwargs["columns"]]


def _encoder(kwargs: Mapping[str, Any]) -> Callable[[Sequence[Any]], str]:
    name: str = kwargs["judge"]
    keys = len(kwargs["key_columns"])
    has_scope = kwargs["scope_column"] is not None
    has_checks = kwargs["checks_column"] is not None

    # Only the name travels to Spark's workers; the judge is found there.
    def encode(row: Sequence[Any]) -> str:
        cells = list(row[keys:])
        scope = cells.pop(0) if has_scope else None
        checks = cells.pop(0) if has_checks else None
        judgement = judge_row(name, scope, checks, cells, has_checks=has_checks)
        return encode_judgement(row[:keys], judgement)

    return encode


def _spark_aggregate(
    names: Sequence[str],
    nested: Collection[str],
    encode: Callable[[Sequence[Any]], str],
    rows_max: int,
) -> Any:
    from pyspark.sql import functions as F  # noqa: N812  # the name that everyone gives it
    from pyspark.sql.pandas.functions import pandas_udf

    def judge(*columns: Any) -> Any:
        return pd.Series([encode(row) for row in zip(*columns, strict=True)], dtype=object)

    # Typed by hand: the annotations above are text, and read in a module without pandas' types.
    judge.__annotations__ = {"columns": pd.Series, "return": pd.Series}
    # As text, because a column of integers with a NULL reaches pandas as floats.
    as_udf: Any = pandas_udf
    judged = as_udf(judge, "string")(
        *(
            F.to_json(F.col(quoted(name))) if name in nested else F.col(quoted(name)).cast("string")
            for name in names
        )
    )
    letter = F.substring(judged, 1, 1)
    counts = [F.count(F.when(letter == value, 1)).alias(value) for value in "HBUN"]
    first = [
        F.slice(F.array_sort(F.collect_list(F.when(letter == value, judged))), 1, rows_max).alias(
            name
        )
        for value, name in (("B", "broken_rows"), ("U", "undecided_rows"))
    ]
    return F.to_json(F.struct(*counts, *first))
