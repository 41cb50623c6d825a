"""Runs the job: the auditor query, with the collector query beside it when it is wanted.

A run ends when it is stopped, when a query ends by a failure that asks for a person, or, with
``available_now``, when what was in the journal topic at the start has been audited. While the
broker is away it waits (``restarts``).
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name that all of Spark's guides use

from tallystick.coordinates.values.errors import AuditError
from tallystick.coordinates.values.topics import (
    COLLECT_TOPIC,
    CONTROL_TOPIC,
    DEAD_LETTER_TOPIC,
    FINDINGS_TOPIC,
    FLEET,
    INCIDENTS_TOPIC,
    JOURNAL_TOPIC,
)
from tallystick.streaming.auditor import (
    BlockAuditor,
    audit_blocks,
    numbers_of,
    version_of,
)
from tallystick.streaming.bucket import Bucket, Judging
from tallystick.streaming.checkpoint import CheckpointLocation, Layout
from tallystick.streaming.collector import QUERY_NAME as COLLECTOR_QUERY
from tallystick.streaming.collector import start_collector
from tallystick.streaming.errors import QueryError
from tallystick.streaming.failures import Failure, Kind, failure_of
from tallystick.streaming.fleet import FleetStep
from tallystick.streaming.log_parts import entries_of
from tallystick.streaming.message_limit import MessageLimit
from tallystick.streaming.progress import Metrics, ProgressListener
from tallystick.streaming.restarts import LastingQuery, Outages
from tallystick.streaming.rounds import Deadline
from tallystick.streaming.schema import (
    BUCKET,
    CONTROL,
    DEAD_LETTER,
    FLEET_NAME,
    LOG_NAMES,
    REQUEST,
    VERSION_NAME,
)
from tallystick.streaming.session import (
    SessionSettings,
    jvm_end,
    start_session,
    stop_session,
)
from tallystick.streaming.sinks import KafkaSink
from tallystick.streaming.source import read_journal, read_requests
from tallystick.streaming.table_sink import TableSink
from tallystick.streaming.table_upkeep import Retention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import FrameType

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.streaming.audit_log import Entry
    from tallystick.streaming.fleet import AlertTaker, ValidatorAnswer
    from tallystick.streaming.watch import Watcher

AUDITOR_QUERY = "auditor"
POLL_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What a run is to do.

    Attributes:
        bootstrap_servers: Kafka's brokers.
        checkpoint: Checkpoint location of the whole job.
        output: Directory of the tables.
        retention: How long their rows are kept; None: for ever.
        instances: The only instances that are judged, which must answer each collection. Empty:
            all that start or answer.
        collect_interval_s: Ask for a collection this often; None: somebody else asks.
        deadline: When a collection does not wait any longer.
        available_now: End when what is in the journal topic now has been audited.
        history_ends: With ``available_now``: nothing more will ever come, so what waits for more is
            decided, or reported as UNDECIDED, at the end.
        max_messages: Of the journal topic in one micro-batch; None: as many as a number of bytes
            allows (``message_limit``).
        disabled: Names of rules that are switched off.
        drain_timeout_s: A stop waits this long for the running micro-batch.
        journal_topic: Where blocks come from.
        collect_topic: Where collections are asked for; who does not answer one is missing.
        control_topic: Where operators acknowledge incidents.
        findings_topic: Where findings go.
        incidents_topic: Where changes of incidents go.
        dead_letter_topic: Where messages go that cannot be read.
        fleet: The fleet's name, in messages.
        kafka: Options of Spark's Kafka source and sink: how brokers are spoken to.
        page_url: Where the audit's page is, for links in messages.
        spark_checkpoint: URL below which Spark's checkpoints are; None: in ``checkpoint``.
    """

    bootstrap_servers: str
    checkpoint: Path
    output: Path
    retention: Retention | None = None
    instances: Sequence[str] = ()
    collect_interval_s: float | None = None
    deadline: Deadline = field(default_factory=Deadline)
    available_now: bool = False
    history_ends: bool = False
    max_messages: int | None = None
    disabled: frozenset[str] = frozenset()
    drain_timeout_s: float = 60.0
    journal_topic: str = JOURNAL_TOPIC
    collect_topic: str = COLLECT_TOPIC
    control_topic: str = CONTROL_TOPIC
    findings_topic: str = FINDINGS_TOPIC
    incidents_topic: str = INCIDENTS_TOPIC
    dead_letter_topic: str = DEAD_LETTER_TOPIC
    fleet: str = FLEET
    kafka: Mapping[str, str] = field(default_factory=dict)
    page_url: str | None = None
    spark_checkpoint: str | None = None


