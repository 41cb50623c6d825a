"""However a journal is cut into blocks, and whichever path reads it, the audit says the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.fleet_events import (
    FleetEvent,
    FleetEventKind,
    decode_fleet_events,
    encode_fleet_events,
)
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.events.journal import Block, concatenate, cut_into_blocks
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.logs import log_reader
from tallystick.producers.load.history import LoadPlan, journal_blocks
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.faults import FAULTS
from tallystick.producers.simulator.negatives import NEGATIVES
from tests.support.journals import Audited, Journal

FAULT_SEEDS = [2 * number + 1 for number in range(len(FAULTS))]
NEGATIVE_SEEDS = [2 * number for number in range(len(NEGATIVES))]
SEVENTHS = 7


def simulated(seed: int) -> list[Block]:
    """Each instance's journal of a seed, whole."""
    blocks: dict[str, list[Block]] = {}
    for block in simulate(scenario_of(seed)).blocks(512):
        blocks.setdefault(block.instance_id, []).append(block)
    return [concatenate(journal) for journal in blocks.values()]


def loaded(records: int, **plan: Any) -> list[Block]:
    """Each instance's journal of a load, whole."""
    blocks: dict[str, list[Block]] = {}
    for block in islice(journal_blocks(LoadPlan(**plan)), records):
        blocks.setdefault(block.instance_id, []).append(block)
    return [concatenate(journal) for journal in blocks.values()]


def audited(blocks: Iterable[Block], *, through_bytes: bool = False) -> Audited:
    """What the audit says of one instance's blocks."""
    result = Audited()
    for block in blocks:
        audit = result.audit or InstanceAudit(block.instance_id)
        if through_bytes:
            audit = InstanceAudit.from_bytes(audit.to_bytes())
        result.audit = audit
        result.take(audit.absorb(block))
    assert result.audit is not None
    result.take(result.audit.finish())
    return result


def said(result: Audited) -> dict[str, Any]:
    """Everything that must not depend on blocks, in comparable form."""
    fleet_events = decode_fleet_events(encode_fleet_events(result.fleet_events))
    return {
        "findings": sorted((f.order, f.to_dict()) for f in result.findings),
        "observations": [o.to_dict() for o in result.observations],
        "cuts": result.cuts,
        "binlog events": list(flat(fleet_events, FleetEventKind.LOGGED)),
        "relay events": sorted(
            (str(channel), list(flat(fleet_events, FleetEventKind.RECEIVED, channel)))
            for channel in {
                f.body["channel"] for f in fleet_events if f.kind is FleetEventKind.RECEIVED
            }
        ),
    }


RUNS = (FleetEventKind.LOGGED, FleetEventKind.RECEIVED)
OF_BINLOG = (
    FleetEventKind.PREVIOUS,
    FleetEventKind.FILE_END,
    FleetEventKind.LINEAGE,
    FleetEventKind.GAP,
)
"""Facts that events of the binary log bring: between the events of another log they may move."""


def flat(
    fleet_events: Iterable[FleetEvent], kind: FleetEventKind, channel: str | None = None
) -> Iterator[Any]:
    """The fleet events of one log in order, runs of events taken apart, and those of no log."""
    for fleet_event in fleet_events:
        body, arrays = fleet_event.body, fleet_event.arrays
        if fleet_event.kind not in RUNS:
            if channel is not None and fleet_event.kind in OF_BINLOG:
                continue
            yield (
                fleet_event.kind,
                fleet_event.epoch,
                fleet_event.sequence,
                fleet_event.ts,
                repr(body),
            )
        elif fleet_event.kind is kind is FleetEventKind.LOGGED:
            position = body["binlog_lineage"], body["base_name"], body["file_number"]
            groups = dict(zip(arrays["group_event"].tolist(), _groups(fleet_event), strict=True))
            for i, end in enumerate(arrays["event_ends"].tolist()):
                yield *position, end, groups.get(i)
        elif fleet_event.kind is kind and body["channel"] == channel:
            position = body["channel_lineage"], body["source_base_name"], body["source_file_number"]
            ends = arrays["group_source_end"].tolist()
            yield from ((*position, *each) for each in zip(ends, _groups(fleet_event), strict=True))


def _groups(fleet_event: FleetEvent) -> list[tuple[Any, ...]]:
    names = [
        fleet_event.body["sids"][i] if i >= 0 else None
        for i in fleet_event.arrays["group_sid"].tolist()
    ]
    columns = ("group_gno", "group_server_id", "group_commit_ts", "group_is_empty")
    return list(
        zip(names, *(fleet_event.arrays[column].tolist() for column in columns), strict=True)
    )


SIZES = (16, 64)
SEEDS = sorted(FAULT_SEEDS + NEGATIVE_SEEDS)[::8]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_simulated_history_says_the_same_in_blocks_of_any_size(seed: int):
    """Findings, observations, cuts and fleet events depend on the records alone."""
    size = SIZES[SEEDS.index(seed) % 2]
    for whole in simulated(seed):
        expected = said(audited([whole]))
        assert expected == said(audited(cut_into_blocks(whole, size), through_bytes=True))


