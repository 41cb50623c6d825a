"""Rows of an earlier moment: an answer that is given again, with all that it said then."""

import pytest

from tallystick.coordinates.results import Verdict
from tallystick.coordinates.rules.binlog_position import ROW_MAY_BE_OLD
from tests.support.journals import Journal, Record, audit
from tests.support.rule_cases import source

SECOND_US = 1_000_000
RULE = "snapshot_position_monotone"


def answered(journal: Journal, behind_us: int = 0) -> Record:
    """A row that was asked for a moment ago, by another clock; its observer has just got that."""
    received_at = journal.ts - 300
    return journal.row(requested_at=received_at - 500 + behind_us, received_at=received_at)


def last_answer(journal: Journal) -> tuple[Verdict, str]:
    """The verdict on the last row, and what was said of its position."""
    result = audit(journal)
    check = next(check for check in result.cuts[-1].checks if check.rule == RULE)
    return Verdict(result.cuts[-1].verdict), check.reason or check.outcome.value


@pytest.mark.parametrize("pause_us", [SECOND_US // 2, 3 * SECOND_US])
def test_an_answer_given_again_with_its_time_is_of_nobody_knows_when(pause_us):
    """No second request is received when the one before was: it may be the answer to that one."""
    journal = source()
    journal.ts += SECOND_US
    first = answered(journal)
    journal.groups(2)
    journal.ts += pause_us
    again = answered(journal)
    again.update(row=first["row"], received_at=first["received_at"])
    assert last_answer(journal) == (Verdict.UNDECIDED, ROW_MAY_BE_OLD.code)


@pytest.mark.parametrize("meanwhile", [0, 1])
def test_answers_that_come_one_after_the_other_are_of_their_own_time(meanwhile):
    """The log goes on between each of them and its record, as on a busy server."""
    journal = source()
    journal.ts += SECOND_US
    for _ in range(3):
        at = journal.ts
        row = journal.groups(meanwhile).row()["row"]
        del journal.records[-1]
        journal.groups(2)
        journal.row(requested_at=at - 500, received_at=at).update(row=row)
    assert last_answer(journal) == (Verdict.CONSISTENT, "holds")


@pytest.mark.parametrize("behind_us", [0, 5 * SECOND_US])
def test_an_old_row_is_found_where_its_answer_shows_a_clock_behind(behind_us):
    """What had been read of the log by then is known by the clock that both had."""
    journal = source()
    journal.ts += SECOND_US
    first = answered(journal)
    journal.groups(2)
    journal.ts += 3 * SECOND_US
    answered(journal, behind_us).update(row=first["row"])
    assert last_answer(journal) == (Verdict.INCONSISTENT, "before_log")
