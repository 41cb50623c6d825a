"""The binary log of a server as its replicas get it: COM_BINLOG_DUMP, packet by packet.

The session is no registered replica and not semi-synchronous: no commit waits for it. Whole events
come out in the order of the files, each with its position by counting; what the protocol makes up
(leading ROTATE, heartbeats, a FORMAT_DESCRIPTION inside a file) does not.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
import uuid
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, final

from tallystick.coordinates.values.binlog import (
    CHECKSUM_LENGTH,
    EVENT_HEADER_LENGTH,
    MAGIC_LENGTH,
    EventType,
)
from tallystick.producers.mysql.binlog_events import (
    EventError,
    FormatDescription,
    LogEvent,
    is_artificial,
    read_event,
    read_format_description,
    read_header,
    rotate_target,
)
from tallystick.producers.mysql.errors import MysqlError
from tallystick.producers.mysql.event_runs import IS_REGULAR, TYPE_OFFSET, EventRun, read_run

if TYPE_CHECKING:
    from pymysql.connections import Connection

COM_BINLOG_DUMP = 0x12
COM_BINLOG_DUMP_GTID = 0x1E
_POSITION_FIELD_MAX = 2**32
_THROUGH_GTID = 0x0004
_PACKET_LENGTH_MAX = 0xFFFFFF
_PACKET_HEADER = 4
_U32 = struct.Struct("<I")
_RECEIVE_BYTES = 1 << 18
_READ_BYTES_MAX = 8 << 20
"""One call of ``read`` returns no more than what came in so many bytes."""
_BUSY_BYTES = 64 << 10
_GATHER_S, _GATHER_BUSY_S = 0.1, 0.5
_LITTLE_BYTES = 8 << 10
_CATCH_UP_S = 0.003
_NOTHING_THERE = (TimeoutError, BlockingIOError, ssl.SSLWantReadError)
_OK, _EOF, _ERROR = 0x00, 0xFE, 0xFF
_SQL_STATE_LENGTH = 6
HELD_UP_MAX_S = 10
"""So long the server waits for a reader that takes nothing: its shutdown waits for the stream."""
PURGED_OR_UNKNOWN = 1236
"""ER_SOURCE_FATAL_ERROR_READING_BINLOG: the position asked for is not there (any more)."""


class DumpEndedError(MysqlError):
    """The stream has ended: the connection broke, or the server gave the reason in its ``code``."""


class StreamedEvent(NamedTuple):
    """One event of the stream, and its file's format if it is the FORMAT_DESCRIPTION."""

    event: LogEvent
    format: FormatDescription | None


Streamed = StreamedEvent | EventRun
"""What the stream brings, in order."""


