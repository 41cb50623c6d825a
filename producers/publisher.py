"""Where blocks go: the protocol of sinks, and the helper that decides when a block is full.

A sink promises that a block is acknowledged by all in-sync replicas when ``flush`` returns, that
the blocks of one instance arrive in the order they were sent, and that a block which cannot be
delivered is an error. ``kafka_clients`` has the sinks for Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final

from tallystick.coordinates.events._packed_block import RECORDS_MAX
from tallystick.coordinates.events.block_codec import encode_block
from tallystick.coordinates.values.topics import JOURNAL_TOPIC
from tallystick.producers.kafka_clients.errors import UndeliveredError

if TYPE_CHECKING:
    from tallystick.coordinates.events.journal import Block, BlockBuilder

CLIENT_ID = "tallystick"
CLOSE_S = 15.0
"""How long ``close`` waits for acknowledgements; who must not lose any flushes first."""
MESSAGE_BYTES_MAX = 1_000_000
"""Below what a broker takes as installed (message.max.bytes, 1 048 588), with room for headers."""
_MESSAGE_OVERHEAD_MAX = 2_000


class DeliveryError(UndeliveredError):
    """A block was not acknowledged: the journal has a gap there unless it is sent again.

    Attributes:
        topic: Where it was sent.
        partition: Where it was sent; None when it never got that far.
        instance_id: Whose journal.
        epoch: The journal's epoch.
        first_sequence: Sequence number of the block's first record.
        count: How many records it has.
    """

    def __init__(
        self, block: Block, topic: str, partition: int | None, reason: object, fix: str = ""
    ) -> None:
        where = f"topic {topic!r}" + ("" if partition is None else f", partition {partition}")
        super().__init__(
            f"{where}: {len(block)} records of instance {block.instance_id!r}, epoch {block.epoch},"
            f" from sequence {block.first_sequence}, were not delivered: {reason}{fix}"
        )
        self.topic = topic
        self.partition = partition
        self.instance_id = block.instance_id
        self.epoch = block.epoch
        self.first_sequence = block.first_sequence
        self.count = len(block)


class UnacknowledgedError(UndeliveredError):
    """What was sent is not acknowledged yet, and nobody waits any longer."""

    def __init__(self, settings: KafkaSettings, what: str) -> None:
        super().__init__(
            f"topic {settings.topic!r} at {settings.bootstrap_servers!r}: {what} without an"
            " acknowledgement"
        )


class EventSink(Protocol):
    """Where blocks go."""

    def send(self, block: Block) -> None:
        """Hand over a block; returns before it is delivered, waits while too many are under way.

        Raises:
            DeliveryError: An earlier block, or this one, cannot be delivered.
        """

    def flush(self) -> None:
        """Wait until everything sent is acknowledged.

        Raises:
            DeliveryError: Something was not.
        """

    def close(self) -> None:
        """Wait for ``CLOSE_S`` at most until all is acknowledged, and take nothing more.

        Raises:
            DeliveryError: Something cannot be delivered.
            UnacknowledgedError: Something was not delivered.
        """


@final
class MemorySink:
    """Keeps what it is sent.

    Attributes:
        blocks: In the order of sending.
    """

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.is_closed = False

    def send(self, block: Block) -> None:
        """Keep a block."""
        if self.is_closed:
            raise ValueError("expected an open sink, this one was closed")
        self.blocks.append(block)

    def flush(self) -> None:
        """Nothing is ever under way."""

    def close(self) -> None:
        """Take nothing more."""
        self.is_closed = True


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """How blocks go to Kafka.

    Attributes:
        bootstrap_servers: ``host:port``, comma-separated.
        topic: The journal's topic.
        message_bytes_max: Larger blocks are split; at most the topic's max.message.bytes.
        in_flight_bytes_max: ``send`` waits while more than this awaits acknowledgement.
        linger_s: How long a message may wait for others to share a request with.
        delivery_timeout_s: After this a message that is not acknowledged has failed; None: never,
            it is sent again until it is.
        on_outage: Called with a sentence when acknowledgements stop, and with None when they come
            again, from another thread.
        compression: Kafka's name of a codec, or ``none`` (``benchmarks/codec.py`` measures them).
    """

    bootstrap_servers: str
    topic: str = JOURNAL_TOPIC
    message_bytes_max: int = MESSAGE_BYTES_MAX
    in_flight_bytes_max: int = 64 * 2**20
    linger_s: float = 0.005
    delivery_timeout_s: float | None = None
    on_outage: Callable[[str | None], None] | None = None
    compression: str = "lz4"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One acknowledged message."""

    instance_id: str
    count: int
    value_bytes: int
    latency_s: float
    """From the hand-over to the client until the acknowledgement."""


def split_to_size(
    block: Block, message_bytes_max: int, topic: str
) -> Iterator[tuple[Block, bytes]]:
    """The block in pieces, each with its encoding, none larger than a message may be.

    Raises:
        DeliveryError: One record alone is too large.
    """
    value = encode_block(block) if len(block) <= RECORDS_MAX else None
    if value is not None and len(value) + _MESSAGE_OVERHEAD_MAX <= message_bytes_max:
        yield block, value
    elif value is None or len(block) > 1:
        middle = len(block) // 2
        yield from split_to_size(block.take(0, middle), message_bytes_max, topic)
        yield from split_to_size(block.take(middle, len(block)), message_bytes_max, topic)
    else:
        raise DeliveryError(
            block,
            topic,
            None,
            f"it has {len(value)} bytes, a message at most {message_bytes_max}",
            ". To fix: raise the topic's max.message.bytes and the producer's message limit",
        )


@final
class BlockLinger:
    """Sends what a builder collected once it is enough, or has waited long enough.

    Args:
        builder: Collects the records of one instance.
        sink: Where blocks go.
        block_size: How many records are enough.
        linger_s: How long a record may wait.
        clock: Seconds that never fall; tests pass their own.
    """

    def __init__(
        self,
        builder: BlockBuilder,
        sink: EventSink,
        *,
        clock: Callable[[], float],
        block_size: int = 4096,
        linger_s: float = 0.2,
    ) -> None:
        self._builder = builder
        self._sink = sink
        self._clock = clock
        self._block_size = block_size
        self._linger_s = linger_s
        self._waiting_since: float | None = None

    def poll(self) -> None:
        """Call this after adding records, and when ``due_in_s`` has passed."""
        if not len(self._builder):
            return
        if self._waiting_since is None:
            self._waiting_since = self._clock()
        if len(self._builder) >= self._block_size or self.due_in_s() == 0.0:
            self.flush()

    def due_in_s(self) -> float | None:
        """How long until what waits must go; None when nothing waits."""
        if self._waiting_since is None:
            return None
        return max(0.0, self._waiting_since + self._linger_s - self._clock())

    def flush(self) -> None:
        """Send what waits now; the sink itself is not flushed."""
        self._waiting_since = None
        if len(self._builder):
            self._sink.send(self._builder.build())
