"""Validate collections: the cut table goes through one Checkpoint run, its answer comes back.

An error in Great Expectations is UNDECIDED.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

# First: it sets what Great Expectations reads when it is imported.
from tallystick.expectations.data_docs import DataDocs  # isort: skip

from great_expectations import Checkpoint, ExpectationSuite, ValidationDefinition
from great_expectations.core.freshness_diagnostics import (
    CheckpointFreshnessDiagnostics,
    ValidationDefinitionFreshnessDiagnostics,
)
from great_expectations.core.run_identifier import RunIdentifier

from tallystick.coordinates.audit.collection_checks import is_optional
from tallystick.coordinates.audit.cut import Cut, cut_columns
from tallystick.coordinates.results import Severity, Verdict
from tallystick.expectations.judgement import JudgedRow, Outcome, Tally
from tallystick.expectations.judges import forget
from tallystick.expectations.neutral import neutralise, restore
from tallystick.expectations.rules import ROWS_MAX
from tallystick.expectations.suite import build_suite
from tallystick.expectations.validation import CollectionValidation, ExpectationResult, RowResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE_COLUMNS: dict[str, Any] = cut_columns() | {"checks": str}
"""The columns that the expectations read: of the cut table, and its checks as text."""
_PANDAS_TYPES: dict[type, Any] = {str: "object", int: "Int64", bool: "boolean"}
_SPARK_TYPES = {str: "string", int: "bigint", bool: "boolean"}
_NO_ROWS = Tally(0, 0, 0, 0, 0)
_RUN_NAME_MAX = 80
_TIME_MAX = datetime(9999, 1, 1, tzinfo=timezone.utc)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class _Definition(ValidationDefinition):
    """Made here and changed by nobody.

    Before each run Great Expectations reads definitions and suite from the store again and compares
    them with those in memory, which took a third of the run.
    """

    def is_fresh(self) -> ValidationDefinitionFreshnessDiagnostics:
        """As it is in the store."""
        return ValidationDefinitionFreshnessDiagnostics(errors=[])


class _Checkpoint(Checkpoint):
    """The same of a Checkpoint."""

    def is_fresh(self) -> CheckpointFreshnessDiagnostics:
        """As it is in the store."""
        return CheckpointFreshnessDiagnostics(errors=[])


class CollectionValidator:
    """Validates collections by one suite that is built once.

    Args:
        data_docs_dir: Where results and Data Docs go; None keeps nothing.
        keep_runs: How many collections Data Docs show.
        disabled: Rules that the audit does not judge.
        spark: A running session, for tables too big for pandas; None validates all on pandas.
        spark_rows_min: From how many rows on a table is validated on Spark.
    """

    def __init__(
        self,
        data_docs_dir: Path | None = None,
        *,
        keep_runs: int = 20,
        disabled: Collection[str] = (),
        spark: SparkSession | None = None,
        spark_rows_min: int = 20_000,
    ) -> None:
        self._docs = DataDocs(data_docs_dir, keep_runs)
        self._is_kept = data_docs_dir is not None
        self._spark = spark
        self._spark_rows_min = spark_rows_min
        context = self._docs.context
        self._suite: ExpectationSuite = context.suites.add(build_suite(disabled))
        pandas = context.data_sources.add_pandas("cuts_pandas")
        self._pandas = _checkpoints(self._docs, self._suite, pandas, "pandas")
        if spark is not None:
            # Great Expectations finds the session that is running.
            source = context.data_sources.add_spark("cuts_spark", persist=False)
            self._on_spark = _checkpoints(self._docs, self._suite, source, "spark")

    def validate(self, cuts: Sequence[Cut]) -> CollectionValidation:
        """Validate the cuts of one collection."""
        if not cuts:
            return _not_validated("", "the collection has no rows")
        collection_id = cuts[0].collection_id
        try:
            return self._validated(collection_id, cuts)
        except Exception as error:  # noqa: BLE001  # whatever it is, the verdict is not known
            return _not_validated(
                collection_id, f"Great Expectations: {type(error).__name__}: {error}"[:1000]
            )
        finally:
            forget()
            if self._is_kept:
                self._docs.prune()

    def build_data_docs(self) -> Path | None:
        """Write the Data Docs of the kept collections; returns their index, None without any."""
        return self._docs.build()

    def _validated(self, collection_id: str, cuts: Sequence[Cut]) -> CollectionValidation:
        run_id = _run_id(collection_id, cuts)
        rows = [tuple(cell(cut, name) for name in TABLE_COLUMNS) for cut in cuts]
        if self._spark is not None and len(cuts) >= self._spark_rows_min:
            engine, (summary, complete) = "spark", self._on_spark
            frame: Any = _spark_frame(self._spark, rows).persist()
        else:
            engine, (summary, complete) = "pandas", self._pandas
            frame = _pandas_frame(rows)
        try:
            results = _run(summary, frame, run_id)
            if any(ROWS_MAX <= len(result.broken) < result.tally.broken for result in results):
                # The same run id: the fuller result replaces the first one.
                results = _run(complete, frame, run_id)
        finally:
            if engine == "spark":
                frame.unpersist()
        return CollectionValidation(
            collection_id, _verdict(results, cuts), results, (), run_id.run_name, engine
        )


def _checkpoints(
    docs: DataDocs, suite: ExpectationSuite, source: Any, name: str
) -> tuple[Checkpoint, Checkpoint]:
    """Make one Checkpoint that lists a few rows and one that lists as many as we show."""
    asset = source.add_dataframe_asset(name=f"cuts_{name}")
    batch = asset.add_batch_definition_whole_dataframe(f"collection_{name}")
    definition = docs.context.validation_definitions.add(
        _Definition(name=f"cuts_{name}", data=batch, suite=suite)
    )
    made = [
        _Checkpoint(
            name=f"collection_{name}_{result_format.lower()}",
            validation_definitions=[definition],
            result_format=result_format,
        )
        for result_format in ("SUMMARY", "COMPLETE")
    ]
    for checkpoint in made:
        docs.context.checkpoints.add(checkpoint)  # returns a copy, which would compare itself
    return made[0], made[1]


def _run(
    checkpoint: Checkpoint, frame: Any, run_id: RunIdentifier
) -> tuple[ExpectationResult, ...]:
    answer = checkpoint.run(batch_parameters={"dataframe": frame}, run_id=run_id)
    (validation,) = answer.run_results.values()
    return tuple(_result(result) for result in validation.results)


def _result(result: Any) -> ExpectationResult:
    config = result.expectation_config
    details = (result.result or {}).get("details")
    error = None
    if details is None:
        tally, outcome, error = _NO_ROWS, Outcome.UNDECIDED, _error_of(result.exception_info)
    else:
        outcome = Outcome[details["outcome"]]
        tally = Tally.from_dict({key: details[key] for key in details if key != "outcome"})
    return ExpectationResult(
        expectation=config.type,
        description=config.description or "",
        severity=Severity(config.meta["severity"]),
        rule=config.meta["rule"],
        group=config.meta["group"],
        outcome=outcome,
        tally=tally,
        broken=tuple(_row(row) for row in tally.broken_rows),
        undecided=tuple(_row(row) for row in tally.undecided_rows),
        error=error,
    )


def _row(row: JudgedRow) -> RowResult:
    collection_id, instance_id, channel = (
        None if part is None else restore(part) for part in row.key
    )
    return RowResult(
        collection_id, instance_id, channel, restore(row.sentence), restore(row.witness)
    )


def _error_of(exception_info: Any) -> str:
    """Find the message: the info is flat or nested by metric, as the error came about."""
    if isinstance(exception_info, dict):
        if exception_info.get("exception_message"):
            return restore(str(exception_info["exception_message"]))[:1000]
        for nested in exception_info.values():
            if isinstance(nested, dict) and nested.get("exception_message"):
                return restore(str(nested["exception_message"]))[:1000]
    return "the expectation gave no result"


def _verdict(results: Iterable[ExpectationResult], cuts: Sequence[Cut]) -> Verdict:
    """Merge the answers of the expectations.

    Rules that apply to no row do not count; if no rule held anywhere, nothing is known.
    """
    # A row with an undecided check is undecided: these are all, or some other is.
    optional = Counter(c.rule for cut in cuts for c in cut.undecided if is_optional(c, cut.verdict))
    outcomes = {
        result.outcome
        for result in results
        if result.outcome is not Outcome.UNDECIDED
        or result.rule is None
        or result.tally.undecided != optional[result.rule]
    }
    if Outcome.BROKEN in outcomes:
        return Verdict.INCONSISTENT
    if Outcome.UNDECIDED in outcomes or Outcome.HELD not in outcomes:
        return Verdict.UNDECIDED
    return Verdict.CONSISTENT


def _not_validated(collection_id: str, reason: str) -> CollectionValidation:
    return CollectionValidation(collection_id, Verdict.UNDECIDED, (), (reason,), "", "")


def cell(cut: Cut, name: str) -> Any:
    """What the validated table holds of a cut in one of its columns."""
    if name == "checks":
        return json.dumps([_neutral(check.to_dict()) for check in cut.checks])
    value = getattr(cut, name)
    return neutralise(value) if isinstance(value, str) else value


def _neutral(value: Any) -> Any:
    if isinstance(value, str):
        return neutralise(value)
    if isinstance(value, dict):
        return {name: _neutral(each) for name, each in value.items()}
    return [_neutral(each) for each in value] if isinstance(value, (list, tuple)) else value


def _pandas_frame(rows: Sequence[tuple[Any, ...]]) -> Any:
    columns = zip(*rows, strict=True)
    # Int64 and not int64: with a NULL the latter becomes a float and loses large positions.
    return pd.DataFrame(
        {
            name: pd.array(list(values), dtype=_PANDAS_TYPES[kind])
            for (name, kind), values in zip(TABLE_COLUMNS.items(), columns, strict=True)
        }
    )


def _spark_frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]]) -> Any:
    schema = ", ".join(f"`{name}` {_SPARK_TYPES[kind]}" for name, kind in TABLE_COLUMNS.items())
    return spark.createDataFrame(list(rows), schema)


def _run_id(collection_id: str, cuts: Sequence[Cut]) -> RunIdentifier:
    """Name the run after the collection, so that a repeated validation replaces it."""
    safe = re.sub(r"[^0-9A-Za-z_-]", "_", collection_id)[:_RUN_NAME_MAX]
    if safe != collection_id:
        # It names a directory: names that differ only in what it cannot have differ by a hash.
        digest = hashlib.sha256(collection_id.encode("utf-8", "surrogatepass")).hexdigest()
        safe = f"{safe}-{digest[:12]}"
    try:
        run_time = _EPOCH + timedelta(microseconds=max(0, *(cut.ts for cut in cuts)))
    except OverflowError:
        run_time = _TIME_MAX
    return RunIdentifier(run_name=safe, run_time=min(run_time, _TIME_MAX))
