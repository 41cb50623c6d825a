"""The checksum of what is sent or kept: CRC-32 (ISO 3309), as zlib, Java and Go have it."""

from __future__ import annotations

import json
import zlib
from typing import Any


def checksum(*pieces: bytes | memoryview) -> int:
    """CRC-32 of the pieces, one after the other; any change within 32 bits changes it."""
    value = 0
    for piece in pieces:
        value = zlib.crc32(piece, value)
    return value


def seal_document(document: dict[str, Any]) -> bytes:
    """A JSON object with its checksum, as a file that people can read."""
    return json.dumps({**document, "checksum": _checksum_of(document)}).encode()


def unseal_document(data: bytes) -> dict[str, Any]:
    """Inverse of `seal_document`.

    Raises:
        ValueError: The bytes are no such object, or have changed.
    """
    document = json.loads(data)
    if not isinstance(document, dict):
        raise ValueError("expected a JSON object")  # noqa: TRY004  what is read, not how it is called
    expected, found = document.pop("checksum", None), _checksum_of(document)
    if found != expected:
        raise ValueError(f"its checksum is {found}, expected {expected}")
    return document


def _checksum_of(document: dict[str, Any]) -> str:
    return f"{checksum(json.dumps(document, sort_keys=True).encode()):08x}"
