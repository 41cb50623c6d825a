"""Missing evidence is UNDECIDED with its reason; and a finding says what a person can check."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tallystick.coordinates.audit.collection_checks import is_optional
from tallystick.coordinates.audit.fleet_events import FleetEvent, FleetEventKind
from tallystick.coordinates.logs import group_queue
from tallystick.coordinates.logs.event_window import EventWindow
from tallystick.coordinates.rules.applied_groups import AppliedGroups
from tallystick.coordinates.rules.explanation import explain, observation_text
from tallystick.coordinates.rules.logged_groups import head_is_purged
from tallystick.coordinates.rules.outcomes import Broken
from tallystick.coordinates.rules.registry import RULES
from tallystick.coordinates.values.binlog import WRAP
from tallystick.coordinates.values.gtid import GtidSet
from tests.support.evidence_reduced import reduced
from tests.support.journals import (
    ARTIFICIAL,
    UUID_A,
    UUID_B,
    UUID_C,
    Gtids,
    Journal,
    Record,
    audit,
)
from tests.support.rule_cases import CASES as RULE_CASES
from tests.support.rule_cases import apply, innodb, local, purging, replica, source
from tests.support.rule_cases_of_channels import master_info, relay_info, store, with_worker
from tests.support.rule_cases_of_online_backup import engine_locks
from tests.support.rule_cases_over_time import leave_out_channel

Build = Callable[[], Journal]


def with_row(change: Callable[[Record], object], **settings: object) -> Build:
    """A source whose row is changed."""

    def build() -> Journal:
        journal = source(**settings)  # type: ignore[arg-type]
        change(journal.row())
        return journal

    return build


def plain() -> Journal:
    journal = source()
    journal.row()
    return journal


def without_status() -> Journal:
    journal, _, _ = replica()
    journal.row()
    return journal


def with_empty_tables() -> Journal:
    journal, _, _ = replica()
    tables: Record = {"slave_master_info": [], "slave_relay_log_info": []}
    journal.row(replica_status=journal.replica_status(), **tables)
    return journal


def without_relay_log() -> Journal:
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status())
    apply(journal, relay, more[0])
    journal.row(replica_status=journal.replica_status(Read_Source_Log_Pos=4))
    journal.records = [r for r in journal.records if r["kind"] != "relay"]
    return journal


def stored_beyond_an_unseen_relay_log() -> Journal:
    journal = RULE_CASES["relay_info_updated_with_commit__beyond"].build(breaks=True)
    journal.records = [r for r in journal.records if r["kind"] != "relay"]
    return journal


def gtid_only() -> Journal:
    journal, _, _ = replica()
    table = [{"Channel_name": "", "Gtid_only": 1}]
    journal.row(replica_status=journal.replica_status(), slave_master_info=table)
    return journal


def of_an_old_place() -> Journal:
    journal = source(300)
    local(journal.row())["binary_log_position"] = 457
    return journal


def of_an_old_file() -> Journal:
    journal = source()
    file, position = journal.binlog.coordinates
    journal.binlog.rotate()
    local(journal.groups(300).row()).update(binary_log_file=file, binary_log_position=position)
    return journal


def list_that_changed() -> Journal:
    journal = purging()
    journal.row(
        binary_logs=[{"name": "binlog.000001", "size": 9}],
        binary_logs_again=[{"name": "binlog.000002", "size": 9}],
    )
    return journal


def lag_that_may_settle() -> Journal:
    journal = source(5)
    local(journal.row())["gtid_executed"] = f"{UUID_A}:1-3"
    return journal


def lag_that_stands_still() -> Journal:
    journal = source(5)
    for _ in range(2):
        local(journal.row())["gtid_executed"] = f"{UUID_A}:1-3"
        journal.wait(20)
    return journal


def unexplained_while_a_relay_log_is_unseen() -> Journal:
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status())
    apply(journal, relay, more[0])
    journal.row(replica_status=journal.replica_status())
    journal.records = [r for r in journal.records if r["kind"] != "relay"]
    return journal


def table_beside(**told: str) -> Build:
    """mysql.gtid_executed has a GTID that may be owned by a session or prepared."""

    def build() -> Journal:
        journal = source()
        journal.row(gtid_executed_table=f"{UUID_A}:1-4", **told)
        return journal

    return build


def worker_beyond_4_gib() -> Journal:
    """Of a relay log that is not known; the one that is names positions modulo 2^32."""
    names = {"Relay_log_name": "host-relay.000001", "Checkpoint_relay_log_name": ""}
    return with_worker(names | {"Master_log_pos": WRAP})


def read_of_another_name() -> Journal:
    """The status names the files of another source than the relay log."""
    journal, relay, _ = replica()
    stored = master_info(relay)
    stored[0]["Master_log_pos"] += 300
    status = journal.replica_status(Source_Log_File="archive.000009")
    journal.row(replica_status=status, slave_master_info=stored)
    return journal


def stored_beyond(more: int, read: int | None) -> Build:
    """What is stored is beyond what the relay log shows, and this is said to be read."""

    def build() -> Journal:
        journal, relay, _ = replica()
        stored = master_info(relay)
        position = None if read is None else stored[0]["Master_log_pos"] + read
        stored[0]["Master_log_pos"] += more
        status = journal.replica_status(Read_Source_Log_Pos=position)
        journal.row(replica_status=status, slave_master_info=stored)
        return journal

    return build


def stopped_while_it_was_read() -> Journal:
    journal, relay, _ = replica()
    stored = master_info(relay)
    stored[0]["Master_log_pos"] -= 300
    asked_at = journal.ts
    journal.wait(1)
    journal.record("channel", channel="", action="stop_receiver")
    journal.row(
        requested_at=asked_at,
        replica_status=journal.replica_status(Replica_IO_Running="No"),
        slave_master_info=stored,
    )
    return journal


def group_of_an_unseen_channel() -> Journal:
    """A channel was made, brought one group, and was removed between two answers."""
    journal = Journal().begin()
    journal.row()
    journal.binlog.group(f"{UUID_C}:4", server_id=3)
    journal.row()
    return journal


def injected_group_of_an_unseen_log() -> Journal:
    """A client commits an empty group under a foreign GTID; no event of any log is observed."""
    journal = Journal().begin()
    journal.row()
    journal.binlog.group(f"{UUID_C}:4")
    journal.row()
    journal.records = [r for r in journal.records if r["kind"] != "binlog"]
    return journal


def anonymous_channel() -> Journal:
    origin = Journal("s", UUID_C, 3).begin()
    origin.binlog.group(None)
    journal, relay, _ = replica(0)
    journal.row(replica_status=journal.replica_status())
    relay.copy(origin.binlog.groups[0])
    journal.binlog.group(f"{UUID_C}:1", server_id=3)
    journal.row(replica_status=journal.replica_status())
    return journal


def of_another_base() -> Journal:
    journal = source()
    local(journal.row())["binary_log_file"] = "other.000001"
    return journal


def head_without_what_came_before() -> Journal:
    journal, relay, more = replica()
    relay.rotate()
    next(r for r in reversed(journal.records) if r["type"] == "PREVIOUS_GTIDS")["gtid_set"] = ""
    relay.connect(position=more[0][0]["start"])
    apply(journal, relay, more[0])
    journal.row(replica_status=journal.replica_status())
    return journal


def table_from_before_a_reset() -> Journal:
    journal = source()
    before = str(journal.executed)
    journal.record("binlog_reset")
    journal.executed = Gtids()
    journal.used = Gtids()
    journal.binlog.open(1, "")
    journal.row(
        gtid_executed_first=before, gtid_executed_table=before, gtid_owned="", prepared_xa=""
    )
    return journal


def executed_beyond_4_gib() -> Journal:
    """What was left out may be after the executed position: the relay log names it modulo 2^32."""
    journal = RULE_CASES["applied_exactly_once__left_out"].build(breaks=True)
    [status] = journal.records[-1]["replica_status"]
    status["Read_Source_Log_Pos"] += WRAP
    status["Exec_Source_Log_Pos"] += WRAP
    return journal


def purged_from_before_a_reset() -> Journal:
    journal = purging()
    journal.record("binlog_purge", to_file="binlog.000002")
    asked_at = journal.ts
    journal.wait(1)
    journal.record("binlog_reset")
    journal.executed = Gtids()
    journal.used = Gtids()
    journal.binlog.open(1, "")
    journal.row(requested_at=asked_at, gtid_purged=f"{UUID_A}:1-3")
    return journal


def drop_purged(row: Record) -> None:
    """The row alone, with a GTID that only gtid_purged could explain."""
    del row["gtid_purged"]
    local(row)["gtid_executed"] = f"{UUID_A}:1-3,\n{UUID_C}:1"


def drop_lsn(row: Record) -> None:
    row["row"]["STORAGE_ENGINES"] = {}


def drop_executed(row: Record) -> None:
    local(row)["gtid_executed"] = "?"


CASES: dict[str, tuple[str, Build, str, str]] = {
    f"{rule}: {reason}": (rule, build, reason, scope)
    for rule, build, reason, scope in [
        ("executed_within_logged", with_row(drop_purged), "gtid_purged was not read", "instance"),
        ("purged_within_executed", purged_from_before_a_reset, "was not read", "instance"),
        ("purged_matches_oldest_file", purged_from_before_a_reset, "was not read", "instance"),
        ("executed_within_logged", of_another_base, "up to the position is not known", "instance"),
        ("executed_monotone", with_row(drop_executed), "could not be read", "instance"),
        ("snapshot_position_within_file", of_another_base, "files of 'binlog'", "instance"),
        ("snapshot_position_within_file", of_an_old_file, "older than", "instance"),
        ("snapshot_position_on_group_boundary", of_an_old_place, "older than", "instance"),
        ("owned_disjoint_from_executed", plain, "was not read", "instance"),
        ("gtid_table_within_executed", plain, "was not read", "instance"),
        ("gtid_table_within_executed", table_from_before_a_reset, "began anew", "instance"),
        ("gtid_table_within_executed", table_beside(prepared_xa=""), "gtid_owned", "instance"),
        ("gtid_table_within_executed", table_beside(gtid_owned=""), "prepared XA", "instance"),
        ("gtid_table_has_closed_files", plain, "was not read", "instance"),
        ("checkpoint_age_within_capacity", plain, "is not known", "instance"),
        ("binlog_files_form_range", plain, "was not read", "instance"),
        ("lsn_grows_with_commits", with_row(drop_lsn), "no readable LSN", "instance"),
        ("lsn_monotone", with_row(drop_lsn), "no readable LSN", "instance"),
        ("purged_matches_oldest_file", list_that_changed, "changed while it was read", "instance"),
        ("logged_eventually_executed", lag_that_may_settle, "time to settle", "instance"),
        ("logged_eventually_executed", lag_that_stands_still, "stand still", "instance"),
        ("executed_growth_explained", anonymous_channel, "without a GTID", "instance"),
        ("executed_growth_explained", group_of_an_unseen_channel, "gone unseen", "instance"),
        ("executed_growth_explained", injected_group_of_an_unseen_log, "no event", "instance"),
        (
            "executed_growth_explained",
            unexplained_while_a_relay_log_is_unseen,
            "not seen completely",
            "instance",
        ),
        (
            "exec_source_pos_within_read",
            without_relay_log,
            "begins at an earlier position",
            "channel",
        ),
        ("relay_position_on_written_boundary", without_relay_log, "no event", "channel"),
        ("applied_exactly_once", without_relay_log, "no event", "channel"),
        ("applied_exactly_once", executed_beyond_4_gib, "modulo 2^32", "channel"),
        ("applied_relay_gtids_executed", without_status, "was not read", "channel"),
        ("retrieved_matches_relay", without_status, "was not read", "channel"),
        (
            "retrieved_matches_relay",
            head_without_what_came_before,
            "lacks what the files",
            "channel",
        ),
        ("applied_within_flushed", without_status, "was not read", "channel"),
        ("exec_source_pos_within_read", gtid_only, "GTID_ONLY", "channel"),
        ("master_info_not_ahead_of_relay", gtid_only, "GTID_ONLY", "channel"),
        ("master_info_not_ahead_of_relay", read_of_another_name, "skipped", "channel"),
        ("master_info_not_ahead_of_relay", stored_beyond(300, None), "have skipped", "channel"),
        ("master_info_not_ahead_of_relay", stored_beyond(300, 300), "may have skipped", "channel"),
        ("master_info_not_ahead_of_relay", stored_beyond(WRAP, 0), "modulo 2^32", "channel"),
        ("relay_info_coordinates_paired", without_status, "was not read", "channel"),
        ("relay_info_updated_with_commit", stored_beyond_an_unseen_relay_log, "seen", "channel"),
        ("worker_positions_end_groups", worker_beyond_4_gib, "modulo 2^32", "channel"),
        ("master_info_flush_points", with_empty_tables, "kept in a file", "channel"),
        ("relay_info_coordinates_paired", with_empty_tables, "kept in a file", "channel"),
        ("master_info_flush_points", without_status, "was not read", "channel"),
        ("master_info_flush_points", stopped_while_it_was_read, "while the answer", "channel"),
    ]
}


@pytest.mark.parametrize("name", CASES)
def test_missing_evidence_is_undecided_with_its_reason(name: str):
    """No finding under that name, no silence: the cut says why."""
    rule, build, reason, scope = CASES[name]
    result = audit(build())
    assert rule not in result.broken
    assert reason in result.undecided(scope)[rule]


@pytest.mark.parametrize("back", [0, 1])
def test_what_is_stored_and_seen_to_be_read_beyond_4_gib_holds(back: int):
    """The relay log names it."""
    journal, relay, more = replica()
    relay.connect("binlog.000001", WRAP + more[0][0]["start"])
    apply(journal, relay, more[0])
    stored = master_info(relay)
    end = WRAP + more[0][-1]["log_pos"]
    stored[0]["Master_log_pos"] = end - back
    read = {"Read_Source_Log_Pos": end, "Exec_Source_Log_Pos": end}
    journal.row(replica_status=journal.replica_status(**read), slave_master_info=stored)
    result = audit(journal)
    rule = "master_info_not_ahead_of_relay"
    assert rule not in result.broken
    assert rule not in result.undecided("channel")


@pytest.mark.parametrize(
    ("file", "where", "beyond", "expected"),
    [
        (1, "start", 0, "holds"),
        (1, "start", 1, "older than the events remembered"),
        (1, "end", 0, "older than the events remembered"),
        (2, "start", 0, "holds"),
        (2, "end", -1, "broken"),
        (2, "end", 0, "holds"),
        (2, "end", 1, "broken"),
        (3, "start", 0, "broken"),
    ],
)
def test_of_a_long_relay_log_the_last_events_are_remembered(file, where, beyond, expected):
    """And that each of its files begins at 4: that is no accusation, whatever else is forgotten."""
    rule = "relay_position_on_written_boundary"
    journal, relay, more = replica()
    end = relay.coordinates[1]
    relay.rotate()
    relay.connect()
    for _ in range(EventWindow().limit):
        relay.event("ROTATE", 46, log_pos=0, flags=ARTIFICIAL, next_file="binlog.000001")
    apply(journal, relay, more[0])
    if file == 2:
        end = relay.coordinates[1]
    relay.flushed = f"{relay.base_name}.{file:06d}", (end if where == "end" else 4) + beyond
    journal.row()
    journal.wait(1).record("heartbeat")
    result = audit(journal)
    found = "broken" if rule in result.broken else result.undecided("channel").get(rule, "holds")
    assert expected in found


def test_commit_lag_over_a_default_bound_is_undecided():
    """151 connections are a default, not what this server has."""
    journal = source(3)
    before = str(journal.executed)
    journal.groups(400)
    local(journal.row())["gtid_executed"] = before
    result = audit(journal)
    assert [] == result.broken
    assert "max_connections" in result.undecided()["commit_lag_bounded"]


def test_without_position_or_set_a_row_is_not_consistent():
    """Whatever else holds, the heart of the row was not judged."""
    for change in (drop_purged, lambda row: local(row).update(binary_log_file="other.000001")):
        assert ["UNDECIDED"] == audit(with_row(change)()).verdicts


def test_a_channel_is_consistent_by_what_holds_and_undecided_by_nothing():
    """Its row has no check that it must have, but some of its checks must have been decided."""
    journal, _, _ = replica()
    row = journal.row()
    verdicts = []
    for file in (row["row"]["REPLICATION"]["channels"][0]["relay_log_file"], ""):
        row["row"]["REPLICATION"]["channels"][0]["relay_log_file"] = file
        alone = [one for one in journal.records if one["kind"] not in ("relay", "channel")]
        verdicts.append(audit(alone).cuts[-1].verdict)
    assert verdicts == ["CONSISTENT", "UNDECIDED"]


def test_a_row_of_which_nothing_is_undecided_is_consistent():
    """As where whoever runs the audit wants none of the rules that are."""
    journal, _, _ = replica()
    journal.row(replica_status=journal.replica_status())
    first = audit(journal)
    unwanted = {check.rule for cut in first.cuts for check in cut.undecided}
    again = audit(journal, disabled=frozenset(unwanted))
    assert [check for cut in again.cuts for check in cut.undecided] == []
    assert ["CONSISTENT", "CONSISTENT"] == [cut.verdict for cut in again.cuts]


@pytest.mark.parametrize(
    ("known", "has_log", "verdict"),
    [
        ({"log_bin": "ON"}, True, "INCONSISTENT"),
        ({"log_bin": "ON", "binlog_error_action": "ABORT_SERVER"}, True, "INCONSISTENT"),
        ({"log_bin": "ON", "binlog_error_action": "IGNORE_ERROR"}, True, "UNDECIDED"),
        ({}, True, "UNDECIDED"),
        ({}, False, "CONSISTENT"),
        ({"log_bin": "OFF"}, False, "CONSISTENT"),
    ],
)
def test_a_row_without_a_binary_log(known: dict[str, str], has_log: bool, verdict: str):
    """It says that there is none: true where nothing is known of one, and never taken for true."""
    journal = Journal()
    others = {k: v for k, v in journal.variables.items() if k != "log_bin"}
    journal.start(variables=others | known)
    if has_log:
        journal.binlog.open()
        journal.groups(2)
    row = local(journal.row())
    row.pop("binary_log_file"), row.pop("binary_log_position")
    assert [verdict] == audit(journal).verdicts


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("says", ["nothing", "other settings", "off", "on", "on later"])
def test_a_row_without_a_binary_log_after_a_restart(says: str, is_clean: bool):
    """Only a start changes log_bin: what the one before had says nothing of this one."""
    journal = source()
    journal.row()
    journal.record("stop", clean=is_clean)
    settings = dict(journal.variables)
    log_bin = settings.pop("log_bin")
    if says != "nothing":
        told = {"off": {"log_bin": False}, "on": {"log_bin": log_bin}}.get(says, {})
        journal.start(variables=settings | told)
    if says == "on later":
        journal.record("variables", variables={"log_bin": log_bin})
    journal.variables = settings | {"log_bin": False}
    journal.purged = str(journal.executed)
    journal.row()
    result = audit(journal)
    verdict = {"off": "CONSISTENT", "on": "INCONSISTENT", "on later": "INCONSISTENT"}
    undecided = [seen.reason for seen in result.observations if seen.is_undecided]
    assert ("start_unrecorded" in undecided) is (says == "nothing")
    assert ["CONSISTENT", verdict.get(says, "UNDECIDED")] == result.verdicts
    if says in ("nothing", "other settings"):
        (check,) = [c for c in result.cuts[-1].checks if c.rule == "purged_matches_oldest_file"]
        assert "may_have_log" == check.reason


def test_a_reset_while_a_server_without_a_log_answers_is_undecided():
    """RESET BINARY LOGS AND GTIDS between two readings takes GTIDs out of all later ones."""
    journal = Journal(log_bin=False)
    journal.start()
    journal.row(gtid_executed_first=f"{UUID_A}:1-7", gtid_purged="")
    result = audit(journal)
    assert [] == result.broken
    assert "began anew" in result.undecided()["purged_matches_oldest_file"]


@pytest.mark.parametrize(("log_bin", "is_told"), [(True, True), (False, True), (False, False)])
def test_a_reset_while_an_answer_is_read_takes_gtids_out_of_its_row(log_bin, is_told):
    """Without a binary log nothing shows it. What SET gtid_purged had added before is gone, too."""
    journal = Journal(log_bin=log_bin)
    journal.start()
    if log_bin:
        journal.binlog.open(1)
    journal.row(gtid_executed_first="")
    if log_bin:
        journal.groups(2)
    journal.record("gtid_purged", added=f"{UUID_C}:1")
    before = f"{UUID_A}:1-2,{UUID_C}:1"
    if is_told:
        journal.record("binlog_reset")
    for gtids in (journal.executed, journal.used):
        gtids.numbers.clear()
    if log_bin:
        journal.binlog.gtids.numbers.clear()
        journal.binlog.open(1)
    status = [{"Channel_Name": "", "Executed_Gtid_Set": before}]
    row = journal.row(gtid_executed_first=before, replica_status=status)
    row["row"]["LOCAL"]["gtid_executed"] = ""
    assert "executed_as_shown_before" not in audit(journal).broken


@pytest.mark.parametrize("hides", ["gap", "restored"])
def test_what_was_assigned_may_be_gone_behind_a_gap_or_with_the_data(hides):
    """A RESET may hide in a gap."""
    journal = source()
    journal.record("gtid_purged", added=f"{UUID_C}:1")
    if hides == "gap":
        journal.record("gap")
    else:
        journal.start(data_lineage="restored")
        journal.binlog.open(2)
    row = journal.row(gtid_executed_first=str(journal.executed), gtid_purged="")
    row["row"]["LOCAL"]["gtid_executed"] = f"{UUID_A}:1-3"
    assert "executed_as_shown_before" not in audit(journal).broken


def test_a_channel_that_left_unseen_may_have_brought_what_the_next_row_shows():
    """And not what a later one does."""
    journal, _, more = replica()
    journal.row(replica_status=journal.replica_status())
    journal.record("channel", channel="gone", action="reset_all")
    for group, broken in zip(more, ([], ["executed_growth_explained"]), strict=False):
        journal.binlog.group(group[0]["gtid"], server_id=3)
        journal.row(replica_status=journal.replica_status())
        assert audit(journal).broken == broken


def test_answers_without_a_row_are_operational_and_undecided():
    """A refusal, a failure and a time-out are reported by their own codes."""
    journal = source()
    errors = [
        {"code": 1227, "message": "need BACKUP_ADMIN"},
        {"code": 1142},
        {"code": 3722, "column": "LOCAL", "message": "memory"},
        {"timed_out": True},
        {"unreachable": True},
    ]
    for number, error in enumerate(errors):
        journal.record("log_status", collection_id=f"e{number}", error=error)
    result = audit(journal)
    assert [] == result.findings
    assert ["refused", "refused", "failed", "missing", "missing"] == [
        cut.answer for cut in result.cuts
    ]
    assert {"UNDECIDED"} == set(result.verdicts)
    assert ["LOG_STATUS_REFUSED"] * 2 + ["LOG_STATUS_FAILED"] + ["LOG_STATUS_MISSING"] * 2 == [
        code.value for code in result.codes
    ]
    assert [cut.error_text for cut in result.cuts] == [
        "access denied: need BACKUP_ADMIN",
        "access denied",
        "error 3722: memory (column LOCAL)",
        "the query timed out",
        "the server was not reachable",
    ]
    assert [f"e{number}" for number in range(5)] == [
        seen.collection_id for seen in result.observations if seen.is_undecided
    ]
    assert "column LOCAL" in observation_text(result.observations[2])


def test_a_row_of_another_server_says_nothing_of_this_one():
    """As one that came by a proxy; the next is of this server again, and one of a new start."""
    journal = source()
    journal.row()
    other = journal.groups(1).row()
    other["row"]["SERVER_UUID"] = UUID_C
    other["row"]["LOCAL"]["gtid_executed"] = f"{UUID_C}:1-7"
    journal.groups(1).row()
    journal.record("stop")
    journal.uuid = UUID_C
    journal.record("start", server_uuid=UUID_C, server_id=1, version="8.0.31")
    journal.row()
    history = audit(journal)
    assert not history.findings
    assert [cut.verdict for cut in history.cuts] == [
        "CONSISTENT", "UNDECIDED", "CONSISTENT", "CONSISTENT",
    ]  # fmt: skip
    assert history.cuts[1].reason == "row_of_another_server"
    [seen] = history.observations
    assert (seen.reason, seen.is_undecided) == ("row_names_another_server", True)
    assert UUID_A in (text := observation_text(seen))
    assert UUID_C in text


FIELDS = ("log_pos", "transaction_length", "sequence_number", "last_committed")
OF_FIELDS = {
    "binlog_log_pos_field_agrees": "field_not_given",
    "transaction_length_agrees": "field_not_given",
    "sequence_numbers_valid": "field_not_given",
    "gtid_mode_respected": "gtid_mode_not_known",
}


def test_rules_of_events_without_what_they_need_are_undecided():
    """The row is CONSISTENT all the same; and they are judged from where it is given."""
    journal = source()
    journal.row()
    for record in journal.records:
        for name in FIELDS:
            record.pop(name, None)
        record.get("variables", {}).pop("gtid_mode", None)
    journal.record("variables", variables={"gtid_mode": "ON"})
    journal.groups(1).row()
    history = audit(journal)
    assert not history.findings
    before, after = history.cuts
    assert before.verdict == after.verdict == "CONSISTENT"
    undecided = {check.rule: check.reason for check in before.undecided}
    assert {rule: undecided.get(rule) for rule in OF_FIELDS} == OF_FIELDS
    assert all(is_optional(check, before.verdict) for check in before.undecided)
    assert not {check.rule for check in after.undecided} & OF_FIELDS.keys()


def test_where_nothing_was_logged_no_field_is_missing():
    """Neither without groups nor without a binary log."""
    journal = source(0)
    journal.row()
    off = Journal(log_bin=False)
    off.start()
    off.row()
    for one in (journal, off):
        [cut] = audit(one).cuts
        assert not {check.rule for check in cut.undecided} & OF_FIELDS.keys()


def test_a_row_with_a_group_of_an_unseen_channel_is_undecided():
    """It accuses nobody, and does not call consistent what came by an unknown way."""
    result = audit(group_of_an_unseen_channel())
    assert ([], ["CONSISTENT", "UNDECIDED"]) == (result.broken, result.verdicts)


def test_a_row_that_trails_is_told_as_torn_and_stays_consistent():
    """Stock servers do it under load; the observation warns who would use both as one point."""
    journal = source(5)
    local(journal.row())["gtid_executed"] = f"{UUID_A}:1-3"
    result = audit(journal)
    assert ([], ["CONSISTENT"]) == (result.findings, result.verdicts)
    [reported] = result.observations
    assert ("LOG_STATUS_TEAR", False, "c1") == (
        reported.code.value,
        reported.is_undecided,
        reported.at,
    )
    assert f"by 2 GTIDs ({UUID_A}:4-5)" in observation_text(reported)
    assert (2, f"{UUID_A}:1-5") == (result.cuts[0].commit_lag, result.cuts[0].journal_gtid_set)


def test_what_a_reset_takes_out_of_the_executed_set_is_told():
    """It is legal, and whoever did not do it wants to know: the server counts them no more."""
    journal = source()
    journal.row()
    journal.record("binlog_reset")
    journal.executed, journal.used = Gtids(), Gtids()
    journal.binlog.open(1, "")
    journal.row()
    result = audit(journal)
    assert ([], {"CONSISTENT"}) == (result.findings, set(result.verdicts))
    [reported] = result.observations
    assert ("HISTORY_RESET", False) == (reported.code.value, reported.is_undecided)
    assert f"3 executed GTIDs ({UUID_A}:1-3" in observation_text(reported)


@pytest.mark.parametrize("seconds", [4.0, 9.0, 12.0])
def test_what_is_never_executed_is_found_however_often_rows_come(seconds: float) -> None:
    """Rows between the first that lacks it and the one at which it is due forget nothing."""
    journal = source(5, binlog_order_commits=False)
    begun = journal.ts
    found: list[tuple[bool, list[str]]] = []
    for _ in range(5):
        local(journal.row())["gtid_executed"] = f"{UUID_A}:1-3:5"
        found.append((journal.ts - begun > 10_000_000, audit(journal).broken))
        journal.wait(seconds)
    rule = "logged_eventually_executed"
    assert [broken.count(rule) for _, broken in found] == [int(is_due) for is_due, _ in found]


def test_what_is_never_executed_is_found_once():
    """And not again at each row that lacks it."""
    journal = source(5, binlog_order_commits=False)
    for _ in range(6):
        local(journal.row())["gtid_executed"] = f"{UUID_A}:1-3:5"
        journal.wait(4)
    assert ["logged_eventually_executed"] == [one.rule for one in audit(journal).findings]


def test_what_is_executed_at_the_next_row_was_under_way():
    """However much later that row comes."""
    journal = source(5)
    local(journal.row())["gtid_executed"] = f"{UUID_A}:1-3"
    journal.wait(20).row()
    result = audit(journal)
    assert ([], ["CONSISTENT"] * 2) == (result.broken, result.verdicts)
    assert "logged_eventually_executed" not in result.undecided()


def test_without_gtid_purged_what_is_all_logged_is_known_to_be():
    """Only what is in no file may be purged."""
    journal = source()
    del journal.row()["gtid_purged"]
    assert "executed_within_logged" not in audit(journal).undecided()


def test_what_set_gtid_purged_added_needs_no_reading_of_gtid_purged():
    """It is in no file, and has not come from nowhere."""
    journal = source()
    journal.row()
    journal.record("gtid_purged", added=f"{UUID_C}:1")
    journal.executed.add(f"{UUID_C}:1")
    del journal.row()["gtid_purged"]
    assert [] == audit(journal).broken


def test_a_finding_of_a_row_says_both_halves_and_where():
    """Two accounts, where each stands, and the one GTID to look for."""
    journal = source()
    local(journal.row())["gtid_executed"] = f"{UUID_A}:1-4"
    [finding] = audit(journal).findings
    assert (f"{UUID_A}:1-4", "gtid_executed of log_status") == (
        explain(finding).observed,
        explain(finding).observed_in,
    )
    assert (f"{UUID_A}:1-3", "binary log up to binlog.000001:1057") == (
        explain(finding).expected,
        explain(finding).expected_in,
    )
    assert (f"{UUID_A}:4", "c1", "c1") == (finding.witness, finding.at, finding.collection_id)
    assert f"{UUID_A}:4 is executed, but neither logged up to binlog.000001:1057" in (
        explain(finding).sentence
    )
    assert ("a", None, journal.records[-1]["ts"], len(journal.records) - 1) == (
        finding.instance_id,
        finding.channel,
        finding.ts,
        finding.sequence,
    )


def test_a_finding_of_many_gtids_is_at_the_first_three():
    """Its witness has all of them."""
    found = head_is_purged(GtidSet.parse(f"{UUID_A}:1-9"), GtidSet.EMPTY)
    assert isinstance(found, Broken)
    assert found.at == f"{UUID_A}:1-3"
    assert found.witness == f"{UUID_A}:1-9"


def test_a_finding_of_an_event_names_file_and_offset():
    """What an operator seeks with mysqlbinlog."""
    journal = source()
    journal.records[-2]["log_pos"] += 19
    [finding] = audit(journal).findings
    at = journal.records[-2]["start"]
    assert (f"binlog.000001:{at}", None) == (finding.at, finding.collection_id)
    assert f"ends at {at + 65}, but its header says {at + 84}" in explain(finding).sentence


def test_a_finding_of_a_channel_names_it():
    """Which of several channels it is."""
    journal, relay, _ = replica()
    east = journal.relay("east", "relay-east")
    east.connect()
    assert relay.end
    row = journal.row()
    row["row"]["REPLICATION"]["channels"][1]["relay_log_position"] = east.end - 1
    [finding] = audit(journal).findings
    assert ("relay_position_on_written_boundary", "east") == (finding.rule, finding.channel)


def test_a_value_that_failed_bounds_nothing_later():
    """A wrong set is reported once, and the next right one is not held against it."""
    journal = source()
    journal.row()
    local(journal.row())["gtid_executed"] = f"{UUID_A}:1-90"
    innodb(journal.row())["LSN"] += 0
    journal.groups(1).row()
    result = audit(journal)
    assert ["executed_within_logged"] == [f.rule for f in result.findings]
    assert ["CONSISTENT", "INCONSISTENT", "CONSISTENT", "CONSISTENT"] == result.verdicts


@pytest.mark.parametrize(("end", "is_ambiguous"), [(500, False), (501, True)])
def test_one_transaction_received_by_two_names_of_its_position(end: int, is_ambiguous: bool):
    """Positions modulo 2^32 may be one; other positions are two transactions of one moment."""
    applied = AppliedGroups()
    for position in (WRAP + 500, end):
        body = {"channel": "", "source_base_name": "binlog", "source_file_number": 1}
        one = {"sid": -1, "type": 16, "server_id": 3, "commit_ts": 7, "source_end": position}
        arrays = {f"group_{name}": np.array([value]) for name, value in one.items()}
        applied.learn([FleetEvent(FleetEventKind.RECEIVED, "r", 0, 0, 0, body, arrays)], 2)
    [received] = applied.received.values()
    assert received.is_ambiguous == is_ambiguous


def test_what_a_reset_made_a_replica_forget_was_executed():
    """RESET BINARY LOGS AND GTIDS while its channel runs: nobody may say that it was not."""
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status())
    apply(journal, relay, more[0])
    journal.record("binlog_reset")
    journal.used, journal.executed, journal.binlog.gtids = Gtids(), Gtids(), Gtids()
    journal.binlog.open(1)
    journal.row(replica_status=journal.replica_status())
    (finding,) = audit(journal).findings
    assert explain(finding).sentence == (
        f"The applier has passed {UUID_C}:1-4 in the relay log, but neither gtid_executed nor the"
        " binary log has them."
    )
    assert "asking again would repeat it" in RULES[finding.rule].remedy


@pytest.mark.parametrize(
    ("executed", "is_broken"),
    [(f"{UUID_B}:90,\n{UUID_C}:1-4", True), (f"{UUID_C}:1-4", False)],
)
def test_a_replica_that_does_not_log_what_it_applies_logs_what_it_writes(executed, is_broken):
    """GTIDs of its own server_uuid are in its binary log; those of its source need not be."""
    journal, relay, more = replica(log_replica_updates=False)
    relay.copy(more[0])
    local(journal.row(replica_status=journal.replica_status()))["gtid_executed"] = executed
    rules = [one.rule for one in audit(journal).findings]
    assert rules == (["executed_within_logged"] if is_broken else [])


def test_a_relay_coordinate_that_has_fallen_is_not_held_against_slave_master_info_as_well():
    """One cause is one finding: that it fell shows which of the two is wrong."""
    journal, relay, more = replica(sync_source_info=1)
    flushed = relay.coordinates
    relay.copy(more[0])
    store(journal, relay)
    journal.row()
    relay.flushed = flushed
    journal.row()
    result = audit(journal)
    assert [one.rule for one in result.findings] == ["channel_positions_monotone"]


def test_a_pair_is_undecided_for_want_of_the_relay_log_and_not_of_its_past():
    """Its files are not read at all; nothing of them was forgotten."""
    journal, _, _ = replica(1)
    journal.row(replica_status=journal.replica_status())
    result = audit([one for one in journal.records if one["kind"] != "relay"])
    why = result.undecided("channel")["applied_coordinates_paired"]
    assert why == "no event of the channel's relay log was seen"


def test_an_executed_coordinate_that_stays_back_has_fallen_once():
    """The relay log's coordinate, which has not, does not hide it."""
    journal, relay, more = replica()
    before = journal.replica_status()
    apply(journal, relay, more[0])
    journal.row(replica_status=journal.replica_status())
    for _ in range(2):
        journal.row(replica_status=before)
    found = [one.collection_id for one in audit(journal).findings if "monotone" in one.rule]
    assert found == ["c2"]


