"""A critical zone: threads are in it while they hold a ticket; it can be closed and run empty.

The general mechanism of WL#3576, "Critical Zone API"; other modules say what a zone is for; a
server may have several. Nothing blocks here: who has to wait leaves a call, which is made when the
wait is over. Misuse (opened twice, a ticket dropped twice) is a mistake of ours and asserted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from tallystick.producers.simulator.backup.read_write_lock import ReadWriteLock

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from types import TracebackType


class CriticalZone:
    """A zone (the document's Critical_zone), made of a read-write lock.

    Whoever enters takes the lock as a reader, whoever closes the zone as its writer; yet closing is
    apart from waiting, so that what goes on inside meanwhile can be seen.

    Args:
        record: Called with the step (``close``, ``wait``, ``open``, ``enter``, ``drop``) and what
            there is to say about it.

    Attributes:
        inside: The tickets that are held, by their numbers.
    """

    def __init__(self, record: Callable[..., None]) -> None:
        self._record = record
        self._lock = ReadWriteLock()
        self._last_number = 0
        self._is_granted = False
        self._emptied: Callable[[], None] | None = None
        self.inside: dict[int, Ticket] = {}

    @property
    def is_open(self) -> bool:
        """Whether threads may enter."""
        return self._lock.is_free

    def close(self, **about: Any) -> None:
        """Let nobody in any more; ``about`` is recorded with it."""
        assert self.is_open, "the zone is closed already"
        self._is_granted = False
        self._record("close", **about)
        self._lock.wrlock(self._grant)

    def _grant(self) -> None:
        self._is_granted = True
        emptied, self._emptied = self._emptied, None
        if emptied is not None:
            emptied()

    def wait(self, emptied: Callable[[], None]) -> None:
        """Call ``emptied`` when nobody is inside: at once, or when the last ticket is dropped."""
        assert not self.is_open, "an open zone need not run empty"
        self._record("wait")
        if self._is_granted:
            emptied()
        else:
            self._emptied = emptied

    def open(self) -> None:
        """Let threads in again, those first that wait, in the order in which they came."""
        assert not self.is_open, "the zone is open already"
        self._emptied = None
        self._record("open")
        self._lock.unlock_by_writer()

    def enter(self, thread: Hashable, go_on: Callable[[], None]) -> Ticket | None:
        """Enter; None while the zone is closed: ``go_on`` is called when it opens, to try again."""
        if not self._lock.rdlock(thread, go_on):
            return None
        self._last_number += 1
        ticket = Ticket(self, self._last_number)
        self.inside[ticket.number] = ticket
        self._record("enter", ticket=ticket.number)
        return ticket

    def leave(self, number: int) -> None:
        """What ``Ticket.drop`` does to the zone."""
        del self.inside[number]
        self._record("drop", ticket=number)
        self._lock.unlock_by_reader()


@final
class Ticket:
    """Its holder is in the zone. The end of a ``with`` block is the document's destructor."""

    __slots__ = ("_zone", "number")

    def __init__(self, zone: CriticalZone, number: int) -> None:
        self._zone: CriticalZone | None = zone
        self.number = number

    @property
    def is_held(self) -> bool:
        """Whether it was neither dropped nor handed on."""
        return self._zone is not None

    def drop(self) -> None:
        """Leave the zone."""
        zone = self._zone
        assert zone is not None, f"ticket {self.number} is not held any more"
        self._zone = None
        zone.leave(self.number)

    def hand_on(self) -> Ticket:
        """Hand the entry on to a new ticket, as returning a ticket does; this one is empty."""
        zone = self._zone
        assert zone is not None, f"ticket {self.number} is not held any more"
        self._zone = None
        ticket = Ticket(zone, self.number)
        zone.inside[self.number] = ticket
        return ticket

    def __enter__(self) -> Ticket:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.is_held:
            self.drop()
