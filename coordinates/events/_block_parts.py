"""What a block's bytes say, whichever form they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tallystick.coordinates.events.journal import SCHEMA_VERSION
from tallystick.coordinates.values.errors import BlockError

if TYPE_CHECKING:
    from tallystick.coordinates.events.journal import Columns

Bounds = Mapping[str, tuple[int, int]]
"""Of each column its least and its greatest number."""

METADATA_KEYS = ("schema_version", "instance_id", "epoch", "first_sequence", "count")
CLUSTER = "cluster"
"""The metadata that only the blocks of an instance have that belongs to a cluster."""


class BlockParts(NamedTuple):
    """A block in parts: its columns are arrays of their types, and no more is known of them.

    Attributes:
        metadata: All of ``METADATA_KEYS``, and maybe ``CLUSTER``, as a message's headers have them.
        columns: As ``journal.COLUMNS`` has them.
        dictionaries: By index column, whose indices are ABSENT or in it; None is a null.
        texts: Record index to text.
        bounds: Of the columns; None: not known.
    """

    metadata: Mapping[str, bytes]
    columns: Columns
    dictionaries: Mapping[str, Sequence[str | None]]
    texts: Mapping[int, str]
    bounds: Bounds | None = None


def bounds_of(columns: Columns) -> Bounds:
    """The bounds of columns that have at least one record."""
    least, greatest = np.minimum.reduce, np.maximum.reduce
    return {name: (int(least(one)), int(greatest(one))) for name, one in columns.items()}


def check_version(found: bytes | None) -> None:
    """Refuse a block of another version than this one reads.

    Raises:
        BlockError: It is, or has none.
    """
    if found != b"%d" % SCHEMA_VERSION:
        raise BlockError(f"a block of schema version {found!r}: expected {SCHEMA_VERSION}")
