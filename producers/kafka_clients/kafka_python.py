"""The protocol with kafka-python, which is pure Python."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, final
from uuid import UUID

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    SaslAuthenticationFailedError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)

from tallystick.coordinates.events.block_codec import block_headers
from tallystick.coordinates.values.errors import AuditError
from tallystick.producers.kafka_clients.errors import (
    BrokerRefusesError,
    BrokerUnreachableError,
    NotAllowedError,
    TopicError,
    missing_topic,
    not_allowed,
)
from tallystick.producers.kafka_clients.kafka_python_arguments import kafka_python_arguments
from tallystick.producers.kafka_clients.properties import KafkaProperties
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

FOREVER_MS = 2**31 - 1
REQUEST_MS = 30_000
_NOT_ALLOWED = (TopicAuthorizationFailedError, ClusterAuthorizationFailedError)


@final
class KafkaPythonClient:
    """The client with some properties.

    Args:
        properties: How brokers are spoken to.

    Raises:
        KafkaPropertyError: One cannot be given to kafka-python.
    """

    def __init__(self, properties: KafkaProperties) -> None:
        self._arguments = {"client_id": CLIENT_ID, **kafka_python_arguments(properties)}

    def _producer(self, bootstrap_servers: str, timeout_s: float | None, **more: Any) -> Any:
        timeout_ms = FOREVER_MS if timeout_s is None else int(timeout_s * 1000)
        try:
            return KafkaProducer(
                **self._arguments,
                bootstrap_servers=bootstrap_servers.split(","),
                acks="all",
                enable_idempotence=True,
                request_timeout_ms=min(max(1, timeout_ms // 2), REQUEST_MS),
                delivery_timeout_ms=timeout_ms,
                max_block_ms=timeout_ms,
                bootstrap_timeout_ms=min(timeout_ms, int(DEADLINE_S * 1000)),
                allow_auto_create_topics=False,
                **more,
            )
        except KafkaError as error:
            raise _no_answer(bootstrap_servers, error) from error

    def open_sink(
        self, settings: KafkaSettings, on_delivery: Callable[[Delivery], None] | None = None
    ) -> _Sink:
        """Open a sink for blocks.

        Raises:
            BrokerUnreachableError: No broker answers.
        """
        producer = self._producer(
            settings.bootstrap_servers,
            settings.delivery_timeout_s,
            compression_type=None if settings.compression == "none" else settings.compression,
            linger_ms=int(settings.linger_s * 1000),
            max_request_size=settings.message_bytes_max,
            batch_size=settings.message_bytes_max,
        )
        return _Sink(settings, on_delivery, producer)

    def open_reader(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        since_ms: int | None,
        after_gap: Literal["earliest", "latest"] = "earliest",
    ) -> _Reader:
        """Open a reader of all partitions of a topic."""
        try:
            consumer = KafkaConsumer(
                **self._arguments,
                bootstrap_servers=bootstrap_servers.split(","),
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset=after_gap,
                bootstrap_timeout_ms=int(DEADLINE_S * 1000),
            )
        except KafkaError as error:
            raise _no_answer(bootstrap_servers, error) from error
        return _Reader(bootstrap_servers, topic, since_ms, consumer)

    def open_admin(self, bootstrap_servers: str, timeout_s: float) -> _Admin:
        """Open a view of the topics."""
        try:
            client = KafkaAdminClient(
                **self._arguments,
                bootstrap_servers=bootstrap_servers.split(","),
                bootstrap_timeout_ms=int(timeout_s * 1000),
            )
        except KafkaError as error:
            raise _no_answer(bootstrap_servers, error) from error
        return _Admin(bootstrap_servers, client)

    def send(
        self,
        bootstrap_servers: str,
        topic: str,
        key: bytes,
        value: bytes,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Send one message and wait until it is acknowledged."""
        producer = self._producer(bootstrap_servers, DEADLINE_S)
        try:
            producer.send(topic, key=key, value=value, headers=[*headers]).get(DEADLINE_S + 1)
        except _NOT_ALLOWED as error:
            raise NotAllowedError("write", topic) from error
        except KafkaError as error:
            raise _no_answer(bootstrap_servers, error) from error
        finally:
            producer.close(timeout=DEADLINE_S)


