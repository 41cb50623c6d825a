"""What the chaos command calls a violation, and what it draws."""

from __future__ import annotations

import pytest

from tallystick.chaos.acts import acts_of
from tallystick.chaos.compare import violations, violations_after_damage
from tallystick.chaos.plan import CANARIES, draw
from tallystick.producers.simulator.faults import FAULTS

FOUND = {"rule": "no_errant_gtids", "instance_id": "a", "finding_id": "1"}
OTHER = {"rule": "executed_monotone", "instance_id": "a", "finding_id": "2"}
OPEN = {"rule": "no_errant_gtids", "state": "open", "incident_id": "1"}
GAP = {
    "code": "JOURNAL_GAP",
    "instance_id": "a",
    "at": "1:1",
    "reason": "records_missing",
    "text": "records 1 to 2 are missing",
}
EPOCH = GAP | {"reason": "journal_epoch_began", "text": "another observer goes on"}
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
    found = violations(
        RIGHT | audited, RIGHT | replayed, {"no_errant_gtids"}, begins_epochs=False, is_lab=False
    )
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


def test_a_new_epoch_is_seen_by_both_where_one_has_begun():
    """And by neither, else."""
    begun = RIGHT | {"observations": [EPOCH]}

    def found(audited, *, begins_epochs=True):
        return violations(
            audited, begun, {"no_errant_gtids"}, begins_epochs=begins_epochs, is_lab=False
        )

    assert [] == found(begun)
    assert ["event of a producer lost"] == [text.partition(":")[0] for text in found(RIGHT)]
    assert 2 == len(found(begun, begins_epochs=False))
    holes = {"observations": [EPOCH, GAP]}
    texts = violations(
        RIGHT | holes, RIGHT | holes, {"no_errant_gtids"}, begins_epochs=True, is_lab=False
    )
    assert [f"{whose} has JOURNAL_GAP" for whose in ("the audit", "the journal")] == [
        text.partition(" of ")[0] for text in texts
    ]


def test_a_relay_log_may_be_gone_before_tail_reads_it():
    """On real servers, if the journal says so; what is missing of a binary log is a violation."""
    gone = GAP | {"reason": "journal_records_lost", "channel": "", "text": "missed a part"}

    def found(audited, replayed, *, is_lab=True):
        results = (RIGHT | {"observations": each} for each in (audited, replayed))
        return violations(*results, {"no_errant_gtids"}, begins_epochs=False, is_lab=is_lab)

    assert [] == found([gone], [gone])
    assert ["event of a producer made up"] == [t.partition(":")[0] for t in found([gone], [])]
    assert 2 == len(found([gone], [gone], is_lab=False))
    of_binlog = gone | {"channel": None}
    assert 2 == len(found([of_binlog], [of_binlog]))


@pytest.mark.parametrize("is_lab", [False, True])
def test_a_seed_draws_the_same_again_and_every_act_comes(is_lab):
    """All once before any comes twice; a tail goes on in its epoch."""
    known = acts_of(is_lab=is_lab)
    count = 2 * len(known) + 1
    plan = draw(7, count, is_lab=is_lab)
    assert plan == draw(7, count, is_lab=is_lab) != draw(8, count, is_lab=is_lab)
    drawn = [step.act for step in plan.steps]
    assert set(known) == set(drawn[: len(known)]) == set(drawn[len(known) : -1])
    assert count == len(drawn)
    assert all(bool(step.seconds) is step.act.lasts for step in plan.steps)
    assert all(("for" in str(step).split(", ")[-1]) is step.act.lasts for step in plan.steps)
    assert plan.begins_epochs is (not is_lab)
    assert set(CANARIES) <= set(FAULTS)


def test_messages_are_damaged_in_half_of_the_rounds():
    """And what must be found then is a breach that goes on, whatever was damaged before."""
    plans = [draw(seed, 1) for seed in range(200)]
    damaged = [plan for plan in plans if plan.damage]
    assert 70 < len(damaged) < 130
    assert {CANARIES[0]} == {plan.canary for plan in damaged}
    assert set(CANARIES) == {plan.canary for plan in plans if not plan.damage}
