"""How many messages of the journal topic a micro-batch takes: as many as a number of bytes allows.

Kafka shows how many messages there are, not how large, and Spark's limit counts messages and is set
when a query starts. So the limit follows from what the micro-batches before have shown, in steps of
a factor, and the query is started again when it is another one: seldom, as a fleet's messages keep
their size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from tallystick.streaming.checkpoint import LimitBegin

if TYPE_CHECKING:
    from tallystick.streaming.checkpoint import CheckpointLocation

FACTOR = 2
MESSAGES_MIN, MESSAGES_FIRST, MESSAGES_MAX = 16, 256, 16384
MESSAGES_OF_A_START = 1024
"""A run begins with at most as many for each part: of what has come since the run before nobody has
seen how large it is."""
BYTES_MAX = 128 << 20
"""Of a micro-batch, for each part of the job, as parts are audited side by side: large enough that
its fixed cost does not count, small enough that its messages fit into memory several times and what
they bring does not come late. So is ``MESSAGES_MAX``."""
MESSAGE_COST = 1024
"""What a message costs beside its bytes: as much as so many bytes."""
FULL_SHARE = 0.9
"""Spark fills a limited micro-batch but for a few messages: it shares them out among partitions."""


def next_limit(limit: int, messages: int, size: int, parts: int = 1) -> int:
    """The limit that suits messages of the size of a micro-batch's.

    Args:
        limit: The micro-batch was planned with this one.
        messages: How many it had.
        size: How many bytes they had.
        parts: How many parts are audited side by side.
    """
    messages_max, bytes_max = MESSAGES_MAX * parts, BYTES_MAX * parts
    if not messages:
        return limit
    cost = size / messages + MESSAGE_COST
    if messages >= FULL_SHARE * limit:
        while FACTOR * limit <= messages_max and FACTOR * limit * cost <= bytes_max:
            limit *= FACTOR
    # More than twice as much, or sizes that vary a little would start the query again and again.
    if messages * cost > 2 * bytes_max:
        while limit > MESSAGES_MIN and limit * cost > 2 * bytes_max:
            limit //= FACTOR
    return limit


def _of_a_start(limit: int, most: int) -> int:
    while limit > most:
        limit //= FACTOR
    return limit


@final
class MessageLimit:
    """The limit of each micro-batch, which is in the checkpoint location, as it is planned once.

    Args:
        checkpoint: The entered checkpoint location.
        fixed: The limit, if it never changes.
        parts: How many parts the job has.

    Raises:
        CheckpointError: What is in the checkpoint location is damaged.
    """

    def __init__(
        self, checkpoint: CheckpointLocation, fixed: int | None = None, parts: int = 1
    ) -> None:
        self._checkpoint = checkpoint
        self._fixed = fixed
        self._parts = parts
        self._begin = checkpoint.message_limit() or LimitBegin(0, MESSAGES_FIRST, MESSAGES_FIRST)
        self._wanted = fixed or _of_a_start(self._begin.limit, MESSAGES_OF_A_START * parts)

    @property
    def is_outgrown(self) -> bool:
        """Whether the query should be started again, with another limit."""
        return self._wanted != self._begin.limit

    def begin(self) -> int:
        """The limit of a query that is started now; what was planned before keeps its own."""
        if self.is_outgrown:
            first = self._checkpoint.last_planned() + 1
            self._begin = LimitBegin(first, self._wanted, self._begin.limit)
            self._checkpoint.save_message_limit(self._begin)
        return self._begin.limit

    def is_full(self, batch_id: int, messages: int) -> bool:
        """Whether a micro-batch is as large as it may be: there is more to read.

        The same if it is run again. ``messages``: how many it had.
        """
        limit = self._begin.limit if batch_id >= self._begin.first else self._begin.before
        return messages >= FULL_SHARE * limit

    def note(self, batch_id: int, messages: int, size: int) -> None:
        """A micro-batch had so many messages, of so many bytes."""
        if self._fixed is None and batch_id >= self._begin.first:
            self._wanted = next_limit(self._begin.limit, messages, size, self._parts)
