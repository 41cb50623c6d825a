"""A run's end of Kafka, as the settings name it: topics, the journal's sink, asked collections."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tallystick import terminal
from tallystick.producers.collect_requests import CollectRequests
from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics
from tallystick.producers.publisher import KafkaSettings
from tallystick.require_broker import require_broker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.kafka_clients.protocol import KafkaClient
    from tallystick.producers.publisher import Delivery, EventSink
    from tallystick.settings import Settings


def client_of(settings: Settings) -> KafkaClient:
    """The Kafka client that the settings name, with their properties.

    Raises:
        KafkaPropertyError: It has nothing like one of them.
    """
    return kafka_client(settings.client, settings.kafka_properties)


def prepare_topics(settings: Settings, *names: str) -> None:
    """Return when a broker listens and has the topics.

    Args:
        settings: Which brokers, and how topics are made that are missing.
        names: Of topics, without the prefix: those that the command writes or reads.

    Raises:
        BrokerUnreachableError: No broker listens.
        BrokerRefusesError: One does, and does not accept this client.
        TopicError: A topic is missing, cannot be made, or would lose records.
    """
    require_broker(settings)
    topics = tallystick_topics(settings.journal_partitions, settings.topic_prefix)
    ensure_topics(
        settings.bootstrap_servers,
        tuple(topic for topic in topics if topic.name.rpartition(".")[2] in names),
        replication_factor=settings.replication_factor,
        client=client_of(settings),
    )


def kafka_settings(settings: Settings) -> KafkaSettings:
    """How blocks go to the journal's topic."""
    return KafkaSettings(
        bootstrap_servers=settings.bootstrap_servers, topic=f"{settings.topic_prefix}.journal"
    )


def open_journal(
    settings: Settings, on_delivery: Callable[[Delivery], None] | None = None
) -> EventSink:
    """The sink of the journal's topic; what is acknowledged is reported."""
    return client_of(settings).open_sink(kafka_settings(settings), on_delivery)


def open_requests(settings: Settings) -> CollectRequests:
    """The collections that are asked for, of which those too old are passed over."""
    return CollectRequests(
        settings.bootstrap_servers,
        clock_us=lambda: time.time_ns() // 1_000,
        age_max_s=settings.collect_deadline_s,
        notice=terminal.notice,
        topic=f"{settings.topic_prefix}.collect",
        client=client_of(settings),
    )
