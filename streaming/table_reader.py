"""What a run's tables have, each thing once: rows may have been written by several runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallystick.streaming.delta_table import is_among, read
from tallystick.streaming.tables import (
    CHECKS,
    CUTS,
    FINDINGS,
    INCIDENTS,
    OBSERVATIONS,
    TABLES,
    TIMESTAMP,
    VALIDATIONS,
    TableKind,
    values_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.results import Finding, Incident, Observation, SubjectCheck


@dataclass(frozen=True, slots=True)
class Collections:
    """Some collections of a run.

    Attributes:
        names: Their ids.
        first_ts: Time of the oldest row of them, microseconds.
        written_since: None of their rows was written before; null: not known.
        is_whole: There are no older ones.
        has_end: Rows were written at the end of a history or of a run.
    """

    names: frozenset[str]
    first_ts: int
    written_since: pa.Scalar
    is_whole: bool
    has_end: bool


def runs_of(directory: Path) -> set[str]:
    """Who has written rows of the tables."""
    return {
        run
        for kind in TABLES.values()
        for run in read(directory, kind, ("run",))["run"].to_pylist()
    }


def newest_collections(
    directory: Path, count: int | None = None, upto: int | None = None
) -> Collections:
    """The newest collections that the cut table has.

    Args:
        directory: The run's tables.
        count: How many; None: all.
        upto: Of those that began until then, microseconds; None: of all.
    """
    rows = read(directory, CUTS, ("collection_id", "ts", "written_at", "batch"))
    known = rows.group_by("collection_id").aggregate([("ts", "min"), ("written_at", "min")])
    until = known if upto is None else known.filter(_is_until(known["ts_min"], upto))
    shown = until.sort_by("ts_min").slice(0 if count is None else max(0, len(until) - count))
    # A job that is killed may have written a collection in part, the rest with the same number
    # later: but nothing of it before all of the micro-batch with rows before that.
    written = known["written_at_min"]
    since = pc.max(written.filter(pc.less(written, pc.min(shown["written_at_min"]))))
    first = pc.min(shown["ts_min"].cast(pa.int64())).as_py()
    return Collections(
        frozenset(shown["collection_id"].to_pylist()),
        first or 0,
        since,
        is_whole=len(shown) == len(until),
        has_end=rows["batch"].null_count > 0,
    )


def collection_time(directory: Path, collection_id: str) -> int | None:
    """When a collection began, microseconds; None: the cut table has no row of it."""
    try:
        collection_id.encode()
    except UnicodeEncodeError:
        return None  # an argument that is no UTF-8, which Arrow does not compare
    where = pc.field("collection_id") == collection_id
    return pc.min(read(directory, CUTS, ("ts",), where)["ts"].cast(pa.int64())).as_py()  # type: ignore[no-any-return]


def times_written(directory: Path) -> list[float]:
    """When each collection's first rows were committed, seconds since 1970, the oldest first."""
    rows = read(directory, CUTS, ("collection_id", "written_at"))
    first = rows.group_by("collection_id").aggregate([("written_at", "min")])["written_at_min"]
    return [us / 1e6 for us in sorted(first.cast(pa.int64()).to_pylist())]


def read_findings(directory: Path, upto: int | None = None) -> list[Finding]:
    """Every finding, once, in the order of its evidence.

    Args:
        directory: The run's tables.
        upto: Those until then, microseconds; None: all.
    """
    found: list[Finding] = values_of(FINDINGS, _until(_in_order(read(directory, FINDINGS)), upto))
    by_id = {finding.finding_id: finding for finding in found}
    return sorted(by_id.values(), key=lambda finding: finding.order)


def read_incidents(
    directory: Path, upto: int | None = None, where: pc.Expression | None = None
) -> list[Incident]:
    """The newest state of every incident, the oldest incident first.

    Args:
        directory: The run's tables.
        upto: As they were then, microseconds; None: as they are.
        where: Which rows count; None: all.
    """
    rows = _in_order(read(directory, INCIDENTS, where=where))
    if upto is not None:
        rows = rows.filter(_is_until(rows["last_seen_ts"], upto))
    # One that stays open has a row for each collection.
    numbered = rows.select(["incident_id"]).append_column("row", pa.array(np.arange(len(rows))))
    newest = numbered.group_by("incident_id").aggregate([("row", "max")])
    found: list[Incident] = values_of(INCIDENTS, rows.take(newest["row_max"]))
    return sorted(found, key=lambda one: (one.opened_ts, one.incident_id))


def read_observations(directory: Path, upto: int | None = None) -> pa.Table:
    """Rows of observations; see ``observations_of``."""
    return _until(read(directory, OBSERVATIONS), upto)


def observations_of(rows: pa.Table) -> list[Observation]:
    """Every observation, once, in the order of its evidence."""
    return sorted(
        dict.fromkeys(values_of(OBSERVATIONS, rows)),
        key=lambda o: (o.ts, o.instance_id, o.epoch, o.sequence, o.code, o.channel or "", o.at),
    )


def read_cuts(directory: Path, of: Collections | None = None) -> list[Cut]:
    """The cut table; an answer replaces the row that marks it as missing."""
    table: dict[tuple[str, str, str, str | None], Cut] = {}
    for cut in values_of(CUTS, _of_collections(directory, CUTS, of)):
        key = (cut.collection_id, cut.instance_id, cut.scope, cut.channel)
        if key not in table or table[key].answer == "missing":
            table[key] = cut
    return sorted(table.values(), key=lambda c: (c.collection_id, c.instance_id, c.channel or ""))


def read_checks(directory: Path, of: Collections | None = None) -> list[SubjectCheck]:
    """The table of checks, oldest collection first; of two of one collection the later counts."""
    table: dict[tuple[str, str, str | None, str], SubjectCheck] = {}
    for one in values_of(CHECKS, _of_collections(directory, CHECKS, of)):
        table[one.collection_id, one.instance_id, one.channel, one.check.rule] = one
    return sorted(table.values(), key=lambda one: one.ts)


def read_validations(directory: Path, of: Collections | None = None) -> list[dict[str, Any]]:
    """The validator's result of each collection, oldest first, late answers on their own."""
    rows = _of_collections(directory, VALIDATIONS, of).select(VALIDATIONS.schema.names)
    return sorted(values_of(VALIDATIONS, rows), key=lambda row: (row["ts"], row["is_late"]))


def _of_collections(directory: Path, kind: TableKind, of: Collections | None) -> pa.Table:
    where = None
    if of is not None:
        # Others may have been written since. By the time of writing whole files are passed over.
        where = is_among("collection_id", of.names)
        if of.written_since.is_valid:
            where &= pc.field("written_at") >= of.written_since
    return _in_order(read(directory, kind, where=where))


def _in_order(rows: pa.Table) -> pa.Table:
    """In the order of writing, however files were put together since."""
    return rows.sort_by("written_at")


def _until(rows: pa.Table, upto: int | None) -> pa.Table:
    return rows if upto is None else rows.filter(_is_until(rows["ts"], upto))


def _is_until(times: pa.ChunkedArray, upto: int) -> pa.ChunkedArray:
    return pc.less_equal(times, pa.scalar(upto, TIMESTAMP))
