"""Read the journal topic back, and ask for a collection: the way of commands that people type.

Nothing is committed and no group is joined: who reads here leaves no trace on the broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, final

from tallystick.coordinates.events.block_codec import decode_block
from tallystick.coordinates.events.collect_request import CollectRequest, encode_request
from tallystick.coordinates.events.journal import Block
from tallystick.coordinates.values.errors import BlockError
from tallystick.coordinates.values.topics import COLLECT_TOPIC, JOURNAL_TOPIC
from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.kafka_clients.errors import BrokerUnreachableError

if TYPE_CHECKING:
    from tallystick.producers.kafka_clients.protocol import KafkaClient, Message


@final
class JournalReader:
    """All partitions of the journal topic, from their beginnings or from now on.

    Attributes:
        unreadable: How many messages were no block.
        instances: Whose messages were read, whether they were asked for or not.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        notice: Callable[[str], None],
        topic: str = JOURNAL_TOPIC,
        from_beginning: bool = True,
        instance_id: str | None = None,
        client: KafkaClient | None = None,
    ) -> None:
        """Go to the first message.

        Args:
            bootstrap_servers: ``host:port``, comma-separated.
            notice: Takes one line about a message that was skipped.
            topic: The journal topic.
            from_beginning: False: only what arrives from now on.
            instance_id: Whose journal; None: everybody's.
            client: None: the default one, without properties.

        Raises:
            BrokerUnreachableError: No broker answers.
            TopicError: The topic does not exist.
        """
        self._notice = notice
        self._key = None if instance_id is None else instance_id.encode()
        self.unreadable = 0
        self.instances: set[str] = set()
        self._reader = (client or kafka_client()).open_reader(
            bootstrap_servers, topic, since_ms=0 if from_beginning else None
        )

    @property
    def is_past_start(self) -> bool:
        """Whether all that was in the topic when this reader was made has been read."""
        return self._reader.is_past_start

    def poll(self, timeout_s: float) -> list[Block]:
        """Return the blocks that arrived, after at most the time."""
        messages = self._reader.read(timeout_s)
        keys = {message.key for message in messages if message.key is not None}
        self.instances |= {key.decode("utf-8", "replace") for key in keys}
        return [
            block
            for message in messages
            if self._key is None or message.key == self._key
            if (block := self._decoded(message)) is not None
        ]

    def _decoded(self, message: Message) -> Block | None:
        try:
            # A message without a value is no block either.
            return decode_block(message.value or b"", key=message.key, headers=message.headers)
        except BlockError as error:
            self.unreadable += 1
            self._notice(f"{message.where}: skipped, it cannot be read: {error}")
            return None

    def close(self) -> None:
        """Let go of the connections."""
        self._reader.close()


def written_since(
    bootstrap_servers: str,
    instance_ids: Collection[str],
    since_ms: int,
    topic: str,
    client: KafkaClient | None,
    *,
    deadline_s: float,
) -> Iterator[Block]:
    """The blocks of some instances that are in the journal topic, in its order, to its present end.

    What cannot be read is passed over: it is whole blocks that are read, as a header alone may be
    anybody's.

    Args:
        bootstrap_servers: ``host:port``, comma-separated.
        instance_ids: Whose.
        since_ms: From messages of this time on, milliseconds since 1970.
        topic: The journal topic.
        client: None: the default one, without properties.
        deadline_s: How long that may take.

    Raises:
        BrokerUnreachableError: No broker answers, or not to the end.
        TopicError: The topic does not exist.
    """
    keys = {instance_id.encode() for instance_id in instance_ids}
    opened = (client or kafka_client()).open_reader(bootstrap_servers, topic, since_ms=since_ms)
    deadline = time.monotonic() + deadline_s
    with closing(opened) as reader:
        while not reader.is_past_start:
            if time.monotonic() > deadline:
                raise BrokerUnreachableError(
                    bootstrap_servers, "the journal was not read to its end"
                )
            for message in reader.read(0.2):
                if message.key in keys:
                    with suppress(BlockError):
                        yield decode_block(
                            message.value or b"", key=message.key, headers=message.headers or None
                        )


def send_request(
    bootstrap_servers: str,
    request: CollectRequest,
    topic: str = COLLECT_TOPIC,
    client: KafkaClient | None = None,
) -> None:
    """Ask for a collection; returns when the broker has acknowledged it.

    Raises:
        BrokerUnreachableError: The request was not acknowledged.
    """
    (client or kafka_client()).send(
        bootstrap_servers, topic, request.collection_id.encode(), encode_request(request)
    )
