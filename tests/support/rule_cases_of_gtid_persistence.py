"""Cases of the rules of GTID persistence (WL#9211): undo headers, persister, table."""

from __future__ import annotations

from tests.support.journals import UUID_A, Journal, Record
from tests.support.rule_cases import case, source

PERSISTER = "gtid_persister"
SECOND = 1_000_000


def persisted(writes: int = 2, journal: Journal | None = None) -> Journal:
    """A source whose persister has written often enough to be known."""
    journal = journal or source()
    for gno in range(1, writes + 1):
        journal.record(PERSISTER, step="commit", trx_no=gno, gtid=f"{UUID_A}:{gno}")
        journal.record(PERSISTER, step="write", gtids=f"{UUID_A}:{gno}", oldest_trx_no=gno + 1)
        journal.record(PERSISTER, step="number", trx_num_gtid=gno + 1)
    return journal


def crash(journal: Journal, **reported: object) -> Journal:
    """The server crashes and starts; everything of the binary log is recovered."""
    journal.start(
        crashed=True,
        recovered={"file": "binlog.000001", "position": journal.binlog.end},
        **reported,
    )
    journal.binlog.open(2)
    journal.row()
    return journal


@case()
def undo_gtids_recovered(breaks: bool) -> Journal:
    """A commit after the last write is in an undo log header."""
    journal = persisted()
    journal.record(PERSISTER, step="commit", trx_no=3, gtid=f"{UUID_A}:3")
    undo = "" if breaks else f"{UUID_A}:3"
    return crash(journal, gtid_executed_table=f"{UUID_A}:1-2", undo_gtids=undo)


@case()
def undo_gtids_recovered__prepared(breaks: bool) -> Journal:
    """So is XA PREPARE."""
    journal = persisted()
    journal.record(PERSISTER, step="prepare", gtid=f"{UUID_A}:3")
    table = f"{UUID_A}:1-{2 if breaks else 3}"
    return crash(journal, gtid_executed_table=table, undo_gtids="")


@case()
def undo_gtids_recovered__clean(breaks: bool) -> Journal:
    """A clean stop lets the persister write everything."""
    journal = persisted()
    journal.record(PERSISTER, step="commit", trx_no=3, gtid=f"{UUID_A}:3")
    journal.record("stop")
    journal.start(gtid_executed_table=f"{UUID_A}:1-{2 if breaks else 3}")
    journal.binlog.open(2)
    journal.row()
    return journal


@case()
def undo_gtids_recovered__written(breaks: bool) -> Journal:
    """What the persister has written a crash leaves in the table."""
    table = f"{UUID_A}:1{'' if breaks else '-2'}"
    return crash(persisted(), gtid_executed_table=table, undo_gtids="")


@case()
def undo_gtids_recovered__cut_log(breaks: bool) -> Journal:
    """With the end of the binary log a crash takes back what was committed there, and no more."""
    journal = persisted()
    journal.record(PERSISTER, step="commit", trx_no=3, gtid=f"{UUID_A}:3")
    kept = journal.binlog.end
    journal.groups(1)
    journal.record(PERSISTER, step="commit", trx_no=4, gtid=f"{UUID_A}:4")
    journal.start(
        crashed=True,
        recovered={"file": "binlog.000001", "position": kept},
        gtid_executed_table=f"{UUID_A}:1-2",
        undo_gtids="" if breaks else f"{UUID_A}:3",
    )
    return journal


@case()
def purge_waits_for_gtid_persist__collected(breaks: bool) -> Journal:
    """Whatever is below the number that a write collected had been committed before."""
    journal = persisted()
    journal.record(PERSISTER, step="commit", trx_no=2 if breaks else 3, gtid=f"{UUID_A}:3")
    journal.record(PERSISTER, step="write", gtids=f"{UUID_A}:3", oldest_trx_no=4)
    return journal


