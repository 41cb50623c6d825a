"""The last few events of one log: where they end, what they end, and what they carried.

A log_status row may name a position a little before the journal's end, and delivery may repeat
events; both need the recent past at event granularity, and only that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct

import numpy as np
import numpy.typing as npt

from tallystick.coordinates.state_codec import TRANSIENT
from tallystick.coordinates.values.binlog import FIRST_POSITION

COLUMN_COUNT = 11
pack_row = Struct(f"{COLUMN_COUNT}q").pack
"""One event as bytes: as quick to keep as it can be."""
_FRESH_BYTES_MAX = 2**18
FILE, START, END, MARK, TYPE, CHECKSUM, SID, GNO, SOURCE_FILE, SOURCE_END, TS = range(COLUMN_COUNT)


class Mark(IntEnum):
    """What ends where an event ends."""

    NOTHING = 0
    GROUP = 1
    HEADER = 2
    """PREVIOUS_GTIDS: the file's own head is complete."""
    FILE = 3
    """ROTATE or STOP, or an INCIDENT between groups."""
    FRAMING = 4
    """FORMAT_DESCRIPTION, or an event that only switches the source file of a relay log."""
    UNKNOWN = 5
    """Behind a break, before the next group opens: it may end a group or not."""


@dataclass(slots=True, eq=False)
class EventWindow:
    """The last ``limit`` events, oldest first, as rows of int64 (columns above)."""

    limit: int = 1024
    _rows: npt.NDArray[np.int64] = field(
        default_factory=lambda: np.empty((0, COLUMN_COUNT), dtype=np.int64)
    )
    _fresh: bytearray = field(default_factory=bytearray, metadata=TRANSIENT)
    has_forgotten: bool = False

    def compact(self) -> None:
        """Bring everything into the one array that is saved."""
        self.rows()

    def append(self, row: bytes) -> None:
        """Remember one event, as `pack_row` has it."""
        self._fresh += row
        if len(self._fresh) >= _FRESH_BYTES_MAX:
            self.rows()

    def extend(self, rows: npt.NDArray[np.int64]) -> None:
        """Remember many events in order."""
        kept = self.rows()
        self.has_forgotten |= len(kept) + len(rows) > self.limit
        self._rows = (
            rows[-self.limit :].copy()
            if len(rows) >= self.limit
            else np.concatenate((kept[len(rows) - self.limit :], rows))
            if len(kept) + len(rows) > self.limit
            else np.concatenate((kept, rows))
        )

    def rows(self) -> npt.NDArray[np.int64]:
        """All that is remembered."""
        if self._fresh:
            fresh = np.frombuffer(self._fresh, dtype=np.int64)
            self._fresh = bytearray()
            self.extend(fresh.reshape(-1, COLUMN_COUNT))
        return self._rows

    def clear(self) -> None:
        """Forget everything; what was before is not known any more."""
        self._fresh = bytearray()
        self._rows = self._rows[:0]
        self.has_forgotten = True

    def truncate(self, file_number: int, position: int) -> npt.NDArray[np.int64]:
        """Take away, and return, the events of ``file_number`` that end beyond ``position``."""
        rows = self.rows()
        is_gone = (rows[:, FILE] > file_number) | (
            (rows[:, FILE] == file_number) & (rows[:, END] > position)
        )
        self._rows = rows[~is_gone]
        gone: npt.NDArray[np.int64] = rows[is_gone]
        return gone

    def find_end(self, file_number: int, position: int) -> int | None:
        """Index of the event that ends exactly there, None when none is remembered."""
        rows = self.rows()
        last = len(rows) - 1
        if last >= 0 and rows[last, END] == position and rows[last, FILE] == file_number:
            return last
        hits = ((rows[:, END] == position) & (rows[:, FILE] == file_number)).nonzero()[0]
        return int(hits[-1]) if len(hits) else None

    def covers(self, file_number: int, position: int) -> bool:
        """Whether every event that ends beyond the position is remembered."""
        rows = self.rows()
        if not len(rows):
            return not self.has_forgotten
        first, start = int(rows[0, FILE]), int(rows[0, START])
        return (first, 0 if start == FIRST_POSITION else start) <= (file_number, position)

    def knows(self, file_number: int, position: int) -> bool:
        """Whether it is known what ends at the position: an event that is remembered, or none."""
        is_found = self.find_end(file_number, position) is not None
        return is_found or (
            self.covers(file_number, position) and not self.begins_at(file_number, position)
        )

    def begins_at(self, file_number: int, position: int) -> bool:
        """Whether the oldest remembered event starts there: what ends there is not remembered."""
        rows = self.rows()
        return len(rows) > 0 and (int(rows[0, FILE]), int(rows[0, START])) == (
            file_number,
            position,
        )

    def after(self, file_number: int, position: int) -> npt.NDArray[np.int64]:
        """The remembered events that end beyond the position."""
        rows = self.rows()
        is_later = (rows[:, FILE] > file_number) | (
            (rows[:, FILE] == file_number) & (rows[:, END] > position)
        )
        later: npt.NDArray[np.int64] = rows[is_later]
        return later

    def find_event(self, file_number: int, start: int) -> npt.NDArray[np.int64] | None:
        """The newest remembered event that starts there."""
        rows = self.rows()
        hits = ((rows[:, FILE] == file_number) & (rows[:, START] == start)).nonzero()[0]
        return rows[hits[-1]] if len(hits) else None

    def last_end_at_or_before(self, file_number: int, position: int) -> tuple[int, int] | None:
        """(file number, end) of the last event that ends at or before the position."""
        rows = self.rows()
        if len(rows):  # most often it is the newest one
            newest = int(rows[-1, FILE]), int(rows[-1, END])
            if newest <= (file_number, position):
                return newest
        earlier = (rows[:, FILE] < file_number) | (
            (rows[:, FILE] == file_number) & (rows[:, END] <= position)
        )
        hits = earlier.nonzero()[0]
        if not len(hits):
            return None
        row = rows[hits[-1]]
        return int(row[FILE]), int(row[END])

    def last_end_before(self, ts: int) -> tuple[int, int] | None:
        """(file number, end) of the last event that was read before a moment."""
        rows = self.rows()
        hits = (rows[:, TS] < ts).nonzero()[0]
        return (int(rows[hits[-1], FILE]), int(rows[hits[-1], END])) if len(hits) else None

    def time_anew(self, ts: int) -> None:
        """All was read before this moment, by another clock; until then nothing is known."""
        self._rows = self.rows().copy()
        self._rows[:, TS] = ts
