"""What a row costs as GTID sets grow: intervals of one source, and sources of a set.

    python -m benchmarks.growth_sets

A server whose executed set has so many intervals before its first file logs a transaction at a time
and is asked for a row after each. Processor time a block (a transaction and a row), medians over
blocks; the bytes of the audit's state.
"""

from __future__ import annotations

import statistics
import time
from itertools import accumulate
from random import Random
from typing import Any

from benchmarks.small_journal import journal
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.producers.load.history import START_US

BLOCKS = 60
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


def measure(sources: int, intervals: int) -> dict[str, Any]:
    """One size.

    Raises:
        SystemExit: The healthy history had a finding.
    """
    audit, used = InstanceAudit("a"), []
    for block in journal("a", BLOCKS, START_US, before=set_of(sources, intervals)):
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
