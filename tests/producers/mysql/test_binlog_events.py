"""Bytes of events, written here by hand, become the journal's fields."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest

from tallystick.coordinates.events.journal import QueryVerb
from tallystick.coordinates.values.binlog import EventType
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.mysql.binlog_events import (
    EventError,
    is_artificial,
    query_verb,
    read_event,
    read_format_description,
    read_header,
    rotate_target,
)

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
UUID_BYTES = bytes.fromhex(UUID.replace("-", ""))


def event(event_type: int, body: bytes, *, log_pos: int = 500, flags: int = 0) -> bytes:
    length = 19 + len(body) + 4
    whole = struct.pack("<IBIIIH", 1_700_000_000, event_type, 7, length, log_pos, flags) + body
    return whole + struct.pack("<I", zlib.crc32(whole))


def fields(event_type: int, body: bytes) -> dict[str, Any]:
    return read_event(event(event_type, body), 400, "binlog.000001", 4).fields


def gtid_body(more: bytes, gno: int = 23) -> bytes:
    return struct.pack("<B16sqBqq", 1, UUID_BYTES, gno, 2, 5, 6) + more


def microseconds(value: int) -> bytes:
    return value.to_bytes(7, "little")


def unsigned(number: int) -> bytes:
    """The serialisation framework's variable length: leading bytes say how many follow."""
    for more in range(8):
        if number < 1 << (7 * (more + 1)):
            return ((number << (more + 1)) | ((1 << more) - 1)).to_bytes(more + 1, "little")
    return b"\xff" + number.to_bytes(8, "little")


def signed(number: int) -> bytes:
    return unsigned(number << 1 if number >= 0 else (~number << 1) | 1)


def tagged_body(gno: int, tag: bytes, *, original: int | None, length: int) -> bytes:
    parts = [
        unsigned(0) + unsigned(1),
        unsigned(1) + b"".join(unsigned(byte) for byte in UUID_BYTES),
        unsigned(2) + signed(gno),
        unsigned(3) + unsigned(len(tag)) + tag,
        unsigned(4) + signed(11),
        unsigned(5) + signed(12),
        unsigned(6) + unsigned(1_700_000_000_000_001),
        b"" if original is None else unsigned(7) + unsigned(original),
        unsigned(8) + unsigned(length),
        unsigned(9) + unsigned(80_400),
    ]
    return unsigned(1) + unsigned(99) + unsigned(0) + b"".join(parts)


def test_every_event_has_header_place_and_checksum() -> None:
    """What is counted and what the header says come through; a row image leaves nothing."""
    raw = event(EventType.WRITE_ROWS, b"secret row image", log_pos=439, flags=128)
    read = read_event(raw, 400, "binlog.000001", 4)
    assert read.type == EventType.WRITE_ROWS
    assert read.end == 439
    assert read.fields == {
        "file": "binlog.000001",
        "start": 400,
        "length": 39,
        "log_pos": 439,
        "flags": 128,
        "server_id": 7,
        "checksum": zlib.crc32(raw[:-4]),
    }


@pytest.mark.parametrize(
    ("more", "original", "length"),
    [
        (microseconds(1000) + b"\xfa", 1000, 250),
        (microseconds(1000) + b"\xfc\x2c\x01", 1000, 300),
        (microseconds(1000) + b"\xfd\x00\x00\x01", 1000, 65536),
        (microseconds(1000) + b"\xfe" + struct.pack("<Q", 2**33), 1000, 2**33),
        (microseconds(1000 | 1 << 55) + microseconds(900) + b"\x10", 900, 16),
    ],
)
def test_a_gtid_event_tells_its_group(more: bytes, original: int, length: int) -> None:
    """Both commit times and every size of the transaction's length are read."""
    assert (
        fields(EventType.GTID, gtid_body(more)).items()
        >= {
            "sid": UUID,
            "gno": 23,
            "last_committed": 5,
            "sequence_number": 6,
            "original_commit_timestamp": original,
            "transaction_length": length,
        }.items()
    )


def test_an_anonymous_group_has_no_gtid() -> None:
    """Its UUID is zero and is not taken for one."""
    read = fields(EventType.ANONYMOUS_GTID, gtid_body(microseconds(1) + b"\x10"))
    assert "sid" not in read
    assert read["transaction_length"] == 16


