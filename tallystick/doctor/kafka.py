"""Checks of Kafka: brokers, topics, their settings, rights on them. Nothing is written there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TypeVar

from tallystick.coordinates.values.errors import AuditError
from tallystick.doctor.checks import (
    Answer,
    Place,
    State,
    failed,
    failure_of,
    not_tried,
    passed,
    warning,
)
from tallystick.journal_topic import client_of
from tallystick.producers.kafka_clients.errors import TopicError
from tallystick.producers.kafka_clients.protocol import TopicAdmin, TopicDescription
from tallystick.producers.kafka_rights import RIGHTS
from tallystick.producers.kafka_topics import Topic, compaction_problem, tallystick_topics
from tallystick.producers.publisher import MESSAGE_BYTES_MAX
from tallystick.require_broker import require_broker, unreachable
from tallystick.settings import Settings

ADMIN_TIMEOUT_S = 8.0
CLOCKS_APART_S = 1.0
_KAFKA_FIX = "docs/kafka.md"
_FIX_CLOCK = "synchronize the clocks of this host and of the producers (NTP)"
_Found = TypeVar("_Found")
Described = Mapping[str, TopicDescription]


def check_kafka(place: Place, settings: Settings, roles: Sequence[str]) -> None:
    """Check what commands need of Kafka.

    Args:
        place: Takes the checks.
        settings: Which brokers, how they are spoken to, which topics.
        roles: Commands: their rights are checked, on the topics that they use.
    """
    prefix = settings.topic_prefix
    used = {right.topic for role in roles for right in RIGHTS[role]}
    topics = [
        topic
        for topic in tallystick_topics(settings.journal_partitions, prefix)
        if topic.name.removeprefix(f"{prefix}.") in used
    ]
    place.try_("brokers", lambda: _brokers(settings), fix=_KAFKA_FIX)
    described: Described = (
        place.try_("topics", lambda: _topics(settings, topics), needs="brokers", fix=_KAFKA_FIX)
        or {}
    )
    there = [topic for topic in topics if topic.name in described]
    place.try_(
        "topic settings",
        lambda: _topic_settings(settings, there, described),
        needs="topics",
        fix=_KAFKA_FIX,
    )
    for role in roles:
        rights = partial(_rights, role, described, prefix)
        place.try_(f"rights of {role}", rights, needs="topics", fix=_KAFKA_FIX)
    place.try_(
        "message times",
        lambda: _times(settings, there, described),
        needs="topics",
        fix=_KAFKA_FIX,
    )


def _brokers(settings: Settings) -> Answer:
    require_broker(settings)
    properties = settings.kafka_properties
    addresses = settings.bootstrap_servers.split(",")
    away = {}
    for address in addresses:
        reason = unreachable(address, properties)
        if reason is not None:
            away[address] = reason
    if away:
        named = ", ".join(f"{address} ({reason})" for address, reason in away.items())
        return warning(f"no answer from {named}; from others there is one", "start them")
    spoken = properties.get("security.protocol", "PLAINTEXT")
    mechanism = properties.get("sasl.mechanism")
    with_user = f" with {mechanism}" if mechanism and "SASL" in spoken else ""
    return passed(f"{', '.join(addresses)} by {spoken}{with_user}, as {settings.client}")


def _asked(settings: Settings, ask: Callable[[TopicAdmin], _Found]) -> _Found:
    servers = settings.bootstrap_servers
    with closing(client_of(settings).open_admin(servers, ADMIN_TIMEOUT_S)) as admin:
        return ask(admin)


def _topics(settings: Settings, topics: Sequence[Topic]) -> Answer:
    def ask(admin: TopicAdmin) -> Answer:
        described = admin.describe([topic.name for topic in topics])
        missing = [topic for topic in topics if topic.name not in described]
        for topic in missing:
            try:
                admin.create(
                    topic.name,
                    topic.partitions,
                    settings.replication_factor,
                    topic.settings,
                    ADMIN_TIMEOUT_S,
                    is_tried_only=True,
                )
            except AuditError as error:
                return _not_there(topic, error)
        if not missing:
            return passed(f"{len(topics)} are there", described)
        names = ", ".join(topic.name for topic in missing)
        return passed(f"not there yet: {names}; this user may make them", described)

    return _asked(settings, ask)


def _not_there(topic: Topic, error: AuditError) -> Answer:
    reason = failure_of(error).text.removeprefix(f"topic {topic.name!r}: ")
    return failed(
        f"topic {topic.name!r} does not exist, or this user may not see it, and making it fails:"
        f" {reason}",
        "make it, or grant DESCRIBE on it, or CREATE (docs/kafka.md)",
    )


def _topic_settings(settings: Settings, topics: Sequence[Topic], described: Described) -> Answer:
    if not topics:
        return not_tried("no topic is there yet")
    names = [topic.name for topic in topics]
    found = _asked(settings, lambda admin: admin.settings(names, ADMIN_TIMEOUT_S))
    if not found:
        return not_tried("this user may not see them: DESCRIBE_CONFIGS on the topics")
    answers = [
        answer
        for topic in topics
        if topic.name in found
        for answer in _judged(topic, described[topic.name], found[topic.name])
    ]
    worst = sorted(answers, key=lambda answer: answer.state is not State.FAILED)
    if not worst:
        return passed(
            f"of {', '.join(sorted(found))}: policy, retention, message size, replicas in sync"
        )
    fixes = dict.fromkeys(answer.fix for answer in worst)
    return Answer(worst[0].state, "; ".join(answer.text for answer in worst), "; ".join(fixes))


def _judged(topic: Topic, described: TopicDescription, settings: Mapping[str, str]) -> list[Answer]:
    """What of a topic's settings is not as it should be."""
    answers = []
    name = topic.name
    problem = compaction_problem(topic, settings)
    if problem is not None:
        answers.append(failure_of(TopicError(problem)))
    wanted, kept = (int(s.get("retention.ms", -1)) for s in (topic.settings, settings))
    if not topic.is_compacted and 0 <= kept < wanted:
        answers.append(
            warning(f"{name} is kept for {kept / 3_600_000:g} h", f"set retention.ms to {wanted}")
        )
    if not topic.is_compacted and int(settings.get("retention.bytes", -1)) >= 0:
        answers.append(
            warning(f"{name} is cut by size, however young", "set retention.bytes to -1")
        )
    largest = int(settings.get("max.message.bytes", MESSAGE_BYTES_MAX))
    if name.endswith(".journal") and largest < MESSAGE_BYTES_MAX:
        answers.append(
            failed(
                f"{name} takes messages of {largest:,} bytes, and blocks have up to"
                f" {MESSAGE_BYTES_MAX:,}",
                "set max.message.bytes to 1048588 or more",
            )
        )
    needed = int(settings.get("min.insync.replicas", 1))
    if needed > described.in_sync:
        answers.append(
            failed(
                f"{name} takes nothing: {described.in_sync} of {described.replicas} replicas are in"
                f" sync, and min.insync.replicas is {needed}",
                "start the other brokers, or set min.insync.replicas below the number of replicas",
            )
        )
    elif described.replicas > 1 and needed == 1:
        answers.append(
            warning(
                f"what one broker has of {name} counts as delivered", "set min.insync.replicas to 2"
            )
        )
    return answers


