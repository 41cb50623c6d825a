"""The engines, and one measurement of one of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.others.environments import ROOT, NotInstallableError, jars_of, python_of
from benchmarks.others.history import Result, await_results
from benchmarks.others.kinds import KINDS
from benchmarks.others.machine import Sampler
from tallystick.deploy.jars import broker_classpath
from tallystick.deploy.preflight import java_command
from tallystick.deploy.processes import dying_with_parent
from tallystick.producers.kafka_topics import Topic, ensure_topics

STREAMS = Path(__file__).with_name("ContinuityStreams.java")
"""Java compiles it as it starts."""
TIMEOUT_S = 300.0
STOP_S = 20.0


@dataclass(frozen=True)
class Engine:
    """A way to run the checks.

    Attributes:
        kept: How its state and its results come through a crash.
        command: Gives what is started, before its arguments; installs it where it is missing.
        jars: Gives further arguments.
        kinds: Which checks it has.
    """

    kept: str
    command: Callable[[], list[str]]
    jars: Callable[[], list[Path]] = list
    kinds: Sequence[str] = tuple(KINDS)


def _in_environment(name: str, module: str) -> Callable[[], list[str]]:
    return lambda: [str(python_of(name)), "-m", f"benchmarks.others.{module}"]


def _kafka_streams() -> list[str]:
    java = java_command()
    if java is None or not Path(java).resolve().with_name("javac").exists():
        raise NotInstallableError("kafka-streams is compiled as it starts: it needs a JDK")
    jars = [*broker_classpath(), *jars_of("kafka-streams")]
    return [java, "-cp", os.pathsep.join(map(str, jars)), str(STREAMS)]


ENGINES = {
    "bare": Engine(
        "no engine, and nothing is kept", lambda: [sys.executable, "-m", "benchmarks.others.bare"]
    ),
    "bytewax": Engine(
        "snapshots in SQLite at the end of each epoch of 5 s; results at least once",
        _in_environment("bytewax", "bytewax_flow"),
    ),
    "quixstreams": Engine(
        "RocksDB and a topic of its changes, committed every 5 s; results at least once",
        _in_environment("quixstreams", "quix_app"),
    ),
    "flink": Engine(
        "checkpoints of the heap every 5 s, state exactly once; results at least once",
        _in_environment("flink", "flink_job"),
        lambda: jars_of("flink"),
    ),
    "kafka-streams": Engine(
        "RocksDB and a topic of its changes, committed every 5 s; results at least once; in Java",
        _kafka_streams,
        kinds=("continuity",),
    ),
}


@dataclass(frozen=True)
class Run:
    """One measurement: what it reads, and where its results go.

    Attributes:
        kind: The checks, by name.
        servers: The broker.
        topic: The history.
        results: A topic for the results; it is made.
        directory: For the engine's state and its log; it is made.
        instances: How many results there will be.
    """

    kind: str
    servers: str
    topic: str
    results: str
    directory: Path
    instances: int


def run_engine(engine: Engine, run: Run) -> tuple[list[Result], dict[str, float]]:
    """The results of all instances, and what they took."""
    ensure_topics(run.servers, [Topic(run.results, 1, {"cleanup.policy": "delete"})])
    run.directory.mkdir(parents=True)
    command = [
        *engine.command(), run.servers, run.topic, run.results, str(run.directory), run.kind,
        *map(str, engine.jars()),
    ]  # fmt: skip
    log = run.directory / "log"
    begun = time.monotonic()
    with log.open("wb") as output:
        # A group of its own: an engine may leave processes behind when its first one ends.
        process = subprocess.Popen(
            dying_with_parent(command, sys.executable), cwd=ROOT, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    sampler = Sampler(process.pid)
    try:
        found = await_results(
            run.servers, run.results, run.instances, lambda: process.poll() is None, TIMEOUT_S
        )
    finally:
        status = process.poll()
        sampler.stop()
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if found is None:
        last = "\n".join(log.read_text("utf-8", "replace").splitlines()[-15:])
        why = f"after {TIMEOUT_S:.0f} s" if status is None else f"it ended with {status}"
        raise SystemExit(f"not all results of {run.directory.name}, {why}:\n{last}")
    first, end = min(one["begun"] for one in found), max(one["ended"] for one in found)
    records = sum(one["records"] for one in found)
    return found, {
        "rate": records / (end - first),
        "cpu_s_per_million": sampler.cpu_s(first, end) / records * 1e6,
        "start_s": first - begun,
        "peak_mb": sampler.peak_mb,
    }
