"""Origins of GTIDs beyond the number that is remembered: their sums, by runs of numbers.

A replica far behind claims what its source claimed long ago. The origins of so many GTIDs are not
kept, but of each run of ``RUN`` numbers of a sid how many were forgotten, and the sum of a hash of
each. A log that has claimed as many of the run has the same sum if all its claims are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tallystick.coordinates.values.growing_set import GrowingGtidSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from tallystick.coordinates.values.gtid import GtidSet

    IntArray = npt.NDArray[np.int64]

RUN = 4096
SUMS_MAX = 2**14
"""Runs of a fleet of which sums are kept."""
OPEN_MAX = 4
"""Runs of a sid that a log has begun to claim; appliers side by side are in two at most."""
_MASK = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RunSum:
    """Of some numbers of one run: how many, and the sum of the hashes of their origins."""

    count: int
    total: int

    def __add__(self, other: RunSum) -> RunSum:
        return RunSum(self.count + other.count, (self.total + other.total) & _MASK)


_NOTHING = RunSum(0, 0)
Sums = dict[str, dict[int, RunSum]]
"""By sid and number of the run."""


@dataclass(eq=False)
class ForgottenOrigins:
    """What is known of the origins that are not remembered.

    Attributes:
        gtids: GTIDs of which an origin is forgotten.
        sums: Of runs whose GTIDs had one origin each, as far as known.
    """

    gtids: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    sums: Sums = field(default_factory=dict)

    def take(self, sid: str, gno: IntArray, hashes: npt.NDArray[np.uint64]) -> None:
        """Origins are forgotten; each of the GTIDs had one."""
        of_sid = self.sums.setdefault(sid, {})
        for run, found in sums_of(gno, hashes):
            if self.gtids.contains_any(sid, numbers_of(run)):
                # A log may have claimed, and closed, what was forgotten of it before.
                of_sid.pop(run, None)
            else:
                of_sid[run] = found
        self.gtids.add_gnos(sid, gno)
        while sum(map(len, self.sums.values())) > SUMS_MAX:
            longest = max(self.sums.values(), key=len)
            del longest[min(longest)]

    def take_without_sum(self, sid: str, gno: IntArray) -> None:
        """Origins are forgotten of GTIDs that had more than one."""
        self.gtids.add_gnos(sid, gno)
        self._forget_sums(sid, np.unique(gno // RUN).tolist())

    def has_sum(self, sid: str, gno: IntArray) -> npt.NDArray[np.bool_]:
        """Which GTIDs are of runs of which there is a sum."""
        return np.isin(gno // RUN, list(self.sums.get(sid, {})))

    def keep_only(self, gtids: GtidSet) -> None:
        """Of others nothing need be known: they may be given anew."""
        before = self.gtids.freeze()
        after = before & gtids
        for sid, first, last in before - after:
            self._forget_sums(sid, range(first // RUN, last // RUN + 1))
        self.gtids = GrowingGtidSet(after)

    def _forget_sums(self, sid: str, runs: list[int] | range) -> None:
        of_sid = self.sums.get(sid, {})
        for run in of_sid.keys() & set(runs):
            del of_sid[run]


@dataclass(slots=True, eq=False)
class OpenRuns:
    """Runs of forgotten GTIDs that a log has claimed in part."""

    sums: Sums = field(default_factory=dict)

    def begin(
        self,
        sid: str,
        gno: IntArray,
        hashes: npt.NDArray[np.uint64],
        forgotten: ForgottenOrigins,
    ) -> None:
        """The log has claimed these of runs that are forgotten now, and they were compared."""
        whole = forgotten.sums.get(sid, {})
        for run, found in sums_of(gno, hashes):
            if run in whole and found != whole[run]:
                self.sums.setdefault(sid, {})[run] = found

    def take(
        self,
        sid: str,
        gno: IntArray,
        hashes: npt.NDArray[np.uint64],
        forgotten: ForgottenOrigins,
    ) -> tuple[list[int], list[int]]:
        """The log claims GTIDs of runs with a sum.

        Returns:
            Runs that it claims otherwise, and those that are taken as never claimed whole.
        """
        of_sid = self.sums.setdefault(sid, {})
        wrong, left = [], []
        for run, found in sums_of(gno, hashes):
            mine = of_sid.get(run, _NOTHING) + found
            whole = forgotten.sums[sid][run]
            if mine.count >= whole.count:
                if mine != whole:
                    wrong.append(run)
                of_sid.pop(run, None)
            else:
                of_sid[run] = mine
        while len(of_sid) > OPEN_MAX:
            lowest = min(of_sid)
            left.append(lowest)
            del of_sid[lowest]
        return wrong, left


def sums_of(gno: IntArray, hashes: npt.NDArray[np.uint64]) -> Iterator[tuple[int, RunSum]]:
    """The sums of ascending numbers, by run."""
    runs = gno // RUN
    begins = np.flatnonzero(np.diff(runs, prepend=-1))
    totals = np.add.reduceat(hashes, begins) if len(gno) else hashes
    ends = [*begins[1:].tolist(), len(gno)]
    for begin, end, total in zip(begins.tolist(), ends, totals.tolist(), strict=True):
        yield int(runs[begin]), RunSum(end - begin, total & _MASK)


def hashes_of(gno: IntArray, commit_ts: IntArray) -> npt.NDArray[np.uint64]:
    """A hash of each GTID's origin; those of a run are added, so its bits must be mixed well."""
    return _mix(_mix(gno.astype(np.uint64)) ^ commit_ts.astype(np.uint64))


def _mix(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    mixed: npt.NDArray[np.uint64] = bits ^ (bits >> np.uint64(31))
    return mixed


def numbers_of(run: int) -> IntArray:
    """All numbers of a run."""
    return np.arange(max(run * RUN, 1), (run + 1) * RUN, dtype=np.int64)
