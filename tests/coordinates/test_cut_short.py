"""Journals that end anywhere, as those of an observer that was killed, accuse nobody."""

from __future__ import annotations

from random import Random

import pytest

from tallystick import campaign
from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.producers.simulator.assemble import simulate
from tests.support.wrong_clocks import whole_journals

SEEDS = (4, 10, 18, 42, 110, 134, 152, 162)
CUTS = 4


def cut_short(seed: int, draw: int) -> AuditResult:
    """A healthy fleet of which each journal has lost its end, some none of it."""
    rng = Random(f"{seed} {draw}")
    blocks = whole_journals(simulate(campaign.scenario_of(seed)).blocks(4096)).values()
    kept = [
        block.take(0, rng.randint(1, len(block)) if rng.random() < 0.6 else len(block))
        for block in blocks
    ]
    return audit_history(kept)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_journal_lost_is_held_against_nobody(seed: int) -> None:
    for draw in range(CUTS):
        assert cut_short(seed, draw).findings == []
