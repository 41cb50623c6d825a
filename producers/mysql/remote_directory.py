"""Relay logs on another host, through the relay log reader that runs beside them.

What it answers counts as the files themselves, so it must show that it has the token, and off this
machine its certificate. A reader that is gone, too slow or no reader is an ``OSError``, as a
directory that cannot be read is one: the same follows from it.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from tallystick.producers.mysql.connection import is_loopback
from tallystick.producers.mysql.log_directory import LocalDirectory, LogDirectory
from tallystick.producers.mysql.relay_wire import (
    ANSWER_MAX_BYTES,
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
    read_parts,
    reason_of,
    write_document,
)

if TYPE_CHECKING:
    from tallystick.producers.mysql.settings import RelayReaderSettings, ServerSettings

ANSWER_S = 2.0
"""So long the thread that follows the server waits for one answer."""
RETRY_S = 0.25
RETRY_MAX_S = 5.0
_NO_READER = "it is no relay log reader"
_SHOWN_BYTES = 200
_RELEASED_MAX = 100
"""So many files are let go with one question: its length is limited."""


class RelayReaderError(OSError):
    """A relay log reader does not answer; the message names it, and says why."""


@final
class RemoteFile:
    """A file that is open at the reader.

    Args:
        directory: Where it was opened.
        handle: Its number there.
        identity: Device and inode.
        size: Its length in bytes.
    """

    def __init__(
        self, directory: RemoteDirectory, handle: int, identity: tuple[int, int], size: int
    ) -> None:
        self.identity = identity
        self._size = size
        self._directory = directory
        self._handle = handle
        self._session = directory.session

    def read(self, position: int, length: int) -> bytes:
        """An outline of at most so many bytes from a position on."""
        return self._directory.outline(self._session, self._handle, position, length)

    def size(self) -> int:
        """Its length in bytes when it was opened."""
        return self._size

    def is_unlinked(self) -> bool:
        """Whether its name was gone when the directory was listed last."""
        return self._handle in self._directory.unlinked

    def close(self) -> None:
        """Let go of it."""
        self._directory.let_go(self._session, self._handle)


@final
class RemoteDirectory:
    """A directory of relay logs, read by the relay log reader beside it.

    Listing it connects, and again after a connection has ended; nothing else does.

    Args:
        settings: Where the reader is, and what shows who it is.

    Attributes:
        session: How many connections there have been.
        unlinked: The handles of files whose names were gone when it was listed last.
    """

    def __init__(self, settings: RelayReaderSettings) -> None:
        self.session = 0
        self.unlinked: frozenset[int] = frozenset()
        self._settings = settings
        self._wire: Wire | None = None
        self._released: list[int] = []
        self._problem = "not connected"
        self._retry_at = 0.0
        self._retry_s = RETRY_S

    def numbers(self, base_name: str) -> list[int]:
        """The numbers of all files of a log that are there."""
        if self._wire is None:
            self._connect()
        released = self._released[:_RELEASED_MAX]
        del self._released[:_RELEASED_MAX]
        document = self._ask(op="list", base_name=base_name, close=released)
        try:
            numbers = sorted(numbers_in(document, "numbers"))
            self.unlinked = frozenset(numbers_in(document, "unlinked"))
        except WireError as error:
            raise self._lost(f"{_NO_READER}: {error}") from None
        self._retry_s = RETRY_S
        return numbers

    def open(self, base_name: str, number: int) -> RemoteFile:
        """Open a file."""
        document = self._ask(op="open", base_name=base_name, number=number)
        if document.get("is_missing") is True:
            raise FileNotFoundError(f"{base_name}.{number:06} is not there")
        try:
            handle = number_of(document, "file")
            identity = number_of(document, "device"), number_of(document, "inode")
            size = number_of(document, "size")
        except WireError as error:
            raise self._lost(f"{_NO_READER}: {error}") from None
        return RemoteFile(self, handle, identity, size)

    def outline(self, session: int, handle: int, position: int, length: int) -> bytes:
        """Read a part of a file that was opened in a session.

        Raises:
            RelayReaderError: It cannot be read, or that session has ended.
        """
        if session != self.session:
            raise self._error()
        question = {"op": "read", "file": handle, "position": position, "length": length}
        content = self._answer(IS_OUTLINE, question)
        try:
            return read_parts(content, length)
        except WireError as error:
            raise self._lost(f"{_NO_READER}: {error}") from None

    def let_go(self, session: int, handle: int) -> None:
        """Have a file closed, with the next question."""
        if session == self.session:
            self._released.append(handle)

    def close(self) -> None:
        """End the connection."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def _ask(self, **question: Any) -> dict[str, Any]:
        content = self._answer(IS_JSON, question)
        try:
            return read_document(content)
        except WireError as error:
            raise self._lost(f"{_NO_READER}: {error}") from None

    def _answer(self, kind: bytes, question: dict[str, Any]) -> bytes:
        """The content of an answer, which must be of a kind."""
        if self._wire is None:
            raise self._error()
        try:
            self._wire.send(write_document(**question), ANSWER_S)
            answer = self._wire.receive(ANSWER_MAX_BYTES, ANSWER_S)
        except WireError as error:
            raise self._lost(str(error)) from None
        if answer[:1] == IS_REFUSAL:
            raise RelayReaderError(f"{self._where}: {_shown(answer[1:])}")
        if answer[:1] != kind:
            raise self._lost(_NO_READER)
        return answer[1:]

    @property
    def _where(self) -> str:
        return f"relay log reader {self._settings.address}"

    def _error(self) -> RelayReaderError:
        return RelayReaderError(f"{self._where}: {self._problem}")

    def _lost(self, problem: str) -> RelayReaderError:
        """The connection is of no use any more; it is tried again after a while."""
        self.close()
        self._problem = problem
        self._retry_at = time.monotonic() + self._retry_s
        self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)
        return self._error()

    def _connect(self) -> None:
        if time.monotonic() < self._retry_at:
            raise self._error()
        try:
            self._wire = self._greet(time.monotonic() + ANSWER_S)
        except (OSError, ValueError, WireError) as error:
            raise self._lost(reason_of(error)) from None
        self.session += 1
        self.unlinked = frozenset()
        self._released = []

    def _greet(self, deadline: float) -> Wire:
        """Connect, and show each other that both have the token."""
        settings = self._settings
        connection = socket.create_connection((settings.host, settings.port), timeout=ANSWER_S)
        with ExitStack() as stack:
            stack.callback(connection.close)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if settings.ca is not None or not is_loopback(settings.host):
                context = _tls(settings.ca)
                connection = context.wrap_socket(connection, server_hostname=settings.host)
                stack.callback(connection.close)
            wire = Wire(connection)
            _prove(wire, settings.token.get_secret_value(), deadline)
            stack.pop_all()
        return wire