@pytest.mark.parametrize("gno", [1, 63, 64, 8191, 2**40, 2**63 - 2])
@pytest.mark.parametrize("original", [None, 1_600_000_000_000_000])
def test_a_tagged_gtid_is_read(gno: int, original: int | None) -> None:
    """GTID_TAGGED: numbers of one to nine bytes, a field that may be left out."""
    read = fields(EventType.GTID_TAGGED, tagged_body(gno, b"blue", original=original, length=2**34))
    assert (
        read.items()
        >= {
            "sid": f"{UUID}:blue",
            "gno": gno,
            "last_committed": 11,
            "sequence_number": 12,
            "original_commit_timestamp": original or 1_700_000_000_000_001,
            "transaction_length": 2**34,
        }.items()
    )


@pytest.mark.parametrize(
    "text",
    ["", f"{UUID}:1-5:7", f"{UUID}:1-5,{UUID}:blue:1-3"],
)
def test_previous_gtids_of_both_forms_are_read(text: str) -> None:
    """With a tag the set has another form."""
    encoded = GtidSet.parse(text).encode()
    assert GtidSet.parse(fields(EventType.PREVIOUS_GTIDS, encoded)["text"]) == GtidSet.parse(text)


def test_a_rotate_names_file_and_position() -> None:
    """The checksum is no part of the name."""
    body = struct.pack("<Q", 4) + b"binlog.000002"
    assert fields(EventType.ROTATE, body).items() >= {"text": "binlog.000002", "value": 4}.items()
    assert rotate_target(event(EventType.ROTATE, body), 4) == ("binlog.000002", 4)


@pytest.mark.parametrize(
    ("statement", "verb"),
    [
        (b"BEGIN", QueryVerb.BEGIN),
        (b"COMMIT", QueryVerb.COMMIT),
        (b" rollback ", QueryVerb.ROLLBACK),
        (b"ROLLBACK TO `s`", QueryVerb.STATEMENT),
        (b"SAVEPOINT `s`", QueryVerb.STATEMENT),
        (b"XA START X'61',X'',1", QueryVerb.XA_START),
        (b"XA END X'61',X'',1", QueryVerb.XA_END),
        (b"XA COMMIT X'61',X'',1", QueryVerb.XA_COMMIT),
        (b"xa rollback X'61',X'',1", QueryVerb.XA_ROLLBACK),
        (b"create table XA START (a int)", QueryVerb.STATEMENT),
        (b"", QueryVerb.STATEMENT),
    ],
)
def test_a_verb_is_the_statement_or_begins_it(statement: bytes, verb: QueryVerb) -> None:
    """BEGIN, COMMIT and ROLLBACK are the whole statement, those of XA begin it."""
    assert query_verb(statement) is verb
    body = struct.pack("<IIBHH", 1, 0, 2, 0, 3) + b"\0\0\0" + b"db\0" + statement
    assert fields(EventType.QUERY, body)["query"] is verb


def test_a_format_description_tells_who_opened_the_file() -> None:
    """Creation time, version and checksum algorithm are read."""
    body = struct.pack("<H50sI", 4, b"8.0.31", 1_700_000_001) + bytes([19]) + bytes(40) + b"\x01"
    reported = read_format_description(event(EventType.FORMAT_DESCRIPTION, body))
    assert reported == (1_700_000_000, 1_700_000_001, "8.0.31", 4, 7, True)


def description(version: int = 4, algorithm: int = 1, more: int = 0) -> bytes:
    """The shortest body that there may be, or so many bytes of lengths more."""
    lengths = (b"\x13" + bytes(more)) if more >= 0 else b""
    return struct.pack("<H50sI", version, b"8.0.31", 9) + lengths + bytes([algorithm])


def test_a_format_description_without_checksums_says_so() -> None:
    """The event itself has one; one that was sent and is in no file is known by its flag."""
    for more in (0, 40):
        body = description(algorithm=0, more=more)
        sent = event(EventType.FORMAT_DESCRIPTION, body, flags=0x20)
        assert read_format_description(sent) == (1_700_000_000, 9, "8.0.31", 0, 7, False)
    assert "checksum" in read_event(sent, 4, "binlog.000001", 0).fields
    assert "checksum" not in read_event(event(EventType.XID, bytes(8)), 4, "b.000001", 0).fields


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (description(version=3), "expected a FORMAT_DESCRIPTION of binary log version 4"),
        (description(more=-1), "expected a FORMAT_DESCRIPTION of binary log version 4"),
        (description(algorithm=2), "expected checksum algorithm 0 or 1, found 2"),
    ],
)
def test_a_format_description_that_is_none_is_refused(body: bytes, said: str) -> None:
    """As of a file of another program."""
    with pytest.raises(EventError, match=said):
        read_format_description(event(EventType.FORMAT_DESCRIPTION, body))