def _rights(role: str, described: Described, prefix: str) -> Answer:
    here = [right for right in RIGHTS[role] if f"{prefix}.{right.topic}" in described]
    if not here:
        return not_tried("no topic is there yet")
    lacking = []
    for right in here:
        operations = described[f"{prefix}.{right.topic}"].operations
        if operations is None:
            return not_tried("the broker does not say what this user may do")
        if right.operation not in operations:
            lacking.append(f"{right.operation} on {prefix}.{right.topic}")
    if lacking:
        return failed(f"lacks {', '.join(lacking)}", "grant it (docs/kafka.md)")
    return passed(", ".join(f"{right.operation} {right.topic}" for right in here))


def _times(settings: Settings, topics: Sequence[Topic], described: Described) -> Answer:
    """Kafka has no question for a broker's time: that of its newest message shows a wrong clock."""

    def ask(admin: TopicAdmin) -> list[tuple[int, str]]:
        found = [(admin.newest_ms(t.name, described[t.name].partitions), t.name) for t in topics]
        return [(ms, name) for ms, name in found if ms is not None]

    found = _asked(settings, ask)
    now_ms = time.time() * 1000
    if not found:
        return not_tried("the topics have no messages")
    newest_ms, name = max(found)
    age_s = (now_ms - newest_ms) / 1000
    if age_s < -CLOCKS_APART_S:
        return warning(
            f"the newest message of {name} is of {-age_s:.1f} s after this host's time", _FIX_CLOCK
        )
    return passed(f"the newest message, of {name}, is {max(0.0, age_s):,.1f} s old")
