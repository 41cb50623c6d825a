"""What goes wrong with a broker or a topic, whatever the client.

AuditError                     coordinates.values.errors
├── BrokerUnreachableError     no broker answers at the address
└── TopicError                 a topic is missing, cannot be made or read, or loses records
"""

from __future__ import annotations

from tallystick.coordinates.values.errors import AuditError


class BrokerUnreachableError(AuditError):
    """No broker answers at the address."""

    def __init__(self, bootstrap_servers: str, reason: object) -> None:
        cause = " ".join(str(reason).split())[:200]
        super().__init__(
            f"No Kafka broker answers at {bootstrap_servers!r} ({cause}). To fix: start one there"
            " (tallystick broker start) or name another address"
        )
        self.bootstrap_servers = bootstrap_servers


class TopicError(AuditError):
    """A topic is missing, cannot be made or read, or is kept in a way that loses records."""


def missing_topic(topic: str, bootstrap_servers: str) -> TopicError:
    """The error of a topic that is to be read and is not there."""
    return TopicError(f"topic {topic!r} does not exist at {bootstrap_servers!r}")
