"""The streaming job in a thread of its own, with the validator of its collections.

The calling thread stays free for signals. What the job wrote is read back when it has ended.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, final

from tallystick.runs.result import DATA_DOCS, TABLES, RunResult
from tallystick.runs.tables import read_run

if TYPE_CHECKING:
    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.results import Observation
    from tallystick.expectations.validate import CollectionValidator
    from tallystick.expectations.validation import CollectionValidation
    from tallystick.streaming.fleet import AlertTaker
    from tallystick.streaming.runner import JobSettings
    from tallystick.streaming.session import SessionSettings
    from tallystick.streaming.watch import StepReport, Watcher
    from tallystick.terminal import Progress

WAIT_S = 0.1
SPARK_LOG = "spark.log"


@final
class OutageNotices:
    """Reports when the job waits for the broker, and when it goes on: a watcher of the job.

    Args:
        progress: Where to report it.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def started(self) -> None:
        """Nothing to report."""

    def stepped(self, report: StepReport) -> None:
        """Nothing to report."""

    def progressed(self, lag_blocks: Mapping[int, int] | None, duration_s: float | None) -> None:
        """Nothing to report."""

    def waits(self, sentence: str | None) -> None:
        """An outage begins, or is over."""
        self._progress.done(
            "the audit goes on" if sentence is None else f"{sentence} The audit waits."
        )

    def ended(self) -> None:
        """Nothing to report."""


@final
class StreamRun:
    """One run of the streaming job.

    Args:
        command: Which kind of run.
        directory: The run's own.
        title: What is audited.
        progress: Where to report what happens.
        validated: Makes a line of progress of a validated collection.
        keep_runs: How many collections Data Docs keep.
        alert: Takes what people are alerted of.
        watchers: Take what the job shows of itself while it runs.
        report_collections: How many newest ones the result has in detail; None: all.
        topic_id: Returns the journal topic's id, None where that is not known.

    Attributes:
        metrics: The job's newest numbers.
    """

    def __init__(
        self,
        command: str,
        directory: Path,
        *,
        title: str,
        progress: Progress,
        validated: Callable[[list[Cut], CollectionValidation], str],
        keep_runs: int = 20,
        report_collections: int | None = None,
        alert: AlertTaker | None = None,
        watchers: Sequence[Watcher] = (),
        topic_id: Callable[[], str | None] | None = None,
    ) -> None:
        self._command = command
        self._directory = directory
        self._title = title
        self._progress = progress
        self._validated = validated
        self._keep_runs = keep_runs
        self._report_collections = report_collections
        self._alert = alert
        self._watchers = watchers
        self._topic_id = topic_id
        self._begun_at = datetime.now(timezone.utc)
        self._validator: CollectionValidator | None = None
        self._stop = threading.Event()
        self._started = threading.Event()
        self._error: Exception | None = None
        self.metrics: Mapping[str, float] = {}

    def run(
        self,
        settings: Callable[[], tuple[JobSettings, SessionSettings]],
        *,
        stop: threading.Event,
        started: str,
        watch: Callable[[Mapping[str, float]], bool],
    ) -> bool:
        """Run the job to its end, or until it is to stop.

        Args:
            settings: Called in the job's thread, since what it needs takes seconds to import.
            stop: Ends it early: what runs is drained, and Spark that is still starting is left,
                since it ends with this process.
            started: A line of progress for when the queries run.
            watch: Called all the time; True: the run is complete.

        Returns:
            False if it was stopped before the queries ran.
        """
        self._progress.now("starting Spark")
        job = threading.Thread(
            target=self._run_job, args=(settings, started), name="audit", daemon=True
        )
        job.start()
        while job.is_alive() and not stop.wait(WAIT_S) and not watch(self.metrics):
            self._keep_log_small()
        self._stop.set()
        if stop.is_set() and not self._started.is_set() and job.is_alive():
            return False
        self._progress.now("stopping Spark")
        while job.is_alive():  # in small pieces, so that a second Ctrl-C is heard
            job.join(WAIT_S)
        if self._error is not None:
            raise self._error
        return self._started.is_set() or not stop.is_set()

    def _keep_log_small(self) -> None:
        from tallystick.streaming.session import put_aside

        if self._started.is_set():
            put_aside(self._directory / SPARK_LOG)

    def result(self, observations: Sequence[Observation] = ()) -> RunResult:
        """Read back what the job wrote; Data Docs get what came to light after its collections."""
        self._progress.now("writing Data Docs")
        (self._directory / TABLES).mkdir(parents=True, exist_ok=True)
        return read_run(
            self._directory,
            command=self._command,
            title=self._title,
            begun_at=self._begun_at,
            events=int(self.metrics.get("records", 0)),
            observations=observations,
            validate=self._validate_last,
            collections=self._report_collections,
        )

    def _run_job(
        self, settings: Callable[[], tuple[JobSettings, SessionSettings]], started: str
    ) -> None:
        # Modules are no garbage: looking through them is a tenth of the start, and of no use later.
        gc.disable()
        from tallystick.expectations.validate import CollectionValidator
        from tallystick.streaming.runner import run_job

        gc.freeze()
        gc.enable()

        def report_started() -> None:
            self._started.set()
            self._progress.done(started)

        try:
            job, session = settings()
            self._validator = CollectionValidator(
                self._directory / DATA_DOCS, keep_runs=self._keep_runs, disabled=job.disabled
            )
            run_job(
                job,
                session,
                stop=self._stop,
                validate=self._validate,
                report=self._take,
                watchers=(*self._watchers, OutageNotices(self._progress)),
                started=report_started,
                alert=self._alert,
                topic_id=self._topic_id,
            )
        except Exception as error:  # noqa: BLE001  raised by the calling thread
            self._error = error

    def _validate(self, cuts: list[Cut]) -> CollectionValidation:
        assert self._validator is not None
        validation = self._validator.validate(cuts)
        self._progress.done(self._validated(cuts, validation))
        return validation

    def _validate_last(self, cuts: Sequence[Cut]) -> CollectionValidation:
        assert self._validator is not None
        validation = self._validator.validate(cuts)
        self._validator.build_data_docs()
        return validation

    def _take(self, metrics: Mapping[str, float]) -> None:
        new = int(metrics["findings"] - self.metrics.get("findings", 0))
        self.metrics = metrics
        if new > 0:
            self._progress.done(f"{new} new {'finding' if new == 1 else 'findings'}")
