"""Log sequence numbers of InnoDB's redo log: they count its bytes, block framing included."""

from __future__ import annotations

from dataclasses import dataclass

from coordinates.errors import CoordinateError

BLOCK_LENGTH = 512
BLOCK_HEADER_LENGTH = 12
BLOCK_TRAILER_LENGTH = 4
LSN_MIN = 8192
"""The LSN of a freshly initialised data directory."""
LSN_MAX = 2**63 - 1


def lsn_offset_is_legal(lsn: int) -> bool:
    """Tell whether an LSN lies in the data bytes of its block, where the next record can start.

    It holds of the current LSN and of the checkpoint. The written and the flushed LSN may also lie
    on the border of a block.
    """
    return BLOCK_HEADER_LENGTH <= lsn % BLOCK_LENGTH < BLOCK_LENGTH - BLOCK_TRAILER_LENGTH


@dataclass(frozen=True, slots=True)
class RedoState:
    """The redo log of one server at one moment; what was not read is None.

    Only the range of each number is checked. That they are in order is a claim about the server,
    which may be wrong, and so belongs to the invariants.
    """

    lsn: int
    lsn_checkpoint: int
    lsn_flushed: int | None = None
    lsn_written: int | None = None

    def __post_init__(self) -> None:
        for name, lsn in (
            ("lsn", self.lsn),
            ("lsn_checkpoint", self.lsn_checkpoint),
            ("lsn_flushed", self.lsn_flushed),
            ("lsn_written", self.lsn_written),
        ):
            if lsn is not None and not 0 <= lsn <= LSN_MAX:
                raise CoordinateError(f"expected {name} from 0 to {LSN_MAX}, found {lsn!r}")

    @property
    def checkpoint_age(self) -> int:
        """The bytes of redo that a crash recovery would read."""
        return self.lsn - self.lsn_checkpoint
