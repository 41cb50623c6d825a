"""What the auditor reads: the journal topic's blocks, requests for collections, and controls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  the name that all of Spark's guides use

from tallystick.coordinates.events._block_parts import CLUSTER, METADATA_KEYS
from tallystick.coordinates.events._field_checks import INSTANCE_BYTES_MAX
from tallystick.coordinates.events.block_codec import BLOCK_BYTES_MAX
from tallystick.coordinates.values.topics import COLLECT_TOPIC, CONTROL_TOPIC, JOURNAL_TOPIC
from tallystick.streaming.schema import (
    AUDIT_ROWS,
    CONTROL,
    DEAD_LETTER_BYTES_MAX,
    HEADERS_BYTES_MAX,
    KEY_BYTES_MAX,
    REQUEST,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

HEADERS_MAX = 32
HEADERS_CUT = "tallystick.headers"
_HEADER_CHARACTERS = HEADERS_BYTES_MAX // HEADERS_MAX // 5  # a name's may have four bytes each
PORTIONS = 64
AT_ONCE_MIN, AT_ONCE_MAX = 16, 256
"""A part's messages of a micro-batch come from Kafka's client, and go to Python, in so many
portions. Each costs a question for the topic's ends, and a frame of pandas'; and it is held at
once, unpacked, where the smallest message may be millions of zeros. So many are in it only when the
limit is large, as it is after messages that were small."""
FETCH_WAIT_MS = 5
"""Kafka's client asks for more as soon as it has handed out what it had, and a broker answers one
request of a connection at a time: with Kafka's own 500 ms each task would wait for what comes next
before it learns the end of its partition, for which Spark asks after each poll."""
REQUESTS_MAX = 256
"""Requests and controls of one micro-batch."""


def _is(at: int, name: str) -> str:
    """Whether a header has this name and is not large."""
    header = f"get(headers, {at})"
    return f"{header}.key = '{name}' AND length({header}.value) <= {INSTANCE_BYTES_MAX}"


def _json(at: int, name: str) -> str:
    """A header's JSON, as ``to_json`` has it."""
    return f"""'{{"key":"{name}","value":"', base64(get(headers, {at}).value), '"}}'"""


_PLAIN = len(METADATA_KEYS)
_IS_USUAL = f"""
{" AND ".join(_is(at, name) for at, name in enumerate(METADATA_KEYS))} AND (
    size(headers) = {_PLAIN} OR size(headers) = {_PLAIN + 1} AND {_is(_PLAIN, CLUSTER)}
)
"""

# Nearly all headers are as the producers write them; `to_json`, and functions on each header, which
# Spark does not compile, took a fifth of what the JVM needs for a small message. Each is named once
# here: Spark plans each micro-batch twice, and goes through every expression for each of its rules.
# Without headers it has none, which is reported; NULL are headers that nobody kept. Headers may be
# as large as values: too large ones are cut, and the first of those left says how many there were.
_HEADERS = f"""
CASE WHEN {_IS_USUAL} THEN concat(
    '[', {", ',', ".join(_json(at, name) for at, name in enumerate(METADATA_KEYS))},
    CASE WHEN size(headers) = {_PLAIN} THEN ']' ELSE concat(',', {_json(_PLAIN, CLUSTER)}, ']') END
)
WHEN headers IS NULL THEN '[]'
WHEN size(headers) <= {HEADERS_MAX}
    AND aggregate(headers, 0L, (sum, h) -> sum + length(h.key) + coalesce(length(h.value), 0))
        <= {HEADERS_BYTES_MAX}
THEN to_json(headers)
ELSE to_json(concat(
    array(named_struct(
        'key', '{HEADERS_CUT}', 'value', CAST(CAST(size(headers) AS STRING) AS BINARY)
    )),
    transform(slice(headers, 1, {HEADERS_MAX}), h -> named_struct(
        'key', substring(h.key, 1, {_HEADER_CHARACTERS}),
        'value', substring(h.value, 1, {_HEADER_CHARACTERS})
    ))
)) END
"""

# Headers are looked through before they are cut; one that is no name of a cluster is none here, and
# its block, which has another, is refused.
_CLUSTER = f"""
coalesce(CASE WHEN {_IS_USUAL} THEN CASE WHEN size(headers) > {_PLAIN}
    THEN try_validate_utf8(CAST(get(headers, {_PLAIN}).value AS STRING)) END
ELSE try_element_at(transform(
    filter(headers, h -> h.key = '{CLUSTER}' AND length(h.value) <= {INSTANCE_BYTES_MAX}),
    h -> try_validate_utf8(CAST(h.value AS STRING))
), 1) END, '')
"""