@pytest.mark.parametrize(
    ("between", "is_broken"),
    [("nothing", True), ("no status", True), ("status", False), ("status, and listed", False)],
)
def test_a_channel_that_a_status_lacked_is_another_one_when_it_is_there_again(between, is_broken):
    """Then it had been removed, and the row from before was right not to list it."""
    journal, _, _ = replica()
    leave_out_channel(journal)
    if between != "nothing":
        row = journal.row(**{} if between == "no status" else {"replica_status": []})
        if between != "status, and listed":
            row["row"]["REPLICATION"]["channels"] = []
    journal.row(replica_status=journal.replica_status())
    broken = audit(journal).broken
    assert ("configured_channels_listed" in broken) == is_broken


@pytest.mark.parametrize(("in_table", "is_broken"), [("1-3", False), ("1-4", True)])
def test_what_is_logged_may_be_in_the_table_before_it_is_executed(in_table: str, is_broken: bool):
    """It was committed with its group; of what is in no log nobody has seen that."""
    journal = source(3)
    row = journal.row(gtid_executed_table=f"{UUID_A}:{in_table}", gtid_owned="", prepared_xa="")
    local(row)["gtid_executed"] = f"{UUID_A}:1-2"
    result = audit(journal)
    assert ("gtid_table_within_executed" in result.broken) == is_broken
    assert "gtid_table_within_executed" not in result.undecided()


