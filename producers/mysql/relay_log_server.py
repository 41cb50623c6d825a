"""The relay log reader: shows a tail on another host what the relay logs of this one hold.

It lists the files of one directory, opens those that are log files, and answers with outlines of
them: no row and no text of a statement leaves the host. It writes nothing. Whoever asks must show
that it has the token first; until then, and afterwards, sizes and times are limited.
"""

from __future__ import annotations

import os
import secrets
import socket
import ssl
import stat
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, final

from tallystick.coordinates.values.binlog import MAGIC, MAGIC_LENGTH, format_log_file_name
from tallystick.coordinates.values.errors import CoordinateError
from tallystick.producers.mysql.event_outlines import outline
from tallystick.producers.mysql.log_directory import LocalFile, numbers_of
from tallystick.producers.mysql.relay_wire import (
    IS_JSON,
    IS_OUTLINE,
    IS_REFUSAL,
    NONCE_BYTES,
    PROTOCOL,
    REQUEST_MAX_BYTES,
    Wire,
    WireError,
    is_proven,
    nonce_of,
    number_of,
    numbers_in,
    proof,
    read_document,
    reason_of,
    text_of,
    write_document,
    write_parts,
)

CONNECTIONS_MAX = 16
FILES_MAX = 800
"""Open files of a connection."""
GREETING_S = 5.0
IDLE_S = 60.0
TRANSFER_S = 10.0
_ACCEPT_S = 0.2
_NUMBER_MAX = 10**18 - 1
_LENGTH_MAX = 2**31


class _RefusedError(Exception):
    """A question that has no answer; the message says why."""


@final
class RelayLogServer:
    """Listens until it is closed.

    Args:
        directory: Where the relay logs are.
        token: What those have who may ask.
        host: The address to listen on.
        port: 0: any free one.
        tls: With which connections are encrypted; None: they are not.
        notice: Takes one line about what was noticed.

    Attributes:
        port: Where it listens.

    Raises:
        OSError: The address cannot be listened on.
    """

    def __init__(
        self,
        directory: Path,
        token: str,
        *,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        notice: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._token = token
        self._tls = tls
        self._notice = notice
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=CONNECTIONS_MAX)
        self._listener.settimeout(_ACCEPT_S)
        self.port = int(self._listener.getsockname()[1])
        self._connections: dict[threading.Thread, socket.socket] = {}

    def run(self, stop: threading.Event) -> None:
        """Answer until `stop`."""
        try:
            while not stop.is_set():
                with suppress(TimeoutError):
                    connection, (peer, *_) = self._listener.accept()
                    self._begin(connection, str(peer))
        finally:
            self._listener.close()
            for connection in list(self._connections.values()):
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            for thread in list(self._connections):
                thread.join(TRANSFER_S)

    def _begin(self, connection: socket.socket, peer: str) -> None:
        if len(self._connections) >= CONNECTIONS_MAX:
            connection.close()
            self._notice(f"{peer}: refused, there are {CONNECTIONS_MAX} connections")
            return
        thread = threading.Thread(
            target=self._serve, args=(connection, peer), name=f"relay logs for {peer}", daemon=True
        )
        self._connections[thread] = connection
        thread.start()

    def _serve(self, connection: socket.socket, peer: str) -> None:
        try:
            with closing(connection):
                connection.settimeout(GREETING_S)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._tls is not None:
                    connection = self._tls.wrap_socket(connection, server_side=True)
                    self._connections[threading.current_thread()] = connection
                self._converse(connection, peer)
        except (OSError, ValueError, WireError) as error:
            self._notice(f"{peer}: {reason_of(error)}")
        finally:
            del self._connections[threading.current_thread()]

    def _converse(self, connection: socket.socket, peer: str) -> None:
        with closing(Wire(connection)) as wire:
            self._greet(wire)
            self._notice(f"{peer}: reads")
            with closing(_Files(self._directory)) as files:
                while True:
                    question = read_document(
                        wire.receive(REQUEST_MAX_BYTES, GREETING_S, begin_s=IDLE_S)
                    )
                    wire.send(_answer(files, question), TRANSFER_S)

    def _greet(self, wire: Wire) -> None:
        """Find out whether the other side has the token, and show that this one has it."""
        ours = secrets.token_bytes(NONCE_BYTES)
        wire.send(write_document(relay_log_reader=PROTOCOL, nonce=ours.hex()), GREETING_S)
        document = read_document(wire.receive(REQUEST_MAX_BYTES, GREETING_S))
        theirs = nonce_of(document)
        if not is_proven(document, proof(self._token, "tail", ours, theirs)):
            wire.send(IS_REFUSAL + b"the token is another one", GREETING_S)
            raise WireError("has another token")
        answer = write_document(proof=proof(self._token, "reader", ours, theirs))
        wire.send(answer, GREETING_S)


def _answer(files: _Files, question: dict[str, Any]) -> bytes:
    kind = text_of(question, "op")
    try:
        if kind == "list":
            return IS_JSON + write_document(**files.list(question))
        if kind == "open":
            return IS_JSON + write_document(**files.open(question))
        return IS_OUTLINE + files.read(question)
    except _RefusedError as error:
        return IS_REFUSAL + str(error).encode()
    except OSError as error:
        return IS_REFUSAL + (error.strerror or type(error).__name__).encode()


@final
class _Files:
    """The open files of one connection."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: dict[int, LocalFile] = {}
        self._next = 0

    def list(self, question: dict[str, Any]) -> dict[str, Any]:
        """The numbers of a log's files; then, which open ones have lost their names."""
        base_name = text_of(question, "base_name")
        for handle in numbers_in(question, "close"):
            file = self._open.pop(handle, None)
            if file is not None:
                file.close()
        with os.scandir(self._directory) as entries:
            numbers = numbers_of(base_name, [entry.name for entry in entries])
        unlinked = [handle for handle, file in self._open.items() if file.is_unlinked()]
        return {"numbers": numbers, "unlinked": unlinked}

    def open(self, question: dict[str, Any]) -> dict[str, Any]:
        """Open a log file of the directory itself; never what a link leads to."""
        base_name = text_of(question, "base_name")
        try:
            name = format_log_file_name(base_name, number_of(question, "number", _NUMBER_MAX))
        except CoordinateError as error:
            raise _RefusedError(str(error)) from None
        if len(self._open) >= FILES_MAX:
            raise _RefusedError(f"{FILES_MAX} files are open")
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        with ExitStack() as stack:
            folder = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                descriptor = os.open(name, flags, dir_fd=folder)
            except FileNotFoundError:
                return {"is_missing": True}
            finally:
                os.close(folder)
            file = LocalFile(descriptor)
            stack.callback(file.close)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _RefusedError(f"{name} is no file")
            if not MAGIC.startswith(file.read(0, MAGIC_LENGTH)):
                raise _RefusedError(f"{name} is no log file that can be read")
            stack.pop_all()
        self._next += 1
        self._open[self._next] = file
        device, inode = file.identity
        return {"file": self._next, "device": device, "inode": inode, "size": file.size()}

    def read(self, question: dict[str, Any]) -> bytes:
        """An outline of a part of an open file."""
        file = self._open.get(number_of(question, "file"))
        if file is None:
            raise _RefusedError("this file is not open")
        position = number_of(question, "position", 2**62)
        return write_parts(outline(file, position, number_of(question, "length", _LENGTH_MAX)))

    def close(self) -> None:
        """Close all."""
        for file in self._open.values():
            file.close()
        self._open.clear()
