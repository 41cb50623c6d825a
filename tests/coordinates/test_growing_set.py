"""The growing set against plain Python sets of integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.coordinates.values.growing_set import GrowingGtidSet
from tallystick.coordinates.values.gtid import GtidSet
from tests.support.journals import UUID_A, UUID_B, Gtids

TAGGED = f"{UUID_A}:batch"
SIDS = st.sampled_from([UUID_A, UUID_B, TAGGED])
GNOS = st.integers(1, 40)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), SIDS, GNOS),
        st.tuples(st.just("range"), SIDS, st.tuples(GNOS, GNOS).map(sorted)),
        st.tuples(st.just("gnos"), SIDS, st.lists(GNOS, max_size=12)),
        st.tuples(st.just("set"), SIDS, st.lists(GNOS, max_size=12)),
    ),
    max_size=30,
)


@given(ACTIONS, st.lists(GNOS, max_size=8))
def test_it_agrees_with_sets_of_integers(actions: list[tuple[str, str, object]], asked: list[int]):
    """Whatever is added in whatever order, every question has the answer of plain sets."""
    model = Gtids()
    grown = GrowingGtidSet()
    for action, sid, value in actions:
        mine = model.numbers.setdefault(sid, set())
        match action, value:
            case "add", int(gno):
                grown.add(sid, gno)
                mine.add(gno)
            case "range", [int(first), int(last)]:
                grown.add_range(sid, first, last + 1)
                mine.update(range(first, last + 1))
            case "gnos", list(gnos):
                grown.add_gnos(sid, np.array(gnos, dtype=np.int64))
                mine.update(gnos)
            case _, list(gnos):
                grown.add_set(GtidSet.from_gnos(sid, np.array(gnos, dtype=np.int64)))
                mine.update(gnos)
        # Frozen in between, so that what is added later must not be missed.
        assert GtidSet.parse(str(model)) == grown.freeze()
    for sid in (UUID_A, UUID_B, TAGGED):
        mine = model.numbers.get(sid, set())
        assert [gno in mine for gno in asked] == [grown.contains(sid, gno) for gno in asked]
        assert bool(mine & set(asked)) == grown.contains_any(sid, np.array(asked, dtype=np.int64))
        assert max(mine, default=0) == grown.last(sid)


@given(st.lists(GNOS, max_size=20))
def test_it_begins_with_what_it_is_given(gnos: list[int]):
    """A set grown from a value holds that value, and the value does not change with it."""
    given_set = GtidSet.from_gnos(UUID_A, np.array(gnos, dtype=np.int64))
    before = str(given_set)
    grown = GrowingGtidSet(given_set)
    assert given_set == grown.freeze()
    grown.add(UUID_A, 50)
    assert before == str(given_set)
    assert GtidSet.parse(f"{UUID_A}:50") == grown.freeze() - given_set


def test_a_frozen_value_stays_as_it_was():
    """Growing on does not reach into what was handed out."""
    grown = GrowingGtidSet()
    grown.add(UUID_A, 1)
    frozen = grown.freeze()
    grown.add(UUID_A, 2)
    assert f"{UUID_A}:1" == str(frozen)
    assert f"{UUID_A}:1-2" == str(grown.freeze())


@pytest.mark.parametrize("gno", [1, 2**31, 2**53 + 1, 2**63 - 2])
def test_large_numbers_stay_exact(gno: int):
    """GNOs go up to 2^63-2, beyond what floats hold."""
    grown = GrowingGtidSet()
    grown.add_gnos(UUID_A, np.array([gno], dtype=np.int64))
    assert grown.contains(UUID_A, gno)
    assert not grown.contains(UUID_A, gno - 1)
    assert (gno, f"{UUID_A}:{gno}") == (grown.last(UUID_A), str(grown.freeze()))
