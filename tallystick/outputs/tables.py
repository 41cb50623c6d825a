"""The result as tables in a directory, in the form of the streaming job's own.

Findings are as the audit reported them, so ``tallystick report`` makes the same result of them.
"""

from __future__ import annotations

from pathlib import Path

from tallystick.errors import MisuseError
from tallystick.extras import require_extra
from tallystick.runs.result import RunResult

DEFAULT = "tables"
"""The directory."""


def write(result: RunResult, target: str) -> None:
    """Write a directory for each table.

    Raises:
        MisuseError: The directory cannot be written, or has the tables of another run.
        TableError: No table can be in it.
        MissingExtraError: The extra ``tables`` is not installed.
    """
    require_extra("tables", "--output tables")
    from tallystick.streaming.table_reader import runs_of
    from tallystick.streaming.table_sink import END_BATCH, TableSink

    sink = TableSink(Path(target), result.command)
    try:
        Path(target).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MisuseError(f"{target!r} cannot be written: {error.strerror}") from error
    # A report would add up what both have; a result replaces that of the same command.
    if runs_of(Path(target)) - {result.command}:
        raise MisuseError(f"{target!r} has the tables of another run: expected a new directory")
    sink.write(
        END_BATCH,
        findings=result.found,
        incidents=result.incidents,
        observations=result.observations,
        cuts=result.cuts,
        checks=result.checks,
        validations=result.validations,
    )
