"""What of a producer's journal is in the topic behind a moment: so a killed producer goes on."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from tallystick.coordinates.events.block_codec import decode_block
from tallystick.coordinates.events.journal import Block
from tallystick.coordinates.values.errors import BlockError
from tallystick.producers.kafka_topics import JOURNAL_TOPIC, BrokerUnreachableError, TopicError

_DEADLINE_S = 15.0


def published_since(
    bootstrap_servers: str,
    instance_ids: Collection[str],
    since_ms: int,
    topic: str = JOURNAL_TOPIC,
) -> dict[str, list[Block]]:
    """The blocks of some instances that were published at a time or later, in journal order.

    Args:
        bootstrap_servers: ``host:port``, comma-separated.
        instance_ids: Whose.
        since_ms: Milliseconds since 1970, of the producers' clocks.
        topic: The journal topic.

    Raises:
        BrokerUnreachableError: No broker answers, or not to the end.
        TopicError: The topic does not exist.
    """
    from confluent_kafka import Consumer, KafkaException

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            # Named because librdkafka insists; nothing is committed and nobody is joined.
            "group.id": "tallystick-resume",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 2,
        }
    )
    try:
        return _read(consumer, bootstrap_servers, instance_ids, since_ms, topic)
    except KafkaException as error:
        raise BrokerUnreachableError(bootstrap_servers, error.args[0].str()) from error
    finally:
        consumer.close()


def _read(
    consumer: Any,
    bootstrap_servers: str,
    instance_ids: Collection[str],
    since_ms: int,
    topic: str,
) -> dict[str, list[Block]]:
    found: dict[str, list[Block]] = {instance_id: [] for instance_id in instance_ids}
    keys = {instance_id.encode(): instance_id for instance_id in instance_ids}
    ends = _assign(consumer, bootstrap_servers, since_ms, topic)
    deadline = time.monotonic() + _DEADLINE_S
    while ends:
        if time.monotonic() > deadline:
            raise BrokerUnreachableError(bootstrap_servers, "the journal was not read to its end")
        for message in consumer.consume(num_messages=100, timeout=0.2):
            if message.error() is not None:
                continue
            instance_id = keys.get(message.key())
            if instance_id is not None:
                try:
                    block = decode_block(
                        message.value() or b"", key=message.key(), headers=message.headers() or []
                    )
                except BlockError:
                    continue  # of somebody else: what is missing of our own is seen by its number
                found[instance_id].append(block)
        for place in consumer.position(consumer.assignment()):
            if place.partition in ends and place.offset >= ends[place.partition]:
                del ends[place.partition]
    return found


def _assign(consumer: Any, bootstrap_servers: str, since_ms: int, topic: str) -> dict[int, int]:
    """Go to the first message; give where each partition that has one ends."""
    from confluent_kafka import TopicPartition

    partitions = consumer.list_topics(topic, timeout=_DEADLINE_S).topics[topic]
    if partitions.error is not None or not partitions.partitions:
        raise TopicError(f"topic {topic!r} does not exist at {bootstrap_servers!r}")
    asked = [TopicPartition(topic, number, since_ms) for number in partitions.partitions]
    starts = [
        start
        for start in consumer.offsets_for_times(asked, timeout=_DEADLINE_S)
        if start.offset >= 0
    ]
    ends = {}
    for start in starts:
        _, high = consumer.get_watermark_offsets(start, timeout=_DEADLINE_S)
        if start.offset < high:
            ends[start.partition] = high
    consumer.assign(starts)
    return ends
