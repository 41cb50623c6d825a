"""The relay logs of all channels of a replica, in step with its rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, final

import numpy as np

from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.binlog import (
    MAGIC_LENGTH,
    EventType,
    LogCoordinates,
    parse_log_file_name,
)
from tallystick.coordinates.values.errors import CoordinateError
from tallystick.producers.mysql.binlog_events import EventError, LogEvent
from tallystick.producers.mysql.channel_watch import read_coordinates, relay_coordinates
from tallystick.producers.mysql.event_runs import EventRun, Events, count_of
from tallystick.producers.mysql.log_directory import LogDirectory
from tallystick.producers.mysql.relay_files import RelayCursor, RelayFiles, why_foreign
from tallystick.producers.mysql.source_file import where_it_goes_on
from tallystick.producers.mysql.tail_journal import TailJournal

LogPosition = tuple[int, int]
"""File number and position."""

_OUTSIDE_GROUPS = frozenset(
    {
        EventType.ANONYMOUS_GTID,
        EventType.FORMAT_DESCRIPTION,
        EventType.GTID,
        EventType.GTID_TAGGED,
        EventType.PREVIOUS_GTIDS,
        EventType.ROTATE,
        EventType.STOP,
    }
)
"""Types that no group goes on with."""
WAITING_MAX = 400_000
"""With so many events read and not recorded, no more are read."""
GRACE_US = 4_000_000
"""So long a relay log that cannot be read is waited for: its reader may be about to start again."""
_BEGINS_ANEW = frozenset({"change_source", "reset", "reset_all"})


@final
class RelayLogs:
    """Reads the relay logs of a server; without a directory it does nothing.

    A channel whose files cannot be read for some seconds is left, with a ``gap`` that says why, and
    so it is before each row that follows. It is read again from the head of the file that a row
    names: that head has what was received before, so the next row is judged by all of it.

    Args:
        directory: Where the files are, None where they cannot be read.
        journal: Takes the events.
        notice: Takes one line about what cannot be read.
        clock_us: Microseconds since 1970.

    Attributes:
        anew: Channels whose files began again at 1, and those that a row was the first to name;
            they are read once it is known what they are.
    """

    def __init__(
        self,
        directory: LogDirectory | None,
        journal: TailJournal,
        notice: Callable[[str], None],
        clock_us: Callable[[], int],
    ) -> None:
        self._directory = directory
        self._journal = journal
        self._notice = notice
        self._clock_us = clock_us
        self._stopped_us = 0
        self._files: dict[str, RelayFiles] = {}
        self._opened: dict[str, RelayFiles] = {}
        """Of channels whose files began anew: the new ones."""
        self._first: dict[str, int] = {}
        """Of channels that a row was the first to name: the number of the file to begin with."""
        self._waiting: dict[str, deque[tuple[int, Events | None]]] = {}
        """What has been read and not recorded, with when; None is what was lost."""
        self._problems: dict[str, str] = {}
        """Of channels that cannot be read: why, as last reported."""
        self._unread_since: dict[str, int] = {}
        """Of followed channels that cannot be read: since when."""
        self._source_read: dict[str, LogCoordinates] = {}
        """Of channels of which nothing is recorded yet: what the receiver had read of the source
        before its files were."""
        self.anew: set[str] = set()
        if directory is not None:
            for channel, (base_name, number, position, goes_on) in journal.state.relays.items():
                cursor = RelayCursor(number, position, goes_on)
                self._files[channel] = RelayFiles(directory, base_name, cursor)

    @property
    def reads_files(self) -> bool:
        """Whether the files of all channels are read."""
        return self._directory is not None and not self._journal.state.unread_relays

    @property
    def is_waiting(self) -> bool:
        """Whether a channel cannot be read, and may be read again in some seconds."""
        return bool(self._unread_since)

    @property
    def channels(self) -> list[str]:
        """The channels whose files are read, or would be if they could."""
        return sorted({*self._files, *self._journal.state.unread_relays})

    @property
    def opened_anew(self) -> list[str]:
        """The channels whose files began anew, and were opened."""
        return sorted(self._opened)

    def open_anew(self) -> None:
        """Open the files of channels that began anew, as they are now."""
        self.read()
        for files in self._opened.values():
            files.close()
        self._opened = {}
        for channel in sorted(self.anew):
            if self._directory is not None:
                base_name = self._files[channel].base_name
                files = RelayFiles(self._directory, base_name, RelayCursor(1, MAGIC_LENGTH))
                try:
                    first = self._first.get(channel, 1)
                    if first in files.numbers():
                        files.cursor = RelayCursor(first, MAGIC_LENGTH)
                    files.hold()
                except OSError as error:
                    files.close()
                    self._note_unread(channel, error, self._clock_us())
                    continue
                if self._leave_if_foreign(channel, files):
                    files.close()
                else:
                    self._unread_since.pop(channel, None)
                    self._opened[channel] = files

    def give_up(self) -> None:
        """The files of every channel may be others than those that were read.

        So may be what was read last: it comes after a gap, and is left out.
        """
        self._waiting.clear()
        for channel in list(self._unread_since):
            self._leave(channel, self._problems[channel])
        for channel, files in self._files.items():
            files.is_anew = True
            self.anew.add(channel)

    def open(self, applied: Mapping[str, str], read: Mapping[str, LogCoordinates]) -> None:
        """Begin to read channels that are not known yet.

        Args:
            applied: The file that each channel's applier is in.
            read: How far each receiver that runs has read its source.
        """
        if self._directory is None:
            return
        for channel, file in applied.items():
            if channel not in self._files:
                with suppress(CoordinateError):
                    base_name, number = parse_log_file_name(file)
                    cursor = RelayCursor(number, MAGIC_LENGTH)
                    files = RelayFiles(self._directory, base_name, cursor)
                    self._files[channel] = files
                    self._note_read(channel, read)
                    self._leave_if_foreign(channel, files)
        self.read()

    def unmet(self, body: Mapping[str, Any]) -> set[str]:
        """The channels that a row is the first to name the relay log of."""
        if self._directory is None:
            return set()
        return {name for name, _, _ in _relay_positions(body)}.difference(self.channels)

    def meet(self, body: Mapping[str, Any], names: Iterable[str]) -> None:
        """Have channels opened that a row was the first to name, as those that began anew are.

        Until that row is recorded there may be a RESET, and what has these names then is another
        relay log than the row is of.
        """
        if self._directory is None:
            return
        applied = _applied_files(body)
        for name, (base_name, number), _ in _relay_positions(body):
            if name in names:
                self._first[name] = min(number, applied.get(name, number))
                cursor = RelayCursor(self._first[name], MAGIC_LENGTH)
                self._files[name] = RelayFiles(self._directory, base_name, cursor)
                self._files[name].is_anew = True
                self.anew.add(name)

    def leave_boot(self, opened_s: int) -> None:
        """Record what the previous boot received, before the start that is recorded next.

        Args:
            opened_s: When that start opened its first log file, seconds of the server's clock.
        """
        self.read()
        for channel in list(self._unread_since):
            # What it received until then would be read after the start.
            self._leave(channel, self._problems[channel])
        for channel, waiting in self._waiting.items():
            files = self._files[channel]
            while waiting:
                events = waiting[0][1]
                if events is not None and files.is_of_start(_number_of(events.file), opened_s):
                    break
                self._record(channel, waiting.popleft()[1])
        for channel, files in self._files.items():
            if files.is_stopped and not files.is_loss_reported:
                # Here, where the start's own file of the binary log anchors the journal anew.
                self._notice(f"a relay log file of channel {channel!r} was gone before it was read")
                self._journal.server_record(RecordType.GAP, {"channel": channel})
                files.is_loss_reported = True

    def started(self, opened_s: int) -> None:
        """A start of the server has been recorded, which opened its first log file then."""
        for files in self._files.values():
            files.started(opened_s)

    def lose(self) -> None:
        """The server is not heard any more."""
        for files in self._files.values():
            files.jumps = files.is_stopped = False

    def forget(self) -> None:
        """Another server: its channels are others."""
        for channel in list(self._files):
            self._close(channel)
        self._journal.state.unread_relays.clear()

    def close(self) -> None:
        """Let go of all files, as the process ends: where reading goes on stays known."""
        for files in (*self._files.values(), *self._opened.values()):
            files.close()
        if self._directory is not None:
            self._directory.close()

    def _close(self, channel: str) -> None:
        for files in (self._files.pop(channel, None), self._opened.pop(channel, None)):
            if files is not None:
                files.close()
        self._first.pop(channel, None)
        self._source_read.pop(channel, None)
        self._waiting.pop(channel, None)
        self._unread_since.pop(channel, None)
        self._journal.state.relays.pop(channel, None)
        self.anew.discard(channel)

    def _leave(self, channel: str, why: str) -> None:
        """Read a channel no more until a row names it: what it receives is not known."""
        self._close(channel)
        self._journal.state.unread_relays[channel] = why
        self._record(channel, None)

    def _leave_if_foreign(self, channel: str, files: RelayFiles) -> bool:
        """Leave a channel whose files are not those that the server writes; whether it was left."""
        state = self._journal.state
        if state.boot_s is None or files.checked_boot_s == state.boot_s:
            return False
        try:
            newest = files.newest()
        except (EventError, OSError):
            return False  # reading meets it, too, and reports it
        if newest is None:
            return False
        why = why_foreign(*newest, state.boot_s, state.server_id)
        if not why:
            files.checked_boot_s = state.boot_s
            return False
        if state.unread_relays.get(channel) != why:
            self._notice(f"relay log of channel {channel!r} is not read: {why}")
        self._leave(channel, why)
        return True

    def renew(self, channel: str, record: Mapping[str, Any]) -> None:
        """Read a channel whose files began anew; the record has what was done to it."""
        files, opened = self._files.get(channel), self._opened.pop(channel)
        if files is not None and files.lost:
            self._waiting.setdefault(channel, deque()).append((self._clock_us(), None))
        self.administer([record])
        if files is None or record["action"] == "reset_all":
            opened.close()
        else:
            self._files[channel] = opened

    def record(
        self, until_us: int, channel: str | None = None, upto: LogPosition | None = None
    ) -> None:
        """Record events that were read no later than a time, or are before a channel's position.

        With them goes the rest of a group that the position is in: an applier may have ended it
        before the receiver reports it, and its source had logged it before it sent its beginning.

        A source's log is known up to times before which its events were written. What its replicas
        have of it must bear no earlier time than when they had it.
        """
        for files in self._files.values():
            # The server has lived on since: what is gone was purged, not left by a start.
            files.jumps = files.is_stopped and self._stopped_us <= until_us
        for name, waiting in self._waiting.items():
            limit = upto if name == channel else None
            is_group_open = limit is not None
            while waiting:
                read_us, events = waiting[0]
                count = 1 if events is None else count_of(events)
                before = 0
                if limit is not None:
                    before = _count_before(events, limit, is_group_open=is_group_open)
                is_group_open = before == count
                if read_us <= until_us:
                    before = count
                if before < count:
                    if isinstance(events, EventRun) and before:
                        self._record(name, events.part(0, before))
                        waiting[0] = read_us, events.part(before, count)
                    break
                waiting.popleft()
                self._record(name, events)

    def _note_read(self, channel: str, read: Mapping[str, LogCoordinates]) -> None:
        if channel in read:
            self._source_read[channel] = read[channel]

    def _name_source_file(self, channel: str, events: Events) -> None:
        """Before its first events: record what file of the source they are from."""
        read = self._source_read.pop(channel, None)
        if read is None:
            return
        later = (each for _, each in self._waiting.get(channel, ()))
        at = where_it_goes_on((events, *later), self._files[channel].base_name, read)
        if at is not None:
            place = {"source_log_file": at.file_name, "source_log_pos": at.position}
            body = {"channel": channel, "action": "flush_relay_logs", **place}
            self._journal.server_record(RecordType.CHANNEL, body)

    def _record(self, channel: str, events: Events | None) -> None:
        if events is None:
            why = self._journal.state.unread_relays.get(channel)
            reason = {} if why is None else {"reason": why}
            self._journal.server_record(RecordType.GAP, {"channel": channel, **reason})
            return
        self._name_source_file(channel, events)
        if isinstance(events, EventRun):
            self._journal.relay_run(channel, events)
        else:
            self._journal.relay_event(channel, events)

    def administer(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Record what was done to channels; what was in their files before is recorded first.

        Of that channel only: what others have received since waits for a time of its own.
        """
        for record in records:
            if record["action"] in _BEGINS_ANEW:
                waiting = self._waiting.get(record["channel"], deque())
                while waiting:
                    self._record(record["channel"], waiting.popleft()[1])
                self._close(record["channel"])
            if record["action"] == "reset_all":
                self._journal.state.unread_relays.pop(record["channel"], None)
            self._journal.server_record(RecordType.CHANNEL, record)

    def read(self) -> None:
        """Read what has been written; it is recorded later."""
        waiting = (events for each in self._waiting.values() for _, events in each)
        if sum(0 if events is None else count_of(events) for events in waiting) > WAITING_MAX:
            return
        was_stopped = any(files.is_stopped for files in self._files.values())
        for channel, files in list(self._files.items()):
            if channel not in self.anew:
                self._read(channel, files, None)
        if not was_stopped:
            self._stopped_us = self._clock_us()
        for channel, since_us in list(self._unread_since.items()):
            if self._clock_us() - since_us >= GRACE_US:
                self._leave(channel, self._problems[channel])

    def read_row(self, body: Mapping[str, Any]) -> bool:
        """Record each relay log up to its coordinates in a row that belongs here.

        Returns:
            Whether all have been recorded that far.
        """
        if self._directory is None:
            return True
        is_complete = True
        applied = _applied_files(body)
        for name, (base_name, number), position in _relay_positions(body):
            files = self._files.get(name)
            if files is None or files.base_name != base_name:
                files = self._begin(name, base_name, number, applied.get(name, number))
                self._note_read(name, read_coordinates(body.get("replica_status") or ()))
            if self._leave_if_foreign(name, files):
                continue
            # Every start up to the row has been recorded, whether it showed here or not.
            files.starts = max(files.starts, number - files.cursor.number)
            self._read_to(name, files, (number, position))
            files.starts = 0
            files.jumps = files.is_stopped = False
            if name in self._unread_since:
                self._leave(name, self._problems[name])
                continue
            if files.cursor[:2] < (number, position) and not files.is_there(number):
                # CHANGE REPLICATION SOURCE and START GROUP_REPLICATION remove the files; rows name
                # them until the receiver has begun a new one.
                self._leave(name, "log_status names a file that is not there")
                continue
            self._read(name, files, None)
            self.record(self._journal.state.ts, name, (number, position))
            is_complete = is_complete and files.cursor[:2] >= (number, position)
        return is_complete

    def _begin(self, channel: str, base_name: str, number: int, applied: int) -> RelayFiles:
        """Begin to read a channel in the file that its receiver writes, or its applier is in."""
        assert self._directory is not None
        self._close(channel)
        is_unread = channel in self._journal.state.unread_relays
        if is_unread:
            # What comes between the last row and the head of this file stays unread.
            self._waiting[channel] = deque([(self._clock_us(), None)])
        first = number if is_unread else min(number, applied)
        files = RelayFiles(self._directory, base_name, RelayCursor(first, MAGIC_LENGTH))
        self._files[channel] = files
        return files

    def _read_to(self, channel: str, files: RelayFiles, position: LogPosition) -> None:
        """Record a channel's relay log as far as it can be read, at most up to a position."""
        before: RelayCursor | None = None
        while files.cursor[:2] < position and before != files.cursor:
            before = files.cursor
            files.jumps = True
            self._read(channel, files, position)
            if channel not in self._unread_since:
                self.record(self._journal.state.ts, channel, position)

    def _read(self, channel: str, files: RelayFiles, upto: LogPosition | None) -> None:
        begun = self._clock_us()
        try:
            events = files.read(upto)
        except (EventError, OSError) as error:
            self._note_unread(channel, error, begun)
            return
        self._unread_since.pop(channel, None)
        if self._problems.pop(channel, None) is not None:
            self._notice(f"relay log of channel {channel!r} is read again")
        waiting = self._waiting.setdefault(channel, deque())
        now = self._clock_us()
        if files.lost and not files.is_anew:
            files.lost = False
            events.append(None)
        if None in events:
            self._notice(f"a relay log file of channel {channel!r} was gone before it was read")
        waiting.extend((now, each) for each in events)
        if files.is_anew:
            self.anew.add(channel)

    def _note_unread(self, channel: str, error: Exception, since_us: int) -> None:
        self._unread_since.setdefault(channel, since_us)
        text = str(error)
        if text != self._problems.get(channel):
            self._problems[channel] = text
            self._notice(f"relay log of channel {channel!r} cannot be read: {text}")


