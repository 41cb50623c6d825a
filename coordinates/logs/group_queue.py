"""The groups of a relay log that wait to be applied, and the last few that were.

A replica may be millions of groups behind. All but the newest are kept packed, in two to four bytes
a group where one source writes: a group's position in the source's log is as far from that in the
relay log as the group's before, and so is most of the rest.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallystick.coordinates.state_codec import TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Iterator

Rows = npt.NDArray[np.int64]
"""Groups in the order of the log, one a row, with the columns below."""

QUEUE_COLUMNS = 7
Q_FILE, Q_END, Q_SOURCE_FILE, Q_SOURCE_END, Q_SID, Q_GNO, Q_TYPE = range(QUEUE_COLUMNS)
"""``Q_FILE``, ``Q_END``: where a group ends in the relay log; ``Q_TYPE``: by which event."""
PACKED_GROUPS = 2**12
"""Groups that are packed together; as many at least, the newest, are not."""
BYTES_MAX = 2**23
"""What the packed groups of one channel may take: two million groups and more."""
KEPT_BEHIND = 64
"""So many groups are kept that were applied, and those that are packed with one that was not."""
_NO_ROWS: Rows = np.empty((0, QUEUE_COLUMNS), dtype=np.int64)
_OVERHEAD = 1024
"""Bytes of the objects around the arrays of one packed part."""


@dataclass(frozen=True, slots=True, eq=False)
class PackedGroups:
    """Consecutive groups in few bytes; never changed.

    Attributes:
        count: How many.
        first, last: The first and the last of them.
        steps: For each column from each group to the next, as narrow as these are; one value where
            all are equal. Of ``Q_SOURCE_END`` it is what its distance from ``Q_END`` changes by.
    """

    count: int
    first: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    steps: list[npt.NDArray[Any]]

    @classmethod
    def of(cls, rows: Rows) -> PackedGroups:
        """Pack two groups or more."""
        values = rows.copy()
        values[:, Q_SOURCE_END] -= values[:, Q_END]
        steps = [_narrow(column) for column in np.diff(values, axis=0).T]
        return cls(len(rows), rows[0].copy(), rows[-1].copy(), steps)

    def rows(self) -> Rows:
        """The groups."""
        rows = np.empty((self.count, QUEUE_COLUMNS), dtype=np.int64)
        rows[0] = self.first
        rows[0, Q_SOURCE_END] -= rows[0, Q_END]
        for number, steps in enumerate(self.steps):
            rows[1:, number] = steps
        np.cumsum(rows, axis=0, out=rows)
        rows[:, Q_SOURCE_END] += rows[:, Q_END]
        return rows

    @property
    def byte_count(self) -> int:
        """About how many bytes they take."""
        return _OVERHEAD + sum(steps.nbytes for steps in self.steps)


def _narrow(steps: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    low, high = steps.min(), steps.max()
    if low == high:
        steps = steps[:1]
    return steps.astype(np.promote_types(np.min_scalar_type(low), np.min_scalar_type(high)))


@dataclass(slots=True, eq=False)
class GroupQueue:
    """Groups in the order of the log, without a hole from the first to the last.

    Attributes:
        is_full: There was no room for a group, so that none is added until all of these are
            applied.
        dropped: Where the last group that is not kept any more ends in the relay log; -1: none.
    """

    is_full: bool = False
    dropped: tuple[int, int] = (-1, -1)
    _packed: list[PackedGroups] = field(default_factory=list)
    _rows: list[Rows] = field(default_factory=list)
    _single: list[tuple[int, ...]] = field(default_factory=list, metadata=TRANSIENT)
    """Added one by one, and not yet an array."""

    def compact(self) -> None:
        """Bring what is not packed into the one array that is saved."""
        self._newest()

    # It grows

    def add(self, group: tuple[int, ...]) -> None:
        """The next group."""
        self._single.append(group)

    def extend(self, rows: Rows) -> None:
        """The next groups."""
        self._take_single()
        self._extend(rows)

    def _extend(self, rows: Rows) -> None:
        if self.is_full or not len(rows):
            return
        self._rows.append(rows)
        if sum(map(len, self._rows)) < 2 * PACKED_GROUPS:
            return
        rest = self._joined()
        room = BYTES_MAX - sum(part.byte_count for part in self._packed)
        while len(rest) >= 2 * PACKED_GROUPS and not self.is_full:
            part, rest = PackedGroups.of(rest[:PACKED_GROUPS]), rest[PACKED_GROUPS:]
            self._packed.append(part)
            room -= part.byte_count
            self.is_full = room < 0
        # When it is full does not depend on how many groups come together.
        self._rows = [(rest[:PACKED_GROUPS] if self.is_full else rest).copy()]

    def _take_single(self) -> None:
        if self._single:
            rows, self._single = np.array(self._single, dtype=np.int64), []
            self._extend(rows)

    def clear(self) -> None:
        """What follows is not to be held against these groups, or not without a hole."""
        self._packed, self._rows, self._single = [], [], []
        self.is_full, self.dropped = False, (-1, -1)

    # What is in it

    def _newest(self) -> Rows:
        """What is not packed."""
        self._take_single()
        return self._joined()

    def _joined(self) -> Rows:
        if len(self._rows) > 1:
            self._rows = [np.concatenate(self._rows)]
        return self._rows[0] if self._rows else _NO_ROWS

    def _parts(self) -> Iterator[PackedGroups | Rows]:
        self._take_single()
        yield from self._kept()

    def _kept(self) -> Iterator[PackedGroups | Rows]:
        yield from self._packed
        yield self._joined()

    def __len__(self) -> int:
        return sum(part.count for part in self._packed) + len(self._newest())

    def rows(self) -> Rows:
        """All groups."""
        return _concatenated([_rows_of(part) for part in self._parts()])

    def count_until(self, file_number: int, position: int) -> int:
        """How many groups end at or before a position of the relay log."""
        here, count = (file_number, position), 0
        for part in self._parts():
            if isinstance(part, PackedGroups) and _end(part.last) <= here:
                count += part.count
            else:
                return count + _count_until(_rows_of(part), here)
        return count

    def until(self, file_number: int, position: int) -> Rows:
        """The groups that end at or before a position of the relay log."""
        here = file_number, position
        found: list[Rows] = []
        for part in self._parts():
            rows = _rows_of(part)
            found.append(rows[: _count_until(rows, here)])
            if len(found[-1]) < len(rows):
                break
        return _concatenated(found)

    def first_after(self, file_number: int, position: int) -> npt.NDArray[np.int64] | None:
        """The first group that ends after a position of the relay log, None if none does."""
        here = file_number, position
        for part in self._parts():
            if isinstance(part, PackedGroups) and _end(part.last) <= here:
                continue
            rows = _rows_of(part)
            count = _count_until(rows, here)
            return rows[count] if count < len(rows) else None
        return None

    def at(self, file_number: int, position: int) -> tuple[int, ...] | None:
        """The group that ends at a position of the relay log, None if none does."""
        here, single = (file_number, position), self._single
        if single and not self.is_full and single[0][:2] <= here:
            # Each write of an applier asks: to join what is new to the rest would copy that.
            index = bisect_left(single, here)  # a group begins with where it ends
            is_there = index < len(single) and single[index][:2] == here
            return single[index] if is_there else None
        for part in self._kept():
            if isinstance(part, PackedGroups) and _end(part.last) < here:
                continue
            rows = _rows_of(part)
            count = _count_until(rows, here)
            is_there = count > 0 and _end(rows[count - 1]) == here
            return tuple(rows[count - 1].tolist()) if is_there else None
        return None

    # What was applied

    def drop_until(self, file_number: int, position: int) -> None:
        """Forget the groups that end at or before the applied position, but for the last few."""
        applied = self.count_until(file_number, position)
        is_all = applied == len(self)
        surplus = max(0, applied - KEPT_BEHIND)
        while self._packed and self._packed[0].count <= surplus:
            part = self._packed.pop(0)
            surplus -= part.count
            self.dropped = _end(part.last)
        if surplus and not self._packed:
            newest = self._newest()
            self.dropped = _end(newest[surplus - 1])
            self._rows = [newest[surplus:].copy()]
        if is_all:
            self.is_full = False


def _rows_of(part: PackedGroups | Rows) -> Rows:
    return part.rows() if isinstance(part, PackedGroups) else part


def _concatenated(parts: list[Rows]) -> Rows:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _end(group: npt.NDArray[np.int64]) -> tuple[int, int]:
    return int(group[Q_FILE]), int(group[Q_END])


def _count_until(rows: Rows, here: tuple[int, int]) -> int:
    file_number, position = here
    files = rows[:, Q_FILE]
    first, last = files.searchsorted(file_number), files.searchsorted(file_number, "right")
    return int(first + rows[first:last, Q_END].searchsorted(position, "right"))
