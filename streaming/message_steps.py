"""The messages of a micro-batch, in steps of so many bytes.

How many bytes a micro-batch has is not known when it is planned. What is more than a step is put
into a file, and read again in the order of the messages: Spark merges what it has spilled in any.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections import defaultdict
from itertools import accumulate
from typing import IO, TYPE_CHECKING, NamedTuple

from tallystick.streaming.instance_step import BlockRow, JournalKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Message = tuple[JournalKey, BlockRow]
ByJournal = dict[JournalKey, list[BlockRow]]


class _Place(NamedTuple):
    """Where a message is in the file."""

    partition: int
    offset: int
    sent_us: int
    size: int
    position: int
    length: int


def in_steps(messages: Iterable[Message], bytes_max: int) -> Iterator[tuple[ByJournal, bool]]:
    """The messages, each once, in as few steps as their sizes allow.

    Args:
        messages: In any order.
        bytes_max: Of the values that are held at once, but for one message.

    Yields:
        The messages of a step by journal, and whether it is the last. If there are several, the
        messages of a partition are in the order of their offsets, and those of different partitions
        about as they were sent.
    """
    # Spark passes to its workers where it puts its own such files.
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
    # It is on disk only when something is put aside.
    with tempfile.SpooledTemporaryFile(max_size=1, dir=local) as file:
        places: list[_Place] = []
        held: list[Message] = []
        size = 0
        for message in messages:
            held.append(message)
            size += _size(message)
            if size > bytes_max:
                places += _put_aside(held, file)
                held, size = [], 0
        if not places:
            if held:
                yield _by_journal(held), True
            return
        places += _put_aside(held, file)
        del held
        steps = list(_cut(_in_order(places), bytes_max))
        for step in steps:
            yield _by_journal(_read(place, file) for place in step), step is steps[-1]


def _size(message: Message) -> int:
    return len(message[1].value or b"")


def _by_journal(messages: Iterable[Message]) -> ByJournal:
    found: ByJournal = defaultdict(list)
    for journal, row in messages:
        found[journal].append(row)
    return found


def _put_aside(messages: Iterable[Message], file: IO[bytes]) -> Iterator[_Place]:
    for message in messages:
        _, row = message
        position = file.tell()
        length = file.write(pickle.dumps(message))
        sent_us = 0 if row.sent_us is None else row.sent_us
        yield _Place(row.partition, row.offset, sent_us, _size(message), position, length)


def _read(place: _Place, file: IO[bytes]) -> Message:
    file.seek(place.position)
    # No name leads to the file, so nobody else has written into it.
    message: Message = pickle.loads(file.read(place.length))  # noqa: S301
    return message


def _in_order(places: Iterable[_Place]) -> list[_Place]:
    of: dict[int, list[_Place]] = defaultdict(list)
    for place in sorted(places):
        of[place.partition].append(place)
    timed = [
        (at_us, place)
        for in_partition in of.values()
        for at_us, place in zip(
            accumulate((place.sent_us for place in in_partition), max), in_partition, strict=True
        )
    ]
    return [place for _, place in sorted(timed)]


def _cut(places: Iterable[_Place], bytes_max: int) -> Iterator[list[_Place]]:
    step: list[_Place] = []
    size = 0
    for place in places:
        if step and size + place.size > bytes_max:
            yield step
            step, size = [], 0
        step.append(place)
        size += place.size
    yield step
