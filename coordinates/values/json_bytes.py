"""Values as JSON, and back: of records, states and results, of which there are many.

In UTF-8; half a surrogate pair, which UTF-8 cannot spell and a text from outside may have, becomes
an escape, as the standard library writes it.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode


def to_json(value: Any) -> bytes:
    """A value of dicts, sequences, texts and numbers as JSON, without spaces."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def to_sorted_json(value: Any) -> str:
    """As ``to_json``, but as text, and equal for equal values: keys are in order."""
    try:
        return _encode_sorted(value).decode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), sort_keys=True)


def of_json(data: bytes | memoryview | str) -> Any:
    """The value of a text; sequences are lists.

    What the standard library reads beside JSON, as half a surrogate pair or NaN, is read, too.

    Raises:
        ValueError: It is no JSON.
        RecursionError: It is too deeply nested.
    """
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return json.loads(data if isinstance(data, str) else bytes(data))
