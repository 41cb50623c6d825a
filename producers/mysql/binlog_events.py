"""One event of a log, as its bytes are there, made a record of the journal.

Headers and the bodies of GTID, QUERY, ROTATE and PREVIOUS_GTIDS events are read; of a QUERY no
more than its verb leaves this module, and of all others, row images among them, nothing but length
and checksum. Layouts: the MySQL manual's and source's documentation of ``binlog_event.h`` and
``control_events.h``. Nothing here talks to a server or opens a file.
"""

from __future__ import annotations

import re
import struct
from typing import Any, NamedTuple

from tallystick.coordinates.events.journal import ABSENT, FLAG_ARTIFICIAL, QueryVerb
from tallystick.coordinates.values.binlog import CHECKSUM_LENGTH, EVENT_HEADER_LENGTH, EventType
from tallystick.coordinates.values.errors import GtidSetParseError, JournalError
from tallystick.coordinates.values.gtid import GtidSet

_HEADER = struct.Struct("<IBIIIH")
_CHECKSUM = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_GTID = struct.Struct("<B16sqBqq")
"""Flags, UUID, GNO, type code of the logical timestamps, last_committed, sequence_number."""
_GTID_LOGICAL_TIMESTAMPS = 2
_MICROSECONDS_LENGTH = 7
_HAS_ORIGINAL = 1 << 55
_QUERY = struct.Struct("<IIBHH")
QUERY_HEAD_LENGTH = _QUERY.size
"""Of a QUERY's body: its numbers; status variables, schema and statement follow."""
QUERY_HEAD_MAX = 64
"""So much of a statement determines its verb."""
_FORMAT_VERSION_LENGTH = 50
_NO_CHECKSUM, _CRC32 = 0, 1
_TAGGED_FIELDS = {
    2: "gno",
    4: "last_committed",
    5: "sequence_number",
    6: "immediate_commit_timestamp",
    7: "original_commit_timestamp",
    8: "transaction_length",
}
_SIGNED_FIELDS = frozenset({2, 4, 5})
_FLAGS_FIELD, _UUID_FIELD, _TAG_FIELD, _SERVER_VERSION_FIELD = 0, 1, 3, 9
_UUID_BYTES = 16

_VERBS = {
    text.encode(): verb
    for text, verb in (
        ("BEGIN", QueryVerb.BEGIN),
        ("COMMIT", QueryVerb.COMMIT),
        ("ROLLBACK", QueryVerb.ROLLBACK),
    )
}
_XA = {
    b"START": QueryVerb.XA_START,
    b"BEGIN": QueryVerb.XA_START,
    b"END": QueryVerb.XA_END,
    b"COMMIT": QueryVerb.XA_COMMIT,
    b"ROLLBACK": QueryVerb.XA_ROLLBACK,
}
_match_xa = re.compile(rb"\s*XA\s+(START|BEGIN|END|COMMIT|ROLLBACK)\s", re.IGNORECASE).match


class EventError(JournalError):
    """Bytes that are no event of a log that is known here."""


class LogEvent(NamedTuple):
    """An event: its type, where it ends, and the arguments of ``BlockBuilder.log_event``."""

    type: int
    end: int
    fields: dict[str, Any]

    @property
    def file(self) -> str:
        """The file that it is in."""
        return str(self.fields["file"])


class FormatDescription(NamedTuple):
    """What a FORMAT_DESCRIPTION event describes of its file.

    Attributes:
        timestamp: When the file was opened, seconds since 1970.
        created: The same when a server's start or a RESET opened the file, else 0.
        server_version: As ``@@version`` of the server that wrote it.
        checksum_length: How many bytes of a checksum end each event of the file.
        server_id: Of that server.
        is_of_file: Whether it is the file's own: an artificial one was sent, or kept from before.
    """

    timestamp: int
    created: int
    server_version: str
    checksum_length: int
    server_id: int
    is_of_file: bool


class Header(NamedTuple):
    """The fixed head of an event (19 bytes)."""

    timestamp: int
    type: int
    server_id: int
    length: int
    log_pos: int
    flags: int


def read_header(event: bytes) -> Header:
    """The head of an event.

    Raises:
        EventError: There are not as many bytes.
    """
    if len(event) < EVENT_HEADER_LENGTH:
        raise EventError(f"expected an event of at least 19 bytes, found {len(event)}")
    return Header(*_HEADER.unpack_from(event))


