"""Where in a server's binary log files a journal goes on that was broken off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple, final

from tallystick.coordinates.values.binlog import (
    EVENT_HEADER_LENGTH,
    MAGIC_LENGTH,
    parse_log_file_name,
)
from tallystick.producers.mysql.tail_state import TailState

STOP_LENGTH = EVENT_HEADER_LENGTH + 4
"""Of a STOP event with its checksum."""


class Happened(Enum):
    """What the files show to have happened since."""

    NOTHING = "nothing that is lost"
    PURGED = "files were purged that had not been read to their end"
    CLOSED = "the rest of a file could not be read: the server came back without a binary log"
    RESET = "the binary log began anew"


class Start(NamedTuple):
    """Where to go on, and what must be recorded first."""

    file: str
    position: int
    happened: Happened


def find_start(state: TailState, logs: Mapping[str, int]) -> Start:
    """The start of the next event that has not been recorded.

    A file that ends before its position was cut by a crash's recovery, which then opened another;
    one without a successor is another file of that name.

    Args:
        state: Where the journal goes on, in some file.
        logs: The files that there are, oldest first, with their sizes; at least one.
    """
    base_name, number = parse_log_file_name(state.file)
    numbers = {}
    for name in logs:
        base, found = parse_log_file_name(name)
        if base == base_name:
            numbers[found] = name
    following = next((numbers[found] for found in sorted(numbers) if found > number), None)
    size = logs.get(state.file)
    if size is not None:
        if state.ended_by and following is not None and size > state.position:
            is_stop = size - state.position <= STOP_LENGTH
            return Start(following, MAGIC_LENGTH, Happened.NOTHING if is_stop else Happened.CLOSED)
        if size > state.position or (size == state.position and following is None):
            return Start(state.file, state.position, Happened.NOTHING)
        if following is not None:
            # Read from its end, for what opened it shows whether it is the file that was followed.
            return Start(state.file, size, Happened.NOTHING)
    elif numbers and number < min(numbers):
        is_whole = state.ended_by and min(numbers) == number + 1
        happened = Happened.NOTHING if is_whole else Happened.PURGED
        return Start(numbers[min(numbers)], MAGIC_LENGTH, happened)
    return Start(next(iter(logs)), MAGIC_LENGTH, Happened.RESET)


@final
class FileOrder:
    """In which order the files of an index were written.

    That of their numbers, which begin anew where a start brought another log_bin.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._known: dict[str, int] = {}
        self._last = ("", 0)
        self._end = 0
        for name in names:
            base_name, number = parse_log_file_name(name)
            goes_on = not self._known or base_name == self._last[0]
            self._end += number - self._last[1] if goes_on else 1
            self._last = base_name, number
            self._known[name] = self._end

    def of(self, file: str) -> int:
        """The file's number, counted on over all names; of one purged or opened since, too."""
        known = self._known.get(file)
        if known is not None:
            return known
        base_name, number = parse_log_file_name(file)
        is_opened_since = base_name == self._last[0] and number > self._last[1]
        return self._end + number - self._last[1] if is_opened_since else number


@final
class OlderCopy:
    """Finds where a log ends that came back with an older copy of the data directory.

    A start opened the last of its files. Of those before, the newest that is a file of the log that
    was followed, or older than all that is known of that log, ends what the copy holds. After a
    RESET every file is younger.
    """

    def __init__(self) -> None:
        self._candidate: tuple[str, int] | None = None
        self._strange: set[str] = set()

    @property
    def is_awaited(self) -> bool:
        """Whether a candidate waits for the time when it was opened."""
        return self._candidate is not None

    def next_file(self, logs: Mapping[str, int]) -> tuple[str, int] | None:
        """The next candidate, and its end; None: there is no such copy."""
        names = [name for name in list(logs)[:-1] if name not in self._strange]
        self._candidate = (names[-1], logs[names[-1]]) if names else None
        return self._candidate

    def is_of(self, state: TailState, opened_s: int) -> bool:
        """Whether the candidate, opened then, is of the log that was followed, or older."""
        assert self._candidate is not None
        known = state.opened_s.get(self._candidate[0])
        if known is not None:
            return opened_s == known
        return opened_s < min(state.opened_s.values(), default=0)

    def refuse(self) -> None:
        """The candidate is of another log."""
        assert self._candidate is not None
        self._strange.add(self._candidate[0])
        self._candidate = None

    def forget(self) -> None:
        """It has been found, or there is none."""
        self._candidate = None
        self._strange.clear()
