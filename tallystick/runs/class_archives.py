"""Make the archives with which the JVMs of Spark and of the local broker start: a small audit."""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path

from tallystick.deploy.broker import LocalBroker
from tallystick.deploy.class_archives import SPARK, recorded_archive
from tallystick.deploy.errors import BrokerError, JarError
from tallystick.deploy.jars import BROKER, broker_classpath, spark_kafka_jars
from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics
from tallystick.producers.publisher import KafkaSettings
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.streaming.checkpoint import CheckpointLocation, Layout
from tallystick.streaming.errors import StreamingError
from tallystick.streaming.progress import Metrics
from tallystick.streaming.runner import AuditJob, JobSettings
from tallystick.streaming.session import SessionSettings, start_session, stop_session

PARTITIONS = 2
DUMP_S = 180.0
"""A JVM writes its archive when it ends."""


def record() -> None:
    """Audit a simulated fleet with findings, while both JVMs note what they load.

    Raises:
        JarError: No archive was written.
        BrokerError: The broker does not start.
        StreamingError: Spark does not start.
    """
    jars = spark_kafka_jars()
    broker_classpath()
    with (
        tempfile.TemporaryDirectory(prefix="tallystick-classes-") as name,
        recorded_archive(BROKER) as of_broker,
        recorded_archive(SPARK) as of_spark,
        LocalBroker(Path(name, "broker"), port=0, java_options=of_broker) as broker,
    ):
        directory, servers = Path(name), broker.bootstrap_servers
        ensure_topics(servers, tallystick_topics(PARTITIONS))
        sink = kafka_client().open_sink(KafkaSettings(bootstrap_servers=servers))
        for block in simulate(Scenario(seed=1, topology="pair", fault="errant_write")).blocks(512):
            sink.send(block)
        sink.close()
        job = JobSettings(
            bootstrap_servers=servers,
            checkpoint=directory / "checkpoint",
            output=directory / "tables",
            collect_interval_s=1.0,
            available_now=True,
            history_ends=True,
        )
        session = SessionSettings(
            jars=jars,
            log_file=directory / "spark.log",
            shuffle_partitions=PARTITIONS,
            java_options=of_spark,
        )
        layout = Layout(PARTITIONS, job.journal_topic)
        with CheckpointLocation(job.checkpoint, layout) as checkpoint:
            spark = start_session(session)
            try:
                AuditJob(spark, job, checkpoint, None, Metrics()).run(threading.Event())
            finally:
                stop_session(spark, DUMP_S)


def main() -> int:
    """Make them; without them everything works as well, so a failure is one line."""
    try:
        record()
    except (JarError, BrokerError, StreamingError, OSError) as error:
        sys.stderr.write(f"tallystick: Spark and the broker will start more slowly: {error}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
