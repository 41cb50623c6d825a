"""The GNOs that a server gives its own transactions: the smallest free one is taken next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coordinates.growing_set import GrowingGtidSet
from coordinates.gtid import GtidSet
from coordinates.invariants.log_stream import OWN_GNO_DENSE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coordinates.reporter import Reporter


class OwnGnos:
    """Free GNOs seen at a row, until the next group of their sid shows whether they were taken."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._watched: dict[str, tuple[int, GtidSet]] = {}
        self._dense: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._watched)

    def forget(self) -> None:
        """The server started, or records are missing."""
        self._watched = {}
        self._dense = {}

    def watch(
        self, sids: Iterable[str], used: GtidSet, logged: GrowingGtidSet, owned: GtidSet
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
        """
        taken = GrowingGtidSet(used | logged.freeze())
        for sid in sids:
            free, last = taken.first_free(sid), logged.last(sid)
            before = self._dense.pop(sid, None)
            if free >= last:
                self._dense[sid] = last
            elif before is not None and not taken.contains(sid, free + 1) and free + 1 < last:
                self._tell_hole(sid, free, last, before)
            else:
                # One place alone may be that of a group that failed to be flushed.
                self._watched.setdefault(sid, (free, owned))

    def _tell_hole(self, sid: str, free: int, last: int, before: int) -> None:
        self._reporter.broken(
            OWN_GNO_DENSE,
            at=f"{sid}:{free}",
            sentence=f"The binary log went on from {sid}:{before} to {sid}:{last} and left out "
            f"{sid}:{free}, which nobody owns.",
            observed=f"{sid}:{last}",
            observed_in="binary log since the row before",
            expected=f"{sid}:{free}",
            expected_in="numbers of the server's own UUID, each given out in its turn",
            witness=f"{sid}:{free}",
        )

    def judge(self, sid: str, gno: int, logged: GrowingGtidSet, at: str) -> None:
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
        self._reporter.broken(
            OWN_GNO_DENSE,
            at=f"{sid}:{free}",
            sentence=f"The group at {at} took {sid}:{gno} although {sid}:{free} was free.",
            observed=f"{sid}:{gno}",
            observed_in=f"group at {at}",
            expected=f"{sid}:{free}",
            expected_in="smallest free GNO of the server's own UUID",
            witness=f"{sid}:{free}",
        )

    def dump(self) -> list[list[Any]]:
        """For the state bytes."""
        return [[sid, free, str(owned)] for sid, (free, owned) in self._watched.items()]

    def dump_dense(self) -> dict[str, int]:
        """For the state bytes: up to where no number was free at the row before."""
        return dict(self._dense)

    def load(self, document: list[list[Any]], dense: dict[str, int]) -> None:
        """Inverse of ``dump`` and ``dump_dense``."""
        self._dense = dict(dense)
        self._watched = {sid: (free, GtidSet.parse(owned)) for sid, free, owned in document}
