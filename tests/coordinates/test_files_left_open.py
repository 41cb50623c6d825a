"""Log files that nothing ends, though others follow: what they ended with is not in the journal."""

from __future__ import annotations

import pytest

from tests.support.journals import OWN, UUID_B, Audited, Journal, Record, audit


def _reasons(result: Audited) -> list[str]:
    return [one.reason for one in result.observations if one.is_undecided]


def _ended(journal: Journal, how: str) -> None:
    file, position = journal.binlog.coordinates
    if how == "a rotation":
        journal.binlog.rotate()
        return
    if how == "a stop":
        journal.binlog.stop()
        journal.start(crashed=False)
    elif how == "a crash":
        journal.start(crashed=True, recovered={"file": file, "position": position})
    elif how == "a gap":
        journal.record("gap")
    elif how == "a RESET":
        journal.record("binlog_reset")
        journal.binlog.open(1, "")
        return
    journal.binlog.open(2)


@pytest.mark.parametrize("form", ["rows", "ddl"])
@pytest.mark.parametrize("how", ["a rotation", "a stop", "a crash", "a gap", "a RESET", "nothing"])
def test_a_binary_log_file_that_nothing_ends_is_undecided(how: str, form: str) -> None:
    """Its last groups may be missing, and groups without GTIDs leave no other trace."""
    journal = Journal().begin().groups(2, form)
    _ended(journal, how)
    journal.groups(2, form)
    result = audit(journal)
    assert result.broken == []
    assert ("file_left_open" in _reasons(result)) is (how == "nothing")


@pytest.mark.parametrize("how", ["a rotation", "a stop", "a start", "a new source", "nothing"])
def test_a_relay_log_file_that_nothing_ends_is_undecided(how: str) -> None:
    """The head of the next file has the GTIDs of groups that are missing, as if all were there."""
    source = Journal("b", UUID_B, 2).begin().groups(3)
    journal = Journal().begin()
    change: Record = {"kind": "channel", "channel": "", "action": "change_source"}
    journal.record(**change, source_uuid=UUID_B)
    relay = journal.relay()
    relay.connect()
    for group in source.binlog.groups:
        relay.copy(group)
    if how == "a rotation":
        relay.rotate()
    else:
        if how == "a stop":
            relay.event("STOP", 23, flags=OWN)
        elif how == "a start":
            journal.start(crashed=True)
        elif how == "a new source":
            journal.record(**change, source_uuid=UUID_B)
        relay.open(2)
    result = audit(journal)
    assert result.broken == []
    assert ("file_left_open" in _reasons(result)) is (how == "nothing")


@pytest.mark.parametrize("goes_on", ["row", "earlier row", "event"])
@pytest.mark.parametrize("starts", [True, False])
def test_a_server_that_has_stopped_has_started_before_it_goes_on(
    starts: bool, goes_on: str
) -> None:
    """Where no binary log shows it, the records after the stop do; a row may be an earlier one."""
    journal = Journal(log_bin=False).begin()
    row = journal.row()["row"]
    journal.record("stop")
    stopped_at = journal.ts
    if starts:
        journal.start(crashed=False)
    record = len(journal.records)
    if goes_on == "event":
        journal.relay()
    else:
        asked_at = stopped_at + (goes_on == "row")
        journal.row(requested_at=asked_at, received_at=asked_at)["row"] = row
    result = audit(journal, block_size=3)
    assert result.broken == []
    is_missed = not starts and goes_on != "earlier row"
    noted = [(one.reason, one.at) for one in result.observations]
    assert noted == [("start_unrecorded", f"0:{record}")] * is_missed


@pytest.mark.parametrize("starts", [True, False])
def test_a_server_that_has_stopped_has_started_before_it_logs_again(starts: bool) -> None:
    """Its settings, and what it found, are in the record of the start."""
    journal = Journal().begin().groups(2)
    journal.binlog.stop()
    if starts:
        journal.start(crashed=False)
    journal.binlog.open(2)
    result = audit(journal)
    assert result.broken == []
    assert _reasons(result) == ["start_left_out"] * (not starts)


def test_the_last_group_of_a_file_is_missing_with_its_end() -> None:
    """Without GTIDs the rest of the log agrees with itself."""
    journal = Journal(gtid_mode="OFF").begin()
    for _ in range(3):
        journal.binlog.group(None)
    journal.binlog.rotate()
    journal.binlog.group(None)
    journal.row()
    first = [r for r in journal.records if r.get("file") == "binlog.000001"]
    missing = first[first.index(journal.binlog.groups[2][0]) :]
    whole = audit(journal)
    journal.records = [record for record in journal.records if record not in missing]
    found = audit(journal)
    assert (_reasons(whole), _reasons(found)) == ([], ["file_left_open"])


def test_a_group_is_cut_with_the_end_of_its_file() -> None:
    """As by a crash whose start is missing: nothing of it is held against the server."""
    journal = Journal().begin()
    group = journal.binlog.group()
    del journal.records[-1]
    journal.binlog.gtids.remove(group[0]["gtid"])
    journal.binlog.open(2)
    journal.groups(2)
    result = audit(journal)
    assert result.broken == []
    assert _reasons(result) == ["file_left_open"]
