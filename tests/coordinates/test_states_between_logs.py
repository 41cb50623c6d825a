"""A row shows the source's state at its time, whatever is logged after it."""

from __future__ import annotations

import json

import pytest

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tests.support.journals import UUID_A, UUID_B, Journal, read_gtids

BEFORE = f"{UUID_A}:1-9"
SIZES = (1, 3, 7, 4096)


def a_replica_that_is_ahead(*, is_asked: bool, wait_s: float = 20.0) -> tuple[Journal, Journal]:
    """It has executed nine of the source's groups; the source logs the last five later."""
    source, replica = Journal("s", UUID_A, 1), Journal("r", UUID_B, 2)
    source.begin()
    source.groups(4)
    replica.start()
    replica.binlog.open(previous=BEFORE)
    replica.record("channel", channel="", action="change_source", source_instance="s")
    replica.executed, replica.purged = read_gtids(BEFORE), BEFORE
    replica.relay()
    for requested_at in (5_000_000, 5_000_000 + int((wait_s + 20) * 1_000_000)):
        replica.ts = source.ts = requested_at
        asked = {"requested_at": requested_at, "received_at": requested_at + 500}
        replica.row(replica_status=replica.replica_status(), **asked if is_asked else {})
        source.wait(0.01).row(**asked if is_asked else {})
        if source.collections == 1:
            source.wait(wait_s)
            source.groups(7)
    return source, replica


def found(*journals: Journal, size: int = 4096) -> list[tuple[str, str]]:
    """What is found in the records of all journals, in the order of their times."""
    records = sorted((r for one in journals for r in one.records), key=lambda record: record["ts"])
    lines = [json.dumps(record) for record in records]
    result = audit_history(blocks_from_lines(lines, block_size=size))
    return [(one.rule, str(one.witness)) for one in result.findings]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("is_asked", [False, True])
def test_what_a_source_logs_after_its_row_explains_nothing_before(is_asked, size):
    """By one clock its row shows that; by others what it logged first after the row's time."""
    journals = a_replica_that_is_ahead(is_asked=is_asked)
    assert found(*journals, size=size) == [("no_errant_gtids", f"{UUID_A}:5-9")]


@pytest.mark.parametrize("size", SIZES)
def test_what_the_source_may_have_logged_by_then_explains_it(size):
    """Half a second after its row, by a clock that may be a second ahead."""
    assert found(*a_replica_that_is_ahead(is_asked=True, wait_s=0.5), size=size) == []


@pytest.mark.parametrize("size", SIZES)
def test_what_is_read_at_one_time_is_one_state(size):
    """An observer that had not looked for a while reads all groups at once."""
    source, replica = a_replica_that_is_ahead(is_asked=True)
    late = [r for r in source.records if r["kind"] == "binlog" and r["ts"] > 6_000_000]
    for record in late:
        record["ts"] = late[-1]["ts"]
    assert found(source, replica, size=size) == []


@pytest.mark.parametrize("size", SIZES)
def test_what_is_logged_at_the_time_of_the_row_is_of_its_state(size):
    """An observer reads a row, then what was logged by then, at one time."""
    source, replica = a_replica_that_is_ahead(is_asked=False)
    row = next(r for r in source.records if r["kind"] == "log_status")
    for record in source.records[source.records.index(row) + 1 :]:
        if record["kind"] == "binlog":
            record["ts"] = row["ts"]
    assert found(source, replica, size=size) == []
