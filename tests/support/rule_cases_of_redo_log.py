"""Cases of the rules of InnoDB's redo log."""

from __future__ import annotations

from tests.support.journals import UUID_A, Journal, Record
from tests.support.rule_cases import case, innodb

LSN = 19_000_012
"""Byte 204 of its block."""
CAPACITY = 8 * 2**20


def redo(journal: Journal, redo_type: str, lsn: int, **fields: int) -> Record:
    """One event of the redo log."""
    return journal.record("redo", type=redo_type, lsn=lsn, **fields)


def writing() -> Journal:
    """A server that has written, flushed, and written a checkpoint."""
    journal = Journal(innodb_redo_log_capacity=CAPACITY, innodb_flush_log_at_trx_commit=1).begin()
    redo(journal, "WRITE", LSN, start_lsn=LSN - 1024)
    redo(journal, "FLUSH", LSN)
    redo(journal, "CHECKPOINT", LSN)
    return journal


@case()
def redo_writes_contiguous(breaks: bool) -> Journal:
    journal = writing()
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN + breaks)
    return journal


@case()
def redo_lsn_never_falls(breaks: bool) -> Journal:
    journal = writing()
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN - breaks)
    return journal


@case()
def redo_lsn_never_falls__flush(breaks: bool) -> Journal:
    journal = writing()
    redo(journal, "FLUSH", LSN - breaks)
    return journal


@case()
def redo_lsn_never_falls__checkpoint(breaks: bool) -> Journal:
    journal = writing()
    journal.start(crashed=True)
    redo(journal, "CHECKPOINT", LSN - breaks)
    return journal


@case()
def redo_flush_within_written(breaks: bool) -> Journal:
    journal = writing()
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN)
    redo(journal, "FLUSH", LSN + 512 + breaks)
    return journal


@case()
def redo_checkpoint_within_flushed(breaks: bool) -> Journal:
    journal = writing()
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN)
    redo(journal, "FLUSH", LSN + 256)
    redo(journal, "CHECKPOINT", LSN + 256 + breaks)
    return journal


@case()
def redo_lsn_in_block_data(breaks: bool) -> Journal:
    """A checkpoint is after the header; a write may end at the border."""
    journal = writing()
    border = LSN + 512 - LSN % 512
    redo(journal, "WRITE", border, start_lsn=LSN)
    redo(journal, "WRITE", border + 13, start_lsn=border)
    redo(journal, "FLUSH", border + 13)
    redo(journal, "CHECKPOINT", border + (11 if breaks else 12))
    return journal


@case()
def redo_lsn_in_block_data__trailer(breaks: bool) -> Journal:
    journal = writing()
    redo(journal, "WRITE", LSN - LSN % 512 + (508 if breaks else 507), start_lsn=LSN)
    return journal


@case()
def redo_block_header_agrees(breaks: bool) -> Journal:
    journal = writing()
    header = {"block_number": 37_111 + breaks, "data_length": 204}
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN, **header)
    return journal


@case()
def redo_block_header_agrees__full(breaks: bool) -> Journal:
    """The last block of a write up to a border is full."""
    journal = writing()
    border = LSN + 512 - LSN % 512
    header = {"block_number": 37_110, "data_length": 0 if breaks else 512}
    redo(journal, "WRITE", border, start_lsn=LSN, **header)
    return journal


@case()
def redo_kept_until_checkpoint(breaks: bool) -> Journal:
    journal = writing()
    redo(journal, "WRITE", LSN + CAPACITY + breaks, start_lsn=LSN)
    return journal