@pytest.mark.parametrize("rotates", [False, True])
@pytest.mark.parametrize(
    ("by_set", "whole", "more", "events"),
    [
        (False, 1, 0, 5),
        (False, 1, 2, 5),
        (False, 0, 2, None),
        (False, 2, 1, 10),
        (True, 1, 2, 7),
        (True, 0, 2, 2),
    ],
)
def test_by_position_a_receiver_stores_at_the_end_of_a_group(by_set, whole, more, events, rotates):
    """So only whole groups count as not stored; by GTID set each event does.

    In whichever file of the relay log: its own events count as nothing.
    """
    journal, relay, groups = replica(sync_source_info=1)
    [channel] = [record for record in journal.records if record["kind"] == "channel"]
    channel["auto_position"] = by_set
    store(journal, relay)
    for group in groups[:whole]:
        relay.copy(group)
    if more:
        relay.copy(groups[whole][:more])
    if rotates:
        relay.rotate()
    journal.row()
    found = [one.data["events"] for one in audit(journal).findings]
    assert found == ([] if events is None else [events])


@pytest.mark.parametrize(("stored", "is_broken"), [(0, False), (1, True), (2, True)])
def test_an_event_that_is_stored_is_flushed(stored: int, is_broken: bool):
    """The first after the flushed coordinate is lost as soon as its end is stored."""
    journal, relay, more = replica(sync_source_info=100)
    flushed, at = relay.coordinates, relay.source
    relay.copy(more[0])
    if stored:
        relay.source = "binlog.000001", more[0][stored - 1]["log_pos"]
    else:
        relay.source = at
    store(journal, relay)
    relay.flushed = flushed
    journal.row()
    lost = [str(one.data["lost"]) for one in audit(journal).findings]
    assert lost == [f"binlog.000001:{more[0][0]['log_pos']}"] * is_broken


