"""The clock of an instance's observer, as its answers to requests show it.

An answer has two times: when it was asked for, by the clock of who asks all instances, and when it
was written, by the observer's own. The difference is what the observer's clock is ahead, and what
the answer took. docs/decisions/0014-clocks-that-differ.md.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

TOLERANCE_US = 1_000_000
"""What an answer may take: clocks that differ by less cannot be told from slow answers."""
WINDOW = 4
"""Answers that are looked at: a clock that was set is known after as many."""
LAG_MAX_US = 86_400_000_000
"""Nothing is so late: a journal without times numbers its records."""
REMEMBERED_MAX = 256


@dataclass(slots=True)
class ObserverClock:
    """The answers of one instance.

    Attributes:
        answers: When each was asked for, and how long after that it was written, oldest first.
        is_reported: Whether it has been reported that the clock is wrong.
    """

    answers: list[tuple[int, int]] = field(default_factory=list)
    is_reported: bool = False

    def answered(self, requested_at: object, ts: int) -> None:
        """A row was written at ``ts``."""
        if isinstance(requested_at, int) and abs(ts - requested_at) < LAG_MAX_US:
            self.answers.append((requested_at, ts - requested_at))
            del self.answers[:-REMEMBERED_MAX]

    def request_at(self, ts: int) -> int | None:
        """The request of the first answer at or after a time of this clock, else of the last."""
        later = (asked for asked, lag in self.answers if asked + lag >= ts)
        return next(later, self.answers[-1][0] if self.answers else None)

    def has_answered(self, request: int) -> bool:
        """Whether there is an answer to that request, or to a later one."""
        return bool(self.answers) and self.answers[-1][0] >= request

    def lags(self, request: int) -> list[int]:
        """How long after their requests the answer to this one and some before it were written.

        Whatever else is known by now: so the order in which journals arrive makes no difference.
        """
        at = bisect_left(self.answers, request, key=_request) + 1
        return [lag for _, lag in self.answers[max(at - WINDOW, 0) : at]]

    def is_found_wrong(self) -> bool:
        """Whether the last answers show for the first time that the clock is wrong.

        All of them were written before their requests, or too late for an answer.
        """
        lags = [lag for _, lag in self.answers[-WINDOW:]]
        if self.is_reported or len(lags) < WINDOW:
            return False
        self.is_reported = min(lags) > TOLERANCE_US or max(lags) < -TOLERANCE_US
        return self.is_reported


def ahead(clock: ObserverClock, of: ObserverClock, request: int) -> int:
    """By how many microseconds one clock may be ahead of another when a request was answered.

    Without answers of both nothing is known: then they are taken for one clock.
    """
    lags, others = clock.lags(request), of.lags(request)
    return TOLERANCE_US + max(0, max(lags) - min(others)) if lags and others else 0


def _request(answer: tuple[int, int]) -> int:
    return answer[0]
