"""From a fault to its finding, while a load goes on, and what the job's processes hold meanwhile.

    python -m benchmarks.latency [--injected 60] [--rate 0] [--instances 16] [--block 4096]
                                 [--minutes 0]

A block with a broken log_status row is produced while the auditor query runs; the time ends when
the finding can be read in Kafka. Then the next one. With a rate, a healthy load of so many records
a second over so many instances (a quarter are sources, with three replicas each) goes on in the
same topic; what was measured before it had settled is left out. It goes on for so many minutes at
least: whether memory grows is seen then.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer

from benchmarks.pipeline import JOURNAL_PARTITIONS, REPLICAS, start_auditor, topic_settings
from benchmarks.small_journal import journal
from tallystick.coordinates.events.block_codec import block_headers, encode_block
from tallystick.deploy.broker import LocalBroker
from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics
from tallystick.producers.load.history import LoadPlan
from tallystick.producers.load.run import LoadOptions, run_load
from tallystick.producers.publisher import KafkaSettings

READY_S = 180.0
SETTLED_S = 30.0
"""After the load has begun: by then Spark has compiled what it runs, and micro-batches are even."""
PAUSE_S = 0.25
DAY_S = 86_400.0
MEMORY_PARTS = 6
"""Memory after micro-batches is shown as medians of so many parts of the time: from one to the next
it moves by what a micro-batch brings."""
IsEnough = Callable[[int, float], bool]
"""Whether so many findings in so many seconds are enough."""


class Load(NamedTuple):
    """So many records a second of so many instances, in blocks of so many at most; 0: none."""

    rate: float
    instances: int
    block: int


class Auditor:
    """The job in a process of its own, and what it says after each micro-batch."""

    def __init__(
        self, servers: str, directory: Path, settings: dict[str, Any], executors: int = 0
    ) -> None:
        self.process = start_auditor(servers, directory, settings, executors)
        self.lines: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(map(json.loads, self.process.stdout))

    def stop(self) -> None:
        """Drain, and read all that it says."""
        self.process.terminate()
        self.process.wait(READY_S)
        self._reader.join(READY_S)


@contextlib.contextmanager
def going_on(what: str, *command: str) -> Iterator[None]:
    """Another process of Python's, as a producer of its own would be; it must not end by itself."""
    process = subprocess.Popen([sys.executable, "-m", *command])
    try:
        yield
        if process.poll() is not None:
            raise SystemExit(f"the {what} ended with {process.returncode}")
    finally:
        process.terminate()
        process.wait()


def load_going_on(servers: str, topic: str, load: Load) -> contextlib.AbstractContextManager[None]:
    """A load by another process."""
    command = ["benchmarks.latency", "--load", servers, topic, "--rate", str(load.rate)]
    command += ["--instances", str(load.instances), "--block", str(load.block)]
    return going_on("load", *command)