def _number_of(file: str) -> int:
    return parse_log_file_name(file)[1]


def _count_before(events: Events | None, limit: LogPosition, *, is_group_open: bool) -> int:
    """How many of them are before a position, or go on with the group that it is in."""
    if events is None:
        return 1
    number, position = _number_of(events.file), limit[1]
    count = count_of(events)
    if number < limit[0]:
        return count
    if isinstance(events, LogEvent):
        is_before = number == limit[0] and events.end <= position
        return int(is_before or (is_group_open and events.type not in _OUTSIDE_GROUPS))
    found = int(np.searchsorted(events.ends, position, "right")) if number == limit[0] else 0
    if found or is_group_open:
        rest = np.flatnonzero(np.isin(events.types[found:], list(_OUTSIDE_GROUPS)))
        found = found + int(rest[0]) if len(rest) else count
    return found


def _relay_positions(body: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, int], int]]:
    """Channels that a row names, with base name and number of the relay log file, and position."""
    for name, (file, position) in relay_coordinates(body).items():
        with suppress(CoordinateError, TypeError, ValueError):
            yield name, parse_log_file_name(str(file)), int(position)


def _applied_files(body: Mapping[str, Any]) -> dict[str, int]:
    """The number of the relay log file that each applier is in."""
    found = {}
    for status in body.get("replica_status") or ():
        with suppress(CoordinateError, TypeError):
            name = str(status.get("Channel_Name") or "").lower()
            found[name] = parse_log_file_name(str(status.get("Relay_Log_File")))[1]
    return found
