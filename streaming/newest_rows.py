"""The newest row of each instance, read in little time however long the tables are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tallystick.streaming.delta_table import is_among, read
from tallystick.streaming.tables import CHECKS, CUTS, VALIDATIONS, values_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.results import SubjectCheck

RECENT_S = 3_600.0
"""Files that are read first; most instances have a row there."""
_ROW = pc.field("answer") == "row"
_NAMES = ("collection_id", "instance_id", "answer", "ts", "written_at")
_Begun = dict[str, tuple[int, int]]
"""When the first row of each collection was written, and the time of its first row: of a backlog
several were written at once."""


def read_newest(directory: Path) -> tuple[list[Cut], dict[str, int]]:
    """The rows of the newest collections, and older ones of who has no row in them.

    Returns:
        The rows, and when the first of each collection was written, microseconds.
    """
    known = read(directory, CUTS, _NAMES, recent_s=RECENT_S)
    begun = _begun(known)
    newest = _newest(known, begun)
    with_row = _newest(known.filter(pc.equal(known["answer"], "row")), begun)
    wanted = {*newest.values(), *with_row.values()}
    cuts = _cuts(directory, is_among("collection_id", wanted), RECENT_S)
    lacking = newest.keys() - with_row.keys()
    if lacking:
        cuts += _older(directory, lacking, begun)
    return cuts, {name: written for name, (written, _) in begun.items()}


def read_positions(directory: Path, instance_id: str) -> list[Cut]:
    """All rows of an instance itself, in the order of its journal."""
    is_own = (pc.field("instance_id") == instance_id) & (pc.field("scope") == "instance") & _ROW
    return sorted(_cuts(directory, is_own, None), key=lambda cut: (cut.epoch, cut.sequence))


def read_open(directory: Path, names: Iterable[str]) -> list[str]:
    """Those of some collections that are not closed: that may still wait for answers."""
    closed = read(directory, VALIDATIONS, ("collection_id",), recent_s=2 * RECENT_S)
    return sorted(set(names) - set(closed["collection_id"].to_pylist()))


def read_newest_checks(directory: Path, rule: str) -> list[SubjectCheck]:
    """The newest check of a rule on each instance."""
    rows = read(directory, CHECKS, None, pc.field("rule") == rule, RECENT_S)
    rows = rows.sort_by([("ts", "ascending"), ("written_at", "ascending")])
    numbered = pa.table({"instance_id": rows["instance_id"], "number": range(len(rows))})
    last = numbered.group_by("instance_id").aggregate([("number", "max")])["number_max"]
    found: list[SubjectCheck] = values_of(CHECKS, rows.take(last))
    return found


def _older(directory: Path, names: set[str], begun: _Begun) -> list[Cut]:
    """The newest rows of instances that have none in the newest files."""
    is_theirs = is_among("instance_id", names) & _ROW
    known = read(directory, CUTS, _NAMES, is_theirs)
    first = _begun(known)
    newest = set(_newest(known, first).values())
    begun.update({one: first[one] for one in newest - begun.keys()})
    is_newest = is_among("collection_id", newest)
    return _cuts(directory, is_newest & is_among("instance_id", names), None)


def _cuts(directory: Path, where: pc.Expression, recent_s: float | None) -> list[Cut]:
    """Each row once: an answer replaces the row that marks it as missing."""
    table: dict[tuple[str, str, str, str | None], Cut] = {}
    for cut in values_of(CUTS, read(directory, CUTS, None, where, recent_s).sort_by("written_at")):
        key = (cut.collection_id, cut.instance_id, cut.scope, cut.channel)
        if key not in table or table[key].answer == "missing":
            table[key] = cut
    return list(table.values())


def _begun(rows: pa.Table) -> _Begun:
    first = rows.group_by("collection_id").aggregate([("written_at", "min"), ("ts", "min")])
    written, ts = (first[f"{name}_min"].cast(pa.int64()) for name in ("written_at", "ts"))
    times = zip(written.to_pylist(), ts.to_pylist(), strict=True)
    return dict(zip(first["collection_id"].to_pylist(), times, strict=True))


def _newest(rows: pa.Table, begun: _Begun) -> dict[str, str]:
    """The collection of each instance that began last."""
    in_order = sorted(begun, key=begun.__getitem__)
    numbers = pc.index_in(rows["collection_id"], pa.array(in_order, pa.string()))
    numbered = pa.table({"instance_id": rows["instance_id"], "number": numbers})
    last = numbered.group_by("instance_id").aggregate([("number", "max")])
    return {
        name: in_order[number]
        for name, number in zip(
            *(column.to_pylist() for column in (last["instance_id"], last["number_max"])),
            strict=True,
        )
    }