@final
class BinlogDump:
    """One stream of a binary log.

    Args:
        connection: A connection of its own; it can be used for nothing else any more.
        server_id: As which replica the stream is asked for.
        file: The first file, without a directory.
        position: Where in it, an event's start: 4 is its beginning.
        heartbeat_s: After so much silence the server sends a heartbeat.

    Attributes:
        file: The file that the stream is in.
        position: Where its next event starts.
        format: The present file's FORMAT_DESCRIPTION; inside a file ``created`` is 0.
        first_format: The same of the first file.

    Raises:
        DumpEndedError: The connection broke.
    """

    def __init__(
        self,
        connection: Connection[Any],
        *,
        server_id: int,
        file: str,
        position: int,
        heartbeat_s: float,
    ) -> None:
        self._connection = connection
        self._socket: socket.socket = connection._sock  # type: ignore[attr-defined]  # noqa: SLF001
        self._buffer = bytearray()
        self._received = memoryview(bytearray(_RECEIVE_BYTES))
        self._parts: list[bytes] = []
        self._ended: DumpEndedError | None = None
        self._is_caught_up = True
        self._is_busy = False
        self._gathered_at: float | None = None
        self._silence_max_s = 3 * heartbeat_s + 10
        self._heard_at = time.monotonic()
        self.file = file
        self.position = position
        self.format: FormatDescription | None = None
        self.first_format: FormatDescription | None = None
        nanoseconds = int(heartbeat_s * 1_000_000_000)
        own_uuid = uuid.uuid4()
        try:
            with connection.cursor() as cursor:
                # Old and new names of 8.0.26; of another replica's UUID no session is ended.
                cursor.execute(
                    "SET @master_binlog_checksum = @@GLOBAL.binlog_checksum,"
                    " @source_binlog_checksum = @@GLOBAL.binlog_checksum,"
                    f" @master_heartbeat_period = {nanoseconds},"
                    f" @source_heartbeat_period = {nanoseconds},"
                    f" @slave_uuid = '{own_uuid}', @replica_uuid = '{own_uuid}',"
                    f" SESSION net_write_timeout = {HELD_UP_MAX_S}"
                )
            command, payload = dump_command(server_id, file, position)
            connection._execute_command(command, payload)  # type: ignore[attr-defined]  # noqa: SLF001
        except Exception as error:
            raise DumpEndedError(f"the binary log cannot be asked for: {error}") from error

    def read(self, timeout_s: float) -> list[Streamed]:
        """Return the events that have come, after at most the time when there are none.

        Raises:
            DumpEndedError: The stream has ended.
            EventError: Something in it is no event.
        """
        found: list[Streamed] = []
        if self._ended is not None:
            raise self._ended
        try:
            if not self._has_gathered(timeout_s):
                return found
            self._receive_rest()
        except DumpEndedError as error:
            # What came before the end is whole, and may show why.
            self._ended = error
        try:
            self._take_packets(found)
        except DumpEndedError as error:
            self._ended = error
        if not found and self._ended is not None:
            raise self._ended
        return found

    def _has_gathered(self, timeout_s: float) -> bool:
        """Wait for the first bytes, and then for a time, so that more come with them.

        A busy server sends a little at each commit: woken so often, the reader would take from the
        server's own processors what it can have for a hundredth. Through a Unix socket the server
        soon waits for the reader, and sends the rest in bulk.
        """
        if self._gathered_at is None:
            if not self._receive(timeout_s):
                return False
            is_due = not self._is_caught_up or len(self._buffer) >= _BUSY_BYTES
            gather_s = _GATHER_BUSY_S if self._is_busy else _GATHER_S
            self._gathered_at = time.monotonic() + (0.0 if is_due else gather_s)
        left_s = self._gathered_at - time.monotonic()
        time.sleep(max(0.0, min(left_s, timeout_s)))
        if left_s > timeout_s:
            return False
        self._gathered_at = None
        return True

    def _receive(self, timeout_s: float) -> bool:
        try:
            self._socket.settimeout(timeout_s)
            self._take_bytes()
        except _NOTHING_THERE:
            if time.monotonic() - self._heard_at > self._silence_max_s:
                raise DumpEndedError(
                    f"no heartbeat for {self._silence_max_s:.0f} s: the connection is given up"
                ) from None
            return False
        self._heard_at = time.monotonic()
        return True

    def _receive_rest(self) -> None:
        """Receive until there is little: a busy server always has a little more."""
        wanted = self._wanted()
        had = before = len(self._buffer)
        self._is_caught_up = False
        with suppress(*_NOTHING_THERE):
            while len(self._buffer) < wanted and not self._is_caught_up:
                self._receive_what_is_there(wanted)
                self._is_caught_up = len(self._buffer) - before < _LITTLE_BYTES
                if not self._is_caught_up:
                    # A server held up by a full buffer goes on when it gets a processor.
                    before = len(self._buffer)
                    self._socket.settimeout(_CATCH_UP_S)
                    self._take_bytes()
        self._is_busy = len(self._buffer) - had >= _BUSY_BYTES

    def _receive_what_is_there(self, wanted: int) -> None:
        self._socket.settimeout(0.0)
        with suppress(*_NOTHING_THERE):
            while len(self._buffer) < wanted:
                self._take_bytes()

    def _take_bytes(self) -> None:
        try:
            # Into what is there: to make room for the most that may come costs more than to read.
            received = self._socket.recv_into(self._received)
        except _NOTHING_THERE:
            raise
        except OSError as error:
            reason = error.strerror or error
            raise DumpEndedError(f"the connection broke: {reason}") from error
        if not received:
            raise DumpEndedError("the server closed the connection")
        self._buffer += self._received[:received]

    def _wanted(self) -> int:
        """With so many bytes a call has enough: never less than the first packet."""
        return max(_READ_BYTES_MAX, self._first_packet())

    def _first_packet(self) -> int:
        """Bytes of the first packet, its header included."""
        return _PACKET_HEADER + int.from_bytes(self._buffer[: _PACKET_HEADER - 1], "little")

    def _take_packets(self, found: list[Streamed]) -> None:
        """Take whole packets from the buffer; a payload of 16 MiB and more has several."""
        if len(self._buffer) < self._first_packet():
            return  # TLS brings 16 KiB at a time: what cannot be used yet is not copied each time
        buffer, at = bytes(self._buffer), 0
        end = len(buffer)
        offsets: list[int] = []
        lengths: list[int] = []
        try:
            while end - at >= _PACKET_HEADER:
                length = _U32.unpack_from(buffer, at)[0] & _PACKET_LENGTH_MAX
                begin = at + _PACKET_HEADER
                if end - begin < length:
                    break
                at = begin + length
                if (
                    EVENT_HEADER_LENGTH < length < _PACKET_LENGTH_MAX
                    and IS_REGULAR[buffer[begin + 1 + TYPE_OFFSET]]
                    and buffer[begin] == _OK
                    and not self._parts
                ):
                    offsets.append(begin + 1)
                    lengths.append(length - 1)
                    continue
                self._take_run(buffer, offsets, lengths, found)
                self._take_packet(buffer[begin:at], found)
            self._take_run(buffer, offsets, lengths, found)
        finally:
            del self._buffer[:at]

    def _take_packet(self, packet: bytes, found: list[Streamed]) -> None:
        if len(packet) == _PACKET_LENGTH_MAX or self._parts:
            self._parts.append(packet)
            if len(packet) == _PACKET_LENGTH_MAX:
                return
            packet = b"".join(self._parts)
            self._parts.clear()
        if not packet or packet[0] != _OK:
            raise _ended(packet)
        self._take(packet[1:], found)

    def _take_run(
        self, buffer: bytes, offsets: list[int], lengths: list[int], found: list[Streamed]
    ) -> None:
        """Take events of regular types, in one step if they are what they should be."""
        if not offsets:
            return
        run = None
        if self.position >= MAGIC_LENGTH:
            run = read_run(
                buffer,
                offsets,
                lengths,
                start=self.position,
                file=self.file,
                checksum_length=self._checksum_length,
            )
        if run is None:
            for offset, length in zip(offsets, lengths, strict=True):
                self._take(buffer[offset : offset + length], found)
        else:
            self.position = run.end
            found.append(run)
        offsets.clear()
        lengths.clear()

    @property
    def _checksum_length(self) -> int:
        return CHECKSUM_LENGTH if self.format is None else self.format.checksum_length

    def _take(self, event: bytes, found: list[Streamed]) -> None:
        header = read_header(event)
        if header.length != len(event):
            raise EventError(
                f"{self.file}:{self.position}: expected an event of {header.length} bytes,"
                f" found {len(event)}"
            )
        description = None
        if header.type == EventType.FORMAT_DESCRIPTION:
            description = self.format = read_format_description(event)
            self.first_format = self.first_format or description
        if is_artificial(header):
            if header.type == EventType.ROTATE:
                checksum_length = CHECKSUM_LENGTH if _has_checksum(event) else 0
                self.file, self.position = rotate_target(event, checksum_length)
            return
        if self.position < MAGIC_LENGTH:
            raise EventError(f"expected a position of at least 4, found {self.position}")
        read = read_event(event, self.position, self.file, self._checksum_length)
        self.position = read.end
        found.append(StreamedEvent(read, description))

    def close(self) -> None:
        """End the stream: the server notices when it writes next."""
        self._connection._force_close()  # type: ignore[attr-defined]  # noqa: SLF001


