"""What a row says of a rule that is asked several times of one subject."""

from __future__ import annotations

from itertools import permutations

import pytest

from tallystick.coordinates.audit.reporter import Reporter
from tallystick.coordinates.audit.row_checks import RowChecks
from tallystick.coordinates.results import Outcome
from tallystick.coordinates.rules.executed_set import OWNED_NOT_READ, PURGED_NOT_READ
from tallystick.coordinates.rules.logged_groups import PREVIOUS_GTIDS_CONTINUITY
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, RowAnswer, Undecided
from tests.support.journals import UUID_A, Journal, audit

BROKEN = Broken("head_not_purged", witness=f"{UUID_A}:1", file="binlog.000001")
UNDECIDED = Undecided(PURGED_NOT_READ, number=1), Undecided(OWNED_NOT_READ, number=2)


@pytest.mark.parametrize(
    "answers", [*permutations((HOLDS, *UNDECIDED)), *permutations((HOLDS, *UNDECIDED, BROKEN))]
)
def test_the_gravest_answer_counts_and_the_first_reason_stays(answers: tuple[RowAnswer, ...]):
    """In whatever order the answers come."""
    checks = RowChecks(Reporter("a"), "c1")
    for answer in answers:
        checks.take(PREVIOUS_GTIDS_CONTINUITY, answer)
    [check] = checks.of(None)
    if BROKEN in answers:
        assert (Outcome.BROKEN, "head_not_purged") == (check.outcome, check.reason)
        assert check.data == {"file": "binlog.000001"}
    else:
        first = next(one for one in answers if isinstance(one, Undecided))
        assert (Outcome.UNDECIDED, first.reason.code) == (check.outcome, check.reason)
        assert check.data == first.data


def test_a_row_counts_what_the_events_since_the_row_before_have_broken():
    """Not what those before it did."""
    journal = Journal().begin()
    for broken in (0, 1, 0, 2):
        for event in journal.binlog.group()[:broken]:
            event["log_pos"] += 1
        journal.row()
    assert [cut.event_findings for cut in audit(journal).cuts] == [0, 1, 0, 2]
