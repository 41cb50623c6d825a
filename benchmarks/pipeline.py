"""The auditor's rate through a real broker, beside two bare consumers.

    python -m benchmarks.pipeline [--events 10000000] [--rounds 3] [--json-events 1000000]
                                  [--executors 2]

In one run, on one machine, in turns:

- tallystick: the auditor query in Spark, on blocks. Its steady rate is measured between the end of
  its second micro-batch and the end of its last one, so without Spark's start-up. With executors
  it is measured once more, on so many of one core each.
- (a) a bare confluent-kafka consumer on the same history as one JSON message an event: json.loads,
  the values into columns, and the same core on them. On a sample of the history. How long
  json.loads and the consumer alone take is printed too.
- (b) a bare consumer on the same blocks: decode_block and the same core.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer

from benchmarks.json_records import add_record
from benchmarks.json_topic import produce_lines
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.events.block_codec import decode_block
from tallystick.coordinates.events.journal import BlockBuilder
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.results import Outcome
from tallystick.deploy.broker import LocalBroker
from tallystick.deploy.class_archives import SPARK, with_archive
from tallystick.deploy.jars import spark_kafka_jars
from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics
from tallystick.producers.load.history import LoadPlan
from tallystick.producers.load.run import LoadOptions, load_blocks, run_load
from tallystick.producers.publisher import KafkaSettings

JOURNAL_PARTITIONS = 4
SOURCES, REPLICAS = 8, 1
"""Eight sources with a replica each: 16 instances in 8 clusters, which executors share."""
JSON_TOPIC = "benchmark.json"
COLUMN_BLOCK = 4096
READY_S = 180.0


# The same histories, as blocks and as JSON


def produce_blocks(servers: str, events: int, topic: str) -> None:
    """The whole history as blocks."""
    options = LoadOptions(plan=LoadPlan(sources=SOURCES, replicas=REPLICAS), events=events)
    report = run_load(options, KafkaSettings(bootstrap_servers=servers, topic=topic))
    print(
        f"produced   {report.events:>11,} events in {report.blocks:,} blocks, "
        f"{report.value_bytes / report.events:.0f} bytes an event, "
        f"{report.events_per_s:,.0f} events/s"
    )


def produce_json(servers: str, events: int, topic: str) -> None:
    """The beginning of the same history, one message an event."""
    options = LoadOptions(plan=LoadPlan(sources=SOURCES, replicas=REPLICAS), events=events)
    blocks = load_blocks(options, lambda: 0.0)
    lines = ((block.instance_id, line) for block in blocks for line in block_to_lines(block))
    produce_lines(servers, topic, JOURNAL_PARTITIONS, lines)


def messages(servers: str, topic: str) -> Iterator[Any]:
    """Every message of a topic as it is now, as fast as a bare consumer reads them."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": uuid.uuid4().hex, "enable.auto.commit": False,
         "auto.offset.reset": "earliest", "enable.partition.eof": True,
         "queued.max.messages.kbytes": 131_072, "fetch.message.max.bytes": 8_388_608}
    )  # fmt: skip
    partitions = len(consumer.list_topics(topic, 30).topics[topic].partitions)
    consumer.subscribe([topic])
    ended: set[int] = set()
    while len(ended) < partitions:
        for message in consumer.consume(2_000, 1.0):
            if message.error():
                ended.add(message.partition())
            else:
                yield message
    consumer.close()


# (a) and (b)


def bare_json(servers: str, topic: str) -> tuple[int, int]:
    """(a): events and findings."""
    builders: dict[str, BlockBuilder] = {}
    audits: dict[str, InstanceAudit] = {}
    events = findings = 0
    for message in messages(servers, topic):
        record = json.loads(message.value())
        instance = record["instance"]
        builder = builders.get(instance)
        if builder is None:
            builder = builders[instance] = BlockBuilder(instance)
            audits[instance] = InstanceAudit(instance)
        add_record(builder, record)
        events += 1
        if len(builder) >= COLUMN_BLOCK:
            findings += len(audits[instance].absorb(builder.build()).findings)
    for instance, builder in builders.items():
        findings += len(audits[instance].absorb(builder.build()).findings)
    return events, findings


def bare_json_loads(servers: str, topic: str) -> tuple[int, int]:
    """What of (a) is the consumer and json.loads."""
    events = 0
    for message in messages(servers, topic):
        json.loads(message.value())
        events += 1
    return events, 0


def bare_blocks(servers: str, topic: str) -> tuple[int, int]:
    """(b): events and findings."""
    audits: dict[str, InstanceAudit] = {}
    events = findings = 0
    for message in messages(servers, topic):
        block = decode_block(message.value(), key=message.key(), headers=message.headers())
        audit = audits.setdefault(block.instance_id, InstanceAudit(block.instance_id))
        findings += len(audit.absorb(block).findings)
        events += len(block)
    return events, findings


BARE = {"a": bare_json, "a0": bare_json_loads, "b": bare_blocks}


# Each measured thing in a process of its own


