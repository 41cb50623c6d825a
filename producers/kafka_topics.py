"""The four topics: what they are called, how they are kept, and how they come to be."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.kafka_clients.errors import NotAllowedError, TopicError

if TYPE_CHECKING:
    from tallystick.producers.kafka_clients.protocol import KafkaClient, TopicAdmin

_DAY_MS = 24 * 60 * 60 * 1000


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
        # Keyed by incident_id: the changes of an incident stay in their order.
        Topic(
            f"{prefix}.incidents",
            1,
            {"cleanup.policy": "delete", "retention.ms": str(30 * _DAY_MS)},
        ),
        # One partition: acknowledgements count in the order in which they were given.
        Topic(
            f"{prefix}.control",
            1,
            {"cleanup.policy": "delete", "retention.ms": str(30 * _DAY_MS)},
        ),
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
    client: KafkaClient | None = None,
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
        client: None: the default one, without properties.

    Raises:
        BrokerUnreachableError: No broker answers.
        TopicError: A topic is missing, cannot be made, or would lose records.
    """
    deadline = time.monotonic() + timeout_s
    with closing((client or kafka_client()).open_admin(bootstrap_servers, timeout_s)) as admin:
        found = admin.partitions()
        missing = [topic for topic in topics if topic.name not in found]
        if missing and not create:
            raise TopicError(
                f"topic {missing[0].name!r} does not exist at {bootstrap_servers!r}. To fix: create"
                " the topics first"
            )
        made = {t.name for t in missing if _create(admin, t, replication_factor, deadline)}
        while any(topic.name not in found for topic in topics):
            # Made, but not every broker has heard of it yet.
            if time.monotonic() > deadline:
                raise TopicError(
                    f"topics not visible within {timeout_s} s at {bootstrap_servers!r}: "
                    + ", ".join(topic.name for topic in topics if topic.name not in found)
                )
            time.sleep(0.02)
            found = admin.partitions()
        _require_kept([topic for topic in topics if topic.name not in made], admin, deadline)
    return tuple(TopicState(t.name, found[t.name], t.name in made) for t in topics)


def _create(admin: TopicAdmin, topic: Topic, replication_factor: int, deadline: float) -> bool:
    left_s = max(0.1, deadline - time.monotonic())
    try:
        return admin.create(
            topic.name, topic.partitions, replication_factor, topic.settings, left_s
        )
    except NotAllowedError as error:
        raise TopicError(
            f"topic {topic.name!r} does not exist, or this user may not see it, and it may not make"
            " it. To fix: grant DESCRIBE on it, or CREATE (docs/kafka.md)"
        ) from error
    except TopicError as error:
        raise TopicError(
            f"cannot make topic {topic.name!r} with {topic.partitions} partitions and"
            f" replication factor {replication_factor}: {error}"
        ) from error


def _require_kept(topics: list[Topic], admin: TopicAdmin, deadline: float) -> None:
    """Refuse topics that Kafka would compact although each of their records counts."""
    names = [topic.name for topic in topics if not topic.is_compacted]
    if not names:
        return
    try:
        settings = admin.settings(names, max(0.1, deadline - time.monotonic()))
    except TopicError as error:
        raise TopicError(f"cannot read the settings of {', '.join(names)}: {error}") from error
    for topic in topics:
        problem = compaction_problem(topic, settings.get(topic.name, {}))
        if problem is not None:
            raise TopicError(problem)


def compaction_problem(topic: Topic, settings: Mapping[str, str]) -> str | None:
    """What is wrong if Kafka would compact a topic although each of its records counts.

    Args:
        topic: As it should be.
        settings: As it is; empty where they may not be seen.
    """
    policy = settings.get("cleanup.policy", "")
    if topic.is_compacted or "compact" not in policy:
        return None
    return (
        f"topic {topic.name!r} has cleanup.policy {policy!r}, which drops records that count."
        " To fix: set it to 'delete'"
    )
