"""Measure GTID sets beside plain Python sets of (sid, gno), both in one run.

Each figure is the median over rounds; a round times both sides one after the other, so that a busy
machine slows both. The last column is the ratio: how many times longer the plain set takes.

Run with: python -m benchmarks.gtid_sets
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from tallystick.coordinates.values.gtid import GtidSet

ROUNDS = 15
UUIDS = ("00000000-0000-0000-0000-00000000000a", "3e11fa47-71ca-11e1-9e33-c80aa9429562")

Members = set[tuple[str, int]]


def members(gtid_set: GtidSet) -> Members:
    """List every GTID of a set."""
    return {(sid, gno) for sid, first, last in gtid_set for gno in range(first, last + 1)}


def parse_members(text: str) -> Members:
    """Read the canonical text of an untagged set with the fewest lines of Python."""
    found: Members = set()
    for uuid_set in filter(None, text.split(",")):
        sid, *intervals = uuid_set.split(":")
        for interval in intervals:
            first, _, last = interval.partition("-")
            found.update((sid, gno) for gno in range(int(first), int(last or first) + 1))
    return found


def seconds_per_call(function: Callable[[], object], calls: int) -> float:
    """Time one call as the mean over several."""
    began = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - began) / calls


def compare(
    name: str, ours: Callable[[], object], plain: Callable[[], object], calls: tuple[int, int]
) -> None:
    """Print one line: both medians, and the median of the ratios."""
    rounds = [
        (seconds_per_call(ours, calls[0]), seconds_per_call(plain, calls[1])) for _ in range(ROUNDS)
    ]
    our_median = statistics.median(a for a, _ in rounds)
    plain_median = statistics.median(b for _, b in rounds)
    ratio = statistics.median(b / a for a, b in rounds)
    print(f"  {name:<22}{our_median * 1e6:>12.2f}{plain_median * 1e6:>14.2f}{ratio:>11.2f}")


def report(title: str, left: GtidSet, right: GtidSet, calls: tuple[int, int]) -> None:
    """Print a table for two sets, after a check that both sides agree."""
    print(
        f"{title}: {left.count()} and {right.count()} GTIDs"
        f" in {len(list(left))} and {len(list(right))} intervals"
    )
    print(f"  {'':<22}{'GtidSet us':>12}{'plain set us':>14}{'ratio':>11}")
    a, b = members(left), members(right)
    text = str(left)
    again, a_again = GtidSet.parse(text), members(left)
    sid = UUIDS[0]
    gtid_text = f"{sid}:7"
    column = np.arange(1, 2001, dtype=np.int64)
    numbers = column.tolist()
    for name, result, expected in (
        ("union", left | right, a | b),
        ("subtraction", left - right, a - b),
        ("intersection", left & right, a & b),
    ):
        assert members(result) == expected, f"the {name} is wrong: the figures mean nothing"
    compare("union", lambda: left | right, lambda: a | b, calls)
    compare("subtraction", lambda: left - right, lambda: a - b, calls)
    compare("intersection", lambda: left & right, lambda: a & b, calls)
    assert parse_members(text) == a, "the plain parser is wrong: the figures mean nothing"
    common, c = left & right, a & b
    compare("subset (it is one)", lambda: common <= left, lambda: c <= a, calls)
    compare("equality (equal)", lambda: left == again, lambda: a == a_again, calls)
    compare("count", left.count, lambda: len(a), calls)
    compare(
        "one GTID as text",
        lambda: gtid_text in left,
        lambda: (gtid_text[:36], int(gtid_text[37:])) in a,
        (2000, 2000),
    )
    compare(
        "2000 GNOs contained",
        lambda: left.contains_gnos(sid, column),
        lambda: [(sid, number) in a for number in numbers],
        (200, 20),
    )
    compare(
        "2000 GNOs to a set",
        lambda: GtidSet.from_gnos(sid, column),
        lambda: {(sid, number) for number in numbers},
        (200, 20),
    )
    compare("parse", lambda: GtidSet.parse(text), lambda: parse_members(text), calls)


def main() -> None:
    """Measure three shapes of sets."""
    report(
        "As on a healthy fleet",
        GtidSet([(UUIDS[0], 1, 20_000), (UUIDS[1], 1, 500), (UUIDS[1], 600, 700)]),
        GtidSet([(UUIDS[0], 19_000, 20_010), (UUIDS[1], 1, 400)]),
        (2000, 4),
    )
    report(
        "Scattered, as with Group Replication",
        GtidSet((UUIDS[0], 10 * i + 1, 10 * i + 5) for i in range(10_000)),
        GtidSet((UUIDS[0], 10 * i + 4, 10 * i + 8) for i in range(10_000)),
        (4, 2),
    )
    report(
        "Worst for intervals: every second GNO",
        GtidSet((UUIDS[0], 2 * i + 1, 2 * i + 1) for i in range(10_000)),
        GtidSet((UUIDS[0], 3 * i + 1, 3 * i + 1) for i in range(10_000)),
        (4, 4),
    )


if __name__ == "__main__":
    main()