@pytest.mark.parametrize("before", ["mine", "anonymous", "nothing"])
def test_what_no_xid_ends_is_executed_by_the_row_after_the_one_that_passed_it(before: str):
    """On a replica that does not log what it applies; a group without a GTID is none of those."""
    source = Journal("s", UUID_C, 3).begin()
    if before != "nothing":
        source.binlog.group(None if before == "anonymous" else "", "myisam")
    source.binlog.group(f"{UUID_C}:9", "myisam")
    journal = Journal("a", UUID_B, 2, log_replica_updates=False).begin()
    journal.record("channel", channel="", action="change_source", source_uuid=UUID_C)
    relay = journal.relay()
    relay.connect()
    witnesses = [None, f"{UUID_C}:1"] if before == "mine" else [None, None]
    for group in source.binlog.groups:
        relay.copy(group)
        journal.row(replica_status=journal.replica_status())
    if before == "nothing":
        journal.row(replica_status=journal.replica_status())
        witnesses = [None, f"{UUID_C}:9"]
    rule = "applied_relay_gtids_executed"
    result = audit(journal)
    found = {one.collection_id: one.witness for one in result.findings if one.rule == rule}
    assert found == {f"c{n + 1}": one for n, one in enumerate(witnesses) if one is not None}


@pytest.mark.parametrize("is_remembered", [True, False])
@pytest.mark.parametrize(
    ("form", "falls", "expected"),
    [
        ("rows", False, "too_old"),
        # No XID ends a group after what is stored: nothing had to move it.
        ("myisam", False, "holds"),
        # The applier is further back than at the row before, which shows nothing of it then.
        ("rows", True, "stored_may_be_old"),
    ],
)
def test_what_the_row_before_had_applied_is_stored(
    monkeypatch: pytest.MonkeyPatch, form: str, falls: bool, expected: str, *, is_remembered: bool
):
    """Where a commit lies between; and where the groups in between are known."""
    if not is_remembered:
        monkeypatch.setattr(group_queue, "KEPT_BEHIND", 0)
        monkeypatch.setattr(group_queue, "PACKED_GROUPS", 2)
    journal = Journal("a", UUID_B, 2, replica_parallel_workers=0).begin()
    journal.record("channel", channel="", action="change_source", source_uuid=UUID_C)
    relay = journal.relay()
    relay.connect()
    origin = Journal("s", UUID_C, 3).begin().groups(12, form).binlog.groups
    at: list[Record] = []
    for number, group in enumerate(origin, 1):
        apply(journal, relay, group)
        at += relay_info(relay)
        if number not in (6, 12):
            continue
        stored = at[0] if number == 12 else at[-1]
        applied = {}
        if falls and number == 12:
            shown = at[1]["Relay_log_pos"], at[1]["Master_log_pos"]
            applied = dict(zip(("Relay_Log_Pos", "Exec_Source_Log_Pos"), shown, strict=True))
        status = journal.replica_status(**applied)
        journal.row(replica_status=status, slave_relay_log_info=[stored])
    result = audit(journal)
    rule = "relay_info_updated_with_commit"
    found = [one.case for one in result.findings if one.rule == rule]
    last = [cut for cut in result.cuts if cut.scope == "channel"][-1]
    reasons = [check.reason for check in last.undecided if check.rule == rule]
    if not (is_remembered or falls):
        expected = "commits_forgotten"
    assert [expected] == (found or reasons or ["holds"])


