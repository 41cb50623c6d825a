"""What the chaos command calls a violation, and what it draws."""

from __future__ import annotations

import pytest

from tallystick.chaos.compare import violations, violations_after_damage
from tallystick.chaos.plan import CANARIES, Kind, draw
from tallystick.producers.simulator.faults import FAULTS

FOUND = {"rule": "no_errant_gtids", "instance_id": "a", "finding_id": "1"}
OTHER = {"rule": "executed_monotone", "instance_id": "a", "finding_id": "2"}
OPEN = {"rule": "no_errant_gtids", "state": "open", "incident_id": "1"}
GAP = {"code": "JOURNAL_GAP", "instance_id": "a", "text": "records 1 to 2 are missing"}
RIGHT = {"findings": [FOUND], "incidents": [OPEN], "observations": []}


@pytest.mark.parametrize(
    ("audited", "replayed", "said"),
    [
        ({}, {}, []),
        ({"findings": []}, {}, ["finding lost", "canary's no_errant_gtids was not found"]),
        ({"findings": [FOUND, FOUND]}, {}, ["finding twice"]),
        ({"findings": [FOUND, OTHER]}, {}, ["finding made up", "executed_monotone was found"]),
        ({"incidents": []}, {}, ["incident lost"]),
        ({"incidents": [OPEN | {"state": "resolved"}]}, {}, ["incident lost", "incident made up"]),
        ({"observations": [GAP]}, {}, ["the audit has JOURNAL_GAP of a"]),
        ({}, {"observations": [GAP]}, ["the journal has JOURNAL_GAP of a"]),
    ],
)
def test_each_difference_is_a_violation(audited, replayed, said):
    """And equal results are none."""
    found = violations(RIGHT | audited, RIGHT | replayed, {"no_errant_gtids"})
    assert len(said) == len(found), found
    assert all(part in text for part, text in zip(said, found, strict=True)), found


@pytest.mark.parametrize(
    ("audited", "said"),
    [
        ({}, []),
        ({"observations": []}, ["what is missing of a is not named"]),
        ({"findings": []}, ["the canary's no_errant_gtids was not found"]),
        ({"findings": [FOUND | {"finding_id": "3"}]}, []),
        ({"findings": [FOUND, OTHER]}, ["executed_monotone of a made up"]),
    ],
)
def test_after_damage_a_hole_must_be_named(audited, said):
    """And nothing is made up, and the canary is found."""
    known = RIGHT | {"observations": [GAP]}
    assert said == violations_after_damage(known | audited, RIGHT, {"no_errant_gtids"}, {"a"})


def test_a_seed_draws_the_same_again_and_every_kind_comes():
    """All kinds once before any comes twice."""
    assert draw(7, 25) == draw(7, 25) != draw(8, 25)
    kinds = [act.kind for act in draw(7, 25).acts]
    assert set(Kind) == set(kinds[: len(Kind)]) == set(kinds[len(Kind) : 2 * len(Kind)])
    assert 25 == len(kinds)
    assert set(CANARIES) <= set(FAULTS)
