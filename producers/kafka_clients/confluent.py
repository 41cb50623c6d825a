"""The protocol with confluent-kafka, which is librdkafka."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, final
from uuid import UUID

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not in its __all__
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tallystick.coordinates.events.block_codec import block_headers
from tallystick.coordinates.values.errors import AuditError
from tallystick.producers.kafka_clients.errors import (
    BrokerRefusesError,
    BrokerUnreachableError,
    KafkaPropertyError,
    NotAllowedError,
    TopicError,
    missing_topic,
    not_allowed,
)
from tallystick.producers.kafka_clients.properties import KafkaProperties, without_secrets
from tallystick.producers.kafka_clients.protocol import (
    DEADLINE_S,
    Message,
    TopicDescription,
    topic_id_text,
)
from tallystick.producers.outages import OutageWatch
from tallystick.producers.publisher import (
    CLIENT_ID,
    CLOSE_S,
    Delivery,
    DeliveryError,
    KafkaSettings,
    UnacknowledgedError,
    split_to_size,
)

if TYPE_CHECKING:
    from tallystick.coordinates.events.journal import Block

FLUSH_S = 0.1
QUIET = {"log_level": 2}
"""Broker trouble shows as failed calls and deliveries; librdkafka would also print it."""
_REFUSALS = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001  librdkafka's own codes are named so
        KafkaError._SSL,  # noqa: SLF001
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
    }
)
_NOT_ALLOWED = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)


@final
class _Events:
    """What librdkafka reports beside the calls: that a broker refuses this client.

    It tries on by itself, as with a broker that is away, so a message just is not delivered in
    time.
    """

    def __init__(self, properties: KafkaProperties) -> None:
        self._properties = properties
        self.refusal: str | None = None

    def __call__(self, error: KafkaError) -> None:
        """Take an event; called by polls."""
        if error.code() in _REFUSALS:
            self.refusal = without_secrets(error.str(), self._properties)

    def cause_of(self, error: KafkaError) -> str:
        """Why something failed."""
        return self.refusal or error.str()


@final
class ConfluentClient:
    """The client with some properties.

    Args:
        properties: How brokers are spoken to.
    """

    def __init__(self, properties: KafkaProperties) -> None:
        self._properties = properties

    def _made(self, kind: Callable[[dict[str, Any]], Any], **settings: Any) -> tuple[Any, _Events]:
        events = _Events(self._properties)
        named = {name.replace("_", "."): value for name, value in settings.items()}
        try:
            client = kind(
                {**QUIET, "client.id": CLIENT_ID, **self._properties, **named, "error_cb": events}
            )
        except KafkaException as error:
            reason = without_secrets(error.args[0].str(), self._properties)
            raise KafkaPropertyError("of librdkafka", reason) from None
        return client, events

    def _producer(self, servers: str, timeout_s: float | None, **more: Any) -> tuple[Any, _Events]:
        return self._made(
            Producer,
            bootstrap_servers=servers,
            acks="all",
            enable_idempotence=True,
            # 0 is never.
            delivery_timeout_ms=int((timeout_s or 0) * 1000),
            allow_auto_create_topics=False,
            **more,
        )

    def open_sink(
        self, settings: KafkaSettings, on_delivery: Callable[[Delivery], None] | None = None
    ) -> _Sink:
        """Open a sink for blocks."""
        producer, events = self._producer(
            settings.bootstrap_servers,
            settings.delivery_timeout_s,
            # Where Java and kafka-python put a key: a journal stays in its partition whatever
            # client its producer uses.
            partitioner="murmur2_random",
            compression_type=settings.compression,
            linger_ms=settings.linger_s * 1000,
            message_max_bytes=settings.message_bytes_max,
            # One block is one message: without this, many small requests are in the way.
            batch_size=settings.message_bytes_max,
            queue_buffering_max_kbytes=max(1, settings.in_flight_bytes_max // 1024),
        )
        return _Sink(settings, on_delivery, producer, events)

    def open_reader(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        since_ms: int | None,
        after_gap: Literal["earliest", "latest"] = "earliest",
    ) -> _Reader:
        """Open a reader of all partitions of a topic."""
        consumer, _ = self._made(
            Consumer,
            bootstrap_servers=bootstrap_servers,
            # Named because librdkafka insists; nothing is committed and no group is joined.
            group_id=CLIENT_ID,
            enable_auto_commit=False,
            auto_offset_reset=after_gap,
        )
        return _Reader(bootstrap_servers, topic, since_ms, consumer)

    def open_admin(self, bootstrap_servers: str, timeout_s: float) -> _Admin:
        """Open a view of the topics; whether a broker answers is seen when it is asked."""
        admin, _ = self._made(AdminClient, bootstrap_servers=bootstrap_servers)
        return _Admin(bootstrap_servers, timeout_s, admin)

    def send(
        self,
        bootstrap_servers: str,
        topic: str,
        key: bytes,
        value: bytes,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Send one message and wait until it is acknowledged."""
        failures: list[KafkaError] = []

        def report(error: KafkaError | None, _message: Any) -> None:
            if error is not None:
                failures.append(error)

        producer, events = self._producer(bootstrap_servers, DEADLINE_S)
        producer.produce(topic, key=key, value=value, headers=[*headers], on_delivery=report)
        left = producer.flush(DEADLINE_S + 1)
        if failures and failures[0].code() in _NOT_ALLOWED:
            raise NotAllowedError("write", topic)
        if failures or left:
            reason = events.cause_of(failures[0]) if failures else "no acknowledgement"
            raise BrokerUnreachableError(bootstrap_servers, reason)


