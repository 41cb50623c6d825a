"""Follow one real server and write its journal: binary log, relay logs, starts, answers.

The binary log comes as a stream (``binlog_dump``), relay logs from their files where they can be
read, everything else by statements on another thread (``server_watch``). A row of log_status is put
where the stream reaches its coordinates. What cannot be known is told as a gap, never passed over.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from coordinates.binlog import MAGIC_LENGTH, EventType, parse_log_file_name
from coordinates.errors import CoordinateError
from coordinates.journal import RecordType
from producers.collect_requests import CollectRequest
from producers.mysql.binlog_dump import PURGED_OR_UNKNOWN, BinlogDump, StreamedEvent
from producers.mysql.binlog_events import EventError
from producers.mysql.channel_watch import ChannelWatch
from producers.mysql.errors import DriverMissingError, MysqlError, UnsupportedServerError
from producers.mysql.log_start import Happened, find_start
from producers.mysql.relay_logs import RelayLogs
from producers.mysql.server_now import ServerNow, learn_server
from producers.mysql.server_watch import (
    ChannelsTold,
    Collected,
    Collects,
    Reached,
    ServerWatch,
)
from producers.mysql.tail_journal import TailJournal
from producers.mysql.tail_place import TailPlace

if TYPE_CHECKING:
    from producers.mysql.settings import ServerSettings
    from producers.publisher import EventSink

BOOT_TOLERANCE_S = 2.5
"""Uptime is told in whole seconds, and not at one instant with the clock."""
PENDING_MAX = 400_000
TARGETS_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TailOptions:
    """How a server is followed.

    Attributes:
        from_oldest: A new journal begins with the oldest binary log file; else with the present
            one, from its beginning.
        deadline_s: A collection that is not answered by then, or whose row has not found its place
            in the log, is given up.
        look_interval_s: How often the end of the log is asked for.
        heartbeat_s: How long the server may be silent on the stream.
        hold_s: How long events wait for a row that is being read.
        save_interval_s: How often the place is saved.
        back_off_max_s: The longest wait between two tries to connect.
    """

    from_oldest: bool = False
    deadline_s: float = 15.0
    look_interval_s: float = 0.5
    heartbeat_s: float = 1.0
    hold_s: float = 5.0
    save_interval_s: float = 1.0
    back_off_max_s: float = 15.0


_STOP_MARGIN_US = 1_000_000
_STOP_S = 3.0
_OPTIONS = TailOptions()
_started_us, _started_ns = time.time_ns() // 1_000, time.monotonic_ns()


def steady_clock_us() -> int:
    """Microseconds since 1970, by a clock that is set once and never falls in this process."""
    return _started_us + (time.monotonic_ns() - _started_ns) // 1_000


@dataclass(slots=True)
class _Asked:
    """A collection under way."""

    request: CollectRequest
    since: float
    collected: Collected | None = None
    is_given_up: bool = False


class _BeganAnewError(MysqlError):
    """The binary log is not the one that was followed: there was a RESET."""


@final
class Tail:
    """Follows one server until it is told to stop; reconnects as long as that takes.

    Args:
        settings: The server.
        sink: Takes the blocks of its journal.
        collector_of: Makes what asks it for collections.
        place: Where its journal stands; a new one begins a journal.
        state_file: Where the place is saved; None: nowhere.
        options: How it is followed.
        notice: Takes one line about what went wrong or was noticed.
        answered: Is called with a collection's id when its answer stands in the journal.
        clock_us: Microseconds since 1970, the same for all servers that replicate with each other.
    """

    def __init__(
        self,
        settings: ServerSettings,
        sink: EventSink,
        collector_of: Callable[[ServerSettings], Collects],
        *,
        place: TailPlace,
        notice: Callable[[str], None],
        state_file: Path | None = None,
        options: TailOptions = _OPTIONS,
        answered: Callable[[str], None] | None = None,
        clock_us: Callable[[], int] = steady_clock_us,
    ) -> None:
        self._settings = settings
        self._collector_of = collector_of
        self._options = options
        self._notice = notice
        self._answered = answered
        self._clock_us = clock_us
        self._clock = time.monotonic
        self.journal = TailJournal(
            settings.name, sink, place, state_file=state_file, clock=self._clock
        )
        self.collections = 0
        self._requests: queue.SimpleQueue[CollectRequest] = queue.SimpleQueue()
        self._told: queue.SimpleQueue[Collected | Reached | ChannelsTold] = queue.SimpleQueue()
        self._waiting: deque[tuple[CollectRequest, float]] = deque()
        self._asked: _Asked | None = None
        self._pending: deque[StreamedEvent] = deque()
        self._targets: deque[Reached] = deque()
        self._channels = ChannelWatch(place.channels)
        self._relays = RelayLogs(settings.relay_log_dir, self.journal, notice, clock_us)
        self._saved_at = self._clock()
        self._ended_code: int | None = None
        self._dump: BinlogDump | None = None
        self._start = ("", MAGIC_LENGTH)
        self._is_anew = False
        self._is_behind_gap = False
        self._renewal: ChannelsTold | None = None
        self._is_stopping = False
        self._problem = ""

    @property
    def name(self) -> str:
        """Our key of the server."""
        return self._settings.name

    def ask(self, request: CollectRequest) -> None:
        """Have a collection made and its answer put into the journal; from any thread."""
        self._requests.put(request)

    # The life of a tail

    def run(self, stop: threading.Event) -> None:
        """Follow the server until `stop`; everything told is delivered then.

        Raises:
            DeliveryError: The sink does not take the journal.
            DriverMissingError: PyMySQL is not installed.
            UnsupportedServerError: The server is no MySQL, or too old.
            OSError: The place cannot be saved.
        """
        wait_s = 0.5
        while not stop.is_set():
            begun = self._clock()
            try:
                self._follow(stop)
            except (DriverMissingError, UnsupportedServerError):
                raise
            except (MysqlError, EventError) as error:
                self._tell_problem(str(error))
                self._ended_code = error.code if isinstance(error, MysqlError) else None
            self._lose_session()
            if self._clock() - begun > self._options.back_off_max_s:
                wait_s = 0.5
            is_quick = self._is_anew or self._ended_code == PURGED_OR_UNKNOWN
            self._rest(0.1 if is_quick else wait_s, stop)
            wait_s = min(2 * wait_s, self._options.back_off_max_s)
        self._answer_unreachable()
        self.journal.save()

    def _follow(self, stop: threading.Event) -> None:
        collector = self._collector_of(self._settings)
        server = watch = dump = None
        try:
            server, connection = learn_server(self._settings, collector)
            self._begin(server)
            if server.has_binlog:
                file, position = self._start
                dump = BinlogDump(
                    connection,
                    server_id=self._settings.server_id,
                    file=file,
                    position=position,
                    heartbeat_s=self._options.heartbeat_s,
                )
            else:
                connection.close()
            watch = ServerWatch(
                self._settings,
                collector,
                clock_us=self._clock_us,
                interval_s=self._options.look_interval_s,
                seen=self._seen,
                told=self._told.put,
            )
            watch.start()
            if self._problem:
                self._problem = ""
                self._notice(f"{self.name}: followed again")
            self._dump = dump
            while not stop.is_set():
                self._step(server, dump, watch)
            self._drain(server, dump)
        except (MysqlError, EventError):
            if server is not None:
                # What came before the stream ended may not come again.
                self._release(server, None)
            raise
        finally:
            self._dump = None
            if dump is not None:
                dump.close()
            if watch is not None:
                watch.close()
            else:
                collector.close()

    def _step(self, server: ServerNow, dump: BinlogDump | None, watch: ServerWatch) -> None:
        if dump is None:
            time.sleep(0.05)
        else:
            is_identified = dump.first_format is not None
            found = dump.read(0.05)
            if not is_identified:
                self._identify(dump)
            self._pending.extend(found)
        self._take_requests(watch)
        self._take_told(server)
        if self._relays.anew and self._renewal is None:
            watch.ask_channels()
        if not self._is_held():
            self._relays.read()
            self._release(server, None)
        self._settle_asked(server)
        self.journal.poll()
        if self._clock() - self._saved_at > self._options.save_interval_s:
            self._save()

    def _drain(self, server: ServerNow, dump: BinlogDump | None) -> None:
        """Follow the log until it is known beyond what the tails beside this one have told.

        Where the journals end, each is taken as known up to the latest time of all.
        """
        until = self._clock_us() + _STOP_MARGIN_US
        self._is_stopping = True
        deadline = self._clock() + _STOP_S
        while self._clock() < deadline and self.journal.place.ts < until:
            if dump is None:
                time.sleep(0.05)
            else:
                self._pending.extend(dump.read(0.05))
            self._take_told(server)
            self._release(server, None)

    def _save(self) -> None:
        self.journal.place.channels = self._channels.known
        self.journal.save()
        self._saved_at = self._clock()

    def _lose_session(self) -> None:
        """What came before the stream ended is told; what was asked is answered."""
        self._pending.clear()
        while not self._told.empty():
            self._told.get()
        if self._asked is not None and not self._asked.is_given_up:
            self._answer_error(self._asked.request, {"unreachable": True})
        self._asked = None
        self._save()

    def _rest(self, seconds: float, stop: threading.Event) -> None:
        end = self._clock() + seconds
        while not stop.wait(min(0.1, max(0.0, end - self._clock()))) and self._clock() < end:
            self._answer_unreachable()
            self.journal.poll()

    def _tell_problem(self, text: str) -> None:
        if text != self._problem:
            self._problem = text
            self._notice(text if self.name in text else f"{self.name}: {text}")

    # Opening the stream

    def _begin(self, server: ServerNow) -> None:
        """Tell what has happened since the last session, and where the stream is to go on."""
        place = self.journal.place
        if place.server_uuid is None:
            self._begin_journal(server)
            return
        if place.server_uuid != server.facts["server_uuid"]:
            self._notice(f"{self.name}: another server_uuid: its history begins anew")
            self.journal.fact(RecordType.GAP, {})
            place.reset()
            place.relays.clear()
            self._channels.known = {}
            self._relays.forget()
            self._begin_journal(server, {"data_lineage": "restored"})
            return
        told = place.boot_s
        server.is_boot_untold = told is None or abs(told - server.boot_s) > BOOT_TOLERANCE_S
        if not server.is_boot_untold:
            self._tell_variables(server.facts["variables"])
        else:
            self.journal.advance_unproven(self._clock_us())
        if server.has_binlog:
            self._go_on(server)
        elif server.is_boot_untold:
            self._tell_boot(server, {})

    def _begin_journal(self, server: ServerNow, more: dict[str, Any] | None = None) -> None:
        place = self.journal.place
        facts = dict(server.facts)
        if self._options.from_oldest and len(server.logs) > 1:
            # Older files may be of another mode; the first row tells the present one.
            known = facts["variables"]
            facts["variables"] = {key: known[key] for key in known if key != "gtid_mode"}
        self.journal.advance_unproven(self._clock_us())
        self.journal.fact(RecordType.START, {**facts, **(more or {})})
        place.started(facts, server.boot_s)
        self._start_at_end(server)

    def _start_at_end(self, server: ServerNow) -> None:
        """Nothing of this binary log has been told yet."""
        if server.logs:
            names = list(server.logs)
            self._start = (names[0] if self._options.from_oldest else names[-1], MAGIC_LENGTH)

    def _go_on(self, server: ServerNow) -> None:
        """Find the place where the stream goes on behind what was told."""
        place = self.journal.place
        if not place.file:
            self._start_at_end(server)
            return
        start = find_start(place, server.logs)
        if self._is_anew or start.happened is Happened.RESET:
            self._tell_reset(server)
            return
        self._start = (start.file, start.position)
        if start.happened is Happened.PURGED:
            self._notice(
                f"{self.name}: {place.file} behind {place.position} was purged before it was read:"
                " told as a gap"
            )
            self.journal.fact(RecordType.GAP, {})
            self._is_behind_gap = True
            if server.is_boot_untold:
                self._tell_boot(server, {})

    def _tell_reset(self, server: ServerNow) -> None:
        """RESET: the binary log began anew."""
        is_live = self._is_anew or self._ended_code == PURGED_OR_UNKNOWN
        is_lost = not is_live or any(_target(t) > self._here() for t in self._targets)
        self._is_anew = False
        if is_lost:
            self.journal.fact(RecordType.GAP, {})
        self._notice(
            f"{self.name}: the binary log began anew (RESET)"
            + (", maybe behind groups that were not read: told as a gap" if is_lost else "")
        )
        # Not before it happened: what replicas have received until then is of the old log.
        self.journal.advance_unproven(self._clock_us())
        self.journal.fact(RecordType.BINLOG_RESET, {})
        self.journal.place.reset()
        self._targets.clear()
        self._start = (next(iter(server.logs)), MAGIC_LENGTH)
        if server.is_boot_untold:
            self._tell_boot(server, {})

    def _identify(self, dump: BinlogDump) -> None:
        """Whether the file that the stream goes on in is the one that was followed."""
        place, told = self.journal.place, dump.first_format
        if told is None or self._start != (place.file, place.position):
            return
        if place.file_opened_s not in (None, told.timestamp):
            self._is_anew = True
            raise _BeganAnewError(f"{self.name}: {place.file} is another file than before")

    def _leave_boot(self) -> None:
        """A start is about to be told: what the boot before received stands in front of it."""
        self._relays.read()
        self._relays.tell(self._clock_us())

    def _tell_boot(self, server: ServerNow, more: dict[str, Any]) -> None:
        """The present boot of the server began here."""
        body = {**server.facts, **more}
        if server.gtid_table is not None:
            body["gtid_executed_table"] = server.gtid_table
        self._leave_boot()
        self.journal.fact(RecordType.START, body)
        self.journal.place.started(body, server.boot_s)
        self._relays.started()
        server.is_boot_untold = False
        if server.recovers_relay_log:
            for channel in self._channels.known:
                self.journal.fact(
                    RecordType.CHANNEL, {"channel": channel, "action": "relay_log_recovery"}
                )
                self._channels.forget_received(channel)

    # What came

    def _take_told(self, server: ServerNow) -> None:
        while not self._told.empty():
            told = self._told.get()
            if isinstance(told, ChannelsTold):
                self._renewal = told
            elif isinstance(told, Reached):
                self._refuse_fallen(told)
                self._targets.append(told)
                if len(self._targets) > TARGETS_MAX:
                    del self._targets[TARGETS_MAX // 2]
            elif self._asked is not None and self._asked.request == told.request:
                if self._asked.is_given_up:
                    self._asked = None
                else:
                    self._asked.collected = told

    def _seen(self) -> tuple[str, int]:
        dump = self._dump
        return ("", 0) if dump is None else (dump.file, dump.position)

    def _refuse_fallen(self, told: Reached) -> None:
        """A log that ends before a place that has been read is another log."""
        file, position = told.seen
        if told.file is None or not file:
            return
        if (_number(told.file), told.position) < (_number(file), position):
            self._is_anew = True
            raise _BeganAnewError(
                f"{self.name}: the binary log ends at {told.file}:{told.position},"
                f" {file}:{position} had been read before"
            )

    def _renew(self, told: ChannelsTold) -> None:
        """Channels whose relay logs began anew: what their source is now.

        This stands at a time that is no earlier than what was received before it.
        """
        described = {str(body["channel"]).lower(): body for body in told.channels}
        for name in sorted(self._relays.anew):
            body = described.get(name)
            if body is None:
                self._channels.removed(name)
                self._relays.renew(name, {"channel": name, "action": "reset_all"})
            else:
                self._channels.renewed(name)
                self._relays.renew(name, {**body, "channel": name})

    def _is_held(self) -> bool:
        """Whether events wait, because the row that is being read may belong in front of them."""
        asked = self._asked
        return (
            asked is not None
            and not asked.is_given_up
            and len(self._pending) < PENDING_MAX
            and self._clock() - asked.since < self._options.hold_s
        )

    def _release(self, server: ServerNow, limit: tuple[int, int] | None) -> None:
        """Tell the events that have come, up to a place."""
        pending = self._pending
        while pending:
            event = pending[0].event
            place = (_number(event.fields["file"]), event.end)
            if limit is not None and place > limit:
                break
            while self._targets and _target(self._targets[0]) < place:
                self._prove(self._targets.popleft())
            self._tell_event(server, pending.popleft())
        here = self._here()
        while self._targets and not pending and _target(self._targets[0]) <= here:
            self._prove(self._targets.popleft())

    def _here(self) -> tuple[int, int]:
        place = self.journal.place
        return (_number(place.file), place.position) if place.file else (0, 0)

    def _prove(self, reached: Reached) -> None:
        """Everything logged before a time has been told."""
        if reached.ts > self.journal.place.ts:
            self.journal.advance(reached.ts)
            if not self._is_stopping:
                self._relays.tell(reached.ts)
            self.journal.fact(RecordType.HEARTBEAT, {})
            if self._renewal is not None and reached.ts >= self._renewal.ts:
                self._renew(self._renewal)
                self._renewal = None

    def _tell_event(self, server: ServerNow, streamed: StreamedEvent) -> None:
        event, told, place = streamed.event, streamed.format, self.journal.place
        file = event.fields["file"]
        if told is not None and place.file not in ("", file):
            if told.created:
                self._tell_boundary(server, told.created, told.server_version)
            elif place.ended_by != EventType.ROTATE and not self._is_behind_gap:
                self._is_anew = True
                raise _BeganAnewError(f"{self.name}: {file} does not follow {place.file}")
            self._is_behind_gap = False
        mode = place.variables.get("gtid_mode")
        if (event.type == EventType.ANONYMOUS_GTID and mode == "ON") or (
            mode == "OFF" and event.type in (EventType.GTID, EventType.GTID_TAGGED)
        ):
            # The mode changed and no row has told it yet. What the log holds was allowed.
            permissive = "ON_PERMISSIVE" if mode == "ON" else "OFF_PERMISSIVE"
            self._tell_variables({"gtid_mode": permissive})
        self.journal.binlog_event(event)
        if told is not None:
            place.file_opened_s = told.timestamp

    def _tell_boundary(self, server: ServerNow, created: int, version: str) -> None:
        """A start of the server opened the next file."""
        place = self.journal.place
        more: dict[str, Any] = {"crashed": place.ended_by != EventType.STOP}
        if more["crashed"]:
            size = server.logs.get(place.file, place.position)
            more["recovered"] = {"file": place.file, "position": min(size, place.position)}
        if server.is_boot_untold and created >= server.boot_s - BOOT_TOLERANCE_S:
            self._tell_boot(server, more)
            return
        # A boot that ended before anybody could ask the server.
        body = {"server_uuid": place.server_uuid, "version": version.partition("-")[0], **more}
        self._leave_boot()
        self.journal.fact(RecordType.START, body)
        place.started(body, None)
        self._relays.started()

    def _tell_variables(self, variables: dict[str, Any]) -> None:
        place = self.journal.place
        changed = {
            key: value
            for key, value in variables.items()
            if key != "server_id" and place.variables.get(key) != value
        }
        if changed:
            self.journal.fact(RecordType.VARIABLES, {"variables": changed})
            place.variables |= changed

    # Collections

    def _take_requests(self, watch: ServerWatch) -> None:
        while not self._requests.empty():
            self._waiting.append((self._requests.get(), self._clock()))
        while self._waiting:
            request, since = self._waiting[0]
            if self._asked is None:
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

    def _answer_unreachable(self) -> None:
        for request, _ in self._waiting:
            self._answer_error(request, {"unreachable": True})
        self._waiting.clear()
        while not self._requests.empty():
            self._answer_error(self._requests.get(), {"unreachable": True})

    def _answer_error(self, request: CollectRequest, error: dict[str, Any]) -> None:
        body = {"collection_id": request.collection_id, "requested_at": request.requested_at}
        self._answer({**body, "error": error})

    def _answer(self, body: dict[str, Any]) -> None:
        self.journal.fact(RecordType.LOG_STATUS, body)
        self.collections += 1
        if self._answered is not None:
            self._answered(body["collection_id"])

    def _settle_asked(self, server: ServerNow) -> None:
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
        limit = row_place(collected.body)
        if limit is not None:
            self._release(server, limit)
        here = self._here()
        if limit is None or here == limit:
            self._asked = None
            self._tell_row(server, collected)
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

    def _tell_row(self, server: ServerNow, collected: Collected) -> None:
        place, body = self.journal.place, collected.body
        if server.is_boot_untold:
            # No file that a start opened came up to here: the clocks were wrong, not the server.
            server.is_boot_untold = False
            place.boot_s = server.boot_s
        self.journal.advance(collected.ts)
        self._relays.tell(collected.ts)
        self._relays.administer(self._channels.note(body, collected.channels))
        if not self._relays.read_row(body):
            self._answer_error(
                collected.request,
                {"timed_out": True, "message": "a relay log was gone before it was read that far"},
            )
            return
        self._tell_variables(collected.variables)
        logs = body.get("binary_logs")
        oldest = logs[0].get("name") if logs else None
        if oldest and place.oldest_file and _number(oldest) > _number(place.oldest_file):
            self.journal.fact(RecordType.BINLOG_PURGE, {"to_file": oldest})
        place.oldest_file = oldest or place.oldest_file
        self._answer(body)


def row_place(body: dict[str, Any]) -> tuple[int, int] | None:
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


def _number(file: str) -> int:
    return parse_log_file_name(file)[1]


def _target(reached: Reached) -> tuple[int, int]:
    return (0, 0) if reached.file is None else (_number(reached.file), reached.position)