def dump_command(server_id: int, file: str, position: int) -> tuple[int, bytes]:
    """The command that asks for a binary log from a position on, and its argument.

    COM_BINLOG_DUMP has 32 bits for the position. Beyond 4 GiB the command for GTID sets is taken,
    with the empty set and a file name, which goes before a search by set.
    """
    name = file.encode()
    if position < _POSITION_FIELD_MAX:
        return COM_BINLOG_DUMP, struct.pack("<IHI", position, 0, server_id) + name
    empty_set = struct.pack("<Q", 0)
    return COM_BINLOG_DUMP_GTID, (
        struct.pack("<HII", _THROUGH_GTID, server_id, len(name))
        + name
        + struct.pack("<QI", position, len(empty_set))
        + empty_set
    )


def _has_checksum(event: bytes) -> bool:
    checksum = int.from_bytes(event[-CHECKSUM_LENGTH:], "little")
    return zlib.crc32(event[:-CHECKSUM_LENGTH]) == checksum


def _ended(packet: bytes) -> Exception:
    if packet and packet[0] == _ERROR and len(packet) >= 3:
        code = int.from_bytes(packet[1:3], "little")
        text = packet[3:]
        if text[:1] == b"#":
            text = text[_SQL_STATE_LENGTH:]
        message = " ".join(text.decode("utf-8", "replace").split())[:300]
        return DumpEndedError(f"the server ended the stream: error {code}: {message}", code=code)
    if packet and packet[0] == _EOF:
        return DumpEndedError("the server ended the stream")
    return EventError("expected a packet with an event, found none")
