"""Short names for the UUIDs of GTIDs, tagged or not: in columns a number stands for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.state_codec import TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


@dataclass(slots=True, eq=False)
class SidTable:
    """A table of sids that grows; a sid keeps its number.

    Attributes:
        sids: By their numbers.
    """

    sids: list[str] = field(default_factory=list, kw_only=True)
    _sid_index: dict[str, int] = field(init=False, metadata=TRANSIENT)

    def __post_init__(self) -> None:
        self._sid_index = {sid: number for number, sid in enumerate(self.sids)}

    def sid_number(self, sid: str) -> int:
        """Index of ``sid`` in the table, entered if new."""
        number = self._sid_index.get(sid)
        if number is None:
            number = self._sid_index[sid] = len(self.sids)
            self.sids.append(sid)
        return number

    def sid_column(self, names: Sequence[str], local: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """Indexes of ``names`` as indexes of the table, whose sids they become; -1 stays -1."""
        numbers = [self.sid_number(name) for name in names]
        if numbers == [*range(len(names))]:
            return local.astype(np.int32, copy=False)
        column: npt.NDArray[np.int32] = np.array([*numbers, -1], dtype=np.int32)[local]
        return column
