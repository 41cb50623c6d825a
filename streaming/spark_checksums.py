"""Spark's own small files in a checkpoint location, compared with the checksums beside them.

Hadoop writes ``.NAME.crc`` beside each: a magic, how many bytes a checksum is of, then the CRC-32
of so many bytes each, all big-endian. Spark compares those of state, but reads offsets, commits and
schemas without: a changed digit would be another offset.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tallystick.coordinates.values.checksum import checksum
from tallystick.streaming.errors import CheckpointError
from tallystick.streaming.to_fix import to_rebuild

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAGIC = b"crc\0"
_HEAD = struct.Struct(">4sI")
_PATTERNS = (
    ".metadata.crc",
    "offsets/.*.crc",
    "commits/.*.crc",
    "sources/*/.*.crc",
    "state/*/_*/*/.*.crc",
)


def compare_spark_files(query: Path) -> None:
    """Compare what a query's checkpoint is read from without a comparison.

    Args:
        query: Its checkpoint; nothing is done where there is none.

    Raises:
        CheckpointError: A file is damaged.
    """
    for pattern in _PATTERNS:
        for sums in sorted(query.glob(pattern)):
            path = sums.with_name(sums.name[1 : -len(".crc")])
            if path.name.startswith("."):
                continue  # half of a file, whose writer was killed before it gave it its name
            try:
                expected, found = sums.read_bytes(), b"".join(_sums_of(path, sums))
            except FileNotFoundError:
                continue  # Spark removes old ones; one that it needs and lacks it reports
            if found != expected:
                raise CheckpointError(
                    f"{str(path)!r} is damaged: its checksums are {found[_HEAD.size :].hex()},"
                    f" expected {expected[_HEAD.size :].hex()}. To fix: {to_rebuild(query)}"
                )


def _sums_of(path: Path, sums: Path) -> Iterator[bytes]:
    """What the file of checksums has to be."""
    head = sums.read_bytes()[: _HEAD.size].ljust(_HEAD.size)
    size = max(1, _HEAD.unpack(head)[1])
    yield _HEAD.pack(_MAGIC, size)
    data = path.read_bytes()
    for at in range(0, len(data), size):
        yield checksum(data[at : at + size]).to_bytes(4, "big")
