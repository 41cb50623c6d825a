"""What is remembered of the GTIDs that the persister has written into mysql.gtid_executed."""

from __future__ import annotations

import pytest

from tallystick.coordinates.rules.gtid_table import INTERVALS_MAX, PersistedGtids
from tallystick.coordinates.values.gtid import GtidSet
from tests.support.journals import UUID_A


def gtids(text: str) -> GtidSet:
    return GtidSet.parse(f"{UUID_A}:{text}" if text else "")


@pytest.mark.parametrize(
    ("asked_at", "known"), [(None, ""), (20, ""), (21, "1-2"), (30, "1-2"), (31, "1-3")]
)
def test_what_is_in_the_table_of_a_row_was_written_before_it_was_asked_for(asked_at, known):
    persisted = PersistedGtids()
    for gno in (1, 2, 3):
        persisted.add(gtids(str(gno)), 10 * gno)
    assert gtids(known) == persisted.before(asked_at)


def test_by_another_clock_all_was_written_before_it_was_taken():
    persisted = PersistedGtids()
    persisted.add(gtids("1"), 500)
    persisted.time_anew(7)
    assert (gtids(""), gtids("1")) == (persisted.before(7), persisted.before(8))


def test_memory_stays_small_where_every_other_gtid_is_of_no_innodb_transaction():
    persisted = PersistedGtids()
    for gno in range(1, 3 * INTERVALS_MAX, 2):
        persisted.add(gtids(str(gno)), gno)
        assert persisted.all.count() <= INTERVALS_MAX + 1
    assert gtids(str(gno)) == persisted.all & gtids(str(gno))