@contextlib.contextmanager
def stopping_on_signals(stop: threading.Event) -> Iterator[None]:
    """SIGTERM and SIGINT set ``stop`` instead of ending the process; only in the main thread."""

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        stop.set()

    wanted = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, handle) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_job(
    settings: JobSettings,
    session: SessionSettings,
    *,
    stop: threading.Event,
    validate: Callable[[list[Cut]], ValidatorAnswer] | None = None,
    report: Callable[[Mapping[str, float]], None] | None = None,
    watchers: Sequence[Watcher] = (),
    started: Callable[[], None] | None = None,
    alert: AlertTaker | None = None,
    topic_id: Callable[[], str | None] | None = None,
) -> dict[str, float]:
    """Start Spark, run the job in it until it ends, and stop Spark.

    Args:
        settings: What to do.
        session: How to start Spark.
        stop: Set it to end the run; the running micro-batch is finished first.
        validate: Called with the cuts of each round.
        report: Called with all metrics after every change.
        watchers: Take what is more than a number.
        started: Called once when the queries run.
        alert: Takes what people are alerted of.
        topic_id: Returns the journal topic's id, None where that is not known.

    Returns:
        The metrics at the end.

    Raises:
        StreamingError: One sentence; more is in the log file.
    """
    layout = Layout(session.shuffle_partitions, settings.journal_topic, settings.spark_checkpoint)
    with CheckpointLocation(settings.checkpoint, layout) as checkpoint:
        spark = start_session(session)
        try:
            metrics = Metrics(report, watchers)
            job = AuditJob(
                spark, settings, checkpoint, validate, metrics, alert=alert, topic_id=topic_id
            )
            return job.run(stop, started)
        except (Py4JError, OSError) as error:
            ended = jvm_end()
            if ended is None:
                raise
            raise QueryError(f"{ended} What was read is kept; start the job again.") from error
        finally:
            stop_session(spark)