@pytest.mark.parametrize(
    ("form", "stored", "left_out", "expected"),
    [
        ("rows", (0, 3), "nothing", ["stored_may_be_old", "holds"]),
        ("rows", (0, 0), "nothing", ["stored_may_be_old", "too_old"]),
        ("rows", (2, 5), "nothing", ["holds", "holds"]),
        # No XID ends a group between: nothing had to move it.
        ("myisam", (0, 0), "nothing", ["holds", "holds"]),
        ("rows", (0, 3), "relay", ["no_relay", "holds"]),
        ("rows", (0, 0), "relay", ["no_relay", "no_relay"]),
        ("rows", (2, 0), "gap 39", ["holds", "stored_may_be_old"]),
    ],
)
def test_what_is_stored_holds_where_something_shows_what_was_committed(
    form: str, stored: tuple[int, int], left_out: str, expected: list[str]
):
    """Of the first row, and of the second: without gtid_executed_first only a row before does."""
    journal = Journal("a", UUID_B, 2, replica_parallel_workers=0).begin()
    journal.record("channel", channel="", action="change_source", source_uuid=UUID_C)
    relay = journal.relay()
    relay.connect()
    at: list[Record] = []
    for number, group in enumerate(Journal("s", UUID_C, 3).begin().groups(6, form).binlog.groups):
        apply(journal, relay, group)
        at += relay_info(relay)
        if number in (2, 5):
            shown = [at[stored[number == 5]]]
            journal.row(replica_status=journal.replica_status(), slave_relay_log_info=shown)
    result = audit(reduced(journal.records, left_out))
    rule = "relay_info_updated_with_commit"
    found = {one.collection_id: one.case for one in result.findings if one.rule == rule}
    answers = [
        found.get(cut.collection_id)
        or next((check.reason for check in cut.undecided if check.rule == rule), "holds")
        for cut in result.cuts
        if cut.scope == "channel"
    ]
    assert expected == answers


