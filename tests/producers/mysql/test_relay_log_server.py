"""The relay log reader and a tail's side of it: what each believes of the other."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import SecretStr

from tallystick.coordinates.values.binlog import EventType
from tallystick.deploy.certificates import Authority
from tallystick.deploy.ports import HOST
from tallystick.producers.mysql import relay_log_server, relay_wire, remote_directory
from tallystick.producers.mysql.log_directory import LocalDirectory
from tallystick.producers.mysql.relay_files import RelayCursor, RelayFiles
from tallystick.producers.mysql.relay_log_server import RelayLogServer
from tallystick.producers.mysql.relay_wire import (
    IS_JSON,
    IS_OUTLINE,
    NONCE_BYTES,
    PROTOCOL,
    Wire,
    WireError,
    nonce_of,
    proof,
    read_document,
    write_document,
)
from tallystick.producers.mysql.remote_directory import RelayReaderError, RemoteDirectory
from tallystick.producers.mysql.settings import RelayReaderSettings
from tests.producers.mysql.test_tail_parts import HEAD, event, rotate, types
from tests.support.tails import wait_for

TOKEN = "a token for tests only"
XID = event(EventType.XID, bytes(8))


@contextmanager
def serving(
    directory: Path, *, port: int = 0, tls: ssl.SSLContext | None = None
) -> Iterator[tuple[RelayLogServer, list[str]]]:
    """A reader in a thread, and what it notices."""
    notices: list[str] = []
    server = RelayLogServer(directory, TOKEN, host=HOST, port=port, tls=tls, notice=notices.append)
    stop = threading.Event()
    thread = threading.Thread(target=server.run, args=(stop,))
    thread.start()
    try:
        yield server, notices
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()


def settings(port: int, token: str = TOKEN, ca: Path | None = None) -> RelayReaderSettings:
    return RelayReaderSettings(host=HOST, port=port, token=SecretStr(token), ca=ca)


@contextmanager
def asking(port: int, token: str = TOKEN, ca: Path | None = None) -> Iterator[RemoteDirectory]:
    with closing(RemoteDirectory(settings(port, token, ca))) as directory:
        yield directory


@contextmanager
def proven(port: int) -> Iterator[Wire]:
    """A connection of who has the token and may ask anything."""
    with closing(Wire(socket.create_connection((HOST, port)))) as wire:
        theirs, ours = nonce_of(read_document(wire.receive(4096, 5))), bytes(NONCE_BYTES)
        wire.send(write_document(nonce=ours.hex(), proof=proof(TOKEN, "tail", theirs, ours)), 5)
        read_document(wire.receive(4096, 5))
        yield wire


def ask(wire: Wire, **question: object) -> bytes:
    wire.send(write_document(**question), 5)
    return wire.receive(1 << 24, 5)


def frame(content: bytes) -> bytes:
    return struct.pack("!I", len(content)) + content


def test_files_are_followed_as_those_of_a_directory_here(tmp_path: Path) -> None:
    """They grow, the next one begins, and the one before loses its name."""
    first, second = tmp_path / "relay.000001", tmp_path / "relay.000002"
    first.write_bytes(HEAD + XID[:10])
    with serving(tmp_path) as (server, _), asking(server.port) as directory:
        files = [RelayFiles(one, "relay", RelayCursor(1, 4)) for one in
                 (directory, LocalDirectory(tmp_path))]  # fmt: skip
        seen = [types(one) for one in files]
        first.write_bytes(HEAD + XID + rotate("relay.000002"))
        second.write_bytes(HEAD)
        seen += [types(one) for one in files]
        first.unlink()
        second.write_bytes(HEAD + XID)
        seen += [types(one) for one in files]
        second.unlink()
        first.write_bytes(HEAD)
        seen += [types(one) for one in files]
        assert seen[0::2] == seen[1::2]
        assert [[15], [16, 4, 15], [16], []] == seen[0::2]
        assert [True, True] == [one.is_anew for one in files]
        for one in files:
            one.close()


def test_a_file_is_gone_on_with_after_a_restart_of_the_reader(tmp_path: Path) -> None:
    """If it is the same one; a file of that name that took its position is another log."""
    path = tmp_path / "relay.000001"
    path.write_bytes(HEAD + XID)
    with ExitStack() as stack:
        with serving(tmp_path) as (server, _):
            directory = stack.enter_context(asking(server.port))
            files = RelayFiles(directory, "relay", RelayCursor(1, 4))
            stack.callback(files.close)
            assert [15, 16] == types(files)
        with pytest.raises(RelayReaderError, match=f"{HOST}:{server.port}: .*closed"):
            files.read()
        path.write_bytes(HEAD + XID + XID)
        with serving(tmp_path, port=server.port):
            wait_for(lambda: can_list(directory), lambda: directory)
            assert [16] == types(files)
        path.unlink()
        path.write_bytes(HEAD[:4] + struct.pack("<I", 77) + HEAD[8:] + XID + XID + XID)
        with serving(tmp_path, port=server.port):
            wait_for(lambda: can_list(directory), lambda: directory)
            assert [] == types(files)
            assert (files.is_anew, files.lost) == (True, True)


def can_list(directory: RemoteDirectory) -> bool:
    try:
        directory.numbers("relay")
    except RelayReaderError:
        return False
    return True


def test_files_are_let_go_a_hundred_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question has a length that it may have, however many files were read meanwhile."""
    closed: list[int] = []

    def answer(**question: object) -> dict[str, list[int]]:
        assert isinstance(question["close"], list)
        closed.append(len(question["close"]))
        return {"numbers": [], "unlinked": []}

    with serving(tmp_path) as (server, _), asking(server.port) as directory:
        directory.numbers("relay")
        monkeypatch.setattr(directory, "_ask", answer)
        for handle in range(250):
            directory.let_go(directory.session, handle)
        for _ in range(4):
            directory.numbers("relay")
    assert [100, 100, 50, 0] == closed