class AuditJob:
    """One run in a session that somebody else starts and stops.

    Args:
        spark: The session.
        settings: What to do.
        checkpoint: The entered checkpoint location.
        validate: Called with the cuts of each round.
        metrics: Receives all numbers.
        alert: Takes what people are alerted of.
        topic_id: Returns the journal topic's id, None where that is not known.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: JobSettings,
        checkpoint: CheckpointLocation,
        validate: Callable[[list[Cut]], ValidatorAnswer] | None,
        metrics: Metrics,
        *,
        alert: AlertTaker | None = None,
        topic_id: Callable[[], str | None] | None = None,
    ) -> None:
        self._spark = spark
        self._settings = settings
        checkpoint.connect(spark)
        self._checkpoint = checkpoint
        self._metrics = metrics
        kafka = KafkaSink(
            spark,
            settings.bootstrap_servers,
            options=settings.kafka,
            read_topics={
                DEAD_LETTER: settings.journal_topic,
                REQUEST: settings.collect_topic,
                CONTROL: settings.control_topic,
            },
            findings_topic=settings.findings_topic,
            incidents_topic=settings.incidents_topic,
            dead_letter_topic=settings.dead_letter_topic,
        )
        listed = frozenset(settings.instances) or None
        self._judging = Judging(settings.disabled, listed, settings.deadline.journal_us)
        self._limit = MessageLimit(checkpoint, settings.max_messages, checkpoint.parts)
        self._tables = TableSink(settings.output, checkpoint.run_id, settings.retention)
        self._step = FleetStep(
            checkpoint=checkpoint,
            tables=self._tables,
            kafka=kafka,
            validate=validate,
            metrics=metrics,
            instances=settings.instances,
            deadline=settings.deadline,
            disabled=settings.disabled,
            alert=alert,
            fleet=settings.fleet,
            page_url=settings.page_url,
            limit=self._limit,
            journal_topic=settings.journal_topic,
            topic_id=topic_id,
        )

    def run(
        self, stop: threading.Event, started: Callable[[], None] | None = None
    ) -> dict[str, float]:
        """Run until the end; arguments, result and errors as of ``run_job``."""
        listener = ProgressListener(
            self._metrics,
            auditor_name=AUDITOR_QUERY,
            collector_name=COLLECTOR_QUERY,
            journal_topic=self._settings.journal_topic,
        )
        self._tables.compare()
        self._spark.streams.addListener(listener)
        outages = Outages(self._report_outage)
        queries: list[LastingQuery] = []
        try:
            with self._one_sentence():
                auditor = self._lasting(AUDITOR_QUERY, self._start_auditor, outages)
                queries.append(auditor)
                if self._settings.collect_interval_s is not None:
                    queries.insert(0, self._lasting(COLLECTOR_QUERY, self._collector, outages))
                if started is not None:
                    started()
                self._metrics.notify(lambda watcher: watcher.started())
                while all(query.goes_on() for query in queries) and not stop.wait(POLL_INTERVAL_S):
                    if self._limit.is_outgrown:
                        auditor.renew(self._settings.drain_timeout_s)
                self._metrics.notify(lambda watcher: watcher.ended())
                for query in queries:
                    query.drain(self._settings.drain_timeout_s)
                if self._settings.history_ends and not stop.is_set():
                    self._step.finish(self._buckets(LOG_NAMES))
                else:
                    now_us = time.time_ns() // 1_000
                    is_history = self._settings.available_now
                    self._step.pause(self._buckets(), now_us, is_history=is_history)
            self._tables.await_upkeep()
        finally:
            with contextlib.suppress(Py4JError, OSError):
                for query in queries:
                    query.stop()
                self._spark.streams.removeListener(listener)
        return self._metrics.snapshot()

    def _lasting(
        self, name: str, start: Callable[[], StreamingQuery], outages: Outages
    ) -> LastingQuery:
        servers = self._settings.bootstrap_servers
        in_vain = f"The broker at {servers!r} does not answer, or a topic is missing there."
        return LastingQuery(name, start, failure_of=self._failure, in_vain=in_vain, outages=outages)

    def _failure(self, error: PySparkException) -> Failure:
        """What ended a query; what the driver's part of it raised, Spark hands on as text."""
        own, self._step.failure = self._step.failure, None
        if isinstance(own, AuditError):
            return Failure(Kind.PERSON, str(own))
        text = str(error) if own is None else f"{own}\n{error}"
        return failure_of(text, self._settings.bootstrap_servers, self._settings.checkpoint)

    def _report_outage(self, sentence: str | None) -> None:
        was_waiting = self._metrics.snapshot()["is_waiting"]
        self._metrics.set(is_waiting=sentence is not None)
        if sentence is not None and not was_waiting:
            self._metrics.count(outages=1)
        self._metrics.notify(lambda watcher: watcher.waits(sentence))

    def _collector(self) -> StreamingQuery:
        interval_s = self._settings.collect_interval_s
        assert interval_s is not None
        return start_collector(
            self._spark,
            self._settings.bootstrap_servers,
            options=self._settings.kafka,
            checkpoint_location=self._checkpoint.collector,
            interval_s=interval_s,
            topic=self._settings.collect_topic,
        )

    def _start_auditor(self) -> StreamingQuery:
        blocks = read_journal(
            self._spark,
            self._settings.bootstrap_servers,
            options=self._settings.kafka,
            topic=self._settings.journal_topic,
            max_messages=self._limit.begin(),
            parts=self._checkpoint.parts,
        )
        requests = read_requests(
            self._spark,
            self._settings.bootstrap_servers,
            options=self._settings.kafka,
            topic=self._settings.collect_topic,
            control_topic=self._settings.control_topic,
        )
        writer = (
            audit_blocks(blocks, BlockAuditor(self._judging))
            .unionByName(requests)
            .writeStream.queryName(AUDITOR_QUERY)
            .foreachBatch(self._step)
            .option("checkpointLocation", self._checkpoint.auditor)
        )
        if self._settings.available_now:
            writer = writer.trigger(availableNow=True)
        return writer.start()

    def _buckets(self, segments: Sequence[str] = ()) -> list[Bucket]:
        """The audits as they are in the state store after the last micro-batch.

        Args:
            segments: Of the instances' log, if the instances are wanted.
        """
        if self._checkpoint.next_batch_id() == 0:
            return []  # nothing was ever read

        def state(name: str) -> DataFrame:
            reader = self._spark.read.format("statestore").option("stateVarName", name)
            found = reader.load(self._checkpoint.auditor)
            return found.select(f"key.{BUCKET}", "list_element.*")

        def entries(names: Sequence[str]) -> dict[int, list[tuple[int, Entry]]]:
            found: dict[int, list[tuple[int, Entry]]] = defaultdict(list)
            parts = [state(n).withColumn("at", F.lit(at)) for at, n in enumerate(names)]
            for bucket, part, at in reduce(DataFrame.union, parts).collect() if parts else ():
                found[bucket] += ((at, entry) for entry in entries_of(bytes(part)))
            return found

        audits, fleets = entries(segments), entries([FLEET_NAME])
        buckets = []
        for bucket, *row in state(VERSION_NAME).collect():
            numbers = numbers_of(version_of(row))
            if not segments:
                numbers = numbers._replace(next_number=0)
            entries_of_fleet = [entry for _, entry in fleets[bucket]]
            buckets.append(Bucket(self._judging, audits[bucket], entries_of_fleet, numbers))
        return buckets

    @contextlib.contextmanager
    def _one_sentence(self) -> Iterator[None]:
        try:
            yield
        except PySparkException as error:
            raise QueryError(self._failure(error).sentence) from error