@final
class _Sink:
    """Blocks: idempotent, in order, every delivery report checked."""

    def __init__(
        self,
        settings: KafkaSettings,
        on_delivery: Callable[[Delivery], None] | None,
        producer: Any,
        events: _Events,
    ) -> None:
        self._settings = settings
        self._on_delivery = on_delivery
        self._failure: DeliveryError | None = None
        self._is_closed = False
        self._producer = producer
        self._events = events
        self._polling = threading.Lock()
        self._watch = OutageWatch(
            settings.bootstrap_servers, settings.on_outage or (lambda _: None), self._is_waiting
        )
        self._watch.start()

    def send(self, block: Block) -> None:
        """Hand over a block, in as many messages as it needs."""
        self._require_sound()
        if self._is_closed:
            raise ValueError("expected an open sink, this one was closed")
        settings = self._settings
        for piece, value in split_to_size(block, settings.message_bytes_max, settings.topic):
            self._produce(piece, value)
        self._poll(0)
        self._require_sound()

    def _poll(self, timeout_s: float) -> None:
        """Take in delivery reports; by one thread at a time, as they are counted."""
        with self._polling:
            self._producer.poll(timeout_s)

    def _is_waiting(self) -> bool:
        self._poll(0)
        return len(self._producer) > 0

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
                # The queue is full: the sender waits, as long as an outage is.
                self._poll(0.1)
                self._require_sound()
            except KafkaException as error:
                # What was refused once is refused here, before it is sent.
                is_allowed = error.args[0].code() not in _NOT_ALLOWED
                reason = error if is_allowed else not_allowed("write")
                raise DeliveryError(block, self._settings.topic, None, reason) from error
            else:
                return

    def _report(self, block: Block, value_bytes: int, error: Any, message: Any) -> None:
        if error is not None:
            if self._failure is None:  # the first is the cause, the others follow from it
                reason = self._events.cause_of(error)
                if error.code() in _NOT_ALLOWED:
                    reason = not_allowed("write")
                self._failure = DeliveryError(block, message.topic(), message.partition(), reason)
            return
        self._watch.delivered()
        self._events.refusal = None
        if self._on_delivery is not None:
            self._on_delivery(
                Delivery(block.instance_id, len(block), value_bytes, message.latency())
            )

    def _require_sound(self) -> None:
        if self._failure is not None:
            raise self._failure
        # A refusal alone may be a broker that was stopped in the middle of a handshake.
        if self._watch.is_away and self._events.refusal is not None:
            raise BrokerRefusesError(
                self._settings.bootstrap_servers,
                self._events.refusal,
                "set the properties for its listener",
            )

    def flush(self) -> None:
        """Wait for every delivery report."""
        self._flush(math.inf)

    def _flush(self, timeout_s: float) -> None:
        """In small pieces, so that a signal is heard."""
        end = time.monotonic() + timeout_s
        while left := len(self._producer):
            with self._polling:
                self._producer.flush(FLUSH_S)
            self._require_sound()
            if time.monotonic() > end:
                raise UnacknowledgedError(self._settings, f"{left} messages")
        self._require_sound()

    def close(self) -> None:
        """Wait a little, then take nothing more."""
        self._is_closed = True
        try:
            self._flush(CLOSE_S)
        finally:
            self._watch.close()


