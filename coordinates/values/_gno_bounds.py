"""Sets of GNOs of one sid as a strictly increasing list of boundaries.

`[s0, e0, s1, e1, …]` means `s0 <= gno < e0 or s1 <= gno < e1 …`. Strictly increasing is the same as
disjoint and not touching, so every set of integers has exactly one such list; a GNO is inside when
the number of boundaries at or below it is odd; and the list is the binary form of the server.

Short lists are tuples of Python ints, long ones read-only int64 arrays: a numpy call costs as much
as walking some 40 boundaries. The length alone decides, so equal sets are stored alike.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union, cast

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Bounds = Union[tuple[int, ...], "NDArray[np.int64]"]

GNO_MIN = 1
GNO_END = 2**63 - 1
"""The exclusive limit of a GNO: fits int64 as an exclusive end, and is never a GNO itself."""

_SHORT = 32

# Indexed by (inside left) + 2 * (inside right).
_EITHER = (False, True, True, True)
_BOTH = (False, False, False, True)
_LEFT_ONLY = (False, True, False, False)


def pack(bounds: Sequence[int] | NDArray[np.int64]) -> Bounds:
    """The representation of a strictly increasing list of boundaries, chosen by its length."""
    if len(bounds) <= _SHORT:
        return tuple(bounds.tolist() if isinstance(bounds, np.ndarray) else bounds)
    packed = np.array(bounds, dtype=np.int64)
    packed.setflags(write=False)
    return packed


def from_pairs(flat: Sequence[int]) -> Bounds:
    """Build the boundaries of intervals `start, end, start, end, …` in any order."""
    if len(flat) == 2:
        return (flat[0], flat[1])
    if len(flat) > _SHORT:
        return from_arrays(*np.array(flat, dtype=np.int64).reshape(-1, 2).T)
    bounds: list[int] = []
    for start, end in sorted(zip(flat[0::2], flat[1::2], strict=True)):
        if not bounds or start > bounds[-1]:
            bounds += (start, end)
        elif end > bounds[-1]:
            bounds[-1] = end
    return tuple(bounds)


def from_arrays(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Bounds:
    """Build the boundaries of the intervals `starts[i] <= gno < ends[i]`, in any order."""
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    highest = np.maximum.accumulate(ends)
    is_first = np.concatenate(([True], starts[1:] > highest[:-1]))
    is_last = np.concatenate((is_first[1:], [True]))
    bounds = np.empty(2 * int(is_first.sum()), dtype=np.int64)
    bounds[0::2] = starts[is_first]
    bounds[1::2] = highest[is_last]
    return pack(bounds)


def from_ascending(gnos: NDArray[np.int64]) -> Bounds:
    """Build the boundaries of one GNO or more in ascending order, maybe repeated."""
    cuts = (gnos[1:] - gnos[:-1] > 1).nonzero()[0]
    if not len(cuts):
        return (int(gnos[0]), int(gnos[-1]) + 1)
    bounds = np.empty(2 * len(cuts) + 2, dtype=np.int64)
    bounds[0], bounds[-1] = gnos[0], gnos[-1] + 1
    bounds[1:-1:2] = gnos[cuts] + 1
    bounds[2::2] = gnos[cuts + 1]
    return pack(bounds)


def as_array(bounds: Bounds) -> NDArray[np.int64]:
    return bounds if isinstance(bounds, np.ndarray) else np.array(bounds, dtype=np.int64)


def as_ints(bounds: Bounds) -> Sequence[int]:
    return cast("list[int]", bounds.tolist()) if isinstance(bounds, np.ndarray) else bounds


def count(bounds: Bounds) -> int:
    # One sid cannot hold more than fits int64; the sum over sids can, and is of Python integers.
    if isinstance(bounds, np.ndarray):
        return int((bounds[1::2] - bounds[0::2]).sum())
    return sum(bounds[1::2]) - sum(bounds[0::2])


def contains(bounds: Bounds, gno: int) -> bool:
    if isinstance(bounds, np.ndarray):
        return bool(np.searchsorted(bounds, gno, side="right") & 1)
    return bool(bisect_right(bounds, gno) & 1)


def equal(left: Bounds, right: Bounds) -> bool:
    if isinstance(left, np.ndarray):
        return isinstance(right, np.ndarray) and np.array_equal(left, right)
    return not isinstance(right, np.ndarray) and left == right


def is_subset(left: Bounds, right: Bounds) -> bool:
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        outer, inner = as_array(right), as_array(left)
        slots = np.searchsorted(outer, inner[0::2], side="right")
        # An odd index is inside an interval, whose end is then the boundary at that index.
        return bool(np.all(slots & 1)) and bool(np.all(outer[slots] >= inner[1::2]))
    for index in range(0, len(left), 2):
        at = bisect_right(right, left[index])
        if not at & 1 or right[at] < left[index + 1]:
            return False
    return True


def is_disjoint(left: Bounds, right: Bounds) -> bool:
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        other, this = as_array(right), as_array(left)
        begin = np.searchsorted(other, this[0::2], side="right")
        finish = np.searchsorted(other, this[1::2], side="left")
        return not np.any(begin & 1) and bool(np.all(begin == finish))
    for index in range(0, len(left), 2):
        at = bisect_right(right, left[index])
        if at & 1 or bisect_left(right, left[index + 1]) != at:
            return False
    return True


def union(left: Bounds, right: Bounds) -> Bounds:
    if len(left) < len(right):
        left, right = right, left
    # One interval that overlaps or touches another, as when a log grows.
    if len(left) == 2 and left[0] <= right[1] and right[0] <= left[1]:
        return (min(left[0], right[0]), max(left[1], right[1]))
    return _combine(left, right, _EITHER)


def subtract(left: Bounds, right: Bounds) -> Bounds:
    # What two records of one history share is taken away most often: nearly all of it.
    if len(right) == 2 and right[0] <= left[0] and left[-1] <= right[1]:
        return ()
    if len(left) == len(right) and equal(left, right):
        return ()
    return _combine(left, right, _LEFT_ONLY)


def intersect(left: Bounds, right: Bounds) -> Bounds:
    if len(left) < len(right):
        left, right = right, left
    return _combine(left, right, _BOTH)


def first(bounds: Bounds, how_many: int) -> Bounds:
    """Keep the `how_many` smallest GNOs."""
    kept: list[int] = []
    # Each interval holds at least one GNO, so no more intervals than GNOs are ever needed.
    head = as_ints(bounds[: 2 * how_many])
    for start, end in zip(head[0::2], head[1::2], strict=True):
        if how_many <= 0:
            break
        taken = min(end - start, how_many)
        kept += (start, start + taken)
        how_many -= taken
    return pack(kept)


def _combine(left: Bounds, right: Bounds, keep: tuple[bool, bool, bool, bool]) -> Bounds:
    if not isinstance(left, np.ndarray) and not isinstance(right, np.ndarray):
        return pack(_walk(left, right, keep))
    long_left, long_right = as_array(left), as_array(right)
    # Only boundaries within the span of the right can change. The usual step adds the newest few
    # GTIDs to a long set, and then the rest is copied and not compared. An interval that begins
    # before the span is taken whole; one that ends after it may be cut: only the left counts there.
    low = int(np.searchsorted(long_left, long_right[0], side="left")) & ~1
    high = int(np.searchsorted(long_left, long_right[-1], side="right"))
    window = long_left[low:high]
    changed: Any
    if len(window) + len(right) <= _SHORT:
        changed = _walk(window.tolist(), as_ints(right), keep)
    else:
        changed = _sweep(window, long_right, keep)
    if keep is _BOTH:
        return pack(changed)
    return pack(
        np.concatenate((long_left[:low], np.asarray(changed, dtype=np.int64), long_left[high:]))
    )


def _walk(
    left: Sequence[int], right: Sequence[int], keep: tuple[bool, bool, bool, bool]
) -> list[int]:
    """Merge two short lists: every boundary at which membership in the result changes."""
    bounds: list[int] = []
    i = j = 0
    left_count, right_count = len(left), len(right)
    is_inside = False
    while i < left_count or j < right_count:
        if j == right_count or (i < left_count and left[i] <= right[j]):
            edge = left[i]
            i += 1
            if j < right_count and right[j] == edge:
                j += 1
        else:
            edge = right[j]
            j += 1
        if keep[(i & 1) + 2 * (j & 1)] is not is_inside:
            is_inside = not is_inside
            bounds.append(edge)
    return bounds


def _sweep(
    left: NDArray[np.int64], right: NDArray[np.int64], keep: tuple[bool, bool, bool, bool]
) -> NDArray[np.int64]:
    """Do what `_walk` does for long lists."""
    edges = np.concatenate((left, right))
    steps = np.empty(len(edges), dtype=np.int8)
    steps[: len(left) : 2] = 1
    steps[1 : len(left) : 2] = -1
    steps[len(left) :: 2] = 2
    steps[len(left) + 1 :: 2] = -2
    order = np.argsort(edges, kind="stable")  # two ascending runs: a merge, not a full sort
    edges = edges[order]
    is_inside = np.array(keep)[np.cumsum(steps[order], dtype=np.int8)]
    # Of two equal edges, only the second has seen both.
    is_last = np.append(edges[1:] != edges[:-1], True)
    edges, is_inside = edges[is_last], is_inside[is_last]
    is_change = is_inside.copy()
    is_change[1:] ^= is_inside[:-1]
    return cast("NDArray[np.int64]", edges[is_change])
