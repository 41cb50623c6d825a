"""What a row costs as GTID sets grow: intervals of one source, and sources of a set.

    python -m benchmarks.growth_sets

A server whose executed set has so many intervals before its first file logs a transaction at a time
and is asked for a row after each. Processor time a block (a transaction and a row), medians over
blocks; the bytes of the audit's state.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from itertools import accumulate
from random import Random
from typing import Any

from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.events.journal import (
    Block,
    BlockBuilder,
    QueryVerb,
    RecordType,
    Stream,
)

OWN = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
BLOCKS = 60
FILE = "binlog.000001"
INTERVALS = (1, 10, 100, 1_000, 10_000, 100_000)
SOURCES = (1, 10, 100, 1_000)


def set_of(sources: int, intervals: int) -> str:
    """A set of so many sources with so many intervals each, of 1 to 200 GTIDs."""
    random = Random(f"{sources} {intervals}")
    parts = []
    for number in range(sources):
        bounds = list(accumulate(random.randint(2, 200) for _ in range(2 * intervals)))
        one = ":".join(f"{a}-{b}" for a, b in zip(bounds[::2], bounds[1::2], strict=True))
        parts.append(f"{number:08x}-71ca-11e1-9e33-c80aa9429562:{one}")
    return ",".join(parts)


def blocks(before: str) -> Iterator[Block]:
    """A start with a set that was executed before, then a transaction and a row each."""
    ts, position = 1_800_000_000_000_000, 4
    builder = BlockBuilder("a")
    builder.server_record(
        RecordType.START,
        {"server_uuid": OWN, "server_id": 1, "version": "8.0.31", "profile": "wl9452",
         "variables": {"gtid_mode": "ON", "log_bin": True}},
        ts=ts,
    )  # fmt: skip
    header: dict[str, Any] = {"file": FILE, "ts": ts, "server_id": 1}
    for code, length, text in ((15, 122, None), (35, 31 + len(before), before)):
        builder.log_event(
            Stream.BINLOG, code, start=position, length=length, log_pos=position + length,
            text=text, **header,
        )  # fmt: skip
        position += length
    for gno in range(1, BLOCKS + 1):
        ts += 1_000
        header["ts"] = ts
        group: dict[str, Any] = {
            "sid": OWN, "gno": gno, "last_committed": gno - 1, "sequence_number": gno,
            "transaction_length": 110,
        }  # fmt: skip
        for code, length, fields in ((33, 79, group), (2, 31, {"query": QueryVerb.STATEMENT})):
            builder.log_event(
                Stream.BINLOG, code, start=position, length=length, log_pos=position + length,
                **header, **fields,
            )  # fmt: skip
            position += length
        own = f"{OWN}:1-{gno}" if gno > 1 else f"{OWN}:1"
        row = {
            "SERVER_UUID": OWN,
            "LOCAL": {"gtid_executed": f"{before},{own}", "binary_log_file": FILE,
                      "binary_log_position": position},
            "REPLICATION": {"channels": []},
            "STORAGE_ENGINES": {"InnoDB": {"LSN": 19_000_000 + gno, "LSN_checkpoint": 19_000_000}},
        }  # fmt: skip
        body = {"collection_id": f"c-{gno}", "requested_at": ts, "row": row}
        builder.server_record(RecordType.LOG_STATUS, body, ts=ts)
        yield builder.build()


def measure(sources: int, intervals: int) -> dict[str, Any]:
    """One size.

    Raises:
        SystemExit: The healthy history had a finding.
    """
    audit, used = InstanceAudit("a"), []
    for block in blocks(set_of(sources, intervals)):
        begun = time.process_time()
        findings = audit.absorb(block).findings
        used.append(time.process_time() - begun)
        if findings:
            raise SystemExit(f"a healthy history has a finding: {findings[0]}")
    return {
        "sources": sources,
        "intervals": intervals,
        "row_us": round(statistics.median(used[5:]) * 1e6),
        "state_bytes": len(audit.to_bytes()),
    }


def sweeps() -> dict[str, list[dict[str, Any]]]:
    """Both, printed."""
    found = {
        "intervals": [measure(1, number) for number in INTERVALS],
        "sources": [measure(number, 1) for number in SOURCES],
        "both": [measure(50, 200)],
    }
    for each in [one for ones in found.values() for one in ones]:
        print(
            f"  {each['sources']:>5} sources of {each['intervals']:>7,} intervals:"
            f" {each['row_us']:>7,} µs a row, state {each['state_bytes']:>9,} B",
            flush=True,
        )
    return found


if __name__ == "__main__":
    sweeps()
