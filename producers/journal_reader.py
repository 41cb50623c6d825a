"""Read the journal topic back, and ask for a collection: the way of commands that people type.

Nothing is committed and no group is joined: who reads here leaves no trace on the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from tallystick.coordinates.events.block_codec import decode_block
from tallystick.coordinates.events.journal import Block
from tallystick.coordinates.values.errors import BlockError
from tallystick.producers.collect_requests import CollectRequest, encode_request
from tallystick.producers.kafka_topics import (
    COLLECT_TOPIC,
    JOURNAL_TOPIC,
    BrokerUnreachableError,
    TopicError,
)

_DEADLINE_S = 15.0


@final
class JournalReader:
    """All partitions of the journal topic, from their beginnings or from now on.

    Attributes:
        unreadable: How many messages were no block.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        notice: Callable[[str], None],
        topic: str = JOURNAL_TOPIC,
        from_beginning: bool = True,
        instance_id: str | None = None,
    ) -> None:
        """Go to the first message.

        Args:
            bootstrap_servers: ``host:port``, comma-separated.
            notice: Takes one line about a message that was skipped.
            topic: The journal topic.
            from_beginning: False: only what arrives from now on.
            instance_id: Whose journal; None: everybody's.

        Raises:
            BrokerUnreachableError: No broker answers.
            TopicError: The topic does not exist.
        """
        from confluent_kafka import Consumer, KafkaException

        self._topic = topic
        self._notice = notice
        self._key = None if instance_id is None else instance_id.encode()
        self.unreadable = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                # Named because librdkafka insists; nothing is committed and nobody is joined.
                "group.id": "tallystick-journal",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 2,
            }
        )
        try:
            self._assign(bootstrap_servers, from_beginning)
        except KafkaException as error:
            self.close()
            raise BrokerUnreachableError(bootstrap_servers, error.args[0].str()) from error
        except TopicError:
            self.close()
            raise

    def _assign(self, bootstrap_servers: str, from_beginning: bool) -> None:
        from confluent_kafka import TopicPartition

        metadata = self._consumer.list_topics(self._topic, timeout=_DEADLINE_S)
        found = metadata.topics[self._topic]
        if found.error is not None or not found.partitions:
            raise TopicError(f"topic {self._topic!r} does not exist at {bootstrap_servers!r}")
        starts = []
        self._ends: dict[int, int] = {}
        for number in found.partitions:
            partition = TopicPartition(self._topic, number)
            low, high = self._consumer.get_watermark_offsets(partition, timeout=_DEADLINE_S)
            partition.offset = low if from_beginning else high
            starts.append(partition)
            if low < high and from_beginning:
                self._ends[number] = high
        self._consumer.assign(starts)

    @property
    def is_past_start(self) -> bool:
        """Whether all that was in the topic when this reader was made has been read."""
        return not self._ends

    def poll(self, timeout_s: float) -> list[Block]:
        """Give the blocks that arrived, after at most the time."""
        blocks = []
        for message in self._consumer.consume(num_messages=100, timeout=timeout_s):
            # Errors here are of connections, which the client mends by itself.
            if message.error() is None:
                block = self._read(message)
                if block is not None:
                    blocks.append(block)
        self._note_ends()
        return blocks

    def _read(self, message: Any) -> Block | None:
        if self._key is not None and message.key() != self._key:
            return None
        where = f"topic {self._topic!r}, partition {message.partition()}, offset {message.offset()}"
        try:
            return decode_block(
                # A message without a value is no block either.
                message.value() or b"",
                key=message.key(),
                headers=message.headers() or [],
            )
        except BlockError as error:
            self.unreadable += 1
            self._notice(f"{where}: skipped, it cannot be read: {error}")
            return None

    def _note_ends(self) -> None:
        """By the consumer's own place: what lies before an end may have no message any more."""
        from confluent_kafka import TopicPartition

        asked = [TopicPartition(self._topic, number) for number in self._ends]
        for place in self._consumer.position(asked) if asked else ():
            if place.offset >= self._ends[place.partition]:
                del self._ends[place.partition]

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()


def send_request(
    bootstrap_servers: str, request: CollectRequest, topic: str = COLLECT_TOPIC
) -> None:
    """Ask for a collection; returns when the broker has acknowledged it.

    Raises:
        BrokerUnreachableError: The request was not acknowledged.
    """
    from confluent_kafka import Producer

    failures: list[str] = []

    def report(error: Any, _message: Any) -> None:
        if error is not None:
            failures.append(error.str())

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "delivery.timeout.ms": int(_DEADLINE_S * 1000),
            "allow.auto.create.topics": False,
            "log_level": 2,
        }
    )
    producer.produce(
        topic,
        key=request.collection_id.encode(),
        value=encode_request(request),
        on_delivery=report,
    )
    left = producer.flush(_DEADLINE_S + 1)
    if failures or left:
        raise BrokerUnreachableError(bootstrap_servers, *(failures[:1] or ["no acknowledgement"]))
