"""One binary log file as the fleet's audit remembers it: where events and groups end, which GTIDs.

Other instances name positions in this file; it answers what is at a position.
What it has not seen, or does not remember, is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tallystick.coordinates.values.gtid import GtidSet

IntArray = npt.NDArray[np.int64]

FIRST_POSITION = 4
HEADER_EVENTS = 2
"""FORMAT_DESCRIPTION and PREVIOUS_GTIDS open a file; they belong to no group."""


class BinlogGroups(NamedTuple):
    """Complete groups in the order of the log: index of the event that ends each, and its GTID."""

    event: npt.NDArray[Any]
    sid: npt.NDArray[np.int32]
    gno: IntArray


class PositionKind(Enum):
    """What is at a position of a file."""

    GROUP_END = "the end of a group"
    OUTSIDE = "an event end outside groups"
    EVENT_END = "an event end inside a group"
    INSIDE_EVENT = "no event end"
    BEYOND = "after the end of the file"
    UNKNOWN = "not known"


@dataclass(eq=False)
class BinlogFile:
    """Events and groups of one file of one binlog lineage.

    Attributes:
        end: Where the next event starts.
        previous: Its Previous_gtids, None not known.
        holes: Ranges `(from, to]` whose events were not seen or are forgotten.
        is_doubtful: An offset decreased: no position after `end` means anything.
        is_open_ended: Part of the journal is missing after the last event.
    """

    lineage: int
    file_number: int
    end: int = FIRST_POSITION
    previous: GtidSet | None = None
    holes: list[tuple[int, int]] = field(default_factory=list)
    is_doubtful: bool = False
    is_open_ended: bool = False
    _ends: list[IntArray] = field(default_factory=list)
    _events: list[npt.NDArray[Any]] = field(default_factory=list)
    _sids: list[npt.NDArray[np.int32]] = field(default_factory=list)
    _gnos: list[IntArray] = field(default_factory=list)
    _count: int = 0

    def compact(self) -> None:
        """Bring each column into one array: so it is saved."""
        self.event_ends()
        self.groups()

    def append(self, start: int, event_ends: IntArray, groups: BinlogGroups) -> int:
        """The next run of events, without a gap among themselves; returns how many are kept."""
        self.is_doubtful = self.is_doubtful or start < self.end
        if self.is_doubtful:
            return 0
        if start > self.end:
            self.skip_to(start)
        self.is_open_ended = False
        self._ends.append(event_ends)
        if len(groups.gno):
            self._events.append(groups.event + self._count)
            self._sids.append(groups.sid)
            self._gnos.append(groups.gno)
        self._count += len(event_ends)
        if len(event_ends):
            self.end = int(event_ends[-1])
        return len(event_ends)

    def skip_to(self, position: int) -> None:
        """The events up to `position` were not seen."""
        self.holes.append((self.end, position))
        self.end = position

    def event_ends(self) -> IntArray:
        """Ends of all remembered events, ascending."""
        ends: IntArray = _joined(self._ends, np.int64)
        return ends

    def groups(self) -> BinlogGroups:
        """All remembered groups; `event` indexes `event_ends()`."""
        events = _joined(self._events, np.int64)
        return BinlogGroups(events, _joined(self._sids, np.int32), _joined(self._gnos, np.int64))

    def group_ends(self) -> IntArray:
        """Where each remembered group ends."""
        ends: IntArray = self.event_ends()[self.groups().event]
        return ends

    @property
    def observed_from(self) -> int:
        """From where on everything up to the end is remembered."""
        return self.holes[-1][1] if self.holes else FIRST_POSITION

    def is_known(self, positions: IntArray) -> npt.NDArray[np.bool_]:
        """Whether all that could be at a position has been seen and is remembered."""
        known = np.ones(len(positions), dtype=np.bool_)
        for first, last in self.holes:
            known &= (positions <= first) | (positions > last)
        if self.is_open_ended or self.is_doubtful:
            known &= positions <= self.end
        return known

    def knows_groups(self, positions: IntArray) -> npt.NDArray[np.bool_]:
        """Whether a group that ends at a position would be remembered.

        Of a group that began in a hole the last events may be known, but not that they are its.
        """
        known, ends, groups = self.is_known(positions), self.event_ends(), self.group_ends()
        if not self.holes or not len(ends):
            return known
        at = np.minimum(np.searchsorted(ends, positions), len(ends) - 1)
        before = np.concatenate(([0], groups))[np.searchsorted(groups, positions)]
        for first, last in self.holes:
            known &= ~((ends[at] == positions) & (before < last) & (positions > first))
        return known

    def kind_at(self, position: int, limit: int) -> PositionKind:
        """What is at `position`, when the file was known up to `limit`."""
        if position == FIRST_POSITION:
            return PositionKind.OUTSIDE
        if position > limit:
            return PositionKind.BEYOND
        is_whole = not (self.holes or self.is_open_ended or self.is_doubtful)
        if not is_whole and not self.is_known(np.array([position]))[0]:
            return PositionKind.UNKNOWN
        ends = self.event_ends()
        index = int(ends.searchsorted(position))
        if index == len(ends) or ends[index] != position:
            return PositionKind.BEYOND if position > self.end else PositionKind.INSIDE_EVENT
        return self._kind_of_event(index, limit)

    def _kind_of_event(self, index: int, limit: int) -> PositionKind:
        events, ends = self.groups().event, self.event_ends()
        at = int(events.searchsorted(index))
        if at < len(events) and events[at] == index:
            return PositionKind.GROUP_END
        if index < HEADER_EVENTS and not self._has_hole(0, int(ends[index])):
            return PositionKind.OUTSIDE
        if at == len(events) or ends[events[at]] > limit:
            # After the last group: a ROTATE, a STOP, or the begin of a group. Ends and groups alone
            # do not distinguish them.
            return PositionKind.OUTSIDE
        before = int(ends[events[at - 1]]) if at else 0
        if self._has_hole(before, int(ends[events[at]])):
            return PositionKind.UNKNOWN
        return PositionKind.EVENT_END

    def _has_hole(self, first: int, last: int) -> bool:
        return any(a < last and b > first for a, b in self.holes)

    def truncate(self, end: int) -> tuple[IntArray, BinlogGroups]:
        """Take back what ends after `end`; returns the events' ends and the groups."""
        ends, groups = self.event_ends(), self.groups()
        kept = int(np.searchsorted(ends, end, side="right"))
        split = int(np.searchsorted(groups.event, kept))
        lost = BinlogGroups(groups.event[split:] - kept, groups.sid[split:], groups.gno[split:])
        self._set(
            ends[:kept],
            BinlogGroups(groups.event[:split], groups.sid[:split], groups.gno[:split]),
        )
        self.holes = [(a, min(b, end)) for a, b in self.holes if a < end]
        self.end = min(self.end, end)
        return ends[kept:], lost

    def copy(self) -> BinlogFile:
        """A file of its own with the same content."""
        copy = BinlogFile(self.lineage, self.file_number)
        copy._set(self.event_ends(), self.groups())
        copy.end = self.end
        copy.previous = self.previous
        copy.holes = list(self.holes)
        copy.is_doubtful = self.is_doubtful
        copy.is_open_ended = self.is_open_ended
        return copy

    def give_back(self, event_ends: IntArray, groups: BinlogGroups) -> None:
        """Undo the last `truncate`; a hole at the end of what was taken back stays forgotten."""
        self._ends.append(event_ends)
        self._events.append(groups.event + self._count)
        self._sids.append(groups.sid)
        self._gnos.append(groups.gno)
        self._count += len(event_ends)
        if len(event_ends):
            self.end = int(event_ends[-1])

    def forget_front(self, how_many: int) -> int:
        """Forget the first events; returns how many."""
        ends, groups = self.event_ends(), self.groups()
        how_many = min(how_many, len(ends))
        if not how_many:
            return 0
        split = int(np.searchsorted(groups.event, how_many))
        kept = BinlogGroups(groups.event[split:] - how_many, groups.sid[split:], groups.gno[split:])
        last = int(ends[how_many - 1])
        self.holes = [(0, last), *((a, b) for a, b in self.holes if b > last)]
        self._set(ends[how_many:].copy(), kept)
        return how_many

    def _set(self, ends: IntArray, groups: BinlogGroups) -> None:
        self._count = len(ends)
        self._ends = [ends]
        self._events, self._sids, self._gnos = [groups.event], [groups.sid], [groups.gno]


def _joined(chunks: list[npt.NDArray[Any]], dtype: type[np.signedinteger[Any]]) -> Any:
    """All chunks as one array, which then replaces them."""
    if not chunks:
        return np.empty(0, dtype=dtype)
    if len(chunks) > 1:
        chunks[:] = [np.concatenate(chunks)]
    return chunks[0]
