"""Asking the rules on a row's gtid_executed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.audit.row_evidence import executed_evidence
from tallystick.coordinates.rules.executed_set import (
    ExecutedEvidence,
    executed_growth_explained,
)
from tallystick.coordinates.rules.judging.row import note_fall
from tallystick.coordinates.rules.registry import rules_on
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.audit.row_evidence import Row

RULES = rules_on(ExecutedEvidence)


def judge_executed(row: Row, logged: GtidSet | None) -> GtidSet | None:
    """Judge X against L(P), U, O and the row before; returns L(P) - X, None unknown."""
    history, judgement = row.baselines, row.judgement
    evidence = executed_evidence(row, logged)
    judgement.ask(RULES, evidence)
    executed = evidence.gtid_executed
    history.late_recovered = GtidSet.EMPTY
    if executed is None:
        return None
    note_fall(history.fallen, "executed", executed, evidence.previous_gtid_executed)
    if judgement.is_broken(executed_growth_explained):
        history.unexplained = history.unexplained | evidence.unexplained()
    history.unseen_channel_left = False
    if evidence.must_recover is not None:
        history.late_recovered = evidence.must_recover - executed
        history.must_recover = None
    return None if logged is None else logged - executed
