"""The 64 bytes that InnoDB keeps of a GTID (WL#9211, Gtid_info and Gtid_desc)."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

GTID_INFO_SIZE = 64
"""Bytes of a serialised GTID."""
GTID_VERSION = 1
"""The GTID as text, padded with zeros: ``uuid:gno``."""
GTID_VERSION_TAGGED = 2
"""A GTID with a tag, whose text may be too long: UUID, length of the tag, tag, GNO in 8 bytes.

The document has version 1 only; its version byte is there for such a change.
"""
_UUID_LENGTH = 36


class GtidDesc(NamedTuple):
    """A serialised GTID (Gtid_desc).

    Attributes:
        info: ``GTID_INFO_SIZE`` bytes.
        version: How they are to be read.
    """

    info: bytes
    version: int

    def gtid(self) -> tuple[str, int]:
        """The sid (UUID, with its tag if it has one) and the GNO.

        Raises:
            ValueError: The version is not known.
        """
        if self.version == GTID_VERSION:
            sid, _, gno = self.info.rstrip(b"\0").decode("ascii").rpartition(":")
            return sid, int(gno)
        if self.version == GTID_VERSION_TAGGED:
            end = 17 + self.info[16]
            tag = self.info[17:end].decode("ascii")
            return f"{UUID(bytes=self.info[:16])}:{tag}", int.from_bytes(
                self.info[end : end + 8], "little"
            )
        raise ValueError(f"expected GTID version 1 or 2 in an undo header, got {self.version!r}")


def serialise(sid: str, gno: int) -> GtidDesc:
    """The bytes of one GTID."""
    if len(sid) == _UUID_LENGTH:
        return GtidDesc(f"{sid}:{gno}".encode("ascii").ljust(GTID_INFO_SIZE, b"\0"), GTID_VERSION)
    tag = sid[_UUID_LENGTH + 1 :].encode("ascii")
    info = UUID(sid[:_UUID_LENGTH]).bytes + bytes((len(tag),)) + tag + gno.to_bytes(8, "little")
    return GtidDesc(info.ljust(GTID_INFO_SIZE, b"\0"), GTID_VERSION_TAGGED)
