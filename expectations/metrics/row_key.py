"""The metric that finds rows with one key more than once; NULL parts of a key equal each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from tallystick.expectations.judgement import Tally, broken, encode_judgement, read_cell, undecided
from tallystick.expectations.metrics._table import quoted, whole_table

METRIC_NAME = "tallystick.row_key.tally"

Key = tuple[str | None, ...]


class RowKeyTally(TableMetricProvider):
    """Tally of how often each key occurs, as the JSON form of ``Tally``."""

    metric_name = METRIC_NAME
    value_keys = ("key_columns", "nullable_key_columns", "rows_max")

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
        series = [frame[name].array for name in metric_value_kwargs["key_columns"]]
        keys = Counter(tuple(_text(part) for part in row) for row in zip(*series, strict=True))
        return _tally(keys.items(), metric_value_kwargs).to_dict()

    @metric_value(engine=SparkDFExecutionEngine)
    def _spark(
        cls,  # noqa: N805  # great_expectations makes a class method of it
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> dict[str, Any]:
        from pyspark.sql import functions as F  # noqa: N812  # the name that everyone gives it

        frame = whole_table(execution_engine, metric_domain_kwargs)
        names = metric_value_kwargs["key_columns"]
        counted = frame.groupBy(*(F.col(quoted(n)).cast("string") for n in names)).count()
        required = [
            position
            for position, name in enumerate(names)
            if name not in metric_value_kwargs["nullable_key_columns"]
        ]
        is_doubtful = F.col("count") > 1
        for position in required:
            is_doubtful |= F.col(quoted(counted.columns[position])).isNull()
        # What is in order is only counted; what is not is listed.
        single = counted.filter(~is_doubtful).count()
        doubtful = counted.filter(is_doubtful).collect()
        return _tally(
            ((tuple(row[:-1]), row[-1]) for row in doubtful), metric_value_kwargs, single
        ).to_dict()


def _tally(counted: Iterable[tuple[Key, int]], kwargs: dict[str, Any], held: int = 0) -> Tally:
    nullable: Sequence[str] = kwargs["nullable_key_columns"]
    rows_max: int = kwargs["rows_max"]
    counts = {"H": held, "B": 0, "U": 0, "N": 0}
    first: dict[str, list[str]] = {"B": [], "U": []}
    for key, count in counted:
        unnamed = [
            name
            for name, part in zip(kwargs["key_columns"], key, strict=True)
            if part is None and name not in nullable
        ]
        if unnamed:
            counts["U"] += count
            first["U"].append(encode_judgement(key, undecided(f"{unnamed[0]} is not known")))
        elif count > 1:
            counts["B"] += count
            shown = broken(f"{count} rows have this key, expected one", count)
            first["B"].append(encode_judgement(key, shown))
        else:
            counts["H"] += 1
    return Tally.from_parts(counts, sorted(first["B"])[:rows_max], sorted(first["U"])[:rows_max])


def _text(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    return None if read_cell(part, int) is None else str(part)
