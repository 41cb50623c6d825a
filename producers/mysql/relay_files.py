"""A channel's relay log, read from its files.

Files are read to their end, then the next number. The file that is being read stays open: the
server unlinks files that are not read to their end yet. Nothing is locked and nothing written.
Where the files are is a ``LogDirectory``: this machine, or the server's through its relay log
reader. When that has begun another session, the file at hand is opened again, if it is the same.
"""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING, NamedTuple, final

from tallystick.coordinates.values.binlog import (
    ENCRYPTED_MAGIC,
    EVENT_HEADER_LENGTH,
    MAGIC,
    MAGIC_LENGTH,
    EventType,
    format_log_file_name,
    parse_log_file_name,
)
from tallystick.producers.mysql.binlog_events import (
    EventError,
    FormatDescription,
    LogEvent,
    read_format_description,
    read_header,
)
from tallystick.producers.mysql.event_outlines import CHUNK_BYTES
from tallystick.producers.mysql.event_runs import IS_REGULAR, TYPE_OFFSET, Events, read_events

if TYPE_CHECKING:
    from tallystick.producers.mysql.log_directory import LogDirectory, LogFile

BOOT_TOLERANCE_S = 2.5
"""Uptime is reported in whole seconds, and not at one instant with the clock."""
_TURN_BYTES = 64 << 20
"""So much is read in one call: what it brings is held in memory."""
_HEAD_BYTES = 512
_EVENT_MAX_BYTES = (1 << 30) + (64 << 10)
"""``replica_max_allowed_packet`` is 1 GiB at most."""
_NO_GTIDS_LENGTH = 8
"""The body of PREVIOUS_GTIDS begins with the number of UUIDs."""


class RelayCursor(NamedTuple):
    """Where reading goes on.

    Attributes:
        number: Of the file.
        position: Start of the next event.
        goes_on: Whether the event before it is a ROTATE to the next file.
    """

    number: int
    position: int
    goes_on: bool = False


_BEGINNING = (1, MAGIC_LENGTH)
_AHEAD_MAX = 64


