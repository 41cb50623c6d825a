"""InnoDB's redo log: sequence numbers that count block framing, flushing and checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.coordinates.values.innodb import (
    BLOCK_HEADER_LENGTH,
    BLOCK_LENGTH,
    BLOCK_TRAILER_LENGTH,
)
from tallystick.producers.simulator.innodb.rollback_segments import TrxSys

if TYPE_CHECKING:
    from random import Random

DATA_LENGTH = BLOCK_LENGTH - BLOCK_HEADER_LENGTH - BLOCK_TRAILER_LENGTH


@dataclass(slots=True, eq=False)
class Innodb:
    """Log sequence numbers of the redo log, and the coordinates in the TRX_SYS page."""

    lsn: int
    written: int
    flushed: int
    checkpoint: int
    trx_sys: tuple[str, int] = ("", 0)
    """Binary log coordinates last written into the TRX_SYS page."""
    transactions: TrxSys = field(default_factory=TrxSys)
    """Transaction numbers, rollback segments and their undo logs."""


def fresh(rng: Random) -> Innodb:
    """The redo log of a server that has lived for a while."""
    lsn = advanced(18_000_000, rng.randrange(4_000_000))
    return Innodb(lsn=lsn, written=lsn, flushed=lsn, checkpoint=lsn)


def advanced(lsn: int, length: int) -> int:
    """The LSN after ``length`` bytes of redo: block headers and trailers count, hold no data."""
    block, offset = divmod(lsn, BLOCK_LENGTH)
    data = block * DATA_LENGTH + max(0, offset - BLOCK_HEADER_LENGTH) + length
    block, offset = divmod(data, DATA_LENGTH)
    return block * BLOCK_LENGTH + BLOCK_HEADER_LENGTH + offset


def write_redo(innodb: Innodb, length: int) -> None:
    """Add redo; at most what the log writer still holds back is not flushed."""
    innodb.lsn = advanced(innodb.lsn, length)


def flush_redo(innodb: Innodb) -> None:
    """A commit: everything up to now is written and flushed."""
    innodb.written = innodb.flushed = innodb.lsn


def write_block_border(innodb: Innodb) -> None:
    """The log writer stops at a block border, so written and flushed LSN have no data offset."""
    border = innodb.lsn - innodb.lsn % BLOCK_LENGTH
    innodb.written = max(innodb.written, border)
    innodb.flushed = max(innodb.flushed, border)


def work_in_background(innodb: Innodb, rng: Random) -> None:
    """Change buffer merges, purge, statistics: redo without a commit; then maybe a checkpoint."""
    if rng.random() < 0.6:
        write_redo(innodb, rng.randrange(40, 3000))
    if rng.random() < 0.5:
        write_block_border(innodb)
    if rng.random() < 0.3:
        write_checkpoint(innodb)


def write_checkpoint(innodb: Innodb) -> None:
    """All dirty pages are flushed: the checkpoint reaches the current LSN."""
    flush_redo(innodb)
    innodb.checkpoint = innodb.lsn


def restart(innodb: Innodb, rng: Random, *, crashed: bool) -> None:
    """A start writes some redo of its own; recovery ends with a checkpoint."""
    if not crashed:
        write_checkpoint(innodb)
    write_redo(innodb, rng.randrange(40_000, 70_000))
    write_checkpoint(innodb)