@final
class _Reader:
    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        since_ms: int | None,
        consumer: Any,
    ) -> None:
        self._topic = topic
        self._consumer = consumer
        self._ends: dict[int, int] = {}
        try:
            self._consumer.assign(self._starts(bootstrap_servers, since_ms))
        except KafkaException as error:
            self.close()
            if error.args[0].code() in _NOT_ALLOWED:
                raise NotAllowedError("read", self._topic) from error
            raise BrokerUnreachableError(bootstrap_servers, error.args[0].str()) from error
        except AuditError:
            self.close()
            raise

    def _starts(self, bootstrap_servers: str, since_ms: int | None) -> list[Any]:
        """Fixed here and not at the first read: what arrives in between is new."""
        found = self._consumer.list_topics(self._topic, timeout=DEADLINE_S)
        partitions = found.topics[self._topic]
        if partitions.error is not None and partitions.error.code() in _NOT_ALLOWED:
            raise NotAllowedError("read", self._topic)
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
        if any(found.error() and found.error().code() in _NOT_ALLOWED for found in polled):
            raise NotAllowedError("read", self._topic)
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
    def __init__(self, bootstrap_servers: str, timeout_s: float, client: Any) -> None:
        self._timeout_s = timeout_s
        self._bootstrap_servers = bootstrap_servers
        self._client = client

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

    def topic_id(self, topic: str) -> str | None:
        asked = self._client.describe_topics(
            TopicCollection([topic]), request_timeout=self._timeout_s
        )
        try:
            found = asked[topic].result(self._timeout_s + 1).topic_id
        except KafkaException as error:
            if error.args[0].code() in (*_NOT_ALLOWED, KafkaError.UNKNOWN_TOPIC_OR_PART):
                return None
            raise BrokerUnreachableError(self._bootstrap_servers, error.args[0].str()) from error
        high, low = found.get_most_significant_bits(), found.get_least_significant_bits()
        return topic_id_text(UUID(int=high % 2**64 * 2**64 + low % 2**64))

    def describe(self, topics: Collection[str]) -> dict[str, TopicDescription]:
        asked = self._client.describe_topics(
            TopicCollection([*topics]),
            include_authorized_operations=True,
            request_timeout=self._timeout_s,
        )
        described = {}
        for name, future in asked.items():
            try:
                found = future.result(self._timeout_s + 1)
            except KafkaException as error:
                if error.args[0].code() in (*_NOT_ALLOWED, KafkaError.UNKNOWN_TOPIC_OR_PART):
                    continue
                reason = error.args[0].str()
                raise BrokerUnreachableError(self._bootstrap_servers, reason) from error
            operations = found.authorized_operations
            described[name] = TopicDescription(
                len(found.partitions),
                min(len(partition.replicas) for partition in found.partitions),
                min(len(partition.isr) for partition in found.partitions),
                None if operations is None else frozenset(one.name for one in operations),
            )
        return described

    def newest_ms(self, topic: str, partitions: int) -> int | None:
        newest: Any = OffsetSpec
        asked = {TopicPartition(topic, n): newest.max_timestamp() for n in range(partitions)}
        found = self._client.list_offsets(asked, request_timeout=self._timeout_s).values()
        try:
            offsets = [future.result(self._timeout_s + 1) for future in found]
        except KafkaException as error:
            raise TopicError(f"topic {topic!r}: {error.args[0].str()}") from error
        return max((one.timestamp for one in offsets if one.offset >= 0), default=None)

    def create(
        self,
        topic: str,
        partitions: int,
        replication_factor: int,
        settings: Mapping[str, str],
        timeout_s: float,
        *,
        is_tried_only: bool = False,
    ) -> bool:
        new = NewTopic(
            topic,
            num_partitions=partitions,
            replication_factor=replication_factor,
            config=dict(settings),
        )
        made = self._client.create_topics(
            [new],
            operation_timeout=timeout_s,
            request_timeout=timeout_s,
            validate_only=is_tried_only,
        )
        try:
            made[topic].result(timeout_s + 1)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False  # somebody else was quicker
            if error.args[0].code() in _NOT_ALLOWED:
                raise NotAllowedError("create", topic) from error
            raise TopicError(error.args[0].str()) from error
        return True

    def settings(self, topics: Collection[str], timeout_s: float) -> dict[str, dict[str, str]]:
        asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        found = self._client.describe_configs(asked, request_timeout=timeout_s)
        settings = {}
        for resource, future in found.items():
            try:
                entries = future.result(timeout_s + 1)
                settings[resource.name] = {name: one.value for name, one in entries.items()}
            except KafkaException as error:
                if error.args[0].code() not in _NOT_ALLOWED:
                    raise TopicError(error.args[0].str()) from error
        return settings

    def close(self) -> None:
        """Nothing to close: the client ends with its last reference."""
