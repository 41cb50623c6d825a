"""Whether the job watches its fleet: by its progress, not by its process being there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from tallystick.streaming.watch import StepReport

PROGRESS_LIMIT_S = 120.0
"""An idle query polls Kafka all the time and reports it every ten seconds; a micro-batch takes
seconds, and minutes only where something is wrong."""


@final
class JobHealth:
    """What the two probes answer.

    Args:
        limit_s: The query must come to the end of a micro-batch or of a poll this often.
        clock: Monotonic seconds.
    """

    def __init__(
        self, limit_s: float = PROGRESS_LIMIT_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._lock = threading.Lock()
        self._progress_s = clock()
        self._is_started = self._is_ended = False
        self._waits_for: str | None = None
        self._newest_ts = 0
        self._unanswered: str | None = "no collection has been closed since the start"

    def started(self) -> None:
        """The queries run."""
        with self._lock:
            self._is_started = True
            self._progress_s = self._clock()

    def waits(self, sentence: str | None) -> None:
        """The queries wait for the broker, or do so no more."""
        with self._lock:
            self._waits_for = sentence
            self._progress_s = self._clock()

    def ended(self) -> None:
        """A query has ended, or the job is to stop."""
        with self._lock:
            self._is_ended = True

    def progressed(
        self,
        lag_blocks: Mapping[int, int] | None,
        duration_s: float | None,
    ) -> None:
        """The query has come to the end of a micro-batch or of a poll."""
        with self._lock:
            self._progress_s = self._clock()

    def stepped(self, report: StepReport) -> None:
        """A micro-batch may have closed collections."""
        closed = [one for one in report.rounds if not one.is_late]
        newest = max(closed, key=lambda one: one.ts, default=None)
        with self._lock:
            self._progress_s = self._clock()
            # One that is older may be closed after it, at its deadline.
            if newest is not None and newest.ts >= self._newest_ts:
                self._newest_ts = newest.ts
                have_answered = {cut.instance_id for cut in newest.cuts} - set(newest.missing)
                self._unanswered = (
                    None
                    if have_answered
                    else f"nobody has answered collection {newest.collection_id}"
                )

    def not_healthy(self) -> str | None:
        """Why a restart may help, in one sentence; None: it goes on."""
        with self._lock:
            if self._is_ended:
                return "the queries have ended or are to stop"
            passed_s = self._clock() - self._progress_s
            # What waits for the broker goes on by itself.
            if passed_s <= self._limit_s or self._waits_for is not None:
                return None
            if not self._is_started:
                return f"the queries do not run {passed_s:.0f} s after the start"
            return (
                f"no micro-batch and no poll has ended for {passed_s:.0f} s,"
                f" and the limit is {self._limit_s:.0f} s"
            )

    def not_ready(self) -> str | None:
        """Why the fleet is not watched, in one sentence; None: it is."""
        reason = self.not_healthy()
        if reason is not None:
            return reason
        with self._lock:
            if self._waits_for is not None:
                return self._waits_for
            return self._unanswered if self._is_started else "the queries do not run yet"
