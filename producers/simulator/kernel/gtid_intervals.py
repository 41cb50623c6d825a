"""A mutable GTID set for the hot paths of the simulator: adding the next GNO is constant time.

``coordinates.values.gtid.GtidSet`` is the value that the rest of the world sees.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterator


_UUID_LENGTH = 36


class GtidIntervals:
    """GTIDs as ascending boundaries per sid: ``[start, end, start, end, ...]``, ends exclusive."""

    __slots__ = ("_bounds",)

    def __init__(self) -> None:
        self._bounds: dict[str, list[int]] = {}

    @classmethod
    def of(cls, *intervals: tuple[str, int, int]) -> GtidIntervals:
        """The set of the intervals ``(sid, first, last)``, both ends included."""
        made = cls()
        for sid, first, last in intervals:
            made.add_range(sid, first, last)
        return made

    def copy(self) -> GtidIntervals:
        """A set of its own with the same members."""
        made = GtidIntervals()
        made._bounds = {sid: bounds[:] for sid, bounds in self._bounds.items()}
        return made

    def add(self, sid: str, gno: int) -> None:
        """Add one GTID."""
        bounds = self._bounds.get(sid)
        if bounds is None:
            self._bounds[sid] = [gno, gno + 1]
        elif bounds[-1] == gno:
            bounds[-1] = gno + 1
        else:
            self.add_range(sid, gno, gno)

    def add_range(self, sid: str, first: int, last: int) -> None:
        """Add the GTIDs ``first`` to ``last`` (included) of one sid."""
        start, end = first, last + 1
        kept: list[int] = []
        bounds = self._bounds.get(sid, [])
        for i in range(0, len(bounds), 2):
            low, high = bounds[i], bounds[i + 1]
            if high < start or low > end:
                kept += (low, high)
            else:
                start, end = min(start, low), max(end, high)
        index = bisect_right(kept, start)
        kept[index:index] = (start, end)
        self._bounds[sid] = kept

    def discard(self, sid: str, gno: int) -> None:
        """Remove one GTID, if it is there."""
        if (sid, gno) not in self:
            return
        bounds = self._bounds[sid]
        index = bisect_right(bounds, gno) - 1
        low, high = bounds[index], bounds[index + 1]
        pieces = [b for pair in ((low, gno), (gno + 1, high)) if pair[0] < pair[1] for b in pair]
        bounds[index : index + 2] = pieces
        if not bounds:
            del self._bounds[sid]

    def update(self, other: GtidIntervals) -> None:
        """Add all members of another set."""
        for sid, bounds in other._bounds.items():
            own = self._bounds.get(sid)
            if own is None:
                self._bounds[sid] = bounds[:]
            elif own != bounds:
                for i in range(0, len(bounds), 2):
                    self.add_range(sid, bounds[i], bounds[i + 1] - 1)

    def next_free(self, sid: str, at_least: int = 1) -> int:
        """The smallest GNO of a sid, from a number on, that is not in the set."""
        bounds = self._bounds.get(sid, [])
        index = bisect_right(bounds, at_least)
        return bounds[index] if index & 1 else at_least

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        for sid in sorted(self._bounds):
            bounds = self._bounds[sid]
            for i in range(0, len(bounds), 2):
                yield sid, bounds[i], bounds[i + 1] - 1

    def __contains__(self, gtid: tuple[str, int]) -> bool:
        return bool(bisect_right(self._bounds.get(gtid[0], []), gtid[1]) & 1)

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GtidIntervals) and self._bounds == other._bounds

    __hash__ = None  # type: ignore[assignment]  # mutable

    def is_subset(self, other: GtidIntervals) -> bool:
        """Tell whether every member is also in ``other``."""
        for sid, first, last in self:
            bounds = other._bounds.get(sid, [])
            index = bisect_right(bounds, first)
            if not index & 1 or bounds[index] <= last:
                return False
        return True

    def minus(self, other: GtidIntervals) -> GtidIntervals:
        """The members that are not in ``other``."""
        rest = GtidIntervals()
        for sid, bounds in self._bounds.items():
            left = _without(bounds, other._bounds.get(sid, []))
            if left:
                rest._bounds[sid] = left
        return rest

    def shape(self) -> tuple[int, int]:
        """How many sids and how many intervals there are: the length of PREVIOUS_GTIDS."""
        return len(self._bounds), sum(map(len, self._bounds.values())) // 2

    def text(self) -> str:
        """The canonical text."""
        return ",".join(self._parts())

    def server_text(self) -> str:
        """The text as a server prints it: a newline after each comma."""
        return ",\n".join(self._parts())

    def _parts(self) -> list[str]:
        """One text a UUID: its untagged intervals, then those of each tag."""
        parts: dict[str, str] = {}
        for sid in sorted(self._bounds):
            uuid, tag = sid[:_UUID_LENGTH], sid[_UUID_LENGTH:]
            text = parts.get(uuid, uuid) + tag
            bounds = self._bounds[sid]
            for i in range(0, len(bounds), 2):
                first, end = bounds[i], bounds[i + 1]
                text += f":{first}" if end - first == 1 else f":{first}-{end - 1}"
            parts[uuid] = text
        return list(parts.values())

    def to_gtid_set(self) -> GtidSet:
        """The set as the immutable value."""
        return GtidSet(iter(self))


def _without(bounds: list[int], others: list[int]) -> list[int]:
    """The boundaries of what is inside ``bounds`` and outside ``others``."""
    left: list[int] = []
    for i in range(0, len(bounds), 2):
        start, end = bounds[i], bounds[i + 1]
        after = bisect_right(others, start)
        if after & 1:
            start = others[after]
            after += 1
        while start < end:
            if after == len(others) or others[after] >= end:
                left += (start, end)
                break
            left += (start, others[after])
            start = others[after + 1]
            after += 2
    return left
