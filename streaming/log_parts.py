"""Entries of a log, several to a row of its list state.

RocksDB keeps a list as the pieces that were appended to it, and joins them one by one when it
writes them to a file: each time all that it has joined is copied. So a list of thousands of states
would be copied thousands of times. What is appended at once also travels to the state store whole,
and Arrow and Spark's sockets take at most 2 GiB. On its way Spark copies a row five times, once
into twice its length, and what is longer than half of a region of Java's heap is a burden to it
(``session``).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tallystick.streaming.audit_log import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PART_BYTES = 7 << 19
"""Entries of so many bytes are one row; one that is larger has a row of its own."""
PARTS_MAX = 16
"""About so many rows are written at once: of more entries rows are longer, ..."""
PART_BYTES_MAX = 64 << 20
"""... until they have so many bytes."""
_HEAD = struct.Struct("<qqIIQ")
"""Number and check of an entry; lengths of kind, names and data, which follow."""


def parts_of(entries: Sequence[Entry]) -> Iterator[bytes]:
    """Rows of the list state, in the order of the entries."""
    total = sum(len(entry.data) for entry in entries)
    bytes_max = min(max(PART_BYTES, total // PARTS_MAX), PART_BYTES_MAX)
    part: list[bytes] = []
    size = 0
    for number, kind, names, data, check in entries:
        texts = kind.encode(), names.encode()
        head = _HEAD.pack(number, check, *map(len, texts), len(data))
        length = sum(map(len, (head, *texts, data)))
        if part and size + length > bytes_max:
            yield b"".join(part)
            part, size = [], 0
        part += (head, *texts, data)
        size += length
    if part:
        yield b"".join(part)


def entries_of(part: bytes) -> Iterator[Entry]:
    """Inverse of ``parts_of``, of one row.

    What is damaged so that it has no end is left out, with what follows: a log knows which numbers
    it must have, and compares each entry's check.
    """
    at = 0
    while at + _HEAD.size <= len(part):
        number, check, *lengths = _HEAD.unpack_from(part, at)
        at += _HEAD.size
        if sum(lengths) > len(part) - at:
            return
        kind_end, names_end, end = at + lengths[0], at + sum(lengths[:2]), at + sum(lengths)
        yield Entry(
            number,
            part[at:kind_end].decode("utf-8", "replace"),
            part[kind_end:names_end].decode("utf-8", "replace"),
            part[names_end:end],
            check,
        )
        at = end
