"""The job in a process of its own: one JSON line a micro-batch. What other benchmarks measure.

    python -m benchmarks.auditor SERVERS DIRECTORY [--executors 0] [--available-now]

The directory has more settings of the job.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections import Counter
from pathlib import Path

from tallystick.coordinates.results import Outcome
from tallystick.deploy.class_archives import SPARK, with_archive
from tallystick.deploy.jars import spark_kafka_jars
from tallystick.streaming.driver_memory import keep_little

SETTINGS = "settings.json"
"""In the directory: more of the job's settings."""


def run_auditor(servers: str, directory: Path, available_now: bool, executors: int) -> None:
    """The job; one line a micro-batch, then one with the memory at the end."""
    keep_little()
    from tallystick.streaming.runner import JobSettings, run_job, stopping_on_signals
    from tallystick.streaming.session import SessionSettings
    from tallystick.streaming.table_upkeep import Retention

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
                checkpoint=directory / "checkpoint",
                output=directory / "out",
                # With it, as `tallystick audit` has it, small files of the tables are put together.
                retention=Retention(details_days=35, history_days=400),
                available_now=available_now,
                **json.loads((directory / SETTINGS).read_text("utf-8")),
            ),
            SessionSettings(
                jars=spark_kafka_jars(),
                log_file=directory / "spark.log",
                java_options=with_archive(SPARK),
                master=f"local-cluster[{executors},1,1024]" if executors else "local[2]",
                shuffle_partitions=executors or 1,
                is_lasting=not available_now,
            ),
            stop=stop,
            report=report,
        )
    state = sum(
        path.stat().st_size for path in (directory / "checkpoint").rglob("*") if path.is_file()
    )
    answers = answers_in(directory / "out")
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


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("servers")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--executors", type=int, default=0)
    parser.add_argument("--available-now", action="store_true")
    arguments = parser.parse_args()
    run_auditor(
        arguments.servers, arguments.directory, arguments.available_now, arguments.executors
    )


if __name__ == "__main__":
    main()
