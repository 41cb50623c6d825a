"""Heartbeats that follow each other: a server on which nothing happens has hardly anything else."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.coordinates.audit import fleet
from tallystick.coordinates.audit.fleet import FleetAudit
from tallystick.coordinates.audit.fleet_events import FleetEvent, FleetEventKind
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.audit.timeline_snapshot import SNAPSHOTS_MAX
from tallystick.coordinates.events.journal import Block, BlockBuilder, RecordType, Stream
from tallystick.coordinates.results import ObservationCode
from tests.support.fleet_journals import Clock, Journal

A = "a" * 8 + "-aaaa-aaaa-aaaa-" + "a" * 12
SECOND = 1_000_000


def quiet_server() -> Block:
    """Its heartbeats, twice with an event of its log between, once with a shutdown."""
    builder = BlockBuilder("a")
    ts = SECOND
    start = {"server_uuid": A, "server_id": 1, "version": "8.0.31", "variables": {}}
    builder.server_record(RecordType.START, start, ts=ts)
    begins = iter([(15, 4, 122, None), (35, 126, 31, "")])
    for heartbeats in (4, 1, 5, 2, 3):
        for _ in range(heartbeats):
            ts += SECOND
            builder.server_record(RecordType.HEARTBEAT, {}, ts=ts)
        if heartbeats == 1:
            builder.server_record(RecordType.STOP, {}, ts=ts)
        if heartbeats >= 4:
            code, start, length, text = next(begins)
            builder.log_event(
                Stream.BINLOG, code, start=start, length=length, log_pos=start + length,
                file="binlog.000001", ts=ts, text=text,
            )  # fmt: skip
    return builder.build()


def read_in_pieces(block: Block, size: int) -> tuple[InstanceAudit, list[FleetEvent]]:
    """The audit of it in blocks of so many records, and its fleet events."""
    audit = InstanceAudit("a")
    fleet_events = []
    for first in range(0, len(block), size):
        output = audit.absorb(block.take(first, min(first + size, len(block))))
        fleet_events += output.fleet_events
    return audit, fleet_events


def heartbeats_in(fleet_events: list[FleetEvent]) -> list[int]:
    """Their times, in seconds."""
    return [e.ts // SECOND for e in fleet_events if e.kind is FleetEventKind.TIME]


def test_those_that_others_follow_are_passed_over() -> None:
    """Of each run the first and the last are read."""
    _, fleet_events = read_in_pieces(quiet_server(), 100)
    assert heartbeats_in(fleet_events) == [2, 5, 6, 11, 12, 16]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_what_is_known_does_not_depend_on_how_they_are_cut(size: int) -> None:
    """The states of the audits, of the instance and of the fleet."""
    (whole, expected), (cut, found) = (
        read_in_pieces(quiet_server(), 100),
        read_in_pieces(quiet_server(), size),
    )
    assert cut.to_bytes() == whole.to_bytes()
    audits = FleetAudit(), FleetAudit()
    for audit, fleet_events in zip(audits, (expected, found), strict=True):
        audit.absorb(fleet_events)
    assert audits[0].to_bytes() == audits[1].to_bytes()


def test_any_number_of_them_makes_no_state_forgotten() -> None:
    """What a source was before it went quiet is still known."""
    source = Journal(Clock(), "a", A, 1)
    source.boot()
    source.open_file()
    source.time()
    before = source.fleet_events[-1].ts
    source.log(f"{A}:1")
    for _ in range(2 * SNAPSHOTS_MAX):
        source.time()
    audit = FleetAudit()
    audit.absorb(source.fleet_events)
    states = list(audit.reader.timelines["a"].states)
    assert before in [state.ts for state in states]
    assert states[-1].ts == source.fleet_events[-1].ts


def test_one_that_cannot_be_read_is_not_passed_over() -> None:
    """Its record counts as lost."""
    builder = BlockBuilder("a")
    for number in range(6):
        builder.server_record(RecordType.HEARTBEAT, {}, ts=SECOND * (number + 1))
    block = builder.build()
    block.texts[3] = "{"
    output = InstanceAudit("a").absorb(block)
    assert [one.code for one in output.observations] == [ObservationCode.BLOCK_UNREADABLE]
    assert heartbeats_in(output.fleet_events) == [1, 3, 5, 6]


@pytest.mark.parametrize("size", [1, 3])
def test_when_comparisons_are_decided_does_not_depend_on_them(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many heartbeats there are depends on how the journal is cut."""
    monkeypatch.setattr(fleet, "SETTLE_EVERY", 2)
    settled: list[list[int]] = []
    for pieces in (100, size):
        audit = FleetAudit()
        times: list[int] = []
        settle = audit._settle

        def noted(
            settle: Any = settle, audit: FleetAudit = audit, times: list[int] = times
        ) -> None:
            times.append(audit.reader.timelines["a"].known_ts)
            settle()

        monkeypatch.setattr(audit, "_settle", noted)
        audit.absorb(read_in_pieces(quiet_server(), pieces)[1])
        settled.append(times)
    assert len(settled[0]) == len(settled[1]) > 2
