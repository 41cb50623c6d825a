"""What of a producer's journal is in the topic since a time: so a killed producer goes on."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from tallystick.coordinates.events._record_fields import read_server_record
from tallystick.coordinates.events.journal import Block, Stream
from tallystick.coordinates.values.errors import JournalError
from tallystick.coordinates.values.topics import JOURNAL_TOPIC
from tallystick.producers.journal_reader import written_since

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
    for block in written_since(
        bootstrap_servers, instance_ids, since_ms, topic, client, deadline_s=_DEADLINE_S
    ):
        # Of somebody else, if one cannot be read: what is missing of our own is seen by its number.
        with suppress(JournalError):
            _check_server_records(block)
            found[block.instance_id].append(block)
    return found


def _check_server_records(block: Block) -> None:
    """Refuse a block with a record that cannot be read, as an audit leaves such records out."""
    columns = block.columns
    for index in np.flatnonzero(columns["stream"] == Stream.SERVER).tolist():
        number = int(columns["channel"][index])
        channel = block.channels[number] if number >= 0 else None
        read_server_record(int(columns["type"][index]), block.texts.get(index, "{}"), channel)