def read_format_description(event: bytes) -> FormatDescription:
    """The content of a FORMAT_DESCRIPTION event.

    Raises:
        EventError: It is cut short, or of a binary log version before 4.
    """
    header = read_header(event)
    body = event[EVENT_HEADER_LENGTH:]
    least = 2 + _FORMAT_VERSION_LENGTH + 4 + 1 + 1 + CHECKSUM_LENGTH
    if len(body) < least or int.from_bytes(body[:2], "little") != 4:
        raise EventError("expected a FORMAT_DESCRIPTION of binary log version 4")
    version = body[2 : 2 + _FORMAT_VERSION_LENGTH].split(b"\0", 1)[0]
    created = int.from_bytes(body[52:56], "little")
    algorithm = body[-CHECKSUM_LENGTH - 1]
    if algorithm not in (_NO_CHECKSUM, _CRC32):
        raise EventError(f"expected checksum algorithm 0 or 1, found {algorithm}")
    return FormatDescription(
        header.timestamp,
        created,
        version.decode("ascii", "replace"),
        CHECKSUM_LENGTH if algorithm == _CRC32 else 0,
        header.server_id,
        not header.flags & FLAG_ARTIFICIAL,
    )


def is_artificial(header: Header) -> bool:
    """Whether the dump protocol made the event up: it is in no file."""
    return (
        header.type in (EventType.HEARTBEAT, EventType.HEARTBEAT_V2)
        or bool(header.flags & FLAG_ARTIFICIAL)
        or header.log_pos == 0
    )


def rotate_target(event: bytes, checksum_length: int) -> tuple[str, int]:
    """The file that a ROTATE names, and the position there.

    Raises:
        EventError: It is cut short.
    """
    body = event[EVENT_HEADER_LENGTH : len(event) - checksum_length]
    if len(body) <= _U64.size:
        raise EventError("expected a ROTATE with the name of a file")
    return body[8:].decode("utf-8", "backslashreplace"), _U64.unpack_from(body)[0]


def read_event(event: bytes, start: int, file: str, checksum_length: int) -> LogEvent:
    """An event as a record's fields, but for its time and channel.

    Args:
        event: All its bytes, checksum included.
        start: Offset in the file, by counting.
        file: Name of the file, without a directory.
        checksum_length: Bytes of the checksum, as the file's FORMAT_DESCRIPTION has it.

    Raises:
        EventError: The bytes are no event.
    """
    _, event_type, server_id, length, log_pos, flags = _HEADER.unpack_from(event)
    fields = {
        "file": file,
        "start": start,
        "length": length,
        "log_pos": log_pos,
        "flags": flags,
        "server_id": server_id,
    }
    end = len(event)
    if checksum_length or event_type == EventType.FORMAT_DESCRIPTION:
        end -= CHECKSUM_LENGTH
        fields["checksum"] = _CHECKSUM.unpack_from(event, end)[0]
    read = _READERS.get(event_type)
    if read is not None:
        try:
            read(event[EVENT_HEADER_LENGTH:end], fields)
        except (struct.error, IndexError, GtidSetParseError) as error:
            raise EventError(
                f"{file}:{start}: the body of an event of type {event_type} cannot be read: {error}"
            ) from None
    return LogEvent(event_type, start + length, fields)


# Bodies


def _read_gtid(body: bytes, fields: dict[str, Any]) -> None:
    _, uuid, gno, code, last_committed, sequence_number = _GTID.unpack_from(body)
    fields["sid"] = uuid_text(uuid)
    fields["gno"] = gno
    _read_commit(body, code, last_committed, sequence_number, fields)


def _read_anonymous(body: bytes, fields: dict[str, Any]) -> None:
    _, _, _, code, last_committed, sequence_number = _GTID.unpack_from(body)
    _read_commit(body, code, last_committed, sequence_number, fields)


def _read_commit(
    body: bytes, code: int, last_committed: int, sequence_number: int, fields: dict[str, Any]
) -> None:
    if code != _GTID_LOGICAL_TIMESTAMPS:
        return
    fields["last_committed"] = last_committed
    fields["sequence_number"] = sequence_number
    at = _GTID.size
    if len(body) < at + _MICROSECONDS_LENGTH:
        return  # written before 8.0
    committed = int.from_bytes(body[at : at + _MICROSECONDS_LENGTH], "little")
    at += _MICROSECONDS_LENGTH
    if committed & _HAS_ORIGINAL:
        committed = int.from_bytes(body[at : at + _MICROSECONDS_LENGTH], "little")
        at += _MICROSECONDS_LENGTH
    fields["original_commit_timestamp"] = committed
    if at < len(body):
        fields["transaction_length"] = _length_encoded(body, at)


