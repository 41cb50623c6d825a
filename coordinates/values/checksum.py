"""The checksum of what is sent or kept: CRC-32 (ISO 3309), as zlib, Java and Go have it."""

from __future__ import annotations

import zlib


def checksum(*pieces: bytes | memoryview) -> int:
    """CRC-32 of the pieces, one after the other; any change within 32 bits changes it."""
    value = 0
    for piece in pieces:
        value = zlib.crc32(piece, value)
    return value
