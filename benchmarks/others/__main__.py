"""The same checks on the same messages in other stream processors, and in none.

    python -m benchmarks.others [--engine NAME …] [--checks NAME …] [--events N] [--rounds N]

One history, one JSON message a record, keyed by instance, is written to a real broker once. Each
engine reads it with one worker, makes the checks in a stateful step that is keyed by instance, has
its state made durable every few seconds, and writes the results to Kafka. The checks are
tallystick's own audit of an instance (`audit`), and a small part of it (`continuity`) that is there
in Java too. So what differs is what an engine costs. Of the same checks all results must be the
same: every finding, and how often each rule held, was broken and was undecided.

The steady rate is between the first message that reaches the checks and the last result, so without
the engine's start; processor time is that of all its processes between these two times. Before each
measurement a loop that is always the same shows how noisy the machine is.

An engine is installed at its first use, into an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.others.engines import ENGINES, Run, run_engine
from benchmarks.others.environments import DIRECTORY, NotInstallableError
from benchmarks.others.history import Result, produce, what_was_found
from benchmarks.others.kinds import KINDS
from benchmarks.others.machine import calibrate
from tallystick.deploy.broker import LocalBroker

TOPIC = "others.history"


def measure(
    names: Sequence[str], kinds: Sequence[str], events: int, rounds: int, directory: Path
) -> dict[str, Any]:
    """All engines in turns; what they found is compared, what they took is returned."""
    expected: dict[str, list[Result]] = {}
    taken: dict[str, dict[str, list[dict[str, float]]]] = {kind: {} for kind in kinds}
    loops: list[dict[str, float]] = []
    with LocalBroker(directory / "broker", port=0) as broker:
        servers = broker.bootstrap_servers
        records, instances = produce(servers, TOPIC, events)
        print(f"{records:,} records of {instances} instances, one JSON message each", flush=True)
        turns = [(number, kind, name) for number in range(rounds) for kind in kinds
                 for name in names if kind in ENGINES[name].kinds]  # fmt: skip
        for number, kind, name in turns:
            loops.append(calibrate())
            run = f"{kind}-{name}-{number + 1}"
            found, values = run_engine(
                ENGINES[name],
                Run(kind, servers, TOPIC, f"others.{run}", directory / run, instances),
            )
            results = what_was_found(found)
            if results != expected.setdefault(kind, results):
                raise SystemExit(f"other results in {run} than before: {results}")
            taken[kind].setdefault(name, []).append(values)
            print(
                f"  {run:<28}{values['rate']:>10,.0f} records/s, processor"
                f"{values['cpu_s_per_million']:>7.1f} s a million,{values['peak_mb']:>6,.0f} MB,"
                f" first message after {values['start_s']:.1f} s; load {loops[-1]['load']:.1f}",
                flush=True,
            )
    return {
        "records": records,
        "instances": instances,
        "findings": {
            kind: sum(len(one["findings"]) for one in of_kind) for kind, of_kind in expected.items()
        },
        "checks": {
            kind: sum(sum(one["checks"].values()) for one in of_kind)
            for kind, of_kind in expected.items()
        },
        "rounds": taken,
        "loops": loops,
    }


def spread(values: Sequence[float], form: str = ",.0f") -> str:
    """Median, least and most."""
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{middle:{form}} ({least:{form}} to {most:{form}})"


def show(document: dict[str, Any]) -> None:
    """The tables."""
    for kind, taken in document["rounds"].items():
        print(
            f"\n{kind}: {document['checks'][kind]:,} checks and {document['findings'][kind]}"
            f" findings, the same everywhere; median (least to most) of the rounds"
        )
        print(f"{'':<15}{'records/s':<32}{'processor s a million':<28}of bare  state, results")
        bare = taken.get("bare")
        for name, rounds in taken.items():
            cpu = [one["cpu_s_per_million"] for one in rounds]
            of_bare = "-"
            if bare:
                base = statistics.median(one["cpu_s_per_million"] for one in bare)
                of_bare = f"{statistics.median(cpu) / base:.2f}"
            rate = spread([one["rate"] for one in rounds])
            print(f"{name:<15}{rate:<32}{spread(cpu, '.1f'):<28}{of_bare:<9}{ENGINES[name].kept}")
    loops = document["loops"]
    print(
        f"\nthe machine: {document['cores']} cores, Python {document['python']}; the same loop took"
        f" {spread([one['wall_s'] for one in loops], '.2f')} s,"
        f" of it processor {spread([one['cpu_s'] for one in loops], '.2f')};"
        f" load {spread([one['load'] for one in loops], '.1f')}"
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--engine", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--checks", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="by default a file in .tallystick/benchmarks")
    arguments = parser.parse_args()
    names = []
    for name in arguments.engine:
        try:
            ENGINES[name].command()
            ENGINES[name].jars()
            names.append(name)
        except NotInstallableError as error:
            print(f"left out: {error}", flush=True)
    now = datetime.now(timezone.utc)
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as directory:
        document = measure(
            names, arguments.checks, arguments.events, arguments.rounds, Path(directory)
        )
    document |= {
        "at": now.isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }
    show(document)
    target = arguments.json or DIRECTORY / f"others-{now:%Y%m%dT%H%M%SZ}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    print(f"each measurement is in {target}")


if __name__ == "__main__":
    main()
