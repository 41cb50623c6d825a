"""A micro-batch of any number of bytes is taken in steps: each message once, in order."""

from __future__ import annotations

from itertools import chain, pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tallystick.streaming.instance_step import BlockRow, JournalKey
from tallystick.streaming.message_steps import in_steps

MESSAGES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 40)))


def taken(messages, bytes_max):
    """The rows of each step, and which were said to be the last."""
    steps = [
        ([(name, row) for name, rows in step.items() for row in rows], is_last)
        for step, is_last in in_steps(iter(messages), bytes_max)
    ]
    return [rows for rows, _ in steps], [is_last for _, is_last in steps]


@given(MESSAGES, st.integers(1, 100), st.integers(0, 2**32))
def test_each_message_is_in_one_step_that_is_small(drawn, bytes_max, seed):
    """However they come: a partition's in the order of its offsets, all of what they say kept."""
    messages = [
        (
            JournalKey(f"cluster {partition}", f"instance {at % 3}"),
            BlockRow(b"x" * size, "[]", partition, at, None if size % 5 else at * 10),
        )
        for at, (partition, _, size) in enumerate(drawn)
    ]
    Random(seed).shuffle(messages)
    steps, lasts = taken(messages, bytes_max)
    assert sorted(messages, key=str) == sorted(chain.from_iterable(steps), key=str)
    assert lasts == [False] * (len(steps) - 1) + [True] * bool(steps)
    for rows in steps:
        assert len(rows) == 1 or sum(len(row.value) for _, row in rows) <= bytes_max
    if len(steps) > 1:
        for before, after in pairwise(steps):
            for partition in range(3):
                offsets = [
                    [r.offset for _, r in s if r.partition == partition] for s in (before, after)
                ]
                assert not all(offsets) or max(offsets[0]) < min(offsets[1])


def test_partitions_go_on_side_by_side():
    """One with few messages is not read ahead of another, nor after it."""
    messages = [
        (JournalKey("", f"instance {partition}"), BlockRow(b"x", None, partition, at, sent_us=at))
        for partition, every in ((0, 1), (1, 10))
        for at in range(0, 100, every)
    ]
    steps, _ = taken(messages, 11)
    assert len(steps) == 10
    for at, rows in enumerate(steps):
        assert {row.sent_us // 10 for _, row in rows} == {at}
        assert {row.partition for _, row in rows} == {0, 1}


def test_what_fits_is_one_step():
    """In the order in which it came."""
    messages = [(JournalKey("", "a"), BlockRow(b"xx", None, 0, at)) for at in (3, 1, 2)]
    assert taken(messages, 6) == ([messages], [True])
    assert taken([], 6) == ([], [])
