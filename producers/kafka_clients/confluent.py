"""The protocol with confluent-kafka, which is librdkafka."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not in its __all__
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tallystick.coordinates.events.block_codec import block_headers
from tallystick.coordinates.values.errors import AuditError
from tallystick.producers.kafka_clients.errors import (
    BrokerUnreachableError,
    TopicError,
    missing_topic,
)
from tallystick.producers.kafka_clients.protocol import DEADLINE_S, Message
from tallystick.producers.publisher import (
    CLIENT_ID,
    Delivery,
    DeliveryError,
    KafkaSettings,
    split_to_size,
)

if TYPE_CHECKING:
    from tallystick.coordinates.events.journal import Block

_QUIET = {"log_level": 2}
"""Broker trouble shows as failed calls and deliveries; librdkafka would also print it."""


def _producer_settings(bootstrap_servers: str, timeout_s: float) -> dict[str, Any]:
    return {
        **_QUIET,
        "bootstrap.servers": bootstrap_servers,
        "acks": "all",
        "enable.idempotence": True,
        "delivery.timeout.ms": int(timeout_s * 1000),
        "allow.auto.create.topics": False,
    }


def open_sink(
    settings: KafkaSettings, on_delivery: Callable[[Delivery], None] | None = None
) -> _Sink:
    """Open a sink for blocks."""
    return _Sink(settings, on_delivery)


def open_reader(
    bootstrap_servers: str,
    topic: str,
    *,
    since_ms: int | None,
    after_gap: Literal["earliest", "latest"] = "earliest",
) -> _Reader:
    """Open a reader of all partitions of a topic."""
    return _Reader(bootstrap_servers, topic, since_ms, after_gap)


def open_admin(bootstrap_servers: str, timeout_s: float) -> _Admin:
    """Open a view of the topics; whether a broker answers is seen when it is asked."""
    return _Admin(bootstrap_servers, timeout_s)


def send(
    bootstrap_servers: str,
    topic: str,
    key: bytes,
    value: bytes,
    headers: Sequence[tuple[str, bytes]] = (),
) -> None:
    """Send one message and wait until it is acknowledged."""
    failures: list[str] = []

    def report(error: Any, _message: Any) -> None:
        if error is not None:
            failures.append(error.str())

    producer = Producer(_producer_settings(bootstrap_servers, DEADLINE_S))
    producer.produce(topic, key=key, value=value, headers=[*headers], on_delivery=report)
    left = producer.flush(DEADLINE_S + 1)
    if failures or left:
        raise BrokerUnreachableError(bootstrap_servers, *(failures[:1] or ["no acknowledgement"]))


@final
class _Sink:
    """Blocks: idempotent, in order, every delivery report checked."""

    def __init__(
        self, settings: KafkaSettings, on_delivery: Callable[[Delivery], None] | None = None
    ) -> None:
        self._settings = settings
        self._on_delivery = on_delivery
        self._failure: DeliveryError | None = None
        self._is_closed = False
        self._producer = Producer(
            {
                **_producer_settings(settings.bootstrap_servers, settings.delivery_timeout_s),
                "client.id": CLIENT_ID,
                # Where Java and kafka-python put a key: a journal stays in its partition whatever
                # client its producer uses.
                "partitioner": "murmur2_random",
                "compression.type": settings.compression,
                "linger.ms": settings.linger_s * 1000,
                "message.max.bytes": settings.message_bytes_max,
                # One block is one message: without this, many small requests are in the way.
                "batch.size": settings.message_bytes_max,
                "queue.buffering.max.kbytes": max(1, settings.in_flight_bytes_max // 1024),
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
class _Reader:
    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        since_ms: int | None,
        after_gap: str,
    ) -> None:
        self._topic = topic
        self._consumer = Consumer(
            {
                **_QUIET,
                "bootstrap.servers": bootstrap_servers,
                # Named because librdkafka insists; nothing is committed and no group is joined.
                "group.id": CLIENT_ID,
                "enable.auto.commit": False,
                "auto.offset.reset": after_gap,
            }
        )
        self._ends: dict[int, int] = {}
        try:
            self._consumer.assign(self._starts(bootstrap_servers, since_ms))
        except KafkaException as error:
            self.close()
            raise BrokerUnreachableError(bootstrap_servers, error.args[0].str()) from error
        except TopicError:
            self.close()
            raise

    def _starts(self, bootstrap_servers: str, since_ms: int | None) -> list[Any]:
        """Fixed here and not at the first read: what arrives in between is new."""
        found = self._consumer.list_topics(self._topic, timeout=DEADLINE_S)
        partitions = found.topics[self._topic]
        if partitions.error is not None or not partitions.partitions:
            raise missing_topic(self._topic, bootstrap_servers)
        starts = [
            TopicPartition(self._topic, number, since_ms or 0) for number in partitions.partitions
        ]
        if since_ms is not None:
            starts = self._consumer.offsets_for_times(starts, timeout=DEADLINE_S)
        for start in starts:
            _, end = self._consumer.get_watermark_offsets(start, timeout=DEADLINE_S)
            if since_ms is None or start.offset < 0:  # nothing of that time or later
                start.offset = end
            elif start.offset < end:
                self._ends[start.partition] = end
        return starts

    @property
    def is_past_start(self) -> bool:
        """Judged by the consumer's position: the last offsets may have no message any more."""
        asked = [TopicPartition(self._topic, number) for number in self._ends]
        for position in self._consumer.position(asked) if asked else ():
            if position.offset >= self._ends[position.partition]:
                del self._ends[position.partition]
        return not self._ends

    def read(self, timeout_s: float) -> list[Message]:
        polled: Any = self._consumer.consume(num_messages=100, timeout=timeout_s)
        return [
            Message(
                self._topic,
                found.partition(),
                found.offset(),
                found.key(),
                found.value(),
                found.headers() or (),
            )
            for found in polled
            # Errors here are of connections, which the client makes anew by itself.
            if found.error() is None
        ]

    def close(self) -> None:
        self._consumer.close()