@case()
def redo_kept_until_checkpoint__shrinking(breaks: bool) -> Journal:
    """The larger capacity counts until what is needed fits the smaller one."""
    journal = writing()
    journal.record("variables", variables={"innodb_redo_log_capacity": CAPACITY // 2})
    redo(journal, "WRITE", LSN + CAPACITY, start_lsn=LSN)
    redo(journal, "FLUSH", LSN + CAPACITY)
    redo(journal, "CHECKPOINT", LSN + CAPACITY // 2)
    if breaks:
        redo(journal, "WRITE", LSN + CAPACITY + 1, start_lsn=LSN + CAPACITY)
    return journal


@case()
def flushed_redo_survives_start(breaks: bool) -> Journal:
    """A crash takes what was written and not flushed."""
    journal = writing()
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN)
    journal.start(crashed=True)
    redo(journal, "WRITE", LSN + 256, start_lsn=LSN - breaks)
    return journal


@case()
def flushed_redo_survives_start__clean(breaks: bool) -> Journal:
    """A clean stop takes nothing."""
    journal = writing()
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN)
    journal.record("stop")
    journal.start()
    redo(journal, "WRITE", LSN + 1024, start_lsn=LSN + 512 - breaks)
    return journal


def power_cut() -> Journal:
    """With 2 it takes what commits have waited for, up to LSN + 256; the binary log has it."""
    journal = writing()
    journal.record("variables", variables={"innodb_flush_log_at_trx_commit": 2})
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN)
    journal.groups(1)
    redo(journal, "COMMIT", LSN + 256)
    file, end = journal.binlog.coordinates
    journal.start(crashed=True, recovered={"file": file, "position": end})
    return journal


@case()
def flushed_redo_survives_start__commit(breaks: bool) -> Journal:
    journal = power_cut()
    redo(journal, "WRITE", LSN + 1024, start_lsn=LSN + 256 - breaks)
    return journal


@case()
def commit_redo_durable(breaks: bool) -> Journal:
    journal = writing()
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN)
    redo(journal, "COMMIT", LSN + breaks)
    return journal


@case()
def commit_redo_durable__written(breaks: bool) -> Journal:
    """With 2 a commit waits for the write alone."""
    journal = writing()
    journal.record("variables", variables={"innodb_flush_log_at_trx_commit": 2})
    redo(journal, "WRITE", LSN + 100, start_lsn=LSN)
    redo(journal, "COMMIT", LSN + 100 + breaks)
    return journal


# Neighbours that were not seen: the nearest known one bounds


def unflushed(*, crashed: bool = False) -> Journal:
    """A server that has written; no flush was seen."""
    journal = Journal(innodb_flush_log_at_trx_commit=1).begin()
    redo(journal, "WRITE", LSN, start_lsn=LSN - 1024)
    redo(journal, "CHECKPOINT", LSN - 512)
    if crashed:
        journal.start(crashed=True)
    return journal


@case()
def commit_redo_durable__no_flush(breaks: bool) -> Journal:
    """What is not written is not flushed."""
    journal = unflushed()
    redo(journal, "COMMIT", LSN + breaks)
    return journal


@case()
def redo_checkpoint_within_flushed__no_flush(breaks: bool) -> Journal:
    journal = unflushed()
    redo(journal, "CHECKPOINT", LSN + breaks)
    return journal


@case()
def redo_checkpoint_within_flushed__first_flush(breaks: bool) -> Journal:
    journal = unflushed()
    redo(journal, "FLUSH", LSN - 512 - breaks)
    return journal


@case()
def redo_checkpoint_within_flushed__first_write(breaks: bool) -> Journal:
    """Before the first write that is seen everything up to its begin was written."""
    journal = Journal().begin()
    redo(journal, "CHECKPOINT", LSN)
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN - breaks)
    redo(journal, "FLUSH", LSN + 512)
    return journal


@case()
def redo_flush_within_written__first_write(breaks: bool) -> Journal:
    journal = Journal().begin()
    redo(journal, "FLUSH", LSN)
    redo(journal, "CHECKPOINT", LSN)
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN - breaks)
    return journal


@case()
def flushed_redo_survives_start__checkpoint(breaks: bool) -> Journal:
    """What is below a checkpoint was flushed, seen or not."""
    journal = unflushed(crashed=True)
    redo(journal, "WRITE", LSN, start_lsn=LSN - 512 - breaks)
    return journal


