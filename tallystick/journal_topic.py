"""A run's end of Kafka, as the settings name it: topics, the journal's sink, asked collections."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from tallystick import terminal
from tallystick.producers.collect_requests import CollectRequests
from tallystick.producers.journal_epochs import EpochClaims, next_epochs
from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.kafka_clients.errors import BrokerUnreachableError, missing_topic
from tallystick.producers.kafka_clients.protocol import DEADLINE_S
from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics
from tallystick.producers.publisher import KafkaSettings
from tallystick.require_broker import require_broker

if TYPE_CHECKING:
    from collections.abc import Collection

    from tallystick.producers.kafka_clients.protocol import KafkaClient
    from tallystick.producers.publisher import EventSink
    from tallystick.runs.producer_metrics import ProducerMetrics
    from tallystick.settings import Settings

PATIENCE_S = 60.0
FIRST_PAUSE_S = 1.0
ID_TIMEOUT_S = 2.0


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


def kafka_settings(settings: Settings, metrics: ProducerMetrics | None = None) -> KafkaSettings:
    """How blocks go to the journal's topic; an outage is noticed, and counted."""

    def report(sentence: str | None) -> None:
        if metrics is not None and sentence is not None:
            metrics.outages += 1
        terminal.notice(sentence or f"{settings.bootstrap_servers} acknowledges again")

    return KafkaSettings(
        bootstrap_servers=settings.bootstrap_servers,
        topic=f"{settings.topic_prefix}.journal",
        on_outage=report,
    )


def open_journal(settings: Settings, metrics: ProducerMetrics | None = None) -> EventSink:
    """The sink of the journal's topic; what is acknowledged is counted."""
    return client_of(settings).open_sink(
        kafka_settings(settings, metrics), None if metrics is None else metrics.delivered
    )


def send_patiently(settings: Settings, topic: str, key: bytes, value: bytes) -> None:
    """Send one message; while no broker answers, try again for ``PATIENCE_S``.

    Raises:
        BrokerUnreachableError: No broker has taken it in this time.
        TopicError: Nor was there the topic at its end.
    """
    end, pause_s = time.monotonic() + PATIENCE_S, FIRST_PAUSE_S
    while True:
        try:
            require_broker(settings)
            client_of(settings).send(settings.bootstrap_servers, topic, key, value)
            return
        except BrokerUnreachableError:
            if time.monotonic() + pause_s > end:
                require_topic(settings, topic)
                raise
            if pause_s == FIRST_PAUSE_S:
                terminal.notice(
                    f"no Kafka broker answers at {settings.bootstrap_servers!r};"
                    f" trying again for {PATIENCE_S:.0f} s"
                )
            time.sleep(pause_s)
            pause_s *= 2


def require_topic(settings: Settings, topic: str) -> None:
    """Return when a topic is there.

    To a client that sends, one that is missing looks like a broker that does not answer.

    Raises:
        BrokerUnreachableError: No broker answers.
        TopicError: It is missing.
    """
    require_broker(settings)  # the client would try for long where nobody listens
    opened = client_of(settings).open_admin(settings.bootstrap_servers, DEADLINE_S)
    with closing(opened) as admin:
        if topic not in admin.partitions():
            raise missing_topic(topic, settings.bootstrap_servers)


def journal_topic_id(settings: Settings) -> str | None:
    """The journal topic's id, None where nobody says it."""
    try:
        opened = client_of(settings).open_admin(settings.bootstrap_servers, ID_TIMEOUT_S)
        with closing(opened) as admin:
            return admin.topic_id(f"{settings.topic_prefix}.journal")
    except BrokerUnreachableError:
        return None


def epochs_after(settings: Settings, instance_ids: Collection[str]) -> dict[str, int]:
    """For each instance an epoch above all that the journal's topic has of it."""
    topic = f"{settings.topic_prefix}.journal"
    return next_epochs(settings.bootstrap_servers, instance_ids, topic, client_of(settings))


def open_claims(settings: Settings) -> EpochClaims:
    """What this process claims to write, and what others do."""
    topic = f"{settings.topic_prefix}.collect"
    return EpochClaims(settings.bootstrap_servers, topic=topic, client=client_of(settings))


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
