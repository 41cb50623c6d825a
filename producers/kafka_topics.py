"""The four topics: what they are called, how they are kept, and how they come to be."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tallystick.coordinates.values.errors import AuditError

JOURNAL_TOPIC = "tallystick.journal"
COLLECT_TOPIC = "tallystick.collect"
FINDINGS_TOPIC = "tallystick.findings"
DEADLETTER_TOPIC = "tallystick.deadletter"

_DAY_MS = 24 * 60 * 60 * 1000


class BrokerUnreachableError(AuditError):
    """No broker answers at the address."""

    def __init__(self, bootstrap_servers: str, reason: object) -> None:
        cause = " ".join(str(reason).split())[:200]
        super().__init__(
            f"No Kafka broker answers at {bootstrap_servers!r} ({cause}). Mend: start one there"
            " (tallystick broker start) or name another address"
        )
        self.bootstrap_servers = bootstrap_servers


class TopicError(AuditError):
    """A topic is missing, cannot be made, or is kept in a way that loses records."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it should be."""

    name: str
    partitions: int
    settings: Mapping[str, str]

    @property
    def is_compacted(self) -> bool:
        """Whether Kafka may drop all but the last record of a key."""
        return "compact" in self.settings["cleanup.policy"]


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as it is."""

    name: str
    partitions: int
    is_new: bool


def tallystick_topics(journal_partitions: int, prefix: str = "tallystick") -> tuple[Topic, ...]:
    """The topics of one deployment; another prefix keeps a second one apart."""
    return (
        # Keyed by instance: compaction would leave one block of each journal.
        Topic(
            f"{prefix}.journal",
            journal_partitions,
            {"cleanup.policy": "delete", "retention.ms": str(7 * _DAY_MS)},
        ),
        # One partition: every producer reads all requests, in their order.
        Topic(
            f"{prefix}.collect",
            1,
            {"cleanup.policy": "delete", "retention.ms": str(_DAY_MS)},
        ),
        # Keyed by finding_id: a finding that a retried micro-batch repeats replaces itself.
        Topic(f"{prefix}.findings", 1, {"cleanup.policy": "compact"}),
        Topic(
            f"{prefix}.deadletter",
            1,
            {"cleanup.policy": "delete", "retention.ms": str(30 * _DAY_MS)},
        ),
    )


def ensure_topics(
    bootstrap_servers: str,
    topics: tuple[Topic, ...],
    *,
    replication_factor: int = 1,
    create: bool = True,
    timeout_s: float = 15.0,
) -> tuple[TopicState, ...]:
    """Make the topics that are missing, and check those that are there.

    A topic that exists keeps its number of partitions: changing it would move journals between
    partitions, in the middle of their order.

    Args:
        bootstrap_servers: ``host:port``, comma-separated.
        topics: What should be there.
        replication_factor: Of new topics.
        create: False: only check.
        timeout_s: For everything together.

    Raises:
        BrokerUnreachableError: No broker answers.
        TopicError: A topic is missing, cannot be made, or would lose records.
    """
    from confluent_kafka.admin import AdminClient

    deadline = time.monotonic() + timeout_s
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})
    found = _partitions(admin, bootstrap_servers, timeout_s)
    missing = [topic for topic in topics if topic.name not in found]
    if missing and not create:
        raise TopicError(
            f"topic {missing[0].name!r} does not exist at {bootstrap_servers!r}. Mend: create the"
            " topics first"
        )
    made = {topic.name for topic in missing if _create(admin, topic, replication_factor, deadline)}
    while any(topic.name not in found for topic in topics):
        # Made, but not every broker has heard of it yet.
        if time.monotonic() > deadline:
            raise TopicError(
                f"topics not visible within {timeout_s} s at {bootstrap_servers!r}: "
                + ", ".join(topic.name for topic in topics if topic.name not in found)
            )
        time.sleep(0.02)
        found = _partitions(admin, bootstrap_servers, timeout_s)
    _require_kept([topic for topic in topics if topic.name not in made], admin, deadline)
    return tuple(TopicState(t.name, found[t.name], t.name in made) for t in topics)


def _partitions(admin: Any, bootstrap_servers: str, timeout_s: float) -> dict[str, int]:
    """How many partitions each topic has, of topics that are whole."""
    from confluent_kafka import KafkaException

    try:
        metadata = admin.list_topics(timeout=timeout_s)
    except KafkaException as error:
        raise BrokerUnreachableError(bootstrap_servers, error.args[0].str()) from error
    return {
        name: len(topic.partitions)
        for name, topic in metadata.topics.items()
        if topic.error is None
        and topic.partitions
        and all(partition.leader >= 0 for partition in topic.partitions.values())
    }


def _create(admin: Any, topic: Topic, replication_factor: int, deadline: float) -> bool:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # not in its __all__

    new = NewTopic(
        topic.name,
        num_partitions=topic.partitions,
        replication_factor=replication_factor,
        config=dict(topic.settings),
    )
    left_s = max(0.1, deadline - time.monotonic())
    try:
        admin.create_topics([new], operation_timeout=left_s, request_timeout=left_s)[
            topic.name
        ].result(left_s + 1)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False  # somebody else was quicker
        raise TopicError(
            f"cannot make topic {topic.name!r} with {topic.partitions} partitions and"
            f" replication factor {replication_factor}: {error.args[0].str()}"
        ) from error
    return True


def _require_kept(topics: list[Topic], admin: Any, deadline: float) -> None:
    """Refuse topics that Kafka would compact although each of their records counts."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not in its __all__
        ConfigResource,
        ResourceType,
    )

    topics = [topic for topic in topics if not topic.is_compacted]
    if not topics:
        return
    left_s = max(0.1, deadline - time.monotonic())
    asked = [ConfigResource(ResourceType.TOPIC, topic.name) for topic in topics]
    for resource, future in admin.describe_configs(asked, request_timeout=left_s).items():
        try:
            policy = future.result(left_s + 1)["cleanup.policy"].value
        except KafkaException as error:
            raise TopicError(
                f"cannot read the settings of topic {resource.name!r}: {error.args[0].str()}"
            ) from error
        if "compact" in policy:
            raise TopicError(
                f"topic {resource.name!r} has cleanup.policy {policy!r}, which drops records that"
                " count. Mend: set it to 'delete'"
            )
