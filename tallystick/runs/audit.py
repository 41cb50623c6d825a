"""The streaming job on a journal topic of the user's own brokers."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, final

from tallystick import terminal
from tallystick.alerts.metrics import AlertMetrics
from tallystick.alerts.service import Alerts, sinks_of
from tallystick.coordinates.rules.explanation import fill
from tallystick.coordinates.rules.observations import JOURNAL_NOT_READ
from tallystick.deploy.class_archives import SPARK, with_archive
from tallystick.deploy.jars import spark_kafka_jars
from tallystick.deploy.preflight import check_machine
from tallystick.errors import MisuseError
from tallystick.journal_topic import journal_topic_id, prepare_topics
from tallystick.runs.health import JobHealth
from tallystick.runs.metrics import JobMetrics
from tallystick.runs.metrics_listener import MetricsListener
from tallystick.runs.rebuild import CHECKPOINT, finish_set_aside, whole_commands
from tallystick.runs.result import TABLES, RunResult, doubt
from tallystick.runs.stream import SPARK_LOG, StreamRun
from tallystick.settings import Settings
from tallystick.streaming.kafka_options import kafka_options
from tallystick.streaming.tables import require_place

if TYPE_CHECKING:
    from tallystick.streaming.runner import JobSettings
    from tallystick.streaming.session import SessionSettings
    from tallystick.terminal import Progress


_OF_SPARK_SUBMIT = frozenset({"spark_master", "spark_memory", "spark_properties"})
TOPICS = ("journal", "collect", "findings", "incidents", "control", "deadletter")


@final
class Audit:
    """One run of the audit.

    Args:
        settings: Of the run.
        available_now: End when what is in the topic now has been audited.
        history_ends: Nothing more will come, so what waits is decided.

    Attributes:
        directory: The audit's own; the next run goes on from it.
    """

    def __init__(self, settings: Settings, *, available_now: bool, history_ends: bool) -> None:
        self._settings = settings
        self._available_now = available_now
        self._history_ends = history_ends
        self._metrics = JobMetrics(math.inf if available_now else settings.stale_after_s())
        self._health = JobHealth()
        self._kafka = kafka_options(settings.kafka_properties)
        self.directory = settings.directory.absolute() / "audit"

    def prepare(self) -> None:
        """Check the machine and the broker before anything is started.

        Raises:
            MisuseError: Something is missing; the message has how to fix it.
            TableError: The directory's path is none that tables can have.
            BrokerUnreachableError: No broker listens.
            TopicError: A topic is missing, cannot be made, or would lose records.
        """
        problems = check_machine(directory=self.directory)
        if problems:
            raise MisuseError("\n".join(map(str, problems)))
        require_place(self.directory)
        sinks_of(self._settings, terminal.notice)
        self._check_spark()
        prepare_topics(self._settings, *TOPICS)
        if self._settings.metrics_port is not None:
            host, port = self._settings.metrics_host, self._settings.metrics_port
            MetricsListener(host, port, self._metrics.registry, self._health)

    def _check_spark(self) -> None:
        from tallystick.streaming.session import is_submitted

        settings, secrets = self._settings, self._kafka.environment
        if is_submitted():
            for name in sorted(_OF_SPARK_SUBMIT & settings.model_fields_set):
                raise MisuseError(f"{name}: spark-submit has decided it; give it to spark-submit")
            for name in secrets:
                if name not in os.environ:
                    raise MisuseError(
                        f"{name} is not set: expected in the environment of spark-submit and of"
                        " the executors (docs/cluster.md)"
                    )
        elif secrets and not settings.spark_master.startswith("local"):
            raise MisuseError(
                f"spark_master {settings.spark_master!r}: secrets of Kafka are handed to a"
                " Spark on this machine only, local[…]"
            )

    def run(self, stop: threading.Event, progress: Progress) -> RunResult | None:
        """Run the job until it ends or is to stop; None when it was stopped before it ran."""
        left = finish_set_aside(self.directory)
        if left is not None:
            progress.done(f"what an interrupted rebuild had begun to set aside is in {str(left)!r}")
        with (
            whole_commands(self._settings),
            Alerts(self.directory, self._settings, progress.done) as alerts,
        ):
            self._metrics.serve_also(AlertMetrics(alerts))
            return self._run(stop, progress, alerts)

    def _run(self, stop: threading.Event, progress: Progress, alerts: Alerts) -> RunResult | None:
        from tallystick.streaming.session import is_submitted

        settings = self._settings
        title = f"{settings.topic_prefix}.journal at {settings.bootstrap_servers}"
        # spark-submit has been given them.
        jars = [] if is_submitted() else spark_kafka_jars(progress.done)

        def watch(metrics: Mapping[str, float]) -> bool:
            self._metrics.take(metrics)
            if metrics:
                progress.count(
                    f"{int(metrics['records']):,} events, "
                    f"{int(metrics['collections_closed'])} collections, "
                    f"{int(metrics['findings'])} found, "
                    f"{int(metrics['lag_blocks_sum'])} blocks to read"
                )
            return False

        stream = StreamRun(
            "audit",
            self.directory,
            title=title,
            progress=progress,
            validated=lambda cuts, validation: (
                f"collection {validation.collection_id}:"
                f" {fill('{count:n row}', {'count': len(cuts)})}, {validation.verdict.value}"
            ),
            keep_runs=settings.keep_runs,
            report_collections=settings.report_collections,
            alert=alerts.take,
            watchers=(self._metrics, self._health),
            topic_id=lambda: journal_topic_id(settings),
        )
        has_run = stream.run(
            lambda: self._job(jars), stop=stop, started=f"auditing {title}", watch=watch
        )
        if not has_run:
            return None
        # What is in the topic now was to be audited: of the rest nothing is known.
        is_cut_short = self._available_now and stop.is_set()
        now_us = time.time_ns() // 1_000
        return stream.result([doubt(JOURNAL_NOT_READ, ts=now_us)] if is_cut_short else [])

    def _job(self, jars: list[Path]) -> tuple[JobSettings, SessionSettings]:
        from tallystick.streaming.rounds import Deadline
        from tallystick.streaming.runner import JobSettings
        from tallystick.streaming.session import SessionSettings
        from tallystick.streaming.table_upkeep import Retention

        settings, prefix = self._settings, self._settings.topic_prefix
        deadline_us = int(settings.collect_deadline_s * 1_000_000)
        job = JobSettings(
            bootstrap_servers=settings.bootstrap_servers,
            checkpoint=self.directory / CHECKPOINT,
            output=self.directory / TABLES,
            retention=Retention(settings.keep_details_days, settings.keep_history_days),
            instances=settings.instances,
            collect_interval_s=None if self._available_now else settings.collect_interval_s,
            deadline=Deadline(
                after_us=deadline_us,
                unanswered_max=settings.unanswered_max,
                unreadable_max=settings.unreadable_max,
                journal_us=deadline_us,
            ),
            available_now=self._available_now,
            history_ends=self._history_ends,
            disabled=frozenset(settings.disabled),
            journal_topic=f"{prefix}.journal",
            collect_topic=f"{prefix}.collect",
            control_topic=f"{prefix}.control",
            findings_topic=f"{prefix}.findings",
            incidents_topic=f"{prefix}.incidents",
            dead_letter_topic=f"{prefix}.deadletter",
            fleet=prefix,
            kafka=self._kafka.options,
            page_url=settings.page_url,
            spark_checkpoint=settings.spark_checkpoint,
        )
        session = SessionSettings(
            jars=jars,
            java_options=with_archive(SPARK),
            log_file=self.directory / SPARK_LOG,
            master=settings.spark_master,
            shuffle_partitions=settings.spark_partitions,
            memory=settings.spark_memory,
            environment=self._kafka.environment,
            properties=settings.spark_properties,
            is_lasting=not self._available_now,
            is_checkpoint_local=(settings.spark_checkpoint or "file:").startswith("file:"),
        )
        return job, session
