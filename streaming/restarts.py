"""Queries that are started again after failures that pass, with a pause that grows.

A query that ends leaves its checkpoint as it was, so the next one runs the same micro-batch again.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, final

from pyspark.errors import PySparkException

from tallystick.streaming.errors import QueryError
from tallystick.streaming.failures import Failure, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery

PAUSE_S = 1.0
PAUSE_MAX_S = 30.0
DRAIN_POLL_S = 0.01
ASKED_S = 10.0
"""So long Spark may ask one of its sources what is new; a broker that is there takes milliseconds.
Its own attempts take most of a minute."""
ASKED_POLL_S = 0.2
_ASKS, _ENDED = "Getting offsets from", "Terminated"
"""What a query's status says then, and when it ends by it."""
PASSING_MAX = 3
"""So often in a row a process of Spark's may be lost: then the same rows may be what kills it."""


@final
class Outages:
    """What the queries wait for: one outage, however many of them it ends, and however often.

    Args:
        report: Called with a sentence when an outage begins, and with None when it is over.

    Attributes:
        count: How many there were.
    """

    def __init__(self, report: Callable[[str | None], None]) -> None:
        self._report = report
        self._waiting: set[str] = set()
        self._is_guess = False
        self.count = 0

    def begin(self, query: str, sentence: str, *, is_guess: bool = False) -> None:
        """A query has ended, and will be started again; or it waits, and why is a guess."""
        if not self._waiting:
            self.count += 1
        if not self._waiting or (self._is_guess and not is_guess):
            self._is_guess = is_guess
            self._report(sentence)
        self._waiting.add(query)

    def end(self, query: str) -> None:
        """A query runs as it should."""
        if query in self._waiting:
            self._waiting.remove(query)
            if not self._waiting:
                self._report(None)


@final
class LastingQuery:
    """A query that goes on after failures that pass.

    Args:
        name: Its name.
        start: Starts it from its checkpoint location.
        failure_of: What the exception that ended it means.
        in_vain: What is so when a source does not answer it.
        outages: Learns of failures that pass.
        clock: Seconds that never fall.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[], StreamingQuery],
        *,
        failure_of: Callable[[PySparkException], Failure],
        in_vain: str,
        outages: Outages,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._start = start
        self._failure_of = failure_of
        self._in_vain = in_vain
        self._outages = outages
        self._clock = clock
        self._asks, self._asks_since_s, self._seen_s = "", 0.0, -math.inf
        self._asks_in_vain = False
        self._pause_s = PAUSE_S
        self._due_s: float | None = None
        self._passed = 0
        self._is_proven = False
        self._query: StreamingQuery | None = None
        self._try()

    def goes_on(self) -> bool:
        """Start it again if it is time to; False: it has ended without a failure.

        Raises:
            QueryError: What ended it asks for a person.
        """
        if self._query is None:
            assert self._due_s is not None
            if self._clock() >= self._due_s:
                self._try()
            return True
        if not self._query.isActive:
            try:
                self._query.awaitTermination()
            except PySparkException as error:
                self._failed(error)
                return True
            return False
        if not self._is_proven and _is_proven(self._query):
            self._is_proven = True
            self._pause_s, self._passed = PAUSE_S, 0
            self._outages.end(self._name)
        if self._is_proven:  # the first question takes long on a machine that does much else
            self._watch_sources(self._query)
        return True

    def _watch_sources(self, query: StreamingQuery) -> None:
        """A source that does not answer is known long before the query ends by it."""
        now_s = self._clock()
        if now_s < self._seen_s + ASKED_POLL_S:
            return
        self._seen_s = now_s
        # It is another one with each source, and while there is nothing new.
        message = query.status["message"]
        if message != self._asks:
            self._asks, self._asks_since_s = message, now_s
            if self._asks_in_vain and not message.startswith(_ENDED):
                self._asks_in_vain = False
                self._outages.end(self._name)
        elif message.startswith(_ASKS) and now_s > self._asks_since_s + ASKED_S:
            self._asks_in_vain = True
            self._outages.begin(self._name, self._in_vain, is_guess=True)

    def renew(self, timeout_s: float) -> None:
        """Stop it as ``drain`` does, and start it again: ``start`` may start another one now."""
        if self._query is None:
            return
        drain(self._query, timeout_s)
        try:
            self._query.awaitTermination()
        except PySparkException as error:
            self._failed(error)
        else:
            self._try()

    def drain(self, timeout_s: float) -> None:
        """Stop it as ``drain`` does; while it waits to be started there is nothing to stop.

        Raises:
            QueryError: It ended by itself meanwhile, by what asks for a person.
        """
        if self._query is not None:
            drain(self._query, timeout_s)
            self.goes_on()

    def stop(self) -> None:
        """Stop it now."""
        if self._query is not None and self._query.isActive:
            self._query.stop()

    def _try(self) -> None:
        self._is_proven = self._asks_in_vain = False
        self._asks = ""
        try:
            self._query = self._start()
        except PySparkException as error:
            self._failed(error)

    def _failed(self, error: PySparkException) -> None:
        failure = self._failure_of(error)
        self._passed += failure.kind is Kind.PASSING
        if failure.kind is Kind.PERSON or self._passed > PASSING_MAX:
            raise QueryError(failure.sentence) from error
        self._query = None
        self._due_s = self._clock() + self._pause_s
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)
        self._outages.begin(self._name, failure.sentence)


def drain(query: StreamingQuery, timeout_s: float) -> None:
    """Stop a query between two micro-batches, or after the timeout anyway.

    A stop in the middle of one loses nothing, but its work is done again by the next run, and a
    request of the collector may then be in its topic twice.
    """
    deadline = time.monotonic() + timeout_s
    done_before = _micro_batches_done(query)
    while query.isActive and time.monotonic() < deadline:
        is_between = not query.status["isTriggerActive"]
        if is_between or _micro_batches_done(query) > done_before:
            break
        time.sleep(DRAIN_POLL_S)
    if query.isActive:
        query.stop()


def _is_proven(query: Any) -> bool:
    """Whether it has come to the end of a micro-batch, or of a poll that found nothing."""
    return query.lastProgress is not None or query.status["message"] == "Waiting for data to arrive"


def _micro_batches_done(query: Any) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])
