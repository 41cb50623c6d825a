"""From the last answer to a collection to the page that shows it, of a large fleet.

    python -m benchmarks.collection [--instances 1000] [--collections 5] [--interval 30]

`tallystick audit --serve` runs as users run it. All instances answer each of its requests at once,
and somebody asks for the page every two seconds, as a browser does.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple
from urllib.parse import urlsplit

from confluent_kafka import Consumer, Producer

from benchmarks.heartbeats import QuietServer, message
from benchmarks.pipeline import JOURNAL_PARTITIONS
from tallystick.coordinates.events.collect_request import CollectRequest, parse_request
from tallystick.coordinates.events.journal import Block
from tallystick.deploy.broker import LocalBroker
from tallystick.producers.kafka_clients.confluent import QUIET
from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics

READY_S = 300.0
PAGE_EVERY_S = 2.0


class Measured(NamedTuple):
    """Seconds after the last answer: until it was validated and written, until the page has it."""

    written: float
    shown: float


class Audit:
    """The job, what it says, and its page."""

    def __init__(
        self, directory: Path, servers: str, instances: list[str], interval_s: int
    ) -> None:
        (directory / "tallystick.toml").write_text(f"instances = {json.dumps(instances)}\n")
        command = ["audit", "--bootstrap-servers", servers, "--collect-interval-s", str(interval_s)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tallystick", *command, "--serve", "--listen", "127.0.0.1:0"],
            cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._said: SimpleQueue[tuple[float, str]] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._page = self.said("page: ")[1].split()[-1]

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.put((time.monotonic(), line))

    def said(self, start: str) -> tuple[float, str]:
        """The next line that begins so, and when it came."""
        deadline = time.monotonic() + READY_S
        while True:
            try:
                at, line = self._said.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                raise SystemExit(f"audit did not say {start!r} within {READY_S:.0f} s") from None
            if line.startswith(start):
                return at, line

    def shown(self, text: str) -> float:
        """When the page had this text."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if text in self._read_page():
                return time.monotonic()
            time.sleep(PAGE_EVERY_S)
        raise SystemExit(f"the page did not show {text!r} within {READY_S:.0f} s")

    def _read_page(self) -> str:
        address = urlsplit(self._page)
        connection = http.client.HTTPConnection(address.netloc, timeout=READY_S)
        with contextlib.closing(connection):
            connection.request("GET", address.path)
            return connection.getresponse().read().decode()

    def stop(self) -> None:
        """End it; it writes its report first."""
        self._process.terminate()
        self._process.wait(READY_S)


class Fleet:
    """Instances that do nothing but answer."""

    def __init__(self, count: int, servers: str) -> None:
        self._instances = [QuietServer(number) for number in range(count)]
        topics = tallystick_topics(JOURNAL_PARTITIONS, "tallystick")
        ensure_topics(servers, topics)
        self._topic = "tallystick.journal"
        self._producer = Producer(
            {"bootstrap.servers": servers, "queue.buffering.max.messages": 1_000_000} | QUIET
        )
        self._requests = Consumer(
            {"bootstrap.servers": servers, "group.id": uuid.uuid4().hex,
             "auto.offset.reset": "earliest"}
        )  # fmt: skip
        self._requests.subscribe(["tallystick.collect"])

    @property
    def names(self) -> list[str]:
        """Of all instances."""
        return [server.name for server in self._instances]

    def start(self) -> None:
        """What each journal begins with."""
        now = time.time_ns() // 1_000
        self._send(server.start(now) for server in self._instances)

    def answer(self) -> tuple[str, float]:
        """Answer the next request: its name, and when the last answer was in the topic."""
        request = self._request()
        now = time.time_ns() // 1_000
        self._send(server.row(request, now) for server in self._instances)
        return request.collection_id, time.monotonic()

    def _request(self) -> CollectRequest:
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            found = self._requests.poll(1.0)
            if found is not None and not found.error():
                return parse_request(found.value())
        raise SystemExit(f"no request for a collection within {READY_S:.0f} s")

    def _send(self, blocks: Iterator[Block]) -> None:
        for key, value, headers in map(message, blocks):
            self._producer.produce(self._topic, value, key, headers=headers)
            self._producer.poll(0)
        self._producer.flush()

    def close(self) -> None:
        """Leave the broker."""
        self._requests.close()


def measure(directory: Path, instances: int, collections: int, interval_s: int) -> list[Measured]:
    """One collection after the other; of the first one Spark compiles what it runs."""
    measured = []
    with LocalBroker(directory / "broker", port=0) as broker:
        fleet = Fleet(instances, broker.bootstrap_servers)
        audit = Audit(directory, broker.bootstrap_servers, fleet.names, interval_s)
        try:
            fleet.start()
            for _ in range(collections):
                name, answered = fleet.answer()
                written, line = audit.said(f"tallystick: collection {name}:")
                if f" {instances} rows, CONSISTENT" not in line:
                    raise SystemExit(f"not what a healthy fleet gives: {line}")
                shown = audit.shown(name)
                measured.append(Measured(written - answered, shown - answered))
                print(
                    f"{name}: written {measured[-1].written:.1f} s, in the page"
                    f" {measured[-1].shown:.1f} s after its last answer", flush=True,
                )  # fmt: skip
        finally:
            audit.stop()
            fleet.close()
    return measured


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--instances", type=int, default=1_000)
    parser.add_argument("--collections", type=int, default=5)
    parser.add_argument(
        "--interval",
        type=int,
        default=30,
        help="seconds from request to request",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as name:
        measured = measure(Path(name), options.instances, options.collections, options.interval)
    written, shown = (statistics.median(values) for values in zip(*measured, strict=True))
    print(
        f"{options.instances:,} instances, median of {len(measured)} collections: written"
        f" {written:.1f} s and in the page {shown:.1f} s after the last answer"
    )


if __name__ == "__main__":
    main()
