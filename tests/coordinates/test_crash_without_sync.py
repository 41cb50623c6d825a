"""Crashes of servers with sync_binlog or innodb_flush_log_at_trx_commit other than 1."""

from __future__ import annotations

import pytest

from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.events.journal import cut_into_blocks
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import Verdict
from tallystick.coordinates.rules.explanation import explain, observation_text
from tests.support.journals import UUID_A, Journal
from tests.support.rule_cases_of_redo_log import LSN, redo

LOST = f"{UUID_A}:3"


def replayed(journal: Journal) -> AuditResult:
    return audit_history(blocks_from_lines(journal.lines(), end_heartbeats=True))


def without_its_end(*, is_shown: bool = True) -> tuple[Journal, int]:
    """A crash took the last group out of the binary log; gives its commit time, too."""
    journal = Journal(sync_binlog=0).begin().groups(2)
    file, end = journal.binlog.coordinates
    [lost] = journal.groups(1).binlog.groups[2:]
    if is_shown:
        journal.row(gtid_owned="")
    journal.start(crashed=True, recovered={"file": file, "position": end})
    for gtids in (journal.executed, journal.used, journal.binlog.gtids):
        gtids.remove(LOST)
    journal.binlog.open(2)
    return journal, lost[0]["original_commit_timestamp"]


def test_a_number_that_was_executed_is_given_out_again():
    """Before any row could show that it was executed no more."""
    journal, _ = without_its_end()
    journal.groups(1).row(gtid_owned="")
    result = replayed(journal)
    [finding] = result.findings
    assert (finding.rule, finding.case) == ("gtid_origin_agreement", "given_out_again")
    said = explain(finding)
    assert f"{LOST} was a transaction that a row of instance a showed as executed" in said.sentence
    journal.groups(1).row(gtid_owned="")
    assert len(replayed(journal).findings) == 1


def test_without_commit_times_it_is_in_doubt_what_is_given_out_again():
    """As in all of MySQL 5.7: it may be the same transaction."""
    journal, _ = without_its_end()
    journal.groups(1).row(gtid_owned="")
    for record in journal.records:
        record.pop("original_commit_timestamp", None)
    result = replayed(journal)
    assert result.verdict is Verdict.UNDECIDED
    assert not result.findings
    [doubt] = [seen for seen in result.observations if seen.is_undecided]
    assert f"{LOST} was written twice" in observation_text(doubt)


def test_the_same_transaction_may_be_executed_again():
    """As from a copy of the binary log: it is what it was."""
    journal, commit_ts = without_its_end()
    journal.binlog.group(original_commit_timestamp=commit_ts)
    journal.row(gtid_owned="")
    assert not replayed(journal).findings


@pytest.mark.parametrize("since", ["nothing", "reset", "gap", "restored"])
def test_what_nobody_was_shown_and_what_began_anew_may_have_its_number_again(since):
    """A RESET may be hidden in a gap."""
    journal, _ = without_its_end(is_shown=since != "nothing")
    if since == "reset":
        journal.record("binlog_reset")
    elif since == "gap":
        journal.record("gap")
    elif since == "restored":
        journal.start(data_lineage="restored")
    if since in ("reset", "restored"):
        for gtids in (journal.executed, journal.used, journal.binlog.gtids):
            gtids.numbers.clear()
        journal.binlog.open(1)
    journal.groups(3).row(gtid_owned="")
    assert not replayed(journal).findings


def logging_without_flush(policy: int, *, is_observed: bool, **variables: object) -> Journal:
    """A server whose last group is committed, and in the log buffer or a cache."""
    journal = Journal(innodb_flush_log_at_trx_commit=policy, **variables).begin()
    if is_observed:
        redo(journal, "WRITE", LSN, start_lsn=LSN - 1024)
        redo(journal, "FLUSH", LSN)
        redo(journal, "CHECKPOINT", LSN)
    journal.groups(1)
    if is_observed:
        if policy == 2:
            redo(journal, "WRITE", LSN + 1024, start_lsn=LSN)
        redo(journal, "COMMIT", LSN + 1024)
    return journal


def crash(journal: Journal, **started: object) -> None:
    """The binary log is whole, as with sync_binlog=1."""
    file, end = journal.binlog.coordinates
    journal.start(crashed=True, recovered={"file": file, "position": end}, **started)
    journal.binlog.open(2)


def row_at(journal: Journal, lsn: int) -> dict[str, dict[str, object]]:
    row: dict[str, dict[str, object]] = journal.row(gtid_owned="")["row"]
    row["STORAGE_ENGINES"]["InnoDB"] = {"LSN": lsn, "LSN_checkpoint": LSN}
    return row


