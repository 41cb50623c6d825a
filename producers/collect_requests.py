"""Requests for a collection snapshot, as a producer reads them from the collect topic.

Every producer reads every request, so there is no consumer group: each one reads all partitions by
itself and commits nothing. What it missed while it was down it answers only if it is recent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, final

from tallystick.coordinates.events.collect_request import (
    CollectRequest,
    CollectRequestError,
    parse_request,
    shorten,
)
from tallystick.coordinates.events.epoch_claim import parse_claim
from tallystick.coordinates.values.topics import COLLECT_TOPIC
from tallystick.producers.kafka_clients.choice import kafka_client

if TYPE_CHECKING:
    from tallystick.producers.kafka_clients.protocol import KafkaClient, Message

PAUSE_S = 1.0
"""Who reads at least so often has a request as soon as it is there."""
FETCH_S = 2.0
"""After a pause of reading what came meanwhile has been read by then."""


@final
class CollectRequests:
    """The requests that arrive from now on, and the recent ones before.

    Those from before the first call of ``poll``, or of a pause without one, have waited.

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
        client: KafkaClient | None = None,
    ) -> None:
        """Go to the first request that is recent enough.

        Args:
            bootstrap_servers: ``host:port``, comma-separated.
            clock_us: Microseconds since 1970.
            age_max_s: Requests in the topic that were made longer before this start are skipped.
                Those that come later are answered, whatever the two clocks show.
            notice: Takes one line about a message that was skipped.
            topic: The collect topic.
            client: None: the default one, without properties.

        Raises:
            BrokerUnreachableError: No broker answers.
            TopicError: The topic does not exist.
        """
        self._oldest_us = max(0, clock_us() - int(age_max_s * 1_000_000))
        self._notice = notice
        self._reader = (client or kafka_client()).open_reader(
            bootstrap_servers,
            topic,
            since_ms=self._oldest_us // 1000,
            # Requests that were deleted while we were away are answered no more.
            after_gap="latest",
        )
        self.malformed = 0
        self.stale = 0
        self._read_at = self._since = float("-inf")
        """When they were read last, and since when they are read without a pause."""

    def poll(self, timeout_s: float) -> list[CollectRequest]:
        """Return the requests that arrived, after at most the time."""
        now = time.monotonic()
        if now - self._read_at > PAUSE_S:
            self._since = now
        may_be_old = not self._reader.is_past_start
        found = self._reader.read(timeout_s)
        self._read_at = time.monotonic()
        # Judged before the read: the last of those that waited are past the start after it.
        has_waited = may_be_old or now - self._since < FETCH_S
        recent = self._recent(found, may_be_old=may_be_old)
        return [replace(one, has_waited=has_waited) for one in recent]

    def _recent(self, messages: list[Message], *, may_be_old: bool) -> Iterator[CollectRequest]:
        for message in messages:
            where = message.where
            if parse_claim(message.value) is not None:
                continue
            try:
                request = parse_request(message.value)
            except CollectRequestError as error:
                self.malformed += 1
                self._notice(f"{where}: skipped, it is no request: {error}")
                continue
            if may_be_old and request.requested_at < self._oldest_us:
                self.stale += 1
                self._notice(
                    f"{where}: skipped, collection {shorten(request.collection_id)} was requested"
                    f" {(self._oldest_us - request.requested_at) / 1e6:.1f} s too long ago"
                )
                continue
            yield request

    def close(self) -> None:
        """Let go of the connections."""
        self._reader.close()
