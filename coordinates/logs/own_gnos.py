"""The GNOs that a server gives its own transactions: the smallest free one is taken next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tallystick.coordinates.rules.log_stream import OWN_GNO_DENSE
from tallystick.coordinates.state_codec import reset
from tallystick.coordinates.values.growing_set import GrowingGtidSet
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from tallystick.coordinates.audit.reporter import Reporter


@dataclass(eq=False)
class OwnGnos:
    """Free GNOs seen at a row, until the next group of their sid shows whether they were taken.

    And those that the log itself leaves out, until the next row shows what they are.
    """

    _watched: dict[str, tuple[int, GtidSet]] = field(default_factory=dict)
    """By sid: a GNO that is free, and what sessions owned then."""
    _dense: dict[str, int] = field(default_factory=dict)
    """By sid: up to where no number was free at the row before."""
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
        self,
        sids: Iterable[str],
        used: GtidSet,
        logged: GrowingGtidSet,
        owned: GtidSet,
        reporter: Reporter,
    ) -> None:
        """At a row: the smallest free GNO below the last one logged must be the next one taken.

        Where none was free at the row before and two are now, the log itself has left them out
        since then: each number is given out when its group is logged, so that the log is in their
        order.

        Args:
            sids: The server's own UUID, with each of its tags.
            used: Everything executed, purged or owned by a session at the row.
            logged: What the binary log holds.
            owned: The part of ``used`` that sessions own.
            reporter: Where findings go.
        """
        taken = GrowingGtidSet(used | logged.freeze())
        for sid in sids:
            free, last = taken.first_free(sid), logged.last(sid)
            before = self._dense.pop(sid, None)
            is_told = self._judge_left_out(sid, used, logged, reporter)
            if free >= last:
                self._dense[sid] = last
            elif is_told:
                self._watched.setdefault(sid, (free, owned))
            elif before is not None and not taken.contains(sid, free + 1) and free + 1 < last:
                _tell_hole(reporter, sid, free, last, before)
            else:
                # One place alone may be that of a group that failed to be flushed.
                self._watched.setdefault(sid, (free, owned))

    def _judge_left_out(
        self, sid: str, used: GtidSet, logged: GrowingGtidSet, reporter: Reporter
    ) -> bool:
        """At a row: numbers left out that are free still, or came later, were free all the time."""
        free, gno = self._left_out.pop(sid, (0, 0))
        if not free:
            return False
        two = np.array([free, free + 1], dtype=np.int64)
        filled = logged.freeze().contains_gnos(sid, two)
        if (used.contains_gnos(sid, two) & ~filled).any():
            return False  # executed, owned or purged without a place in the log
        _tell_hole(reporter, sid, free, gno, free - 1, is_filled=bool(filled[0]))
        return True

    def judge(
        self, sid: str, gno: int, logged: GrowingGtidSet, at: str, reporter: Reporter
    ) -> None:
        """A group was logged, which ``logged`` does not count yet."""
        watched = self._watched.get(sid)
        if watched is None:
            return
        free, owned = watched
        if owned.contains_gnos(sid, np.array([gno], dtype=np.int64))[0]:
            return
        del self._watched[sid]
        if gno <= free or logged.contains(sid, gno):
            return
        reporter.prose(
            OWN_GNO_DENSE,
            at=f"{sid}:{free}",
            sentence=f"The group at {at} took {sid}:{gno} although {sid}:{free} was free.",
            observed=f"{sid}:{gno}",
            observed_in=f"group at {at}",
            expected=f"{sid}:{free}",
            expected_in="smallest free GNO of the server's own UUID",
            witness=f"{sid}:{free}",
        )


def _tell_hole(
    reporter: Reporter, sid: str, free: int, last: int, before: int, *, is_filled: bool = False
) -> None:
    went_on = f"went on from {sid}:{before} to" if before else "began with"
    behind = (
        f"although {sid}:{free} was free, which came later"
        if is_filled
        else f"and left out {sid}:{free}, which nobody owns"
    )
    reporter.prose(
        OWN_GNO_DENSE,
        at=f"{sid}:{free}",
        sentence=f"The binary log {went_on} {sid}:{last} {behind}.",
        observed=f"{sid}:{last}",
        observed_in="binary log",
        expected=f"{sid}:{free}",
        expected_in="numbers of the server's own UUID, each given out in its turn",
        witness=f"{sid}:{free}",
    )
