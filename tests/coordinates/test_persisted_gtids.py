"""What the persister writes into mysql.gtid_executed, what is remembered of it, and purge."""

from __future__ import annotations

import pytest

from tallystick.coordinates.rules.gtid_table import INTERVALS_MAX, PersistedGtids
from tallystick.coordinates.values.gtid import GtidSet
from tests.support.journals import UUID_A, Journal, audit
from tests.support.rule_cases import source
from tests.support.rule_cases_of_gtid_persistence import persisted, timed


def gtids(text: str) -> GtidSet:
    return GtidSet.parse(f"{UUID_A}:{text}" if text else "")


@pytest.mark.parametrize(
    ("asked_at", "known"), [(None, ""), (20, ""), (21, "1-2"), (30, "1-2"), (31, "1-3")]
)
def test_what_is_in_the_table_of_a_row_was_written_before_it_was_asked_for(asked_at, known):
    table = PersistedGtids()
    for gno in (1, 2, 3):
        table.add(gtids(str(gno)), 10 * gno)
    assert gtids(known) == table.before(asked_at)


def test_by_another_clock_all_was_written_before_it_was_taken():
    table = PersistedGtids()
    table.add(gtids("1"), 500)
    table.time_anew(7)
    assert (gtids(""), gtids("1")) == (table.before(7), table.before(8))


def test_memory_stays_small_where_every_other_gtid_is_of_no_innodb_transaction():
    table = PersistedGtids()
    for count, gno in enumerate(range(1, 3 * INTERVALS_MAX, 2)):
        assert table.add(gtids(str(gno)), gno) is (count != INTERVALS_MAX + 1)
        assert table.all.count() <= INTERVALS_MAX + 1
    assert gtids(str(gno)) == table.all & gtids(str(gno))


@pytest.mark.parametrize("is_lost", [True, False])
def test_without_a_binary_log_a_crash_takes_nothing_out_of_it(is_lost):
    """So what the persister had written is to be found, though no end of a log is named."""
    journal = Journal(log_bin=False)
    journal.start()
    table = f"{UUID_A}:1{'' if is_lost else '-2'}"
    persisted(journal=journal).start(crashed=True, gtid_executed_table=table, undo_gtids="")
    found = [finding.case for finding in audit(journal).findings]
    assert found == (["gtids_not_recovered"] if is_lost else [])


@pytest.mark.parametrize("executed", ["1", "1-3"])
def test_what_a_row_does_not_name_as_executed_its_table_need_not_have(executed):
    """One cause is found once: that it is logged and not executed."""
    journal = persisted()
    table = {"gtid_executed_table": f"{UUID_A}:1", "gtid_owned": "", "prepared_xa": ""}
    for told in ({}, table):
        row = timed(journal.row(**told))
        row["row"]["LOCAL"]["gtid_executed"] = f"{UUID_A}:{executed}"
    is_found = "gtid_table_has_closed_files" in audit(journal).broken
    assert is_found is (executed == "1-3")


def test_a_persister_that_is_late_is_found_once_until_it_writes():
    journal = persisted()
    for gno in (3, 4):
        journal.record("gtid_persister", step="commit", trx_no=gno, gtid=f"{UUID_A}:{gno}")
        for _ in range(2):
            journal.wait(11).row()
        journal.record("gtid_persister", step="write", gtids=f"{UUID_A}:{gno}")
    found = [one.data["gtid"] for one in audit(journal).findings]
    assert found == [f"{UUID_A}:3", f"{UUID_A}:4"]


def test_a_gtid_that_was_left_out_may_be_in_the_next_write_and_not_in_the_one_after(monkeypatch):
    """The write that goes on when it was left out may not have had it yet."""
    monkeypatch.setattr("tallystick.coordinates.rules.gtid_persistence.PENDING_MAX", 1)
    journal = persisted()
    for gno in (3, 4):
        journal.record("gtid_persister", step="commit", trx_no=gno, gtid=f"{UUID_A}:{gno}")
    journal.row()
    for gtids in ("3", "4"):
        journal.record("gtid_persister", step="write", gtids=f"{UUID_A}:{gtids}")
        journal.row()
    said = [{one.reason for one in cut.undecided} for cut in audit(journal).cuts]
    assert ["steps_forgotten" in reasons for reasons in said] == [True, True, False]


def test_what_a_recovery_found_in_undo_logs_is_not_late():
    """What waits in undo logs is what it found there, up to the number that it read."""
    journal = persisted()
    journal.record("gtid_persister", step="commit", trx_no=3, gtid=f"{UUID_A}:3")
    journal.record("gtid_persister", step="recover", gtids=f"{UUID_A}:3", trx_num_gtid=3)
    assert [] == audit(journal).findings


