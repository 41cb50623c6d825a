"""Numbers of binary log files that a server leaves out, as beside a stray file of a higher one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.replay import audit_history
from tallystick.producers.simulator.assemble import simulate
from tests.support.journals import Audited, Journal, audit
from tests.support.rule_cases import source
from tests.support.rule_cases_over_time import files


def rotated(*numbers: int) -> Journal:
    """A journal whose files have these numbers after the first."""
    journal = source()
    for number in numbers:
        journal.binlog.rotate(number)
        journal.groups(1)
    return journal


def reasons(result: Audited) -> set[str]:
    of_rows = {check.reason for cut in result.cuts for check in cut.undecided}
    return {"numbers_unseen", "numbers_left_out"} & (
        of_rows | {one.reason for one in result.observations if one.is_undecided}
    )


@pytest.mark.parametrize("listed", [(1, 5, 6), (5, 6), (1, 3, 5, 6)])
def test_what_rotate_names_follows(listed: tuple[int, ...]):
    """Whether or not the first is purged; a file that was never there may be put into the index."""
    journal = rotated(5, 6)
    if listed[0] != 1:
        journal.record("binlog_purge", to_file="binlog.000005")
    journal.row(binary_logs=files(*listed))
    result = audit(journal)
    assert result.broken == []
    assert reasons(result) == ({"numbers_unseen"} if 3 in listed else set())


@pytest.mark.parametrize(("oldest", "is_left_out"), [(998, False), (997, True)])
def test_files_of_before_the_journal_follow_by_their_numbers(oldest: int, is_left_out: bool):
    """No ROTATE in it names them."""
    journal = Journal()
    journal.start()
    journal.binlog.open(1000)
    journal.groups(1).row(binary_logs=files(oldest, 999, 1000))
    result = audit(journal)
    assert result.broken == []
    assert reasons(result) == ({"numbers_unseen"} if is_left_out else set())


def restarted(number: int, mode: str = "ON") -> Journal:
    """A journal whose server is started twice, and its last file has this number."""
    journal = Journal(gtid_mode=mode).begin()
    for opened in (2, number):
        journal.groups(1).binlog.stop()
        journal.record("stop")
        journal.start()
        journal.binlog.open(opened)
    journal.row(binary_logs=files(1, 2, number))
    journal.groups(1).row()
    return journal


@pytest.mark.parametrize(
    ("number", "mode", "is_known"),
    [(3, "ON", True), (3, "ON_PERMISSIVE", True), (5, "ON", True), (5, "ON_PERMISSIVE", False)],
)
def test_a_start_takes_a_free_number(number: int, mode: str, is_known: bool):
    """With GTIDs alone the next PREVIOUS_GTIDS shows that nothing was logged between."""
    result = audit(restarted(number, mode))
    assert result.broken == []
    assert reasons(result) == (set() if is_known else {"numbers_left_out", "numbers_unseen"})


@pytest.mark.parametrize("lacks", ["start", "file"])
def test_what_a_start_has_left_out_the_journal_may_lack(lacks: str):
    """The start, and with it what modes there were; or a file that had groups."""
    records = restarted(5).records
    starts = [n for n, one in enumerate(records) if one["kind"] == "start"]
    first, end = (starts[2] - 1, starts[2] + 1) if lacks == "start" else (starts[1], starts[2])
    result = audit(records[:first] + records[end:])
    assert result.broken == []
    assert reasons(result) == {"numbers_left_out", "numbers_unseen"}


@pytest.mark.parametrize(
    ("recovered", "opened", "listed"),
    [
        ("head", 6, (1, 5, 6)),  # of the file that ROTATE named only the name was left
        ("before", 5, (1, 5)),  # ROTATE was lost
        ("before", 2, (1, 2)),  # and the stray file was removed
        ("after", 5, (1, 5)),
    ],
)
def test_a_crash_at_a_rotation(recovered: str, opened: int, listed: tuple[int, ...]):
    journal = source()
    end = journal.binlog.end
    journal.binlog.event("ROTATE", 44, next_file="binlog.000005")
    file, position = {
        "head": ("binlog.000005", 4),
        "before": ("binlog.000001", end),
        "after": ("binlog.000001", journal.binlog.end),
    }[recovered]
    journal.start(crashed=True, recovered={"file": file, "position": position})
    journal.binlog.open(opened)
    journal.groups(1).row(binary_logs=files(*listed))
    result = audit(journal)
    assert (result.broken, reasons(result)) == ([], set())


@pytest.mark.parametrize("listed", [(2, 4), (1, 2, 4), (2, 3, 4)])
def test_a_hole_in_the_list_is_one_where_the_journal_had_the_file(listed: tuple[int, ...]):
    """Of what was before the journal nobody knows whether it ever was."""
    journal = rotated(2, 3, 4)
    journal.row(binary_logs=files(*listed))
    assert audit(journal).broken == ["binlog_files_form_range"] * (3 not in listed)
    result = audit(one for one in journal.records if one.get("file", "4")[-1] == "4")
    assert "binlog_files_form_range" not in result.broken
    assert reasons(result) == ({"numbers_unseen"} if 3 not in listed else set())


@pytest.mark.parametrize(("named", "opened", "rule"), [(3, 2, "rotate"), (3, 4, "form_range")])
def test_what_follows_is_what_rotate_names(named: int, opened: int, rule: str):
    journal = source()
    journal.binlog.event("ROTATE", 44, next_file=f"binlog.{named:06d}")
    journal.binlog.open(opened)
    (broken,) = audit(journal).broken
    assert rule in broken


@pytest.mark.parametrize("seed", [2, 12, 28])
def test_between_what_a_source_left_out_no_file_is_missing(seed: int):
    """A replica's groups are followed over them."""
    scenario = replace(scenario_of(seed), negatives=("stray_file",))
    result = audit_history(simulate(scenario).blocks(512))
    assert not result.findings
    assert "file_between_forgotten" not in {one.check.reason for one in result.checks}


@pytest.mark.parametrize("listed", [(2, 1), (1, 1)])
def test_a_list_whose_numbers_do_not_grow_is_no_range(listed: tuple[int, ...]):
    journal = rotated(2)
    journal.row(binary_logs=files(*listed))
    assert audit(journal).broken == ["binlog_files_form_range"]
