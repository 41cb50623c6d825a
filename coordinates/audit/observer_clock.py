"""The clock of an instance's observer: its name, and what its answers to requests show of it.

Journals that were written by one clock are compared by their times alone. Of other clocks the
answers show how far apart they may be: an answer has two times, when it was asked for, by the clock
of who asks all instances, and when its observer received that, or wrote the answer where nothing
else is known, by the observer's own. The difference is what the observer's clock is ahead, and what
lies between. docs/decisions/0014-clocks-that-differ.md and 0016-one-clock-for-several-journals.md.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

TOLERANCE_US = 1_000_000
"""What an answer may take: clocks that differ by less cannot be told from slow answers."""
WINDOW = 4
"""Answers that are looked at: a clock that was set is known after as many."""
LAG_MAX_US = 86_400_000_000
"""Nothing is so late: a journal without times numbers its records."""
REMEMBERED_MAX = 256
OBSERVERS_MAX = 16


class Answer(NamedTuple):
    """When one was asked for, when it was written, and how long after the request it was received.

    The first by the clock of who asks, the last between the two clocks; ``behind_us`` less where
    the journal's time had fallen behind until then.
    """

    requested_at: int
    ts: int
    lag: int
    behind_us: int = 0


class Writing(NamedTuple):
    """One observer's part of a journal.

    Attributes:
        clock: The name of its clock.
        after: The last time in the journal before it: later times are of this clock.
        until: Up to when the journal was known when the part ended; None: it goes on.
    """

    clock: str
    after: int
    until: int | None = None


@dataclass(slots=True)
class ObserverClock:
    """Who wrote one instance's journal, and when requests were answered there.

    Attributes:
        answers: Those to requests with times, oldest first.
        is_reported: Whether it has been reported that the clock is wrong.
        writings: The parts of the journal whose observer is known, oldest first.
    """

    answers: list[Answer] = field(default_factory=list)
    is_reported: bool = False
    writings: list[Writing] = field(default_factory=list)

    @property
    def last_asked(self) -> int:
        """When the newest request that was answered was made; 0: none is known."""
        return max((answer.requested_at for answer in self.answers), default=0)

    def change(self, clock: str, last_ts: int, known_ts: int) -> None:
        """Another observer goes on with the journal.

        Args:
            clock: The name of its clock.
            last_ts: The last time in the journal so far.
            known_ts: Up to when the journal is known.
        """
        self.lose(known_ts)
        self.writings = [*self.writings[1 - OBSERVERS_MAX :], Writing(clock, last_ts)]

    def lose(self, known_ts: int) -> None:
        """Records are missing: who goes on with the journal is not known."""
        if self.writings and self.writings[-1].until is None:
            self.writings[-1] = self.writings[-1]._replace(until=known_ts)

    def name(self, first_ts: int, last_ts: int) -> str | None:
        """The clock by which the journal was written between two times, None not known."""
        for one in reversed(self.writings):
            if one.after < first_ts and (one.until is None or last_ts <= one.until):
                return one.clock
        return None

    def answered(
        self, requested_at: object, ts: int, received_at: int | None = None, behind_us: int = 0
    ) -> None:
        """A row was written at ``ts``."""
        if isinstance(requested_at, int) and abs(ts - requested_at) < LAG_MAX_US:
            received_at = ts if received_at is None else received_at
            lag = received_at - requested_at
            self.answers.append(Answer(requested_at, ts, lag, behind_us))
            del self.answers[:-REMEMBERED_MAX]

    def request_at(self, ts: int) -> int | None:
        """The request of the first answer at or after a time of this clock, else of the last."""
        later = (one.requested_at for one in self.answers if one.ts >= ts)
        return next(later, self.answers[-1].requested_at if self.answers else None)

    def has_answered(self, request: int) -> bool:
        """Whether there is an answer to that request, or to a later one."""
        return bool(self.answers) and self.answers[-1].requested_at >= request

    def lags(self, request: int) -> list[int]:
        """How long after it this request and some before it were received.

        Whatever else is known by now: so the order in which journals arrive makes no difference.
        """
        at = bisect_left(self.answers, request, key=attrgetter("requested_at")) + 1
        known = self.answers[max(at - WINDOW, 0) : at]
        behind = (one.lag - one.behind_us for one in known if one.behind_us)
        return [*(one.lag for one in known), *behind]

    def is_found_wrong(self) -> bool:
        """Whether the last answers show for the first time that the clock is wrong.

        All of them were received before they were sent, or too late.
        """
        lags = [one.lag for one in self.answers[-WINDOW:]]
        if self.is_reported or len(lags) < WINDOW:
            return False
        self.is_reported = min(lags) > TOLERANCE_US or max(lags) < -TOLERANCE_US
        return self.is_reported


def is_one_clock(one: ObserverClock, other: ObserverClock, first_ts: int, last_ts: int) -> bool:
    """Whether both journals were written by one clock between two times.

    They say so, and the answers do not show that one of them has other times all the same.
    """
    name = one.name(first_ts, last_ts)
    if name is None or name != other.name(first_ts, last_ts):
        return False
    least = [
        min(each.lag for each in clock.answers[-WINDOW:]) for clock in (one, other) if clock.answers
    ]
    return len(least) < 2 or abs(least[0] - least[1]) <= TOLERANCE_US


def ahead(clock: ObserverClock, of: ObserverClock, request: int) -> int:
    """By how many microseconds one clock may be ahead of another when a request was answered.

    Without answers of both nothing is known: then they are taken for one clock.
    """
    lags, others = clock.lags(request), of.lags(request)
    return TOLERANCE_US + max(0, max(lags) - min(others)) if lags and others else 0
