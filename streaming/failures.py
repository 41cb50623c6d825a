"""Why Spark or Kafka ended a query: one sentence that a user can act on, and what becomes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tallystick.streaming.to_fix import to_rebuild

# A Java or Python exception with its message, at the beginning of a line or after "Caused by".
_CAUSE = re.compile(
    r"^(?:Caused by: )?(?:[a-zA-Z_$][\w$]*\.)*([A-Z]\w*(?:Exception|Error)): ([^\n]+)", re.MULTILINE
)
_SQLSTATE = re.compile(r" SQLSTATE: \w+")
_OWN_MESSAGE = re.compile(r"terminated with exception: ([^\n]+)")


class Kind(Enum):
    """What a failure asks for."""

    OUTAGE = "the broker is away, or a topic: the query is started again until it is back"
    PASSING = "a process of Spark's was lost: the query is started again a few times"
    PERSON = "somebody must do something: the job ends"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a query ended.

    Attributes:
        kind: What becomes of it.
        sentence: For a person.
    """

    kind: Kind
    sentence: str


# The first pattern that is found decides, so the more specific ones come first.
_FAILURES = (
    (
        r"Failed to find data source: kafka",
        Kind.PERSON,
        "Spark was started without the jars of Kafka; give spark-submit --jars (docs/cluster.md).",
    ),
    (
        r"RecordTooLarge",
        Kind.PERSON,
        "The broker at {broker} refuses a message as too large; raise its message.max.bytes.",
    ),
    (
        r"Checksum error: (?:file:)?(\S+) at",
        Kind.PERSON,
        "{0!r} is damaged: its checksum does not agree. To fix: {rebuild}",
    ),
    (
        # Before what Kafka calls by the same names.
        r"Call From \S+ to (\S+) failed on ([^;\n]{1,200})",
        Kind.PERSON,
        "The file system of the checkpoint at {0!r} does not answer: {1}; start the job again.",
    ),
    (
        r"No space left on device",
        Kind.PERSON,
        "No space is left on the disk of the checkpoint location or of the output.",
    ),
    (
        r"OutOfMemoryError|Java heap space",
        Kind.PERSON,
        "Spark ran out of memory; raise spark_memory.",
    ),
    (
        r"SparkContext (?:was|has been) shut ?down",
        Kind.PERSON,
        "Spark's JVM was stopped; see its log. What was read is kept; start the job again.",
    ),
    (
        r"TopicAuthorizationException: Not authorized to access topics: \[([^\]\s]{1,250})",
        Kind.PERSON,
        "This user may not do that to topic {0!r} at {broker}; grant it (docs/kafka.md).",
    ),
    (
        r"TopicAuthorizationException",
        Kind.PERSON,
        "This user may not do that to a topic at {broker}; grant what audit needs (docs/kafka.md).",
    ),
    (
        r"GroupAuthorizationException: Not authorized to access group: (\S{1,250})",
        Kind.PERSON,
        "This user may not use group {0!r} at {broker}; grant READ on it (docs/kafka.md).",
    ),
    (
        r"ClusterAuthorizationException",
        Kind.PERSON,
        "This user may not write to {broker}; grant WRITE on the topics (docs/kafka.md).",
    ),
    (
        r"(?:SaslAuthentication|SslAuthentication|SSLHandshake)Exception: ([^\n]{1,200})",
        Kind.PERSON,
        "The broker at {broker} and this client do not accept each other: {0} (docs/kafka.md).",
    ),
    (
        (
            r"UnknownTopicOrPartition|does not host this topic-partition|"
            r"Topic \S+ not present in metadata"
        ),
        Kind.OUTAGE,
        "A topic is missing on the broker at {broker}; make the topics again.",
    ),
    (
        r"before the position for partition (\S{1,250})-\d+ could be determined",
        Kind.OUTAGE,
        "The broker at {broker} does not answer, or topic {0!r} is missing there.",
    ),
    (
        (
            r"node assignment|No resolvable bootstrap|Failed to (?:construct|create new) kafka|"
            r"TimeoutException|DisconnectException|NetworkException|NotEnoughReplicas|"
            r"NotLeaderOrFollower|LeaderNotAvailable|KafkaStorageException|CoordinatorNotAvailable|"
            r"Cannot fetch (?:record|offset)|BrokerNotAvailable|ReplicaNotAvailable|"
            r"OutOfOrderSequence|UnknownProducerId"
        ),
        Kind.OUTAGE,
        "The broker at {broker} does not answer.",
    ),
    (
        r"Python worker (?:exited|failed to connect)|python worker.*crashed|ExecutorLostFailure",
        Kind.PASSING,
        "A Python worker of Spark's ended.",
    ),
)


def failure_of(text: str, broker: str, checkpoint: Path) -> Failure:
    """What the text of a query's exception means.

    Args:
        text: That of the exception.
        broker: The brokers of the job.
        checkpoint: Its checkpoint location.
    """
    text = _SQLSTATE.sub("", text)
    named = {"broker": repr(broker), "rebuild": to_rebuild(checkpoint)}
    for pattern, kind, message in _FAILURES:
        found = re.search(pattern, text)
        if found:
            return Failure(kind, message.format(*found.groups(), **named))
    return Failure(Kind.PERSON, f"The query ended by itself: {_cause(text)}")


def _cause(text: str) -> str:
    causes = _CAUSE.findall(text)
    own_message = _OWN_MESSAGE.search(text)
    if causes:
        reason = ": ".join(causes[-1])
    elif own_message:
        reason = own_message[1]
    else:
        reason = next((line for line in text.splitlines() if line.strip()), "without a message")
    return reason.strip()[:300]
