"""InnoDB's redo log: the log buffer, its writer and flusher, checkpoints, and what a crash leaves.

A mini-transaction adds redo to the log buffer. The log writer copies it to the files, the log
flusher syncs them; a commit waits for one of the two (``innodb_flush_log_at_trx_commit``). What is
in the buffer is gone with the server, what was written and not flushed with the machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.coordinates.events.journal import RedoType
from tallystick.coordinates.values.innodb import BLOCK_LENGTH, advance_lsn, last_block
from tallystick.producers.simulator.innodb.rollback_segments import TrxSys

if TYPE_CHECKING:
    from random import Random

    from tallystick.producers.simulator.kernel.instance import Instance

ENABLED = "innodb_redo_log_enabled"
"""The status variable of ALTER INSTANCE DISABLE INNODB REDO_LOG."""
FLUSH_POLICY = "innodb_flush_log_at_trx_commit"
_FLUSH_AT_TIMEOUT_US = 1_000_000
"""innodb_flush_log_at_timeout: by then the flusher follows a write that nobody waits for."""


@dataclass(slots=True, eq=False)
class Innodb:
    """Log sequence numbers of the redo log, and the coordinates in the TRX_SYS page.

    Attributes:
        lsn: The current one: up to where mini-transactions have reserved room.
        written: Up to where redo is in the files.
        flushed: Up to where they are synced.
        checkpoint: Where recovery would begin.
        trx_sys: Binary log coordinates last written into the TRX_SYS page.
        transactions: Transaction numbers, rollback segments and their undo logs.
        recovered: Where the last start found the end of the redo log.
        returned: Up to where commits need redo that are about to return to their sessions.
        flushed_at: Time of the last flush, microseconds.
        checkpoint_is_held: Whether pages stay dirty, so that no checkpoint is written.
    """

    lsn: int
    written: int
    flushed: int
    checkpoint: int
    trx_sys: tuple[str, int] = ("", 0)
    transactions: TrxSys = field(default_factory=TrxSys)
    recovered: int = 0
    returned: int = 0
    flushed_at: int = 0
    checkpoint_is_held: bool = False


def fresh(rng: Random) -> Innodb:
    """The redo log of a server that has lived for a while."""
    lsn = advance_lsn(18_000_000, rng.randrange(4_000_000))
    return Innodb(lsn=lsn, written=lsn, flushed=lsn, checkpoint=lsn)


# The log buffer and the files


def add_redo(instance: Instance, length: int) -> int:
    """A mini-transaction commits: its redo is in the log buffer. The LSN after it."""
    innodb = instance[Innodb]
    if instance.variables.get(ENABLED, True):
        innodb.lsn = advance_lsn(innodb.lsn, length)
    return innodb.lsn


def _write(instance: Instance, lsn: int) -> None:
    """The log writer: everything up to an LSN goes to the files."""
    innodb = instance[Innodb]
    if lsn <= innodb.written:
        return
    number, length = last_block(lsn)
    journal = instance.journal
    journal.redo_event(
        RedoType.WRITE,
        lsn,
        ts=journal.moment(),
        start_lsn=innodb.written,
        block_number=number,
        data_length=length,
    )
    innodb.written = lsn


def _flush(instance: Instance) -> None:
    """The log flusher: what is in the files is synced."""
    innodb = instance[Innodb]
    if innodb.flushed < innodb.written:
        innodb.flushed_at = instance.journal.moment()
        instance.journal.redo_event(RedoType.FLUSH, innodb.written, ts=innodb.flushed_at)
        innodb.flushed = innodb.written


def flush_redo(instance: Instance) -> None:
    """FLUSH ENGINE LOGS, or whoever needs all redo on disk."""
    _write(instance, instance[Innodb].lsn)
    _flush(instance)


def write_checkpoint(instance: Instance) -> None:
    """All dirty pages are flushed: the checkpoint reaches the current LSN."""
    innodb = instance[Innodb]
    flush_redo(instance)
    if innodb.checkpoint < innodb.lsn and not innodb.checkpoint_is_held:
        instance.journal.redo_event(RedoType.CHECKPOINT, innodb.lsn, ts=instance.journal.moment())
        innodb.checkpoint = innodb.lsn


# Commits


def wait_for_redo(instance: Instance) -> None:
    """A group waits for its redo, with everything that others have added before it."""
    policy = instance.variables[FLUSH_POLICY]
    if policy:
        _write(instance, instance[Innodb].lsn)
    if policy == 1:
        _flush(instance)


def committed(instance: Instance, lsn: int) -> None:
    """A commit that needed redo up to ``lsn`` is about to return, with others of its group."""
    innodb = instance[Innodb]
    innodb.returned = max(innodb.returned, lsn)


def return_commits(instance: Instance) -> None:
    """The commits of a group return to their sessions."""
    innodb = instance[Innodb]
    if innodb.returned:
        journal = instance.journal
        journal.redo_event(RedoType.COMMIT, innodb.returned, ts=journal.moment())
        innodb.returned = 0


# The background, and starts


def work_in_background(instance: Instance, rng: Random) -> None:
    """Change buffer merges, purge, statistics: redo without a commit; then maybe a checkpoint."""
    innodb = instance[Innodb]
    if rng.random() < 0.6:
        add_redo(instance, rng.randrange(40, 3000))
    if rng.random() < 0.5:
        write_full_blocks(instance)
        if instance.journal.moment() - innodb.flushed_at >= _FLUSH_AT_TIMEOUT_US:
            _flush(instance)
    if rng.random() < 0.3:
        write_checkpoint(instance)


def write_full_blocks(instance: Instance) -> None:
    """The log writer stops at a block border where nobody waits for what is in the last block."""
    lsn = instance[Innodb].lsn
    _write(instance, lsn - lsn % BLOCK_LENGTH)


def crash(instance: Instance, *, power_cut: bool) -> None:
    """The server is gone with its log buffer, the machine also with what was not flushed."""
    innodb = instance[Innodb]
    innodb.lsn = innodb.written = innodb.flushed if power_cut else innodb.written
    innodb.returned = 0


def recover(instance: Instance, rng: Random) -> None:
    """A start reads the redo log to its end, and writes some redo of its own."""
    innodb = instance[Innodb]
    innodb.recovered = innodb.written = innodb.flushed = innodb.lsn
    add_redo(instance, rng.randrange(40_000, 70_000))


def started(instance: Instance) -> None:
    """The start is in the journal: recovery has ended with a checkpoint."""
    write_checkpoint(instance)
