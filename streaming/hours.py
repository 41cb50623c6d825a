"""Sums of hours, made once of the tables with details, so that a report of a year is quick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallystick.streaming.delta_table import existing, read
from tallystick.streaming.tables import (
    CHECKS,
    COUNTS,
    CUTS,
    HOURS,
    TIMESTAMP,
    VALIDATIONS,
    TableKind,
)

if TYPE_CHECKING:
    from pathlib import Path

HOUR_US = 3_600_000_000
_COLUMNS = {
    CUTS.name: ("instance_id", "channel", "ts", "verdict", "answer"),
    CHECKS.name: ("instance_id", "channel", "ts", "outcome"),
    VALIDATIONS.name: ("ts", "verdict", "is_late"),
}
_KEYS = ("hour", "instance_id", "channel")


def unsummed(directory: Path, run_id: str, after: int | None, upto: int) -> pa.Table:
    """The sums of some micro-batches.

    Args:
        directory: The run's tables.
        run_id: Whose micro-batches.
        after: Those with a greater number; None: all.
        upto: And not after this one.
    """
    batch = pc.field("batch")
    where = (pc.field("run") == run_id) & (batch <= upto)
    return _sums(directory, where if after is None else where & (batch > after))


def read_hours(directory: Path) -> pa.Table:
    """The sums of all hours, with those of micro-batches that are not summed up yet."""
    known = read(directory, HOURS)
    table = existing(directory, HOURS)
    batch = pc.field("batch")
    is_left = pc.scalar(True)  # noqa: FBT003
    if table is not None:
        for run_id in pc.unique(known["run"]).to_pylist():
            is_summed = batch.is_valid() & (batch <= table.transaction_version(run_id))
            is_left &= ~((pc.field("run") == run_id) & is_summed)
    return added_up(pa.concat_tables((known.select(HOURS.schema.names), _sums(directory, is_left))))


def _sums(directory: Path, where: pc.Expression) -> pa.Table:
    def rows(kind: TableKind) -> pa.Table:
        return read(directory, kind, _COLUMNS[kind.name], where)

    return sums_of_hours(rows(CUTS), rows(CHECKS), rows(VALIDATIONS))


def sums_of_hours(cuts: pa.Table, checks: pa.Table, validations: pa.Table) -> pa.Table:
    """Rows of ``HOURS``, one for each hour, instance and channel.

    Args:
        cuts: Of the cut table, the columns that are counted.
        checks: Of the table of checks.
        validations: Of the table of validations.
    """
    of_cuts = {name: pc.equal(cuts["verdict"], name.upper()) for name in COUNTS[1:4]}
    of_cuts["collections"] = pa.array(np.ones(len(cuts), np.int64))
    of_cuts["unanswered"] = pc.not_equal(cuts["answer"], "row")
    outcomes = zip(COUNTS[5:], ("holds", "undecided", "broken"), strict=True)
    of_checks = {name: pc.equal(checks["outcome"], outcome) for name, outcome in outcomes}
    whole = validations.append_column("instance_id", pa.nulls(len(validations), pa.string()))
    whole = whole.append_column("channel", pa.nulls(len(validations), pa.string()))
    of_whole = {name: pc.equal(whole["verdict"], name.upper()) for name in COUNTS[1:4]}
    of_whole["collections"] = pc.invert(whole["is_late"])
    return added_up(
        pa.concat_tables(
            (_counted(cuts, of_cuts), _counted(checks, of_checks), _counted(whole, of_whole))
        )
    )


def added_up(hours: pa.Table) -> pa.Table:
    """Rows of ``HOURS`` with those of one key put together."""
    sums = [(name, "sum") for name in COUNTS] + [("first_ts", "min"), ("last_ts", "max")]
    made = hours.group_by(list(_KEYS)).aggregate(sums)
    return made.select([*_KEYS, *(f"{name}_{how}" for name, how in sums)]).rename_columns(
        HOURS.schema.names
    )


def _counted(rows: pa.Table, counts: dict[str, pa.ChunkedArray]) -> pa.Table:
    us = rows["ts"].cast(pa.int64()).to_numpy()
    zeros = pa.array(np.zeros(len(rows), np.int64))
    columns = {
        "hour": pa.array(us - us % HOUR_US).cast(TIMESTAMP),
        "instance_id": rows["instance_id"],
        "channel": rows["channel"],
        **{name: counts[name].cast(pa.int64()) if name in counts else zeros for name in COUNTS},
        "first_ts": rows["ts"],
        "last_ts": rows["ts"],
    }
    return pa.table(columns, schema=HOURS.schema)
