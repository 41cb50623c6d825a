"""What has happened on one server, told in order: the story that its journal is.

Events come from the stream, proofs of time and descriptions of channels from the watch; here they
become records in their places. What a server's start, a RESET or a purge did while nobody looked
is told before what comes behind it. Nothing here waits for a server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, final

import numpy as np

from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.binlog import MAGIC_LENGTH, EventType, parse_log_file_name
from tallystick.producers.mysql.binlog_dump import PURGED_OR_UNKNOWN, Streamed, StreamedEvent
from tallystick.producers.mysql.channel_watch import ChannelWatch
from tallystick.producers.mysql.errors import MysqlError
from tallystick.producers.mysql.event_runs import EventRun
from tallystick.producers.mysql.log_start import Happened, OlderCopy, find_start
from tallystick.producers.mysql.relay_logs import RelayLogs
from tallystick.producers.mysql.server_watch import ChannelsTold, Collected, Reached

if TYPE_CHECKING:
    from tallystick.producers.mysql.binlog_events import FormatDescription
    from tallystick.producers.mysql.server_now import ServerNow
    from tallystick.producers.mysql.tail_journal import TailJournal

BOOT_TOLERANCE_S = 2.5
"""Uptime is told in whole seconds, and not at one instant with the clock."""
TARGETS_MAX = 64

Place = tuple[int, int]
"""File number and position."""


class BeganAnewError(MysqlError):
    """The binary log is not the one that was followed: there was a RESET."""


@final
class ServerHistory:
    """One server's history as far as it is told.

    Args:
        name: Our key of the server.
        journal: Takes the records.
        relays: The relay logs.
        notice: Takes one line about what was noticed.
        clock_us: Microseconds since 1970.
        from_oldest: Whether a new journal begins with the oldest binary log file.
        first_file: The binary log file that it begins with else, if there is such a one; without
            it it begins with the present one.

    Attributes:
        relays: The relay logs.
        channels: The channels, as rows and the server's own words show them.
        start: Where the stream is to begin: file and position.
        ended_code: The server's error that ended the stream last.
        is_anew: Whether the binary log turned out to be another one.
        is_stopping: Whether no more of relay logs is to be told.
    """

    def __init__(
        self,
        name: str,
        journal: TailJournal,
        relays: RelayLogs,
        *,
        notice: Callable[[str], None],
        clock_us: Callable[[], int],
        from_oldest: bool,
        first_file: str = "",
    ) -> None:
        self.name = name
        self.relays = relays
        self.channels = ChannelWatch(journal.place.channels)
        self.start = ("", MAGIC_LENGTH)
        self.ended_code: int | None = None
        self.is_anew = False
        self.is_stopping = False
        self._journal = journal
        self._notice = notice
        self._clock_us = clock_us
        self._from_oldest = from_oldest
        self._first_file = first_file
        self._pending: deque[Streamed] = deque()
        self._targets: deque[Reached] = deque()
        self._renewal: ChannelsTold | None = None
        self._is_behind_gap = False
        self._server: ServerNow | None = None
        self._older_copy = OlderCopy()
        self._was_away = False
        """Whether the log turned out to be another one when it was followed again."""

    @property
    def here(self) -> Place:
        """Behind which event of the binary log the journal stands."""
        place = self._journal.place
        return (number_of(place.file), place.position) if place.file else (0, 0)

    @property
    def pending_count(self) -> int:
        """How many events have come and are not told."""
        return sum(len(each) if isinstance(each, EventRun) else 1 for each in self._pending)

    @property
    def wants_channels(self) -> bool:
        """Whether a relay log began anew, and the server has not been asked why."""
        return bool(self.relays.anew) and self._renewal is None

    # A session begins and ends

    def begin(self, server: ServerNow) -> None:
        """Tell what has happened since the last session, and where the stream is to go on."""
        place = self._journal.place
        self._server = server
        if place.server_uuid is None:
            self._begin_journal(server)
            return
        if place.server_uuid != server.facts["server_uuid"]:
            self._notice(f"{self.name}: another server_uuid: its history begins anew")
            self._journal.fact(RecordType.GAP, {})
            place.reset()
            place.relays.clear()
            self.channels.known = {}
            self.relays.forget()
            self._first_file = ""
            self._begin_journal(server, {"data_lineage": "restored"})
            return
        told = place.boot_s
        server.is_boot_untold = told is None or abs(told - server.boot_s) > BOOT_TOLERANCE_S
        if not server.is_boot_untold:
            self.tell_variables(server.facts["variables"])
        else:
            self._journal.advance_unproven(self._clock_us())
        if server.has_binlog:
            self._go_on(server)
        elif server.is_boot_untold:
            self._tell_boot(server, {})

    def _begin_journal(self, server: ServerNow, more: dict[str, Any] | None = None) -> None:
        place = self._journal.place
        facts = dict(server.facts)
        if self._file_to_begin_with(server) != next(reversed(server.logs), ""):
            # Older files may be of another mode; the first row tells the present one.
            known = facts["variables"]
            facts["variables"] = {key: known[key] for key in known if key != "gtid_mode"}
        self._journal.advance_unproven(self._clock_us())
        self._journal.fact(RecordType.START, {**facts, **(more or {})})
        place.started(facts, server.boot_s)
        place.begun_in = next(reversed(server.logs), "")
        for body in server.channels:
            name = str(body["channel"]).lower()
            self._journal.fact(RecordType.CHANNEL, {**body, "channel": name})
            self.channels.renewed(name)
        # Appliers purge what they have applied: the files are opened before anything else is read.
        self.relays.open(server.relay_files)
        self._start_at_end(server)

    def _start_at_end(self, server: ServerNow) -> None:
        """Nothing of this binary log has been told yet."""
        if server.logs:
            self.start = (self._file_to_begin_with(server), MAGIC_LENGTH)

    def _file_to_begin_with(self, server: ServerNow) -> str:
        if self._first_file in server.logs:
            return self._first_file
        names = iter(server.logs) if self._from_oldest else reversed(server.logs)
        return next(names, "")

    def _go_on(self, server: ServerNow) -> None:
        """Find the place where the stream goes on behind what was told."""
        place = self._journal.place
        if not place.file:
            self._start_at_end(server)
            return
        start = find_start(place, server.logs)
        if self._older_copy.is_awaited and self.ended_code == PURGED_OR_UNKNOWN:
            self._older_copy.refuse()
        if self.is_anew or start.happened is Happened.RESET:
            # What a replica has lost comes again: a copy of before is as good as one made anew.
            may_be_older = server.is_boot_untold and not server.channels
            older = self._older_copy.look(server.logs) if may_be_older else None
            if older is None:
                self._tell_reset(server)
            else:
                self.start = older
            return
        self._older_copy.forget()
        self.start = (start.file, start.position)
        if start.happened is Happened.PURGED:
            self._notice(
                f"{self.name}: {place.file} behind {place.position} was purged before it was read:"
                " told as a gap"
            )
            self._journal.fact(RecordType.GAP, {})
            self._is_behind_gap = True
            if server.is_boot_untold:
                self._tell_boot(server, {})

    def _tell_reset(self, server: ServerNow) -> None:
        """RESET: the binary log began anew."""
        self._older_copy.forget()
        is_live = self.is_anew or self.ended_code == PURGED_OR_UNKNOWN
        is_live, self._was_away = is_live and not self._was_away, False
        is_lost = not is_live or any(_target(t) > self.here for t in self._targets)
        self.is_anew = False
        if is_lost:
            self._journal.fact(RecordType.GAP, {})
        self._notice(
            f"{self.name}: the binary log began anew (RESET)"
            + (", maybe behind groups that were not read: told as a gap" if is_lost else "")
        )
        # Not before it happened: what replicas have received until then is of the old log.
        self._journal.advance_unproven(self._clock_us())
        self._journal.fact(RecordType.BINLOG_RESET, {})
        self._journal.place.reset()
        self.channels.lost_gtids()
        self._targets.clear()
        self.start = (next(iter(server.logs)), MAGIC_LENGTH)
        if server.is_boot_untold:
            self._tell_boot(server, {})

    def identify(self, told: FormatDescription | None) -> None:
        """Look whether the file that the stream goes on in is the one that was followed.

        Raises:
            BeganAnewError: It is another one.
        """
        place, (file, position) = self._journal.place, self.start
        if told is None:
            return
        if self._older_copy.is_awaited:
            if not self._older_copy.is_of(place, told.timestamp):
                self._older_copy.refuse()
                raise BeganAnewError(f"{self.name}: {file} is another file than before")
            self._notice(
                f"{self.name}: the binary log is an older copy of that which was followed: it ends"
                f" at {file}:{position}, {place.file}:{place.position} had been read before"
            )
            place.went_back(file, position)
            self._older_copy.forget()
            self._targets.clear()
            self.is_anew = self._was_away = False
        elif file == place.file and place.opened_s.get(file, told.timestamp) != told.timestamp:
            self.is_anew = self._was_away = True
            raise BeganAnewError(f"{self.name}: {place.file} is another file than before")

    def _tell_boot(
        self, server: ServerNow, more: dict[str, Any], *, is_watched: bool = True
    ) -> None:
        """The present boot of the server began here."""
        body = {**server.facts, **more}
        if server.gtid_table is not None:
            body["gtid_executed_table"] = server.gtid_table
        self._tell_start(body, server.boot_s, is_watched=is_watched)
        server.is_boot_untold = False
        if server.recovers_relay_log and is_watched:
            for channel in self.channels.known:
                self._journal.fact(
                    RecordType.CHANNEL, {"channel": channel, "action": "relay_log_recovery"}
                )
                self.channels.forget_received(channel)

    def _tell_start(self, body: dict[str, Any], boot_s: float | None, *, is_watched: bool) -> None:
        """A boot began: in front of it stands what the one before received, if that was watched.

        Of boots before the journal only the binary log is left; the relay logs are of the present.
        """
        if is_watched:
            self.relays.leave_boot()
        self._journal.fact(RecordType.START, body)
        self._journal.place.started(body, boot_s)
        if is_watched:
            self.relays.started()

    def end_session(self) -> None:
        """Tell what came before the stream ended: it may not come again."""
        try:
            self.release(None)
        finally:
            self._pending.clear()
            self.relays.lose()

    # What came

    def receive(self, events: list[Streamed]) -> None:
        """Take what the stream brought."""
        self._pending.extend(events)

    def reached(self, told: Reached) -> None:
        """Take how far the log had come at a time.

        Raises:
            BeganAnewError: It ends before a place that has been read.
        """
        self._refuse_fallen(told)
        self._targets.append(told)
        if len(self._targets) > TARGETS_MAX:
            del self._targets[TARGETS_MAX // 2]

    def describe_channels(self, told: ChannelsTold) -> None:
        """Take how the server describes its channels, for those whose relay log began anew."""
        self._renewal = told

    def release(self, limit: Place | None) -> None:
        """Tell the events that have come, up to a place.

        Raises:
            BeganAnewError: They are of another log.
        """
        pending = self._pending
        while pending:
            streamed = pending[0]
            if isinstance(streamed, EventRun):
                told = self._tell_run(streamed, limit)
                if told < len(streamed):
                    pending[0] = streamed.part(told, len(streamed))
                    break
            else:
                place = (number_of(streamed.event.file), streamed.event.end)
                if limit is not None and place > limit:
                    break
                self._prove_before(place)
                self._tell_event(streamed)
            pending.popleft()
        here = self.here
        while self._targets and not pending and _target(self._targets[0]) <= here:
            self._prove(self._targets.popleft())

    def _refuse_fallen(self, told: Reached) -> None:
        """A log that ends before a place that has been read is another log."""
        file, position = told.seen
        if told.file is None or not file:
            return
        if (number_of(told.file), told.position) < (number_of(file), position):
            self.is_anew = True
            raise BeganAnewError(
                f"{self.name}: the binary log ends at {told.file}:{told.position},"
                f" {file}:{position} had been read before"
            )

    def _renew(self, told: ChannelsTold) -> None:
        """Channels whose relay logs began anew: what their source is now.

        This stands at a time that is no earlier than what was received before it.
        """
        described = {str(body["channel"]).lower(): body for body in told.channels}
        for name in sorted(self.relays.anew):
            body = described.get(name)
            if body is None:
                self.channels.removed(name)
                self.relays.renew(name, {"channel": name, "action": "reset_all"})
            else:
                self.channels.renewed(name)
                self.relays.renew(name, {**body, "channel": name})

    def _prove(self, reached: Reached) -> None:
        """Everything logged before a time has been told."""
        if reached.ts > self._journal.place.ts:
            self._journal.advance(reached.ts)
            if not self.is_stopping:
                self.relays.tell(reached.ts)
            self._journal.fact(RecordType.HEARTBEAT, {})
            if self._renewal is not None and reached.ts >= self._renewal.ts:
                self._renew(self._renewal)
                self._renewal = None

    def _prove_before(self, place: Place) -> None:
        """Prove the times at which the log had not come to the end of an event."""
        while self._targets and _target(self._targets[0]) < place:
            self._prove(self._targets.popleft())

    def _tell_run(self, run: EventRun, limit: Place | None) -> int:
        """Tell the events of a run, up to a place; return how many."""
        number = number_of(run.file)
        count = len(run) if limit is None else _count_up_to(run, number, limit)
        at = 0
        while at < count:
            self._prove_before((number, int(run.ends[at])))
            upto = count
            if self._targets:
                upto = min(count, _count_up_to(run, number, _target(self._targets[0])))
            if run.is_anonymous is not None:
                self._tell_mode(is_anonymous=run.is_anonymous)
            self._journal.binlog_run(run.part(at, upto))
            at = upto
        return count

    def _tell_mode(self, *, is_anonymous: bool) -> None:
        """The mode may have changed and no row has told it yet: what the log holds was allowed."""
        mode = self._journal.place.variables.get("gtid_mode")
        if mode == ("ON" if is_anonymous else "OFF"):
            self.tell_variables({"gtid_mode": f"{mode}_PERMISSIVE"})

    def _tell_event(self, streamed: StreamedEvent) -> None:
        event, told, place = streamed.event, streamed.format, self._journal.place
        file = event.file
        if told is not None and place.file not in ("", file):
            if told.created:
                self._tell_boundary(file, told.created, told.server_version)
            elif place.ended_by != EventType.ROTATE and not self._is_behind_gap:
                self.is_anew = True
                raise BeganAnewError(f"{self.name}: {file} does not follow {place.file}")
            self._is_behind_gap = False
        if event.type in (EventType.ANONYMOUS_GTID, EventType.GTID, EventType.GTID_TAGGED):
            self._tell_mode(is_anonymous=event.type == EventType.ANONYMOUS_GTID)
        self._journal.binlog_event(event)
        if told is not None:
            place.opened(told.timestamp)

    def _tell_boundary(self, file: str, created: int, version: str) -> None:
        """A start of the server opened a file."""
        place, server = self._journal.place, self._server
        assert server is not None
        more: dict[str, Any] = {"crashed": place.ended_by != EventType.STOP}
        if more["crashed"]:
            size = server.logs.get(place.file, place.position)
            more["recovered"] = {"file": place.file, "position": min(size, place.position)}
        is_watched = not place.begun_in or number_of(file) > number_of(place.begun_in)
        if created >= server.boot_s - BOOT_TOLERANCE_S:
            self._tell_boot(server, more, is_watched=is_watched)
            return
        # A boot that ended before anybody could ask the server.
        body = {"server_uuid": place.server_uuid, "version": version.partition("-")[0], **more}
        self._tell_start(body, None, is_watched=is_watched)

    def tell_variables(self, variables: Mapping[str, Any]) -> None:
        """Tell those that have another value than was told."""
        place = self._journal.place
        changed = {
            key: value
            for key, value in variables.items()
            if key != "server_id" and place.variables.get(key) != value
        }
        if changed:
            self._journal.fact(RecordType.VARIABLES, {"variables": changed})
            place.variables |= changed

    # Rows

    def tell_beside(self, collected: Collected) -> bool:
        """Tell what an answer shows of the server, in front of its row: the log stands there.

        Returns:
            Whether the relay logs have been told up to the row.
        """
        place, body, server = self._journal.place, collected.body, self._server
        if server is not None and server.is_boot_untold:
            # No file that a start opened came up to here: the clocks were wrong, not the server.
            server.is_boot_untold = False
            place.boot_s = server.boot_s
        self._journal.advance(collected.ts)
        self.relays.tell(collected.ts)
        self.relays.administer(self.channels.note(body, collected.channels))
        if not self.relays.read_row(body):
            return False
        self.tell_variables(collected.variables)
        logs = body.get("binary_logs")
        oldest = logs[0].get("name") if logs else None
        if oldest and place.oldest_file and number_of(oldest) > number_of(place.oldest_file):
            self._journal.fact(RecordType.BINLOG_PURGE, {"to_file": oldest})
        place.oldest_file = oldest or place.oldest_file
        return True


def number_of(file: str) -> int:
    """The number of a log file."""
    return parse_log_file_name(file)[1]


def _count_up_to(run: EventRun, number: int, place: Place) -> int:
    """How many events of a run, in the file of that number, end no later than at a place."""
    if number != place[0]:
        return len(run) if number < place[0] else 0
    return int(np.searchsorted(run.ends, place[1], side="right"))


def _target(reached: Reached) -> Place:
    return (0, 0) if reached.file is None else (number_of(reached.file), reached.position)
