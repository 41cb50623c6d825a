"""Arithmetic that histories rest on: LSN blocks, GNO intervals, event lengths."""

import random

import pytest

from tallystick.coordinates.values.gtid import GtidSet
from tallystick.coordinates.values.innodb import advance_lsn
from tallystick.producers.simulator.assemble import Fleet
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.kernel.transactions import Group, GroupKind
from tallystick.producers.simulator.server.binary_log import gtid_event_length

SID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OTHER = "4e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    ("lsn", "length", "expected"),
    [
        (8_192 + 12, 0, 8_192 + 12),
        (8_192 + 12, 495, 8_192 + 507),
        (8_192 + 12, 496, 8_192 + 512 + 12),
        (8_192 + 507, 1, 8_192 + 512 + 12),
        (8_192 + 100, 2 * 496, 8_192 + 2 * 512 + 100),
        (8_192, 5, 8_192 + 12 + 5),
    ],
)
def test_lsn_counts_block_framing(lsn: int, length: int, expected: int) -> None:
    """496 bytes of redo fill a block of 512; the LSN stays inside data bytes."""
    assert advance_lsn(lsn, length) == expected


@pytest.mark.parametrize("seed", range(20))
def test_intervals_agree_with_plain_sets(seed: int) -> None:
    """Adding, removing and asking agree with a set of integers, and with GtidSet."""
    rng = random.Random(seed)
    gtids = GtidIntervals()
    plain: set[tuple[str, int]] = set()
    for _ in range(120):
        sid = rng.choice((SID, OTHER, f"{SID}:tag"))
        gno = rng.randrange(1, 40)
        if rng.random() < 0.3:
            gtids.discard(sid, gno)
            plain.discard((sid, gno))
        elif rng.random() < 0.3:
            gtids.add_range(sid, gno, gno + 4)
            plain |= {(sid, n) for n in range(gno, gno + 5)}
        else:
            gtids.add(sid, gno)
            plain.add((sid, gno))
        assert ((sid, gno) in gtids) == ((sid, gno) in plain)
        free = next(n for n in range(gno, 100) if (sid, n) not in plain)
        assert gtids.next_free(sid, gno) == free
    expected = GtidSet((sid, gno, gno) for sid, gno in plain)
    assert gtids.to_gtid_set() == expected
    assert gtids.text() == str(expected)
    part = GtidIntervals.of(*((sid, gno, gno) for sid, gno in sorted(plain)[::3]))
    assert part.is_subset(gtids)
    assert not gtids.is_subset(part)
    assert gtids.minus(part).to_gtid_set() == expected - part.to_gtid_set()


@pytest.mark.parametrize("seed", range(20))
def test_sets_of_intervals_are_subtracted_and_joined(seed: int) -> None:
    """As sets of integers; the other set stays as it was, and grows apart from the result."""
    rng = random.Random(seed)
    (one, plain), (other, plain_other) = (_some_intervals(rng) for _ in range(2))
    before = other.text()
    assert one.minus(other).to_gtid_set() == GtidSet((s, n, n) for s, n in plain - plain_other)
    one.update(other)
    assert one.to_gtid_set() == GtidSet((s, n, n) for s, n in plain | plain_other)
    one.add(OTHER, 99)
    assert other.text() == before


def _some_intervals(rng: random.Random) -> tuple[GtidIntervals, set[tuple[str, int]]]:
    intervals, plain = GtidIntervals(), set()
    for _ in range(rng.randrange(8)):
        sid, first = rng.choice((SID, OTHER, f"{SID}:tag")), rng.randrange(1, 40)
        last = first + rng.randrange(9)
        intervals.add_range(sid, first, last)
        plain |= {(sid, gno) for gno in range(first, last + 1)}
    return intervals, plain


def test_a_counter_without_numbers_is_in_no_set() -> None:
    """After its last one was taken away; and one that the other has not is no part of it."""
    gtids = GtidIntervals.of((SID, 5, 5), (OTHER, 1, 2))
    gtids.discard(SID, 5)
    assert gtids.text() == f"{OTHER}:1-2"
    assert gtids.is_subset(GtidIntervals.of((OTHER, 1, 3)))
    assert not gtids.is_subset(GtidIntervals.of((SID, 1, 3)))
    gtids.discard(OTHER, 1)
    gtids.discard(OTHER, 2)
    assert not gtids
    assert (gtids.text(), gtids.to_gtid_set()) == ("", GtidSet.EMPTY)


@pytest.mark.parametrize(("limit", "below", "above"), [
    (251, 1, 3), (2**16, 3, 4), (2**24, 4, 9),
])  # fmt: skip
def test_the_length_of_a_transaction_is_a_packed_integer(
    limit: int, below: int, above: int
) -> None:
    """Of 1, 3, 4 or 9 bytes, which it counts itself (Protocol::LengthEncodedInteger)."""
    [instance, *_] = Fleet(Scenario(seed=1, topology="pair")).instances.values()
    group = Group(SID, 1, instance.server_id, 0, GroupKind.INNODB, (), 0)
    without = gtid_event_length(group, 0, instance) - 1
    seen = set()
    for body in range(limit - without - 12, limit - without + 12):
        length = gtid_event_length(group, body, instance)
        packed = below if length + body < limit else above
        assert length == without + packed
        assert packed == below or without + below + body >= limit
        seen.add(packed)
    assert seen == {below, above}
