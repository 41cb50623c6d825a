"""Lengths of closed binary log files that cannot be held against what the journal has of them."""

from __future__ import annotations

import pytest

from tests.support.journals import Gtids, Journal, Record, audit
from tests.support.rule_cases import purging, source
from tests.support.rule_cases_of_rows import lengths

RULE = "closed_file_length_agrees"


def cut(logs: list[Record]) -> list[Record]:
    """The first file is shorter than it was."""
    logs[0]["size"] -= 31
    return logs


def judged(journal: Journal, **beside: object) -> str:
    """What the rule says of a row with a list in which the first file is cut."""
    journal.row(**{"binary_logs": cut(lengths(journal))} | beside)
    result = audit(journal)
    assert set(result.broken) <= {RULE}
    return "broken" if result.broken else result.undecided().get(RULE, "holds")


def test_a_file_that_was_closed_by_a_stop():
    journal = source()
    journal.binlog.stop()
    journal.record("stop")
    journal.start()
    journal.binlog.open(2)
    assert "broken" == judged(journal)


def test_the_active_file_may_grow_while_the_list_is_read():
    assert "holds" == judged(source())


@pytest.mark.parametrize("meanwhile", ["nothing", "reset", "gap"])
def test_an_open_file_may_have_been_longer_before_a_reset(meanwhile):
    """Between the list and the row, at a first row, or hidden in a gap."""
    journal = source(9)
    logs = lengths(journal)
    if meanwhile == "reset":
        journal.row(binary_logs=logs)
        journal.record("binlog_reset")
        for gtids in (journal.executed, journal.used, journal.binlog.gtids):
            gtids.numbers.clear()
        journal.binlog.open(1)
    elif meanwhile == "gap":
        journal.row(binary_logs=logs)
        journal.record("gap")
    else:
        logs[-1]["size"] += 9_999
    journal.row(binary_logs=logs)
    assert not audit(journal).broken


@pytest.mark.parametrize(("longer", "is_broken"), [(512, False), (513, True)])
def test_a_file_that_was_closed_since_the_list_was_read(longer, is_broken):
    journal = source()
    journal.row(binary_logs=lengths(journal))
    logs = lengths(journal)
    journal.groups(1).binlog.rotate()
    logs[-1]["size"] = lengths(journal)[0]["size"] + longer
    journal.row(binary_logs=logs)
    assert audit(journal).broken == [RULE] * is_broken


def test_behind_a_gap_files_of_before_may_be_others():
    journal = purging()
    journal.record("gap")
    journal.groups(1)
    assert "binlog.000001 was not seen" in judged(journal)


def test_a_file_whose_beginning_was_not_seen():
    journal = purging()
    del journal.records[1:8]
    assert "binlog.000001 was not seen" in judged(journal)


@pytest.mark.parametrize(
    ("recovered", "said"),
    [
        (None, "binlog.000001 was not seen"),
        ("binlog.000001", "broken"),
        ("binlog.000003", "broken"),
    ],
)
def test_after_a_crash(recovered: str | None, said: str):
    """It takes nothing out of files before the one that recovery has found to be the last."""
    journal = purging()
    end = journal.binlog.end if recovered == journal.binlog.file else 457
    position = {} if recovered is None else {"recovered": {"file": recovered, "position": end}}
    journal.start(crashed=True, **position)
    journal.binlog.open(4)
    logs = {"binary_logs": cut(lengths(journal))}
    journal.row(**logs)
    result = audit(journal)
    shown = result.undecided().get(RULE, "broken" if RULE in result.broken else "holds")
    assert said in shown


def test_a_file_that_is_purged():
    journal = purging()
    logs = cut(lengths(journal))
    journal.record("binlog_purge", to_file="binlog.000002")
    journal.purged = "aaaaaaaa-0000-0000-0000-000000000001:1-3"
    again = {"binary_logs_again": logs[1:]}
    assert "changed while it was read" in judged(journal, binary_logs=logs, **again)


@pytest.mark.parametrize("size", [None, 0])
def test_a_length_that_is_none(size: int | None):
    """That of a file which cannot be opened is what another rule is about."""
    journal = purging()
    logs = lengths(journal)
    logs[0]["size"] = size
    journal.row(binary_logs=logs)
    assert [] == audit(journal).broken


def test_a_list_that_was_read_before_a_reset():
    """Files of the same names are others since then."""
    journal = purging()
    logs, asked_at = lengths(journal), journal.ts
    journal.record("binlog_reset")
    journal.used, journal.executed, journal.binlog.gtids = Gtids(), Gtids(), Gtids()
    journal.binlog.open(1)
    journal.groups(1).binlog.rotate()
    journal.row(binary_logs=logs, requested_at=asked_at, received_at=asked_at)
    assert [] == audit(journal).broken