def _prove(wire: Wire, token: str, deadline: float) -> None:
    greeting = read_document(wire.receive(REQUEST_MAX_BYTES, _left_s(deadline)))
    if greeting.get("relay_log_reader") != PROTOCOL:
        raise WireError("it is no relay log reader of this version")
    theirs, ours = nonce_of(greeting), secrets.token_bytes(NONCE_BYTES)
    answer = write_document(nonce=ours.hex(), proof=proof(token, "tail", theirs, ours))
    wire.send(answer, _left_s(deadline))
    answer = wire.receive(REQUEST_MAX_BYTES, _left_s(deadline))
    if answer[:1] == IS_REFUSAL:
        raise WireError(_shown(answer[1:]))
    if not is_proven(read_document(answer), proof(token, "reader", theirs, ours)):
        raise WireError("it has another token")


def relay_log_directory(settings: ServerSettings) -> LogDirectory | None:
    """Where a server's relay logs are read; None: nowhere."""
    if settings.relay_log_reader is not None:
        return RemoteDirectory(settings.relay_log_reader)
    return None if settings.relay_log_dir is None else LocalDirectory(settings.relay_log_dir)


def _left_s(deadline: float) -> float:
    return max(0.001, deadline - time.monotonic())


def _tls(ca: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _shown(text: bytes) -> str:
    """What a stranger says, as a short text of one line."""
    return " ".join(text[:_SHOWN_BYTES].decode("utf-8", "backslashreplace").split())