@pytest.fixture
def ends() -> Iterator[tuple[Wire, socket.socket]]:
    """Both ends of a connection, of which one speaks in frames."""
    ours, theirs = socket.socketpair()
    with closing(ours), closing(theirs):
        yield Wire(ours), theirs


def test_a_frame_is_as_long_as_it_may_be_and_no_longer(ends: tuple[Wire, socket.socket]) -> None:
    """Whatever pieces it comes in; one without content is one."""
    wire, other = ends
    other.sendall(frame(b"four") + frame(b"") + frame(b"five!"))
    assert b"four" == wire.receive(4, 5)
    assert b"" == wire.receive(0, 5)
    with pytest.raises(WireError, match="expected at most 4 bytes, found 5"):
        wire.receive(4, 5)


def test_a_frame_that_is_not_whole_is_none(ends: tuple[Wire, socket.socket]) -> None:
    """Not in time, and not before the other side has gone."""
    wire, other = ends
    other.sendall(frame(b"four")[:-1])
    with pytest.raises(WireError, match="timed out"):
        wire.receive(4, 0.01)
    other.close()
    with pytest.raises(WireError, match="the connection was closed"):
        wire.receive(4, 5)


def test_a_frame_has_its_time_from_its_beginning_on(
    ends: tuple[Wire, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question may be long in coming; once it has begun it must not be."""
    wire, other = ends
    now = 100.0

    def later() -> float:
        nonlocal now
        now += 1
        return now

    monkeypatch.setattr(relay_wire.time, "monotonic", later)
    other.sendall(2 * frame(b"four"))
    assert b"four" == wire.receive(4, 5, begin_s=9)
    with pytest.raises(WireError, match="timed out"):
        wire.receive(4, 1, begin_s=9)


def test_a_reader_that_is_away_is_asked_again_after_pauses_that_grow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Up to five seconds; between them the last problem is the answer, and nobody is asked."""
    now, asked = 1_000.0, list[float]()

    def refuse(*_: object, **__: object) -> socket.socket:
        asked.append(now)
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(remote_directory.time, "monotonic", lambda: now)
    monkeypatch.setattr(remote_directory.socket, "create_connection", refuse)
    with asking(9) as directory:
        for _ in range(8 * 20):
            with pytest.raises(RelayReaderError, match="refused"):
                directory.numbers("relay")
            now += 0.125
    pauses = [after - before for before, after in pairwise(asked)]
    assert [0.25, 0.5, 1, 2, 4, 5] == pauses[:6]


def test_files_that_were_held_are_not_read_after_a_restart_of_the_reader(tmp_path: Path) -> None:
    """They were those of a description of the channel; what has their names now may not be."""
    (tmp_path / "relay.000001").write_bytes(HEAD)
    with ExitStack() as stack:
        with serving(tmp_path) as (server, _):
            directory = stack.enter_context(asking(server.port))
            files = RelayFiles(directory, "relay", RelayCursor(1, 4))
            files.hold()
        with serving(tmp_path, port=server.port):
            assert not can_list(directory)
            wait_for(lambda: can_list(directory), lambda: directory)
            assert [] == types(files)
            assert (files.is_anew, files.lost) == (True, True)


def test_who_has_another_token_reads_nothing(tmp_path: Path) -> None:
    """And learns why, while others go on."""
    with serving(tmp_path) as (server, notices), asking(server.port) as directory:
        assert [] == directory.numbers("relay")
        with (
            asking(server.port, "another token than this") as other,
            pytest.raises(RelayReaderError, match="the token is another one"),
        ):
            other.numbers("relay")
        assert [] == directory.numbers("relay")
        wait_for(lambda: f"{HOST}: has another token" in notices, lambda: notices)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "expected at most"),
        (frame(b"[]"), "expected a JSON object"),
        (frame(b'{"nonce":1}'), "no relay log reader"),
        (b"", "timed out"),
    ],
)
def test_what_answers_otherwise_is_no_reader(
    content: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever listens there instead, and if it says nothing at all."""
    monkeypatch.setattr(remote_directory, "ANSWER_S", 0.3)
    with impostor(lambda wire: wire.sendall(content)) as port, asking(port) as directory:
        with pytest.raises(RelayReaderError, match=f"relay log reader {HOST}:{port}: .*{reason}"):
            directory.numbers("relay")
        # It is not tried again at once.
        with pytest.raises(RelayReaderError, match=reason):
            directory.numbers("relay")


def test_a_reader_that_has_not_the_token_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes whatever the tail shows, and cannot show that it knows it."""

    def greet(connection: socket.socket) -> None:
        wire = Wire(connection)
        wire.send(write_document(relay_log_reader=PROTOCOL, nonce="00" * NONCE_BYTES), 5)
        shown = read_document(wire.receive(4096, 5))
        wire.send(write_document(proof=shown["proof"]), 5)

    with (
        impostor(greet) as port,
        asking(port) as directory,
        pytest.raises(RelayReaderError, match="has another token"),
    ):
        directory.numbers("relay")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        IS_JSON,
        IS_JSON + b'{"numbers":[1]}',
        IS_JSON + b'{"numbers":["1"],"unlinked":[]}',
        IS_JSON + b"[" * 100_000,
        IS_OUTLINE + b"\0",
    ],
)
def test_garbage_of_a_reader_ends_the_session(answer: bytes) -> None:
    """It has the token, and does not speak the protocol: nothing of it is used."""

    def greet(connection: socket.socket) -> None:
        wire = Wire(connection)
        ours = bytes(NONCE_BYTES)
        wire.send(write_document(relay_log_reader=PROTOCOL, nonce=ours.hex()), 5)
        theirs = nonce_of(read_document(wire.receive(4096, 5)))
        wire.send(write_document(proof=proof(TOKEN, "reader", ours, theirs)), 5)
        wire.receive(4096, 5)
        wire.send(answer, 5)

    with (
        impostor(greet) as port,
        asking(port) as directory,
        pytest.raises(RelayReaderError, match="it is no relay log reader"),
    ):
        directory.numbers("relay")


