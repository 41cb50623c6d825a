"""Outlines of log files: the same is read from them, and no row or statement is in them."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import final

import pytest

from tallystick.coordinates.values.binlog import EventType
from tallystick.producers.mysql.binlog_events import _READERS
from tallystick.producers.mysql.event_outlines import _WHOLE_TYPES, CHUNK_BYTES, outline
from tallystick.producers.mysql.event_runs import EventRun
from tallystick.producers.mysql.log_directory import LocalDirectory, LocalFile, LogFile
from tallystick.producers.mysql.relay_files import RelayCursor, RelayFiles
from tallystick.producers.mysql.relay_wire import WireError, read_parts, write_parts
from tests.producers.mysql.test_relay_logs import GROUP
from tests.producers.mysql.test_tail_parts import HEAD, event, rotate

SECRET = b"what only the server's users may read"


@final
class OutlinedFile:
    """A file as it is read through a relay log reader."""

    def __init__(self, file: LocalFile) -> None:
        self.identity = file.identity
        self.file = file
        self.sent: list[bytes] = []

    def read(self, position: int, length: int) -> bytes:
        self.sent.append(write_parts(outline(self.file, position, length)))
        return read_parts(self.sent[-1], length)

    def size(self) -> int:
        return self.file.size()

    def is_unlinked(self) -> bool:
        return self.file.is_unlinked()

    def close(self) -> None:
        self.file.close()


@final
class OutlinedDirectory:
    """A directory as it is read through a relay log reader."""

    session = 0

    def __init__(self, path: Path) -> None:
        self._local = LocalDirectory(path)
        self.files: list[OutlinedFile] = []

    def numbers(self, base_name: str) -> list[int]:
        return self._local.numbers(base_name)

    def open(self, base_name: str, number: int) -> LogFile:
        self.files.append(OutlinedFile(self._local.open(base_name, number)))
        return self.files[-1]

    def close(self) -> None:
        self._local.close()

    @property
    def sent(self) -> bytes:
        return b"".join(part for file in self.files for part in file.sent)


def query(text: bytes, schema: bytes = b"shop", status: bytes = b"\0" * 11) -> bytes:
    head = struct.pack("<IIBHH", 7, 0, len(schema), 0, len(status))
    return event(EventType.QUERY, head + status + schema + b"\0" + text)


def read_all(directory: LocalDirectory | OutlinedDirectory) -> list[object]:
    files = RelayFiles(directory, "relay", RelayCursor(1, 4))
    found: list[object] = []
    for each in files.read():
        if isinstance(each, EventRun):
            found += [(each.file, each.sids, column.tolist()) for column in each.table.T]
        else:
            found.append(each)
    files.close()
    return found


BODIES = (
    *(event(kind, body) for kind, body in GROUP),
    query(b"BEGIN"),
    event(EventType.WRITE_ROWS, 40 * SECRET),
    event(EventType.XID, bytes(8)),
    query(b"INSERT INTO t VALUES ('" + SECRET + b"')", schema=b""),
    query(b" commit "),
    query(b"XA START X'41',X'',1"),
    query(b"ROLLBACK TO s"),
    query(b"COMMIT", status=bytes(300)),
    event(EventType.ROWS_QUERY, b"\0" + SECRET),
    event(EventType.TRANSACTION_PAYLOAD, 30 * SECRET),
    event(EventType.USER_VAR, SECRET),
    event(EventType.PREVIOUS_GTIDS, struct.pack("<Q", 0)),
    event(EventType.HEARTBEAT, SECRET),
)


@pytest.mark.parametrize("has_checksums", [True, False])
def test_the_same_is_read_from_an_outline(tmp_path: Path, *, has_checksums: bool) -> None:
    """Every kind of event, one by one and in runs, with and without checksums."""
    bodies = [*BODIES, *(40 * BODIES[:7])]
    head = HEAD
    if not has_checksums:
        bodies = [one[:9] + struct.pack("<I", len(one) - 4) + one[13:-4] for one in bodies]
        head = HEAD[:-5] + b"\0" + HEAD[-4:]
    (tmp_path / "relay.000001").write_bytes(head + b"".join([*bodies, rotate("relay.000002")]))
    (tmp_path / "relay.000002").write_bytes(HEAD)
    expected, outlined = LocalDirectory(tmp_path), OutlinedDirectory(tmp_path)
    found = read_all(outlined)
    assert read_all(expected) == found
    assert len(bodies) + 3 <= len(found)
    assert SECRET not in outlined.sent
    assert b"INSERT" not in outlined.sent
    assert SECRET in (tmp_path / "relay.000001").read_bytes()


@pytest.mark.parametrize("kind", [EventType.WRITE_ROWS, EventType.QUERY, EventType.PREVIOUS_GTIDS])
def test_an_event_may_be_longer_than_what_is_read_in_one_step(
    tmp_path: Path, kind: EventType
) -> None:
    """Of its rows only the length is sent; half of one waits for its rest."""
    large = CHUNK_BYTES // len(SECRET) + 1000
    if kind == EventType.PREVIOUS_GTIDS:
        one = struct.pack("<16sQ", bytes(16), 1) + struct.pack("<QQ", 1, 2)
        body = struct.pack("<Q", 30_000) + b"".join(
            number.to_bytes(16, "big") + one[16:] for number in range(1, 30_001)
        )
        long = event(kind, body)
    elif kind == EventType.QUERY:
        long = query(b"INSERT " + large * SECRET)
    else:
        long = event(kind, large * SECRET)
    assert len(long) > CHUNK_BYTES
    path = tmp_path / "relay.000001"
    path.write_bytes(HEAD + long[:-1])
    directory = OutlinedDirectory(tmp_path)
    files = RelayFiles(directory, "relay", RelayCursor(1, 4))
    assert 1 == len(files.read())
    path.write_bytes(HEAD + long + event(EventType.XID, bytes(8)))
    assert [kind, EventType.XID] == [
        kind
        for each in files.read()
        for kind in (each.types.tolist() if isinstance(each, EventRun) else [each.type])
    ]
    files.close()
    assert read_all(LocalDirectory(tmp_path)) == read_all(directory)
    if kind != EventType.PREVIOUS_GTIDS:
        assert len(directory.sent) < 4096


def test_an_outline_has_all_that_is_read_of_a_body() -> None:
    """Of a QUERY its head and its verb; what else is kept whole leaves the host, so it is named."""
    assert _READERS.keys() - {EventType.QUERY} <= _WHOLE_TYPES


def test_anything_in_a_file_has_an_outline_of_its_length(tmp_path: Path) -> None:
    """What is no event is reported by whoever reads it."""
    chance = random.Random(7)
    for _ in range(300):
        whole = HEAD + b"".join(chance.choices(BODIES, k=5))
        data = bytearray(whole[: chance.randrange(len(whole))])
        for _ in range(chance.randrange(4) if data else 0):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path = tmp_path / "relay.000001"
        path.write_bytes(data)
        file = LocalDirectory(tmp_path).open("relay", 1)
        for position in (0, 4, chance.randrange(len(data) + 1)):
            length = chance.randrange(1, 2 * len(data) + 2)
            expected = len(data[position : position + length])
            assert expected == len(read_parts(write_parts(outline(file, position, length)), length))
        file.close()


@pytest.mark.parametrize(
    "content", [b"\0", struct.pack("!II", 5, 0) + b"four", struct.pack("!II", 0, 2**31)]
)
def test_parts_that_cannot_be_are_refused(content: bytes) -> None:
    """Before memory is taken for them."""
    with pytest.raises(WireError):
        read_parts(content, 1000)
