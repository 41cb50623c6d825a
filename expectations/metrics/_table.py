"""The table of a metric, and how Spark names its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from great_expectations.core.metric_domain_types import MetricDomainTypes

if TYPE_CHECKING:
    from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
    from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine


def whole_table(
    engine: PandasExecutionEngine | SparkDFExecutionEngine, domain_kwargs: dict[str, Any]
) -> Any:
    """The frame of the metric's domain, of pandas or of Spark as the engine is."""
    frame, _, _ = engine.get_compute_domain(
        domain_kwargs=domain_kwargs, domain_type=MetricDomainTypes.TABLE
    )
    return frame


def quoted(name: str) -> str:
    """A column's name as Spark reads it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"
