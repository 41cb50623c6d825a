"""What each command must be allowed to do, and how that is granted.

WRITE and READ include DESCRIBE. A topic that is missing is made by who may CREATE it: on a cluster
where topics are made by others, nobody needs that. DESCRIBE_CONFIGS is used where it is granted:
then a topic that Kafka would compact is refused at the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
    UserScramCredentialUpsertion,
)
from kafka.errors import KafkaError

from tallystick.producers.kafka_clients.errors import BrokerUnreachableError
from tallystick.producers.kafka_clients.kafka_python_arguments import kafka_python_arguments
from tallystick.producers.kafka_clients.properties import KafkaProperties

_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True, slots=True)
class Right:
    """An operation on a topic, which is named without its prefix."""

    operation: str
    topic: str


def _rights(**topics: str) -> tuple[Right, ...]:
    return tuple(Right(operation, topic) for topic, operation in topics.items())


# The last epochs are read from the journal, and those of its own claimed in the collect topic.
_OBSERVER = (
    *_rights(collect="READ", journal="READ"),
    *_rights(journal="WRITE", collect="WRITE"),
)
RIGHTS: Final[Mapping[str, tuple[Right, ...]]] = {
    "tail": _OBSERVER,
    "simulate": _OBSERVER,
    "load": _rights(journal="WRITE"),
    "journal": _rights(journal="READ"),
    "journal --write": _OBSERVER,
    "collect": _rights(journal="READ", collect="WRITE"),
    "incidents ack, unack": _rights(control="WRITE"),
    "retire": _rights(control="WRITE"),
    "audit": (
        *_rights(journal="READ", collect="READ", control="READ"),
        Right("WRITE", "collect"),
        *_rights(findings="WRITE", incidents="WRITE", deadletter="WRITE"),
    ),
    "check, replay --output kafka": _rights(findings="WRITE"),
}
"""Rights by command."""


def every_right() -> list[Right]:
    """What all commands together need, and what makes missing topics and checks them."""
    needed = {right for rights in RIGHTS.values() for right in rights}
    topics = {right.topic for right in needed}
    more = {Right(operation, t) for t in topics for operation in ("CREATE", "DESCRIBE_CONFIGS")}
    return sorted(needed | more, key=lambda right: (right.topic, right.operation))


def grant(
    bootstrap_servers: str,
    properties: KafkaProperties,
    user: str,
    rights: Iterable[Right],
    prefix: str,
) -> None:
    """Let a user do something; what is granted already stays.

    Args:
        bootstrap_servers: ``host:port``, comma-separated.
        properties: How brokers are spoken to, as somebody who may grant.
        user: Its name, as of SASL.
        rights: What it may do.
        prefix: Of the topics.

    Raises:
        BrokerUnreachableError: It was not done.
    """
    rules = [
        ACL(
            f"User:{user}",
            "*",
            ACLOperation[right.operation],
            ACLPermissionType.ALLOW,
            ResourcePattern(ResourceType.TOPIC, f"{prefix}.{right.topic}"),
        )
        for right in rights
    ]
    try:
        with closing(_admin(bootstrap_servers, properties)) as admin:
            failed = admin.create_acls(rules)["failed"]
    except KafkaError as error:
        raise BrokerUnreachableError(bootstrap_servers, error) from error
    if failed:
        raise BrokerUnreachableError(bootstrap_servers, failed[0])


def set_password(
    bootstrap_servers: str, properties: KafkaProperties, user: str, password: str
) -> None:
    """Make a user of SCRAM, or give it another password.

    Raises:
        BrokerUnreachableError: It was not done.
    """
    users = [UserScramCredentialUpsertion(user, name, password) for name in _MECHANISMS]
    try:
        with closing(_admin(bootstrap_servers, properties)) as admin:
            # A request may name a user once.
            for one in users:
                problem = admin.alter_user_scram_credentials([one])[user]
                if problem is not None:
                    raise BrokerUnreachableError(bootstrap_servers, problem)
    except KafkaError as error:
        raise BrokerUnreachableError(bootstrap_servers, error) from error


def _admin(bootstrap_servers: str, properties: KafkaProperties) -> KafkaAdminClient:
    return KafkaAdminClient(
        bootstrap_servers=bootstrap_servers.split(","), **kafka_python_arguments(properties)
    )
