"""A TCP server that greets as a MySQL server does, says who it is, and hears what comes back."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

CLIENT_SSL = 1 << 11
_CAPABILITIES = 0x0008_A200 | 0x1 | 0x4 | 0x8
"""Protocol 4.1, transactions, secure connection, plugin authentication; no TLS."""


def greeting(version: str, *, has_tls: bool = False) -> bytes:
    """The first packet of a server (protocol version 10)."""
    capabilities = _CAPABILITIES | (CLIENT_SSL if has_tls else 0)
    body = (
        b"\x0a"
        + version.encode("latin1")
        + b"\0"
        + struct.pack("<I", 7)
        + b"saltsalt\0"
        + struct.pack("<HBHHB", capabilities & 0xFFFF, 255, 2, capabilities >> 16, 21)
        + bytes(10)
        + b"saltsaltsalt\0"
        + b"mysql_native_password\0"
    )
    return struct.pack("<I", len(body))[:3] + b"\0" + body


class GreetingServer:
    """Sends one message to whoever connects, reads the answer, and hangs up.

    Attributes:
        port: On 127.0.0.1.
        heard: What each client sent, in order; empty if it went away without a word.
    """

    def __init__(self, first: bytes) -> None:
        self._first = first
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.heard: list[bytes] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def start(self) -> None:
        """Begin to listen to whoever comes."""
        self._thread.start()

    def stop(self) -> None:
        """Let nobody in any more, and let the one inside go."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client:
                client.settimeout(5)
                try:
                    client.sendall(self._first)
                    self.heard.append(client.recv(4096))
                except OSError:
                    self.heard.append(b"")


@contextmanager
def greeting_with(first: bytes) -> Iterator[GreetingServer]:
    """A server that is there while the block runs; afterwards all that it heard is known."""
    server = GreetingServer(first)
    server.start()
    try:
        yield server
    finally:
        server.stop()