@pytest.mark.parametrize("oldest", [3, 4])
def test_the_persister_writes_a_number_only_where_it_grows(oldest):
    """A transaction that goes on may hold it."""
    journal = persisted()
    for gno in (3, 4):
        journal.record("gtid_persister", step="commit", trx_no=gno + 2, gtid=f"{UUID_A}:{gno}")
        written = {"gtids": f"{UUID_A}:{gno}", "oldest_trx_no": oldest}
        journal.record("gtid_persister", step="write", **written)
    broken = audit(journal).broken
    assert broken == (["gtid_persister_steps_complete"] if oldest == 4 else [])


@pytest.mark.parametrize(
    ("number", "waiting", "found"),
    [
        (11, {"step": "commit", "trx_no": 12}, ["purge_did_not_ask"]),
        (11, {"step": "prepare"}, ["purge_did_not_ask"]),
        (11, {"step": "commit", "trx_no": 11}, ["purge_limit_passed"]),  # found once
        (None, {"step": "prepare"}, []),
    ],
)
def test_a_purge_goes_as_far_as_the_number_that_was_written(number, waiting, found):
    """What waits at its limit or beyond, or has no number yet, does not explain that."""
    journal = Journal().begin().groups(3)
    if number is not None:
        journal.record("gtid_persister", step="number", trx_num_gtid=number)
    journal.record("gtid_persister", gtid=f"{UUID_A}:1", **waiting)
    journal.record("gtid_persister", step="purge", trx_no=12)
    assert [finding.case for finding in audit(journal).findings] == found


@pytest.mark.parametrize("number", [None, 11, 12])
def test_a_purge_after_a_start_goes_as_far_as_the_number_that_it_read(number):
    journal = Journal().begin().groups(3)
    read = {} if number is None else {"trx_num_gtid": number}
    journal.record("gtid_persister", step="recover", gtids="", **read)
    journal.record("gtid_persister", step="purge", trx_no=12)
    found = [finding.case for finding in audit(journal).findings]
    assert found == ["purge_did_not_ask"] * (number == 11)


@pytest.mark.parametrize(("number", "found"), [(4, ["trx_num_gtid_fell"]), (6, [])])
def test_the_number_grows_from_the_one_that_a_start_has_read(number, found):
    """A crash may have taken back a higher one."""
    journal = persisted()
    for step, value in (("number", 9), ("recover", 5), ("number", number)):
        gtids = {"gtids": ""} if step == "recover" else {}
        journal.record("gtid_persister", step=step, trx_num_gtid=value, **gtids)
    assert [finding.case for finding in audit(journal).findings] == found


def test_redo_that_is_not_flushed_excuses_the_crash_of_its_own_boot_alone():
    setting = "innodb_flush_log_at_trx_commit"
    journal = persisted(journal=source(**{setting: 2}))
    for gno in (3, 4):
        journal.record("gtid_persister", step="commit", trx_no=gno, gtid=f"{UUID_A}:{gno}")
        end = {"file": journal.binlog.file, "position": journal.binlog.end}
        journal.variables = journal.variables | {setting: 1}
        journal.start(
            crashed=True, recovered=end, gtid_executed_table=f"{UUID_A}:1-2", undo_gtids=""
        )
        journal.binlog.open(gno)
        journal.groups(1)
    found = [finding.data["missing"] for finding in audit(journal).findings]
    assert found == [f"{UUID_A}:4"]


@pytest.mark.parametrize("step", ["commit", "prepare", "write"])
@pytest.mark.parametrize("is_followed", [True, False])
@pytest.mark.parametrize("logs_everything", [True, False])
def test_what_a_crash_may_have_taken_with_the_log_need_not_be_found(
    step, is_followed, logs_everything
):
    """A crash ends the log elsewhere than it was seen to end: its last groups are not known.

    Of a log that was seen as it is, or that lacks what is applied, everything has to be found.
    """
    journal = persisted(journal=source(log_replica_updates=logs_everything))
    first = {"step": "prepare"} if step == "prepare" else {"step": "commit", "trx_no": 4}
    journal.record("gtid_persister", gtid=f"{UUID_A}:4", **first)
    if step == "write":
        journal.record("gtid_persister", step=step, gtids=f"{UUID_A}:4", oldest_trx_no=5)
    position = journal.binlog.end + 300 * (not is_followed)
    journal.start(
        crashed=True,
        recovered={"file": "binlog.000001", "position": position},
        gtid_executed_table=f"{UUID_A}:1-2",
        undo_gtids="",
    )
    is_held = is_followed or not logs_everything
    assert ("undo_gtids_recovered" in audit(journal).broken) == is_held


@pytest.mark.parametrize(("step", "is_found"), [("recover", True), ("write", False)])
def test_what_a_start_recovers_is_in_the_next_row(step: str, is_found: bool) -> None:
    """What the persister writes may be of a group that is not visible yet."""
    journal = persisted()
    journal.row()
    journal.record("gtid_persister", step=step, gtids=f"{UUID_A}:9")
    journal.row()
    assert ("recovered_gtids_complete" in audit(journal).broken) is is_found
