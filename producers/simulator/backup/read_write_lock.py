"""A read-write lock in virtual time: what WL#3576 takes from pthread for a critical zone.

Nothing blocks: who has to wait leaves a call, which is made when the wait is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


class ReadWriteLock:
    """Any number of readers, or one writer.

    A writer that waits keeps new readers out, else it might wait for ever.

    Attributes:
        readers: How many have it.
        is_free: Whether a reader gets it at once: no writer has it or waits for it.
    """

    def __init__(self) -> None:
        self.readers = 0
        self.is_free = True
        self._waiting: dict[Hashable, Callable[[], None]] = {}
        self._granted: Callable[[], None] | None = None

    def rdlock(self, thread: Hashable, go_on: Callable[[], None]) -> bool:
        """Take it as a reader; False: ``go_on`` is called when the writer is done, to try again."""
        if not self.is_free:
            self._waiting[thread] = go_on
            return False
        self.readers += 1
        return True

    def unlock_by_reader(self) -> None:
        """A reader gives it back; after the last one it is the writer's that waits."""
        self.readers -= 1
        if not self.readers and self._granted is not None:
            granted, self._granted = self._granted, None
            granted()

    def wrlock(self, granted: Callable[[], None]) -> None:
        """Take it as the writer: ``granted`` is called at once, or when no reader has it."""
        assert self.is_free, "another writer has the lock"
        self.is_free = False
        if self.readers:
            self._granted = granted
        else:
            granted()

    def unlock_by_writer(self) -> None:
        """The writer gives it back, or waits no more; who waits goes on in the order of coming."""
        assert not self.is_free, "no writer has the lock"
        self.is_free = True
        self._granted = None
        waiting, self._waiting = self._waiting, {}
        for go_on in waiting.values():
            go_on()