def _length_encoded(body: bytes, at: int) -> int:
    first = body[at]
    if first < 251:
        return first
    size = {252: 2, 253: 3, 254: 8}.get(first, 0)
    if not size or at + 1 + size > len(body):
        raise IndexError("a length-encoded integer is cut short")
    return int.from_bytes(body[at + 1 : at + 1 + size], "little")


def uuid_text(uuid: bytes) -> str:
    """A UUID of 16 bytes as the server writes it."""
    text = uuid.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class _Serialized:
    """The server's serialisation framework (8.3): numbers of variable length, numbered fields."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def unsigned(self) -> int:
        """As many bytes as the first one's trailing ones, and one; the rest is the number."""
        first = self._body[self._at]
        more = (~first & (first + 1)).bit_length() - 1 if first != 0xFF else 8
        raw = self._body[self._at : self._at + 1 + more]
        if len(raw) <= more:
            raise IndexError("a number is cut short")
        self._at += 1 + more
        return int.from_bytes(raw, "little") >> (8 if more == 8 else more + 1)

    def signed(self) -> int:
        """The sign is the lowest bit; of a negative number all bits are turned."""
        number = self.unsigned()
        return ~(number >> 1) if number & 1 else number >> 1

    def text(self) -> bytes:
        """Length and bytes."""
        length = self.unsigned()
        found = self._body[self._at : self._at + length]
        if len(found) < length:
            raise IndexError("a text is cut short")
        self._at += length
        return found

    @property
    def is_read(self) -> bool:
        """Whether all has been read."""
        return self._at >= len(self._body)


def _read_tagged(body: bytes, fields: dict[str, Any]) -> None:
    """GTID_TAGGED_LOG_EVENT: version, size, last field that must be known, then the fields."""
    source = _Serialized(body)
    for _ in range(3):
        source.unsigned()
    uuid, tag = b"", b""
    found: dict[str, int] = {}
    while not source.is_read:
        number = source.unsigned()
        if number == _UUID_FIELD:
            uuid = bytes(source.unsigned() & 0xFF for _ in range(_UUID_BYTES))
        elif number == _TAG_FIELD:
            tag = source.text()
        elif number in _TAGGED_FIELDS:
            read = source.signed if number in _SIGNED_FIELDS else source.unsigned
            found[_TAGGED_FIELDS[number]] = read()
        elif number in (_FLAGS_FIELD, _SERVER_VERSION_FIELD):
            source.unsigned()
        else:
            break  # fields of later versions, and nothing that is wanted follows
    sid = uuid_text(uuid)
    fields["sid"] = f"{sid}:{tag.decode('ascii', 'replace')}" if tag else sid
    immediate = found.pop("immediate_commit_timestamp", ABSENT)
    found.setdefault("original_commit_timestamp", immediate)
    fields.update(found)
    if "gno" not in found or not uuid:
        raise IndexError("it has no GTID")


def _read_query(body: bytes, fields: dict[str, Any]) -> None:
    begin = query_statement_offset(body)
    fields["query"] = query_verb(body[begin : begin + QUERY_HEAD_MAX])


def query_statement_offset(body: bytes) -> int:
    """Where in a QUERY's body, of which the head is there, its statement begins."""
    _, _, schema_length, _, status_length = _QUERY.unpack_from(body)
    return QUERY_HEAD_LENGTH + int(status_length) + int(schema_length) + 1


def query_verb(statement: bytes) -> QueryVerb:
    """What a statement does to its group; its beginning is enough.

    BEGIN, COMMIT and ROLLBACK are the whole statement: ``ROLLBACK TO s`` is a STATEMENT.
    """
    verb = _VERBS.get(statement)
    if verb is None and len(statement) < QUERY_HEAD_MAX:
        verb = _VERBS.get(statement.strip().upper())
    if verb is None:
        match = _match_xa(statement)
        verb = QueryVerb.STATEMENT if match is None else _XA[match[1].upper()]
    return verb


def _read_previous_gtids(body: bytes, fields: dict[str, Any]) -> None:
    fields["text"] = str(GtidSet.decode(body))


def _read_rotate(body: bytes, fields: dict[str, Any]) -> None:
    fields["value"] = _U64.unpack_from(body)[0]
    fields["text"] = body[8:].decode("utf-8", "backslashreplace")


_READERS = {
    int(EventType.GTID): _read_gtid,
    int(EventType.ANONYMOUS_GTID): _read_anonymous,
    int(EventType.GTID_TAGGED): _read_tagged,
    int(EventType.QUERY): _read_query,
    int(EventType.PREVIOUS_GTIDS): _read_previous_gtids,
    int(EventType.ROTATE): _read_rotate,
}