@pytest.mark.parametrize("policy", [0, 2])
@pytest.mark.parametrize("goes_on_at", [LSN, LSN + 1024])
def test_commits_that_had_returned_may_be_gone_from_innodb(policy, goes_on_at):
    """The binary log and gtid_executed count them all the same."""
    journal = logging_without_flush(policy, is_observed=True)
    row_at(journal, LSN + 1024)
    crash(journal)
    redo(journal, "WRITE", LSN + 2048, start_lsn=goes_on_at)
    row_at(journal, LSN + 2048)
    result = replayed(journal)
    assert not result.observations
    found = [(finding.rule, finding.case) for finding in result.findings]
    lost = [("flushed_redo_survives_start", "commits_lost_at_start")]
    assert found == (lost if goes_on_at == LSN else [])


@pytest.mark.parametrize(
    ("variables", "reasons"),
    [
        ({}, []),
        ({"sync_binlog": 0}, ["commits_in_doubt"]),
        ({"log_replica_updates": False}, ["commits_behind_lsn"]),
    ],
)
def test_what_the_binary_log_has_lost_too_or_never_had_is_in_doubt(variables, reasons):
    """All of the server may agree then, and it fetches again what is gone."""
    journal = logging_without_flush(0, is_observed=True, **variables)
    row_at(journal, LSN + 1024)
    file, end = journal.binlog.coordinates
    if "sync_binlog" in variables:
        journal.groups(1)
        redo(journal, "COMMIT", LSN + 2048)
    journal.start(crashed=True, recovered={"file": file, "position": end})
    if "sync_binlog" in variables:
        for gtids in (journal.executed, journal.used, journal.binlog.gtids):
            gtids.remove(f"{UUID_A}:2")
    journal.binlog.open(2)
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN)
    row_at(journal, LSN + 512)
    result = replayed(journal)
    assert bool(result.findings) is (not variables)
    assert [seen.reason for seen in result.observations if seen.is_undecided] == reasons


@pytest.mark.parametrize("goes_on_at", [LSN - 512, LSN, LSN + 1024, LSN + 2048])
@pytest.mark.parametrize("repeats", [0, 64])
@pytest.mark.parametrize("size", [3, 512])
def test_a_commit_without_a_group_may_not_be_in_the_binary_log(goes_on_at, repeats, size):
    """As with sql_log_bin=0: nobody counts it, and InnoDB has what is counted."""
    journal = logging_without_flush(0, is_observed=True)
    for lsn in (*[LSN + 1024] * repeats, LSN + 2048):
        redo(journal, "COMMIT", lsn)
    row_at(journal, LSN + 2048)
    crash(journal)
    redo(journal, "WRITE", LSN + 4096, start_lsn=goes_on_at)
    row_at(journal, LSN + 4096)
    blocks = blocks_from_lines(journal.lines(), end_heartbeats=True)
    result = audit_history(cut for block in blocks for cut in cut_into_blocks(block, size))
    found = [(finding.rule, finding.case) for finding in result.findings]
    lost = {LSN - 512: ["redo_lost_at_start"], LSN: ["commits_lost_at_start"]}
    assert found == [("flushed_redo_survives_start", case) for case in lost.get(goes_on_at, [])]
    reasons = [seen.reason for seen in result.observations if seen.is_undecided]
    assert reasons == ["commits_unlogged"] * (goes_on_at == LSN + 1024)


@pytest.mark.parametrize("size", [3, 16, 512])
def test_of_many_commits_each_has_its_group(size):
    """Also those that are taken as whole columns."""
    journal = logging_without_flush(0, is_observed=True)
    for number in range(40):
        journal.groups(1)
        redo(journal, "COMMIT", LSN + 1024 + 512 * number)
    crash(journal)
    redo(journal, "WRITE", LSN + 65_536, start_lsn=LSN + 1024 + 512 * 38)
    row_at(journal, LSN + 65_536)
    blocks = blocks_from_lines(journal.lines(), end_heartbeats=True)
    result = audit_history(cut for block in blocks for cut in cut_into_blocks(block, size))
    found = [(finding.rule, finding.case) for finding in result.findings]
    assert found == [("flushed_redo_survives_start", "commits_lost_at_start")]


def test_without_a_binary_log_what_innodb_has_lost_nobody_counts():
    """Its GTIDs were in the same transactions."""
    journal = Journal(innodb_flush_log_at_trx_commit=0, log_bin=False)
    for lsn in (LSN + 1024, LSN + 512):
        journal.start(crashed=True)
        row = row_at(journal, lsn)
        row["LOCAL"] = {"gtid_executed": ""}
    result = replayed(journal)
    assert not result.findings
    assert not [seen.reason for seen in result.observations if seen.is_undecided]


