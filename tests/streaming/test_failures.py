"""One sentence for what Spark and Kafka say."""

from __future__ import annotations

import pytest

from tallystick.streaming.failures import sentence

STREAM_FAILED = "[STREAM_FAILED] Query [id = 1] terminated with exception: {} SQLSTATE: XXKST"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: it is not here",
            "A topic is missing on the broker at '127.0.0.1:9'; make the topics first.",
        ),
        (
            (
                "Caused by: errors.TopicAuthorizationException: Not authorized"
                " to access topics: [tallystick.findings]"
            ),
            "This user may not do that to topic 'tallystick.findings' at '127.0.0.1:9'",
        ),
        (
            (
                "errors.GroupAuthorizationException: Not authorized to access"
                " group: spark-kafka-source-1"
            ),
            "This user may not use group 'spark-kafka-source-1'",
        ),
        (
            ("errors.ClusterAuthorizationException: Cluster authorization failed."),
            "This user may not write to '127.0.0.1:9'",
        ),
        (
            "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed",
            "do not accept each other: Authentication failed (docs/kafka.md)",
        ),
        (
            "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node",
            "The broker at '127.0.0.1:9' does not answer; is it running, and is this its address?",
        ),
        (
            "Partition t-0's offset was changed from 50 to 3, some data may have been missed.",
            "Part of the journal topic is gone from '127.0.0.1:9'",
        ),
        ("java.io.IOException: No space left on device", "No space is left on the disk"),
        (
            "org.apache.hadoop.fs.ChecksumException: Checksum error: file:/c/1.zip at 512 exp: 9",
            "'/c/1.zip' is damaged: its checksum does not agree. To fix: tallystick rebuild.",
        ),
        (
            'File "x.py", line 1\nValueError: expected a thing\n SQLSTATE: XXKST\n== Plan ==\nScan',
            "The query ended by itself: ValueError: expected a thing",
        ),
        ("no words that are known", "The query ended by itself: no words that are known"),
        ("", "The query ended by itself: without a message"),
    ],
)
def test_what_a_user_can_mend_is_one_sentence(text, said):
    """The sentence names the broker and what to do; no stack trace, one line."""
    for form in (text, STREAM_FAILED.format(text)) if text else (text,):
        found = sentence(form, "127.0.0.1:9")
        if "no words" not in text:
            assert said in found
        assert "\n" not in found
