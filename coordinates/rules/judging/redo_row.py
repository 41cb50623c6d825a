"""Judging a row's InnoDB log sequence numbers (invariants 38-40, 47, 48)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tallystick.coordinates.rules.history import LSN_GROWS_WITH_COMMITS, LSN_MONOTONE
from tallystick.coordinates.rules.innodb import (
    CHECKPOINT_AGE_WITHIN_CAPACITY,
    LSN_BLOCK_OFFSET,
    LSN_ORDER,
)
from tallystick.coordinates.rules.judging.row import falls
from tallystick.coordinates.values.innodb import LSN_MIN, lsn_offset_is_legal

if TYPE_CHECKING:
    from tallystick.coordinates.rules.judging.row import Row


def judge_redo_row(row: Row) -> None:
    """Judge the LSNs of log_status and of the status variables, each statement by itself."""
    state, judgement = row.state, row.judgement
    if state.lsn is None:
        for rule in (LSN_ORDER, LSN_BLOCK_OFFSET, LSN_MONOTONE, LSN_GROWS_WITH_COMMITS):
            judgement.undecided(rule, "the row has no readable LSN of InnoDB")
    else:
        _judge_order(row)
        _judge_offsets(row)
        _judge_monotone(row)
        _judge_growth(row, state.lsn)
    _judge_age(row)
    if not judgement.is_broken(
        LSN_ORDER, LSN_BLOCK_OFFSET, LSN_MONOTONE, CHECKPOINT_AGE_WITHIN_CAPACITY
    ):
        row.baselines.numbers.update(_numbers(row))
    if state.lsn is not None:
        row.binlog.xid_groups = []


def _numbers(row: Row) -> dict[str, int]:
    state = row.state
    values = {"LSN": state.lsn, "LSN_checkpoint": state.lsn_checkpoint}
    values["flushed"] = state.innodb.get("flushed")
    return {name: value for name, value in values.items() if value is not None}


def _judge_order(row: Row) -> None:
    state = row.state
    statements = [
        ("log_status", {"LSN_checkpoint": state.lsn_checkpoint, "LSN": state.lsn}),
        (
            "InnoDB status",
            {n: state.innodb.get(n) for n in ("checkpoint", "flushed", "written", "current")},
        ),
    ]
    for account, values in statements:
        known = [(name, value) for name, value in values.items() if value is not None]
        for (low_name, low), (high_name, high) in zip(
            [("first LSN", LSN_MIN), *known], known, strict=False
        ):
            if low > high:
                row.judgement.broken(
                    LSN_ORDER,
                    sentence=f"{low_name} {low} lies beyond {high_name} {high} in {account}.",
                    observed=f"{low_name} {low}",
                    observed_in=account,
                    expected=f"at most {high_name} {high}",
                    expected_in=account,
                    witness=f"{low} > {high}",
                )
                return
    row.judgement.holds(LSN_ORDER)


def _judge_offsets(row: Row) -> None:
    for name, lsn in (("LSN", row.state.lsn), ("LSN_checkpoint", row.state.lsn_checkpoint)):
        if lsn is not None and lsn >= LSN_MIN and not lsn_offset_is_legal(lsn):
            row.judgement.broken(
                LSN_BLOCK_OFFSET,
                sentence=f"{name} {lsn} lies at byte {lsn % 512} of its block, outside the data.",
                observed=f"{lsn} mod 512 = {lsn % 512}",
                observed_in=f"{name} of log_status",
                expected="12 to 507",
                expected_in="data bytes of a redo log block",
                witness=lsn,
            )
            return
    row.judgement.holds(LSN_BLOCK_OFFSET)


def _judge_age(row: Row) -> None:
    state, judgement = row.state, row.judgement
    capacity = row.server.number("innodb_redo_log_capacity")
    if state.lsn is None or state.lsn_checkpoint is None or capacity is None:
        judgement.undecided(
            CHECKPOINT_AGE_WITHIN_CAPACITY, "LSN, checkpoint or innodb_redo_log_capacity is unknown"
        )
        return
    age = state.lsn - state.lsn_checkpoint
    if age < capacity:
        judgement.holds(CHECKPOINT_AGE_WITHIN_CAPACITY)
        return
    judgement.broken(
        CHECKPOINT_AGE_WITHIN_CAPACITY,
        sentence=f"The checkpoint is {age} bytes behind the LSN, more than the redo log holds.",
        observed=age,
        observed_in="LSN - LSN_checkpoint of log_status",
        expected=f"below {capacity}",
        expected_in="innodb_redo_log_capacity",
        witness=f"{state.lsn} - {state.lsn_checkpoint} = {age}",
    )


def _judge_monotone(row: Row) -> None:
    history = row.baselines
    has_fallen = False
    for name, value in _numbers(row).items():
        before = history.numbers.get(name)
        if falls(history.fallen, f"lsn.{name}", value, before) and not has_fallen:
            has_fallen = True
            row.judgement.broken(
                LSN_MONOTONE,
                sentence=f"{name} fell from {before} to {value}.",
                observed=value,
                observed_in=f"{name} of this collection",
                expected=f"at least {before}",
                expected_in="last accepted row",
                witness=f"{value} < {before}",
            )
    if not has_fallen:
        row.judgement.holds(LSN_MONOTONE)


def _judge_growth(row: Row, lsn: int) -> None:
    """An InnoDB commit between two rows writes redo."""
    history, binlog, judgement = row.baselines, row.binlog, row.judgement
    before = history.numbers.get("LSN")
    if before is None:
        judgement.undecided(LSN_GROWS_WITH_COMMITS, "there is no accepted row before")
        return
    if lsn != before:
        judgement.holds(LSN_GROWS_WITH_COMMITS)
        return
    if row.state.has_other_engines:
        judgement.undecided(LSN_GROWS_WITH_COMMITS, "commits may be of another storage engine")
        return
    if history.grown is None:
        judgement.undecided(LSN_GROWS_WITH_COMMITS, "two accepted executed sets are needed")
        return
    executed_before, executed = history.grown
    for sid_number, gno in binlog.xid_groups:
        if sid_number < 0:
            continue
        sid = binlog.sids[sid_number]
        place = np.array([gno], dtype=np.int64)
        if (
            executed.contains_gnos(sid, place)[0]
            and not executed_before.contains_gnos(sid, place)[0]
        ):
            judgement.broken(
                LSN_GROWS_WITH_COMMITS,
                sentence=f"{sid}:{gno} was committed in InnoDB since the last row, but the LSN "
                f"stayed at {lsn}.",
                observed=lsn,
                observed_in="LSN of this collection",
                expected=f"more than {before}",
                expected_in="LSN of the last accepted row",
                witness=f"{sid}:{gno}",
            )
            return
    judgement.holds(LSN_GROWS_WITH_COMMITS)