def _no_answer(bootstrap_servers: str, error: KafkaError) -> AuditError:
    if isinstance(error, SaslAuthenticationFailedError | UnsupportedSaslMechanismError):
        return BrokerRefusesError(bootstrap_servers, error, "set the properties for its listener")
    return BrokerUnreachableError(bootstrap_servers, error)


@final
class _Sink:
    """Blocks: idempotent, in order; the bound on what is under way is kept here."""

    def __init__(
        self,
        settings: KafkaSettings,
        on_delivery: Callable[[Delivery], None] | None,
        producer: Any,
    ) -> None:
        self._settings = settings
        self._on_delivery = on_delivery
        self._failure: DeliveryError | None = None
        self._is_closed = False
        # The client's own thread reports; it queues without bound, so the bound is kept here.
        self._changed = threading.Condition()
        self._bytes_in_flight = 0
        self._watch = OutageWatch(
            settings.bootstrap_servers,
            settings.on_outage or (lambda _: None),
            lambda: self._bytes_in_flight > 0,
        )
        self._producer = producer
        self._watch.start()

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
            # Deliveries make room and so do failures; an outage holds the sender back.
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
        except KafkaError as error:
            with self._changed:
                self._bytes_in_flight -= len(value)
            raise self._not_delivered(block, error) from error

        def delivered(_metadata: Any) -> None:
            self._watch.delivered()
            latency_s = time.perf_counter() - handed_over
            if self._on_delivery is not None:
                self._on_delivery(Delivery(block.instance_id, len(block), len(value), latency_s))
            self._settled(len(value), None)

        def failed(error: BaseException) -> None:
            self._settled(len(value), self._not_delivered(block, error))

        future.add_callback(delivered)
        future.add_errback(failed)

    def _not_delivered(self, block: Block, error: BaseException) -> DeliveryError:
        topic = self._settings.topic
        reason = not_allowed("write") if isinstance(error, _NOT_ALLOWED) else error
        return DeliveryError(block, topic, None, reason)

    def _settled(self, value_bytes: int, failure: DeliveryError | None) -> None:
        with self._changed:
            self._bytes_in_flight -= value_bytes
            if failure is not None and self._failure is None:
                self._failure = failure
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait for every acknowledgement."""
        self._flush(None)

    def _flush(self, timeout_s: float | None) -> None:
        with self._changed:
            is_settled = self._changed.wait_for(
                lambda: not self._bytes_in_flight or self._failure is not None, timeout_s
            )
            if self._failure is not None:
                raise self._failure
            if not is_settled:
                raise UnacknowledgedError(self._settings, f"{self._bytes_in_flight} bytes")

    def close(self) -> None:
        """Wait a little, then take nothing more."""
        self._is_closed = True
        try:
            self._flush(CLOSE_S)
        finally:
            self._watch.close()
            self._producer.close(timeout=0)


@final
class _Reader:
    def __init__(
        self, bootstrap_servers: str, topic: str, since_ms: int | None, consumer: Any
    ) -> None:
        self._topic = topic
        self._ends: dict[TopicPartition, int] = {}
        self._consumer = consumer
        try:
            self._start(bootstrap_servers, since_ms)
        except _NOT_ALLOWED as error:
            self.close()
            raise NotAllowedError("read", self._topic) from error
        except KafkaError as error:
            self.close()
            raise _no_answer(bootstrap_servers, error) from error
        except TopicError:
            self.close()
            raise

    def _start(self, bootstrap_servers: str, since_ms: int | None) -> None:
        """Fixed here and not at the first read: what arrives in between is new."""
        numbers = self._consumer.partitions_for_topic(self._topic)
        if not numbers:
            raise missing_topic(self._topic, bootstrap_servers)
        partitions = [TopicPartition(self._topic, number) for number in sorted(numbers)]
        self._consumer.assign(partitions)
        found = (
            {}
            if since_ms is None
            else self._consumer.offsets_for_times(dict.fromkeys(partitions, since_ms))
        )
        ends = self._consumer.end_offsets(partitions)
        for partition in partitions:
            start = found.get(partition)
            if start is None:  # nothing of that time or later
                self._consumer.seek(partition, ends[partition])
                continue
            self._consumer.seek(partition, start.offset)
            if start.offset < ends[partition]:
                self._ends[partition] = ends[partition]

    @property
    def is_past_start(self) -> bool:
        """Judged by the consumer's position: the last offsets may have no message any more."""
        for partition, end in list(self._ends.items()):
            if self._consumer.position(partition) >= end:
                del self._ends[partition]
        return not self._ends

    def read(self, timeout_s: float) -> list[Message]:
        try:
            polled = self._consumer.poll(timeout_ms=int(timeout_s * 1000), max_records=100)
        except _NOT_ALLOWED as error:
            raise NotAllowedError("read", self._topic) from error
        except KafkaError as error:
            if error.retriable:  # the broker is away
                return []
            # As of a compression whose package is not installed.
            raise TopicError(f"topic {self._topic!r} cannot be read: {error}") from error
        return [
            Message(
                self._topic,
                found.partition,
                found.offset,
                found.key,
                found.value,
                found.headers,
            )
            for records in polled.values()
            for found in records
        ]

    def close(self) -> None:
        self._consumer.close()


