"""The collections asked of one server: which is under way, and where its answer belongs."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from tallystick.coordinates.events.collect_request import CollectRequest
from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.binlog import parse_log_file_name
from tallystick.coordinates.values.errors import CoordinateError
from tallystick.producers.mysql.server_watch import Collected, ServerWatch

if TYPE_CHECKING:
    from tallystick.producers.mysql.server_history import LogPosition, ServerHistory
    from tallystick.producers.mysql.tail_journal import TailJournal
    from tallystick.producers.mysql.tail_options import TailOptions

PENDING_MAX = 400_000
"""So many events wait for a row at most."""


@dataclass(slots=True)
class _Asked:
    """A collection under way."""

    request: CollectRequest
    since: float
    collected: Collected | None = None
    is_given_up: bool = False


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
        self._requests: queue.SimpleQueue[tuple[CollectRequest, float]] = queue.SimpleQueue()
        self._waiting: deque[tuple[CollectRequest, float]] = deque()
        self._asked: _Asked | None = None

    def ask(self, request: CollectRequest) -> None:
        """Take a request; from any thread."""
        self._requests.put((request, self._clock()))

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
            and self._clock() - asked.since < self._options.hold_s
        )

    def hand_on(self, watch: ServerWatch) -> None:
        """Have the next collection made, once the one before is done."""
        self._take_requests()
        while self._waiting:
            request, since = self._waiting[0]
            if self._asked is None and not self._history.relays.anew:
                self._asked = _Asked(request, self._clock())
                watch.ask(request)
            elif self._clock() - since > self._options.deadline_s:
                self._answer_error(
                    request,
                    {"timed_out": True, "message": "an earlier collection is still under way"},
                )
            else:
                return
            self._waiting.popleft()

    def collected(self, collected: Collected) -> None:
        """Take what was read; an answer that has been given up is dropped."""
        if self._asked is None or self._asked.request != collected.request:
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
                self._answer_error(asked.request, {"timed_out": True})
            return
        if "row" not in collected.body:
            self._asked = None
            self._answer(collected.body)
            return
        limit = row_position(collected.body)
        if limit is not None:
            self._history.release(limit)
        here = self._history.here
        if limit is None or here == limit:
            self._asked = None
            if self._history.is_row_late(collected):
                # The row may be of before or after that: it is taken again.
                self._waiting.appendleft((asked.request, asked.since))
            else:
                self._record_row(collected)
        elif is_late or here > limit:
            self._asked = None
            self._answer_error(
                asked.request,
                {
                    "timed_out": True,
                    "message": "the log that was followed did not come to the row's coordinates"
                    " in time",
                },
            )

    def _record_row(self, collected: Collected) -> None:
        if self._history.record_shown(collected):
            self._answer(collected.body)
        else:
            self._answer_error(
                collected.request,
                {"timed_out": True, "message": "a relay log was gone before it was read that far"},
            )

    def end_session(self, *, is_there: bool) -> None:
        """What was under way has no answer any more; of a server that is there it is asked anew."""
        if self._asked is not None and not self._asked.is_given_up and is_there:
            self._waiting.appendleft((self._asked.request, self._asked.since))
        elif self._asked is not None and not self._asked.is_given_up:
            message = "the stream of its binary log ended while it was asked"
            self._answer_error(self._asked.request, {"unreachable": True, "message": message})
        self._asked = None

    def withdraw(self) -> None:
        """Nobody waits for answers any more: what could still have come in time is left out."""
        self._take_requests()
        earliest = self._clock() - self._options.deadline_s
        if self._asked is not None and self._asked.since > earliest:
            self._asked = None
        self._waiting = deque(asked for asked in self._waiting if asked[1] <= earliest)

    def answer_unreachable(self) -> None:
        """Answer all that is asked while the server is not followed."""
        self._take_requests()
        for request, _ in self._waiting:
            self._answer_error(request, {"unreachable": True})
        self._waiting.clear()

    def _take_requests(self) -> None:
        while not self._requests.empty():
            self._waiting.append(self._requests.get())

    def _answer_error(self, request: CollectRequest, error: dict[str, Any]) -> None:
        body = {"collection_id": request.collection_id, "requested_at": request.requested_at}
        self._answer({**body, "error": error})

    def _answer(self, body: dict[str, Any]) -> None:
        self._journal.server_record(RecordType.LOG_STATUS, body)
        self.answers += 1
        if self._answered is not None:
            self._answered(body["collection_id"])


def row_position(body: dict[str, Any]) -> LogPosition | None:
    """File number and position of a row, None without a binary log."""
    local = body["row"].get("LOCAL")
    if not isinstance(local, dict):
        return None
    with suppress(CoordinateError, TypeError, ValueError):
        return (
            (
                parse_log_file_name(str(local["binary_log_file"]))[1],
                int(local["binary_log_position"]),
            )
            if "binary_log_file" in local
            else None
        )
    return None
