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
    behind_us: int


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
        has_ended: Whether who writes the journal has said that the whole observation ends here.
        is_measured: Whether who writes the journal has answered a request since it began.
        has_observer: Whether it was written by somebody who answers requests before it began anew.
    """

    answers: list[Answer] = field(default_factory=list)
    is_reported: bool = False
    writings: list[Writing] = field(default_factory=list)
    has_ended: bool = False
    is_measured: bool = True
    has_observer: bool = False

    @property
    def last_asked(self) -> int:
        """When the newest request that was answered was made; 0: none is known."""
        return max((answer.requested_at for answer in self.answers), default=0)

    @property
    def present(self) -> str | None:
        """The clock by which the journal is written now, None not known."""
        last = self.writings[-1] if self.writings else None
        return last.clock if last is not None and last.until is None else None

    def has_left_out(self, asked: int) -> bool:
        """Whether a request of that time was not answered by an observer who answers requests."""
        return self.last_asked < asked and self.is_observed

    @property
    def is_observed(self) -> bool:
        """Whether somebody who answers requests writes the journal."""
        return bool(self.has_observer or self.answers or self.writings)

    def change(self, clock: str, last_ts: int, known_ts: int) -> None:
        """Another observer goes on with the journal.

        Args:
            clock: The name of its clock.
            last_ts: The last time in the journal so far.
            known_ts: Up to when the journal is known.
        """
        self.lose(known_ts)
        self.writings = [*self.writings[1 - OBSERVERS_MAX :], Writing(clock, last_ts)]
        self.is_measured = self.has_ended = False

    def lose(self, known_ts: int) -> None:
        """Records are missing: who goes on with the journal is not known."""
        self.is_measured = not (self.writings or self.answers)
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
            self.is_measured = True

    def request_at(self, ts: int) -> int | None:
        """The request of the first answer at or after a time of this clock, else of the last.

        Of answers at one time, as of a clock that stands still, it is the last one.
        """
        if not self.answers:
            return None
        first = next((one.ts for one in self.answers if one.ts >= ts), self.answers[-1].ts)
        return next(one.requested_at for one in reversed(self.answers) if one.ts == first)

    def has_answered(self, request: int) -> bool:
        """Whether there is an answer to that request, or to a later one."""
        return bool(self.answers) and self.answers[-1].requested_at >= request

    def bounds(self, request: int) -> tuple[int, int] | None:
        """By how much the clock was ahead of who asks, at the least and the most.

        Of this request and some before it, whatever else is known by now: so the order in which
        journals arrive makes no difference. An answer is written after its request; its receipt
        shows how long that took only if it is by the clock of the records.

        Returns:
            None without answers.
        """
        at = bisect_left(self.answers, request, key=attrgetter("requested_at")) + 1
        known = self.answers[max(at - WINDOW, 0) : at]
        if not known:
            return None
        least = min(one.lag - one.behind_us for one in known)
        return least, max(one.ts - one.requested_at for one in known)

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
    """Whether both journals say that one clock wrote them between two times."""
    name = one.name(first_ts, last_ts)
    return name is not None and name == other.name(first_ts, last_ts)


def cannot_be_compared(one: ObserverClock, other: ObserverClock, ts: int) -> bool:
    """Whether two clocks wrote the journals at a time, and each answered requests of its own.

    Who asks itself asks by its own clock: its answers show nothing of another one.
    """
    names = one.name(ts, ts), other.name(ts, ts)
    if None in names or names[0] == names[1]:
        return False
    asked = {answer.requested_at for answer in one.answers}
    return bool(asked and other.answers) and asked.isdisjoint(
        answer.requested_at for answer in other.answers
    )


def ahead(clock: ObserverClock, of: ObserverClock, request: int) -> int:
    """By how many microseconds one clock may be ahead of another when a request was answered.

    Without answers of both nothing is known: then they are taken for one clock.
    """
    own, others = clock.bounds(request), of.bounds(request)
    if own is None or others is None:
        return 0
    return TOLERANCE_US + max(0, own[1] - others[0])
