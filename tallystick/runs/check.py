"""A few collections of real servers, their logs followed meanwhile, audited in memory.

Replicas are asked before their sources: what a replica has executed, its source must have logged by
then. Tails end when their logs are known past the last row, so that nothing waits for evidence.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from typing import Any, final

from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.events.collect_request import CollectRequest
from tallystick.coordinates.events.journal import Block, RecordType, Stream
from tallystick.producers.mysql.collection import Collector
from tallystick.producers.mysql.same_server import FollowedServers
from tallystick.producers.mysql.tail import Tail, TailOptions, steady_clock_us
from tallystick.producers.mysql.tail_state import TailState
from tallystick.runs.replay import result_of_audit
from tallystick.runs.result import RunResult, ServerSummary
from tallystick.servers.discovery import DiscoveredServer, asking_order, first_files

CATCH_UP_DEADLINE_S = 900.0
"""How long the present binary log files may take to be read from their beginnings."""
ANSWER_DEADLINE_S = 20.0
"""How long a server may take to answer, and its log to come to the row."""
_POLL_S = 0.05


@final
class FleetCheck:
    """Checks servers once.

    Args:
        servers: As ``discover`` found them; what is learned of them is added.
        notice: Takes a line about what went wrong meanwhile.
        disabled: Rules that are switched off.
        tap: Takes each block before it is audited.
    """

    def __init__(
        self,
        servers: Sequence[DiscoveredServer],
        *,
        notice: Callable[[str], None],
        disabled: frozenset[str] = frozenset(),
        tap: Callable[[Block], None] | None = None,
    ) -> None:
        self._servers = tuple(servers)
        self._tap = tap
        self._disabled = disabled
        self._sink = _QueueSink()
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        self._changed = threading.Condition()
        self._answered: dict[str, set[str]] = {}
        first = first_files(self._servers)
        followed = FollowedServers(one.settings for one in self._servers)
        self._tails = {
            server.name: Tail(
                server.settings,
                self._sink,
                Collector,
                state=TailState(),
                notice=notice,
                options=TailOptions(
                    deadline_s=ANSWER_DEADLINE_S, first_file=first.get(server.name, "")
                ),
                answered=self._note_answer(server.name),
                followed=followed,
            )
            for server in self._servers
        }

    def run(
        self,
        *,
        collections: int,
        interval_s: float,
        interrupted: threading.Event,
        progress: Callable[[str], None],
    ) -> RunResult | None:
        """Collect, and judge everything.

        Args:
            collections: How many times each server is asked.
            interval_s: From the begin of one collection to that of the next, seconds.
            interrupted: Ends the check early.
            progress: Takes a line of it.

        Returns:
            None if it was interrupted.

        Raises:
            AuditError: A tail ended by an error.
        """
        begun_at = datetime.now(timezone.utc)
        threads = [
            threading.Thread(target=self._follow, args=(tail,), name=f"tail {name}", daemon=True)
            for name, tail in self._tails.items()
        ]
        judge = _Judge(self._blocks(), self._disabled)
        for thread in (judge, *threads):
            thread.start()
        try:
            self._catch_up(interrupted, progress)
            for number in range(1, collections + 1):
                next_at = time.monotonic() + interval_s
                progress(f"collection {number} of {collections}")
                self._collect(f"check-{number:03d}", interrupted)
                if number < collections:
                    interrupted.wait(max(0.0, next_at - time.monotonic()))
                if interrupted.is_set() or self._failures:
                    break
            progress("reading the logs past the last row")
        finally:
            # One stop for all: each tail reads on until its log is known past every row.
            self._stop.set()
            for thread in threads:
                thread.join()
            self._sink.blocks.put(None)
            judge.join()
        failures = [*self._failures, *judge.failures]
        if failures:
            raise failures[0]
        if interrupted.is_set() or judge.result is None:
            return None
        return result_of_audit(
            judge.result,
            command="check",
            title=", ".join(server.name for server in self._servers),
            begun_at=begun_at,
            servers={server.name: _summary(server) for server in self._servers},
        )

    # Following

    def _follow(self, tail: Tail) -> None:
        try:
            tail.run(self._stop)
        except Exception as error:  # noqa: BLE001  raised by the thread that waits
            with self._changed:
                self._failures.append(error)
                self._changed.notify_all()

    def _note_answer(self, name: str) -> Callable[[str], None]:
        def answered(collection_id: str) -> None:
            with self._changed:
                self._answered.setdefault(collection_id, set()).add(name)
                self._changed.notify_all()

        return answered

    # Collecting

    def _collect(self, collection_id: str, interrupted: threading.Event) -> None:
        for group in asking_order(self._servers):
            names = {server.name for server in group}
            request = CollectRequest(collection_id, steady_clock_us(), frozenset(names))
            for name in names:
                self._tails[name].ask(request)
            # A tail answers by itself at its deadline; this one is for a tail that is stuck.
            self._await(
                partial(self._have_answered, names, collection_id),
                2 * ANSWER_DEADLINE_S,
                interrupted,
            )

    def _have_answered(self, names: set[str], collection_id: str) -> bool:
        return names <= self._answered.get(collection_id, set())

    def _catch_up(self, interrupted: threading.Event, progress: Callable[[str], None]) -> None:
        """Wait until each log is known up to now: a row is found in it only then."""
        now = steady_clock_us()
        asked = [self._tails[server.name] for server in self._servers if not server.problem]
        progress("reading the binary logs")
        self._await(
            lambda: all(tail.journal.state.ts > now for tail in asked),
            CATCH_UP_DEADLINE_S,
            interrupted,
        )

    def _await(
        self, condition: Callable[[], bool], deadline_s: float, interrupted: threading.Event
    ) -> None:
        end = time.monotonic() + deadline_s
        with self._changed:
            while not condition() and not self._failures and not interrupted.is_set():
                if time.monotonic() >= end:
                    return
                self._changed.wait(_POLL_S)

    # Judging

    def _blocks(self) -> Iterator[Block]:
        """What the tails write, as it comes, until nothing more will."""
        while True:
            block = self._sink.blocks.get()
            if block is None:
                return
            self._count(block)
            if self._tap is not None:
                self._tap(block)
            yield block

    def _count(self, block: Block) -> None:
        server = next(each for each in self._servers if each.name == block.instance_id)
        streams, types = block.columns["stream"], block.columns["type"]
        server.binlog_events += int((streams == Stream.BINLOG).sum())
        server.relay_events += int((streams == Stream.RELAY).sum())
        is_row = (streams == Stream.SERVER) & (types == RecordType.LOG_STATUS)
        for index in is_row.nonzero()[0].tolist():
            body = block.body(index)
            server.rows += "row" in body
            for part in body.get("unread", ()):
                server.unread[part["part"]] = _as_text(part)


@final
class _QueueSink:
    """Hands blocks over to the thread that judges them: a long check keeps none of them."""

    def __init__(self) -> None:
        self.blocks: queue.SimpleQueue[Block | None] = queue.SimpleQueue()

    def send(self, block: Block) -> None:
        """Hand a block over."""
        self.blocks.put(block)

    def flush(self) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """Nothing is held."""


@final
class _Judge(threading.Thread):
    """Audits blocks while they come.

    Attributes:
        result: What the audit found, when it has ended.
        failures: What ended it otherwise.
    """

    def __init__(self, blocks: Iterator[Block], disabled: frozenset[str]) -> None:
        super().__init__(name="audit", daemon=True)
        self._blocks = blocks
        self._disabled = disabled
        self.result: AuditResult | None = None
        self.failures: list[BaseException] = []

    def run(self) -> None:
        """Audit until the blocks end."""
        try:
            self.result = audit_history(self._blocks, disabled=self._disabled)
        except Exception as error:  # noqa: BLE001  raised by the thread that waits
            self.failures.append(error)


def _summary(server: DiscoveredServer) -> ServerSummary:
    return ServerSummary(
        version=server.version,
        address=server.settings.address,
        account=server.account,
        problem=server.problem,
        rows=server.rows,
        binlog_events=server.binlog_events,
        relay_events=server.relay_events,
        unread=server.unread,
        grants=[held.right.grant(server.account) for held in server.missing_rights],
    )


def _as_text(part: Mapping[str, Any]) -> str:
    code = part.get("code")
    return f"error {code}: {part.get('message', '')}" if code else str(part.get("message", ""))
