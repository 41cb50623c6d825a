"""The audit's rate as a fleet grows, with small blocks, beside a bare consumer of the same blocks.

    python -m benchmarks.growth [--instances 16 100 400] [--blocks 20] [--records 200] [--rounds 1]

For each number of instances (a quarter are sources, with three replicas each) a history of so many
blocks an instance is produced once. Then, in turns: the auditor query in Spark, at its steady rate,
and (b), a bare consumer with ``decode_block`` and the same core, in a process of its own. Beside
the rates is the processor time, which other work on the machine changes less.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from benchmarks.pipeline import (
    JOURNAL_PARTITIONS,
    measure_auditor,
    measure_bare,
    topic_settings,
)
from tallystick.deploy.broker import LocalBroker
from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics
from tallystick.producers.load.history import LoadPlan
from tallystick.producers.load.run import LoadOptions, run_load
from tallystick.producers.publisher import KafkaSettings

REPLICAS = 3


def produce(servers: str, topic: str, instances: int, blocks: int, records: int) -> None:
    """A history of so many blocks an instance, as one load."""
    plan = LoadPlan(sources=max(instances // (REPLICAS + 1), 1), replicas=REPLICAS,
                    status_every=records * 10, block_size=records)  # fmt: skip
    options = LoadOptions(plan=plan, events=instances * blocks * records)
    report = run_load(options, KafkaSettings(bootstrap_servers=servers, topic=topic))
    print(f"{instances} instances: {report.events:,} records in {report.blocks:,} blocks")


def measure(servers: str, directory: Path, arguments: argparse.Namespace) -> None:
    """Produce, measure in turns, print."""
    for instances in arguments.instances:
        prefix = f"fleet{instances}"
        ensure_topics(servers, tallystick_topics(JOURNAL_PARTITIONS, prefix))
        topics = topic_settings(prefix)
        journal = topics["journal_topic"]
        produce(servers, journal, instances, arguments.blocks, arguments.records)
        rounds: list[tuple[float, float, float]] = []
        for number in range(arguments.rounds):
            ours = measure_auditor(servers, directory / f"{instances}-{number}", topics)
            bare = measure_bare("b", servers, journal)
            used = ours["cpu_us"]
            parts = ", ".join(f"{name} {used[name]:.1f}" for name in sorted(used))
            print(
                f"    {ours['rate']:,.0f} records/s, (b) {bare['rate']:,.0f}; processor µs a record"
                f" {sum(used.values()):.1f} ({parts}), (b) {bare['cpu_us']:.1f}",
                flush=True,
            )
            ratio = sum(used.values()) / bare["cpu_us"]
            rounds.append((ours["rate"] / bare["rate"], ratio, ours["rate"]))
        rate, cpu, absolute = (statistics.median(column) for column in zip(*rounds, strict=True))
        metrics = ours["metrics"]
        print(
            f"  {instances} instances: {absolute:,.0f} records/s, {rate:.2f} of (b), with"
            f" {cpu:.1f} times its processor time; {metrics['micro_batches']:.0f} micro-batches,"
            f" {metrics['findings']:.0f} findings; resident MB {ours['peak_mb']}; the fleet's state"
            f" {metrics['fleet_state_bytes']:,.0f} B, checkpoint {ours['checkpoint_bytes']:,} B\n"
            f"  {ours['answers']}",
            flush=True,
        )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--instances", type=int, nargs="+", default=[16, 100, 400])
    parser.add_argument("--blocks", type=int, default=20, help="of each instance")
    parser.add_argument("--records", type=int, default=200, help="of a block")
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as name:
        directory = Path(name)
        with LocalBroker(directory / "broker", port=0) as broker:
            measure(broker.bootstrap_servers, directory, arguments)


if __name__ == "__main__":
    main()
