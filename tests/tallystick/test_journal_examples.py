"""docs/journal_examples.md: its journals have the verdicts that the page names, changed or not."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import Verdict
from tallystick.coordinates.rules.explanation import explain
from tallystick.outputs._view import summaries
from tallystick.runs.breaches import breaches_of, present
from tallystick.runs.replay import result_of_audit

A = "aaaaaaaa-0000-0000-0000-000000000001"
PAGE = (Path(__file__).parents[2] / "docs" / "journal_examples.md").read_text("utf-8")
REPLICA, RESTORE, FAILOVER, BACKUP = (
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


IMAGE = ('"step":"image"',)
BY_STATUS = changed(BACKUP, IMAGE, '"log_status"', '"source_status"')
UNDER_READ_LOCK = [line.replace('"lock":"instance"', '"lock":"global_read"') for line in BY_STATUS]
UNDER_READ_LOCK[6:9] = [*UNDER_READ_LOCK[7:9], UNDER_READ_LOCK[6]]


@pytest.mark.parametrize("lines", [REPLICA, RESTORE, FAILOVER, BACKUP, UNDER_READ_LOCK])
def test_the_journals_are_consistent(lines: list[str]) -> None:
    """As they are on the page."""
    result = replayed(lines)
    assert (result.verdict, result.findings, result.observations) == (Verdict.CONSISTENT, [], [])


ROW_OF_REPLICA = ("log_status", '"instance":"r"')
BROKEN = [
    (
        changed(REPLICA, ROW_OF_REPLICA, '"Exec_Source_Log_Pos":357', '"Exec_Source_Log_Pos":236'),
        {"applied_coordinates_paired"},
    ),
    (
        changed(REPLICA, ('"relay"', '"GTID"'), f"{A}:1", f"{A}:7"),
        {"relay_mirrors_source", "applied_relay_gtids_executed", "retrieved_matches_relay"},
    ),
    (
        changed(RESTORE, IMAGE, '"binlog_position":357', '"binlog_position":236'),
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
    (
        changed(BACKUP, IMAGE, '"binlog_position":557', '"binlog_position":357'),
        {"backup_coordinates_match_data"},
    ),
]


@pytest.mark.parametrize(("lines", "rules"), BROKEN)
def test_a_change_is_found(lines: list[str], rules: set[str]) -> None:
    """By the rules that the page names."""
    assert {finding.rule for finding in replayed(lines).findings} == rules
    assert all(
        f"`{rule}`" in PAGE for rule in rules - {"applied_relay_gtids_executed"} if len(rules) < 3
    )


def with_tables(relay_log: str, *more: str) -> list[str]:
    """The replica's row with both info tables; of the source's file where the receiver is."""
    at_source = {"Master_log_name": "s-bin.000001", "Master_log_pos": 357}
    applier = {"Relay_log_name": f"./{relay_log}", "Relay_log_pos": 526, **at_source}
    named = [{"Channel_name": name} for name in more or ("",)]
    tables = {
        "slave_master_info": [{"Channel_name": "", **at_source}],
        "slave_relay_log_info": [row | applier for row in named],
    }
    [at] = [n for n, line in enumerate(REPLICA) if all(text in line for text in ROW_OF_REPLICA)]
    return [*REPLICA[:at], json.dumps(json.loads(REPLICA[at]) | tables), *REPLICA[at + 1 :]]


def status_without_the_channel() -> list[str]:
    """A row from before RESET REPLICA ALL, beside a status from after it."""
    [at] = [n for n, line in enumerate(REPLICA) if all(text in line for text in ROW_OF_REPLICA)]
    row = json.dumps(json.loads(REPLICA[at]) | {"replica_status": []})
    gone = {"kind": "channel", "instance": "r", "channel": "", "action": "reset_all"}
    return [*REPLICA[:at], json.dumps(gone), row, *REPLICA[at + 1 :]]


RELAY_END = '"relay_log_file":"r-relay.000001","relay_log_position":526'
OTHER_NAMES = [
    (with_tables("r-relay.000001"), set(), ""),
    (
        changed(REPLICA, ROW_OF_REPLICA, RELAY_END, RELAY_END.replace("r-relay", "r-bin")),
        {"relay_position_on_written_boundary"},
        "is in a file of the binary log",
    ),
    (
        changed(REPLICA, ROW_OF_REPLICA, '"binary_log_file":"r-bin', '"binary_log_file":"r-relay'),
        {"snapshot_position_within_file"},
        "is in a file of the relay log of channel ''",
    ),
    (
        with_tables("r-bin.000001"),
        {"relay_info_coordinates_paired"},
        "is in a file of the binary log",
    ),
    (
        changed(REPLICA, ROW_OF_REPLICA, '{"InnoDB":', '{"Innodb":'),
        {"log_status_row_complete"},
        "expected the key InnoDB",
    ),
]


@pytest.mark.parametrize(("lines", "rules", "says"), OTHER_NAMES)
def test_a_row_names_files_of_the_log_that_it_is_about(
    lines: list[str], rules: set[str], says: str
) -> None:
    """A collector that mixes up logs or channels, or leaves out what a backup copies up to."""
    found = replayed(lines).findings
    assert {finding.rule for finding in found} == rules
    assert all(says in explain(finding).sentence for finding in found)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            changed(REPLICA, ROW_OF_REPLICA, RELAY_END, RELAY_END.replace("r-relay", "old")),
            "relay_log_of_other_base_name",
        ),
        (with_tables("old.000001"), "relay_log_of_other_base_name"),
        (with_tables("r-relay-other.000001", "other"), "info_row_missing"),
        (status_without_the_channel(), "channel_listed_alone"),
    ],
)
def test_files_that_were_not_seen_leave_it_undecided(lines: list[str], reason: str) -> None:
    """Of another host, as after its data directory was copied; a row that somebody removed."""
    result = replayed(lines)
    assert (result.verdict, result.findings) == (Verdict.UNDECIDED, [])
    assert reason in {check.reason for cut in result.cuts for check in cut.checks}


def test_a_stored_read_position_may_be_of_files_that_the_source_had_before() -> None:
    """It is written seldom, and with auto-positioning nobody reads it: no verdict rests on it."""
    lines = with_tables("r-relay.000001")
    stored = '{"Channel_name": "", "Master_log_name": "s-bin'
    lines = changed(lines, ("slave_master_info",), stored, stored.replace("s-bin", "old"))
    result = replayed(lines)
    assert (result.verdict, result.findings) == (Verdict.CONSISTENT, [])
    reasons = {check.reason for cut in result.cuts for check in cut.checks}
    assert "source_files_of_other_base_name" in reasons


IMAGE_OF_REPLICA = {
    "binlog_file": "r-bin.000001",
    "binlog_position": 357,
    "gtid_executed": f"{A}:1",
    "tables": [],
}


@pytest.mark.parametrize(
    ("executed", "rules"), [(f"{A}:1", set()), ("", {"backup_replica_positions_agree"})]
)
def test_the_executed_position_in_an_image_is_within_its_set(
    executed: str, rules: set[str]
) -> None:
    """What the position has passed and the set lacks, a server restored from it never gets."""
    at = {"source_log_file": "s-bin.000001", "source_log_pos": 357}
    channel = {"channel": "", "source_instance": "s"} | {
        f"{name}_{key}": value for name in ("read", "exec") for key, value in at.items()
    }
    image = {"kind": "backup", "instance": "r", "backup_id": "monday"}
    image |= {"step": "image", **IMAGE_OF_REPLICA, "channels": [channel]}
    image["gtid_executed"] = executed
    result = replayed([*REPLICA, json.dumps(image)])
    assert rules <= {finding.rule for finding in result.findings}
    assert rules or result.findings == []


def test_an_image_without_relay_log_info_says_so() -> None:
    """The applied relay position is there, the repository is not."""
    channel = {"channel": "", "source_instance": "s", "relay_log_file": "r-relay.000001"}
    channel |= {"relay_log_pos": 526}
    image = {"kind": "backup", "instance": "r", "backup_id": "monday", "step": "image"}
    lines = [*REPLICA, json.dumps(image | IMAGE_OF_REPLICA | {"channels": [channel]})]
    assert "image_no_relay_info" in {seen.reason for seen in replayed(lines).observations}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (changed(BACKUP, IMAGE, f"{A}:1-2", f"{A}:1"), "backup_may_be_committing"),
        (BY_STATUS, "backup_not_stopped"),
    ],
)
def test_a_backup_beside_commits_may_be_undecided(lines: list[str], reason: str) -> None:
    """What its set lacks may have been committing; only log_status is of one moment."""
    result = replayed(lines)
    assert (result.verdict, result.findings) == (Verdict.UNDECIDED, [])
    assert [seen.reason for seen in result.observations] == [reason]


RESTORED = changed(RESTORE, IMAGE, '"tables":[', '"tables":[{"name":"shop.items"},')


@pytest.mark.parametrize(
    "lines", [[line for line in RESTORED if '"step":"replay' not in line], RESTORED]
)
def test_a_table_of_the_image_that_the_restore_does_not_name_is_undecided(
    lines: list[str],
) -> None:
    """Whether or not a log was replayed: it is lost, or nobody looked at it."""
    assert "table_not_named" in {seen.reason for seen in replayed(lines).observations}


def test_restored_tables_are_compared_without_a_replay_too() -> None:
    """With those of the image."""
    lines = [line for line in RESTORE if '"step":"replay' not in line]
    lines = changed(lines, ('"step":"restore"',), '"checksum":"0"', '"checksum":"9"')
    [rule] = {f.rule for f in replayed(lines).findings}
    assert rule == "recovered_data_equal_source"


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