def child(*arguments: str) -> subprocess.Popen[str]:
    """This program again, to do one thing."""
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.pipeline", *arguments], stdout=subprocess.PIPE, text=True
    )


def run_bare(kind: str, servers: str, topic: str) -> None:
    """A bare consumer, in this process."""
    begun = time.perf_counter()
    events, findings = BARE[kind](servers, topic)
    seconds, cpu = time.perf_counter() - begun, time.process_time()
    result = {"events": events, "findings": findings, "rate": events / seconds}
    print(json.dumps({**result, "cpu_us": cpu / events * 1e6}))


SETTINGS = "settings.json"
"""In the auditor's directory: more of the job's settings."""


def start_auditor(
    servers: str, directory: Path, settings: dict[str, Any], executors: int, *more: str
) -> subprocess.Popen[str]:
    """The job in a process of its own: its topics, and more settings of it."""
    directory.mkdir()
    (directory / SETTINGS).write_text(json.dumps(settings), "utf-8")
    return child("--auditor", servers, str(directory), "--executors", str(executors), *more)


def run_auditor(servers: str, directory: str, available_now: bool, executors: int) -> None:
    """The job; one line a micro-batch, then one with the memory at the end."""
    from tallystick.streaming.runner import JobSettings, run_job, stopping_on_signals
    from tallystick.streaming.session import SessionSettings
    from tallystick.streaming.table_upkeep import Retention

    directory_path = Path(directory)
    done = -1.0
    peak: dict[str, int] = {}

    def report(metrics: dict[str, float]) -> None:
        nonlocal done
        if metrics["micro_batches"] != done:
            done = metrics["micro_batches"]
            resident, seconds = used()
            for name, megabytes in resident.items():
                peak[name] = max(peak.get(name, 0), megabytes)
            now = {"at": time.perf_counter(), "cpu_s": seconds, "resident_mb": resident}
            line = now | metrics
            print(json.dumps(line), flush=True)

    stop = threading.Event()
    with stopping_on_signals(stop):
        metrics = run_job(
            JobSettings(
                bootstrap_servers=servers,
                checkpoint=directory_path / "checkpoint",
                output=directory_path / "out",
                # With it, as `tallystick audit` has it, small files of the tables are put together.
                retention=Retention(details_days=35, history_days=400),
                available_now=available_now,
                **json.loads((directory_path / SETTINGS).read_text("utf-8")),
            ),
            SessionSettings(
                jars=spark_kafka_jars(),
                log_file=directory_path / "spark.log",
                java_options=with_archive(SPARK),
                master=f"local-cluster[{executors},1,1024]" if executors else "local[2]",
                shuffle_partitions=executors or 1,
            ),
            stop=stop,
            report=report,
        )
    state = sum(
        path.stat().st_size for path in (directory_path / "checkpoint").rglob("*") if path.is_file()
    )
    answers = answers_in(directory_path / "out")
    last = {"metrics": metrics, "peak_mb": peak, "checkpoint_bytes": state, "answers": answers}
    print(json.dumps(last), flush=True)


def answers_in(output: Path) -> str:
    """How many checks held and did not, and how often it could not be told, from the tables."""
    from tallystick.streaming import table_reader

    of_rows = (check for cut in table_reader.read_cuts(output) for check in cut.checks)
    of_others = (one.check for one in table_reader.read_checks(output))
    checks = [*of_rows, *of_others]
    found = Counter(check.outcome.value for check in checks)
    counts = ", ".join(f"{found[outcome.value]:,} {outcome.value}" for outcome in Outcome)
    open_checks = (check for check in checks if check.outcome is Outcome.UNDECIDED)
    why = Counter(f"{check.rule} {check.reason}" for check in open_checks)
    seen = table_reader.observations_of(table_reader.read_observations(output))
    why.update(one.reason or one.code.value for one in seen if one.is_undecided)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in why.most_common())
    return f"checks: {counts}{reasons and ': '}{reasons}"


