"""Measure the audit of one instance: whole columns beside event by event, and what state costs.

Prints one JSON object a line. Rates are ratios of one run, medians over rounds that take turns:

    python -m benchmarks.audit [--records 400000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import TYPE_CHECKING

from tallystick.coordinates.audit.fleet_events import encode_fleet_events
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.logs import log_reader
from tallystick.producers.load.history import LoadPlan, journal_blocks

STATE_ROUNDS = 50
"""The first round, which compiles the encoders of all classes, is not counted."""

if TYPE_CHECKING:
    from tallystick.coordinates.events.journal import Block


def take(plan: LoadPlan, records: int) -> list[Block]:
    """The first blocks of a load that hold at least so many records."""
    blocks: list[Block] = []
    count = 0
    for block in journal_blocks(plan):
        blocks.append(block)
        count += len(block)
        if count >= records:
            break
    return blocks


def audit(blocks: list[Block]) -> tuple[float, dict[str, InstanceAudit], int]:
    """Seconds, the audits and the bytes of fleet events of one pass over the blocks."""
    audits: dict[str, InstanceAudit] = {}
    event_bytes = 0
    begun = time.perf_counter()
    for block in blocks:
        one = audits.get(block.instance_id)
        if one is None:
            one = audits[block.instance_id] = InstanceAudit(block.instance_id)
        event_bytes += len(encode_fleet_events(one.absorb(block).fleet_events))
    return time.perf_counter() - begun, audits, event_bytes


def _states(audits: dict[str, InstanceAudit]) -> tuple[list[bytes], float]:
    """The states of all audits, and the seconds of CPU that writing them took."""
    begun = time.process_time()
    states = [one.to_bytes() for one in audits.values()]
    return states, time.process_time() - begun


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    blocks = take(LoadPlan(sources=4, replicas=3), options.records)
    records = sum(len(block) for block in blocks)
    fast_min = log_reader.FAST_MIN
    columns, events = [], []
    for _ in range(options.rounds):
        columns.append(audit(blocks)[0])
        log_reader.FAST_MIN = 2**62
        events.append(audit(blocks)[0])
        log_reader.FAST_MIN = fast_min
    _, audits, event_bytes = audit(blocks)
    states, compiled = _states(audits)
    written, read = [], []
    for _ in range(STATE_ROUNDS):
        states, seconds = _states(audits)
        written.append(seconds)
        begun = time.process_time()
        for state in states:
            InstanceAudit.from_bytes(state)
        read.append(time.process_time() - begun)
    write = statistics.median(written)
    print(
        json.dumps(
            {
                "records": records,
                "instances": len(audits),
                "columns_per_s": round(records / statistics.median(columns)),
                "events_per_s": round(records / statistics.median(events)),
                "ratio": round(statistics.median(events) / statistics.median(columns), 1),
                "fleet_event_bytes_per_record": round(event_bytes / records, 1),
                "state_bytes": round(statistics.mean(map(len, states))),
                "state_compile_ms": round((compiled - write) * 1e3, 1),
                "state_write_us": round(write / len(states) * 1e6),
                "state_read_us": round(statistics.median(read) / len(states) * 1e6),
            }
        )
    )


if __name__ == "__main__":
    main()
