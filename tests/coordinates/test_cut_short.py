"""Journals that end anywhere, as those of an observer that was killed, accuse nobody."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from tallystick import campaign
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.results import ObservationCode
from tallystick.producers.simulator.assemble import simulate
from tests.support.wrong_clocks import whole_journals

if TYPE_CHECKING:
    from tallystick.coordinates.events.journal import Block

SEEDS = (4, 10, 18, 42, 110, 134, 152, 162)
CUTS = 4


def cut_short(seed: int, draw: int) -> list[Block]:
    """A healthy fleet of which each journal has lost its end, some none of it."""
    rng = Random(f"{seed} {draw}")
    blocks = whole_journals(simulate(campaign.scenario_of(seed)).blocks(4096)).values()
    return [
        block.take(0, rng.randint(1, len(block)) if rng.random() < 0.6 else len(block))
        for block in blocks
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_journal_lost_is_held_against_nobody(seed: int) -> None:
    for draw in range(CUTS):
        assert audit_history(cut_short(seed, draw)).findings == []


@pytest.mark.parametrize(
    ("seed", "draw"), [(20, 1), (22, 1), (28, 5), (64, 5), (80, 2), (116, 3), (128, 4)]
)
def test_nor_where_a_journal_has_begun_anew(seed: int, draw: int) -> None:
    """By another producer, whose records have the numbers of others, and who ends before them."""
    whole = whole_journals(simulate(campaign.scenario_of(seed)).blocks(4096))
    rng = Random(f"{seed} {draw}")
    journal = whole.pop(rng.choice(sorted(whole)))
    first = rng.randint(2, len(journal))
    again = journal.take(first - 1, rng.randint(first, len(journal)))
    anew = [journal.take(0, first), replace(again, first_sequence=first - 2)]
    result = audit_history([*whole.values(), *anew])
    assert ObservationCode.JOURNAL_REUSED in {one.code for one in result.observations}
    assert result.findings == []


def test_an_observer_that_says_that_it_ends_has_shown_all() -> None:
    """What a replica has received, and such a source has not logged, is no loss of the journal."""
    lines = []
    for block in cut_short(4, 1):
        end = {"instance": block.instance_id, "ts": int(block.columns["ts"].max()), "ends": True}
        lines += [*block_to_lines(block), json.dumps({"kind": "heartbeat", **end})]
    result = audit_history(blocks_from_lines(lines))
    assert {finding.rule for finding in result.findings} == {"relay_mirrors_source"}
