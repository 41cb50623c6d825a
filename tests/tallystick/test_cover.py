"""The pairwise cover: every pair of circumstances that can meet does, and no other one."""

from __future__ import annotations

from itertools import combinations

import pytest

from tallystick import cover
from tallystick.campaign import run_seed
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.negatives import NEGATIVES, with_options


def test_the_cover_has_every_pair_that_can_be() -> None:
    """Counted anew from the scenarios, which have the options of their cases."""
    counts = cover.count(map(cover.scenario_of, range(len(cover.cover()))))
    assert counts.is_whole
    assert min(can for _, can in counts[:3]) > 300
    assert counts.triples > 500


def test_a_part_of_the_cover_is_counted_as_a_part() -> None:
    """Nothing is covered that was not run."""
    counts = cover.count([Scenario(seed=0, negatives=("purge", "xa", "compressed"))])
    assert counts.negatives[0] == 3
    assert counts.triples == 1
    assert not counts.is_whole


def test_pairs_that_are_left_out_cannot_be() -> None:
    """Whatever the cover does not bring together, no scenario accepts."""
    met = {
        frozenset(pair)
        for seed in range(len(cover.cover()))
        for pair in combinations(cover.scenario_of(seed).negatives, 2)
    }
    refused = 0
    for pair in combinations(NEGATIVES, 2):
        if frozenset(pair) in met:
            continue
        both = {**NEGATIVES[pair[0]].options, **NEGATIVES[pair[1]].options}
        if both.get("auto_position") and both.get("gtid_mode", "ON") != "ON":
            continue
        with pytest.raises(ValueError, match=r"negative case"):
            with_options(Scenario(negatives=pair))
        refused += 1
    assert refused > 0


def test_a_case_that_excludes_another_is_refused_in_either_order() -> None:
    """What would be a fault is no negative case."""
    for pair in (("purge", "repositories_refused"), ("repositories_refused", "purge")):
        with pytest.raises(ValueError, match="together make a fault"):
            with_options(Scenario(negatives=pair))


@pytest.mark.parametrize("seed", range(0, 800, 160))
def test_nothing_is_found_in_rows_of_the_cover(seed: int) -> None:
    """A few; ``tallystick campaign --cover`` runs all of them."""
    result = run_seed(cover.scenario_of(seed))
    assert not result.fired, result.sentences
    assert result.campaign_command == f"tallystick campaign --cover --seeds {seed}:{seed + 1}"


def test_the_command_prints_what_was_covered(tallystick) -> None:
    """The cover of what was run."""
    ran = tallystick("campaign", "--cover", "--seeds", "0:2")
    assert ran.code == 0
    assert "false alarms 0 in 2 healthy seeds" in ran.out
    assert f"two negative cases: 6 of {cover.count([]).negatives[1]:,}" in ran.out
