"""One binary log file as the fleet's audit remembers it: where events and groups end, which GTIDs.

Other instances name positions in this file; it answers what is at a position.
What it has not seen, or does not remember, is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tallystick.coordinates.audit.packed_events import (
    BinlogGroups,
    Events,
    GroupColumns,
    GtidRuns,
    IntArray,
    PackedEvents,
    joined,
    unpacked,
)
from tallystick.coordinates.state_codec import TRANSIENT
from tallystick.coordinates.values.binlog import FIRST_POSITION
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HEADER_EVENTS = 2
"""FORMAT_DESCRIPTION and PREVIOUS_GTIDS open a file; they belong to no group."""
PACKED_EVENTS = 2**14
"""Events that are packed together; as many at least, the newest of the log, are not."""
_EVENT_BYTES = 28
"""Bytes of an event that is not packed, at the most."""


# As the methods of arrays, but without a call of Python's.
_min, _max = np.minimum.reduce, np.maximum.reduce


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
        next_number: Of the file that follows it, 0 not known.
    """

    lineage: int
    file_number: int
    end: int = FIRST_POSITION
    previous: GtidSet | None = None
    holes: list[tuple[int, int]] = field(default_factory=list)
    is_doubtful: bool = False
    is_open_ended: bool = False
    next_number: int = 0
    _packed: list[PackedEvents] = field(default_factory=list)
    _ends: list[IntArray] = field(default_factory=list)
    _events: list[npt.NDArray[Any]] = field(default_factory=list)
    _sids: list[npt.NDArray[np.int32]] = field(default_factory=list)
    _gnos: list[IntArray] = field(default_factory=list)
    _count: int = 0
    _known_index: _Index | None = field(default=None, init=False, metadata=TRANSIENT)

    @property
    def following(self) -> int:
        """The number of the file that follows it, the next one if that is not known."""
        return self.next_number or self.file_number + 1

    # It grows

    def compact(self) -> None:
        """Bring each column of what is not packed into one array: so it is saved."""
        self._newest()

    def append(self, start: int, event_ends: IntArray, groups: BinlogGroups) -> int:
        """The next run of events, without a gap among themselves; returns how many are kept."""
        self.is_doubtful = self.is_doubtful or start < self.end
        if self.is_doubtful:
            return 0
        if start > self.end:
            self.skip_to(start)
        self.is_open_ended = False
        self._add(Events(event_ends, groups))
        if self._count >= 2 * PACKED_EVENTS:
            self._pack(2 * PACKED_EVENTS)
        return len(event_ends)

    def _add(self, events: Events) -> None:
        event_ends, groups = events
        self._ends.append(event_ends)
        if len(groups.gno):
            self._events.append(groups.event + self._count)
            self._sids.append(groups.sid)
            self._gnos.append(groups.gno)
        self._count += len(event_ends)
        if len(event_ends):
            self.end = int(event_ends[-1])

    def skip_to(self, position: int) -> None:
        """The events up to `position` were not seen."""
        self.holes.append((self.end, position))
        self.end = position

    def seal(self) -> None:
        """The file has ended: pack everything."""
        self._pack(1)

    def _pack(self, from_count: int) -> None:
        """Pack the oldest events while so many are not packed; where does not depend on blocks."""
        rest = self._newest()
        while len(rest.ends) >= from_count:
            oldest, rest = rest.split(PACKED_EVENTS)
            self._packed.append(PackedEvents.of(oldest))
        self._set(self._packed, rest)

    def _set(self, packed: list[PackedEvents], newest: Events) -> None:
        ends, (event, sid, gno) = newest
        self._packed, self._known_index = packed, None
        self._count = len(ends)
        self._ends = [ends.copy()]
        self._events, self._sids, self._gnos = [event.copy()], [sid.copy()], [gno.copy()]

    # What is remembered

    def _newest(self) -> Events:
        """What is not packed."""
        event = _joined(self._events, np.int64)
        groups = BinlogGroups(event, _joined(self._sids, np.int32), _joined(self._gnos, np.int64))
        return Events(_joined(self._ends, np.int64), groups)

    def _part(self, number: int) -> Events:
        """One of the packed parts, or, after them, what is not packed."""
        return unpacked(self._packed[number]) if number < len(self._packed) else self._newest()

    def _index(self) -> _Index:
        if self._known_index is None:
            self._known_index = _Index(
                np.array([part.last for part in self._packed], dtype=np.int64),
                _before(part.event_count for part in self._packed),
                _before(part.group_count for part in self._packed),
                sum(part.byte_count for part in self._packed),
            )
        return self._known_index

    @property
    def event_count(self) -> int:
        """How many events are remembered."""
        return int(self._index().events[-1]) + self._count

    @property
    def group_count(self) -> int:
        """How many groups are remembered; they are numbered from 0."""
        return int(self._index().groups[-1]) + sum(map(len, self._gnos))

    @property
    def byte_count(self) -> int:
        """About how many bytes of memory they take."""
        return self._index().byte_count + self._count * _EVENT_BYTES

    @property
    def has_anonymous_group(self) -> bool:
        """Whether a remembered group has no GTID."""
        packed = any(bool((part.sid < 0).any()) for part in self._packed)
        return packed or bool((self._newest().groups.sid < 0).any())

    def find_groups(
        self, positions: IntArray, side: Literal["left", "right"] = "left"
    ) -> npt.NDArray[np.int64]:
        """How many groups end before each position; side "right": at it or before."""
        found = np.empty(len(positions), dtype=np.int64)
        index = self._index()
        for part, which in _by_part(index.last, positions, "left"):
            within = self._part(part).count_groups(positions[which], side)
            found[which] = index.groups[part] + within
        return found

    def count_groups(self, position: int, side: Literal["left", "right"] = "left") -> int:
        """How many groups end before a position; side "right": at it or before."""
        index = self._index()
        part = int(index.last.searchsorted(position))
        return int(index.groups[part] + self._part(part).count_groups(position, side))

    def groups_at(self, numbers: npt.NDArray[Any]) -> GroupColumns:
        """Groups by their numbers."""
        end = np.empty(len(numbers), dtype=np.int64)
        sid = np.empty(len(numbers), dtype=np.int32)
        gno = np.empty(len(numbers), dtype=np.int64)
        before = self._index().groups
        for part, which in _by_part(before[1:], numbers, "right"):
            events, at = self._part(part), numbers[which] - before[part]
            end[which] = events.ends[events.groups.event[at]]
            sid[which] = events.groups.sid[at]
            gno[which] = events.groups.gno[at]
        return GroupColumns(end, sid, gno)

    def groups(self, first: int = 0, last: int | None = None) -> GroupColumns:
        """Groups by their numbers, from `first` up to and without `last`."""
        return self.groups_at(np.arange(first, self.group_count if last is None else last))

    def groups_after(self, position: int) -> Iterator[GroupColumns]:
        """The groups that end after a position, in order, in parts."""
        first = self.count_groups(position, "right")
        for last in (*self._index().groups[1:].tolist(), self.group_count):
            if last > first:
                yield self.groups(first, last)
                first = last

    def runs(self, count: int) -> list[GtidRuns]:
        """The GTIDs of the first `count` groups."""
        before = self._index().groups
        whole = int(before[1:].searchsorted(count, "right"))
        found = [part.runs() for part in self._packed[:whole]]
        rest = count - int(before[whole])
        if rest:
            ends, (event, sid, gno) = self._part(whole)
            found.append(Events(ends, BinlogGroups(event[:rest], sid[:rest], gno[:rest])).runs())
        return found

    def end_of_group(self, sid: int, gno: int) -> int | None:
        """Where the group of a GTID ends, None if it is not remembered."""
        for number in range(len(self._packed), -1, -1):
            ends, groups = self._part(number)
            found = ((groups.gno == gno) & (groups.sid == sid)).nonzero()[0]
            if len(found):
                return int(ends[groups.event[found[-1]]])
        return None

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
        known = self.is_known(positions)
        if not self.holes:
            return known
        is_end = np.zeros(len(positions), dtype=np.bool_)
        for part, which in _by_part(self._index().last, positions, "left"):
            ends = self._part(part).ends
            if len(ends):
                at = np.minimum(ends.searchsorted(positions[which]), len(ends) - 1)
                is_end[which] = ends[at] == positions[which]
        number = self.find_groups(positions)
        before = np.zeros(len(positions), dtype=np.int64)
        before[number > 0] = self.groups_at(number[number > 0] - 1).end
        for first, last in self.holes:
            known &= ~(is_end & (before < last) & (positions > first))
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
        part = int(self._index().last.searchsorted(position))
        ends, groups = self._part(part)
        at = int(ends.searchsorted(position))
        if at == len(ends) or ends[at] != position:
            return PositionKind.BEYOND if position > self.end else PositionKind.INSIDE_EVENT
        # What is named ends a group, as a rule: that is seen without the group's number.
        group = int(groups.event.searchsorted(at))
        if group < len(groups.event) and ends[groups.event[group]] == position:
            return PositionKind.GROUP_END
        return self._kind_of_event(int(self._index().events[part]) + at, position, limit)

    def _kind_of_event(self, index: int, position: int, limit: int) -> PositionKind:
        number = self.count_groups(position)
        end = self._group_end(number)
        if end == position:
            return PositionKind.GROUP_END
        if index < HEADER_EVENTS and not self._has_hole(0, position):
            return PositionKind.OUTSIDE
        if end is None or end > limit:
            # After the last group: a ROTATE, a STOP, or the begin of a group. Ends and groups alone
            # do not distinguish them.
            return PositionKind.OUTSIDE
        if self._has_hole(self._group_end(number - 1) or 0, end):
            return PositionKind.UNKNOWN
        return PositionKind.EVENT_END

    def _group_end(self, number: int) -> int | None:
        """Where a group ends, None if there is no such group."""
        if not 0 <= number < self.group_count:
            return None
        before = self._index().groups
        part = int(before[1:].searchsorted(number, "right"))
        ends, groups = self._part(part)
        return int(ends[groups.event[number - before[part]]])

    def _has_hole(self, first: int, last: int) -> bool:
        return any(a < last and b > first for a, b in self.holes)

    # What is taken back, and forgotten

    def truncate(self, end: int) -> Events:
        """Take back what ends after `end`, and return it."""
        whole = int(self._index().last.searchsorted(end, "right"))
        rest = joined([self._part(n) for n in range(whole, len(self._packed) + 1)])
        kept, lost = rest.split(int(rest.ends.searchsorted(end, "right")))
        self._set(self._packed[:whole], kept)
        self.holes = [(a, min(b, end)) for a, b in self.holes if a < end]
        self.end = min(self.end, end)
        return lost

    def copy(self) -> BinlogFile:
        """A file of its own with the same content."""
        copy = BinlogFile(self.lineage, self.file_number)
        copy._set(list(self._packed), self._newest())
        copy.end = self.end
        copy.previous = self.previous
        copy.holes = list(self.holes)
        copy.is_doubtful = self.is_doubtful
        copy.is_open_ended = self.is_open_ended
        copy.next_number = self.next_number
        return copy

    def give_back(self, lost: Events) -> None:
        """Undo the last `truncate`; a hole at the end of what was taken back stays forgotten."""
        self._add(lost)

    def oldest(self) -> tuple[int, int, int]:
        """The events that are forgotten next: how many, where they end, how many groups."""
        if not self._packed:
            ends, groups = self._newest()
            return self._count, int(ends[-1]) if self._count else 0, len(groups.gno)
        first = self._packed[0]
        return first.event_count, first.last, first.group_count

    def forget_oldest(self) -> None:
        """Forget the oldest events, which must not be all."""
        last = self._packed[0].last
        self.holes = [(0, last), *((a, b) for a, b in self.holes if b > last)]
        self._packed, self._known_index = self._packed[1:], None


