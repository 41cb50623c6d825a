"""One sentence for what Spark and Kafka say."""

from __future__ import annotations

import pytest

from tallystick.streaming.failures import Kind, failure_of

STREAM_FAILED = "[STREAM_FAILED] Query [id = 1] terminated with exception: {} SQLSTATE: XXKST"


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: it is not here",
            Kind.OUTAGE,
            "A topic is missing on the broker at '127.0.0.1:9'; make the topics again.",
        ),
        (
            (
                "Caused by: errors.TopicAuthorizationException: Not authorized"
                " to access topics: [tallystick.findings]"
            ),
            Kind.PERSON,
            "This user may not do that to topic 'tallystick.findings' at '127.0.0.1:9'",
        ),
        (
            "common.errors.TopicAuthorizationException: Topic authorization failed.",
            Kind.PERSON,
            "This user may not do that to a topic at '127.0.0.1:9'",
        ),
        (
            (
                "errors.GroupAuthorizationException: Not authorized to access"
                " group: spark-kafka-source-1"
            ),
            Kind.PERSON,
            "This user may not use group 'spark-kafka-source-1'",
        ),
        (
            ("errors.ClusterAuthorizationException: Cluster authorization failed."),
            Kind.PERSON,
            "This user may not write to '127.0.0.1:9'",
        ),
        (
            "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed",
            Kind.PERSON,
            "do not accept each other: Authentication failed (docs/kafka.md)",
        ),
        (
            "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node",
            Kind.OUTAGE,
            "The broker at '127.0.0.1:9' does not answer.",
        ),
        (
            (
                "org.apache.kafka.common.errors.TimeoutException: Timeout of 15000ms expired"
                " before the position for partition shop.journal-3 could be determined"
            ),
            Kind.OUTAGE,
            "The broker at '127.0.0.1:9' does not answer, or topic 'shop.journal' is missing",
        ),
        (
            "Caused by: org.apache.kafka.common.errors.NotEnoughReplicasException: 1 of 2",
            Kind.OUTAGE,
            "The broker at '127.0.0.1:9' does not answer.",
        ),
        ("java.io.IOException: No space left on device", Kind.PERSON, "No space is left"),
        ("java.lang.OutOfMemoryError: Java heap space", Kind.PERSON, "Spark ran out of memory"),
        (
            "SparkException: Job 152 cancelled because SparkContext was shut down",
            Kind.PERSON,
            "Spark's JVM was stopped; see its log. What was read is kept; start the job again.",
        ),
        (
            "SparkContext has been shutdown",
            Kind.PERSON,
            "Spark's JVM was stopped; see its log. What was read is kept; start the job again.",
        ),
        (
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
            Kind.PASSING,
            "A Python worker of Spark's ended.",
        ),
        (
            "org.apache.hadoop.fs.ChecksumException: Checksum error: file:/c/1.zip at 512 exp: 9",
            Kind.PERSON,
            "'/c/1.zip' is damaged: its checksum does not agree. To fix: make the run again",
        ),
        (
            (
                "Caused by: java.net.SocketTimeoutException: Call From vm/127.0.0.1 to nn:8020"
                " failed on socket timeout exception: java.net.SocketTimeoutException: 20000 ms;"
                " For more details see: elsewhere"
            ),
            Kind.PERSON,
            "The file system of the checkpoint at 'nn:8020' does not answer: socket timeout",
        ),
        (
            "Failed to find data source: kafka. Please deploy the application as per the section.",
            Kind.PERSON,
            "Spark was started without the jars of Kafka; give spark-submit --jars",
        ),
        (
            'File "x.py", line 1\nValueError: expected a thing\n SQLSTATE: XXKST\n== Plan ==\nScan',
            Kind.PERSON,
            "The query ended by itself: ValueError: expected a thing",
        ),
        (
            "no words that are known",
            Kind.PERSON,
            "The query ended by itself: no words that are known",
        ),
        ("", Kind.PERSON, "The query ended by itself: without a message"),
    ],
)
def test_what_a_user_can_fix_is_one_sentence(tmp_path, text, kind, said):
    """The sentence names the broker and what to do; no stack trace, one line."""
    for form in (text, STREAM_FAILED.format(text)) if text else (text,):
        found = failure_of(form, "127.0.0.1:9", tmp_path / "checkpoint")
        assert kind is found.kind
        assert said in found.sentence
        assert "\n" not in found.sentence


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("\n \n  first words\nmore", "first words"),
        ("java.lang.A$BException: one\nCaused by: x.CError: two\n\tat y", "CError: two"),
        (STREAM_FAILED.format("own words"), "own words"),
        (STREAM_FAILED.format("own words") + "\nCaused by: x.CError: two", "CError: two"),
        ("a" * 301, "a" * 300),
    ],
)
def test_what_is_not_known_has_its_last_cause(tmp_path, text, reason):
    """Else by Spark's own message, else by the first line, cut short."""
    assert f"The query ended by itself: {reason}" == failure_of(text, "b:1", tmp_path).sentence
