"""The headers of a block's message, as pairs or as JSON, compared with what the block says.

As JSON they are as Spark writes an array of them: objects with ``key``, and with ``value`` in
base64 unless that is NULL.
"""

from __future__ import annotations

import json
from binascii import a2b_base64, b2a_base64
from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING

from tallystick.coordinates.events._block_parts import CLUSTER, METADATA_KEYS
from tallystick.coordinates.values.errors import BlockError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Headers = Collection[tuple[str, bytes | None]] | str
"""Of a message: pairs of name and value, or JSON."""


def headers_json(headers: Iterable[tuple[str, bytes | None]]) -> str:
    """Headers as JSON."""
    return f"[{','.join(map(_object, headers))}]"


@lru_cache(maxsize=1 << 14)
def _object(header: tuple[str, bytes | None]) -> str:
    name, value = header
    key = f'"key":"{name}"' if name in _NAMES else f'"key":{json.dumps(name, ensure_ascii=False)}'
    if value is None:
        return f"{{{key}}}"
    return f'{{{key},"value":"{b2a_base64(value, newline=False).decode("ascii")}"}}'


_NAMES = frozenset({*METADATA_KEYS, CLUSTER})
_SEQUENCE = "first_sequence"
_SEQUENCE_VALUE = f'"key":"{_SEQUENCE}","value":"'


@lru_cache(maxsize=1 << 14)
def _around_sequence(*others: bytes | None) -> tuple[str, str]:
    """What is before and after the value that differs from block to block.

    Args:
        others: Values of the other headers, in order; the last is the cluster, None without one.
    """
    values = iter(others)
    headers = [(name, b"" if name == _SEQUENCE else next(values)) for name in METADATA_KEYS]
    cluster = next(values)
    text = headers_json(headers if cluster is None else [*headers, (CLUSTER, cluster)])
    before, value, after = text.partition(_SEQUENCE_VALUE)
    return before + value, after


def headers_of_json(text: str) -> list[tuple[str, bytes | None]]:
    """Inverse of ``headers_json``."""
    found = []
    for header in json.loads(text):
        value = header.get("value")
        found.append((header.get("key", ""), None if value is None else a2b_base64(value)))
    return found


def check_headers(headers: Headers, metadata: Mapping[str, bytes]) -> None:
    """Compare a message's headers with what its block has.

    Args:
        headers: Those of other names are nobody's business here.
        metadata: As ``_block_parts.BlockParts`` has it.

    Raises:
        BlockError: They differ.
    """
    if isinstance(headers, str):
        # As the producers write them, in this order: nearly always, and quicker than to read them.
        others = [metadata[name] for name in METADATA_KEYS if name != _SEQUENCE]
        before, after = _around_sequence(*others, metadata.get(CLUSTER))
        sequence = b2a_base64(metadata[_SEQUENCE], newline=False).decode("ascii")
        if headers == f"{before}{sequence}{after}":
            return
        headers = headers_of_json(headers)
    missing = {*METADATA_KEYS, *([CLUSTER] if CLUSTER in metadata else [])}
    for name, value in headers:
        if name in _NAMES:
            missing.discard(name)
            expected = metadata.get(name)
            if value != expected:
                raise BlockError(
                    f"a message whose header {name!r} is {repr(value)[:80]}: its block has"
                    f" {'none' if expected is None else repr(expected[:80])}"
                )
    if missing:
        raise BlockError(f"a message without the header {min(missing)!r}")
