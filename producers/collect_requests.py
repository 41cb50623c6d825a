"""Requests for a collection snapshot, as a producer reads them from the collect topic.

Every producer reads every request, so there is no consumer group: each one reads all partitions by
itself and commits nothing. What it missed while it was down it answers only if it is recent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, final

from tallystick.coordinates.values.errors import AuditError
from tallystick.producers.kafka_topics import COLLECT_TOPIC, BrokerUnreachableError, TopicError

REQUEST_BYTES_MAX = 2**20
_READ_DEADLINE_S = 15.0
_NOTICE_LENGTH_MAX = 120


class CollectRequestError(AuditError, ValueError):
    """A message of the collect topic that is no request."""


@dataclass(frozen=True, slots=True)
class CollectRequest:
    """Ask for one log_status row of each instance.

    Attributes:
        collection_id: Goes back with each row.
        requested_at: Microseconds since 1970 of the asking side's clock.
        instances: Who is asked; None: everybody.
    """

    collection_id: str
    requested_at: int
    instances: frozenset[str] | None = None

    def concerns(self, instance_id: str) -> bool:
        """Whether the instance is asked."""
        return self.instances is None or instance_id in self.instances


def parse_request(value: bytes | None) -> CollectRequest:
    """Read the value of a message; keys that are not known are left for later versions.

    Raises:
        CollectRequestError: It is no request.
    """
    if value is None or len(value) > REQUEST_BYTES_MAX:
        size = "no value" if value is None else f"{len(value)} bytes"
        raise CollectRequestError(
            f"expected a request of at most {REQUEST_BYTES_MAX} bytes: {size}"
        )
    try:
        request = json.loads(value.decode())
    except (ValueError, RecursionError) as error:
        raise CollectRequestError(
            f"expected a JSON object ({_short(str(error))}), got {_short(value)}"
        ) from None
    if not isinstance(request, dict):
        raise CollectRequestError(f"expected a JSON object, got {_short(value)}")
    collection_id = request.get("collection_id")
    if not isinstance(collection_id, str) or not collection_id:
        raise CollectRequestError(f"expected collection_id as text, got {_short(collection_id)}")
    requested_at = request.get("requested_at")
    if type(requested_at) is not int or not 0 <= requested_at < 2**63:
        raise CollectRequestError(
            f"expected requested_at as microseconds, got {_short(requested_at)}"
        )
    instances = request.get("instances")
    if instances is None:
        return CollectRequest(collection_id, requested_at)
    if not isinstance(instances, list) or not all(isinstance(name, str) for name in instances):
        raise CollectRequestError(f"expected instances as a list of text, got {_short(instances)}")
    return CollectRequest(collection_id, requested_at, frozenset(instances))


def encode_request(request: CollectRequest) -> bytes:
    """The value of a request's message."""
    body: dict[str, Any] = {
        "collection_id": request.collection_id,
        "requested_at": request.requested_at,
    }
    if request.instances is not None:
        body["instances"] = sorted(request.instances)
    return json.dumps(body, separators=(",", ":")).encode()


class _Reader(Protocol):
    def read(self, timeout_s: float) -> list[tuple[str, bytes | None]]:
        """Give what arrived as (where, value), after at most the time."""

    def close(self) -> None:
        """Let go of the connections."""


