"""The main job, end to end: broker, simulated fleet, Spark, Great Expectations, report.

Everything runs on this machine, in processes that end with this one.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from tallystick.coordinates.rules.explanation import fill
from tallystick.coordinates.rules.observations import JOURNAL_NOT_READ
from tallystick.deploy.broker import LocalBroker
from tallystick.deploy.class_archives import SPARK, with_archive
from tallystick.deploy.jars import spark_kafka_jars
from tallystick.deploy.preflight import check_machine
from tallystick.errors import MisuseError
from tallystick.names import require_known
from tallystick.producers.collect_requests import CollectRequests
from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics
from tallystick.producers.publisher import KafkaSettings
from tallystick.producers.simulator.assemble import Fleet, collection_moments
from tallystick.producers.simulator.faults import FAULTS
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.scenarios.catalogue import DESIGN_SCENARIOS
from tallystick.runs.live_fleet import LiveFleet, Pace
from tallystick.runs.result import TABLES, RunResult, doubt
from tallystick.runs.scenario import complete_scenario, scenario_result
from tallystick.runs.stream import SPARK_LOG, StreamRun
from tallystick.streaming.tables import require_place

if TYPE_CHECKING:
    from tallystick.coordinates.audit.cut import Cut
    from tallystick.expectations.validation import CollectionValidation
    from tallystick.streaming.rounds import Deadline
    from tallystick.streaming.runner import JobSettings
    from tallystick.streaming.session import SessionSettings
    from tallystick.terminal import Progress

DURATION_MS = 6_000
COLLECTION_INTERVAL_MS = 1_000
"""Of virtual time."""
SPEED = 5.0
COLLECT_EVERY_S = 1.5
PARTITIONS = 2
AUDIT_DEADLINE_S = 90.0
"""From the fleet's end until the audit must have read everything."""
DEADLINE_US = 5_000_000
"""A collection waits so long, in virtual time, for an instance that does not answer."""
FLEET_STOP_S = 70.0
A_DAY_US = 86_400_000_000
"""Longer than any demonstration."""


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
        return complete_scenario(
            Scenario(seed=seed, fault=fault, negatives=negatives, design_scenario=demonstration)
        )
    if fault is not None:
        require_known("fault", fault, FAULTS)
    for negative in negatives:
        require_known("negative case", negative, NEGATIVES)
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
    moments = collection_moments(fleet, interval)
    # Late enough that every collection is past its deadline and nothing waits any more.
    return fleet, Pace(speed=SPEED, moments=moments, ends_at=moments[-1] + 2 * DEADLINE_US)


def audit_deadline() -> Deadline:
    """When the audit gives up an answer: never on its own clock.

    Requests are made in your time, and when its plan is done the fleet ends: those that come after
    it are not answered, more of them the slower the machine is, and are no collections.
    """
    from tallystick.streaming.rounds import Deadline

    return Deadline(after_us=A_DAY_US, unanswered_max=None, journal_us=DEADLINE_US)


def preflight(directory: Path, port: int) -> None:
    """Check the machine before anything is started.

    Raises:
        MisuseError: Something is missing; the message has what fixes it.
        TableError: The directory's path is none that tables can have.
    """
    problems = check_machine(directory=directory, ports=(port, port + 1) if port else ())
    if problems:
        raise MisuseError("\n".join(str(problem) for problem in problems))
    require_place(directory)


