"""The main job, end to end: broker, simulated fleet, Spark, Great Expectations, report.

Everything runs on this machine, in processes that end with this one.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from tallystick.deploy.broker import LocalBroker
from tallystick.deploy.jars import spark_kafka_jars
from tallystick.deploy.preflight import check_machine
from tallystick.errors import MisuseError
from tallystick.producers.collect_requests import CollectRequests
from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics
from tallystick.producers.publisher import KafkaSettings
from tallystick.producers.simulator.assemble import SETTLE_MS, Fleet
from tallystick.producers.simulator.faults import FAULTS
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.scenarios.catalogue import DESIGN_SCENARIOS
from tallystick.runs import result as results
from tallystick.runs.live_fleet import LiveFleet, Pace
from tallystick.runs.scenario import demonstration_scenario, put_beside
from tallystick.settings import suggestion

if TYPE_CHECKING:
    from tallystick.coordinates.audit.cut import Cut
    from tallystick.expectations.validate import CollectionValidator
    from tallystick.expectations.validation import CollectionValidation
    from tallystick.terminal import Progress

DURATION_MS = 6_000
COLLECTION_INTERVAL_MS = 1_000
"""Of virtual time, as in ``producers.simulator.assemble.simulate``: during the load, and twice
after it, when everything has settled."""
SPEED = 5.0
COLLECT_EVERY_S = 1.5
PARTITIONS = 2
AUDIT_DEADLINE_S = 90.0
"""From the fleet's end until the audit must have read everything."""
DEADLINE_US = 5_000_000
"""A collection waits so long, in virtual time, for an instance that does not answer."""
FLEET_STOP_S = 70.0
LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What a demonstration showed.

    Attributes:
        outcome: Verdict and report.
        report: The page.
        data_docs: Great Expectations' own pages.
        injected: What the fault did, empty without one.
        is_complete: Whether the audit read all that the fleet published.
    """

    outcome: results.Outcome
    report: Path
    data_docs: Path | None
    injected: tuple[Mapping[str, Any], ...]
    is_complete: bool


def demo_scenario(
    seed: int,
    fault: str | None = None,
    negatives: tuple[str, ...] = (),
    demonstration: str | None = None,
) -> Scenario:
    """The scenario of a run.

    Raises:
        MisuseError: The fault, a negative case or the demonstration is not known, or they exclude
            each other.
    """
    from tallystick.producers.simulator.negatives import NEGATIVES, with_options

    if demonstration is not None:
        return demonstration_scenario(
            Scenario(seed=seed, fault=fault, negatives=negatives, design_scenario=demonstration)
        )
    if fault is not None and fault not in FAULTS:
        raise MisuseError(f"no fault has the name {fault!r}{suggestion(fault, FAULTS)}")
    for negative in negatives:
        if negative not in NEGATIVES:
            raise MisuseError(
                f"no negative case has the name {negative!r}{suggestion(negative, NEGATIVES)}"
            )
    scenario = Scenario(
        seed=seed,
        topology=None if negatives else "demo",
        duration_ms=DURATION_MS,
        collection_interval_ms=COLLECTION_INTERVAL_MS,
        negatives=negatives,
        fault=fault,
        acts=fault is None or FAULTS[fault].bears_acts,
    )
    try:
        return with_options(scenario)
    except ValueError as error:
        raise MisuseError(f"these negative cases exclude each other: {error}") from None


def demo_fleet(scenario: Scenario, start_ts: int) -> tuple[Fleet, Pace]:
    """The fleet of a demonstration and how its time passes, from ``start_ts`` on."""
    fleet = Fleet(scenario, start_ts=start_ts)
    interval = scenario.collection_interval_ms * 1_000
    settled = fleet.load_ends_at + SETTLE_MS * 1_000
    moments = (
        *range(start_ts + interval, fleet.load_ends_at, interval),
        settled,
        settled + interval,
    )
    # Late enough that every collection is past its deadline and nothing waits any more.
    return fleet, Pace(speed=SPEED, moments=moments, ends_at=moments[-1] + 2 * DEADLINE_US)


def preflight(directory: Path, port: int) -> None:
    """Check the machine before anything is started.

    Raises:
        MisuseError: Something is missing; the message says what fixes it.
    """
    problems = check_machine(directory=directory, ports=(port, port + 1) if port else ())
    if problems:
        raise MisuseError("\n".join(str(problem) for problem in problems))


@final
class Demo:
    """One demonstration.

    Args:
        scenario: What the fleet does.
        directory: The run's own directory, new.
        port: The broker's port; 0: a free one.
        stop: Set it to end early.
        progress: Where to say what happens.
    """

    def __init__(
        self,
        scenario: Scenario,
        directory: Path,
        *,
        port: int,
        stop: threading.Event,
        progress: Progress,
    ) -> None:
        self._scenario = scenario
        self._directory = directory
        self._port = port
        self._stop = stop
        self._progress = progress
        self._fleet, self._pace = demo_fleet(scenario, int(time.time()) * 1_000_000)
        self._planned = len(self._pace.moments or ())
        self._metrics: Mapping[str, float] = {}
        self._live: LiveFleet | None = None
        self._fleet_stop = threading.Event()
        self._fleet_ended = threading.Event()
        self._fleet_error: Exception | None = None
        self._job_stop = threading.Event()
        self._job_error: Exception | None = None
        self._validator: CollectionValidator | None = None
        self._telling: CollectionValidation | None = None
        self._rounds = 0
        self._is_complete = False

    def run(self) -> DemoResult | None:
        """Run it from the broker's start to the report; None when it was told to stop."""
        say = self._progress
        self._directory.mkdir(parents=True)
        jars = spark_kafka_jars(say.done)
        with LocalBroker(
            self._directory / "broker", port=self._port, is_fresh=True, say=say.now
        ) as broker:
            servers = broker.bootstrap_servers
            ensure_topics(servers, tallystick_topics(PARTITIONS))
            say.done(f"broker: {servers}, for this run only")
            requests = CollectRequests(servers, clock_us=_now_us, age_max_s=60.0, notice=say.done)
            sink = kafka_client().open_sink(KafkaSettings(bootstrap_servers=servers))
            self._live = LiveFleet(
                self._fleet,
                sink,
                requests,
                pace=self._pace,
            )
            fleet = threading.Thread(target=self._live_on, name="fleet", daemon=True)
            fleet.start()
            try:
                self._audit(servers, jars)
            finally:
                self._fleet_stop.set()
                fleet.join(FLEET_STOP_S)
                requests.close()
        if self._fleet_error is not None:
            raise self._fleet_error
        if self._stop.is_set():
            return None
        result = self._result()
        # What only a run in progress needs.
        for part in ("broker/data", "checkpoint"):
            shutil.rmtree(self._directory / part, ignore_errors=True)
        return result

    def _live_on(self) -> None:
        assert self._live is not None
        try:
            self._live.run(self._fleet_stop)
        except Exception as error:  # noqa: BLE001  told by the main thread, whatever it is
            self._fleet_error = error
        self._fleet_ended.set()

    def _audit(self, servers: str, jars: Sequence[Path]) -> None:
        """Run the job in a thread of its own; this one stays free for signals."""
        self._progress.now("starting Spark")
        job = threading.Thread(
            target=self._run_job, args=(servers, jars), name="audit", daemon=True
        )
        job.start()
        deadline: float | None = None
        while job.is_alive() and not self._stop.wait(LOOK_EVERY_S):
            self._show()
            if not self._fleet_ended.is_set():
                continue
            if self._fleet_error is not None:
                break
            if deadline is None:
                deadline = time.monotonic() + AUDIT_DEADLINE_S
            self._is_complete = self._has_read_everything()
            if self._is_complete or time.monotonic() > deadline:
                break
        self._progress.now("stopping Spark")
        self._job_stop.set()
        while job.is_alive():  # in small pieces, so that a second Ctrl-C is heard
            job.join(LOOK_EVERY_S)
        if self._job_error is not None:
            raise self._job_error

    def _run_job(self, servers: str, jars: Sequence[Path]) -> None:
        from tallystick.expectations.validate import CollectionValidator
        from tallystick.streaming.rounds import Deadline
        from tallystick.streaming.runner import JobSettings, run_job
        from tallystick.streaming.session import SessionSettings

        try:
            self._validator = CollectionValidator(self._directory / results.DATA_DOCS)
            run_job(
                JobSettings(
                    bootstrap_servers=servers,
                    checkpoint=self._directory / "checkpoint",
                    output=self._directory / results.TABLES,
                    instances=tuple(self._fleet.instances),
                    collect_interval_s=COLLECT_EVERY_S,
                    deadline=Deadline(after_us=DEADLINE_US),
                ),
                SessionSettings(
                    jars=jars,
                    log_file=self._directory / "spark.log",
                    shuffle_partitions=PARTITIONS,
                    memory="1g",
                ),
                stop=self._job_stop,
                validate=self._validate,
                report=self._take_metrics,
                started=lambda: self._progress.done("Spark: collector and auditor run"),
            )
        except Exception as error:  # noqa: BLE001  told by the main thread, whatever it is
            self._job_error = error

    def _validate(self, cuts: list[Cut]) -> CollectionValidation:
        assert self._validator is not None
        validation = self._validator.validate(cuts)
        self._telling = results.most_telling(self._telling, validation)
        self._rounds += 1
        counts = validation.statistics
        self._progress.done(
            f"collection {self._rounds} of {self._planned}: {len(cuts)} rows, "
            f"{counts['held']} expectations held, {counts['broken']} broken"
        )
        return validation

    def _take_metrics(self, metrics: Mapping[str, float]) -> None:
        new = int(metrics["findings"] - self._metrics.get("findings", 0))
        self._metrics = metrics
        if new:
            self._progress.done(f"{new} new {'finding' if new == 1 else 'findings'}")

    def _has_read_everything(self) -> bool:
        assert self._live is not None
        return self._metrics.get("records", 0) >= self._live.records

    def _show(self) -> None:
        if self._live is None or not self._metrics:
            return
        self._progress.count(
            f"{int(self._metrics['records']):,} of {self._live.records:,} events audited, "
            f"{int(self._metrics['collections_closed'])} of {self._planned} collections, "
            f"{int(self._metrics['findings'])} found"
        )

    def _result(self) -> DemoResult:
        self._progress.now("writing Data Docs and the report")
        assert self._validator is not None
        docs = self._validator.build_data_docs()
        scenario = self._scenario
        name = "" if scenario.design_scenario is None else f", scenario {scenario.design_scenario}"
        fault = "" if scenario.fault is None else f", fault {scenario.fault}"
        outcome = results.outcome_of_tables(
            self._directory / results.TABLES,
            title=f"a simulated fleet, seed {scenario.seed}{name}{fault}",
            totals={"events": int(self._metrics.get("records", 0))},
            validation=self._telling,
            data_docs=None if docs is None else str(docs.relative_to(self._directory.resolve())),
        )
        if not self._is_complete:
            outcome = results.doubted(outcome)
        if scenario.design_scenario is not None:
            demonstrated = put_beside(
                DESIGN_SCENARIOS[scenario.design_scenario],
                self._fleet.shown,
                outcome.data,
                is_complete=self._is_complete,
            )
            results.write_demonstrated(demonstrated, self._directory)
            outcome = outcome.with_demonstrated(demonstrated)
        return DemoResult(
            outcome=outcome,
            report=results.write_report(outcome, self._directory),
            data_docs=docs,
            injected=tuple(self._fleet.injected),
            is_complete=self._is_complete,
        )


def new_run(directory: Path) -> Path:
    """A directory for a new run, named after the time; it is not made yet."""
    name = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    run = directory / "demo" / name
    number = 1
    while run.exists():
        number += 1
        run = directory / "demo" / f"{name}-{number}"
    return run


def _now_us() -> int:
    return time.time_ns() // 1_000