@final
class CollectRequests:
    """The requests that arrive from now on, and the recent ones before.

    Attributes:
        malformed: How many messages were no request.
        stale: How many requests were too old when they were read.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        clock_us: Callable[[], int],
        age_max_s: float,
        notice: Callable[[str], None],
        topic: str = COLLECT_TOPIC,
        client: str = "confluent-kafka",
    ) -> None:
        """Go to the first request that is recent enough.

        Args:
            bootstrap_servers: ``host:port``, comma-separated.
            clock_us: Microseconds since 1970.
            age_max_s: Requests that were made longer before this start are skipped.
            notice: Takes one line about a message that was skipped.
            topic: The collect topic.
            client: ``confluent-kafka`` or ``kafka-python``.

        Raises:
            BrokerUnreachableError: No broker answers.
            TopicError: The topic does not exist.
        """
        readers: dict[str, Callable[[str, str, int], _Reader]] = {
            "confluent-kafka": _ConfluentReader,
            "kafka-python": _KafkaPythonReader,
        }
        if client not in readers:
            raise ValueError(f"expected one of {', '.join(readers)}, got {client!r}")
        self._oldest_us = max(0, clock_us() - int(age_max_s * 1_000_000))
        self._notice = notice
        self._reader = readers[client](bootstrap_servers, topic, self._oldest_us // 1000)
        self.malformed = 0
        self.stale = 0

    def poll(self, timeout_s: float) -> list[CollectRequest]:
        """Give the requests that arrived, after at most the time."""
        return list(self._recent(self._reader.read(timeout_s)))

    def _recent(self, messages: list[tuple[str, bytes | None]]) -> Iterator[CollectRequest]:
        for where, value in messages:
            try:
                request = parse_request(value)
            except CollectRequestError as error:
                self.malformed += 1
                self._notice(f"{where}: skipped, it is no request: {error}")
                continue
            if request.requested_at < self._oldest_us:
                self.stale += 1
                self._notice(
                    f"{where}: skipped, collection {_short(request.collection_id)} was requested"
                    f" {(self._oldest_us - request.requested_at) / 1e6:.1f} s too long ago"
                )
                continue
            yield request

    def close(self) -> None:
        """Let go of the connections."""
        self._reader.close()


@final
class _ConfluentReader:
    def __init__(self, bootstrap_servers: str, topic: str, since_ms: int) -> None:
        from confluent_kafka import Consumer, KafkaException

        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                # Named because librdkafka insists; nothing is committed and nobody is joined.
                "group.id": "tallystick-collect",
                "enable.auto.commit": False,
                # A partition whose records have gone while we were away: only what is new.
                "auto.offset.reset": "latest",
                "log_level": 2,
            }
        )
        try:
            self._consumer.assign(self._starts(bootstrap_servers, since_ms))
        except KafkaException as error:
            self.close()
            raise BrokerUnreachableError(bootstrap_servers, error.args[0].str()) from error
        except TopicError:
            self.close()
            raise

    def _starts(self, bootstrap_servers: str, since_ms: int) -> list[Any]:
        from confluent_kafka import TopicPartition

        metadata = self._consumer.list_topics(self._topic, timeout=_READ_DEADLINE_S)
        found = metadata.topics[self._topic]
        if found.error is not None or not found.partitions:
            raise TopicError(f"topic {self._topic!r} does not exist at {bootstrap_servers!r}")
        starts = self._consumer.offsets_for_times(
            [TopicPartition(self._topic, number, since_ms) for number in found.partitions],
            timeout=_READ_DEADLINE_S,
        )
        for start in starts:
            if start.offset < 0:
                # Nothing that recent yet. The end is fixed here and not at the first read: what
                # arrives in between is new.
                start.offset = self._consumer.get_watermark_offsets(
                    start, timeout=_READ_DEADLINE_S
                )[1]
        return starts

    def read(self, timeout_s: float) -> list[tuple[str, bytes | None]]:
        messages = self._consumer.consume(num_messages=100, timeout=timeout_s)
        found = []
        for message in messages:
            # Errors here are of connections, which the client mends by itself.
            if message.error() is None:
                where = f"topic {self._topic!r}, partition {message.partition()}"
                found.append((f"{where}, offset {message.offset()}", message.value()))
        return found

    def close(self) -> None:
        self._consumer.close()


@final
class _KafkaPythonReader:
    def __init__(self, bootstrap_servers: str, topic: str, since_ms: int) -> None:
        from kafka import KafkaConsumer
        from kafka.errors import KafkaError

        self._topic = topic
        try:
            self._consumer = KafkaConsumer(
                bootstrap_servers=bootstrap_servers.split(","),
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="latest",
                bootstrap_timeout_ms=int(_READ_DEADLINE_S * 1000),
            )
        except KafkaError as error:
            raise BrokerUnreachableError(bootstrap_servers, error) from error
        try:
            self._start(bootstrap_servers, since_ms)
        except KafkaError as error:
            self.close()
            raise BrokerUnreachableError(bootstrap_servers, error) from error
        except TopicError:
            self.close()
            raise

    def _start(self, bootstrap_servers: str, since_ms: int) -> None:
        from kafka import TopicPartition

        numbers = self._consumer.partitions_for_topic(self._topic)
        if not numbers:
            raise TopicError(f"topic {self._topic!r} does not exist at {bootstrap_servers!r}")
        partitions = [TopicPartition(self._topic, number) for number in sorted(numbers)]
        self._consumer.assign(partitions)
        found = self._consumer.offsets_for_times(dict.fromkeys(partitions, since_ms))
        ends = self._consumer.end_offsets(partitions)
        for partition in partitions:
            start = found.get(partition)
            self._consumer.seek(partition, ends[partition] if start is None else start.offset)

    def read(self, timeout_s: float) -> list[tuple[str, bytes | None]]:
        polled = self._consumer.poll(timeout_ms=int(timeout_s * 1000), max_records=100)
        return [
            (
                f"topic {self._topic!r}, partition {partition.partition}, offset {record.offset}",
                record.value,
            )
            for partition, records in polled.items()
            for record in records
        ]

    def close(self) -> None:
        self._consumer.close()


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _NOTICE_LENGTH_MAX else f"{shown[:_NOTICE_LENGTH_MAX]}…"
