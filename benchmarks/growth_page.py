"""What changes as everything grows: measured, kept as JSON, and drawn for docs/performance.md.

    python -m benchmarks.growth_page [--instances 16 100 400 1600] [--records 2000000]
        [--events 30000000] [--draw]

``--draw`` draws what was measured last. Kept and drawn in docs/performance/: instances (each with
the same number of records altogether, in blocks of 200, beside the bare consumer), events (one run
of the audit of 16 instances, its rate and memory as it goes on), intervals and sources of GTID
sets.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import growth_sets
from benchmarks.chart import Chart, draw
from benchmarks.growth import Load, measure, produce
from benchmarks.pipeline import measure_auditor
from tallystick.deploy.broker import LocalBroker

DIRECTORY = Path(__file__).parents[1] / "docs" / "performance"
BUSY = 16


def measure_all(options: argparse.Namespace) -> dict[str, Any]:
    """Everything, the instances from few to many."""
    found: dict[str, Any] = {
        "at": datetime.now(timezone.utc).isoformat(timespec="minutes"),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[1], 1),
    }
    found |= growth_sets.sweeps()
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as name:
        directory = Path(name)
        with LocalBroker(directory / "broker", port=0) as broker:
            servers = broker.bootstrap_servers
            found["instances"] = [
                measure(servers, directory, Load(instances, options.records, 200, 1))
                for instances in options.instances
            ]
            topics = produce(servers, "events", Load(BUSY, options.events, 4096, 1))
            busy = measure_auditor(servers, directory / "events", topics)
            found["events"] = steady(busy["batches"])
            print(f"  {busy['answers']}")
    return found


def steady(batches: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rate and memory after each micro-batch but the first, which starts Spark's workers."""
    return [
        {
            "records": int(now["records"]),
            "records_per_s": round(
                (now["records"] - before["records"]) / (now["at"] - before["at"])
            ),
            "resident_mb": now["resident_mb"],
        }
        for before, now in pairwise(batches[1:])
    ]


def charts(found: Mapping[str, Any]) -> dict[str, Chart]:
    """What is drawn, by the name of its file."""

    def line(sweep: str, value: Callable[[Mapping[str, Any]], float]) -> list[tuple[float, float]]:
        at = {"events": "records"}.get(sweep, sweep)
        return [(one[at], value(one)) for one in found[sweep]]

    ours, bare = "Kafka, Spark, audit", "bare consumer (b)"
    of_sets = ("intervals", "sources")
    busy = f"One run of {BUSY} busy instances"
    return {
        "instances": Chart(
            "A fleet that grows, in blocks of 200 records",
            "instances",
            "records a second",
            {
                ours: line("instances", lambda one: one["records_per_s"]),
                bare: line("instances", lambda one: one["records_per_s"] / one["of_bare"]),
            },
        ),
        "processor": Chart(
            "A fleet that grows: processor time",
            "instances",
            "µs a record",
            {
                ours: line("instances", lambda one: one["cpu_us"]),
                bare: line("instances", lambda one: one["bare_cpu_us"]),
            },
        ),
        "events": Chart(
            f"{busy}: its rate",
            "records so far",
            "records a second",
            {ours: line("events", lambda one: one["records_per_s"])},
        ),
        "memory": Chart(
            f"{busy}: its memory",
            "records so far",
            "MB resident",
            {
                name: line("events", lambda one, name=name: one["resident_mb"][name])
                for name in ("driver", "jvm", "worker")
            },
        ),
        "sets": Chart(
            "A large executed set: processor time of a row",
            "intervals of one source, or sources",
            "ms",
            {name: line(name, lambda one: one["row_us"] / 1e3) for name in of_sets},
        ),
        "state": Chart(
            "A large executed set: the instance's state",
            "intervals of one source, or sources",
            "bytes",
            {name: line(name, lambda one: one["state_bytes"]) for name in of_sets},
        ),
    }


def draw_all(directory: Path = DIRECTORY) -> None:
    """Draw what is kept."""
    found = json.loads((directory / "growth.json").read_text("utf-8"))
    for name, chart in charts(found).items():
        (directory / f"{name}.svg").write_text(draw(chart), "utf-8")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--instances", type=int, nargs="+", default=[16, 100, 400, 1600])
    parser.add_argument("--records", type=int, default=2_000_000, help="of all instances together")
    parser.add_argument("--events", type=int, default=30_000_000, help="of the busy instances")
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if not options.draw:
        DIRECTORY.mkdir(exist_ok=True)
        text = json.dumps(measure_all(options), indent=1)
        (DIRECTORY / "growth.json").write_text(f"{text}\n", "utf-8")
    draw_all()


if __name__ == "__main__":
    main()