@case()
def flushed_redo_survives_start__first_flush(breaks: bool) -> Journal:
    """Whether a write was seen or not."""
    journal = writing()
    journal.start(crashed=True)
    redo(journal, "FLUSH", LSN - breaks)
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN)
    return journal


@case()
def flushed_redo_survives_start__flush_after_write(breaks: bool) -> Journal:
    journal = writing()
    journal.start(crashed=True)
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN)
    redo(journal, "FLUSH", LSN - breaks)
    return journal


@case()
def flushed_redo_survives_start__row(breaks: bool) -> Journal:
    """A row that comes before the first write; that write is not held against the server again."""
    journal = writing()
    journal.start(crashed=True)
    innodb(journal.row()).update(LSN=LSN - breaks, LSN_checkpoint=LSN - breaks)
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN - breaks)
    return journal


@case()
def flushed_redo_survives_start__row_below_commit(breaks: bool) -> Journal:
    journal = power_cut()
    innodb(journal.row()).update(LSN=LSN + 256 - breaks, LSN_checkpoint=LSN)
    redo(journal, "WRITE", LSN + 1024, start_lsn=LSN + 256 - breaks)
    return journal


# LSNs elsewhere


def row_of_now(journal: Journal) -> Record:
    """A row that shows the redo log as it is, with 100 bytes in the log buffer."""
    row = journal.row()
    innodb(row).update(LSN=LSN + 100, LSN_checkpoint=LSN)
    return row


@case()
def row_lsn_at_its_instant(breaks: bool) -> Journal:
    """It may be in the log buffer still."""
    journal = writing()
    innodb(row_of_now(journal))["LSN"] = LSN - breaks
    if breaks:
        innodb(journal.records[-1])["LSN_checkpoint"] = LSN - 512
    return journal


@case()
def row_lsn_at_its_instant__commit(breaks: bool) -> Journal:
    """With 0 its redo may be in the log buffer alone."""
    journal = writing()
    journal.record("variables", variables={"innodb_flush_log_at_trx_commit": 0})
    redo(journal, "COMMIT", LSN + 100 + breaks)
    row_of_now(journal)
    return journal


@case()
def row_lsn_at_its_instant__checkpoint_after_start(breaks: bool) -> Journal:
    """Recovery may write another one before the log's events go on, but none before the last."""
    journal = writing()
    journal.start(crashed=True)
    innodb(journal.row()).update(LSN=LSN + 512, LSN_checkpoint=LSN - 1 if breaks else LSN + 100)
    return journal


@case()
def row_lsn_at_its_instant__checkpoint(breaks: bool) -> Journal:
    journal = writing()
    innodb(row_of_now(journal))["LSN_checkpoint"] = LSN - breaks
    return journal


@case()
def image_lsn_within_redo(breaks: bool) -> Journal:
    journal = writing()
    journal.record("backup", step="begin", backup_id="b", session=3)
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN)
    journal.record("backup", step="image", backup_id="b", lsn=LSN + 512 + breaks)
    return journal


@case()
def image_lsn_within_redo__begin(breaks: bool) -> Journal:
    journal = writing()
    journal.record("backup", step="begin", backup_id="b", session=3)
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN)
    journal.record("backup", step="image", backup_id="b", lsn=LSN - breaks)
    return journal


def image_of_log_status(journal: Journal, lsn: int) -> None:
    """An image whose coordinates are those of log_status where the log ends now."""
    journal.record(
        "backup",
        step="image",
        backup_id="b",
        session=3,
        coordinates_from="log_status",
        binlog_file=journal.binlog.file,
        binlog_position=journal.binlog.end,
        gtid_executed=str(journal.used),
        lsn=lsn,
    )


