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
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer

from benchmarks.auditor import SETTINGS
from benchmarks.json_records import add_record
from benchmarks.json_topic import produce_lines
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.events.block_codec import decode_block
from tallystick.coordinates.events.journal import BlockBuilder
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.deploy.broker import LocalBroker
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


def child(module: str, *arguments: str) -> subprocess.Popen[str]:
    """A process of its own, to do one thing."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, text=True
    )


def run_bare(kind: str, servers: str, topic: str) -> None:
    """A bare consumer, in this process."""
    begun = time.perf_counter()
    events, findings = BARE[kind](servers, topic)
    seconds, cpu = time.perf_counter() - begun, time.process_time()
    result = {"events": events, "findings": findings, "rate": events / seconds}
    print(json.dumps({**result, "cpu_us": cpu / events * 1e6}))


def start_auditor(
    servers: str, directory: Path, settings: dict[str, Any], executors: int, *more: str
) -> subprocess.Popen[str]:
    """The job in a process of its own: its topics, and more settings of it."""
    directory.mkdir()
    (directory / SETTINGS).write_text(json.dumps(settings), "utf-8")
    return child("benchmarks.auditor", servers, str(directory), f"--executors={executors}", *more)


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
    process = child("benchmarks.pipeline", "--bare", kind, servers, topic)
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
    parser.add_argument("--bare", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        run_bare(*arguments.bare)
    else:
        json_events = min(arguments.json_events, arguments.events)
        run_all(arguments.events, json_events, arguments.rounds, arguments.executors)


if __name__ == "__main__":
    main()
