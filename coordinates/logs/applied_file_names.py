"""Which file of the source an applier names, where that is not the file it has come to."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from tallystick.coordinates.values.binlog import LogCoordinates

REMEMBERED = 64
FileName = tuple[str, int]
"""Base name and number."""
_NOT_KNOWN: FileName = ("", 0)


@dataclass(slots=True)
class AppliedFileNames:
    """The names that an applier keeps, by relay log coordinates.

    An applier without workers takes over what a ROTATE of the source names only between groups
    (``Relay_Source_Log_File``; MySQL manual: SHOW REPLICA STATUS). Where the receiver stopped
    within a group and another file follows, of the same source or another one, the ROTATE comes
    inside the group: until the next one the applier names the former file beside positions in the
    new one. An applier with workers gives the group up first, and takes the name over.

    Attributes:
        are_known: Whether that was seen from the first relay log file on.
        was_within: Whether the last ROTATE came within a group, None not known.
    """

    are_known: bool = False
    was_within: bool | None = None
    _named: list[tuple[int, int, str, int, str, int]] = field(default_factory=list)
    """From the end of a ROTATE on (number of the relay log file, position): the file that is named,
    and the one that it is in. Only where they may differ, and where they are the same again.
    """

    def rotated(self, end: tuple[int, int], former: FileName | None, to: FileName) -> None:
        """A ROTATE of the source; `was_within` says whether it came within a group.

        Args:
            end: Number of the relay log file and position.
            former: The file of the source that was copied before, None not known.
            to: The file that follows.
        """
        last = self._named[-1] if self._named else None
        is_taken_over = self.are_known if last is None else last[2:4] == last[4:]
        if self.was_within is False:
            named = to
        elif last is None or is_taken_over:
            named = former if is_taken_over and former is not None else _NOT_KNOWN
        else:
            named = last[2:4]
        if self.was_within is None and named != to:
            named = _NOT_KNOWN
        is_same = is_taken_over if named == to else last is not None and last[2:] == (*named, *to)
        if not is_same:
            self._named = [*self._named[1 - REMEMBERED :], (*end, *named, *to)]

    def in_its_file(self, at: LogCoordinates, source: LogCoordinates) -> LogCoordinates:
        """Source coordinates that were shown beside coordinates of the relay log."""
        place = self._place(at)
        if place and self._named[place - 1][2:4] == (source.base_name, source.file_number):
            return LogCoordinates(*self._named[place - 1][4:], source.position)
        return source

    def is_known(self, at: LogCoordinates) -> bool:
        """Whether what an applier names at coordinates of the relay log is known."""
        place = self._place(at)
        return self._named[place - 1][2:4] != _NOT_KNOWN if place else self.are_known

    def take_over(self, at: LogCoordinates) -> None:
        """What was shown at coordinates of the relay log is the file that it had come to."""
        place = self._place(at)
        if not place:
            self.are_known = True
            return
        last = self._named[place - 1]
        self._named[place - 1] = (*last[:2], *last[4:], *last[4:])

    def _place(self, at: LogCoordinates) -> int:
        return bisect_right(self._named, (at.file_number, at.position), key=lambda one: one[:2])
