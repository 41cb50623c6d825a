"""The time of one instance's journal: that of its records, where these can be believed.

All instances are compared by the times of their records, so one record of another hour, of another
unit or of no time at all must not move what others are held against. A step from one record to the
next that no journal makes is not believed: the time goes on without it. Whether time has really
passed is known with the next answer to a request, by the clock of who asks all instances; until
then the time of the journal is doubtful. docs/decisions/0019-times-that-are-not-believed.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tallystick.coordinates.audit.observer_clock import LAG_MAX_US, TOLERANCE_US, WINDOW
from tallystick.coordinates.events.journal import RecordType, Stream

if TYPE_CHECKING:
    import numpy.typing as npt

    from tallystick.coordinates.events.journal import Block

    Times = npt.NDArray[np.int64]

STEP_MAX_US = 60_000_000
"""Records follow each other within this, as observers write heartbeats; more must be confirmed."""
AHEAD_MAX_US = 60_000_000
"""By how much the clock of who sends may be behind that of who observes."""
LATEST_US = 4_102_444_800_000_000
"""The year 2100: a time beyond it is of another unit, or none."""
DRIFT = 50
"""A clock may lose one second in so many without being corrected."""
# Plain numbers: an array looks through a member's class for what it might do with arrays.
_SERVER = int(Stream.SERVER)
_OBSERVER, _LOG_STATUS = int(RecordType.OBSERVER), int(RecordType.LOG_STATUS)


class Break(NamedTuple):
    """A step that is not believed.

    Attributes:
        record: Its index in its block, -1 in an earlier one.
        ts: The time that it has, microseconds.
        before: That of the record before it, -1 not known.
    """

    record: int
    ts: int
    before: int


@dataclass(slots=True)
class JournalClock:
    """How the times of records become the time of the journal, which never falls.

    Attributes:
        now: The time of the journal, microseconds.
        shown: What the last record showed that was believed, None before the first.
        other: What the record after it showed, where that was not believed.
        offset: What is added to what records show.
        lag: The least time from a request to its answer, between the two clocks; None not known.
        lags: Those of the last answers.
        requested_at: When the last of these was asked for.
        is_timed: Whether the journal names its observer's clock, or has answers to requests.
        is_doubtful: Whether a step was not believed since the last answer.
        unread: A step that was not believed, after the last server record.
        answers: How many answers came since a step was not believed.
        is_ahead: Whether the last message was sent before the times in it.
    """

    now: int = 0
    shown: int | None = None
    other: int | None = None
    offset: int = 0
    lag: int | None = None
    lags: list[int] = field(default_factory=list)
    requested_at: int = 0
    is_timed: bool = False
    is_doubtful: bool = False
    unread: Break | None = None
    answers: int = WINDOW
    is_ahead: bool = False

    def read(self, block: Block) -> tuple[Block, list[Break]]:
        """The block at the times of the journal, and which steps are not believed."""
        ts = block.columns["ts"]
        breaks: list[Break] = [] if self.unread is None else [self.unread]
        self.unread = None
        is_timed = self.is_timed or _is_timed(block, len(ts))
        if not self._is_regular(ts):
            ts = self._read_each(block, breaks)
        elif self.offset or int(ts[0]) < self.now:
            shown = int(ts[-1])
            ts = np.maximum(ts + self.offset, self.now)
            self.shown, self.now = shown, int(ts[-1])
        else:
            self.shown = self.now = int(ts[-1])
        self.is_timed = is_timed
        return (block if ts is block.columns["ts"] else at_times(block, ts)), breaks

    def first(self, block: Block) -> int:
        """The time at which a block begins that has not been read."""
        ts = int(block.columns["ts"][0])
        if self._goes_on(ts):
            return max(ts + self.offset, self.now)
        return int(replace(self).read(block)[0].columns["ts"][0])

    def _is_regular(self, ts: Times) -> bool:
        """Whether each record follows the one before it within ``STEP_MAX_US``."""
        if not self._goes_on(int(ts[0])):
            return False
        if len(ts) == 1:
            return True
        steps = np.diff(ts)
        # Where none falls, the last is the latest.
        return bool(steps.min() >= 0 and steps.max() <= STEP_MAX_US) and _is_time(int(ts[-1]))

    def _goes_on(self, ts: int) -> bool:
        """Whether the next record is believed, whatever follows it; the first may show any time."""
        if self.shown is None:
            is_first = self.now == 0 and self.other is None and self.lag is None
            return is_first and 0 < ts <= LATEST_US
        return self.other is None and _follows(ts, self.shown)

    def _read_each(self, block: Block, breaks: list[Break]) -> Times:
        of_server = block.columns["stream"] == _SERVER
        begins = of_server & (block.columns["type"] == _OBSERVER)
        answers = of_server & (block.columns["type"] == _LOG_STATUS)
        shown: list[int] = block.columns["ts"].tolist()
        times = []
        for index, ts in enumerate(shown):
            # `_follows`, without its calls for each record.
            if self.shown is not None and 0 <= ts - self.shown <= STEP_MAX_US and ts <= LATEST_US:
                self.shown, self.other = ts, None
                self.now = max(self.now, ts + self.offset)
                times.append(self.now)
                continue
            following = shown[index + 1] if index + 1 < len(shown) else None
            if begins[index] and _follows(self.shown, ts):
                self.shown, self.other = ts, None
            elif answers[index] and self.other is None and _follows(self.shown, ts):
                pass  # it came before the events that it names
            elif begins[index] and _is_time(ts) and not _follows(following, self.shown):
                self._begin(ts)
            elif _follows(ts, self.other):
                assert self.other is not None
                self.offset, self.shown, self.other = self.now - self.other, ts, None
            elif self._may_leap(ts, following, is_timed=self.is_timed or _is_timed(block, index)):
                self.shown, self.other = ts, None
            else:
                breaks.append(Break(index, ts, -1 if self.shown is None else self.shown))
                self.other = ts if _is_time(ts) else None
            if self.other is None and self.shown is not None and _is_time(ts):
                self.now = max(self.now, self.shown + self.offset)
            times.append(self.now)
        first = next((ts for ts in times if ts), 0)
        return np.array([ts or first for ts in times], np.int64)

    def _begin(self, ts: int) -> None:
        """Another observer goes on with the journal, by its own clock."""
        self.shown, self.other, self.lag, self.lags = ts, None, None, []
        self.offset = self.now - ts if ts < self.now - STEP_MAX_US else 0

    def _may_leap(self, ts: int, following: int | None, *, is_timed: bool) -> bool:
        """Whether time may have passed that nothing else shows, in a journal written by hand."""
        if self.shown is None:
            return _is_time(ts)
        is_later = _is_time(ts) and ts > self.shown and not is_timed
        return is_later and not _follows(following, self.shown)

    def doubt(self) -> tuple[bool, bool]:
        """A step was not believed.

        Returns:
            Whether it is the first since the last answer, and the first for so long that it is
            worth a note.
        """
        is_first, is_news = not self.is_doubtful, self.answers >= WINDOW
        self.is_doubtful, self.answers = True, 0
        return is_first, is_news

    def answered(self, requested_at: object, received_at: int) -> int:
        """A request was answered, and received at a time of the journal.

        Returns:
            By how much the time of the journal goes on, as it has fallen behind.
        """
        if not isinstance(requested_at, int) or not _is_time(requested_at):
            return 0
        lag = received_at - requested_at
        if not self.is_doubtful and abs(lag) >= LAG_MAX_US:
            return 0
        known = 0 if self.lag is None else self.lag
        behind_us = 0
        if self.is_doubtful:
            behind_us = max(0, known - lag)
        elif self.lag is not None and lag < min(known, 0) - TOLERANCE_US:
            behind_us = min(known, 0) - lag
        self.is_doubtful = False
        self.answers += 1
        self.now += behind_us
        self.offset += behind_us
        self._learn(requested_at, lag + behind_us)
        return behind_us

    def times_from_now(self, lag_before: int | None) -> bool:
        """Whether an answer is the first, or the last ones show a clock that was set ahead."""
        if self.lag is None:
            return False
        return lag_before is None or self.lag - lag_before > TOLERANCE_US

    def _learn(self, requested_at: int, lag: int) -> None:
        elapsed_us = max(0, requested_at - self.requested_at)
        self.requested_at = requested_at
        self.lags = [*self.lags, lag][-WINDOW:]
        if self.lag is None:
            self.lag = lag
        elif lag < self.lag:
            self.lag = max(lag, self.lag - elapsed_us // DRIFT)
        elif len(self.lags) == WINDOW:
            self.lag = max(self.lag, min(self.lags))


def _is_timed(block: Block, end: int) -> bool:
    """Whether records before an index name the observer's clock, or when they were asked for."""
    types = block.columns["type"][:end]
    found = types.tobytes()
    if _OBSERVER not in found and _LOG_STATUS not in found:
        return False
    of_server = block.columns["stream"][:end] == _SERVER
    if (of_server & (types == _OBSERVER)).any():
        return True
    rows = (of_server & (types == _LOG_STATUS)).nonzero()[0].tolist()
    return any('"requested_at"' in block.texts.get(row, "") for row in rows)


def at_times(block: Block, ts: Times) -> Block:
    """The block with other times."""
    return replace(block, columns={**block.columns, "ts": ts})


def later(block: Block, first: int, later_us: int) -> Block:
    """The block with the times of the records from ``first`` on by so much later."""
    ts = block.columns["ts"].copy()
    ts[first:] += later_us
    return at_times(block, ts)


def _is_time(ts: int) -> bool:
    return 0 <= ts <= LATEST_US


def _follows(ts: int | None, before: int | None) -> bool:
    """Whether a record may show this after another one."""
    if ts is None or before is None:
        return False
    return _is_time(ts) and 0 <= ts - before <= STEP_MAX_US
