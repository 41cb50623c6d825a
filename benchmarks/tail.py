"""Measure a tail of a real server: events a second, and what following costs the source.

The cost is measured in pairs of rounds, with and without a tail, in alternating order, on the lab's
source without its replicas: commits of clients that write as fast as they can. Prints one JSON
object a line. Run it with nothing else on the machine:

    python -m benchmarks.tail
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coordinates.block_codec import encode_block
from coordinates.journal import Block
from deploy.mysql_server import mysqld_problem
from producers.collect_requests import CollectRequest
from producers.mysql.binlog_dump import BinlogDump
from producers.mysql.collection import Collector
from producers.mysql.connection import connect
from producers.mysql.settings import ServerSettings, load_servers
from producers.mysql.tail import Tail, steady_clock_us
from producers.mysql.tail_place import TailPlace
from producers.mysql_lab.layout import SOURCE_A
from producers.mysql_lab.sessions import session
from tallystick.mysql_lab import Lab

CLIENTS = 4
COLLECT_INTERVAL_S = 5.0
BASE_PORT = 23_606


def show(**figures: Any) -> None:
    """Print one line of results."""
    print(json.dumps(figures), flush=True)


class EncodingSink:
    """Encodes blocks as for Kafka and forgets them."""

    def __init__(self) -> None:
        self.bytes = 0

    def send(self, block: Block) -> None:
        """Encode it."""
        self.bytes += len(encode_block(block))

    def flush(self) -> None:
        """Nothing is ever under way."""

    def close(self) -> None:
        """Nothing is held."""


@contextmanager
def tailed(settings: ServerSettings) -> Iterator[Tail]:
    """Follow the server, with collections, while the body runs."""
    stop = threading.Event()
    tail = Tail(
        settings,
        EncodingSink(),
        Collector,
        place=TailPlace(epoch=1),
        notice=lambda line: print(line, file=sys.stderr),
    )

    def ask() -> None:
        number = 0
        while not stop.wait(COLLECT_INTERVAL_S if number else 0.5):
            number += 1
            tail.ask(CollectRequest(f"c{number}", steady_clock_us()))

    threads = [threading.Thread(target=tail.run, args=(stop,)), threading.Thread(target=ask)]
    for thread in threads:
        thread.start()
    try:
        yield tail
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def commits_per_s(lab: Lab, seconds: float) -> float:
    """Commits of clients that write one row after the other."""
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
    before, begun = sum(counts), time.monotonic()
    time.sleep(seconds)
    rate = (sum(counts) - before) / (time.monotonic() - begun)
    stop.set()
    for thread in threads:
        thread.join()
    return rate


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
        events += len(dump.read(1.0))
    seconds = time.perf_counter() - begun
    dump.close()
    show(what="backlog read", events=events, events_per_s=round(events / seconds))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=8.0)
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
            commits_per_s(lab, options.seconds)
            losses = []
            for pair in range(options.pairs):
                rates: dict[bool, float] = {}
                for is_tailed in (pair % 2 == 0, pair % 2 == 1):
                    if is_tailed:
                        with tailed(settings):
                            rates[True] = commits_per_s(lab, options.seconds)
                    else:
                        rates[False] = commits_per_s(lab, options.seconds)
                losses.append(1 - rates[True] / rates[False])
                show(
                    what="commits a second",
                    without=round(rates[False]),
                    tailed=round(rates[True]),
                    lost=f"{losses[-1]:.1%}",
                )
            show(what="commit rate lost, median of pairs", lost=f"{statistics.median(losses):.1%}")
            measure_speed(settings)
        finally:
            for server_process in lab.servers.values():
                server_process.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
