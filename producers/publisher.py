"""Where blocks go: sinks for tests and for Kafka, and the helper that decides when a block is full.

A sink promises that a block is acknowledged by all in-sync replicas when ``flush`` returns, that
the blocks of one instance arrive in the order they were sent, and that a block which cannot be
delivered is an error. Kafka clients are imported when a sink is made, so either can be missing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final

from tallystick.coordinates.events.block_codec import block_headers, encode_block
from tallystick.coordinates.values.errors import AuditError
from tallystick.producers.kafka_topics import JOURNAL_TOPIC, BrokerUnreachableError

if TYPE_CHECKING:
    from tallystick.coordinates.events.journal import Block, BlockBuilder

CLIENT_ID = "tallystick"
MESSAGE_BYTES_MAX = 1_000_000
"""Below what a broker takes as installed (message.max.bytes, 1 048 588), with room for headers."""
_MESSAGE_OVERHEAD_MAX = 2_000


class DeliveryError(AuditError):
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
        self, block: Block, topic: str, partition: int | None, reason: object, mend: str = ""
    ) -> None:
        where = f"topic {topic!r}" + ("" if partition is None else f", partition {partition}")
        super().__init__(
            f"{where}: {len(block)} records of instance {block.instance_id!r}, epoch {block.epoch},"
            f" from sequence {block.first_sequence}, were not delivered: {reason}{mend}"
        )
        self.topic = topic
        self.partition = partition
        self.instance_id = block.instance_id
        self.epoch = block.epoch
        self.first_sequence = block.first_sequence
        self.count = len(block)


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
        """Flush, then take nothing more."""


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
        delivery_timeout_s: After this a message that is not acknowledged has failed.
        compression: Kafka's name of a codec, or ``none``. Unset: lz4 with confluent-kafka, none
            with kafka-python, whose only codec without further packages costs more than it saves
            (``benchmarks/codec.py`` measures them).
    """

    bootstrap_servers: str
    topic: str = JOURNAL_TOPIC
    message_bytes_max: int = MESSAGE_BYTES_MAX
    in_flight_bytes_max: int = 64 * 2**20
    linger_s: float = 0.005
    delivery_timeout_s: float = 60.0
    compression: str | None = None


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
    value = encode_block(block)
    if len(value) + _MESSAGE_OVERHEAD_MAX <= message_bytes_max:
        yield block, value
    elif len(block) > 1:
        middle = len(block) // 2
        yield from split_to_size(block.take(0, middle), message_bytes_max, topic)
        yield from split_to_size(block.take(middle, len(block)), message_bytes_max, topic)
    else:
        raise DeliveryError(
            block,
            topic,
            None,
            f"it has {len(value)} bytes, a message at most {message_bytes_max}",
            ". Mend: raise the topic's max.message.bytes and the producer's limit of message bytes",
        )