@final
class _Admin:
    def __init__(self, bootstrap_servers: str, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._bootstrap_servers = bootstrap_servers
        self._client = AdminClient({**_QUIET, "bootstrap.servers": bootstrap_servers})

    def partitions(self) -> dict[str, int]:
        try:
            metadata = self._client.list_topics(timeout=self._timeout_s)
        except KafkaException as error:
            raise BrokerUnreachableError(self._bootstrap_servers, error.args[0].str()) from error
        return {
            name: len(topic.partitions)
            for name, topic in metadata.topics.items()
            if topic.error is None
            and topic.partitions
            and all(partition.leader >= 0 for partition in topic.partitions.values())
        }

    def create(
        self,
        topic: str,
        partitions: int,
        replication_factor: int,
        settings: Mapping[str, str],
        timeout_s: float,
    ) -> bool:
        new = NewTopic(
            topic,
            num_partitions=partitions,
            replication_factor=replication_factor,
            config=dict(settings),
        )
        made = self._client.create_topics(
            [new], operation_timeout=timeout_s, request_timeout=timeout_s
        )
        try:
            made[topic].result(timeout_s + 1)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False  # somebody else was quicker
            raise TopicError(error.args[0].str()) from error
        return True

    def cleanup_policies(self, topics: Collection[str], timeout_s: float) -> dict[str, str]:
        asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        found = self._client.describe_configs(asked, request_timeout=timeout_s)
        try:
            return {
                resource.name: future.result(timeout_s + 1)["cleanup.policy"].value
                for resource, future in found.items()
            }
        except KafkaException as error:
            raise TopicError(error.args[0].str()) from error

    def close(self) -> None:
        """Nothing to close: the client ends with its last reference."""
