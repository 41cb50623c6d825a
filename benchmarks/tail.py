"""Measure a tail of a real server: events a second, and what following costs the source.

The cost is measured on the lab's source without its replicas: commits of clients that write as fast
as they can, by turns without and with a tail, each round with a tail beside the two around it,
because the machine's own speed drifts. The tail is a process of its own and shares the machine's
processors with server and clients. Prints one JSON object a line. Run it with nothing else on the
machine:

    python -m benchmarks.tail
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tallystick.deploy.mysql_server import mysqld_problem
from tallystick.producers.mysql.binlog_dump import BinlogDump
from tallystick.producers.mysql.connection import connect
from tallystick.producers.mysql.event_runs import EventRun
from tallystick.producers.mysql.settings import ServerSettings, load_servers
from tallystick.producers.mysql_lab.layout import SOURCE_A
from tallystick.producers.mysql_lab.sessions import session
from tallystick.servers.lab import Lab

CLIENTS = 4
COLLECT_INTERVAL_S = 5.0
BASE_PORT = 23_606


def show(**figures: Any) -> None:
    """Print one line of results."""
    print(json.dumps(figures), flush=True)


@contextmanager
def tailed(lab: Lab, config: Path) -> Iterator[int]:
    """Follow the server, with collections, in a process of its own; its number goes to the body."""
    arguments = ["tail", "--config", str(config), "--output", "/dev/null"]
    arguments += ["--collect-interval-s", str(COLLECT_INTERVAL_S)]
    tail = subprocess.Popen(
        [sys.executable, "-m", "tallystick.cli", *arguments],
        stderr=subprocess.DEVNULL,
        cwd=lab.directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        with session(lab.addresses()[SOURCE_A]) as server:
            while not server.rows(
                "SELECT 1 FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
            ):
                time.sleep(0.1)
        yield tail.pid
    finally:
        tail.terminate()
        tail.wait()


def processor_s(process: int | None) -> float:
    """Processor time that a process has used; None is no process."""
    if process is None:
        return 0.0
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def commits(lab: Lab, seconds: float, tail: int | None = None) -> tuple[float, float]:
    """Commits a second of clients that write one row after the other; a tail's time for each, s."""
    stop = threading.Event()
    counts = [0] * CLIENTS

    def write(index: int) -> None:
        with session(lab.addresses()[SOURCE_A]) as server:
            while not stop.is_set():
                server.run("INSERT INTO bench.t (b) VALUES (%s)", ("x" * 100,))
                counts[index] += 1

    threads = [threading.Thread(target=write, args=(index,)) for index in range(CLIENTS)]
    for thread in threads:
        thread.start()
    time.sleep(1.0)
    before, used, begun = sum(counts), processor_s(tail), time.monotonic()
    time.sleep(seconds)
    made = sum(counts) - before
    rate = made / (time.monotonic() - begun)
    used = processor_s(tail) - used
    stop.set()
    for thread in threads:
        thread.join()
    return rate, used / made


def only_source_a(config: str, tls: str) -> str:
    """The lab's servers.toml with its first server alone, and TLS as it is asked for."""
    head, _, rest = config.partition(f"[servers.{SOURCE_A}]")
    lines = [f"{head}[servers.{SOURCE_A}]{rest.partition('[servers.')[0].rstrip()}"]
    lines += [f'tls = "{tls}"']
    if tls == "verify_ca":
        lines += ['ca = "template/ca.pem"']
    return "\n".join([*lines, ""])


def measure_cost(lab: Lab, config: Path, *, rounds: int, seconds: float) -> None:
    """What following costs the source."""
    losses, times = [], []
    before, _ = commits(lab, seconds)
    for _ in range(rounds):
        with session(lab.addresses()[SOURCE_A]) as server:
            server.run("FLUSH BINARY LOGS")  # a tail reads its first file from the beginning
        with tailed(lab, config) as tail:
            rate, used = commits(lab, seconds, tail)
        after, _ = commits(lab, seconds)
        losses.append(1 - 2 * rate / (before + after))
        times.append(used)
        show(
            what="commits a second",
            without=[round(before), round(after)],
            tailed=round(rate),
            lost=f"{losses[-1]:.1%}",
            tail_us_per_commit=round(1e6 * used, 1),
        )
        before = after
    show(
        what="commit rate lost, medians of rounds",
        lost=f"{statistics.median(losses):.1%}",
        tail_us_per_commit=round(1e6 * statistics.median(times), 1),
    )


def measure_speed(settings: ServerSettings) -> None:
    """How fast a backlog is read and made records."""
    with connect(settings).cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        logs = cursor.fetchall()
    first, last = str(logs[0][0]), (str(logs[-1][0]), int(logs[-1][1]))
    dump = BinlogDump(
        connect(settings), server_id=settings.server_id, file=first, position=4, heartbeat_s=1.0
    )
    events = 0
    begun = time.perf_counter()
    while (dump.file, dump.position) < last:
        events += sum(len(each) if isinstance(each, EventRun) else 1 for each in dump.read(1.0))
    seconds = time.perf_counter() - begun
    dump.close()
    show(what="backlog read", events=events, events_per_s=round(events / seconds))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--tls", choices=("preferred", "verify_ca"), default="preferred")
    options = parser.parse_args()
    problem = mysqld_problem()
    if problem is not None:
        show(what="tail", skipped=str(problem))
        return 0
    with tempfile.TemporaryDirectory() as directory:
        lab = Lab(Path(directory) / "lab", base_port=BASE_PORT, dies_with_owner=True)
        lab.up()
        try:
            for name in lab.servers:
                if name != SOURCE_A:
                    lab.stop(name)
            (settings,) = (s for s in load_servers(lab.config_file, ()) if s.name == SOURCE_A)
            with session(lab.addresses()[SOURCE_A]) as server:
                server.run("CREATE DATABASE bench")
                server.run(
                    "CREATE TABLE bench.t (a BIGINT AUTO_INCREMENT PRIMARY KEY, b VARCHAR(200))"
                )
            commits(lab, options.seconds)
            config = lab.directory / "source-a.toml"
            config.write_text(
                only_source_a(lab.config_file.read_text("utf-8"), options.tls), "utf-8"
            )
            measure_cost(lab, config, rounds=options.rounds, seconds=options.seconds)
            measure_speed(settings)
        finally:
            for server_process in lab.servers.values():
                server_process.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
