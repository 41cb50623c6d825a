"""Messages of the journal topic that were to be read and are gone.

Retention may pass messages before they are read, and a topic may be made anew: Spark then reads on
from what there is. What a micro-batch was to read is in its checkpoint, what it has read is in its
rows; the difference is a hole, which is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tallystick.coordinates.results import Observation, ObservationCode
from tallystick.coordinates.rules.observations import TOPIC_MESSAGES_GONE, TOPIC_PARTITION_GONE


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
    reason = TOPIC_PARTITION_GONE if found is None else TOPIC_MESSAGES_GONE
    data = {"topic": part.topic, "partition": part.partition, "expected": expected}
    return Observation(
        code=ObservationCode.JOURNAL_GAP,
        instance_id="",
        channel=None,
        at=f"partition {part.partition}, offset {expected}",
        reason=reason.code,
        data=data if found is None else data | {"found": found},
        rules=(),
        is_undecided=True,
        collection_id=None,
        epoch=0,
        sequence=0,
        ts=0,
    )