@pytest.mark.parametrize(
    ("logged", "expected"),
    [((1, 2, 3), "too_old"), ((1, 2), "too_old"), ((1,), "commits_not_logged")],
)
def test_what_was_passed_by_count_is_not_stored(logged: tuple[int, ...], expected: str):
    """sql_replica_skip_counter without GTIDs: the row stays at the last group executed."""
    origin = Journal("s", UUID_C, 3).begin()
    for _ in range(3):
        origin.wait(1)
        origin.binlog.group(None)
    variables = {"gtid_mode": "OFF", "replica_parallel_workers": 0}
    journal = Journal("a", UUID_B, 2, **variables).begin()
    journal.record("channel", channel="", action="change_source", source_uuid=UUID_C)
    relay = journal.relay()
    relay.connect()
    for number, group in enumerate(origin.binlog.groups, 1):
        relay.copy(group)
        if number in logged:
            times = {"original_commit_timestamp": group[0]["original_commit_timestamp"]}
            journal.binlog.group(None, server_id=3, **times)
        if number == 1:
            stored = relay_info(relay)
            journal.row(replica_status=journal.replica_status(), slave_relay_log_info=stored)
    for _ in range(2):
        journal.row(replica_status=journal.replica_status(), slave_relay_log_info=stored)
    result = audit(journal)
    rule = "relay_info_updated_with_commit"
    found = [one.case for one in result.findings if one.rule == rule]
    last = [cut for cut in result.cuts if cut.scope == "channel"][-1]
    assert [expected] == (found or [one.reason for one in last.undecided if one.rule == rule])


