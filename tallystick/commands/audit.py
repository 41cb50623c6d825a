"""``tallystick audit``: the streaming job."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick import terminal
from tallystick.commands.options import (
    BootstrapServers,
    Directory,
    Disable,
    Instances,
    Json,
    TopicPrefix,
)
from tallystick.errors import ExitCode, MisuseError
from tallystick.extras import require_stream
from tallystick.process import stopping
from tallystick.settings import Settings, load

if TYPE_CHECKING:
    from tallystick.coordinates.audit.cut import Cut
    from tallystick.expectations.validation import CollectionValidation

LOOK_EVERY_S = 0.2
MIB = 2**20


def audit(
    *,
    available_now: Annotated[
        bool,
        typer.Option("--available-now", help="Audit what is in the topic now, then end."),
    ] = False,
    history_ends: Annotated[
        bool,
        typer.Option(
            "--history-ends",
            help="With --available-now: nothing more will come, so decide what waits.",
        ),
    ] = False,
    instance: Instances = None,
    collect_interval_s: Annotated[
        float | None, typer.Option(help="Seconds between two collections.", metavar="SECONDS")
    ] = None,
    collect_deadline_s: Annotated[
        float | None,
        typer.Option(help="Seconds that a collection waits for answers.", metavar="SECONDS"),
    ] = None,
    disable: Disable = None,
    bootstrap_servers: BootstrapServers = None,
    topic_prefix: TopicPrefix = None,
    directory: Directory = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Port of 127.0.0.1 for a Prometheus scrape.")
    ] = None,
    json: Json = False,
) -> None:
    """Audit the journal topic: collect on a period, judge, validate, report.

    Runs until Ctrl-C or SIGTERM, then drains and writes the report. Exit status by everything that
    this state directory has seen: 0 consistent, 1 inconsistent, 3 undecided.
    """
    settings = load(
        {
            "bootstrap_servers": bootstrap_servers,
            "topic_prefix": topic_prefix,
            "directory": directory,
            "instances": instance,
            "collect_interval_s": collect_interval_s,
            "collect_deadline_s": collect_deadline_s,
            "disabled": disable,
            "metrics_port": metrics_port,
        }
    ).settings
    if history_ends and not available_now:
        raise MisuseError("--history-ends: expected --available-now beside it")
    code = _Audit(settings, available_now, history_ends, json).run()
    raise typer.Exit(code)


class _Audit:
    def __init__(
        self, settings: Settings, available_now: bool, history_ends: bool, json: bool
    ) -> None:
        self._settings = settings
        self._available_now = available_now
        self._history_ends = history_ends
        self._json = json
        self._run_directory = settings.directory.absolute() / "audit"
        self._telling: CollectionValidation | None = None
        self._findings = 0
        self._values: Mapping[str, float] = {}
        self._error: Exception | None = None

    def run(self) -> ExitCode:
        require_stream("tallystick audit")
        from tallystick.deploy.jars import spark_kafka_jars
        from tallystick.deploy.preflight import check_machine
        from tallystick.expectations.validate import CollectionValidator
        from tallystick.journal_topic import prepare_topics
        from tallystick.runs.metrics import JobMetrics
        from tallystick.streaming.progress import COUNTERS

        settings = self._settings
        problems = check_machine(directory=self._run_directory)
        if problems:
            raise MisuseError("\n".join(map(str, problems)))
        prepare_topics(settings)
        self._served = JobMetrics(COUNTERS)
        if settings.metrics_port is not None:
            self._served.serve(settings.metrics_port)
        with stopping() as stop, terminal.progress("starting Spark") as progress:
            self._progress = progress
            jars = spark_kafka_jars(progress.done)
            self._validator = CollectionValidator(
                self._run_directory / "data_docs", keep_runs=settings.keep_runs
            )
            job_stop = threading.Event()
            job = threading.Thread(
                target=self._run_job, args=(jars, job_stop), name="audit", daemon=True
            )
            job.start()
            while job.is_alive():
                job.join(LOOK_EVERY_S)
                if stop.is_set() and not job_stop.is_set():
                    progress.now("draining")
                    job_stop.set()
            if self._error is not None:
                raise self._error
            return self._report()

    def _run_job(self, jars: list[Path], stop: threading.Event) -> None:
        from tallystick.streaming.rounds import Deadline
        from tallystick.streaming.runner import JobSettings, run_job
        from tallystick.streaming.session import SessionSettings

        settings = self._settings
        prefix = settings.topic_prefix
        try:
            run_job(
                JobSettings(
                    bootstrap_servers=settings.bootstrap_servers,
                    checkpoint=self._run_directory / "checkpoint",
                    output=self._run_directory / "tables",
                    instances=settings.instances,
                    collect_interval_s=(
                        None if self._available_now else settings.collect_interval_s
                    ),
                    deadline=Deadline(after_us=int(settings.collect_deadline_s * 1_000_000)),
                    available_now=self._available_now,
                    history_ends=self._history_ends,
                    disabled=frozenset(settings.disabled),
                    journal_topic=f"{prefix}.journal",
                    collect_topic=f"{prefix}.collect",
                    findings_topic=f"{prefix}.findings",
                    dead_letter_topic=f"{prefix}.deadletter",
                ),
                SessionSettings(
                    jars=jars,
                    log_file=self._run_directory / "spark.log",
                    master=settings.spark_master,
                    shuffle_partitions=settings.spark_partitions,
                    memory=settings.spark_memory,
                ),
                stop=stop,
                validate=self._validate,
                report=self._take,
                started=lambda: self._progress.done(
                    f"auditing {prefix}.journal at {settings.bootstrap_servers}"
                ),
            )
        except Exception as error:  # noqa: BLE001  told by the main thread, whatever it is
            self._error = error

    def _validate(self, cuts: list[Cut]) -> CollectionValidation:
        from tallystick.runs import result as results

        validation = self._validator.validate(cuts)
        self._telling = results.most_telling(self._telling, validation)
        self._progress.done(
            f"collection {validation.collection_id}: {len(cuts)} rows, {validation.verdict.value}"
        )
        return validation

    def _take(self, values: Mapping[str, float]) -> None:
        self._served.take(values)
        new = int(values["findings"]) - self._findings
        if new > 0:
            self._findings += new
            words = "finding" if new == 1 else "findings"
            self._progress.done(f"{new} new {words} in {self._settings.topic_prefix}.findings")
        self._values = values
        self._progress.count(
            f"{int(values['records']):,} events, {int(values['collections_closed'])} collections, "
            f"{self._findings} found, {int(values['blocks_behind_sum'])} blocks behind"
        )

    def _report(self) -> ExitCode:
        from tallystick.outputs.text import summary
        from tallystick.runs import result as results

        self._progress.now("writing Data Docs and the report")
        docs = self._validator.build_data_docs()
        (self._run_directory / results.TABLES).mkdir(exist_ok=True)
        outcome = results.outcome_of_tables(
            self._run_directory / results.TABLES,
            title=f"{self._settings.topic_prefix}.journal at {self._settings.bootstrap_servers}",
            totals={"events": int(self._values.get("records", 0))},
            validation=self._telling,
            data_docs=None
            if docs is None
            else str(docs.relative_to(self._run_directory.resolve())),
        )
        page = results.write_report(outcome, self._run_directory)
        if self._json:
            terminal.show_json({**outcome.to_json(), "report": str(page)})
        else:
            terminal.show(*summary(outcome, page, docs))
        return ExitCode.of(outcome.verdict)
