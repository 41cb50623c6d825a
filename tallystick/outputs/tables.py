"""The result as Parquet tables in a directory, in the form of the streaming job's own.

Findings are as the audit reported them, so ``tallystick report`` makes the same result of them.
"""

from __future__ import annotations

from pathlib import Path

from tallystick.errors import MisuseError
from tallystick.runs.result import RunResult

DEFAULT = "tables"
"""The directory."""


def write(result: RunResult, target: str) -> None:
    """Write a directory for each table.

    Raises:
        MisuseError: The directory cannot be written.
    """
    from tallystick.streaming.tables import END_BATCH, ParquetSink

    try:
        Path(target).mkdir(parents=True, exist_ok=True)
        ParquetSink(Path(target), result.command).write(
            END_BATCH,
            findings=result.found,
            observations=result.observations,
            cuts=result.cuts,
            checks=result.checks,
            validations=result.validations,
        )
    except OSError as error:
        raise MisuseError(f"{target!r} cannot be written: {error.strerror}") from error
