"""Log sequence numbers of InnoDB's redo log: they count its bytes, block framing included."""

from __future__ import annotations

BLOCK_LENGTH = 512
BLOCK_HEADER_LENGTH = 12
BLOCK_TRAILER_LENGTH = 4
BLOCK_DATA_LENGTH = BLOCK_LENGTH - BLOCK_HEADER_LENGTH - BLOCK_TRAILER_LENGTH
LSN_MIN = 8192
"""The LSN of a freshly initialised data directory."""
BLOCK_NUMBER_END = 1 << 30
"""The number in a block's header goes from 1 to this, then begins anew."""


def advance_lsn(lsn: int, length: int) -> int:
    """The LSN after ``length`` more bytes of redo: headers and trailers count, hold no data."""
    block, offset = divmod(lsn, BLOCK_LENGTH)
    data = block * BLOCK_DATA_LENGTH + max(0, offset - BLOCK_HEADER_LENGTH) + length
    block, offset = divmod(data, BLOCK_DATA_LENGTH)
    return block * BLOCK_LENGTH + BLOCK_HEADER_LENGTH + offset


def last_block(lsn: int) -> tuple[int, int]:
    """The header of the block in which a write up to ``lsn`` ends: its number, and its length.

    The length counts the header; a full block has 512. A write up to the border of a block ends in
    the block before it.
    """
    block, length = divmod(lsn, BLOCK_LENGTH)
    if not length:
        block, length = block - 1, BLOCK_LENGTH
    return block % BLOCK_NUMBER_END + 1, length


def lsn_offset_is_legal(lsn: int) -> bool:
    """Whether an LSN is in the data bytes of its block, where the next record can start.

    It holds of the current LSN and of the checkpoint. The written and the flushed LSN may also lie
    on the border of a block.
    """
    return BLOCK_HEADER_LENGTH <= lsn % BLOCK_LENGTH < BLOCK_LENGTH - BLOCK_TRAILER_LENGTH
