"""Where in a server's binary log files a journal goes on that was broken off."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from coordinates.binlog import MAGIC_LENGTH, parse_log_file_name
from producers.mysql.tail_place import TailPlace


class Happened(Enum):
    """What the files show to have happened since."""

    NOTHING = "nothing that is lost"
    PURGED = "files were purged that had not been read to their end"
    RESET = "the binary log began anew"


class Start(NamedTuple):
    """Where to go on, and what must be told first."""

    file: str
    position: int
    happened: Happened


def find_start(place: TailPlace, logs: Mapping[str, int]) -> Start:
    """The start of the next event that has not been told.

    A file that ends before the place was cut by a crash's recovery, which then opened another; one
    without a successor is another file of that name.

    Args:
        place: Where the journal stands, in some file.
        logs: The files that there are, oldest first, with their sizes; at least one.
    """
    base_name, number = parse_log_file_name(place.file)
    numbers = {}
    for name in logs:
        base, found = parse_log_file_name(name)
        if base == base_name:
            numbers[found] = name
    following = numbers.get(number + 1)
    size = logs.get(place.file)
    if size is not None:
        if size > place.position or (size == place.position and following is None):
            return Start(place.file, place.position, Happened.NOTHING)
        if following is not None:
            return Start(following, MAGIC_LENGTH, Happened.NOTHING)
    elif numbers and number < min(numbers):
        if following is not None and place.ended_by:
            return Start(following, MAGIC_LENGTH, Happened.NOTHING)
        return Start(numbers[min(numbers)], MAGIC_LENGTH, Happened.PURGED)
    return Start(next(iter(logs)), MAGIC_LENGTH, Happened.RESET)