def test_records_one_by_one_say_the_same():
    """A state saved and read back after every single record loses nothing."""
    for journal in simulated(SEEDS[1]):
        whole = journal.take(0, min(len(journal), 900))
        expected = said(audited([whole]))
        assert expected == said(audited(cut_into_blocks(whole, 1), through_bytes=True))


@pytest.mark.parametrize("seed", SEEDS[::2])
def test_the_two_paths_leave_equal_bytes_behind(monkeypatch: pytest.MonkeyPatch, seed: int):
    """Whole columns at a time or event by event: equal answers and equal state."""
    for whole in simulated(seed):
        assert_paths_agree(monkeypatch, whole)


def test_a_load_says_the_same_on_both_paths_and_in_any_blocks(monkeypatch: pytest.MonkeyPatch):
    """Thousands of regular events, several files, a replica: and nothing is found."""
    plan = {"sources": 1, "replicas": 1, "status_every": 700, "binlog_bytes_max": 2**18}
    for whole in loaded(30, block_size=512, **plan):
        result = audited([whole])
        assert ([], []) == (result.findings, result.observations)
        assert {"CONSISTENT"} == {cut.verdict for cut in result.cuts}
        for size in (7, 333):
            assert said(result) == said(audited(cut_into_blocks(whole, size)))
        assert_paths_agree(monkeypatch, whole)


def test_empty_groups_are_known_wherever_blocks_end(monkeypatch: pytest.MonkeyPatch):
    """A group without a change counts its events over the end of a block, on both paths."""
    journal = Journal().begin()
    for _ in range(40):
        journal.groups(1).groups(2, "empty").groups(1, "myisam")
    whole = concatenate(list(blocks_from_lines(journal.lines())))
    expected = said(audited([whole]))
    groups = [event[-1] for event in expected["binlog events"] if isinstance(event[-1], tuple)]
    are_empty = [group[-1] for group in groups]
    assert are_empty == [False, True, True, False] * 40
    for size in range(48, 62):
        assert expected == said(audited(cut_into_blocks(whole, size), through_bytes=True))
    assert_paths_agree(monkeypatch, whole)


BREAKS = {
    "log_pos": "binlog_log_pos_field_agrees",
    "transaction_length": "transaction_length_agrees",
    "sequence_number": "sequence_numbers_valid",
    "gno": "gtid_logged_once",
    "start": "log_events_contiguous",
    "type": "binlog_group_wellformed",
}


@pytest.mark.parametrize(("column", "rule"), BREAKS.items())
def test_a_broken_load_says_the_same_on_both_paths(
    monkeypatch: pytest.MonkeyPatch, column: str, rule: str
):
    """One wrong number amid thousands is found wherever block borders and paths lie."""
    whole = loaded(6, sources=1, status_every=10_000, block_size=512)[0]
    columns = whole.columns
    openers = [i for i in range(len(whole)) if columns["gno"][i] > 0]
    position = openers[len(openers) // 2] + (1 if column == "type" else 0)
    changed = columns[column].copy()
    changed[position] += 31 if column == "start" else -1 if column == "gno" else 1
    broken = replace(whole, columns={**columns, column: changed})
    result = audited([broken])
    assert rule in result.broken
    assert said(result) == said(audited(cut_into_blocks(broken, SEVENTHS), through_bytes=True))
    assert_paths_agree(monkeypatch, broken)


def test_the_facts_of_a_boot_are_as_of_that_boot():
    """A variable that changes after it in the same block does not reach back."""
    journal = Journal().begin()
    journal.record("variables", variables={"gtid_mode": "OFF_PERMISSIVE"})
    result = audited([concatenate(list(blocks_from_lines(journal.lines())))])
    [boot] = [
        fleet_event
        for fleet_event in result.fleet_events
        if fleet_event.kind is FleetEventKind.BOOT
    ]
    assert "ON" == boot.body["variables"]["gtid_mode"]


def assert_paths_agree(monkeypatch: pytest.MonkeyPatch, whole: Block) -> None:
    fast = audited([whole])
    with monkeypatch.context() as patch:
        patch.setattr(log_reader, "FAST_MIN", 10**9)
        slow = audited([whole])
    assert said(fast) == said(slow)
    assert fast.audit is not None
    assert slow.audit is not None
    assert fast.audit.to_bytes() == slow.audit.to_bytes()


def test_a_state_that_forgot_events_says_so():
    """A row that names a position older than what the saved state remembers stays undecided."""
    journal = Journal().begin().groups(250)
    early = journal.records[12]
    row = journal.row()
    row["row"]["LOCAL"]["binary_log_position"] = early["start"] + 1
    blocks = list(blocks_from_lines(journal.lines(), block_size=len(journal.records) - 1))
    result = audited(blocks, through_bytes=True)
    assert [] == result.broken
    assert "older" in result.undecided()["snapshot_position_on_group_boundary"]