# A broker that does not answer is reported within these, not after Kafka's own minute.
_BROKER_TIMEOUTS = {
    "kafka.default.api.timeout.ms": "15000",
    "kafka.request.timeout.ms": "10000",
    "fetchOffset.numRetries": "1",
    "kafkaConsumer.pollTimeoutMs": "30000",
}


def read_journal(
    spark: SparkSession,
    bootstrap_servers: str,
    *,
    options: Mapping[str, str],
    topic: str = JOURNAL_TOPIC,
    max_messages: int,
    parts: int = 1,
) -> DataFrame:
    """The journal topic from its beginning, as rows of ``schema.BLOCK_ROWS``.

    A part of the topic that is gone (retention, or a topic made anew) does not stop the query:
    ``journal_holes`` names what was not read.

    Args:
        spark: The session; the query of it that is started next hands rows to Python as suits it.
        bootstrap_servers: The brokers.
        options: How they are spoken to.
        topic: The topic.
        max_messages: A micro-batch has at most so many.
        parts: They are shared out among so many parts of the job.
    """
    at_once = min(max(max_messages // parts // PORTIONS, AT_ONCE_MIN), AT_ONCE_MAX)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", at_once)
    messages = (
        _messages(spark, bootstrap_servers, topic, options, max_messages)
        .option("kafka.max.poll.records", at_once)
        .option("includeHeaders", "true")
    )
    is_name = F.length("key") <= INSTANCE_BYTES_MAX
    is_whole = F.length("value") <= BLOCK_BYTES_MAX
    return messages.load().select(
        F.expr(_CLUSTER).alias("cluster"),
        # A message without a key, or with one that is no text, belongs to no instance. Spark would
        # group the first under NULL, and fail for ever on the second when Python gets it.
        F.coalesce(
            F.when(is_name, F.try_validate_utf8(F.col("key").cast("string"))), F.lit("")
        ).alias("instance_id"),
        # What is too large to be read is cut before anything copies it.
        F.when(is_whole, F.col("value"))
        .otherwise(_cut("value", DEAD_LETTER_BYTES_MAX))
        .alias("value"),
        F.expr(_HEADERS).alias("headers"),
        "partition",
        "offset",
        F.unix_micros("timestamp").alias("sent_us"),
        F.coalesce(F.length("value"), F.lit(0)).cast("long").alias("bytes"),
        _cut("key", KEY_BYTES_MAX).alias("key"),
    )


def read_requests(
    spark: SparkSession,
    bootstrap_servers: str,
    *,
    options: Mapping[str, str],
    topic: str = COLLECT_TOPIC,
    control_topic: str = CONTROL_TOPIC,
) -> DataFrame:
    """The collect and the control topic from their beginning, as rows of ``schema.AUDIT_ROWS``.

    Requests that are gone are no loss: what was asked so long ago is answered in the journal or
    never, and what was acknowledged is in the job's state.
    """
    kind = F.when(F.col("topic") == control_topic, F.lit(CONTROL)).otherwise(F.lit(REQUEST))
    known = {"kind": kind, "instance_id": F.lit("")}
    known |= {name: F.col(name) for name in ("partition", "offset")}
    known |= {"value": _cut("value", DEAD_LETTER_BYTES_MAX), "bytes": F.length("value")}
    messages = _messages(
        spark, bootstrap_servers, f"{topic},{control_topic}", options, REQUESTS_MAX
    )
    return messages.load().select(
        *(
            known.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
            for field in AUDIT_ROWS
        )
    )


def _cut(name: str, length: int) -> Column:
    """The beginning of a binary column."""
    return F.substring(name, 1, length)


def _messages(
    spark: SparkSession,
    bootstrap_servers: str,
    topics: str,
    options: Mapping[str, str],
    max_messages: int,
) -> DataStreamReader:
    """Topics, with commas between, from the beginning, or from where the query's checkpoint is.

    So many messages of them together are in a micro-batch at most; each topic has its share.
    """
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .options(**_BROKER_TIMEOUTS, **options)
        .option("subscribe", topics)
        .option("startingOffsets", "earliest")
        .option("kafka.max.poll.records", AT_ONCE_MIN)
        .option("kafka.fetch.max.wait.ms", FETCH_WAIT_MS)
        .option("maxOffsetsPerTrigger", max_messages)
        .option("failOnDataLoss", "false")
    )
