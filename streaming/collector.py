"""The collector query: asks for one collection of the whole fleet every interval.

It has a checkpoint location of its own, so it goes on after a restart, and it keeps the period when
no event flows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from tallystick.coordinates.values.topics import COLLECT_TOPIC
from tallystick.streaming.sinks import WRITE_TIMEOUTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

QUERY_NAME = "collector"


def collection_requests(spark: SparkSession) -> DataFrame:
    """One request a micro-batch, as rows for Kafka's sink.

    ``requested_at`` is the micro-batch's own time, which Spark keeps in the checkpoint, as it keeps
    the running number: after a crash a request may be written again, byte for byte the same, but
    an id never names two collections. The time in the id keeps ids apart when the checkpoint
    was thrown away.
    """
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    now = F.current_timestamp()
    collection_id = F.format_string(
        "c-%s-%06d", F.date_format(now, "yyyyMMdd'T'HHmmss'Z'"), F.col("value")
    )
    request = F.struct(
        collection_id.alias("collection_id"), F.unix_micros(now).alias("requested_at")
    )
    return ticks.select(collection_id.alias("key"), F.to_json(request).alias("value"))


def start_collector(
    spark: SparkSession,
    bootstrap_servers: str,
    *,
    options: Mapping[str, str],
    checkpoint_location: str,
    interval_s: float,
    topic: str = COLLECT_TOPIC,
) -> StreamingQuery:
    """Starts the query: a request at once, then one every ``interval_s``."""
    return (
        collection_requests(spark)
        .writeStream.queryName(QUERY_NAME)
        .format("kafka")
        .options(**{"kafka.bootstrap.servers": bootstrap_servers, **WRITE_TIMEOUTS, **options})
        .option("topic", topic)
        .option("checkpointLocation", checkpoint_location)
        .trigger(processingTime=f"{round(interval_s * 1000)} milliseconds")
        .start()
    )
