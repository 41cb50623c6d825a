"""Crashes of servers with sync_binlog or innodb_flush_log_at_trx_commit other than 1."""

from __future__ import annotations

import pytest

from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.rules.explanation import explain
from tests.support.journals import UUID_A, Journal

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
