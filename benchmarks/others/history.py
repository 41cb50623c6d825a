"""The history that all engines read, made once; and the results that they must all give."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import Consumer

from benchmarks.json_topic import produce_lines
from benchmarks.others.checks import END
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.producers.load.history import LoadPlan
from tallystick.producers.load.run import LoadOptions, load_blocks

PARTITIONS = 4
# Rows five times as often as the load's default: a short history has some of each instance.
PLAN = LoadPlan(sources=4, replicas=3, status_every=10_000)
BROKEN = "source-1"
"""A row of this instance claims a GTID that it has not logged: there is something to find."""

Result = dict[str, Any]
_print = json.JSONEncoder(separators=(",", ":")).encode


def lines_of(events: int, plan: LoadPlan = PLAN) -> Iterator[tuple[str, str]]:
    """The load's records as (instance, JSON); after them an end of each instance."""
    instances: dict[str, None] = {}
    is_broken = False
    for block in load_blocks(LoadOptions(plan=plan, events=events), lambda: 0.0):
        name = block.instance_id
        instances[name] = None
        for line in block_to_lines(block):
            if not is_broken and name == BROKEN and line.startswith('{"kind":"log_status"'):
                is_broken = True
                yield name, _claiming_more(line)
            else:
                yield name, line
    for name in instances:
        yield name, _print({"kind": END, "instance": name})


def _claiming_more(line: str) -> str:
    record = json.loads(line)
    local = record["row"]["LOCAL"]
    source, _, last = local["gtid_executed"].rpartition("-")
    local["gtid_executed"] = f"{source}-{int(last) + 1}"
    return _print(record)


def produce(servers: str, topic: str, events: int, plan: LoadPlan = PLAN) -> tuple[int, int]:
    """Write the history, one message a record.

    Returns:
        How many records there are, and of how many instances.
    """
    counts = produce_lines(servers, topic, PARTITIONS, lines_of(events, plan))
    return counts.total() - len(counts), len(counts)


def await_results(
    servers: str, topic: str, instances: int, is_running: Callable[[], bool], timeout_s: float
) -> list[Result] | None:
    """The results of all instances; None: the engine ended, or took too long."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": f"{topic}.reader", "enable.auto.commit": False,
         "auto.offset.reset": "earliest"}
    )  # fmt: skip
    consumer.subscribe([topic])
    found: dict[str, Result] = {}
    deadline = time.monotonic() + timeout_s
    try:
        while len(found) < instances:
            if time.monotonic() > deadline or not is_running():
                return None
            message = consumer.poll(0.2)
            if message is not None and not message.error():
                result: Result = json.loads(message.value())
                found[result["instance"]] = result
    finally:
        consumer.close()
    return [found[name] for name in sorted(found)]


def what_was_found(results: list[Result]) -> list[Result]:
    """Of the results what must be the same in every engine and round."""
    return [
        {key: value for key, value in one.items() if key not in ("begun", "ended")}
        for one in results
    ]