@final
class _Admin:
    def __init__(self, bootstrap_servers: str, client: Any) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._client = client

    def partitions(self) -> dict[str, int]:
        try:
            topics = self._client.describe_topics()
        except KafkaError as error:
            raise _no_answer(self._bootstrap_servers, error) from error
        return {
            topic["name"]: len(topic["partitions"])
            for topic in topics
            if not topic["error_code"]
            and topic["partitions"]
            and all(partition["leader_id"] >= 0 for partition in topic["partitions"])
        }

    def topic_id(self, topic: str) -> str | None:
        try:
            [found] = self._client.describe_topics([topic])
        except KafkaError as error:
            raise _no_answer(self._bootstrap_servers, error) from error
        shown = found.get("topic_id")
        return None if found["error_code"] or not shown else topic_id_text(UUID(str(shown)))

    def describe(self, topics: Collection[str]) -> dict[str, TopicDescription]:
        try:
            found = self._client.describe_topics([*topics])
        except KafkaError as error:
            raise _no_answer(self._bootstrap_servers, error) from error
        return {
            topic["name"]: TopicDescription(
                len(topic["partitions"]),
                min(len(partition["replica_nodes"]) for partition in topic["partitions"]),
                min(len(partition["isr_nodes"]) for partition in topic["partitions"]),
                _operations(topic),
            )
            for topic in found
            if not topic["error_code"] and topic["partitions"]
        }

    def newest_ms(self, topic: str, partitions: int) -> int | None:
        asked = {TopicPartition(topic, n): OffsetSpec.MAX_TIMESTAMP for n in range(partitions)}
        try:
            found = self._client.list_partition_offsets(asked).values()
        except KafkaError as error:
            raise TopicError(f"topic {topic!r}: {error}") from error
        return max((one.timestamp for one in found if one.offset >= 0), default=None)

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
        new = {
            "num_partitions": partitions,
            "replication_factor": replication_factor,
            "configs": dict(settings),
        }
        try:
            self._client.create_topics(
                {topic: new}, timeout_ms=int(timeout_s * 1000), validate_only=is_tried_only
            )
        except TopicAlreadyExistsError:
            return False  # somebody else was quicker
        except _NOT_ALLOWED as error:
            raise NotAllowedError("create", topic) from error
        except KafkaError as error:
            raise TopicError(str(error)) from error
        return True

    def settings(self, topics: Collection[str], timeout_s: float) -> dict[str, dict[str, str]]:
        settings = {}
        for topic in topics:
            asked = [ConfigResource(ConfigResourceType.TOPIC, topic, None)]
            try:
                found = self._client.describe_configs(asked, config_filter="all")["topic"][topic]
            except KafkaError as error:
                raise TopicError(str(error)) from error
            if found:  # else this user may not see them
                settings[topic] = {name: one["value"] for name, one in found.items()}
        return settings

    def close(self) -> None:
        self._client.close()


def _operations(topic: Mapping[str, Any]) -> frozenset[str] | None:
    """What the broker says that this client may do; None if it does not say it."""
    found = topic.get("authorized_operations")
    return None if found is None else frozenset(found)
