"""Log sequence numbers of InnoDB's redo log: they count its bytes, block framing included."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Number = TypeVar("Number", int, "npt.NDArray[np.int64]")
"""One number, or a column of them."""
BLOCK_LENGTH = 512
BLOCK_HEADER_LENGTH = 12
BLOCK_TRAILER_LENGTH = 4
BLOCK_DATA_LENGTH = BLOCK_LENGTH - BLOCK_HEADER_LENGTH - BLOCK_TRAILER_LENGTH
LSN_MIN = 8192
"""The LSN of a freshly initialised data directory."""
BLOCK_NUMBER_END = 1 << 30
"""The number in a block's header goes from 1 to this, then begins anew."""


def advance_lsn(lsn: int, length: Number) -> Number:
    """The LSN after ``length`` more bytes of redo: headers and trailers count, hold no data."""
    block, used = divmod(lsn, BLOCK_LENGTH)
    data = block * BLOCK_DATA_LENGTH + max(0, used - BLOCK_HEADER_LENGTH) + length
    offset = data % BLOCK_DATA_LENGTH
    return data // BLOCK_DATA_LENGTH * BLOCK_LENGTH + BLOCK_HEADER_LENGTH + offset


def last_block(lsn: Number) -> tuple[Number, Number]:
    """The header of the block in which a write up to ``lsn`` ends: its number, and its length.

    The length counts the header; a full block has 512. A write up to the border of a block ends in
    the block before it.
    """
    block = (lsn - 1) // BLOCK_LENGTH
    return block % BLOCK_NUMBER_END + 1, lsn - block * BLOCK_LENGTH


def lsn_offset_is_legal(lsn: int) -> bool:
    """Whether an LSN is in the data bytes of its block, where the next record can start.

    It holds of the current LSN and of the checkpoint. The written and the flushed LSN may also lie
    on the border of a block.
    """
    return BLOCK_HEADER_LENGTH <= lsn % BLOCK_LENGTH < BLOCK_LENGTH - BLOCK_TRAILER_LENGTH
