"""What the GTID persister has written stays in its table, as long as nothing empties that."""

from __future__ import annotations

import pytest

from tests.support.journals import UUID_A, Journal, audit
from tests.support.rule_cases_of_gtid_persistence import PERSISTER, persisted


def read_table(journal: Journal, table: str, asked_us: int = 0) -> None:
    """A row that reads the table, asked for so much before it."""
    row = journal.row(gtid_executed_table=table, gtid_owned="", prepared_xa="")
    row["requested_at"] = row["ts"] - asked_us


def write(journal: Journal, gno: int) -> None:
    journal.record(PERSISTER, step="commit", trx_no=gno, gtid=f"{UUID_A}:{gno}")
    journal.record(PERSISTER, step="write", gtids=f"{UUID_A}:{gno}", oldest_trx_no=gno + 1)
    journal.record(PERSISTER, step="number", trx_num_gtid=gno + 1)


def lose_records(journal: Journal) -> None:
    journal.record("gap")


def restore(journal: Journal) -> None:
    journal.start(data_lineage="restored", crashed=False)


def test_a_write_after_the_request_may_be_missing():
    """The table may have been read before it."""
    journal = persisted()
    write(journal, 3)
    read_table(journal, f"{UUID_A}:1-2", asked_us=15_000)
    assert [] == audit(journal).findings
    read_table(journal, f"{UUID_A}:1-2")
    assert ["gtid_table_has_closed_files"] == audit(journal).broken


@pytest.mark.parametrize("happens", [lose_records, restore])
def test_what_was_written_before_does_not_count(happens):
    """Behind a gap a RESET may hide, and other data have another table."""
    journal = persisted()
    happens(journal)
    read_table(journal, "")
    assert "gtid_table_has_closed_files" not in audit(journal).broken


@pytest.mark.parametrize("flush", [0, 2])
def test_a_crash_may_take_back_what_was_not_flushed(flush):
    """The persister's write, too."""
    journal = persisted()
    journal.variables = journal.variables | {"innodb_flush_log_at_trx_commit": flush}
    journal.record("variables", variables=journal.variables)
    journal.start(
        crashed=True,
        recovered={"file": "binlog.000001", "position": journal.binlog.end},
        gtid_executed_table="",
        undo_gtids="",
    )
    journal.binlog.open(2)
    journal.row()
    assert "undo_gtids_recovered" not in audit(journal).broken
