"""A GTID set that grows in place: what a log reader needs between two log_status rows.

`GtidSet` is the value everybody compares; this is its accumulator. Adding the next GNO of
a sid, the common case, is constant time.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    import numpy.typing as npt

_EMPTY: list[int] = []


class GrowingGtidSet:
    """Sid to flat ascending boundaries ``[start, end, start, end, …]``, ends exclusive."""

    __slots__ = ("_bounds", "_frozen")

    def __init__(self, initial: GtidSet = GtidSet.EMPTY) -> None:
        self._bounds = initial.bounds()
        self._frozen: GtidSet | None = initial

    def contains(self, sid: str, gno: int) -> bool:
        """Whether the set holds ``sid:gno``."""
        return bisect_right(self._bounds.get(sid, _EMPTY), gno) % 2 == 1

    def contains_any(self, sid: str, gnos: npt.NDArray[np.int64]) -> bool:
        """Whether the set holds any of the GNOs of ``sid``."""
        bounds = self._bounds.get(sid)
        if not bounds or not len(gnos):
            return False
        if int(gnos.min()) >= bounds[-1]:
            return False
        if len(bounds) == 2:
            return bool(((gnos >= bounds[0]) & (gnos < bounds[1])).any())
        indices = np.searchsorted(np.array(bounds, dtype=np.int64), gnos, side="right")
        return bool((indices % 2 == 1).any())

    def last(self, sid: str) -> int:
        """The highest GNO of ``sid``, 0 when there is none."""
        bounds = self._bounds.get(sid)
        return bounds[-1] - 1 if bounds else 0

    def interval_count(self) -> int:
        """How many intervals the set is made of."""
        return sum(map(len, self._bounds.values())) // 2

    def add(self, sid: str, gno: int) -> None:
        """Add one GTID; adding one that is there changes nothing."""
        self.add_range(sid, gno, gno + 1)

    def add_range(self, sid: str, start: int, end: int) -> None:
        """Add the GNOs from ``start`` up to and without ``end``."""
        self._frozen = None
        bounds = self._bounds.get(sid)
        if bounds is None:
            self._bounds[sid] = [start, end]
            return
        if start == bounds[-1]:
            bounds[-1] = end
            return
        if start > bounds[-1]:
            bounds += (start, end)
            return
        low = bisect_right(bounds, start - 1)
        high = bisect_right(bounds, end)
        middle: list[int] = []
        if low % 2 == 0:
            middle.append(start)
        if high % 2 == 0:
            middle.append(end)
        bounds[low:high] = middle

    def add_gnos(self, sid: str, gnos: npt.NDArray[np.int64]) -> None:
        """Add many GNOs of one sid; ascending runs are added as ranges."""
        count = len(gnos)
        if count <= 4:
            for gno in gnos.tolist():
                self.add_range(sid, gno, gno + 1)
            return
        breaks = (gnos[1:] - gnos[:-1] != 1).nonzero()[0] + 1
        if not len(breaks):
            self.add_range(sid, int(gnos[0]), int(gnos[-1]) + 1)
            return
        starts = gnos[np.concatenate(([0], breaks))].tolist()
        ends = gnos[np.concatenate((breaks - 1, [count - 1]))].tolist()
        for start, end in zip(starts, ends, strict=True):
            self.add_range(sid, start, end + 1)

    def add_set(self, other: GtidSet) -> None:
        """Add a whole set."""
        for sid, first, last in other:
            self.add_range(sid, first, last + 1)

    def freeze(self) -> GtidSet:
        """The present content as a value."""
        if self._frozen is None:
            self._frozen = GtidSet.from_bounds(self._bounds)
        return self._frozen
