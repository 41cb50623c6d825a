"""The records that were read last, by hash: a record that comes again is compared with the first.

A producer delivers at least once, so a repeated record is dropped by its sequence number. That is
sound where it is the same record; another one under the number of an old one is of a second
producer, and which of the two is right is not known. Hashes are computed where they are needed,
when something comes again or the state is saved: reading goes on as fast as without them.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
_INDEXED = [(row, name) for row, name in enumerate(COLUMNS) if name in INDEX_COLUMNS]


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
    # By column and record: few operations on all of them, as a block may have but one record.
    values = np.concatenate([_values_of(block) for block in blocks], axis=1)
    texts: dict[int, int] = {}
    at = 0
    for block in blocks:
        texts |= {at + index: zlib.crc32(text.encode()) for index, text in block.texts.items()}
        at += len(block)
    values *= _FACTORS[1:, None]
    mixed = np.add.reduce(values)
    mixed[list(texts)] += np.array([*texts.values()], dtype=np.uint64) * _FACTORS[0]
    mixed ^= mixed >> np.uint64(32)
    hashes: Hashes = (mixed * _FACTORS[0] >> np.uint64(32)).astype(np.uint32)
    return hashes


def _values_of(block: Block) -> npt.NDArray[np.uint64]:
    """All columns, one below the other; instead of an index what it stands for, by hash."""
    columns = [block.columns[name] for name in COLUMNS]
    values: npt.NDArray[np.uint64] = np.concatenate(columns, dtype=np.uint64, casting="unsafe")
    values = values.reshape(len(COLUMNS), -1)
    for row, name in _INDEXED:
        meanings = block.dictionaries[name]
        if meanings:
            hashes = [*(zlib.crc32(text.encode()) for text in meanings), _OF_ABSENT]
            values[row] = np.array(hashes, dtype=np.uint64)[block.columns[name]]
        else:
            values[row] = _OF_ABSENT
    return values
