"""Compact bytes for state and facts: one JSON document beside raw numpy arrays, with a version.

Arrays are stored little endian with their dtype, so a reader needs no schema; nothing in here can
run code when it is read (unlike pickle).
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.values.errors import StateVersionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

_HEAD = struct.Struct("<4sHI")


def pack(
    magic: bytes, version: int, document: Any, arrays: Mapping[str, npt.NDArray[Any]] | None = None
) -> bytes:
    """``document`` (JSON) and ``arrays`` (one-dimensional) as bytes behind a four-byte magic."""
    index: list[tuple[str, str, int]] = []
    raw: list[bytes] = []
    for name, array in (arrays or {}).items():
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        index.append((name, little.dtype.str, len(array)))
        raw.append(little.tobytes())
    head = json.dumps([document, index], separators=(",", ":")).encode()
    return b"".join((_HEAD.pack(magic, version, len(head)), head, *raw))


def unpack(magic: bytes, version: int, data: bytes) -> tuple[Any, dict[str, npt.NDArray[Any]]]:
    """Inverse of ``pack``.

    Raises:
        StateVersionError: The bytes are of another kind or version, or cut short.
    """
    if len(data) < _HEAD.size:
        raise StateVersionError(f"expected {magic!r} bytes, got {len(data)} bytes: {data[:20]!r}")
    found, found_version, length = _HEAD.unpack_from(data)
    if found != magic or found_version != version:
        raise StateVersionError(
            f"expected {magic!r} of version {version}, got {found!r} of version {found_version}"
        )
    offset = _HEAD.size + length
    if offset > len(data):
        raise StateVersionError(f"{magic!r} bytes end inside their document")
    try:
        document, index = json.loads(data[_HEAD.size : offset])
    except ValueError as error:
        raise StateVersionError(f"{magic!r} bytes have no readable document: {error}") from None
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, dtype, count in index:
        size = np.dtype(dtype).itemsize * count
        if offset + size > len(data):
            raise StateVersionError(f"{magic!r} bytes end inside array {name!r}")
        arrays[name] = np.frombuffer(data, dtype=dtype, count=count, offset=offset)
        offset += size
    if offset != len(data):
        raise StateVersionError(f"{magic!r} bytes go on behind their end, by {len(data) - offset}")
    return document, arrays
