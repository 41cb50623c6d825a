"""A finished history has one result: however it is cut into blocks, and in whatever order it comes.

The records of an instance come in their order; blocks of different instances in any.
"""

from __future__ import annotations

from functools import lru_cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.coordinates.audit import (
    comparison_queues,
    fleet,
    instance_timeline,
    needed_logs,
    origins,
    replica_comparisons,
    timeline_file,
    timeline_snapshot,
)
from tallystick.coordinates.audit.replay import audit_history
from tests.support.orders import (
    STORED,
    as_one_file,
    content,
    interleaved,
    journals_of,
    through_kafka,
)

SEEDS = (0, 4, 26, 63, 167, 201, 230)
"""Healthy and faulty fleets; 167 reports an event out of the middle of a block."""
SIZES = st.sampled_from((1, 7, 64, 512, 4096, 65_536)) | st.integers(1, 65_536)
BOUNDS = (
    (comparison_queues, "WAITING_MAX", 8),
    (comparison_queues, "GROUPS_MAX", 40),
    (replica_comparisons, "GROUPS_MAX", 40),
    (timeline_snapshot, "SNAPSHOTS_MAX", 16),
    (instance_timeline, "EVENTS_MIN", 300),
    (timeline_file, "PACKED_EVENTS", 16),
    (needed_logs, "SOURCE_BYTES_MAX", 40_000),
    (origins, "ORIGINS_MAX", 60),
    (origins, "STATES_MAX", 8),
    (fleet, "ROWS_MAX", 10),
    (fleet, "SETTLE_EVERY", 2),
)


@lru_cache
def expected(history: str | int) -> dict[str, Any]:
    """The result of whole journals, one after another."""
    return content(
        audit_history(whole for blocks in journals_of(history).values() for whole in blocks)
    )


@pytest.mark.parametrize("way", ["blocks", "file", "kafka"])
@settings(max_examples=10, deadline=None)
@given(st.sampled_from((*STORED, *SEEDS)), SIZES, st.integers(0, 2**32))
def test_one_history_has_one_result(way: str, history: str | int, size: int, order: int) -> None:
    """Findings, observations, rows, checks and verdict are the same, in the same order."""
    blocks = interleaved(journals_of(history), size, Random(order))
    if way == "file":
        blocks = as_one_file(blocks, size)
    elif way == "kafka":
        blocks = through_kafka(blocks)
    assert content(audit_history(blocks)) == expected(history)


@pytest.mark.parametrize("history", [STORED[0], STORED[6], *SEEDS])
def test_also_where_memory_is_short(history: str | int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is forgotten, and what is given up waiting for, does not depend on it either."""
    for module, name, value in BOUNDS:
        monkeypatch.setattr(module, name, value)
    journals = journals_of(history)
    results = [
        content(audit_history(interleaved(journals, size, Random(size))))
        for size in (3, 100, 65_536)
    ]
    assert results[0] == results[1] == results[2]
