"""Rules about InnoDB's log sequence numbers."""

from __future__ import annotations

from tallystick.coordinates.values.innodb import BLOCK_LENGTH, LSN_MIN, lsn_offset_is_legal
from tallystick.expectations.judgement import (
    HELD,
    Judgement,
    Row,
    RowRule,
    broken,
    missing,
    not_applicable,
)


def _ordered(row: Row) -> Judgement:
    if unknown := missing(row, "lsn", "lsn_checkpoint"):
        return unknown
    lsn, checkpoint = row["lsn"], row["lsn_checkpoint"]
    if checkpoint > lsn:
        return broken(f"the checkpoint {checkpoint} is beyond the LSN {lsn}", checkpoint)
    if checkpoint < LSN_MIN:
        return broken(f"the checkpoint {checkpoint} is below the first LSN {LSN_MIN}", checkpoint)
    return HELD


def _in_block_data(row: Row) -> Judgement:
    if unknown := missing(row, "lsn", "lsn_checkpoint"):
        return unknown
    for role in ("lsn", "lsn_checkpoint"):
        if not lsn_offset_is_legal(row[role]):
            return broken(
                f"{role} {row[role]} is byte {row[role] % BLOCK_LENGTH} of its block, where no"
                " record can start",
                row[role],
            )
    return HELD


def _kept(row: Row) -> Judgement:
    if row["previous_lsn"] is None:
        return not_applicable("there is no earlier row of this history")
    if unknown := missing(row, "lsn"):
        return unknown
    if row["lsn"] < row["previous_lsn"]:
        return broken(f"the LSN fell from {row['previous_lsn']} to {row['lsn']}", row["lsn"])
    return HELD


RULES = (
    RowRule("lsn_ordered", {"lsn": int, "lsn_checkpoint": int}, _ordered, "instance", "lsn_order"),
    RowRule(
        "lsn_in_block_data",
        {"lsn": int, "lsn_checkpoint": int},
        _in_block_data,
        "instance",
        "lsn_block_offset",
    ),
    RowRule("lsn_kept", {"lsn": int, "previous_lsn": int}, _kept, "instance", "lsn_monotone"),
)
