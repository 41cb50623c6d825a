"""A history as one JSON message a record, in a topic of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Producer

from tallystick.producers.kafka_topics import Topic, ensure_topics


def produce_lines(
    servers: str, topic: str, partitions: int, lines: Iterable[tuple[str, str]]
) -> Counter[str]:
    """Write lines, keyed by their instances, and wait until all are acknowledged.

    Args:
        servers: Of the broker.
        topic: Made with so many partitions.
        partitions: How many.
        lines: Instance and JSON.

    Returns:
        How many lines each instance has.

    Raises:
        SystemExit: Some were not delivered.
    """
    ensure_topics(servers, [Topic(topic, partitions, {"cleanup.policy": "delete"})])
    producer = Producer(
        {"bootstrap.servers": servers, "compression.type": "lz4", "linger.ms": 20,
         "queue.buffering.max.messages": 1_000_000, "enable.idempotence": True}
    )  # fmt: skip
    failed: list[Any] = []

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            failed.append(error)

    counts: Counter[str] = Counter()
    for instance, line in lines:
        counts[instance] += 1
        while True:
            try:
                producer.produce(topic, line, instance, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(120) or failed:
        raise SystemExit(f"JSON messages were not delivered: {failed[:1]}")
    return counts
