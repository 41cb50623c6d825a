"""A large quiet fleet: a heartbeat of each instance each second, and each minute a collection.

    python -m benchmarks.heartbeats [--instances 10000] [--seconds 60] [--settling 30]
                                    [--executors 2]

Each heartbeat is a message of its own. Whether the job keeps up is seen by how many seconds of the
fleet have come and are not audited when a micro-batch ends: they must not grow.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import uuid
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer

from benchmarks.latency import Auditor
from benchmarks.pipeline import JOURNAL_PARTITIONS, topic_settings
from tallystick.coordinates.events.block_codec import block_headers, encode_block
from tallystick.coordinates.events.collect_request import CollectRequest
from tallystick.coordinates.events.journal import Block, BlockBuilder, RecordType, Stream
from tallystick.deploy.broker import LocalBroker
from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics

FILE = "binlog.000001"
ROW_EVERY = 60
CLUSTER_INSTANCES = 4
SLICES = 20
"""A second's messages are sent in so many slices."""
PREPARING_US = 200
"""Making a message takes less."""


class Message(NamedTuple):
    """What Kafka is given."""

    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]


class QuietServer:
    """A server on which nothing happens."""

    def __init__(self, number: int) -> None:
        self.name = f"instance-{number:05}"
        self.number = number
        self._builder = BlockBuilder(self.name, cluster=f"cluster-{number // CLUSTER_INSTANCES:05}")
        self._uuid = str(uuid.uuid5(uuid.NAMESPACE_OID, self.name))

    def start(self, ts: int) -> Block:
        """What it begins with."""
        builder = self._builder
        builder.server_record(
            RecordType.START,
            {"server_uuid": self._uuid, "server_id": self.number + 1, "version": "8.0.31",
             "profile": "wl9452", "variables": {"gtid_mode": "ON", "log_bin": True}},
            ts=ts,
        )  # fmt: skip
        for code, start, length, text in ((15, 4, 122, None), (35, 126, 31, "")):
            builder.log_event(
                Stream.BINLOG, code, start=start, length=length, log_pos=start + length,
                file=FILE, ts=ts, server_id=self.number + 1, text=text,
            )  # fmt: skip
        return builder.build()

    def second(self, second: int, ts: int) -> Block:
        """Its record of a second."""
        if second % ROW_EVERY == ROW_EVERY // 2:
            return self.row(CollectRequest(f"minute-{second // ROW_EVERY}", ts), ts)
        self._builder.server_record(RecordType.HEARTBEAT, {}, ts=ts)
        return self._builder.build()

    def row(self, request: CollectRequest, ts: int) -> Block:
        """Its answer to a request."""
        row = {
            "SERVER_UUID": self._uuid,
            "LOCAL": {"gtid_executed": "", "binary_log_file": FILE, "binary_log_position": 157},
            "REPLICATION": {"channels": []},
            "STORAGE_ENGINES": {"InnoDB": {"LSN": 19_000_000, "LSN_checkpoint": 19_000_000}},
        }
        body = {
            "collection_id": request.collection_id,
            "requested_at": request.requested_at,
            "row": row,
        }
        self._builder.server_record(RecordType.LOG_STATUS, body, ts=ts)
        return self._builder.build()


def message(block: Block) -> Message:
    """A block as a message."""
    return Message(block.instance_id.encode(), encode_block(block), block_headers(block))


def prepared(instances: int, seconds: int, begin_us: int) -> list[list[Message]]:
    """What a fleet sends in each second; the first has its starts. Made before: it takes a core."""
    fleet = [QuietServer(number) for number in range(instances)]
    starts = [message(server.start(begin_us)) for server in fleet]
    return [starts] + [
        [message(server.second(second, begin_us + 1_000_000 * second)) for server in fleet]
        for second in range(1, seconds)
    ]


def produce(servers: str, topic: str, seconds: list[list[Message]]) -> None:
    """Send what was prepared, each second's messages evenly."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "compression.type": "lz4",
                         "queue.buffering.max.messages": 1_000_000})  # fmt: skip
    begun = time.monotonic()
    for second, messages in enumerate(seconds):
        for part in range(SLICES):
            for key, value, headers in messages[part::SLICES]:
                producer.produce(topic, value, key, headers=headers)
            producer.poll(0)
            early_s = begun + second + (part + 1) / SLICES - time.monotonic()
            if early_s > 0:
                time.sleep(early_s)
    producer.flush()


def show(lines: list[dict[str, Any]], begun: float, settling: float, instances: int) -> None:
    """Print what was measured of the micro-batches so many seconds after the fleet had begun."""
    counted = [line for line in lines if line.get("at", 0) >= begun + settling]
    ends = [line["at"] for line in counted]
    lengths = [later - earlier for earlier, later in pairwise(ends)]
    if len(lengths) < 2:
        raise SystemExit(f"{len(lengths)} micro-batches: use more --seconds")
    first, last = counted[0], counted[-1]
    seconds = last["at"] - first["at"]
    p50, p95 = (statistics.quantiles(lengths, n=20, method="inclusive")[i] for i in (9, 18))
    print(
        f"{instances:,} instances: {(last['records'] - first['records']) / seconds:,.0f} records/s"
        f" were audited in {seconds:.0f} s; {len(lengths)} micro-batches, p50 {p50:.2f} s, p95"
        f" {p95:.2f} s; {last['findings']:.0f} findings"
    )
    # A start is three records, all else one a second.
    behind = [
        end - begun - (of["records"] / instances - 2) for end, of in zip(ends, counted, strict=True)
    ]
    print(
        f"seconds that had come and were not audited: {behind[0]:.1f} at the first micro-batch,"
        f" {behind[-1]:.1f} at the last, {statistics.median(behind):.1f} at half of them"
    )
    cpu = {name: (last["cpu_s"][name] - first["cpu_s"][name]) / seconds for name in last["cpu_s"]}
    used = ", ".join(f"{name} {share:.2f}" for name, share in sorted(cpu.items()))
    print(f"processor seconds a second: {used}; resident MB {last['resident_mb']}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--instances", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument(
        "--settling", type=int, default=30,
        help="seconds before: the job starts, Spark compiles, and what has come is caught up with",
    )  # fmt: skip
    parser.add_argument("--executors", type=int, default=0, help="processes of one core; 0: none")
    options = parser.parse_args()
    lasts = options.settling + options.seconds
    begin_us = time.time_ns() // 1000 + round(options.instances * lasts * PREPARING_US)
    seconds = prepared(options.instances, lasts, begin_us)
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as name:
        directory = Path(name)
        with LocalBroker(directory / "broker", port=0) as broker:
            servers, topics = broker.bootstrap_servers, topic_settings("heartbeats")
            ensure_topics(servers, tallystick_topics(JOURNAL_PARTITIONS, "heartbeats"))
            names = [key.decode() for key, _, _ in seconds[0]]
            settings = topics | {"instances": names}
            auditor = Auditor(servers, directory / "audit", settings, options.executors)
            try:
                time.sleep(max(0.0, begin_us / 1e6 - time.time()))
                begun = time.perf_counter()
                produce(servers, topics["journal_topic"], seconds)
            finally:
                auditor.stop()
    show(auditor.lines, begun, options.settling, options.instances)
    print(auditor.lines[-1]["answers"])


if __name__ == "__main__":
    main()