@pytest.mark.parametrize(
    ("executed", "broken"), [("1-2", "executed_monotone"), ("1-3", "commit_lag_bounded")]
)
def test_a_set_that_falls_lags_by_that_alone(executed: str, broken: str):
    """WL#9452 reads position and set at one instant, and has nothing between them."""
    journal = source(3, profile="wl9452")
    journal.row()
    if executed == "1-3":
        journal.groups(1)
    local(journal.row())["gtid_executed"] = f"{UUID_A}:{executed}"
    assert audit(journal).broken == [broken]


def test_commits_that_stand_still_from_the_first_group_on_have_lost_none():
    """Nothing after them is executed: they may all be on their way still."""
    journal = source(3)
    for _ in range(2):
        local(journal.row())["gtid_executed"] = ""
        journal.wait(10)
    result = audit(journal)
    assert "logged_eventually_executed" not in result.broken
    reasons = {check.rule: check.reason for check in result.cuts[-1].checks}
    assert reasons["logged_eventually_executed"] == "commits_stall"


@pytest.mark.parametrize(("wait_us", "is_broken"), [(9_000_000, True), (10_000_000, False)])
def test_a_retry_that_does_not_name_its_round_is_timed_too(wait_us, is_broken):
    """It is one by its name."""
    journal = engine_locks(
        ("begin", 1_000, {"round": 1}),
        ("timeout", 2_000_000, {"engine": "innodb"}),
        ("unlock_all", 1_000, {}),
        ("retry", wait_us, {}),
    )
    cases = [finding.case for finding in audit(journal).findings]
    assert cases == (["retry_too_early"] if is_broken else [])


