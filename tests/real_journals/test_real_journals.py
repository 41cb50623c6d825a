"""Journals of real MySQL servers, 8.0.31 and 9.7.4, keep their verdicts; docs/fidelity.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import ObservationCode, Outcome, Verdict

HERE = Path(__file__).parent
HEALTHY = (
    "chain_with_rotations_and_crashes",
    "file_positions",
    "gtid_modes_and_purged",
    "reset_and_change_source",
    "two_sources",
)
CLONED = "clone_by_gtid_set"
"""Healthy, but with the gap that each recipient's journal has in front of the cloned data."""
BROKEN = {
    "clone_follows_too_late": {("clone_resume_exact", "recip")},
    "empty_group_hides": {("gtid_origin_agreement", "r"), ("gtid_origin_agreement", "s")},
    "errant_write": {("no_errant_gtids", "r")},
    "lost_xa_gtids": {
        ("applied_relay_gtids_executed", "r"),
        ("executed_monotone", "r"),
        ("purged_monotone", "r"),
    },
    "power_cut": {
        ("executed_monotone", "s"),
        ("received_within_source_logged", "r"),
        ("source_coordinate_valid", "r"),
    },
    "purged_too_early": {("purged_not_needed", "r")},
    "reset_master_reuse": {
        ("gtid_origin_agreement", "s"),
        ("received_within_source_logged", "r"),
    },
}
MAY_BE_UNDECIDED = {
    "gtid_table_has_closed_files",
    "logged_eventually_executed",
    "lsn_grows_with_commits",
    "master_info_flush_points",
    "relay_info_coordinates_paired",
    "relay_position_matches_master_info",
    "row_lsn_at_its_instant",
}
"""On a healthy journal: each needs an earlier row, time to settle, a stop of the receiver, or what
SQL does not show."""
SOURCE_IS_DOWN = {"receiver_not_failed"}
"""Where a collection did not reach the source, its replica has no connection either."""
OF_AN_EMPTY_CHANNEL = {
    "applied_coordinates_paired",
    "applied_within_flushed",
    "channel_positions_monotone",
    "exec_source_pos_within_read",
    "master_info_not_ahead_of_relay",
    "relay_info_updated_with_commit",
}


def lines_of(name: str) -> list[str]:
    return (HERE / f"{name}.jsonl").read_text(encoding="ascii").splitlines()


def audited(lines: list[str], block_size: int = 4096) -> AuditResult:
    return audit_history(blocks_from_lines(lines, block_size=block_size, end_heartbeats=True))


def broken(result: AuditResult) -> set[tuple[str, str]]:
    return {(finding.rule, finding.instance_id) for finding in result.findings}


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize("block_size", [1, 61, 4096])
def test_a_healthy_server_is_accused_of_nothing(name: str, block_size: int) -> None:
    """Rotations, crashes, resets and mode changes of real servers break no rule."""
    result = audited(lines_of(name), block_size)
    assert result.findings == []
    down = {cut.collection_id for cut in result.cuts if cut.answer != "row"}
    for cut in result.cuts:
        is_alone = cut.collection_id in down and SOURCE_IS_DOWN <= set(cut.names(Outcome.UNDECIDED))
        if cut.answer == "row" and not is_alone:
            assert cut.verdict == Verdict.CONSISTENT.value


@pytest.mark.parametrize("name", HEALTHY)
def test_a_row_with_all_inputs_leaves_little_undecided(name: str) -> None:
    """Where everything was read, only what needs an earlier row or more time stays open."""
    result = audited(lines_of(name))
    rows = [cut for cut in result.cuts if cut.answer == "row"]
    assert len(rows) >= 15
    down = {cut.collection_id for cut in result.cuts if cut.answer != "row"}
    for cut in rows:
        undecided = set(cut.names(Outcome.UNDECIDED))
        is_empty = cut.scope == "channel" and not cut.relay_log_file
        allowed = MAY_BE_UNDECIDED | (OF_AN_EMPTY_CHANNEL if is_empty else set())
        assert undecided <= allowed | (SOURCE_IS_DOWN if cut.collection_id in down else set())
    doubts = [o for o in result.observations if o.is_undecided]
    assert {o.code for o in doubts} <= {ObservationCode.LOG_STATUS_MISSING}


