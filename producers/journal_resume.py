"""What of a producer's journal is in the topic since a time: so a killed producer goes on."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from tallystick.coordinates.events._record_fields import read_server_record
from tallystick.coordinates.events.block_codec import decode_block
from tallystick.coordinates.events.journal import Block, Stream
from tallystick.coordinates.values.errors import JournalError
from tallystick.coordinates.values.topics import JOURNAL_TOPIC
from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.kafka_clients.errors import BrokerUnreachableError

if TYPE_CHECKING:
    from tallystick.producers.kafka_clients.protocol import KafkaClient

_DEADLINE_S = 15.0


def published_since(
    bootstrap_servers: str,
    instance_ids: Collection[str],
    since_ms: int,
    topic: str = JOURNAL_TOPIC,
    client: KafkaClient | None = None,
) -> dict[str, list[Block]]:
    """The blocks of some instances that were published at a time or later, in journal order.

    Args:
        bootstrap_servers: ``host:port``, comma-separated.
        instance_ids: Whose.
        since_ms: Milliseconds since 1970, of the producers' clocks.
        topic: The journal topic.
        client: None: the default one, without properties.

    Raises:
        BrokerUnreachableError: No broker answers, or not to the end.
        TopicError: The topic does not exist.
    """
    found: dict[str, list[Block]] = {instance_id: [] for instance_id in instance_ids}
    keys = {instance_id.encode(): instance_id for instance_id in instance_ids}
    opened = (client or kafka_client()).open_reader(bootstrap_servers, topic, since_ms=since_ms)
    deadline = time.monotonic() + _DEADLINE_S
    with closing(opened) as reader:
        while not reader.is_past_start:
            if time.monotonic() > deadline:
                raise BrokerUnreachableError(
                    bootstrap_servers, "the journal was not read to its end"
                )
            for message in reader.read(0.2):
                instance_id = keys.get(message.key or b"")
                if instance_id is None:
                    continue
                try:
                    block = decode_block(
                        message.value or b"", key=message.key, headers=message.headers
                    )
                    _check_server_records(block)
                except JournalError:
                    continue  # of somebody else: what is missing of our own is seen by its number
                found[instance_id].append(block)
    return found


def _check_server_records(block: Block) -> None:
    """Refuse a block with a record that cannot be read, as an audit leaves such records out."""
    columns = block.columns
    for index in np.flatnonzero(columns["stream"] == Stream.SERVER).tolist():
        number = int(columns["channel"][index])
        channel = block.channels[number] if number >= 0 else None
        read_server_record(int(columns["type"][index]), block.texts.get(index, "{}"), channel)
