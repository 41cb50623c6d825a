"""Messages of the journal topic that were to be read and are gone.

Retention may pass messages before they are read, and a topic may be made anew: Spark then reads on
from what there is. What a micro-batch was to read is in its checkpoint, what it has read is in its
rows; the difference is a hole, which is named. A topic made anew with as many messages as the old
one has no such difference: it is known by its id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tallystick.coordinates.results import Observation, ObservationCode
from tallystick.coordinates.rules.observations import (
    TOPIC_MADE_ANEW,
    TOPIC_MESSAGES_GONE,
    TOPIC_PARTITION_GONE,
)
from tallystick.coordinates.state_codec import Bytes, encode, restore
from tallystick.streaming.doubts import doubt


@dataclass(frozen=True, slots=True)
class Read:
    """What was read of one partition: the first offset, and how many messages."""

    first: int
    count: int


@dataclass(frozen=True, slots=True)
class PlannedOffsets:
    """What a micro-batch was to read of one partition.

    Attributes:
        topic: The journal topic.
        partition: The partition's number.
        start: The first offset; None of a partition that was not there before.
        end: After the last one; None of a partition that is not there any more.
    """

    topic: str
    partition: int
    start: int | None
    end: int | None


@dataclass(eq=False)
class JournalTopic:
    """Which topic the offsets are of: one that is made anew has another id.

    Attributes:
        id: As the broker shows it; empty: not known yet.
    """

    id: str = ""

    def compare(self, topic: str, found: str | None) -> Iterator[Observation]:
        """An observation if the topic is another one than before; it is undecided.

        Args:
            topic: Its name.
            found: Its id, None not known.
        """
        if found is None:
            return
        expected, self.id = self.id, found
        if expected not in ("", found):
            at = f"topic {topic}, id {found}"
            data = {"topic": topic, "expected": expected, "found": found}
            yield doubt(ObservationCode.JOURNAL_GAP, at, TOPIC_MADE_ANEW, **data)

    def to_bytes(self) -> bytes:
        """The state."""
        return encode(JournalTopic, self)

    def restore(self, data: Bytes) -> None:
        """Go on from the state that ``to_bytes`` gave.

        Raises:
            StateVersionError: Another version of tallystick has written the bytes.
            StateDamagedError: They are cut short, or have changed.
        """
        restore(self, data, "the topic")


def holes(planned: Sequence[PlannedOffsets], read: Mapping[int, Read]) -> Iterator[Observation]:
    """An observation for each partition of which something was not read: it is undecided.

    Args:
        planned: What was to be read.
        read: What was, by partition.
    """
    for part in planned:
        # Of a partition that was added, everything is new.
        start = part.start or 0
        if part.end is None:
            yield _hole(part, start, None)
            continue
        found = read.get(part.partition, Read(part.end, 0))
        if found.first != start or found.count != part.end - start:
            yield _hole(part, start, found.first)


def _hole(part: PlannedOffsets, expected: int, found: int | None) -> Observation:
    data: dict[str, str | int] = {
        "topic": part.topic,
        "partition": part.partition,
        "expected": expected,
    }
    at = f"partition {part.partition}, offset {expected}"
    if found is None:
        return doubt(ObservationCode.JOURNAL_GAP, at, TOPIC_PARTITION_GONE, **data)
    return doubt(ObservationCode.JOURNAL_GAP, at, TOPIC_MESSAGES_GONE, **data, found=found)