@final
class ConfluentSink:
    """Blocks to Kafka through librdkafka: idempotent, in order, every delivery report looked at."""

    def __init__(
        self, settings: KafkaSettings, on_delivery: Callable[[Delivery], None] | None = None
    ) -> None:
        from confluent_kafka import Producer

        self._settings = settings
        self._on_delivery = on_delivery
        self._failure: DeliveryError | None = None
        self._is_closed = False
        self._producer = Producer(
            {
                "bootstrap.servers": settings.bootstrap_servers,
                "client.id": CLIENT_ID,
                "acks": "all",
                "enable.idempotence": True,
                # Where Java and kafka-python put a key: a journal stays in its partition whatever
                # client its producer uses.
                "partitioner": "murmur2_random",
                "compression.type": settings.compression or "lz4",
                "linger.ms": settings.linger_s * 1000,
                "message.max.bytes": settings.message_bytes_max,
                # One block is one message: without this, many small requests are in the way.
                "batch.size": settings.message_bytes_max,
                "queue.buffering.max.kbytes": max(1, settings.in_flight_bytes_max // 1024),
                "delivery.timeout.ms": int(settings.delivery_timeout_s * 1000),
                "allow.auto.create.topics": False,
                # Broker trouble shows as failed deliveries; librdkafka would also print it.
                "log_level": 2,
            }
        )

    def send(self, block: Block) -> None:
        """Hand over a block, in as many messages as it needs."""
        self._require_sound()
        if self._is_closed:
            raise ValueError("expected an open sink, this one was closed")
        settings = self._settings
        for piece, value in split_to_size(block, settings.message_bytes_max, settings.topic):
            self._produce(piece, value)
        self._producer.poll(0)
        self._require_sound()

    def _produce(self, block: Block, value: bytes) -> None:
        from confluent_kafka import KafkaException

        def report(error: Any, message: Any) -> None:
            self._report(block, len(value), error, message)

        while True:
            try:
                self._producer.produce(
                    self._settings.topic,
                    value=value,
                    key=block.instance_id.encode(),
                    headers=[*block_headers(block)],
                    on_delivery=report,
                )
            except BufferError:
                # The queue is full. Deliveries make room, and so do failures: each message has a
                # delivery timeout, so this ends.
                self._producer.poll(0.1)
                self._require_sound()
            except KafkaException as error:
                raise DeliveryError(block, self._settings.topic, None, error) from error
            else:
                return

    def _report(self, block: Block, value_bytes: int, error: Any, message: Any) -> None:
        if error is not None:
            if self._failure is None:  # the first is the cause, the others follow from it
                self._failure = DeliveryError(
                    block, message.topic(), message.partition(), error.str()
                )
        elif self._on_delivery is not None:
            self._on_delivery(
                Delivery(block.instance_id, len(block), value_bytes, message.latency())
            )

    def _require_sound(self) -> None:
        if self._failure is not None:
            raise self._failure

    def flush(self) -> None:
        """Wait for every delivery report."""
        # Each message is reported within its delivery timeout; the second covers the reporting.
        left = self._producer.flush(self._settings.delivery_timeout_s + 1)
        self._require_sound()
        if left:
            raise AuditError(
                f"topic {self._settings.topic!r} at {self._settings.bootstrap_servers!r}: {left}"
                " messages without a delivery report"
            )

    def close(self) -> None:
        """Flush, then take nothing more."""
        self._is_closed = True
        self.flush()


@final
class KafkaPythonSink:
    """Blocks to Kafka through kafka-python, with the promises of ``ConfluentSink``."""

    def __init__(
        self, settings: KafkaSettings, on_delivery: Callable[[Delivery], None] | None = None
    ) -> None:
        from kafka import KafkaProducer
        from kafka.errors import KafkaError

        self._settings = settings
        self._on_delivery = on_delivery
        self._kafka_error = KafkaError
        self._failure: DeliveryError | None = None
        self._is_closed = False
        # The client's own thread reports; it queues without bound, so the bound is kept here.
        self._changed = threading.Condition()
        self._bytes_in_flight = 0
        compression = settings.compression or "none"
        timeout_ms = int(settings.delivery_timeout_s * 1000)
        try:
            self._producer = KafkaProducer(
                bootstrap_servers=settings.bootstrap_servers.split(","),
                client_id=CLIENT_ID,
                acks="all",
                enable_idempotence=True,
                compression_type=None if compression == "none" else compression,
                linger_ms=int(settings.linger_s * 1000),
                max_request_size=settings.message_bytes_max,
                batch_size=settings.message_bytes_max,
                request_timeout_ms=max(1, timeout_ms // 2),
                delivery_timeout_ms=timeout_ms,
                max_block_ms=timeout_ms,
                bootstrap_timeout_ms=timeout_ms,
                allow_auto_create_topics=False,
            )
        except KafkaError as error:
            raise BrokerUnreachableError(settings.bootstrap_servers, error) from error

    def send(self, block: Block) -> None:
        """Hand over a block, in as many messages as it needs."""
        if self._is_closed:
            raise ValueError("expected an open sink, this one was closed")
        settings = self._settings
        for piece, value in split_to_size(block, settings.message_bytes_max, settings.topic):
            self._wait_for_room(len(value))
            self._produce(piece, value)

    def _wait_for_room(self, value_bytes: int) -> None:
        limit = self._settings.in_flight_bytes_max
        with self._changed:
            # Deliveries make room and so do failures, each within its delivery timeout.
            self._changed.wait_for(
                lambda: (
                    self._failure is not None
                    or not self._bytes_in_flight
                    or self._bytes_in_flight + value_bytes <= limit
                )
            )
            if self._failure is not None:
                raise self._failure
            self._bytes_in_flight += value_bytes

    def _produce(self, block: Block, value: bytes) -> None:
        handed_over = time.perf_counter()
        try:
            future = self._producer.send(
                self._settings.topic,
                value=value,
                key=block.instance_id.encode(),
                headers=block_headers(block),
            )
        except self._kafka_error as error:
            with self._changed:
                self._bytes_in_flight -= len(value)
            raise DeliveryError(block, self._settings.topic, None, error) from error

        def delivered(_metadata: Any) -> None:
            latency_s = time.perf_counter() - handed_over
            if self._on_delivery is not None:
                self._on_delivery(Delivery(block.instance_id, len(block), len(value), latency_s))
            self._settled(len(value), None)

        def failed(error: BaseException) -> None:
            self._settled(len(value), DeliveryError(block, self._settings.topic, None, error))

        future.add_callback(delivered)
        future.add_errback(failed)

    def _settled(self, value_bytes: int, failure: DeliveryError | None) -> None:
        with self._changed:
            self._bytes_in_flight -= value_bytes
            if failure is not None and self._failure is None:
                self._failure = failure
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait for every acknowledgement."""
        with self._changed:
            is_settled = self._changed.wait_for(
                lambda: not self._bytes_in_flight, self._settings.delivery_timeout_s + 1
            )
            if self._failure is not None:
                raise self._failure
            if not is_settled:
                raise AuditError(
                    f"topic {self._settings.topic!r} at {self._settings.bootstrap_servers!r}:"
                    f" {self._bytes_in_flight} bytes without an acknowledgement"
                )

    def close(self) -> None:
        """Flush, then take nothing more."""
        self._is_closed = True
        try:
            self.flush()
        finally:
            self._producer.close(timeout=self._settings.delivery_timeout_s)


CLIENTS: dict[str, Callable[..., EventSink]] = {
    "confluent-kafka": ConfluentSink,
    "kafka-python": KafkaPythonSink,
}


def open_sink(
    client: str, settings: KafkaSettings, on_delivery: Callable[[Delivery], None] | None = None
) -> EventSink:
    """A sink with one of the two clients.

    Args:
        client: ``confluent-kafka`` or ``kafka-python``.
        settings: How blocks go to Kafka.
        on_delivery: Called for each acknowledged message, maybe from a thread of the client.
    """
    if client not in CLIENTS:
        raise ValueError(f"expected one of {', '.join(CLIENTS)}, got {client!r}")
    return CLIENTS[client](settings, on_delivery)


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
