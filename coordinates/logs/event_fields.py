"""Which optional fields the events of a binary log carry: what none of them has, no rule judges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tallystick.coordinates.events._record_checks import GROUP_TYPES
from tallystick.coordinates.events.journal import Stream

if TYPE_CHECKING:
    from tallystick.coordinates.events.journal import Block

_OF_OPENERS = {"log_pos": False, "transaction_length": True, "sequence_number": True}
"""Whether a field is one of the events that open a group, and not of all."""
_IS_OPENER = np.zeros(256, dtype=bool)
_IS_OPENER[list(GROUP_TYPES)] = True
_COLUMNS = ("stream", "type", *_OF_OPENERS)
_BINLOG = int(Stream.BINLOG)


@dataclass(eq=False)
class EventFields:
    """What was seen of the fields since the journal is read without a gap.

    Attributes:
        given: Those that an event had.
        lacking: Those that no event had which could.
    """

    given: set[str] = field(default_factory=set)
    lacking: set[str] = field(default_factory=set)

    def read(self, block: Block, first: int, last: int) -> None:
        """Look at the records of a block from ``first`` up to ``last``."""
        if len(self.given) == len(_OF_OPENERS):
            return
        columns = {name: block.columns[name][first:last] for name in _COLUMNS}
        is_binlog = columns["stream"] == _BINLOG
        if not is_binlog.any():
            return
        is_opener = is_binlog & _IS_OPENER.take(columns["type"])
        for name, is_of_openers in _OF_OPENERS.items():
            values = columns[name][is_opener if is_of_openers else is_binlog]
            if (values > 0).any():
                self.given.add(name)
                self.lacking.discard(name)
            elif len(values) and name not in self.given:
                self.lacking.add(name)
