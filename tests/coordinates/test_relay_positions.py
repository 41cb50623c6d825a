"""Relay events whose ``log_pos`` is not known: then nothing is found by it, and nothing taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.events.journal import ABSENT, Stream
from tallystick.coordinates.results import Verdict
from tests.support.orders import STORED, journals_of

HEALTHY = (0, 2, 4, 26)


def without_positions(history: str | int, share: float) -> AuditResult:
    """The audit of a history in which some relay events have no ``log_pos``."""
    draws, blocks = np.random.default_rng(7), []
    for journal in journals_of(history).values():
        for block in journal:
            is_relay = block.columns["stream"] == Stream.RELAY
            fields = block.columns["log_pos"].copy()
            # An artificial event has 0 there, which is known.
            fields[is_relay & (fields > 0) & (draws.random(len(fields)) < share)] = ABSENT
            blocks.append(replace(block, columns={**block.columns, "log_pos": fields}))
    return audit_history(blocks)


@pytest.mark.parametrize("share", [1.0, 0.5, 0.02])
@pytest.mark.parametrize("history", [*STORED, *HEALTHY])
def test_nothing_is_found_for_want_of_positions(history: str | int, share: float) -> None:
    """What is found without them is found with them."""
    found = {finding.rule for finding in without_positions(history, share).findings}
    whole = audit_history(block for journal in journals_of(history).values() for block in journal)
    assert found <= {finding.rule for finding in whole.findings}


def test_a_mirror_without_positions_is_undecided() -> None:
    """The same journal is CONSISTENT with them."""
    history = next(name for name in STORED if "reset_and_change_source" in name)
    assert without_positions(history, 0).verdict is Verdict.CONSISTENT
    result = without_positions(history, 1)
    assert result.verdict is Verdict.UNDECIDED
    assert any("relay_mirrors_source" in one.rules for one in result.observations)
