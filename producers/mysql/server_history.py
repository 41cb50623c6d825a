"""What has happened on one server, in order: it becomes the server's journal.

Events come from the stream, proofs of time and descriptions of channels from the watch; here they
become records in their positions. What a server's start, a RESET or a purge did while the server
was not watched is recorded before what follows it. Nothing here waits for a server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, final

import numpy as np

from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.binlog import MAGIC_LENGTH, EventType, parse_log_file_name
from tallystick.producers.mysql.binlog_dump import PURGED_OR_UNKNOWN, Streamed, StreamedEvent
from tallystick.producers.mysql.channel_watch import (
    GROUP_REPLICATION,
    ChannelWatch,
    relay_coordinates,
)
from tallystick.producers.mysql.clone_shown import OWN_DATA
from tallystick.producers.mysql.errors import MysqlError
from tallystick.producers.mysql.event_runs import EventRun
from tallystick.producers.mysql.log_start import FileOrder, Happened, OlderCopy, find_start
from tallystick.producers.mysql.relay_files import BOOT_TOLERANCE_S
from tallystick.producers.mysql.relay_logs import RelayLogs
from tallystick.producers.mysql.server_watch import ChannelsRead, Collected, LogEnd

if TYPE_CHECKING:
    from tallystick.producers.mysql.binlog_events import FormatDescription
    from tallystick.producers.mysql.clone_shown import CloneShown
    from tallystick.producers.mysql.server_now import ServerNow
    from tallystick.producers.mysql.tail_journal import TailJournal

TARGETS_MAX = 64

LogPosition = tuple[int, int]
"""File number and position."""


class BeganAnewError(MysqlError):
    """The binary log is not the one that was followed: there was a RESET."""


@final
class ServerHistory:
    """One server's history as far as it is recorded.

    Args:
        name: Our key of the server.
        journal: Takes the records.
        relays: The relay logs.
        notice: Takes one line about what was noticed.
        clock_us: Microseconds since 1970.
        from_oldest: Whether a new journal begins with the oldest binary log file.
        first_file: The binary log file that it begins with else, if there is such a one; without
            it it begins with the present one.
        donor_of: Our key of the server that a clone came from; None: it is not known.

    Attributes:
        relays: The relay logs.
        channels: The channels, as rows and the server's descriptions show them.
        start: Where the stream is to begin: file and position.
        ended_code: The server's error that ended the stream last.
        is_anew: Whether the binary log turned out to be another one.
        is_stopping: Whether no more of relay logs is to be recorded.
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
        donor_of: Callable[[CloneShown], str | None] = lambda _: None,
    ) -> None:
        self.name = name
        self.relays = relays
        self.channels = ChannelWatch(journal.state.channels)
        self.start = ("", MAGIC_LENGTH)
        self.ended_code: int | None = None
        self.is_anew = False
        self.is_stopping = False
        self._journal = journal
        self._notice = notice
        self._clock_us = clock_us
        self._from_oldest = from_oldest
        self._first_file = first_file
        self._donor_of = donor_of
        self._pending: deque[Streamed] = deque()
        self._targets: deque[LogEnd] = deque()
        self._described: ChannelsRead | None = None
        """The last answer about channels that began anew, before it was given twice."""
        self._renewal: ChannelsRead | None = None
        self._channel_changes: int | None = None
        """As counted when channels were described last, since the start; None: not known."""
        self._is_after_gap = False
        self._server: ServerNow | None = None
        self._order = FileOrder()
        self._older_copy = OlderCopy()
        self._was_away = False
        """Whether the log turned out to be another one when it was followed again."""

    @property
    def here(self) -> LogPosition:
        """The end of the last binary log event in the journal."""
        state = self._journal.state
        return self.place(state.file, state.position) if state.file else (0, 0)

    def place(self, file: str, position: int) -> LogPosition:
        """A position in the binary log, to compare with others."""
        return self._order.of(file), position

    def _place_of(self, log_end: LogEnd) -> LogPosition:
        return (0, 0) if log_end.file is None else self.place(log_end.file, log_end.position)

    @property
    def pending_count(self) -> int:
        """How many events have come and are not recorded."""
        return sum(len(each) if isinstance(each, EventRun) else 1 for each in self._pending)

    @property
    def wants_channels(self) -> bool:
        """Whether a relay log began anew, and the server has not been asked why."""
        return bool(self.relays.anew) and self._renewal is None

    # A session begins and ends

    def begin(self, server: ServerNow) -> None:
        """Record what has happened since the last session, and where the stream is to go on."""
        self._server = server
        self._order = FileOrder(server.logs)
        self._begin(server)
        if server.clone.is_settled:
            self._journal.state.uncloned_us = server.asked_us

    def _begin(self, server: ServerNow) -> None:
        state = self._journal.state
        if state.server_uuid is None:
            self._begin_journal(server)
            return
        if state.server_uuid != server.start_body["server_uuid"]:
            self._begin_anew(server, "restored", "another server_uuid")
            return
        known_s = state.boot_s
        server.is_boot_unreported = (
            known_s is None or abs(known_s - server.boot_s) > BOOT_TOLERANCE_S
        )
        if server.clone.begun and state.clone not in {None, server.clone.begun}:
            # The server keeps its server_uuid; its logs and its channels are others.
            self._begin_anew(server, "cloned", "its data came with a clone")
            return
        if server.is_boot_unreported:
            # A start counts from 0; what the boot before had counted last is not known.
            self._channel_changes = None if self.relays.anew else 0
        elif self._channel_changes is None and not self.relays.anew:
            self._channel_changes = server.channel_changes
        if not server.is_boot_unreported:
            state.clone = server.clone.begun
            self.record_variables(server.start_body["variables"])
        else:
            self._journal.advance_unproven(self._clock_us())
        if server.has_binlog:
            self._go_on(server)
        elif server.is_boot_unreported:
            self._record_boot(server, {})
            # The file that was followed is closed, and cannot be read before there is a log again.
            state.ended_by = EventType.STOP

    def _begin_anew(self, server: ServerNow, data_lineage: str, why: str) -> None:
        """The data are others: nothing that was recorded is continued."""
        self._notice(f"{self.name}: {why}: its history begins anew")
        self._journal.server_record(RecordType.GAP, {})
        self._journal.state.reset()
        self._journal.state.relays.clear()
        self.channels.known = {}
        self.relays.forget()
        self._older_copy.forget()
        self._targets.clear()
        self.is_anew = self._was_away = False
        self._first_file = ""
        self._begin_journal(server, data_lineage)

    def _begin_journal(self, server: ServerNow, data_lineage: str = "") -> None:
        state = self._journal.state
        self._channel_changes = server.channel_changes
        body = dict(server.start_body)
        if self._file_to_begin_with(server) != next(reversed(server.logs), ""):
            # Older files may be of another mode; the first row shows the present one.
            known = body["variables"]
            body["variables"] = {key: known[key] for key in known if key != "gtid_mode"}
        lineage = {"data_lineage": data_lineage} if data_lineage else {}
        self._journal.advance_unproven(self._clock_us())
        self._journal.server_record(RecordType.START, {**body, **lineage})
        state.started(body, server.boot_s)
        if data_lineage == "cloned" and state.uncloned_us is not None:
            self._record_clone(server.clone, state.uncloned_us)
        state.clone = server.clone.begun
        state.begun_in = next(reversed(server.logs), "")
        for channel in server.channels:
            name = str(channel["channel"]).lower()
            self._journal.server_record(RecordType.CHANNEL, {**channel, "channel": name})
            self.channels.renewed(name)
        # Appliers purge what they have applied: the files are opened before anything else is read.
        self.relays.open(server.relay_files, server.read)
        self._start_at_end(server)

    def _record_clone(self, clone: CloneShown, not_before: int) -> None:
        """The server's data came with a clone, which it has shown since."""
        donor = self._donor_of(clone)
        body = {"role": "recipient", "step": "found", "destination": OWN_DATA}
        body |= {"source": clone.source, "begin_time": clone.begin_time}
        body |= {} if donor is None else {"peer": donor}
        self._journal.server_record(RecordType.CLONE, {**body, "not_before": not_before})

    def _start_at_end(self, server: ServerNow) -> None:
        """Nothing of this binary log has been recorded yet."""
        if server.logs:
            self.start = (self._file_to_begin_with(server), MAGIC_LENGTH)

    def _file_to_begin_with(self, server: ServerNow) -> str:
        if self._first_file in server.logs:
            return self._first_file
        names = iter(server.logs) if self._from_oldest else reversed(server.logs)
        return next(names, "")

    def _go_on(self, server: ServerNow) -> None:
        """Find the position where the stream goes on after what was recorded."""
        state = self._journal.state
        if not state.file:
            self._start_at_end(server)
            return
        start = find_start(state, server.logs)
        if self._older_copy.is_awaited and self.ended_code == PURGED_OR_UNKNOWN:
            self._older_copy.refuse()
        if self.is_anew or start.happened is Happened.RESET:
            # What a replica has lost comes again: an earlier copy is as good as one made anew.
            may_be_older = server.is_boot_unreported and not server.channels
            older = self._older_copy.next_file(server.logs) if may_be_older else None
            if older is None and server.is_boot_unreported and self._may_be_cloned(server):
                self._begin_anew(server, "restored", "a clone may have replaced its data")
            elif older is None:
                self._record_reset(server)
            else:
                self.start = older
            return
        self._older_copy.forget()
        self.start = (start.file, start.position)
        if start.happened in (Happened.PURGED, Happened.CLOSED):
            self._notice(
                f"{self.name}: {state.file} after {state.position} was not read:"
                f" {start.happened.value}: reported as a gap"
            )
            self._journal.server_record(RecordType.GAP, {})
            self._is_after_gap = True
            if server.is_boot_unreported and start.happened is Happened.PURGED:
                self._record_boot(server, {})

    def _may_be_cloned(self, server: ServerNow) -> bool:
        """Whether it is not known if the data came with a clone since the last boot recorded."""
        clone = server.clone
        # The row of a clone that brought no data hides one before it.
        is_unknown = clone.begun is None or (not clone.begun and bool(clone.state))
        return is_unknown or (bool(clone.begun) and self._journal.state.clone is None)

    def _record_reset(self, server: ServerNow) -> None:
        """RESET: the binary log began anew."""
        self._older_copy.forget()
        is_live = self.is_anew or self.ended_code == PURGED_OR_UNKNOWN
        is_live, self._was_away = is_live and not self._was_away, False
        is_lost = not is_live or any(self._place_of(t) > self.here for t in self._targets)
        self.is_anew = False
        if is_lost:
            self._journal.server_record(RecordType.GAP, {})
        self._notice(
            f"{self.name}: the binary log began anew (RESET)"
            + (", maybe after groups that were not read: reported as a gap" if is_lost else "")
        )
        # Not before it happened: what replicas have received until then is of the old log.
        self._journal.advance_unproven(self._clock_us())
        self._journal.server_record(RecordType.BINLOG_RESET, {})
        self._journal.state.reset()
        self.channels.lost_gtids()
        self._targets.clear()
        self.start = (next(iter(server.logs)), MAGIC_LENGTH)
        if server.is_boot_unreported:
            self._record_boot(server, {})
            # The log may begin before this boot: the file that it opened does not begin it again.
            self._journal.state.begun_in = next(reversed(server.logs))

    def identify(self, description: FormatDescription | None) -> None:
        """Check whether the file that the stream goes on in is the one that was followed.

        Raises:
            BeganAnewError: It is another one.
        """
        state, (file, position) = self._journal.state, self.start
        if description is None:
            return
        if self._older_copy.is_awaited:
            if not self._older_copy.is_of(state, description.timestamp):
                self._older_copy.refuse()
                raise BeganAnewError(f"{self.name}: {file} is another file than before")
            self._notice(
                f"{self.name}: the binary log is an older copy of that which was followed: it ends"
                f" at {file}:{position}, {state.file}:{state.position} had been read before"
            )
            state.went_back(file, position)
            self._older_copy.forget()
            self._targets.clear()
            self.is_anew = self._was_away = False
        elif (
            file == state.file
            and state.opened_s.get(file, description.timestamp) != description.timestamp
        ):
            self.is_anew = self._was_away = True
            raise BeganAnewError(f"{self.name}: {state.file} is another file than before")

    def _record_boot(
        self,
        server: ServerNow,
        more: dict[str, Any],
        *,
        opened_s: int | None = None,
        is_watched: bool = True,
    ) -> None:
        """The present boot of the server began here."""
        body = {**server.start_body, **more}
        if server.gtid_table is not None:
            body["gtid_executed_table"] = server.gtid_table
        first_s = int(server.boot_s) if opened_s is None else opened_s
        self._record_start(body, server.boot_s, first_s, is_watched=is_watched)
        server.is_boot_unreported = False
        self._journal.state.clone = server.clone.begun
        if server.recovers_relay_log and is_watched:
            for channel in self.channels.known:
                self._journal.server_record(
                    RecordType.CHANNEL, {"channel": channel, "action": "relay_log_recovery"}
                )
                self.channels.forget_received(channel)

    def _record_start(
        self, body: dict[str, Any], boot_s: float | None, opened_s: int, *, is_watched: bool
    ) -> None:
        """A boot began: record first what the previous one received, if that was watched.

        Of boots before the journal only the binary log is left; the relay logs are of the present.
        """
        if is_watched:
            self.relays.leave_boot(opened_s)
        self._journal.server_record(RecordType.START, body)
        self._journal.state.started(body, boot_s)
        if is_watched:
            self.relays.started(opened_s)

    def end_session(self) -> None:
        """Record what came before the stream ended: it may not come again."""
        try:
            self.release(None)
        finally:
            self._pending.clear()
            self._described = self._renewal = None
            self.relays.lose()

    # What came

    def receive(self, events: list[Streamed]) -> None:
        """Take what the stream brought."""
        self._pending.extend(events)

    def note_log_end(self, log_end: LogEnd) -> None:
        """Take how far the log had come at a time.

        Raises:
            BeganAnewError: It ends before a position that has been read.
        """
        self._refuse_fallen(log_end)
        self._targets.append(log_end)
        if len(self._targets) > TARGETS_MAX:
            del self._targets[TARGETS_MAX // 2]

    def describe_channels(self, channels: ChannelsRead) -> None:
        """Take how the server describes its channels, for those whose relay log began anew.

        It counts when it is given twice: what was opened in between is of these channels, and of
        no others that they were made into since.
        """
        if not self.relays.anew:
            return
        known, self._described = self._described, channels
        if known is None or known._replace(ts=channels.ts) != channels:
            self.relays.open_anew()
        else:
            self._renewal, self._described = channels, None

    def release(self, limit: LogPosition | None) -> None:
        """Record the events that have come, up to a position.

        Raises:
            BeganAnewError: They are of another log.
        """
        pending = self._pending
        while pending:
            streamed = pending[0]
            if isinstance(streamed, EventRun):
                recorded = self._record_run(streamed, limit)
                if recorded < len(streamed):
                    pending[0] = streamed.part(recorded, len(streamed))
                    break
            else:
                end = self.place(streamed.event.file, streamed.event.end)
                if limit is not None and end > limit:
                    break
                self._prove_before(end)
                self._record_event(streamed)
            pending.popleft()
        here = self.here
        while self._targets and not pending and self._place_of(self._targets[0]) <= here:
            self._prove(self._targets.popleft())

    def _refuse_fallen(self, log_end: LogEnd) -> None:
        """A log that ends before a position that has been read is another log."""
        file, position = log_end.seen
        if log_end.file is None or not file:
            return
        if self._place_of(log_end) < self.place(file, position):
            self.is_anew = True
            raise BeganAnewError(
                f"{self.name}: the binary log ends at {log_end.file}:{log_end.position},"
                f" {file}:{position} had been read before"
            )

    def _renew(self, renewal: ChannelsRead) -> None:
        """Channels whose relay logs began anew: what their source is now.

        This is recorded at a time that is no earlier than what was received before it.
        """
        described = {str(body["channel"]).lower(): body for body in renewal.channels}
        names = self.relays.opened_anew
        self._doubt_channels(renewal.changes, names, seen=len(names))
        for name in names:
            body = described.get(name)
            if body is None:
                self.channels.removed(name)
                self.relays.renew(name, {"channel": name, "action": "reset_all"})
            else:
                self.channels.renewed(name)
                self.relays.renew(name, {**body, "channel": name})

    def _doubt_channels(self, changes: int | None, names: Iterable[str], seen: int) -> bool:
        """Record a gap of channels whose relay logs began anew more often than was seen.

        Between two reads of its files a relay log may do so twice, which they do not show.

        Args:
            changes: How many statements may have done that.
            names: The channels.
            seen: How many of the statements the files have shown.

        Returns:
            Whether there is doubt.
        """
        known, self._channel_changes = self._channel_changes, changes
        if known is not None and changes is not None and changes - known <= seen:
            return False
        for name in names:
            self._notice(
                f"{self.name}: the relay log of channel {name!r} may have begun anew more often"
                " than was seen: reported as a gap"
            )
            self._journal.server_record(RecordType.GAP, {"channel": name})
        return True

    def _prove(self, log_end: LogEnd) -> None:
        """Everything logged before a time has been recorded."""
        if log_end.ts > self._journal.state.ts:
            self._journal.advance(log_end.ts)
            if not self.is_stopping:
                self.relays.record(log_end.ts)
            self._journal.server_record(RecordType.HEARTBEAT, {})
            if self._renewal is not None and log_end.ts >= self._renewal.ts:
                self._renew(self._renewal)
                self._renewal = None

    def _prove_before(self, position: LogPosition) -> None:
        """Prove the times at which the log had not come to the end of an event."""
        while self._targets and self._place_of(self._targets[0]) < position:
            self._prove(self._targets.popleft())

    def _record_run(self, run: EventRun, limit: LogPosition | None) -> int:
        """Record the events of a run, up to a position; return how many."""
        number = self._order.of(run.file)
        count = len(run) if limit is None else _count_up_to(run, number, limit)
        at = 0
        while at < count:
            self._prove_before((number, int(run.ends[at])))
            upto = count
            if self._targets:
                upto = min(count, _count_up_to(run, number, self._place_of(self._targets[0])))
            if run.is_anonymous is not None:
                self._record_mode(is_anonymous=run.is_anonymous)
            self._journal.binlog_run(run.part(at, upto))
            at = upto
        return count

    def _record_mode(self, *, is_anonymous: bool) -> None:
        """The mode may have changed and no row has shown it yet: what the log holds was allowed."""
        mode = self._journal.state.variables.get("gtid_mode")
        if mode == ("ON" if is_anonymous else "OFF"):
            self.record_variables({"gtid_mode": f"{mode}_PERMISSIVE"})

    def _record_event(self, streamed: StreamedEvent) -> None:
        event, description, state = streamed.event, streamed.format, self._journal.state
        file = event.file
        if description is not None and state.file not in ("", file):
            if description.created:
                self._record_boundary(file, description.created, description.server_version)
            elif state.ended_by != EventType.ROTATE and not self._is_after_gap:
                self.is_anew = True
                raise BeganAnewError(f"{self.name}: {file} does not follow {state.file}")
            self._is_after_gap = False
        if event.type in (EventType.ANONYMOUS_GTID, EventType.GTID, EventType.GTID_TAGGED):
            self._record_mode(is_anonymous=event.type == EventType.ANONYMOUS_GTID)
        self._journal.binlog_event(event)
        if description is not None:
            state.opened(description.timestamp)

    def _record_boundary(self, file: str, created: int, version: str) -> None:
        """A start of the server opened a file."""
        state, server = self._journal.state, self._server
        assert server is not None
        more: dict[str, Any] = {"crashed": state.ended_by != EventType.STOP}
        if more["crashed"]:
            size = server.logs.get(state.file, state.position)
            more["recovered"] = {"file": state.file, "position": min(size, state.position)}
        is_watched = not state.begun_in or self._order.of(file) > self._order.of(state.begun_in)
        if created >= server.boot_s - BOOT_TOLERANCE_S:
            self._record_boot(server, more, opened_s=created, is_watched=is_watched)
            return
        # A boot that ended before anybody could ask the server.
        body = {"server_uuid": state.server_uuid, "version": version.partition("-")[0], **more}
        self._record_start(body, None, created, is_watched=is_watched)

    def record_variables(self, variables: Mapping[str, Any]) -> None:
        """Record those that have another value than was recorded."""
        state = self._journal.state
        changed = {key: value for key, value in variables.items() if state.variable(key) != value}
        if changed:
            self._journal.server_record(RecordType.VARIABLES, {"variables": changed})
            state.changed(changed)

    # Rows

    def is_row_late(self, collected: Collected) -> bool:
        """Whether a relay log began anew: what was done comes first, and is not recorded yet."""
        self.relays.read()
        body = collected.body
        new = self.relays.unmet(body)
        described = {str(channel["channel"]).lower() for channel in collected.channels}
        if collected.changes is not None and not new <= described | GROUP_REPLICATION:
            return True  # removed since the row was read
        self.relays.meet(body, new & described)
        # A statement at least removed each channel that is gone; it says nothing of the others.
        gone = set(self.relays.channels) - relay_coordinates(body).keys() - described
        if (
            collected.changes is not None
            and not self.relays.anew
            and self._doubt_channels(collected.changes, self.relays.channels, seen=len(gone))
        ):
            self.relays.give_up()
        return bool(self.relays.anew)

    def record_shown(self, collected: Collected) -> bool:
        """Record what an answer shows of the server before its row: the log is at that position.

        Returns:
            Whether the relay logs have been recorded up to the row.
        """
        state, body, server = self._journal.state, collected.body, self._server
        if server is not None and server.is_boot_unreported:
            # No file that a start opened came up to here: the clocks were wrong, not the server.
            server.is_boot_unreported = False
            state.boot_s = server.boot_s
        self._journal.advance(collected.ts)
        if server is not None and server.clone.is_settled and server.clone.is_in(body):
            state.uncloned_us = collected.begun_ts
        self.relays.record(collected.ts)
        is_counted = collected.changes is not None and self.relays.reads_files
        self.relays.administer(
            self.channels.note(body, collected.channels, may_be_reset=not is_counted)
        )
        if not self.relays.read_row(body):
            return False
        self.record_variables(collected.variables)
        logs = body.get("binary_logs")
        oldest = logs[0].get("name") if logs else None
        if oldest and state.oldest_file and _is_later(oldest, state.oldest_file):
            self._journal.server_record(RecordType.BINLOG_PURGE, {"to_file": oldest})
        state.oldest_file = oldest or state.oldest_file
        return True


def _is_later(file: str, before: str) -> bool:
    """Whether a file was written later than one that was the oldest: names do not come back."""
    (base_name, number), (former_name, former) = map(parse_log_file_name, (file, before))
    return base_name != former_name or number > former


def _count_up_to(run: EventRun, number: int, position: LogPosition) -> int:
    """How many events of a run, in the file of that number, end no later than at a position."""
    if number != position[0]:
        return len(run) if number < position[0] else 0
    return int(np.searchsorted(run.ends, position[1], side="right"))
