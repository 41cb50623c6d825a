"""The header of a transaction's update undo log, with its GTID (WL#9211, Format-1 and I-5).

The bytes are written where InnoDB has them, as far as this model uses them. An old server left the
flags at 0 or 1, which reads as: no GTID.
"""

from __future__ import annotations

import struct
from enum import Enum

from tallystick.producers.simulator.innodb.gtid_info import GTID_INFO_SIZE, GtidDesc

TRX_UNDO_TRX_NO = 8
"""End of the transaction: its number in the history, 8 bytes; 0 until it is serialised."""
TRX_UNDO_FLAGS = 20
"""One byte of bit flags; it was TRX_UNDO_XID_EXISTS, 0 or 1."""
TRX_UNDO_FLAG_XID = 0x01
TRX_UNDO_FLAG_GTID = 0x02
TRX_UNDO_LOG_XA_HDR_SIZE = 186
TRX_UNDO_LOG_GTID_VERSION = TRX_UNDO_LOG_XA_HDR_SIZE
TRX_UNDO_LOG_GTID = TRX_UNDO_LOG_XA_HDR_SIZE + 1
TRX_UNDO_LOG_GTID_LEN = GTID_INFO_SIZE
TRX_UNDO_LOG_HDR_SIZE = TRX_UNDO_LOG_GTID + TRX_UNDO_LOG_GTID_LEN
_NUMBER = struct.Struct(">Q")


class UndoState(Enum):
    """State of an undo log."""

    ACTIVE = "active"
    PREPARED = "prepared"
    """An external XA transaction after XA PREPARE; it outlives a restart."""
    TO_PURGE = "to_purge"
    """Committed: in the history list of its rollback segment."""


class UndoLogHeader:
    """Header of one update undo log.

    Attributes:
        content: Its bytes.
        state: Kept in the segment header.
        is_insert_only: The slot was allocated for the GTID alone.
    """

    __slots__ = ("content", "is_insert_only", "state")

    def __init__(self, *, is_insert_only: bool = False) -> None:
        self.content = bytearray(TRX_UNDO_LOG_HDR_SIZE)
        self.state = UndoState.ACTIVE
        self.is_insert_only = is_insert_only

    @property
    def trx_no(self) -> int:
        """Number of the transaction's end, 0 before it."""
        number: int = _NUMBER.unpack_from(self.content, TRX_UNDO_TRX_NO)[0]
        return number

    @trx_no.setter
    def trx_no(self, number: int) -> None:
        _NUMBER.pack_into(self.content, TRX_UNDO_TRX_NO, number)

    def copy(self) -> UndoLogHeader:
        """The same header in another data directory."""
        made = UndoLogHeader(is_insert_only=self.is_insert_only)
        made.content[:] = self.content
        made.state = self.state
        return made

    def write_xid(self) -> None:
        """The transaction is an external XA transaction."""
        self.content[TRX_UNDO_FLAGS] |= TRX_UNDO_FLAG_XID


def trx_undo_gtid_write(header: UndoLogHeader, desc: GtidDesc) -> None:
    """Write a GTID into the header, replacing the one of XA PREPARE if there is one."""
    content = header.content
    content[TRX_UNDO_FLAGS] |= TRX_UNDO_FLAG_GTID
    content[TRX_UNDO_LOG_GTID_VERSION] = desc.version
    content[TRX_UNDO_LOG_GTID:TRX_UNDO_LOG_HDR_SIZE] = desc.info


def has_gtid(header: UndoLogHeader) -> bool:
    """Tell whether the flag of the GTID is set."""
    return bool(header.content[TRX_UNDO_FLAGS] & TRX_UNDO_FLAG_GTID)


def trx_undo_gtid_read(header: UndoLogHeader) -> GtidDesc | None:
    """The GTID in the header; None if the flag is not set."""
    if not has_gtid(header):
        return None
    content = header.content
    info = bytes(content[TRX_UNDO_LOG_GTID:TRX_UNDO_LOG_HDR_SIZE])
    return GtidDesc(info, content[TRX_UNDO_LOG_GTID_VERSION])
