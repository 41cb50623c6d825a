"""Errors of streaming.

AuditError                   coordinates.values.errors
└── StreamingError           the job cannot run; the message has the reason in one sentence
    ├── SessionError         Spark itself did not start
    ├── CheckpointError      the checkpoint location is in use, of another layout, or incomplete
    ├── TableError           a table cannot be written, or is of another version
    ├── KafkaOptionError     a property of Kafka's clients that Spark's has nothing like
    └── QueryError           a query ended by itself; Spark's own messages are in the log file
"""

from __future__ import annotations

from tallystick.coordinates.values.errors import AuditError


class StreamingError(AuditError):
    """The job cannot run; the message has the reason in one sentence."""


class SessionError(StreamingError):
    """Spark itself did not start."""


class CheckpointError(StreamingError):
    """The checkpoint location is in use, of another layout, or incomplete."""


class TableError(StreamingError):
    """A table cannot be written, or is of another version."""


class KafkaOptionError(StreamingError):
    """A property of Kafka's clients cannot be given to Spark's."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Kafka's property {reason} (docs/kafka.md)")


class QueryError(StreamingError):
    """A query ended by itself; Spark's own messages are in the log file."""
