"""Asking the rules on a row's InnoDB log sequence numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.audit.row_evidence import redo_evidence
from tallystick.coordinates.rules.innodb import (
    RedoEvidence,
    checkpoint_age_within_capacity,
    lsn_block_offset,
    lsn_monotone,
    lsn_order,
)
from tallystick.coordinates.rules.judging.row import note_fall
from tallystick.coordinates.rules.registry import rules_on

if TYPE_CHECKING:
    from tallystick.coordinates.audit.row_evidence import Row

RULES = rules_on(RedoEvidence)


def judge_redo_row(row: Row) -> None:
    """Ask about the LSNs of log_status and of the status variables."""
    history, judgement = row.baselines, row.judgement
    evidence = redo_evidence(row, history.grown)
    judgement.ask(RULES, evidence)
    numbers = evidence.numbers()
    if evidence.lsn is not None:
        for name, value in numbers.items():
            note_fall(history.fallen, f"lsn.{name}", value, history.numbers.get(name))
    if not judgement.is_broken(
        lsn_order, lsn_block_offset, lsn_monotone, checkpoint_age_within_capacity
    ):
        history.numbers.update(numbers)
    if evidence.lsn is not None:
        row.binlog.xid_groups = []
