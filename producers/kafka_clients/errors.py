"""What goes wrong with a broker or a topic, whatever the client.

AuditError                     coordinates.values.errors
├── BrokerUnreachableError     no broker answers at the address
├── BrokerRefusesError         one does, but TLS fails, or it does not let this client in
├── KafkaPropertyError         a property of the client cannot be what was meant
├── SupersededError            somebody else writes this process's journal
├── UndeliveredError           what was sent was not acknowledged (publisher has its kinds)
└── TopicError                 a topic is missing, cannot be made or read, or loses records
    └── NotAllowedError        this client is not allowed to do something to it
"""

from __future__ import annotations

from tallystick.coordinates.values.errors import AuditError, one_line


class BrokerUnreachableError(AuditError):
    """No broker answers at the address."""

    def __init__(self, bootstrap_servers: str, reason: object) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        fix = "start one there, or name another address"
        if host in {"127.0.0.1", "localhost"}:
            fix = f"tallystick broker start --port {port}"
        super().__init__(
            f"No Kafka broker answers at {bootstrap_servers!r} ({one_line(reason)}). To fix: {fix}"
        )
        self.bootstrap_servers = bootstrap_servers


class BrokerRefusesError(AuditError):
    """A broker answers, and waiting does not help: TLS fails, or it does not know who this is."""

    def __init__(self, bootstrap_servers: str, reason: object, fix: str) -> None:
        cause = " ".join(str(reason).split())[:300]
        super().__init__(
            f"The Kafka broker at {bootstrap_servers!r}: {cause}. To fix: {fix} (docs/kafka.md)"
        )


class KafkaPropertyError(AuditError):
    """A property of Kafka's client has an unfit value, or none that this client could be given."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"Kafka's property {name}: {reason} (docs/kafka.md)")


class UndeliveredError(AuditError):
    """What was sent was not acknowledged: what ran ends by it."""


class TopicError(AuditError):
    """A topic is missing, cannot be made or read, or is kept in a way that loses records."""


def missing_topic(topic: str, bootstrap_servers: str) -> TopicError:
    """The error of a topic that is not there."""
    return TopicError(
        f"topic {topic!r} does not exist at {bootstrap_servers!r}, or this user may not see it"
        " (docs/kafka.md)"
    )


class NotAllowedError(TopicError):
    """The broker knows who this is, and does not let it do something to a topic."""

    def __init__(self, operation: str, topic: str) -> None:
        super().__init__(f"topic {topic!r}: {not_allowed(operation)}")


def not_allowed(operation: str) -> str:
    """What is missing where a broker refuses an operation on a topic."""
    return f"not allowed to {operation} it. To fix: grant {operation.upper()} on it (docs/kafka.md)"


class SupersededError(AuditError):
    """Somebody else writes this process's journal of an instance now."""

    def __init__(self, instance_id: str, epoch: int, ours: int) -> None:
        super().__init__(
            f"{instance_id}: another producer writes its journal now (epoch {epoch}, ours is"
            f" {ours}): this one ends"
        )