@pytest.mark.parametrize("between", ["gap", "gap of the channel", "reset", "nothing"])
def test_what_a_relay_log_was_is_not_held_against_a_pair_of_another(between: str) -> None:
    """RESET REPLICA, which a gap may hide, begins another relay log with the same file names."""
    journal, _, _ = replica()
    journal.row(replica_status=journal.replica_status())
    if between == "gap":
        journal.record("gap")
    elif between == "gap of the channel":
        journal.record("gap", channel="")
    elif between == "reset":
        journal.record("channel", channel="", action="reset")
    journal.row(replica_status=journal.replica_status(Exec_Source_Log_Pos=700))
    broken = audit(journal).broken
    assert ("applied_coordinates_paired" in broken) == (between == "nothing")


@pytest.mark.parametrize(
    ("column", "rules"),
    [
        ("Relay_Log_File", ["applied_coordinates_paired", "applied_within_flushed"]),
        ("Relay_Source_Log_File", ["applied_coordinates_paired", "exec_source_pos_within_read"]),
        ("Source_Log_File", ["exec_source_pos_within_read"]),
    ],
)
def test_what_a_status_lacks_leaves_its_rules_undecided(column: str, rules: list[str]) -> None:
    journal, _, _ = replica()
    [status] = journal.replica_status()
    del status[column]
    journal.row(replica_status=[status])
    result = audit(journal)
    assert result.broken == []
    undecided = result.undecided("channel")
    assert [rule for rule in rules if "was not read" in undecided.get(rule, "")] == rules


def test_what_was_not_read_is_asked_for_where_it_decides():
    """What is executed and logged needs no purge to explain it."""
    journal = source()
    del journal.row()["gtid_purged"]
    assert "executed_within_logged" not in audit(journal).undecided("instance")


def test_a_channel_that_has_no_relay_log_yet_has_no_position_in_one():
    """The two are compared where there are two."""
    journal = Journal("a", UUID_B, 2).begin()
    journal.row(replica_status=[])["row"]["REPLICATION"]["channels"] = [
        {"channel_name": "", "relay_log_file": "", "relay_log_position": 0}
    ]
    result = audit(journal)
    assert result.broken == []
    assert "relay_position_matches_master_info" not in result.undecided("channel")


@pytest.mark.parametrize(
    ("wrong", "broken"),
    [
        ("before what is stored", "relay_position_matches_master_info"),
        ("inside an event", "relay_position_on_written_boundary"),
        ("fallen", "channel_positions_monotone"),
        ("before what is applied", "applied_within_flushed"),
    ],
)
def test_a_flushed_coordinate_that_is_wrong_itself_is_found_once(wrong: str, broken: str):
    """It is held against slave_master_info only where it could be right."""
    journal, relay, more = replica(sync_source_info=1)
    flushed = relay.coordinates
    if wrong == "fallen":
        apply(journal, relay, more[0])
        store(journal, relay)
        journal.row()
    apply(journal, relay, more[1 if wrong == "fallen" else 0])
    store(journal, relay)
    relay.flushed = flushed
    is_applied = wrong == "before what is applied"
    row = journal.row(replica_status=journal.replica_status() if is_applied else None)
    if wrong == "inside an event":
        row["row"]["REPLICATION"]["channels"][0]["relay_log_position"] -= 1
    assert audit(journal).broken == [broken]


@pytest.mark.parametrize(
    ("variables", "is_known"),
    [({"sync_source_info": 2}, False), ({"sync_source_info": 1}, True), ({"sync_binlog": 1}, True)],
)
def test_another_sync_source_info_leaves_open_what_is_stored(
    variables: dict[str, int], is_known: bool
):
    """When the receiver writes the next time is not known until it has."""
    journal, relay, more = replica(sync_source_info=1)
    store(journal, relay)
    journal.record("variables", variables=variables)
    relay.copy(more[0])
    journal.row()
    rule = "relay_position_matches_master_info"
    result = audit(journal)
    assert result.broken == [rule] * is_known
    assert (rule in result.undecided("channel")) is not is_known


@pytest.mark.parametrize("happens", ["reset", "another server", "gtid_purged"])
def test_a_row_beyond_the_log_is_judged_by_what_was_recorded_before_it(happens: str):
    """What comes after it in the journal was not yet so."""
    journal = source()
    journal.row()
    local(journal.row())["binary_log_position"] += 300
    if happens == "reset":
        journal.record("binlog_reset")
        journal.binlog.open(1, previous="")
    elif happens == "another server":
        journal.start(server_uuid=UUID_C)
    else:
        journal.record("gtid_purged", added=f"{UUID_C}:1")
    assert audit(journal).broken == ["snapshot_position_within_file"]
