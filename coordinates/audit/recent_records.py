"""The records that were read last, by hash: a record that comes again is compared with the first.

A producer delivers at least once, so a repeated record is dropped by its sequence number. That is
sound where it is the same record; another one under the number of an old one is of a second
producer, and which of the two is right is not known. Hashes are computed where they are needed,
when something comes again or the state is saved: reading goes on as fast as without them.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallystick.coordinates.events.journal import COLUMNS, INDEX_COLUMNS
from tallystick.coordinates.state_codec import TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallystick.coordinates.events.journal import Block

Hashes = npt.NDArray[np.uint32]

RECENT_MAX = 4096
"""So many records can be compared with what comes again; of older ones that is not possible."""
_FACTORS = np.random.default_rng(2**14).integers(
    2**62, 2**63, len(COLUMNS) + 1, dtype=np.uint64
) | np.uint64(1)
_OF_ABSENT = 2**32
"""No value has it, and as the last of all it is where ABSENT points to."""


@dataclass(slots=True, eq=False)
class RecentRecords:
    """Hashes of the last records of one epoch.

    Attributes:
        next_sequence: Sequence number of the record after them.
    """

    next_sequence: int = 0
    _hashes: Hashes = field(default_factory=lambda: np.empty(0, dtype=np.uint32))
    _blocks: list[Block] = field(default_factory=list, metadata=TRANSIENT)
    """Read, but not hashed; the newest records."""

    def add(self, block: Block) -> None:
        """The next records were read; what is between them and the ones before is missing."""
        if block.first_sequence != self.next_sequence:
            self._hashes, self._blocks = self._hashes[:0], []
        self._blocks.append(block)
        self.next_sequence = block.next_sequence
        while self.next_sequence - self._blocks[0].next_sequence >= RECENT_MAX:
            del self._blocks[0]
            self._hashes = self._hashes[:0]

    def compact(self) -> None:
        """Bring everything into the one array that is saved."""
        if self._blocks:
            parts = [self._hashes, record_hashes(self._blocks)]
            self._hashes = np.concatenate(parts)[-RECENT_MAX:]
            self._blocks = []

    def compare(self, again: Block) -> tuple[int | None, int]:
        """Compare records that come again, all of them from before ``next_sequence``.

        Returns:
            Sequence number of the first one that differs, None if none does; and how many of them
            are older than what is remembered.
        """
        self.compact()
        first = self.next_sequence - len(self._hashes)
        forgotten = min(max(0, first - again.first_sequence), len(again))
        known = record_hashes([again])[forgotten:]
        at = again.first_sequence + forgotten - first
        different = (self._hashes[at : at + len(known)] != known).nonzero()[0]
        if not len(different):
            return None, forgotten
        return again.first_sequence + forgotten + int(different[0]), forgotten


def record_hashes(blocks: Sequence[Block]) -> Hashes:
    """A hash of each record's content: all but epoch and sequence number.

    Args:
        blocks: At least one; each follows the one before.
    """
    mixed = np.zeros(sum(map(len, blocks)), dtype=np.uint64)
    for factor, name in zip(_FACTORS[1:], COLUMNS, strict=True):
        columns: list[npt.NDArray[Any]] = [block.columns[name] for block in blocks]
        if name in INDEX_COLUMNS:
            columns = _hashes_of_values(columns, [block.dictionaries[name] for block in blocks])
        numbers = np.concatenate(columns, dtype=np.uint64, casting="unsafe")
        numbers *= factor
        mixed += numbers
    first = blocks[0].first_sequence
    texts = {
        block.first_sequence - first + index: zlib.crc32(text.encode())
        for block in blocks
        for index, text in block.texts.items()
    }
    mixed[list(texts)] += np.array([*texts.values()], dtype=np.uint64) * _FACTORS[0]
    mixed ^= mixed >> np.uint64(32)
    hashes: Hashes = (mixed * _FACTORS[0] >> np.uint64(32)).astype(np.uint32)
    return hashes


def _hashes_of_values(
    columns: list[npt.NDArray[Any]], dictionaries: list[tuple[str, ...]]
) -> list[npt.NDArray[Any]]:
    if len(columns) > 1 and dictionaries.count(dictionaries[0]) == len(dictionaries):
        columns, dictionaries = [np.concatenate(columns)], dictionaries[:1]
    hashes = []
    for column, values in zip(columns, dictionaries, strict=True):
        names = (zlib.crc32(value.encode()) for value in values)
        hashes.append(np.array([*names, _OF_ABSENT], dtype=np.uint64)[column])
    return hashes