def test_an_answer_that_comes_too_late_is_not_taken_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its connection is given up; the file that it had open there is read no more."""
    monkeypatch.setattr(remote_directory, "ANSWER_S", 0.3)
    monkeypatch.setattr(remote_directory, "RETRY_S", 0.0)

    def greet(connection: socket.socket) -> None:
        wire = Wire(connection)
        wire.send(write_document(relay_log_reader=PROTOCOL, nonce="00" * NONCE_BYTES), 5)
        theirs = nonce_of(read_document(wire.receive(4096, 5)))
        ours = bytes(NONCE_BYTES)
        wire.send(write_document(proof=proof(TOKEN, "reader", ours, theirs)), 5)
        wire.receive(4096, 5)
        wire.send(IS_JSON + write_document(numbers=[1], unlinked=[]), 5)
        wire.receive(4096, 5)
        wire.send(IS_JSON + write_document(file=1, device=1, inode=1, size=1), 5)

    with impostor(greet) as port, asking(port) as directory:
        assert [1] == directory.numbers("relay")
        file = directory.open("relay", 1)
        with pytest.raises(RelayReaderError, match="timed out"):
            file.read(0, 9)
        assert [1] == directory.numbers("relay")
        assert 2 == directory.session
        with pytest.raises(RelayReaderError):
            file.read(0, 9)


@contextmanager
def impostor(greet: Callable[[socket.socket], None]) -> Iterator[int]:
    """Something that listens, and holds each connection open after it has said its part."""
    held: list[socket.socket] = []
    listener = socket.create_server((HOST, 0))

    def listen() -> None:
        while True:
            try:
                held.append(listener.accept()[0])
                with suppress(WireError):  # the tail has gone
                    greet(held[-1])
            except OSError:
                return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in held:
            connection.close()
        thread.join(10)


def test_nothing_but_log_files_of_the_directory_is_read(tmp_path: Path) -> None:
    """No path, no link, no pipe, no other file; and the connection goes on."""
    folder, outside = tmp_path / "relays", tmp_path / "relay.000001"
    folder.mkdir()
    outside.write_bytes(HEAD)
    (folder / "relay.000002").symlink_to(outside)
    os.mkfifo(folder / "relay.000003")
    (folder / "relay.000004").write_bytes(b"no log file")
    (folder / "relay.000005").mkdir()
    (folder / "relay.000006").write_bytes(HEAD)
    with serving(folder) as (server, _), proven(server.port) as wire:
        for question in (
            {"base_name": "../relay", "number": 1},
            {"base_name": str(tmp_path / "relay"), "number": 1},
            {"base_name": "relay\0", "number": 6},
            {"base_name": "", "number": 6},
            *({"base_name": "relay", "number": number} for number in (0, 2, 3, 4, 5)),
        ):
            assert b"r" == ask(wire, op="open", **question)[:1], question
        assert IS_JSON == ask(wire, op="open", base_name="relay", number=6)[:1]
        assert b"r" == ask(wire, op="read", file=9, position=0, length=9)[:1]
        assert IS_OUTLINE == ask(wire, op="read", file=1, position=0, length=9)[:1]
        assert b'{"is_missing":true}' in ask(wire, op="open", base_name="relay", number=7)


@pytest.mark.parametrize(
    "content",
    [
        struct.pack("!I", 1 << 30),
        frame(b"no JSON!!"),
        frame(b"{}"),
        frame(b'{"op":"list"'),
        frame(b'{"op":"list","base_name":"relay","close":[[1]]}'),
        frame(b'{"op":"read","file":1,"position":-1,"length":9}'),
    ],
)
def test_a_question_that_is_none_ends_the_connection(tmp_path: Path, content: bytes) -> None:
    """Before memory is taken for it; the reader goes on."""
    (tmp_path / "relay.000001").write_bytes(HEAD)
    with serving(tmp_path) as (server, _):
        with proven(server.port) as wire:
            ask(wire, op="open", base_name="relay", number=1)
            wire._connection.sendall(content)
            with pytest.raises(WireError, match=r"closed|reset"):
                wire.receive(4096, 20)
        with asking(server.port) as directory:
            assert [1] == directory.numbers("relay")


def test_strangers_and_files_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who says nothing is let go; one too many is refused, and so are files."""
    monkeypatch.setattr(relay_log_server, "GREETING_S", 0.3)
    monkeypatch.setattr(relay_log_server, "CONNECTIONS_MAX", 2)
    monkeypatch.setattr(relay_log_server, "FILES_MAX", 1)
    (tmp_path / "relay.000001").write_bytes(HEAD)
    with serving(tmp_path) as (server, notices), ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(socket.create_connection((HOST, server.port)))
        wait_for(lambda: any("refused" in one for one in notices), lambda: notices)
        wait_for(lambda: 2 == sum("timed out" in one for one in notices), lambda: notices)
        with proven(server.port) as wire:
            assert IS_JSON == ask(wire, op="open", base_name="relay", number=1)[:1]
            assert b"1 files are open" in ask(wire, op="open", base_name="relay", number=1)
            ask(wire, op="list", base_name="relay", close=[1])
            assert IS_JSON == ask(wire, op="open", base_name="relay", number=1)[:1]