def used() -> tuple[dict[str, int], dict[str, float]]:
    """Megabytes and processor seconds of this process, its JVM and its Python workers.

    Returns:
        Resident memory, of the largest worker; processor seconds, of the workers together.
    """
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
            except OSError:
                continue
    found: dict[str, int] = {}
    seconds: dict[str, float] = {}
    for pid in parents:
        ancestor = pid
        while ancestor not in {os.getpid(), 0, 1}:
            ancestor = parents.get(ancestor, 0)
        if ancestor != os.getpid():
            continue
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            status = Path(f"/proc/{pid}/status").read_text()
            user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        except OSError:
            continue
        name = "driver" if pid == os.getpid() else "jvm" if b"java" in command else "worker"
        resident = next((x for x in status.splitlines() if x.startswith("VmRSS")), "VmRSS: 0 kB")
        found[name] = max(found.get(name, 0), int(resident.split()[1]) // 1024)
        ticks = int(user) + int(system)
        seconds[name] = seconds.get(name, 0.0) + ticks / os.sysconf("SC_CLK_TCK")
    return found, seconds


def measure_auditor(
    servers: str, directory: Path, settings: dict[str, Any], executors: int = 0
) -> dict[str, Any]:
    """One run over everything that is in the journal topic, in one JVM or in executors."""
    process = start_auditor(servers, directory, settings, executors, "--available-now")
    assert process.stdout is not None
    lines = [json.loads(line) for line in process.stdout]
    if process.wait() or len(lines) < 4:
        raise SystemExit(f"the auditor ended with {process.returncode} after {len(lines)} lines")
    batches = [line for line in lines if line.get("micro_batches")]
    if len(batches) < 3:
        raise SystemExit(f"{len(batches)} micro-batches have no steady rate: use more --events")
    first, last = batches[1], batches[-1]
    records = last["records"] - first["records"]
    rate = records / (last["at"] - first["at"])
    cpu = {name: last["cpu_s"][name] - first["cpu_s"].get(name, 0.0) for name in last["cpu_s"]}
    per_record = {name: seconds / records * 1e6 for name, seconds in cpu.items()}
    return {"rate": rate, "batches": batches, "cpu_us": per_record, **lines[-1]}


def measure_bare(kind: str, servers: str, topic: str) -> dict[str, Any]:
    """A bare consumer, in a process of its own."""
    process = child("--bare", kind, servers, topic)
    output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"bare consumer {kind!r} ended with {process.returncode}")
    result: dict[str, Any] = json.loads(output)
    return result


# The whole


def run_all(events: int, json_events: int, rounds: int, executors: int) -> None:
    """Everything, in a broker of its own."""
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as name:
        directory = Path(name)
        with LocalBroker(directory / "broker", port=0) as broker:
            servers = broker.bootstrap_servers
            measure_all(servers, directory, events, json_events, rounds=rounds, executors=executors)


def measure_all(
    servers: str, directory: Path, events: int, json_events: int, *, rounds: int, executors: int
) -> None:
    """Produce the histories, measure in turns, print."""
    ensure_topics(servers, tallystick_topics(JOURNAL_PARTITIONS, "benchmark"))
    journal = topic_settings("benchmark")
    produce_blocks(servers, events, journal["journal_topic"])
    produce_json(servers, json_events, JSON_TOPIC)
    print(f"(a) reads the first {json_events:,} of them as JSON, one message an event\n")
    ours = {"tallystick": 0, **({"executors": executors} if executors else {})}
    found: dict[str, list[float]] = {name: [] for name in (*ours, "a", "a0", "b")}
    last: dict[str, Any] = {}
    for number in range(rounds):
        for kind, count in ours.items():
            last = measure_auditor(servers, directory / f"{kind}-{number}", journal, count)
            found[kind].append(last["rate"])
        for kind, topic in (("a", JSON_TOPIC), ("a0", JSON_TOPIC), ("b", journal["journal_topic"])):
            found[kind].append(measure_bare(kind, servers, topic)["rate"])
        rates = ", ".join(f"{kind} {values[-1]:,.0f}" for kind, values in found.items())
        print(f"round {number + 1}: events/s {rates}", flush=True)
    medians = {kind: statistics.median(values) for kind, values in found.items()}
    print(f"\nsteady rate, median of {rounds} rounds, {os.cpu_count()} cores, events/s")
    labels = {
        "tallystick": "tallystick: Kafka, Spark, blocks, checkpointed",
        "executors": f"    in {executors} executors of one core",
        "a": "(a) bare consumer, json.loads, same core",
        "a0": "    of which consumer and json.loads alone",
        "b": "(b) bare consumer, same blocks, same core",
    }
    for kind, rate in medians.items():
        ratios = ", ".join(f"{medians[one] / rate:.2f}" for one in ours)
        print(f"{labels[kind]:<50}{rate:>12,.0f}   tallystick is {ratios} times it")
    metrics = last["metrics"]
    print(
        f"\naudited {metrics['records']:,.0f} events, {metrics['findings']:.0f} findings, "
        f"{metrics['micro_batches']:.0f} micro-batches; resident MB at most {last['peak_mb']}; "
        f"state {metrics['state_memory_bytes'] / 2**20:.1f} MB in memory, "
        f"checkpoint {last['checkpoint_bytes'] / 2**20:.1f} MB on disk\n{last['answers']}"
    )


def topic_settings(prefix: str) -> dict[str, str]:
    """The topics of one prefix, as the job's settings."""
    return {
        "journal_topic": f"{prefix}.journal",
        "findings_topic": f"{prefix}.findings",
        "dead_letter_topic": f"{prefix}.deadletter",
        "collect_topic": f"{prefix}.collect",
        "control_topic": f"{prefix}.control",
        "incidents_topic": f"{prefix}.incidents",
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--json-events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--executors", type=int, default=0, help="measured, too, if there are any")
    # What this program starts itself.
    parser.add_argument("--auditor", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--available-now", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--bare", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.auditor:
        run_auditor(*arguments.auditor, arguments.available_now, arguments.executors)
    elif arguments.bare:
        run_bare(*arguments.bare)
    else:
        json_events = min(arguments.json_events, arguments.events)
        run_all(arguments.events, json_events, arguments.rounds, arguments.executors)


if __name__ == "__main__":
    main()
