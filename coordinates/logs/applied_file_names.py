"""Which file of the source an applier names, where that is not the file it has come to."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from tallystick.coordinates.values.binlog import LogCoordinates

REMEMBERED = 64
FileName = tuple[str, int]
"""Base name and number."""
_NOT_KNOWN: FileName = ("", 0)
_ANY: FileName = ("", 1)
_UNSEEN = (0, 0, *_NOT_KNOWN, *_ANY)


@dataclass(slots=True)
class AppliedFileNames:
    """The names that an applier keeps, by relay log coordinates.

    An applier without workers takes over what a ROTATE of the source names only between groups
    (``Relay_Source_Log_File``; MySQL manual: SHOW REPLICA STATUS). Where the receiver stopped
    within a group and another file follows, of the same source or another one, the ROTATE comes
    inside the group: until the next one the applier names the former file beside positions in the
    new one. An applier with workers gives the group up first, and takes the name over.
    """

    _named: list[tuple[int, int, str, int, str, int]] = field(default_factory=lambda: [_UNSEEN])
    """From a place of the relay log on (number of the file, position): the file that is named, and
    the one that the applier is in; both the same where it names what it is in.
    """

    @classmethod
    def from_the_start(cls) -> AppliedFileNames:
        """Of a relay log from its first file on: no group was left open before."""
        return cls(_named=[(0, 0, *_ANY, *_ANY)])

    def rotated(
        self,
        end: tuple[int, int],
        former: FileName | None,
        to: FileName,
        *,
        is_within: bool | None,
    ) -> None:
        """A ROTATE of the source.

        Args:
            end: Number of the relay log file and position.
            former: The file of the source that was copied before, None not known.
            to: The file that follows.
            is_within: Whether it comes within a group, None not known.
        """
        last = self._named[-1][2:]
        is_taken_over = last[:2] == last[2:]
        named = (former or _NOT_KNOWN) if is_taken_over else last[:2]
        if is_within is False:
            named = to
        elif is_within is None and named != to:
            named = _NOT_KNOWN
        if (named, to) != (last[:2], last[2:]) and not (is_taken_over and named == to):
            if len(self._named) == REMEMBERED:
                self._named[:2] = [_UNSEEN]
            self._named.append((*end, *named, *to))

    def in_its_file(self, at: LogCoordinates, source: LogCoordinates) -> LogCoordinates:
        """Source coordinates that were shown beside coordinates of the relay log."""
        named = self._named[self._index(at)][2:]
        if named[:2] == (source.base_name, source.file_number):
            return LogCoordinates(*named[2:], source.position)
        return source

    def is_known(self, at: LogCoordinates | None = None) -> bool:
        """Whether what an applier names is known, at relay log coordinates or at the end."""
        index = -1 if at is None else self._index(at)
        return self._named[index][2:4] != _NOT_KNOWN

    def take_over(self, at: LogCoordinates) -> None:
        """What was shown at coordinates of the relay log is the file that it had come to."""
        index = self._index(at)
        place = self._named[index]
        self._named[index] = (*place[:2], *place[4:], *place[4:])

    def _index(self, at: LogCoordinates) -> int:
        places = bisect_right(self._named, (at.file_number, at.position), key=lambda one: one[:2])
        return max(places - 1, 0)
