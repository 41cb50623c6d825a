"""The redo log of a loaded server: commits by group, and checkpoints that keep up, as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallystick.coordinates.events.journal import ABSENT, COLUMNS, BlockBuilder, RedoType, Stream
from tallystick.coordinates.values.innodb import LSN_MIN, advance_lsn, last_block

CAPACITY = 100 * 2**20
_AGE = CAPACITY // 2
"""The checkpoint is this far below the LSN: whole blocks, so in data bytes as the LSN is."""
_FIRST = advance_lsn(LSN_MIN, 18_000_000)
_GROUP = 16
"""Transactions that share a write and a flush."""
_GROUPS_PER_CHECKPOINT = 64
_ROWS = {name: row for row, name in enumerate(COLUMNS)}
_KINDS = np.array([RedoType.WRITE, RedoType.FLUSH, RedoType.COMMIT, RedoType.CHECKPOINT])


@dataclass(slots=True)
class RedoLog:
    """Where it ends, everything written and flushed; and its checkpoint."""

    lsn: int = _FIRST
    checkpoint: int = _FIRST

    def commit(self, builder: BlockBuilder, transactions: int, length: int, ts: int) -> None:
        """Let transactions with so many bytes of redo commit, in groups that flush together."""
        groups = max(1, transactions // _GROUP)
        lengths = np.arange(groups + 1) * length // groups
        lsns = advance_lsn(self.lsn, lengths)
        checkpoints = np.maximum(self.checkpoint, lsns - _AGE)[1:]
        is_written = np.ones((groups, len(_KINDS)), dtype=np.bool_)
        is_written[:, -1] = np.arange(groups) % _GROUPS_PER_CHECKPOINT == 0
        is_written[-1, -1] = True
        kinds = np.broadcast_to(_KINDS, is_written.shape)[is_written]
        table = np.full((len(COLUMNS), len(kinds)), ABSENT, dtype=np.int64)
        table[_ROWS["flags"]] = table[_ROWS["query"]] = 0
        table[_ROWS["type"]] = kinds
        ends = lsns[1:]
        table[_ROWS["value"]] = np.column_stack([ends, ends, ends, checkpoints])[is_written]
        is_write = kinds == RedoType.WRITE
        numbers, used = last_block(ends)
        for name, values in (
            ("start", lsns[:-1]),
            ("sequence_number", numbers),
            ("last_committed", used),
        ):
            table[_ROWS[name], is_write] = values
        builder.log_events(Stream.REDO, table, file=None, ts=ts, sids=())
        self.lsn, self.checkpoint = int(lsns[-1]), int(checkpoints[-1])
