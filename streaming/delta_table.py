"""A run's tables in Delta Lake's format: opened, appended to, read. Knows no Spark."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from tallystick.streaming.errors import TableError
from tallystick.streaming.tables import SCHEMA_VERSION, TIMESTAMP, TableKind, full_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.compute as pc

CHECKPOINT_COMMITS = 100
ATTEMPTS = 5
_PROPERTIES = {
    "delta.checkpointInterval": str(CHECKPOINT_COMMITS),
    # So far back a reader can open a version, or go on reading files that were put together.
    "delta.logRetentionDuration": "interval 2 days",
    "delta.deletedFileRetentionDuration": "interval 2 days",
}


def existing(directory: Path, kind: TableKind) -> DeltaTable | None:
    """A table of a run; None: nothing was ever written to it.

    Raises:
        TableError: Its columns are those of another version of tallystick.
    """
    path = str(directory / kind.name)
    if not DeltaTable.is_deltatable(path):
        return None
    table = DeltaTable(path)
    name = table.metadata().name
    if name != _name(kind):
        raise TableError(
            f"{path!r} is {name!r}, this version of tallystick has {_name(kind)!r}: move the"
            f" directory away."
        )
    return table


def made(directory: Path, kind: TableKind) -> DeltaTable:
    """A table of a run, made where there is none.

    Raises:
        TableError: Its columns are those of another version of tallystick.
    """
    return existing(directory, kind) or DeltaTable.create(
        str(directory / kind.name),
        full_schema(kind),
        mode="ignore",
        name=_name(kind),
        description=kind.text,
        configuration=_PROPERTIES,
    )


def _name(kind: TableKind) -> str:
    return f"tallystick {kind.name}, schema {SCHEMA_VERSION}"


def append(table: DeltaTable, rows: pa.Table, run_id: str, batch: int | None) -> None:
    """Commit rows, without the columns ``WRITTEN``; those of a number that is known are there.

    Args:
        table: Where to.
        rows: At least one.
        run_id: Who writes.
        batch: The number, greater than that of the writer's commits before; None: without one.
    """
    now = pa.scalar(time.time_ns() // 1000, TIMESTAMP)
    for name, value in (
        ("run", pa.scalar(run_id)),
        ("batch", pa.scalar(batch, pa.int64())),
        ("written_at", now),
    ):
        rows = rows.append_column(name, pa.repeat(value, len(rows)))
    for left in reversed(range(ATTEMPTS)):
        properties = None
        if batch is not None:
            done = table.transaction_version(run_id)
            if done is not None and done >= batch:
                return
            properties = CommitProperties(app_transactions=[Transaction(run_id, batch)])
        try:
            write_deltalake(table, rows, mode="append", commit_properties=properties)
            return
        except CommitFailedError:
            # Upkeep, or another run, has removed rows since the table was read.
            if not left:
                raise
            table.update_incremental()


def read(
    directory: Path,
    kind: TableKind,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
) -> pa.Table:
    """Rows of a table; none where it does not exist.

    Args:
        directory: The run's tables.
        kind: Which table.
        columns: Which of its columns; None: all.
        where: Which rows. Not by ``ts``, which comes from outside: what a file is known to have of
            a time that no calendar has is wrong.
    """
    table = existing(directory, kind)
    if table is None:
        schema = full_schema(kind)
        return schema.empty_table().select(columns or schema.names)
    found = table.to_pyarrow_dataset().to_table(None if columns is None else list(columns), where)
    return found.cast(pa.schema([full_schema(kind).field(name) for name in found.column_names]))
