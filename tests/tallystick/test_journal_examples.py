"""docs/journal_examples.md: its journals have the verdicts that the page names, changed or not."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import Verdict
from tallystick.outputs._view import summaries
from tallystick.runs.breaches import breaches_of, present
from tallystick.runs.replay import result_of_audit

A = "aaaaaaaa-0000-0000-0000-000000000001"
PAGE = (Path(__file__).parents[2] / "docs" / "journal_examples.md").read_text("utf-8")
REPLICA, RESTORE, FAILOVER = (
    block.split("```")[0].splitlines() for block in PAGE.split("```json\n")[1:]
)


def replayed(lines: list[str]) -> AuditResult:
    return audit_history(blocks_from_lines(lines, end_heartbeats=True))


def changed(lines: list[str], where: tuple[str, ...], old: str, new: str) -> list[str]:
    """One line changed, the one that has all of some texts."""
    [at] = [n for n, line in enumerate(lines) if all(text in line for text in where)]
    assert old in lines[at]
    return [*lines[:at], lines[at].replace(old, new), *lines[at + 1 :]]


def with_lost_group() -> list[str]:
    """The failover after which the old source has a group that nobody else has."""
    at = next(n for n, line in enumerate(FAILOVER) if "recovered" in line)
    group = [json.loads(line) for line in FAILOVER[2:12] if f'"{A}:1"' in line][:1]
    group += [json.loads(line) for line in FAILOVER if '"kind":"binlog","instance":"s"' in line][
        3:4
    ]
    for event in group:
        event["start"] += 200
        event["log_pos"] += 200
    group[0] |= {"gtid": f"{A}:2", "last_committed": 1, "sequence_number": 2}
    lines = [*FAILOVER[:at], *map(json.dumps, group), *FAILOVER[at:]]
    lines = changed(lines, ('"recovered"',), '"position":357', '"position":557')
    lines = changed(lines, ("PREVIOUS_GTIDS", "s-bin.000002"), f"{A}:1", f"{A}:1-2")
    return changed(lines, ("log_status", '"instance":"s"', '"c2"'), f"{A}:1,", f"{A}:1-2,")


@pytest.mark.parametrize("lines", [REPLICA, RESTORE, FAILOVER])
def test_the_journals_are_consistent(lines: list[str]) -> None:
    """As they are on the page."""
    result = replayed(lines)
    assert (result.verdict, result.findings, result.observations) == (Verdict.CONSISTENT, [], [])


ROW_OF_REPLICA = ("log_status", '"instance":"r"')
BROKEN = [
    (
        changed(REPLICA, ROW_OF_REPLICA, '"Exec_Source_Log_Pos":357', '"Exec_Source_Log_Pos":236'),
        {"source_coordinate_valid", "applied_coordinates_paired"},
    ),
    (
        changed(REPLICA, ('"relay"', '"GTID"'), f"{A}:1", f"{A}:7"),
        {"relay_mirrors_source", "applied_relay_gtids_executed", "retrieved_matches_relay"},
    ),
    (
        changed(RESTORE, ('"step":"image"',), '"binlog_position":357', '"binlog_position":236'),
        {"backup_image_names_one_state", "restore_matches_image"},
    ),
    (
        changed(RESTORE, ('"step":"restore"',), f'"gtid_executed":"{A}:1"', '"gtid_executed":""'),
        {"restore_matches_image"},
    ),
    (
        changed(RESTORE, ('"step":"replayed"',), '"checksum":"7"', '"checksum":"8"'),
        {"recovered_data_equal_source"},
    ),
    (
        changed(FAILOVER, ('"recovered"',), '"position":357', '"position":157'),
        {"previous_gtids_continuity"},
    ),
    (with_lost_group(), {"no_errant_gtids"}),
]


@pytest.mark.parametrize(("lines", "rules"), BROKEN)
def test_a_change_is_found(lines: list[str], rules: set[str]) -> None:
    """By the rules that the page names."""
    assert {finding.rule for finding in replayed(lines).findings} == rules
    assert all(
        f"`{rule}`" in PAGE for rule in rules - {"applied_relay_gtids_executed"} if len(rules) < 3
    )


@pytest.mark.parametrize(
    "lines",
    [
        [*REPLICA[:-1], '{"kind":"gap","instance":"s"}'],
        [line for line in REPLICA if '"instance":"s"' not in line],
    ],
)
def test_a_source_that_is_not_observed_leaves_it_undecided(lines: list[str]) -> None:
    """To its end, or at all."""
    result = replayed(lines)
    assert (result.verdict, result.findings) == (Verdict.UNDECIDED, [])


def test_without_its_source_a_replica_is_undecided_at_each_collection() -> None:
    """What cannot be compared is observed once, at the first row: each later one lacks it, too."""
    lines = [line for line in REPLICA if '"instance":"s"' not in line]
    [row] = [line for line in lines if "log_status" in line]
    lines += [row.replace('"c1"', f'"{name}"') for name in ("c2", "c3")]
    made = result_of_audit(
        replayed(lines), command="replay", title="t", begun_at=datetime.now(timezone.utc)
    )
    assert len({seen.collection_id for seen in made.observations if seen.collection_id}) == 1
    assert made.verdict is made.verdict_now is Verdict.UNDECIDED
    assert {summary.verdict for summary in summaries(made)} == {Verdict.UNDECIDED}
    [channel] = present(made, breaches_of(made)).channels.values()
    assert channel is Verdict.UNDECIDED
