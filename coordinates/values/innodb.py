"""Log sequence numbers of InnoDB's redo log: they count its bytes, block framing included."""

from __future__ import annotations

BLOCK_LENGTH = 512
BLOCK_HEADER_LENGTH = 12
BLOCK_TRAILER_LENGTH = 4
LSN_MIN = 8192
"""The LSN of a freshly initialised data directory."""


def lsn_offset_is_legal(lsn: int) -> bool:
    """Whether an LSN is in the data bytes of its block, where the next record can start.

    It holds of the current LSN and of the checkpoint. The written and the flushed LSN may also lie
    on the border of a block.
    """
    return BLOCK_HEADER_LENGTH <= lsn % BLOCK_LENGTH < BLOCK_LENGTH - BLOCK_TRAILER_LENGTH
