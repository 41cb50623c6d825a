"""Requests for a collection snapshot, as a producer reads them from the collect topic.

Every producer reads every request, so there is no consumer group: each one reads all partitions by
itself and commits nothing. What it missed while it was down it answers only if it is recent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from tallystick.coordinates.values.errors import AuditError
from tallystick.coordinates.values.topics import COLLECT_TOPIC
from tallystick.producers.kafka_clients.choice import kafka_client

if TYPE_CHECKING:
    from tallystick.producers.kafka_clients.protocol import Message

REQUEST_BYTES_MAX = 2**20
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
        client: str | None = None,
    ) -> None:
        """Go to the first request that is recent enough.

        Args:
            bootstrap_servers: ``host:port``, comma-separated.
            clock_us: Microseconds since 1970.
            age_max_s: Requests that were made longer before this start are skipped.
            notice: Takes one line about a message that was skipped.
            topic: The collect topic.
            client: The client's name; None: the default one.

        Raises:
            BrokerUnreachableError: No broker answers.
            TopicError: The topic does not exist.
        """
        self._oldest_us = max(0, clock_us() - int(age_max_s * 1_000_000))
        self._notice = notice
        self._reader = kafka_client(client).open_reader(
            bootstrap_servers,
            topic,
            since_ms=self._oldest_us // 1000,
            # Requests that were deleted while we were away are answered no more.
            after_gap="latest",
        )
        self.malformed = 0
        self.stale = 0

    def poll(self, timeout_s: float) -> list[CollectRequest]:
        """Return the requests that arrived, after at most the time."""
        return list(self._recent(self._reader.read(timeout_s)))

    def _recent(self, messages: list[Message]) -> Iterator[CollectRequest]:
        for message in messages:
            where = message.where
            try:
                request = parse_request(message.value)
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


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _NOTICE_LENGTH_MAX else f"{shown[:_NOTICE_LENGTH_MAX]}…"
