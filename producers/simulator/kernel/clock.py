"""Virtual time: a queue of calls in order of their moments; no wall clock anywhere."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Blockable(Protocol):
    """What may have to be left alone for a while.

    Attributes:
        blocked_until: Until when.
    """

    blocked_until: int


Call = tuple[int, int, "Blockable | None", "Callable[..., None]", tuple[Any, ...]]


class Clock:
    """Microseconds of virtual time and the calls that wait for their moment."""

    __slots__ = ("_calls", "_count", "now")

    def __init__(self, now: int = 0) -> None:
        self.now = now
        self._calls: list[Call] = []
        self._count = 0

    def schedule(
        self, ts: int, instance: Blockable | None, act: Callable[..., None], *args: Any
    ) -> None:
        """Call ``act(*args)`` at ``ts``, or as soon as ``instance`` is not blocked then.

        Calls of one moment are made in the order in which they were scheduled.
        """
        self.push(ts, instance, act, args)

    def push(
        self, ts: int, instance: Blockable | None, act: Callable[..., None], args: tuple[Any, ...]
    ) -> None:
        """As ``schedule``, for who has the arguments together already."""
        heappush(self._calls, (ts, self._count, instance, act, args))
        self._count += 1

    def run(self, to_ts: int) -> None:
        """Make all calls up to ``to_ts`` (included); the time is then ``to_ts``."""
        calls = self._calls
        while calls and calls[0][0] <= to_ts:
            ts, _, instance, act, args = heappop(calls)
            if instance is not None and instance.blocked_until > ts:
                self.push(instance.blocked_until, instance, act, args)
                continue
            self.now = ts
            act(*args)
        self.now = max(self.now, to_ts)