def run(servers: str, topic: str, load: Load) -> None:
    """The load, until it is ended."""
    plan = LoadPlan(
        sources=max(load.instances // (REPLICAS + 1), 1),
        replicas=REPLICAS,
        block_size=load.block,
        start_us=time.time_ns() // 1_000,
    )
    options = LoadOptions(plan=plan, rate=load.rate, seconds=DAY_S)
    run_load(options, KafkaSettings(bootstrap_servers=servers, topic=topic))


class Probe:
    """Produces broken rows, and waits for their findings."""

    def __init__(self, servers: str, topics: dict[str, str], auditor: Auditor) -> None:
        self._topic = topics["journal_topic"]
        self._auditor = auditor
        self._blocks = enumerate(journal("probe", 10**9, time.time_ns() // 1_000, ahead=1), start=1)
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
        self._consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": uuid.uuid4().hex, "fetch.wait.max.ms": 5,
             "auto.offset.reset": "earliest"}
        )  # fmt: skip
        self._consumer.subscribe([topics["findings_topic"]])

    def measure(self) -> float:
        """Seconds from handing one block to the producer to reading its finding."""
        number, block = next(self._blocks)
        begun = time.perf_counter()
        self._producer.produce(
            self._topic, encode_block(block), b"probe", headers=block_headers(block)
        )
        self._producer.poll(0)
        self._wait_for_finding(f"probe-{number}")
        seconds = time.perf_counter() - begun
        # So that not each block meets the same phase of the query's trigger.
        time.sleep(PAUSE_S * (number % 7) / 7)
        return seconds

    def _wait_for_finding(self, collection_id: str) -> None:
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline and self._auditor.process.poll() is None:
            message = self._consumer.poll(0.05)
            if message is None or message.error():
                continue
            if json.loads(message.value())["collection_id"] == collection_id:
                return
        raise SystemExit(f"no finding of {collection_id!r} within {READY_S:.0f} s")

    def close(self) -> None:
        """Leave the broker."""
        self._producer.flush(10)
        self._consumer.close()


def measure(
    servers: str, directory: Path, topics: dict[str, str], load: Load, is_enough: IsEnough
) -> tuple[list[float], Auditor, float]:
    """Latencies in seconds, one after the other; the job, which has ended; when all had settled."""
    auditor = Auditor(servers, directory, topics)
    probe = Probe(servers, topics, auditor)
    latencies: list[float] = []
    try:
        probe.measure()  # it waits for Spark's start as well
        with contextlib.ExitStack() as stack:
            settled = time.perf_counter()
            if load.rate:
                stack.enter_context(load_going_on(servers, topics["journal_topic"], load))
                settled += SETTLED_S
            while not is_enough(len(latencies), time.perf_counter() - settled):
                begun = time.perf_counter()
                seconds = probe.measure()
                if begun >= settled:
                    latencies.append(seconds)
    finally:
        auditor.stop()
        probe.close()
    return latencies, auditor, settled


def parts(values: list[float]) -> list[list[float]]:
    """Values in the order of time, in ``MEMORY_PARTS`` parts of them, fewer if there are fewer."""
    count = min(MEMORY_PARTS, len(values))
    ends = [number * len(values) // count for number in range(count + 1)]
    return [values[first:end] for first, end in pairwise(ends)]


def show(latencies: list[float], auditor: Auditor, settled: float, rate: float) -> None:
    """Print what was measured."""
    p50, p95 = (statistics.quantiles(latencies, n=20, method="inclusive")[i] for i in (9, 18))
    print(
        f"{len(latencies)} findings, from the produced block to the finding readable in Kafka: p50"
        f" {p50 * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms, max {max(latencies) * 1000:.0f} ms"
    )
    lines = [line for line in auditor.lines if line.get("at", -math.inf) >= settled]
    first, last = lines[0], lines[-1]
    seconds, batches = (last[name] - first[name] for name in ("at", "micro_batches"))
    print(
        f"{(last['records'] - first['records']) / seconds:,.0f} records/s were audited in"
        f" {seconds:.0f} s, at a load of {rate:,.0f}; {batches:.0f} micro-batches, one in"
        f" {seconds / batches:.2f} s"
    )
    for name in sorted(last["resident_mb"]):
        sizes = [line["resident_mb"][name] for line in lines]
        shown = ", ".join(f"{statistics.median(part):.0f}" for part in parts(sizes))
        print(f"resident MB of the {name}, medians of each part of the time: {shown}")
    print(auditor.lines[-1]["answers"])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--injected", type=int, default=60)
    parser.add_argument("--rate", type=float, default=0.0, help="records a second")
    parser.add_argument("--instances", type=int, default=16)
    parser.add_argument("--block", type=int, default=4096, help="records of a block at most")
    parser.add_argument("--minutes", type=float, default=0.0)
    # What this program starts itself.
    parser.add_argument("--load", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    load = Load(options.rate, options.instances, options.block)
    if options.load:
        run(*options.load, load)
        return
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as name:
        directory = Path(name)
        with LocalBroker(directory / "broker", port=0) as broker:
            servers, topics = broker.bootstrap_servers, topic_settings("latency")
            ensure_topics(servers, tallystick_topics(JOURNAL_PARTITIONS, "latency"))
            latencies, auditor, settled = measure(
                servers,
                directory / "audit",
                topics,
                load,
                lambda count, s: count >= options.injected and s >= options.minutes * 60,
            )
    show(latencies, auditor, settled, load.rate)


if __name__ == "__main__":
    main()