def test_the_head_of_an_event_and_the_name_in_a_rotate_are_there() -> None:
    """Nineteen bytes, and at least one of a name."""
    head = event(EventType.XID, b"")[:19]
    assert EventType.XID == read_header(head).type
    with pytest.raises(EventError, match="at least 19 bytes, found 18"):
        read_header(head[:18])
    assert ("b", 4) == rotate_target(event(EventType.ROTATE, struct.pack("<Q", 4) + b"b"), 4)
    with pytest.raises(EventError, match="expected a ROTATE with the name of a file"):
        rotate_target(event(EventType.ROTATE, struct.pack("<Q", 4)), 4)


@pytest.mark.parametrize(
    ("code", "more", "names"),
    [
        (1, microseconds(1) + b"\x10", set()),
        (2, b"", {"last_committed", "sequence_number"}),
        (2, bytes(6), {"last_committed", "sequence_number"}),
        (
            2,
            microseconds(1),
            {"last_committed", "sequence_number", "original_commit_timestamp"},
        ),
    ],
)
def test_an_older_server_says_less_of_a_group(code: int, more: bytes, names: set[str]) -> None:
    """5.6 has other logical timestamps, 5.7 no times of commits."""
    for event_type in (EventType.GTID, EventType.ANONYMOUS_GTID):
        body = struct.pack("<B16sqBqq", 1, UUID_BYTES, 23, code, 5, 6) + more
        known = {"file", "start", "length", "log_pos", "flags", "server_id", "checksum"}
        known |= {"sid", "gno"} if event_type == EventType.GTID else set()
        assert names == fields(event_type, body).keys() - known


@pytest.mark.parametrize(
    ("event_type", "log_pos", "flags", "expected"),
    [
        (EventType.ROTATE, 0, 0x20, True),
        (EventType.ROTATE, 400, 0x20, True),
        (EventType.FORMAT_DESCRIPTION, 0, 0, True),
        (EventType.HEARTBEAT, 400, 0, True),
        (EventType.HEARTBEAT_V2, 400, 0, True),
        (EventType.ROTATE, 400, 0, False),
        (EventType.XID, 400, 0, False),
    ],
)
def test_what_the_protocol_makes_up_is_told_apart(
    event_type: int, log_pos: int, flags: int, *, expected: bool
) -> None:
    """Heartbeats and leading events are no events of a file."""
    assert is_artificial(read_header(event(event_type, b"", log_pos=log_pos, flags=flags))) is (
        expected
    )


@pytest.mark.parametrize(
    ("event_type", "body"),
    [
        (EventType.GTID, b"short"),
        (EventType.GTID, gtid_body(microseconds(1) + b"\xfe\x01")),
        (EventType.GTID, gtid_body(microseconds(1) + b"\xfc\x01")),
        (EventType.GTID, gtid_body(microseconds(1) + b"\xfb")),
        (EventType.GTID, gtid_body(microseconds(1) + b"\xff" + bytes(9))),
        (EventType.GTID_TAGGED, tagged_body(5, b"", original=None, length=9)[:-1]),
        (EventType.GTID_TAGGED, unsigned(1) + unsigned(9) + unsigned(0)),
        (
            EventType.GTID_TAGGED,
            unsigned(1) + unsigned(9) + unsigned(0) + unsigned(2) + signed(5),
        ),
        (
            EventType.GTID_TAGGED,
            unsigned(1) + unsigned(9) + unsigned(0) + unsigned(3) + unsigned(4) + b"tag",
        ),
        (EventType.GTID_TAGGED, b"\x02\x7c\x00\x02\x02"),
        (EventType.QUERY, b"short"),
        (EventType.PREVIOUS_GTIDS, b"\x01" + bytes(7)),
    ],
)
def test_a_body_that_is_cut_short_is_an_error_with_its_place(event_type: int, body: bytes) -> None:
    """Nothing is guessed of it."""
    with pytest.raises(EventError, match=r"binlog\.000001:400"):
        fields(event_type, body)
