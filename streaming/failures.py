"""Why Spark or Kafka ended a query, as one sentence that a user can act on."""

from __future__ import annotations

import re

# A Java or Python exception with its message, at the beginning of a line or after "Caused by".
_CAUSE = re.compile(
    r"^(?:Caused by: )?(?:[a-zA-Z_$][\w$]*\.)*([A-Z]\w*(?:Exception|Error)): ([^\n]+)", re.MULTILINE
)
_SQLSTATE = re.compile(r" SQLSTATE: \w+")
_OWN_MESSAGE = re.compile(r"terminated with exception: ([^\n]+)")

# The first pattern that is found decides, so the more specific ones come first.
_SENTENCES = (
    (
        r"TopicAuthorizationException: Not authorized to access topics: \[([^\]\s]{1,250})",
        "This user may not do that to topic {0!r} at {broker}; grant it (docs/kafka.md).",
    ),
    (
        r"GroupAuthorizationException: Not authorized to access group: (\S{1,250})",
        "This user may not use group {0!r} at {broker}; grant READ on it (docs/kafka.md).",
    ),
    (
        r"ClusterAuthorizationException",
        "This user may not write to {broker}; grant WRITE on the topics (docs/kafka.md).",
    ),
    (
        r"(?:SaslAuthentication|SslAuthentication|SSLHandshake)Exception: ([^\n]{1,200})",
        "The broker at {broker} and this client do not accept each other: {0} (docs/kafka.md).",
    ),
    (
        (
            r"UnknownTopicOrPartition|does not host this topic-partition|"
            r"Topic \S+ not present in metadata"
        ),
        "A topic is missing on the broker at {broker}; make the topics first.",
    ),
    (
        (
            r"offset was changed from|[Ss]ome data may have been lost|OffsetOutOfRange|"
            r"has been deleted|missing topics"
        ),
        (
            "Part of the journal topic is gone from {broker} before it was audited (retention, or "
            "the topic was made anew); begin with a new checkpoint location."
        ),
    ),
    (
        (
            r"node assignment|No resolvable bootstrap|Failed to (?:construct|create new) kafka|"
            r"TimeoutException|DisconnectException"
        ),
        "The broker at {broker} does not answer; is it running, and is this its address?",
    ),
    (
        r"RecordTooLarge",
        "The broker at {broker} refuses a message as too large; raise its message.max.bytes.",
    ),
    (
        r"Checksum error: (?:file:)?(\S+) at",
        "{0!r} is damaged: its checksum does not agree. To fix: tallystick rebuild.",
    ),
    (
        r"No space left on device",
        "No space is left on the disk of the checkpoint location or of the output.",
    ),
    (
        r"OutOfMemoryError|Java heap space",
        "Spark ran out of memory; assign more, or fewer blocks for each micro-batch.",
    ),
)


def sentence(text: str, broker: str) -> str:
    """One sentence for the text of a query's exception."""
    text = _SQLSTATE.sub("", text)
    for pattern, message in _SENTENCES:
        found = re.search(pattern, text)
        if found:
            return message.format(*found.groups(), broker=repr(broker))
    causes = _CAUSE.findall(text)
    own_message = _OWN_MESSAGE.search(text)
    if causes:
        reason = ": ".join(causes[-1])
    elif own_message:
        reason = own_message[1]
    else:
        reason = next((line for line in text.splitlines() if line.strip()), "without a message")
    return f"The query ended by itself: {reason.strip()[:300]}"
