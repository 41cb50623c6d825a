"""The audit's rate as a fleet grows, with small blocks, beside a bare consumer of the same blocks.

    python -m benchmarks.growth [--instances 16 100 400] [--blocks 20] [--records 200] [--rounds 1]

For each number of instances (a quarter are sources, with three replicas each) a history of so many
blocks an instance, or of more where these are too few for a rate, is produced once. Then, in turns:
the auditor query in Spark, at its steady rate, and (b), a bare consumer with ``decode_block`` and
the same core, in a process of its own. Beside the rates is the processor time, which other work on
the machine changes less.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
MESSAGES_MIN = 36_000
"""A micro-batch takes up to 16,384 messages: fewer than this are too few of them for a rate."""


@dataclass(frozen=True)
class Load:
    """So many records of so many instances, in blocks of so many, measured so often."""

    instances: int
    records: int
    block: int
    rounds: int


def produce(servers: str, prefix: str, load: Load) -> dict[str, Any]:
    """A history as one load; returns the settings of its job."""
    ensure_topics(servers, tallystick_topics(JOURNAL_PARTITIONS, prefix))
    topics = topic_settings(prefix)
    sources = max(load.instances // (REPLICAS + 1), 1)
    plan = LoadPlan(sources=sources, replicas=REPLICAS,
                    status_every=load.block * 10, block_size=load.block)  # fmt: skip
    options = LoadOptions(plan=plan, events=load.records)
    settings = KafkaSettings(bootstrap_servers=servers, topic=topics["journal_topic"])
    report = run_load(options, settings)
    print(f"{load.instances} instances: {report.events:,} records in {report.blocks:,} blocks")
    suffixes = ["", *(f"-replica-{number + 1}" for number in range(REPLICAS))]
    # Of a fleet that is not listed only some thousand are judged.
    names = [f"source-{n + 1}{suffix}" for n in range(sources) for suffix in suffixes]
    return topics | {"instances": names}


def measure(servers: str, directory: Path, load: Load) -> dict[str, Any]:
    """Produce, measure in turns, print.

    Args:
        servers: Of the broker.
        directory: For checkpoints and tables.
        load: What is produced, once.

    Returns:
        Medians over the rounds: records a second, ours and (b)'s, and microseconds of processor
        time a record; of the last round megabytes resident, bytes of states, findings.
    """
    instances = load.instances
    settings = produce(servers, f"fleet{instances}", load)
    rates, ratios, used, bare_used = [], [], [], []
    for number in range(load.rounds):
        ours = measure_auditor(servers, directory / f"{instances}-{number}", settings)
        bare = measure_bare("b", servers, settings["journal_topic"])
        cpu = ours["cpu_us"]
        parts = ", ".join(f"{name} {cpu[name]:.1f}" for name in sorted(cpu))
        print(
            f"    {ours['rate']:,.0f} records/s, (b) {bare['rate']:,.0f}; processor µs a record"
            f" {sum(cpu.values()):.1f} ({parts}), (b) {bare['cpu_us']:.1f}",
            flush=True,
        )
        rates.append(ours["rate"])
        ratios.append(ours["rate"] / bare["rate"])
        used.append(sum(cpu.values()))
        bare_used.append(bare["cpu_us"])
    metrics = ours["metrics"]
    found = {
        "instances": instances,
        "records_per_s": round(statistics.median(rates)),
        "of_bare": round(statistics.median(ratios), 3),
        "cpu_us": round(statistics.median(used), 2),
        "bare_cpu_us": round(statistics.median(bare_used), 2),
        "micro_batches": metrics["micro_batches"],
        "findings": metrics["findings"],
        "resident_mb": ours["peak_mb"],
        "fleet_state_bytes": metrics["fleet_state_bytes"],
        "checkpoint_bytes": ours["checkpoint_bytes"],
    }
    print(
        f"  {instances} instances: {found['records_per_s']:,} records/s, {found['of_bare']:.2f} of"
        f" (b), with {found['cpu_us'] / found['bare_cpu_us']:.1f} times its processor time;"
        f" {found['micro_batches']:.0f} micro-batches, {found['findings']:.0f} findings; resident"
        f" MB {found['resident_mb']}; the fleet's state {found['fleet_state_bytes']:,.0f} B,"
        f" checkpoint {found['checkpoint_bytes']:,} B\n  {ours['answers']}",
        flush=True,
    )
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--instances", type=int, nargs="+", default=[16, 100, 400])
    parser.add_argument("--blocks", type=int, default=20, help="of each instance")
    parser.add_argument("--records", type=int, default=200, help="of a block")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as name:
        directory = Path(name)
        with LocalBroker(directory / "broker", port=0) as broker:
            for instances in options.instances:
                blocks = max(options.blocks, MESSAGES_MIN // instances)
                records = instances * blocks * options.records
                load = Load(instances, records, options.records, options.rounds)
                measure(broker.bootstrap_servers, directory, load)


if __name__ == "__main__":
    main()