@case()
def gtid_persisted_after_commit(breaks: bool) -> Journal:
    journal = persisted()
    journal.record(PERSISTER, step="commit", trx_no=3, gtid=f"{UUID_A}:3")
    journal.record(PERSISTER, step="write", gtids=f"{UUID_A}:3{'-4' if breaks else ''}")
    return journal


@case()
def gtid_persisted_after_commit__anchored(breaks: bool) -> Journal:
    """What was committed before the observation began may be in the first two writes."""
    journal = persisted(1)
    journal.record(PERSISTER, step="write", gtids=f"{UUID_A}:2")
    journal.record(PERSISTER, step="write", gtids=f"{UUID_A}:3" if breaks else "")
    return journal


@case()
def gtid_persisted_after_commit__recovered(breaks: bool) -> Journal:
    """After a start whose recovery was seen, the first write is judged."""
    journal = crash(persisted(), gtid_executed_table=f"{UUID_A}:1-2", undo_gtids="")
    journal.record(PERSISTER, step="recover", gtids="", trx_num_gtid=3)
    journal.record(PERSISTER, step="commit", trx_no=3, gtid=f"{UUID_A}:3")
    journal.record(PERSISTER, step="write", gtids=f"{UUID_A}:3{'-4' if breaks else ''}")
    return journal


@case()
def gtid_persisted_after_commit__recovered_undo(breaks: bool) -> Journal:
    """What the start found in undo logs was committed: the persister writes it after it."""
    journal = persisted()
    journal.record(PERSISTER, step="commit", trx_no=3, gtid=f"{UUID_A}:3")
    undo = f"{UUID_A}:3"
    crash(journal, gtid_executed_table=f"{UUID_A}:1-2", undo_gtids=undo)
    journal.record(PERSISTER, step="recover", gtids=undo, trx_num_gtid=3)
    journal.record(PERSISTER, step="write", gtids=f"{UUID_A}:3{'-4' if breaks else ''}")
    return journal


@case()
def gtid_persisted_in_time(breaks: bool) -> Journal:
    """Ten seconds are not too late, a microsecond more is."""
    journal = persisted()
    committed = journal.record(PERSISTER, step="commit", trx_no=3, gtid=f"{UUID_A}:3")
    written = journal.record(PERSISTER, step="write", gtids=f"{UUID_A}:3")
    written["ts"] = committed["ts"] + 10 * SECOND + (1 if breaks else 0)
    return journal


@case()
def gtid_table_has_closed_files(breaks: bool) -> Journal:
    """The file that the row before named: what was closed before it is in the table."""
    journal = source()
    journal.binlog.rotate()
    journal.row(gtid_executed_table=f"{UUID_A}:1-3")
    journal.groups(1)
    table = f"{UUID_A}:1-{2 if breaks else 3}"
    row = journal.row(gtid_executed_table=table, gtid_owned="", prepared_xa="")
    row["requested_at"] = row["ts"]
    return journal


def timed(row: Record) -> Record:
    """The server had the request when it answered it."""
    row["requested_at"] = row["received_at"] = row["ts"]
    return row


@case()
def gtid_table_has_closed_files__persisted(breaks: bool) -> Journal:
    """What the persister has written, though its file is open."""
    journal = persisted()
    timed(journal.row())
    table = f"{UUID_A}:1{'' if breaks else '-2'}"
    timed(journal.row(gtid_executed_table=table, gtid_owned="", prepared_xa=""))
    return journal


@case()
def gtid_table_has_closed_files__asked_between(breaks: bool) -> Journal:
    """The table was read between the last two writes."""
    journal = persisted(1)
    timed(journal.row())
    for gno in (2, 3):
        journal.record(PERSISTER, step="commit", trx_no=gno, gtid=f"{UUID_A}:{gno}")
    for gno in (2, 3):
        journal.record(PERSISTER, step="write", gtids=f"{UUID_A}:{gno}")
    table = f"{UUID_A}:1{'' if breaks else '-2'}"
    row = timed(journal.row(gtid_executed_table=table, gtid_owned="", prepared_xa=""))
    row["requested_at"] = row["received_at"] = row["ts"] - 1_500
    return journal