def test_many_files_are_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one question some, so that it is not too long; all of them with the next ones."""
    monkeypatch.setattr(relay_log_server, "REQUEST_MAX_BYTES", 800)
    for number in range(1, 401):
        (tmp_path / f"relay.{number:06}").write_bytes(HEAD)
    with serving(tmp_path) as (server, _), asking(server.port) as directory:
        for _ in range(3):
            numbers = directory.numbers("relay")
            for file in [directory.open("relay", number) for number in numbers]:
                file.close()
            for _ in range(4):
                directory.numbers("relay")
        assert 1 == directory.session


def test_with_tls_both_sides_know_each_other(tmp_path: Path) -> None:
    """By an authority that the tail knows, and for the host that it asks."""
    authority, stranger = Authority("ours"), Authority("a stranger's")
    for name, whose in (("ours", authority), ("theirs", stranger)):
        (tmp_path / f"{name}.pem").write_bytes(whose.certificate)
    (tmp_path / "relay.000001").write_bytes(HEAD)

    def context(*hosts: str) -> ssl.SSLContext:
        signed = authority.sign("reader", hosts)
        (tmp_path / "reader.pem").write_bytes(signed.certificate)
        (tmp_path / "reader.key").write_bytes(signed.key)
        found = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        found.load_cert_chain(tmp_path / "reader.pem", tmp_path / "reader.key")
        return found

    with serving(tmp_path, tls=context(HOST)) as (server, _):
        with asking(server.port, ca=tmp_path / "ours.pem") as directory:
            assert [1] == directory.numbers("relay")
            with closing(directory.open("relay", 1)) as file:
                assert HEAD == file.read(0, len(HEAD))
        with (
            asking(server.port, ca=tmp_path / "theirs.pem") as directory,
            pytest.raises(RelayReaderError, match="certificate"),
        ):
            directory.numbers("relay")
    with (
        serving(tmp_path, tls=context("elsewhere.example")) as (server, _),
        asking(server.port, ca=tmp_path / "ours.pem") as directory,
        pytest.raises(RelayReaderError, match="certificate"),
    ):
        directory.numbers("relay")
