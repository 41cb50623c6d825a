"""Consecutive events of a binary log file: where they and their groups end, which GTIDs.

Those that a replica far behind still needs are kept packed: two or three bytes an event.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

UNPACKED_MAX = 32
"""Packed events that are kept unpacked beside, of all files together."""
_OVERHEAD = 768
"""Bytes of the objects around the arrays of one packed part."""


# As the functions, but without a call of Python's.
_min, _max = np.minimum.reduce, np.maximum.reduce


class BinlogGroups(NamedTuple):
    """Complete groups in the order of the log: index of the event that ends each, and its GTID."""

    event: npt.NDArray[Any]
    sid: npt.NDArray[np.int32]
    gno: IntArray


class GroupColumns(NamedTuple):
    """Groups in the order of the log: where each ends, and its GTID; sid -1 is anonymous."""

    end: IntArray
    sid: npt.NDArray[np.int32]
    gno: IntArray


class GtidRuns(NamedTuple):
    """GTIDs in the order of the log: `length` of them with ascending numbers from `gno`.

    Those of sid -1 are anonymous groups, whose numbers are all `gno`.
    """

    sid: npt.NDArray[np.int32]
    gno: IntArray
    length: npt.NDArray[Any]

    @classmethod
    def joined(cls, parts: list[GtidRuns]) -> GtidRuns:
        """One part after the other."""
        if not parts:
            return cls(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64))
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def without_last(self) -> GtidRuns:
        """All but the last group."""
        if not len(self.length):
            return self
        length = self.length.astype(np.int64)
        length[-1] -= 1
        kept = len(length) - int(length[-1] == 0)
        return GtidRuns(self.sid[:kept], self.gno[:kept], length[:kept])

    def groups(self) -> tuple[npt.NDArray[np.int32], IntArray]:
        """The sid and the number of each group."""
        length = self.length.astype(np.int64)
        sid = self.sid.repeat(length)
        within = np.arange(len(sid)) - (length.cumsum() - length).repeat(length)
        return sid, self.gno.repeat(length) + within * (sid >= 0)


class Events(NamedTuple):
    """Events as arrays: where each ends, ascending, and the groups that they complete."""

    ends: IntArray
    groups: BinlogGroups

    def count_groups(self, positions: Any, side: Literal["left", "right"]) -> Any:
        """How many groups end before a position, or each of some; side "right": at it or before."""
        return self.groups.event.searchsorted(self.ends.searchsorted(positions, side))

    def split(self, at: int) -> tuple[Events, Events]:
        """The first `at` events, and the others."""
        event, sid, gno = self.groups
        group = int(event.searchsorted(at))
        first = BinlogGroups(event[:group], sid[:group], gno[:group])
        others = BinlogGroups(event[group:] - at, sid[group:], gno[group:])
        return Events(self.ends[:at], first), Events(self.ends[at:], others)

    def runs(self) -> GtidRuns:
        """The GTIDs of the groups."""
        _, sid, gno = self.groups
        if not len(gno):
            return GtidRuns(sid, gno, np.empty(0, dtype=np.int64))
        goes_on = (sid[1:] == sid[:-1]) & (gno[1:] - gno[:-1] == (sid[1:] >= 0))
        bounds = np.concatenate(([0], (~goes_on).nonzero()[0] + 1, [len(gno)]))
        first = bounds[:-1]
        return GtidRuns(sid[first], gno[first], bounds[1:] - first)


@dataclass(frozen=True, slots=True, eq=False)
class PackedEvents:
    """Events in few bytes; never changed.

    Attributes:
        first, last: Where the first and the last event end.
        event_count, group_count: How many events, and complete groups.
        steps: From the end of each event to that of the next, as narrow as these are.
        ends_group: A bit for each event: whether it ends a group.
        sid, gno, length: The groups' GTIDs, as in `GtidRuns`.
    """

    first: int
    last: int
    event_count: int
    group_count: int
    steps: npt.NDArray[Any]
    ends_group: npt.NDArray[np.uint8]
    sid: npt.NDArray[np.int32]
    gno: IntArray
    length: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, events: Events) -> PackedEvents:
        """Pack one event or more."""
        ends, groups = events
        steps = ends[1:] - ends[:-1]
        low, high = (np.min_scalar_type(f(steps, initial=0)) for f in (_min, _max))
        ends_group = np.zeros(len(ends), dtype=np.bool_)
        ends_group[groups.event] = True
        runs = events.runs()
        return cls(
            int(ends[0]),
            int(ends[-1]),
            len(ends),
            len(groups.gno),
            steps.astype(np.promote_types(low, high)),
            np.packbits(ends_group),
            runs.sid,
            runs.gno,
            runs.length.astype(np.uint32),
        )

    @property
    def byte_count(self) -> int:
        """Bytes in memory; in a saved state they are no more."""
        arrays = (self.steps, self.ends_group, self.sid, self.gno, self.length)
        return _OVERHEAD + sum(array.nbytes for array in arrays)

    def runs(self) -> GtidRuns:
        """The GTIDs of the groups."""
        return GtidRuns(self.sid, self.gno, self.length)


@lru_cache(maxsize=UNPACKED_MAX)
def unpacked(packed: PackedEvents) -> Events:
    """The events as arrays, which are not to be changed."""
    ends = np.empty(packed.event_count, dtype=np.int64)
    ends[0] = packed.first
    np.cumsum(packed.steps, out=ends[1:], dtype=np.int64)
    ends[1:] += packed.first
    event = np.flatnonzero(np.unpackbits(packed.ends_group))
    return Events(ends, BinlogGroups(event, *packed.runs().groups()))


def joined(parts: list[Events]) -> Events:
    """Events of one file, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0, *(len(part.ends) for part in parts)]).tolist()
    return Events(
        np.concatenate([part.ends for part in parts]),
        BinlogGroups(
            np.concatenate([p.groups.event + n for p, n in zip(parts, before, strict=False)]),
            np.concatenate([part.groups.sid for part in parts]),
            np.concatenate([part.groups.gno for part in parts]),
        ),
    )
