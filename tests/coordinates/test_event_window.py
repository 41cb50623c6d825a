"""The event window against a plain list of the last events."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tallystick.coordinates.logs.event_window import (
    COLUMN_COUNT,
    END,
    FILE,
    START,
    EventWindow,
    Mark,
    pack_row,
)
from tallystick.coordinates.state_codec import decode, encode
from tallystick.coordinates.values.binlog import FIRST_POSITION

LIMIT = 5
Row = tuple[int, ...]


def events(lengths: list[int], rotate_at: set[int]) -> list[Row]:
    """Contiguous events; at the given numbers another file begins."""
    made: list[Row] = []
    file, start = 1, 4
    for number, length in enumerate(lengths):
        if number in rotate_at:
            file, start = file + 1, 4
        mark = Mark.GROUP if number % 3 == 2 else Mark.NOTHING
        made.append((file, start, start + length, mark, 2, number, 0, number + 1, -1, -1, number))
        start += length
    return made


HISTORIES = st.tuples(
    st.lists(st.integers(1, 9), min_size=1, max_size=40),
    st.sets(st.integers(1, 40), max_size=4),
    st.lists(st.sampled_from([1, 1, 1, 2, 7, 23]), min_size=1, max_size=40),
)
PLACES = st.tuples(st.integers(1, 6), st.integers(0, 60))


def remembered(
    history: tuple[list[int], set[int], list[int]],
) -> tuple[EventWindow, list[Row], bool]:
    """A window that took events singly and in runs; the model: what it must know, and if all."""
    lengths, rotate_at, steps = history
    rows = events(lengths, rotate_at)
    window = EventWindow(LIMIT)
    at = 0
    while at < len(rows):
        step = steps[at % len(steps)]
        run = rows[at : at + step]
        if step == 1:
            window.append(pack_row(*run[0]))
        else:
            window.extend(np.array(run, dtype=np.int64))
        at += step
    return window, rows[-LIMIT:], len(rows) <= LIMIT


@given(HISTORIES, PLACES)
def test_it_agrees_with_a_list_of_the_last_events(history, offset):
    """Every question about the remembered past has the answer of a plain list."""
    window, model, _ = remembered(history)
    file, position = offset
    assert model == [tuple(row) for row in window.rows().tolist()]
    ends = [i for i, row in enumerate(model) if (row[FILE], row[END]) == offset]
    assert (ends[-1] if ends else None) == window.find_end(file, position)
    starts = [row for row in model if (row[FILE], row[START]) == offset]
    found = window.find_event(file, position)
    assert (starts[-1] if starts else None) == (None if found is None else tuple(found.tolist()))
    later = [row for row in model if (row[FILE], row[END]) > offset]
    assert later == [tuple(row) for row in window.after(file, position).tolist()]
    earlier = [(row[FILE], row[END]) for row in model if (row[FILE], row[END]) <= offset]
    assert (earlier[-1] if earlier else None) == window.last_end_at_or_before(file, position)
    first = (model[0][FILE], model[0][START])
    covers = first <= offset or (first[1] == FIRST_POSITION and file == first[0])
    assert covers == window.covers(file, position)
    begins_there = (model[0][FILE], model[0][START]) == offset
    assert begins_there == window.begins_at(file, position)
    assert (bool(ends) or (covers and not begins_there)) == window.knows(file, position)


@given(HISTORIES, PLACES)
def test_truncation_takes_away_what_ends_behind(history, offset):
    """What a crash took back is given back and remembered no more."""
    window, model, _ = remembered(history)
    gone = [tuple(row) for row in window.truncate(*offset).tolist()]
    assert [row for row in model if (row[FILE], row[END]) > offset] == gone
    assert [row for row in model if row not in gone] == [tuple(r) for r in window.rows().tolist()]


@given(HISTORIES, PLACES)
def test_what_is_saved_is_what_is_read_back(history, offset):
    """Rows and whether any were forgotten survive, also those not yet put in order."""
    window, model, knows_all = remembered(history)
    again = decode(EventWindow, encode(EventWindow, window), "a window")
    assert LIMIT == again.limit
    assert model == [tuple(row) for row in again.rows().tolist()]
    assert (not knows_all) == again.has_forgotten
    assert window.covers(*offset) == again.covers(*offset)


def test_cleared_it_knows_nothing_and_says_so():
    """After a break no offset counts as covered until events come."""
    window = EventWindow(LIMIT)
    assert window.covers(1, 4)
    window.append(pack_row(1, 4, 126, *[0] * (COLUMN_COUNT - 3)))
    window.clear()
    assert not window.covers(1, 4)
    assert 0 == len(window.rows())
    assert window.find_end(1, 126) is None


def test_memory_stays_bounded_while_nobody_asks():
    """Single events are cut to the limit long before anybody looks."""
    window = EventWindow(LIMIT)
    for number in range(8192):
        window.append(pack_row(1, number, number + 1, *[0] * (COLUMN_COUNT - 3)))
        assert len(window._fresh) < 2**18  # bytes that have not been cut yet
    assert LIMIT == len(window.rows())