@pytest.mark.parametrize("policy", [0, 1, 2])
@pytest.mark.parametrize("is_shown", [True, False])
@pytest.mark.parametrize("lsn", [LSN + 512, LSN + 1024])
def test_without_redo_events_a_crash_leaves_the_last_commits_in_doubt(policy, is_shown, lsn):
    """Unless a row had shown them, and the LSN has not fallen."""
    journal = logging_without_flush(policy, is_observed=False)
    if is_shown:
        row_at(journal, LSN + 1024)
    crash(journal)
    row_at(journal, lsn)
    result = replayed(journal)
    assert not result.findings
    reasons = [seen.reason for seen in result.observations if seen.is_undecided]
    if policy == 1:
        assert reasons == []
    elif is_shown:
        assert reasons == ["commits_behind_lsn"] * (lsn < LSN + 1024)
    else:
        assert reasons == ["commits_in_doubt"]


@pytest.mark.parametrize("settings", [{"innodb_flush_log_at_trx_commit": 1}, {}])
@pytest.mark.parametrize("lsn", [LSN + 512, LSN + 1536])
def test_what_was_logged_behind_a_row_keeps_the_redo_before_it(settings, lsn):
    """The redo log is flushed first: where it ends before, InnoDB's files are older than the log.

    As after a start from snapshots of two volumes, or of two moments.
    """
    journal = Journal(**settings).begin()
    row_at(journal, LSN + 1024)
    journal.groups(1)
    crash(journal)
    row_at(journal, lsn)
    result = replayed(journal)
    has_fallen = lsn < LSN + 1024
    found = [(finding.rule, finding.case) for finding in result.findings]
    assert found == [("lsn_monotone", "fell")] * (has_fallen and bool(settings))
    reasons = [seen.reason for seen in result.observations if seen.is_undecided]
    assert reasons == ["commits_behind_lsn"] * (has_fallen and not settings)


@pytest.mark.parametrize("lsn", [LSN + 512, LSN + 1536])
def test_behind_the_last_row_nothing_need_be_logged(lsn):
    """The redo of what it shows may have been in memory, but for that before its groups."""
    journal = Journal(innodb_flush_log_at_trx_commit=1).begin()
    row_at(journal, LSN + 1024)
    journal.groups(1)
    row_at(journal, LSN + 2048)
    crash(journal)
    row_at(journal, lsn)
    found = [(finding.rule, finding.case) for finding in replayed(journal).findings]
    assert found == [("lsn_monotone", "fell")] * (lsn < LSN + 1024)


@pytest.mark.parametrize(("old", "new"), [(2, 1), (1, 2)])
def test_what_was_logged_under_another_setting_keeps_nothing(old, new):
    journal = Journal(innodb_flush_log_at_trx_commit=old).begin()
    row_at(journal, LSN + 1024)
    journal.groups(1)
    journal.record("variables", variables={"innodb_flush_log_at_trx_commit": new})
    crash(journal)
    row_at(journal, LSN + 512)
    assert not replayed(journal).findings


@pytest.mark.parametrize(
    ("started", "reasons"), [({}, ["crashed_without_redo"]), ({"data_lineage": "restored"}, [])]
)
def test_a_crash_without_a_redo_log_is_not_recovered_from(started, reasons):
    """The server itself refuses to start then."""
    journal = logging_without_flush(1, is_observed=False)
    journal.record("variables", variables={"innodb_redo_log_enabled": False})
    journal.groups(1)
    row_at(journal, LSN + 1024)
    crash(journal, **started)
    result = replayed(journal)
    assert [seen.reason for seen in result.observations if seen.is_undecided] == reasons


@pytest.mark.parametrize("lsn", [LSN + 512, LSN + 1024])
def test_a_row_is_not_behind_a_commit_that_had_returned(lsn):
    """Though its redo is written nowhere yet."""
    journal = logging_without_flush(0, is_observed=True)
    row_at(journal, lsn)
    found = [(finding.rule, finding.case) for finding in replayed(journal).findings]
    assert found == [("row_lsn_at_its_instant", "below_commit")] * (lsn < LSN + 1024)


@pytest.mark.parametrize(("old", "new"), [(0, 1), (0, 2), (2, 1)])
def test_a_commit_that_began_before_the_setting_was_changed(old, new):
    """It returns as it was set then; what begins when that was written and flushed does not."""
    journal = logging_without_flush(old, is_observed=True)
    written = LSN + 1024 if old == 2 else LSN
    journal.record("variables", variables={"innodb_flush_log_at_trx_commit": new})
    redo(journal, "COMMIT", LSN + 1024)
    assert not replayed(journal).findings
    redo(journal, "WRITE", LSN + 2048, start_lsn=written)
    redo(journal, "FLUSH", LSN + 2048)
    redo(journal, "COMMIT", LSN + 2048)
    assert not replayed(journal).findings
    if new == 1:
        redo(journal, "WRITE", LSN + 3072, start_lsn=LSN + 2048)
    redo(journal, "COMMIT", LSN + 3072)
    assert [finding.rule for finding in replayed(journal).findings] == ["commit_redo_durable"]
