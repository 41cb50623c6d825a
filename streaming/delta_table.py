"""A run's tables in Delta Lake's format: opened, appended to, read. Knows no Spark."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Transaction,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError
from pyarrow.dataset import dataset
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from tallystick.coordinates.values.errors import one_line
from tallystick.streaming import table_checksums
from tallystick.streaming.errors import TableError
from tallystick.streaming.tables import PATH, SCHEMA_VERSION, TIMESTAMP, TableKind, full_schema
from tallystick.streaming.to_fix import to_rebuild

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

CHECKPOINT_COMMITS = 100
ATTEMPTS = 5
_PROPERTIES = {
    "delta.checkpointInterval": str(CHECKPOINT_COMMITS),
    # So far back a reader can open a version. A busy fleet's table has two commits a second, and
    # each commit lists all that are kept.
    "delta.logRetentionDuration": "interval 5 minutes",
    # So long a reader can go on with files that were put together meanwhile.
    "delta.deletedFileRetentionDuration": "interval 6 hours",
}
KEEP_LOG = PostCommitHookProperties(cleanup_expired_logs=False)
"""A commit removes no earlier ones: ``tidy_log`` does, when their checkpoint has a checksum."""


def existing(directory: Path, kind: TableKind) -> DeltaTable | None:
    """A table of a run; None: nothing was ever written to it.

    Raises:
        TableError: Its columns are those of another version of tallystick, or it is damaged.
    """
    path = str(directory / kind.name)
    table_checksums.compare_log(directory / kind.name)
    with _readable(path):
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
        TableError: As of ``existing``.
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


def append(
    table: DeltaTable, rows: pa.Table, run_id: str, batch: int | None, written_us: int
) -> DeltaTable:
    """Commit rows, without the columns ``WRITTEN``; those of a number that is known are there.

    Args:
        table: Where to.
        rows: At least one.
        run_id: Who writes.
        batch: The number, greater than that of the writer's commits before; None: without one.
        written_us: When the micro-batch is written, microseconds: the same for all its tables.

    Returns:
        The table as it is then, to be appended to.
    """
    for name, value in (
        ("run", pa.scalar(run_id)),
        ("batch", pa.scalar(batch, pa.int64())),
        ("written_at", pa.scalar(written_us, TIMESTAMP)),
    ):
        rows = rows.append_column(name, pa.repeat(value, len(rows)))
    for left in reversed(range(ATTEMPTS)):
        properties = None
        try:
            if batch is not None:
                done = table.transaction_version(run_id)
                if done is not None and done >= batch:
                    break
                properties = CommitProperties(app_transactions=[Transaction(run_id, batch)])
            write_deltalake(
                table,
                rows,
                mode="append",
                commit_properties=properties,
                post_commithook_properties=KEEP_LOG,
            )
            break
        except DeltaError as error:
            # Upkeep, or another run, has removed rows since the table was read, or of its log what
            # comes after that. Without a number, what may be there is not written again.
            again = batch is not None or isinstance(error, CommitFailedError)
            if not (left and again):
                raise
            table = DeltaTable(str(_directory_of(table)))
    record(table)
    return table


def record(table: DeltaTable) -> None:
    """Add the checksums of what was committed since this was last called."""
    table_checksums.record(_directory_of(table), table)


def tidy_log(table: DeltaTable) -> None:
    """Remove commits that a checkpoint stands for, and checksums of what is there no more."""
    record(table)
    table.cleanup_metadata()
    table_checksums.forget_removed(_directory_of(table))


def compare(directory: Path, kind: TableKind) -> None:
    """Compare every file that a table is read from with its checksum.

    Raises:
        TableError: As of ``existing``.
    """
    table = existing(directory, kind)
    if table is not None:
        _compare_data(directory / kind.name, table)


def _compare_data(path: Path, table: DeltaTable) -> None:
    table_checksums.compare_data(path, table_checksums.data_names(table))


def _recent(table: DeltaTable, recent_s: float) -> list[str]:
    """The files that were written last."""
    files = pa.table(table.get_add_actions(flatten=True)).select(["path", "modification_time"])
    times = files["modification_time"].cast(pa.int64()).to_pylist()
    since = max(times, default=0) - recent_s * 1_000
    return [path for path, ms in zip(files["path"].to_pylist(), times, strict=True) if ms >= since]


def _directory_of(table: DeltaTable) -> Path:
    return Path(url2pathname(urlsplit(table.table_uri).path))


def is_of_files(error: BaseException) -> bool:
    """Whether deltalake or Arrow says that of files which cannot be read or written.

    A panic of Rust's is no Exception, and has no class that could be imported; what crosses from
    Arrow in Rust may be an Exception of no class of its own.
    """
    is_known = isinstance(error, (DeltaError, pa.ArrowException, OSError))
    return is_known or type(error) is Exception or type(error).__name__ == "PanicException"


@contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        if not is_of_files(error):
            raise
        raise TableError(
            f"{path!r} is damaged: {one_line(error)}. To fix: {to_rebuild(path)}"
        ) from error


def is_among(column: str, names: Iterable[str]) -> pc.Expression:
    """Whether a column of text has one of some values; of none, no row has it."""
    # A list without values would be of no type, which Arrow compares with nothing.
    return pc.field(column).isin(pa.array(list(names), pa.string()))


def read(
    directory: Path,
    kind: TableKind,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
    recent_s: float | None = None,
) -> pa.Table:
    """Rows of a table; none where it does not exist.

    Args:
        directory: The run's tables.
        kind: Which table.
        columns: Which of its columns; None: all.
        where: Which rows. Not by ``ts``, which comes from outside: what a file is known to have of
            a time that no calendar has is wrong.
        recent_s: Only files that were written within so long before the newest one: all rows of
            that time, and maybe earlier ones. None: all files.

    Raises:
        TableError: As of ``existing``.
    """
    table = existing(directory, kind)
    if table is None:
        schema = full_schema(kind)
        return schema.empty_table().select(columns or schema.names)
    path = directory / kind.name
    with _readable(str(path)):
        names = table_checksums.data_names(table) if recent_s is None else _recent(table, recent_s)
    table_checksums.compare_data(path, names)
    wanted = None if columns is None else list(columns)
    with _readable(str(path)):
        if recent_s is None:
            # Arrow's own file system. Through deltalake's, which is Python's, Arrow's threads may
            # still let go of a file when the process ends, which then aborts.
            files_below = SubTreeFileSystem(str(path), LocalFileSystem())
            rows = table.to_pyarrow_dataset(filesystem=files_below)
        else:
            # Without the table's statistics: of hundreds of small files they take longer to read.
            files = [str(path / name) for name in names]
            rows = dataset(files, full_schema(kind), format="parquet")
        found = rows.to_table(wanted, where)
    fields = [full_schema(kind).field(name) for name in found.column_names]
    return found.cast(pa.schema(fields, {PATH: str(path)}))
