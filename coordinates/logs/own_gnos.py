"""The GNOs that a server gives its own transactions: the smallest free one is taken next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tallystick.coordinates.state_codec import reset
from tallystick.coordinates.values.growing_set import GrowingGtidSet
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt


class GnoHole(NamedTuple):
    """A number that was free when a greater one was taken; ``is_filled``: it came later."""

    sid: str
    free: int
    taken: int
    is_filled: bool


@dataclass(eq=False)
class OwnGnos:
    """Free GNOs seen at a row, until the next group of their sid shows whether they were taken.

    And those that the log itself leaves out, until the next row shows what they are.
    """

    _watched: dict[str, tuple[int, GtidSet]] = field(default_factory=dict)
    """By sid: a GNO that is free, and what sessions owned then."""
    _dense: set[str] = field(default_factory=set)
    """Sids of which no number was free at the previous row."""
    _left_out: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By sid: the first number left out, and the one in its place."""

    def __len__(self) -> int:
        return len(self._watched)

    def forget(self) -> None:
        """The server started, or records are missing."""
        reset(self)

    def forget_left_out(self) -> None:
        """The own numbers come through a channel, in an order that is not theirs."""
        self._left_out = {}

    def follow(self, sid: str, gnos: npt.NDArray[np.int64], logged: GrowingGtidSet) -> None:
        """Groups of the server's own UUID were logged, which ``logged`` does not count yet.

        The first that leaves out two numbers or more is remembered: the numbers may be executed
        though never logged, or be filled before a row is taken. One alone may be that of a group
        that failed to be flushed.
        """
        free = logged.first_free(sid)
        if sid in self._left_out or not len(gnos):
            return
        if gnos[0] == free and (len(gnos) == 1 or bool((gnos[1:] - gnos[:-1] == 1).all())):
            return
        taken = GrowingGtidSet(logged.freeze())
        for gno in gnos.tolist():
            free = taken.first_free(sid)
            if gno > free + 1 and not taken.contains(sid, free + 1):
                self._left_out[sid] = (free, gno)
                return
            taken.add(sid, gno)

    def watch(
        self, sids: Iterable[str], used: GtidSet, logged: GrowingGtidSet, owned: GtidSet
    ) -> list[GnoHole]:
        """At a row: the smallest free GNO below the last one logged must be the next one taken.

        Where none was free at the previous row and two are now, the log itself has left them out
        since then: each number is given out when its group is logged, so that the log is in their
        order.

        Args:
            sids: The server's own UUID, with each of its tags.
            used: Everything executed, purged or owned by a session at the row.
            logged: What the binary log holds.
            owned: The part of ``used`` that sessions own.

        Returns:
            Numbers that were left out, at most one of each sid.
        """
        taken = GrowingGtidSet(used | logged.freeze())
        holes = []
        for sid in sids:
            free, last = taken.first_free(sid), logged.last(sid)
            was_dense = sid in self._dense
            self._dense.discard(sid)
            left_out = self._find_left_out(sid, used, logged)
            if left_out is not None:
                holes.append(left_out)
            if free >= last:
                self._dense.add(sid)
            elif (
                left_out is None
                and was_dense
                and not taken.contains(sid, free + 1)
                and free + 1 < last
            ):
                holes.append(GnoHole(sid, free, last, is_filled=False))
            else:
                # One number alone may be that of a group that failed to be flushed.
                self._watched.setdefault(sid, (free, owned))
        return holes

    def _find_left_out(self, sid: str, used: GtidSet, logged: GrowingGtidSet) -> GnoHole | None:
        """At a row: numbers left out that are free still, or came later, were free all the time."""
        free, gno = self._left_out.pop(sid, (0, 0))
        if not free:
            return None
        two = np.array([free, free + 1], dtype=np.int64)
        filled = logged.freeze().contains_gnos(sid, two)
        if (used.contains_gnos(sid, two) & ~filled).any():
            return None  # executed, owned or purged, and never in the log
        return GnoHole(sid, free, gno, is_filled=bool(filled[0]))

    def passed_over(self, sid: str, gno: int, logged: GrowingGtidSet) -> int | None:
        """The watched free number that a group did not take; ``logged`` does not count it yet."""
        watched = self._watched.get(sid)
        if watched is None:
            return None
        free, owned = watched
        if owned.contains_gnos(sid, np.array([gno], dtype=np.int64))[0]:
            return None
        del self._watched[sid]
        return None if gno <= free or logged.contains(sid, gno) else free
