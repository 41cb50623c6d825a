"""The collections asked of one server: which is under way, and where its answer belongs."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

from tallystick.coordinates.events.collect_request import CollectRequest
from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.binlog import parse_log_file_name
from tallystick.coordinates.values.errors import CoordinateError
from tallystick.producers.mysql.server_watch import Collected, ServerWatch
from tallystick.producers.mysql.tail_options import steady_clock_us

if TYPE_CHECKING:
    from tallystick.producers.mysql.server_history import ServerHistory
    from tallystick.producers.mysql.tail_journal import TailJournal
    from tallystick.producers.mysql.tail_options import TailOptions

PENDING_MAX = 400_000
"""So many events wait for a row at most."""


class _Received(NamedTuple):
    """A request, when it came, in seconds that never fall, and by the clock of the journal."""

    request: CollectRequest
    since: float
    received_at: int


@dataclass(slots=True)
class _Asked:
    """A collection under way."""

    received: _Received
    since: float
    collected: Collected | None = None
    is_given_up: bool = False
    has_waited: bool = False
    """Whether relay logs could not be read when its row was there."""


@final
class CollectionScheduler:
    """Takes requests, one after the other, and puts their answers into the journal.

    Args:
        journal: Takes the answers.
        history: The record of the server: a row waits until it has come to the row's position.
        options: How long what may take.
        answered: Is called with a collection's id when its answer is in the journal.

    Attributes:
        answers: How many were written.
    """

    def __init__(
        self,
        journal: TailJournal,
        history: ServerHistory,
        options: TailOptions,
        answered: Callable[[str], None] | None,
    ) -> None:
        self.answers = 0
        self._journal = journal
        self._history = history
        self._options = options
        self._answered = answered
        self._clock = time.monotonic
        self._requests: queue.SimpleQueue[_Received] = queue.SimpleQueue()
        self._waiting: deque[_Received] = deque()
        self._asked: _Asked | None = None

    def ask(self, request: CollectRequest) -> None:
        """Take a request; from any thread."""
        self._requests.put(_Received(request, self._clock(), steady_clock_us()))

    @property
    def is_asked(self) -> bool:
        """Whether a request waits."""
        self._take_requests()
        return bool(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is asked and nothing is under way."""
        return not self.is_asked and (self._asked is None or self._asked.is_given_up)

    @property
    def holds_events(self) -> bool:
        """Whether events wait, because the row that is being read may belong in front of them."""
        asked = self._asked
        return (
            asked is not None
            and not asked.is_given_up
            and self._history.pending_count < PENDING_MAX
            and (asked.has_waited or self._clock() - asked.since < self._options.hold_s)
        )

    def hand_on(self, watch: ServerWatch) -> None:
        """Have the next collection made, once the one before is done."""
        self._take_requests()
        while self._waiting:
            is_anew = bool(self._history.relays.anew)
            if self._asked is None and not is_anew:
                received = self._waiting.popleft()
                self._asked = _Asked(received, self._clock())
                watch.ask(received.request)
            elif self._is_overdue(self._waiting[0]):
                message = "an earlier collection is still under way"
                if is_anew:
                    message = "what was done to its channels was not known in time"
                self._answer_error(self._waiting.popleft(), {"timed_out": True, "message": message})
            else:
                return

    def _is_overdue(self, received: _Received) -> bool:
        return self._clock() - received.since > self._options.deadline_s

    def collected(self, collected: Collected) -> None:
        """Take what was read; an answer that has been given up is dropped."""
        if self._asked is None or self._asked.received.request != collected.request:
            return
        if self._asked.is_given_up:
            self._asked = None
        else:
            self._asked.collected = collected

    def settle(self) -> None:
        """Put the row where it belongs as soon as the stream has come there."""
        asked = self._asked
        if asked is None or asked.is_given_up:
            return
        is_late = self._clock() - asked.since > self._options.deadline_s
        collected = asked.collected
        if collected is None:
            if is_late:
                asked.is_given_up = True
                self._answer_error(asked.received, {"timed_out": True})
            return
        if "row" not in collected.body:
            self._asked = None
            self._answer(asked.received, collected.body)
            return
        named = row_coordinates(collected.body)
        limit = None if named is None else self._history.place(*named)
        if limit is not None:
            self._history.release(limit)
        here = self._history.here
        if limit is None or here == limit:
            is_row_late = self._history.is_row_late(collected)
            if self._history.relays.is_waiting and not self._is_overdue(asked.received):
                asked.has_waited = True
                return
            self._asked = None
            if is_row_late or (asked.has_waited and self._history.relays.reads_files):
                # Files may have been replaced since the row was read: it is read again.
                self._waiting.appendleft(asked.received)
            else:
                self._record_row(asked.received, collected)
        elif is_late or here > limit:
            self._asked = None
            self._answer_error(
                asked.received,
                {
                    "timed_out": True,
                    "message": "the log that was followed did not come to the row's coordinates"
                    " in time",
                },
            )

    def _record_row(self, received: _Received, collected: Collected) -> None:
        if self._history.record_shown(collected):
            self._answer(received, collected.body)
        else:
            message = "a relay log could not be read as far as the row names it"
            self._answer_error(received, {"timed_out": True, "message": message})

    def end_session(self) -> None:
        """What was under way is asked anew when the server is followed again."""
        if self._asked is not None and not self._asked.is_given_up:
            self._waiting.appendleft(self._asked.received)
        self._asked = None

    def withdraw(self) -> None:
        """Nobody waits for answers any more: what could still have come in time is left out."""
        self._take_requests()
        self._waiting = deque(filter(self._is_overdue, self._waiting))

    def answer_unreachable(self, why: str, *, is_awaited: bool) -> None:
        """Answer what is asked while the server is not followed.

        Args:
            why: It is not; empty: nothing is known to be wrong.
            is_awaited: Whether the server may be back before an answer is overdue.
        """
        self._take_requests()
        error = {"unreachable": True, **({"message": why} if why else {})}
        while self._waiting and (not is_awaited or self._is_overdue(self._waiting[0])):
            self._answer_error(self._waiting.popleft(), error)

    def _take_requests(self) -> None:
        while not self._requests.empty():
            self._waiting.append(self._requests.get())

    def _answer_error(self, received: _Received, error: dict[str, Any]) -> None:
        request = received.request
        body = {"collection_id": request.collection_id, "requested_at": request.requested_at}
        self._answer(received, {**body, "error": error})

    def _answer(self, received: _Received, body: dict[str, Any]) -> None:
        body = {**body, "received_at": received.received_at}
        if received.request.has_waited:
            del body["requested_at"]  # the two would show how long, not how far clocks differ
        if self._journal.state.server_uuid is None:
            # Of a server that was never reached nothing was logged that the journal could lack.
            self._journal.advance(steady_clock_us())
        self._journal.server_record(RecordType.LOG_STATUS, body)
        self.answers += 1
        if self._answered is not None:
            self._answered(body["collection_id"])


def row_coordinates(body: dict[str, Any]) -> tuple[str, int] | None:
    """File and position of a row, None without a binary log."""
    local = body["row"].get("LOCAL")
    if not isinstance(local, dict) or "binary_log_file" not in local:
        return None
    with suppress(CoordinateError, TypeError, ValueError):
        file = str(local["binary_log_file"])
        parse_log_file_name(file)
        return file, int(local["binary_log_position"])
    return None