@pytest.mark.parametrize("name", sorted(BROKEN))
@pytest.mark.parametrize("block_size", [1, 61, 4096])
def test_a_real_fault_is_named_and_nothing_else(name: str, block_size: int) -> None:
    """What really went wrong on the servers is found, on the right one."""
    result = audited(lines_of(name), block_size)
    assert broken(result) == BROKEN[name]
    assert result.verdict is Verdict.INCONSISTENT


@pytest.mark.parametrize("name", [CLONED, "clone_follows_too_late"])
@pytest.mark.parametrize("block_size", [1, 61, 4096])
def test_a_clone_of_real_servers_is_compared_with_its_donor(name: str, block_size: int) -> None:
    """Its coordinates are the donor's; it goes on from there, or two groups after."""
    result = audited(lines_of(name), block_size)
    clone = [one.check for one in result.checks if one.check.rule.startswith("clone_")]
    outcomes = {check.rule: (check.outcome, check.reason) for check in clone}
    resumed = (Outcome.HOLDS, "") if name == CLONED else (Outcome.BROKEN, "group_left_out")
    assert outcomes == {
        "clone_coordinates_equal_donor": (Outcome.HOLDS, ""),
        "clone_resume_exact": resumed,
    }
    assert broken(result) == BROKEN.get(name, set())


def last_row_but_one(records: list[dict[str, Any]], instance: str) -> dict[str, Any]:
    """Behind the very last row the journal ends: what it refers to might still have come."""
    rows = [r for r in records if r["kind"] == "log_status" and r["instance"] == instance]
    row: dict[str, Any] = [r["row"] for r in rows if "row" in r][-2]
    return row


def audited_with(name: str, instance: str, change: Callable[[dict[str, Any]], None]) -> AuditResult:
    """The journal with a change in one log_status row of an instance."""
    records = [json.loads(line) for line in lines_of(name)]
    change(last_row_but_one(records, instance))
    return audited([json.dumps(record) for record in records])


CHAIN = "chain_with_rotations_and_crashes"


def test_a_position_beyond_the_file_is_named() -> None:
    """10 000 bytes beyond the end of the real file."""

    def change(row: dict[str, Any]) -> None:
        row["LOCAL"]["binary_log_position"] += 10_000

    result = audited_with(CHAIN, "s", change)
    assert broken(result) == {("snapshot_position_within_file", "s")}


def test_a_position_inside_an_event_is_named() -> None:
    """One byte before the end of the last group of a real file."""

    def change(row: dict[str, Any]) -> None:
        row["LOCAL"]["binary_log_position"] -= 1

    named = broken(audited_with(CHAIN, "r2", change))
    assert ("snapshot_position_on_group_boundary", "r2") in named
    assert {rule for rule, _ in named} <= {
        "executed_within_logged",
        "snapshot_position_monotone",
        "snapshot_position_on_group_boundary",
    }


def test_an_executed_set_ahead_of_the_log_is_named() -> None:
    """One GTID of its own that the source has not logged."""

    def change(row: dict[str, Any]) -> None:
        uuid, _, last = row["LOCAL"]["gtid_executed"].rpartition("-")
        row["LOCAL"]["gtid_executed"] = f"{uuid}-{int(last) + 1}"

    assert broken(audited_with(CHAIN, "s", change)) == {("executed_within_logged", "s")}


def test_a_falling_lsn_is_named() -> None:
    """512 bytes below the smallest that the server had recorded."""
    innodb = [
        record["row"]["STORAGE_ENGINES"]["InnoDB"]
        for record in map(json.loads, lines_of(CHAIN))
        if record["kind"] == "log_status" and record["instance"] == "r" and "row" in record
    ]
    low = min(values["LSN_checkpoint"] for values in innodb) - 512

    def change(row: dict[str, Any]) -> None:
        row["STORAGE_ENGINES"]["InnoDB"] = {"LSN": low, "LSN_checkpoint": low}

    assert broken(audited_with(CHAIN, "r", change)) == {("lsn_monotone", "r")}


def test_the_journals_tell_nothing_of_the_machine() -> None:
    """They are small, and have neither addresses nor directories but the relay log's own."""
    files = sorted(HERE.glob("*.jsonl"))
    assert [path.stem for path in files] == sorted([*HEALTHY, CLONED, *BROKEN])
    for path in files:
        text = path.read_text(encoding="ascii")
        assert len(text) < 150_000
        for word in ("/tmp", "/root", "/work", "/home", "127.0.0.1", "localhost", "@", "password"):
            assert word not in text.lower(), f"{path.name}: {word}"
