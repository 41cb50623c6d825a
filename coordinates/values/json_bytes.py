"""Values as JSON in bytes, and back: of states and results, of which there are many.

In UTF-8; half a surrogate pair, which UTF-8 cannot spell and a text from outside may have, becomes
an escape, as the standard library writes it.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def to_json(value: Any) -> bytes:
    """A value of dicts, sequences, texts and numbers as JSON, without spaces."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def of_json(data: bytes | memoryview) -> Any:
    """Inverse of ``to_json``; sequences are lists.

    Raises:
        ValueError: The bytes are no JSON.
    """
    try:
        return _decode(data)
    except msgspec.DecodeError:
        return json.loads(bytes(data))