@final
class RelayFiles:
    """The relay log of one channel.

    Args:
        directory: Where the files are.
        base_name: What they are called without the number.
        cursor: Where to begin.

    Attributes:
        cursor: Where reading goes on.
        lost: Whether a file, or part of one, has gone unread after all that has been read.
        starts: How many starts of the server have been recorded and have not shown here yet. A
            start opens a file that no ROTATE leads to; it is read after that start.
        jumps: Whether a file may be passed over that is gone; else reading stops in front of it,
            for a start of the server may be there that has not been recorded.
        is_stopped: Whether reading has stopped there.
        is_loss_reported: Whether it has been reported that files may be passed over.
        arrivals: The files that were read after others that are gone, with when the server opened
            them, seconds of its clock: starts of the server may be in between.
        is_anew: Whether the numbers began again at 1: RESET REPLICA, CHANGE REPLICATION SOURCE.
            What was left of the old files has been read, nothing of the new ones ever is.
        checked_boot_s: Boot of the server, seconds of its clock, after which a file of its own was
            there; None: that has not been looked at.
    """

    def __init__(self, directory: LogDirectory, base_name: str, cursor: RelayCursor) -> None:
        self._directory = directory
        self._session = directory.session
        self.base_name = base_name
        self.cursor = cursor
        self.lost = False
        self.is_anew = False
        self.starts = 0
        self.jumps = False
        self.is_stopped = False
        self.is_loss_reported = False
        self.arrivals: dict[int, int] = {}
        self.checked_boot_s: float | None = None
        self._started_s = 0
        self._has_jumped = False
        self._ahead: dict[int, LogFile] = {}
        """Open files after the one at hand, by number: they may be purged before their turn."""
        self._file: LogFile | None = None
        self._identity: tuple[int, ...] | None = None
        """Of the file at hand, also while it is not open."""
        self._is_closed = False
        """Whether the file ended with the server: its next start has opened another one."""
        self._checksum_length: int | None = None
        self._server_id = 0
        """Of the server that writes the file."""
        self._left = 0

    def numbers(self) -> list[int]:
        """The numbers of all files that are there, ascending."""
        return self._directory.numbers(self.base_name)

    def newest(self) -> tuple[str, FormatDescription] | None:
        """Name and head of the file with the highest number, None while none has a whole head.

        Raises:
            EventError: It does not begin as a log file does.
            OSError: It cannot be read.
        """
        numbers = self.numbers()
        if not numbers:
            return None
        name = format_log_file_name(self.base_name, numbers[-1])
        with closing(self._directory.open(self.base_name, numbers[-1])) as file:
            head = _read_head(file, name)
        return None if head is None else (name, head)

    def started(self, opened_s: int) -> None:
        """A start of the server has been recorded; its files are read from here on.

        Args:
            opened_s: When it opened its first log file, seconds of the server's clock.
        """
        if not self.is_beyond(opened_s):
            self.starts += 1
        self.arrivals = {n: s for n, s in self.arrivals.items() if s >= opened_s}
        self._started_s = opened_s
        self.jumps = True

    def is_beyond(self, opened_s: int) -> bool:
        """Whether files that a start left have been passed over, with that start."""
        return any(arrived_s >= opened_s for arrived_s in self.arrivals.values())

    def is_of_start(self, number: int, opened_s: int) -> bool:
        """Whether a file that has been read is of a start that opened its first log file then."""
        return any(
            number >= first and arrived_s >= opened_s for first, arrived_s in self.arrivals.items()
        )

    def is_there(self, number: int) -> bool:
        """Whether a file is open: those that were there at the last reading are."""
        is_at_hand = self._file is not None and number == self.cursor.number
        return is_at_hand or number in self._ahead

    def read(self, upto: tuple[int, int] | None = None) -> list[Events | None]:
        """The events that have been written since the last call; of many, the first ones.

        Args:
            upto: With it, no event that ends beyond this file number and position.

        Returns:
            None among them is where a file, or part of one, has gone unread.

        Raises:
            EventError: Something in a file is no event.
            OSError: A file or the directory cannot be read.
        """
        found: list[Events | None] = []
        try:
            self._read(found, upto)
        except (EventError, OSError):
            if not found:
                raise  # what was read before goes first; the next call meets this again
        return found

    def _read(self, found: list[Events | None], upto: tuple[int, int] | None) -> None:
        self._left = _TURN_BYTES
        while not self.is_anew:
            if upto is not None and self.cursor.number > upto[0]:
                break
            # A file that has a successor is complete: search for that one before the last read.
            numbers = self.numbers()
            if not self._follow_session():
                break
            if self._has_begun_anew(numbers):
                if self._file is not None:
                    self._read_file(found, None, is_last=True)
                is_last = self._file is not None and not (self.cursor.goes_on or self._is_closed)
                self.lost = self.lost or not is_last
                self.is_anew = True
                self.close()
                break
            self._open_ahead(numbers)
            if self._file is None and not self._open():
                break
            later = self._later(numbers)
            limit = upto[1] if upto and upto[0] == self.cursor.number else None
            self._read_file(found, limit)
            if limit is not None or not later or self._left <= 0:
                break
            if later[0] != self.cursor.number + 1:
                if not self._may_jump():
                    break
                self._has_jumped = True
            elif not self.cursor.goes_on:
                if not self.starts:
                    break
                self.starts -= 1
            self._leave_file()
            self.cursor = RelayCursor(later[0], MAGIC_LENGTH)

    def _follow_session(self) -> bool:
        """What was open in an earlier session of the directory is open no more.

        Returns:
            Whether reading can go on: files that were held and not begun may be others now.
        """
        if self._session == self._directory.session:
            return True
        self._session = self._directory.session
        is_known = self._file is not None or not self._ahead
        self.close()
        if not is_known:
            self._begin_anew()
        return is_known

    def _begin_anew(self) -> None:
        self.is_anew = self.lost = True

    def _later(self, numbers: list[int]) -> list[int]:
        """The files after the one at hand, those that are gone but open among them."""
        return sorted(n for n in {*numbers, *self._ahead} if n > self.cursor.number)

    def hold(self) -> None:
        """Open what there is: it is what is read, whatever has these names later.

        A receiver begins a new file when it connects, and an applier purges the first one, into
        which nothing was received: it is not missed if the second one shows that.
        """
        numbers = self.numbers()
        self._session = self._directory.session
        self._open_ahead(numbers)
        second = self.cursor.number + 1
        held = self._ahead.get(second)  # removed since it was listed: None
        if numbers[:1] == [second] and held is not None and _has_received_nothing(held):
            self.cursor = RelayCursor(second, MAGIC_LENGTH)

    def _open_ahead(self, numbers: list[int]) -> None:
        first = self.cursor.number + (self._file is not None)
        for number in numbers:
            if number >= first and number not in self._ahead:
                if len(self._ahead) >= _AHEAD_MAX:
                    return
                with suppress(FileNotFoundError):
                    self._ahead[number] = self._directory.open(self.base_name, number)

    def _may_jump(self) -> bool:
        self.is_stopped = not self.jumps
        self.lost = self.lost or (self.jumps and not self.is_loss_reported)
        self.is_loss_reported = self.is_loss_reported and not self.jumps
        return self.jumps

    def _has_begun_anew(self, numbers: list[int]) -> bool:
        """Whether the file at hand is of files that are gone, and others have their names."""
        if not numbers or numbers[0] > self.cursor.number:
            return False
        if self._file is None:
            is_there = self.cursor.number in numbers or self.cursor.number in self._ahead
            return self.cursor[:2] != _BEGINNING and not is_there
        return self._file.is_unlinked()

    def _open(self) -> bool:
        file = self._ahead.pop(self.cursor.number, None)
        try:
            file = file or self._directory.open(self.base_name, self.cursor.number)
        except FileNotFoundError:
            later = self._later(self.numbers())
            if not later or not self._may_jump():
                return False
            self._has_jumped = True
            self._leave_file()
            self.cursor = RelayCursor(later[0], MAGIC_LENGTH)
            return self._open()
        try:
            name = format_log_file_name(self.base_name, self.cursor.number)
            format_description = _read_head(file, name)
        except (EventError, OSError):
            file.close()
            raise
        if format_description is None:
            self._ahead[self.cursor.number] = file
            return False
        identity = (*file.identity, format_description.timestamp)
        if self._identity not in (None, identity):
            file.close()
            self._begin_anew()
            return False
        self._file = file
        if self._identity is None:
            # A later FORMAT_DESCRIPTION in it may have changed what goes on after it.
            self._checksum_length = format_description.checksum_length
        self._identity = identity
        self._server_id = format_description.server_id
        if self._has_jumped:
            self._has_jumped = False
            self.arrivals[self.cursor.number] = format_description.timestamp
            if self.starts and format_description.timestamp >= self._started_s:
                self.starts = 0
        return True

    def _read_file(
        self, found: list[Events | None], limit: int | None, *, is_last: bool = False
    ) -> None:
        assert self._file is not None
        wanted = CHUNK_BYTES
        while True:
            position = self.cursor.position
            chunk = self._file.read(position, wanted)
            self._left -= len(chunk)
            needed = self._take_chunk(chunk, found, limit)
            has_read = self.cursor.position > position
            if not has_read and len(chunk) == wanted and needed > wanted:
                wanted = needed
                continue
            if not has_read or len(chunk) < wanted or (self._left <= 0 and not is_last):
                return
            wanted = CHUNK_BYTES

    def _take_chunk(self, chunk: bytes, found: list[Events | None], limit: int | None) -> int:
        """Take the whole events of what is at the cursor; return the length of the next one."""
        name = format_log_file_name(self.base_name, self.cursor.number)
        begin, at, length = self.cursor.position, 0, 0
        offsets: list[int] = []
        lengths: list[int] = []
        while len(chunk) - at >= EVENT_HEADER_LENGTH:
            length = int.from_bytes(chunk[at + 9 : at + 13], "little")
            if not EVENT_HEADER_LENGTH <= length <= _EVENT_MAX_BYTES:
                raise EventError(f"{name}:{begin + at}: expected an event")
            if len(chunk) - at < length or (limit is not None and begin + at + length > limit):
                break
            if IS_REGULAR[chunk[at + TYPE_OFFSET]]:
                offsets.append(at)
                lengths.append(length)
            else:
                self._take(chunk, offsets, lengths, found)
                event = chunk[at : at + length]
                self._is_closed = event[TYPE_OFFSET] == EventType.STOP
                if event[TYPE_OFFSET] == EventType.FORMAT_DESCRIPTION:
                    # The source's is in the relay log, too, and its events follow it. Before a
                    # channel was ever connected there is one of the server's own, of no source:
                    # it says "no checksum", and the file goes on with them.
                    description = read_format_description(event)
                    if description.is_of_file or description.server_id != self._server_id:
                        self._checksum_length = description.checksum_length
                self._take(chunk, [at], [length], found)
            at += length
        self._take(chunk, offsets, lengths, found)
        return length

    def _take(
        self, chunk: bytes, offsets: list[int], lengths: list[int], found: list[Events | None]
    ) -> None:
        if not offsets:
            return
        if self.lost:
            found.append(None)
            self.lost = False
        assert self._checksum_length is not None
        number, start, _ = self.cursor
        events = read_events(
            chunk,
            offsets,
            lengths,
            start=start,
            file=format_log_file_name(self.base_name, number),
            checksum_length=self._checksum_length,
        )
        found += events
        last = events[-1]
        goes_on = isinstance(last, LogEvent) and leads_on(
            self.base_name, last.type, last.fields.get("text")
        )
        self.cursor = RelayCursor(number, last.end, goes_on)
        offsets.clear()
        lengths.clear()

    def close(self) -> None:
        """Let go of all files."""
        if self._file is not None:
            self._file.close()
            self._file = None
        for file in self._ahead.values():
            file.close()
        self._ahead.clear()

    def _leave_file(self) -> None:
        """Be done with the file at hand."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._identity = None


def why_foreign(name: str, head: FormatDescription, boot_s: float, server_id: int | None) -> str:
    """Why the newest file of a relay log is none that a server writes; empty: it may be.

    A server opens a relay log file of each channel when it starts, so its newest one is of its
    present boot: an older one was left where its relay log has been before. The first one may be
    of a RESET REPLICA that no START REPLICA has followed; nothing was received into it.

    Args:
        name: Of the file.
        head: Its FORMAT_DESCRIPTION, which has the server_id of who writes it.
        boot_s: When the server's present boot began, seconds of its clock.
        server_id: The server's, None where it is not known.
    """
    if parse_log_file_name(name)[1] > 1 and head.timestamp < boot_s - BOOT_TOLERANCE_S:
        return f"{name} is the newest file there, and was opened before the server started"
    if server_id not in (None, head.server_id):
        return f"{name} is of a server with server_id {head.server_id}, not {server_id}"
    return ""


def leads_on(base_name: str, event_type: int, text: str | None) -> bool:
    """Whether an event closes a relay log file and names the next one."""
    return event_type == EventType.ROTATE and str(text).startswith(f"{base_name}.")


def _read_head(file: LogFile, name: str) -> FormatDescription | None:
    """The FORMAT_DESCRIPTION of a file, None before it has been written."""
    head = file.read(0, MAGIC_LENGTH + _HEAD_BYTES)
    if len(head) < MAGIC_LENGTH + EVENT_HEADER_LENGTH:
        return None
    if head[:MAGIC_LENGTH] == ENCRYPTED_MAGIC:
        # The same words for each file: it is one problem, reported once.
        raise EventError("its files are encrypted (binlog_encryption): the server alone reads them")
    if head[:MAGIC_LENGTH] != MAGIC:
        raise EventError(f"{name}: expected a log file, found {head[:4]!r}")
    event = head[MAGIC_LENGTH : MAGIC_LENGTH + read_header(head[MAGIC_LENGTH:]).length]
    if len(event) < read_header(event).length:
        return None
    return read_format_description(event)


def _has_received_nothing(file: LogFile) -> bool:
    """Whether a file's PREVIOUS_GTIDS is there, and empty."""
    head = file.read(0, MAGIC_LENGTH + _HEAD_BYTES)[MAGIC_LENGTH:]
    if len(head) < EVENT_HEADER_LENGTH:
        return False
    event = head[read_header(head).length :][: EVENT_HEADER_LENGTH + _NO_GTIDS_LENGTH]
    is_whole = len(event) == EVENT_HEADER_LENGTH + _NO_GTIDS_LENGTH
    return (
        is_whole
        and event[TYPE_OFFSET] == EventType.PREVIOUS_GTIDS
        and not any(event[EVENT_HEADER_LENGTH:])
    )