class _Index(NamedTuple):
    """Of the packed parts of a file.

    Attributes:
        last: Where the last event of each ends.
        events, groups: How many are in the parts before each, and before what is not packed.
        byte_count: What they take.
    """

    last: IntArray
    events: IntArray
    groups: IntArray
    byte_count: int


def _before(counts: Iterable[int]) -> IntArray:
    """How many are before each part, and before what follows the last."""
    return np.array([0, *accumulate(counts)], dtype=np.int64)


def _by_part(
    bounds: IntArray, values: npt.NDArray[Any], side: Literal["left", "right"]
) -> Iterator[tuple[int, Any]]:
    """The parts that values belong to, each with which of them."""
    if not len(bounds) or not len(values):
        yield len(bounds), slice(None)
        return
    parts = bounds.searchsorted(values, side)
    first = int(_min(parts))
    if first == _max(parts):
        yield first, slice(None)
        return
    for part in np.flatnonzero(np.bincount(parts)).tolist():
        yield part, parts == part


def _joined(chunks: list[npt.NDArray[Any]], dtype: type[np.signedinteger[Any]]) -> Any:
    """All chunks as one array, which then replaces them."""
    if not chunks:
        return np.empty(0, dtype=dtype)
    if len(chunks) > 1:
        chunks[:] = [np.concatenate(chunks)]
    return chunks[0]
