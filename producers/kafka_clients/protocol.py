"""What the producers ask of a Kafka client; ``confluent`` and ``kafka_python`` both do it."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol
from uuid import UUID

from tallystick.producers.publisher import Delivery, EventSink, KafkaSettings

DEADLINE_S = 15.0
"""How long a broker may take to answer before it counts as unreachable."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Collection[tuple[str, bytes]] = field(default=())

    @property
    def where(self) -> str:
        """Its topic, partition and offset, for a message to people."""
        return f"topic {self.topic!r}, partition {self.partition}, offset {self.offset}"


class TopicReader(Protocol):
    """All partitions of a topic; joins no group and commits nothing."""

    @property
    def is_past_start(self) -> bool:
        """Whether everything that was in the topic when the reader was made has been read."""

    def read(self, timeout_s: float) -> list[Message]:
        """Return what arrived, after at most the time; the client reconnects by itself.

        Raises:
            TopicError: A message cannot be decompressed.
        """

    def close(self) -> None:
        """Let go of the connections."""


def topic_id_text(found: UUID) -> str | None:
    """A topic's id as Kafka's own tools print it, None where a broker gives none."""
    if not found.int:
        return None
    return urlsafe_b64encode(found.bytes).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as brokers describe it.

    Attributes:
        partitions: How many.
        replicas: Of the partition that has the fewest.
        in_sync: Of them those in sync, of the partition that has the fewest.
        operations: What this client may do with it: ``READ``; None: the broker does not say.
    """

    partitions: int
    replicas: int
    in_sync: int
    operations: frozenset[str] | None


class TopicAdmin(Protocol):
    """Topics: which there are, how they are kept."""

    def partitions(self) -> dict[str, int]:
        """How many partitions each topic has, of topics whose partitions all have a leader.

        Raises:
            BrokerUnreachableError: No broker answers.
        """

    def topic_id(self, topic: str) -> str | None:
        """The id that the broker gave a topic when it was made, as Kafka's own tools print it.

        Returns:
            None if it is not known: the topic is not there, or the broker has no such ids.

        Raises:
            BrokerUnreachableError: No broker answers.
        """

    def describe(self, topics: Collection[str]) -> dict[str, TopicDescription]:
        """Those of the topics that are there and may be seen.

        Raises:
            BrokerUnreachableError: No broker answers.
        """

    def newest_ms(self, topic: str, partitions: int) -> int | None:
        """The latest timestamp of a topic's messages, in milliseconds since 1970.

        Args:
            topic: It is there.
            partitions: How many it has.

        Returns:
            None if it has no messages.

        Raises:
            TopicError: It cannot be read.
        """

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
        """Make a topic, or only learn whether it could be made; False if it is there already.

        Raises:
            TopicError: The broker refuses.
        """

    def settings(self, topics: Collection[str], timeout_s: float) -> dict[str, dict[str, str]]:
        """All settings of each topic whose settings this client may see.

        Raises:
            TopicError: They cannot be read.
        """

    def close(self) -> None:
        """Let go of the connections."""


class KafkaClient(Protocol):
    """One client library."""

    def open_sink(
        self, settings: KafkaSettings, on_delivery: Callable[[Delivery], None] | None = None
    ) -> EventSink:
        """Open a sink for blocks: idempotent, in order, acknowledged by all in-sync replicas.

        Args:
            settings: How blocks go to Kafka.
            on_delivery: Called for each acknowledged message, maybe from a thread of the client.
        """

    def open_reader(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        since_ms: int | None,
        after_gap: Literal["earliest", "latest"] = "earliest",
    ) -> TopicReader:
        """Open a reader.

        Args:
            bootstrap_servers: ``host:port``, comma-separated.
            topic: What is read.
            since_ms: Milliseconds since 1970: from the first message of that time or later on.
                None: only what arrives from now on.
            after_gap: Where reading goes on when the next messages were deleted meanwhile.

        Raises:
            BrokerUnreachableError: No broker answers.
            TopicError: The topic does not exist.
        """

    def open_admin(self, bootstrap_servers: str, timeout_s: float) -> TopicAdmin:
        """Open a view of the topics.

        Raises:
            BrokerUnreachableError: No broker answers.
        """

    def send(
        self,
        bootstrap_servers: str,
        topic: str,
        key: bytes,
        value: bytes,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Send one message; returns when all in-sync replicas have it.

        Raises:
            BrokerUnreachableError: It was not acknowledged.
        """