@final
class Demo:
    """One demonstration.

    Args:
        scenario: What the fleet does.
        directory: The run's own directory, new.
        port: The broker's port; 0: a free one.
        stop: Set it to end early.
        progress: Where to report what happens.

    Attributes:
        injected: What the fault did, empty without one.
        is_complete: Whether the audit read all that the fleet published.
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
        name = "" if scenario.design_scenario is None else f", scenario {scenario.design_scenario}"
        fault = "" if scenario.fault is None else f", fault {scenario.fault}"
        self._scenario = scenario
        self._directory = directory
        self._port = port
        self._stop = stop
        self._progress = progress
        self._fleet, self._pace = demo_fleet(scenario, int(time.time()) * 1_000_000)
        self._planned = len(self._pace.moments or ())
        self._stream = StreamRun(
            "demo",
            directory,
            title=f"a simulated fleet, seed {scenario.seed}{name}{fault}",
            progress=progress,
            validated=self._validated,
        )
        self._live: LiveFleet | None = None
        self._fleet_stop = threading.Event()
        self._fleet_ended = threading.Event()
        self._fleet_error: Exception | None = None
        self._deadline: float | None = None
        self._rounds = 0
        self.is_complete = False

    @property
    def injected(self) -> tuple[Mapping[str, Any], ...]:
        """What the fault did, empty without one."""
        return tuple(self._fleet.injected)

    def run(self) -> RunResult | None:
        """Run it from the broker's start to the result; None when it was stopped."""
        progress = self._progress
        self._directory.mkdir(parents=True)
        jars = spark_kafka_jars(progress.done)
        with LocalBroker(
            self._directory / "broker", port=self._port, is_fresh=True, progress=progress.now
        ) as broker:
            servers = broker.bootstrap_servers
            ensure_topics(servers, tallystick_topics(PARTITIONS))
            progress.done(f"broker: {servers}, for this run only")
            requests = CollectRequests(
                servers, clock_us=_now_us, age_max_s=60.0, notice=progress.done
            )
            sink = kafka_client().open_sink(KafkaSettings(bootstrap_servers=servers))
            self._live = LiveFleet(self._fleet, sink, requests, pace=self._pace)
            fleet = threading.Thread(target=self._live_on, name="fleet", daemon=True)
            fleet.start()
            try:
                self._stream.run(
                    lambda: self._job(servers, jars),
                    stop=self._stop,
                    started="Spark: collector and auditor run",
                    watch=self._watch,
                )
            finally:
                self._fleet_stop.set()
                fleet.join(FLEET_STOP_S)
                requests.close()
        if self._fleet_error is not None:
            raise self._fleet_error
        return None if self._stop.is_set() else self._result()

    def _live_on(self) -> None:
        assert self._live is not None
        try:
            self._live.run(self._fleet_stop)
        except Exception as error:  # noqa: BLE001  raised by the main thread
            self._fleet_error = error
        self._fleet_ended.set()

    def _job(self, servers: str, jars: list[Path]) -> tuple[JobSettings, SessionSettings]:
        from tallystick.streaming.runner import JobSettings
        from tallystick.streaming.session import SessionSettings

        job = JobSettings(
            bootstrap_servers=servers,
            checkpoint=self._directory / "checkpoint",
            output=self._directory / TABLES,
            instances=tuple(self._fleet.instances),
            collect_interval_s=COLLECT_EVERY_S,
            deadline=audit_deadline(),
        )
        session = SessionSettings(
            jars=jars,
            java_options=with_archive(SPARK),
            log_file=self._directory / SPARK_LOG,
            shuffle_partitions=PARTITIONS,
            memory="1g",
        )
        return job, session

    def _watch(self, metrics: Mapping[str, float]) -> bool:
        """Show how far it is; True when the audit has read everything, or cannot any more."""
        assert self._live is not None
        if metrics:
            self._progress.count(
                f"{int(metrics['records']):,} of {self._live.records:,} events audited, "
                f"{int(metrics['collections_closed'])} of {self._planned} collections, "
                f"{int(metrics['findings'])} found"
            )
        if not self._fleet_ended.is_set():
            return False
        if self._deadline is None:
            self._deadline = time.monotonic() + AUDIT_DEADLINE_S
        self.is_complete = metrics.get("records", 0) >= self._live.records
        is_late = time.monotonic() > self._deadline
        return self._fleet_error is not None or self.is_complete or is_late

    def _validated(self, cuts: list[Cut], validation: CollectionValidation) -> str:
        self._rounds += 1
        counts = validation.statistics
        return f"collection {self._rounds} of {self._planned}: " + fill(
            "{rows:n row}, {held:n expectation} held, {broken} broken", counts | {"rows": len(cuts)}
        )

    def _result(self) -> RunResult:
        unread = doubt(JOURNAL_NOT_READ)
        result = self._stream.result([] if self.is_complete else [unread])
        name = self._scenario.design_scenario
        if name is not None:
            scenario = scenario_result(
                DESIGN_SCENARIOS[name],
                self._fleet.shown,
                findings=result.findings,
                checks=result.checks,
                is_complete=self.is_complete,
            )
            scenario.save(self._directory)
            result = replace(result, scenario=scenario)
        # What only a run in progress needs.
        for part in ("broker/data", "checkpoint", "artifacts"):
            shutil.rmtree(self._directory / part, ignore_errors=True)
        return result


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