@case()
def image_lsn_within_redo__coordinates(breaks: bool) -> Journal:
    """What is written after the group that the coordinates name may be of another moment."""
    journal = writing()
    journal.record("backup", step="begin", backup_id="b", session=3)
    journal.record("backup_lock", step="lock", lock="instance", session=3)
    redo(journal, "WRITE", LSN + 400, start_lsn=LSN)
    redo(journal, "FLUSH", LSN + 400)
    journal.groups(1)
    redo(journal, "COMMIT", LSN + 400)
    image_of = journal.binlog.end
    redo(journal, "WRITE", LSN + 900, start_lsn=LSN + 400)
    redo(journal, "FLUSH", LSN + 900)
    journal.groups(1)
    image_of_log_status(journal, LSN + 400 - breaks)
    journal.records[-1].update(binlog_position=image_of, gtid_executed=f"{UUID_A}:1")
    return journal


@case()
def image_lsn_within_redo__row(breaks: bool) -> Journal:
    """LSNs grow without groups: a row of the image's own coordinates may be a later one."""
    journal = Journal().begin()
    journal.record("backup", step="begin", backup_id="b", session=3)
    journal.record("backup_lock", step="lock", lock="instance", session=3)
    innodb(journal.row())["LSN"] = LSN
    journal.groups(1)
    innodb(journal.row())["LSN"] = LSN + 512
    image_of_log_status(journal, LSN - breaks)
    return journal


@case()
def image_lsn_within_redo__row_before_begin(breaks: bool) -> Journal:
    journal = Journal().begin().groups(1)
    innodb(journal.row())["LSN"] = LSN
    journal.record("backup", step="begin", backup_id="b", session=3)
    journal.record("backup_lock", step="lock", lock="instance", session=3)
    image_of_log_status(journal, LSN - breaks)
    return journal


def cloning(journal: Journal, *steps: tuple[str, int]) -> Journal:
    """Steps of a donor with their LSNs, those between them left out."""
    for step, lsn in steps:
        journal.record(
            "clone",
            step=step,
            role="donor",
            peer="r",
            binlog_file=journal.binlog.file,
            binlog_position=journal.binlog.end,
            lsn=lsn,
        )
    return journal


@case()
def clone_lsn_within_redo(breaks: bool) -> Journal:
    return cloning(writing(), ("position_read", LSN - breaks))


@case()
def clone_lsn_within_redo__commit(breaks: bool) -> Journal:
    return cloning(writing(), ("commit", LSN + 60), ("position_read", LSN + 60 - breaks))


@case()
def trx_sys_redo_flushed(breaks: bool) -> Journal:
    journal = writing()
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN)
    journal.record("backup_lock", step="lock", lock="tables", session=3, lsn=LSN + breaks)
    return journal


@case()
def trx_sys_redo_flushed__unlock(breaks: bool) -> Journal:
    """Commits that waited for the lock move the page on when it is given up."""
    journal = writing()
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN)
    locked = {"lock": "tables", "session": 3}
    journal.record("backup_lock", step="lock", lsn=LSN + breaks, **locked)
    journal.record("backup_lock", step="unlock", lsn=LSN + 512, **locked)
    return journal


@case()
def redo_status_agrees(breaks: bool) -> Journal:
    """Another session's SHOW GLOBAL STATUS sets variables while they are read; then not."""
    journal = writing()
    journal.record("redo_status", checkpoint=LSN - 512, flushed=LSN, current=LSN - 512)
    journal.record("redo_status", checkpoint=LSN, flushed=LSN, current=LSN - breaks)
    journal.record("redo_status", checkpoint=LSN, flushed=LSN, current=LSN)
    return journal


@case()
def redo_status_agrees__fell(breaks: bool) -> Journal:
    """A sample is of another moment than the events around it; a crash takes what is current."""
    journal = writing()
    journal.record("redo_status", checkpoint=LSN - 1024, flushed=LSN - 512, current=LSN + 512)
    journal.start(crashed=True)
    journal.record("redo_status", checkpoint=LSN - 1024, flushed=LSN - 512 - breaks, current=LSN)
    return journal
