"""What the auditor reads: the journal topic's blocks, requests for collections, and controls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  the name that all of Spark's guides use

from tallystick.coordinates.values.topics import COLLECT_TOPIC, CONTROL_TOPIC, JOURNAL_TOPIC
from tallystick.streaming.schema import AUDIT_ROWS, CONTROL, HEADERS, REQUEST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

MAX_BLOCKS_PER_TRIGGER = 256
"""Blocks of one micro-batch: large enough that its fixed cost does not count, small enough that
its blocks (up to a few hundred kilobytes each) fit into memory several times."""

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
    max_blocks_per_trigger: int = MAX_BLOCKS_PER_TRIGGER,
) -> DataFrame:
    """The journal topic from its beginning, as rows of ``schema.BLOCK_ROWS``.

    A part of the topic that is gone (retention, or a topic made anew) does not stop the query:
    ``journal_holes`` names what was not read.
    """
    messages = (
        _messages(spark, bootstrap_servers, topic, options)
        .option("maxOffsetsPerTrigger", max_blocks_per_trigger)
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "false")
    )
    return messages.load().select(
        # A message without a key, or with one that is no text, belongs to no instance. Spark would
        # group the first under NULL, and fail for ever on the second when Python gets it.
        F.coalesce(F.try_validate_utf8(F.col("key").cast("string")), F.lit("")).alias(
            "instance_id"
        ),
        "value",
        # Without headers it has none, which is reported; NULL are headers that nobody kept.
        F.coalesce("headers", F.array().cast(HEADERS)).alias("headers"),
        "partition",
        "offset",
        F.unix_micros("timestamp").alias("sent_us"),
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
    known |= {name: F.col(name) for name in ("value", "partition", "offset")}
    return (
        _messages(spark, bootstrap_servers, f"{topic},{control_topic}", options)
        .option("failOnDataLoss", "false")
        .load()
        .select(
            *(
                known.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
                for field in AUDIT_ROWS
            )
        )
    )


def _messages(
    spark: SparkSession, bootstrap_servers: str, topics: str, options: Mapping[str, str]
) -> DataStreamReader:
    """Topics, with commas between, from the beginning, or from where the query's checkpoint is."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .options(**_BROKER_TIMEOUTS, **options)
        .option("subscribe", topics)
        .option("startingOffsets", "earliest")
    )
