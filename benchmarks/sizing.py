"""What a fleet takes, computed from measured costs (docs/sizing.md); nothing is measured here.

    python -m benchmarks.sizing [--instances 1000] [--events 500000] [--blocks 1] [--interval 60]

Prints a table as Markdown, and first what limits one job, by how far the fleet is beyond it.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

# Measured; where and how is in docs/sizing.md, in the same order.
SENT_BYTES = (12.3, 300.0)
"""Of a block as it is in Kafka, with lz4: for each record, and for each block."""
PART_US = (0.2, 762.0)
"""Of one part's time: for each record, and for each block."""
DRIVER_US = 18.0
"""Of the driver's time for each block: its rows."""
FLEET_KB = (10.0, 105.0)
"""The state of a cluster's comparisons for an instance: quiet, and busy."""
AUDIT_MB = (0.05, 0.5)
"""An audit in a Python worker: quiet, and busy."""
COLLECTION_US = 5700.0
"""Of the driver's time for each instance of a collection: validated, and its rows written."""
CHECKS = 75
"""Of an instance with two channels, in a collection."""
EXECUTOR_GB, DRIVER_GB = 1.5, 3.0
"""Heap and Python worker or driver, without audits and what they are compared by."""
# Of this computation.
SHARE = 0.7
"""Of what there is may be used: the rest is for what comes late and all at once."""
COPIES = 3
"""Of each of Kafka's partitions."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is to be audited.

    Attributes:
        instances: Servers, sources and replicas.
        events: In all journals, a second.
        blocks: Of each instance, a second; with fewer events one is a heartbeat.
        interval_s: Between two collections.
    """

    instances: int
    events: float
    blocks: float = 1.0
    interval_s: float = 60.0

    @property
    def all_blocks(self) -> float:
        """Blocks a second of the whole fleet."""
        return self.instances * self.blocks

    def bytes_a_second(self, cost: tuple[float, float]) -> float:
        """Of all journals."""
        return self.events * cost[0] + self.all_blocks * cost[1]

    @property
    def parts_exact(self) -> float:
        """How many parts are busy, of which each may be so for a share of its time."""
        busy_us = self.events * PART_US[0] + self.all_blocks * PART_US[1]
        return busy_us / 1e6 / SHARE

    @property
    def parts(self) -> int:
        """How many parts, each with an executor of one core (spark_partitions)."""
        return max(1, math.ceil(self.parts_exact))


def needs(fleet: Fleet) -> list[tuple[str, str]]:
    """What to give to it, as rows of a table."""
    sent = fleet.bytes_a_second(SENT_BYTES)
    audits = zip(AUDIT_MB, FLEET_KB, strict=True)
    low, high = (fleet.instances * (mb / 1e3 + 2 * kb / 1e6) for mb, kb in audits)
    executors = fleet.parts * EXECUTOR_GB
    return [
        ("parts = executors of one core = Kafka partitions, at least", f"{fleet.parts:,}"),
        (
            "memory of executors",
            f"{executors:,.0f} GB, and for the audits {_range(low, high)} GB",
        ),
        (
            "memory of the driver",
            f"{DRIVER_GB:.0f} GB",
        ),
        ("into Kafka", f"{_size(sent)}/s; with {COPIES} copies {_size(COPIES * sent)}/s on disks"),
        ("from Kafka to executors", f"{_size(sent)}/s"),
        ("between executors (shuffle)", f"{_size(sent)}/s"),
        (
            "written to the checkpoint",
            f"{_size(2 * sent)}/s, {_size(2 * sent / fleet.parts)}/s a part",
        ),
        ("rows of checks", f"{fleet.instances * CHECKS / fleet.interval_s:,.0f} a second"),
    ]


def limits(fleet: Fleet) -> list[tuple[str, float, str]]:
    """What one job cannot do whatever it is given: how many times the fleet is beyond it, and why.

    The worst first. Below 1 the fleet is within it.
    """
    found = [
        (
            "the driver's part of each block",
            fleet.all_blocks * DRIVER_US / 1e6 / SHARE,
            f"{fleet.all_blocks * DRIVER_US / 1e6:.2g} s of one thread a second",
        ),
        (
            "the driver validates a collection and writes it",
            fleet.instances * COLLECTION_US / 1e6 / fleet.interval_s / SHARE,
            f"{fleet.instances * COLLECTION_US / 1e6:.3g} s each {fleet.interval_s:g} s",
        ),
    ]
    return sorted(found, key=lambda one: -one[1])


def _range(low: float, high: float) -> str:
    return f"{low:,.2g} to {high:,.2g}" if high < 10 else f"{low:,.0f} to {high:,.0f}"


def _size(count: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"


def table(fleet: Fleet) -> str:
    """Both, as Markdown."""
    lines = ["| what limits one job | times | |", "|---|---|---|"]
    lines += [
        f"| {what} | {times:,.{0 if times >= 10 else 2}f} | {why} |"
        for what, times, why in limits(fleet)
    ]
    lines += ["", "| what it takes | |", "|---|---|"]
    lines += [f"| {what} | {how} |" for what, how in needs(fleet)]
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--instances", type=int, default=1_000)
    parser.add_argument("--events", type=float, default=500_000, help="a second, of all journals")
    parser.add_argument("--blocks", type=float, default=1, help="a second, of each instance")
    parser.add_argument("--interval", type=float, default=60, help="seconds between collections")
    given = parser.parse_args()
    print(table(Fleet(given.instances, given.events, given.blocks, given.interval)))


if __name__ == "__main__":
    main()
