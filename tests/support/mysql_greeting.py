"""A TCP server that greets as a MySQL server does, says who it is, and hears what comes back."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Sequence
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
    return packet(0, body)


def packet(number: int, body: bytes) -> bytes:
    """A packet with its header."""
    return struct.pack("<I", len(body))[:3] + bytes([number]) + body


def asking_for_rsa() -> tuple[bytes, ...]:
    """What a server without TLS sends whose account has caching_sha2_password and no cached hash.

    The greeting, the switch to the plugin, the wish for full authentication, the public key.
    """
    return (
        greeting("8.0.31"),
        packet(2, b"\xfecaching_sha2_password\0saltsaltsaltsaltsalt\0"),
        packet(4, b"\x01\x04"),
        packet(6, b"\x01-----BEGIN PUBLIC KEY-----\n"),
    )


class GreetingServer:
    """Sends messages to whoever connects, reads the answer to each, and hangs up.

    Attributes:
        port: On 127.0.0.1.
        heard: What each client sent, in order; empty if it went away without a word.
    """

    def __init__(self, messages: Sequence[bytes]) -> None:
        self._messages = messages
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
                    for message in self._messages:
                        client.sendall(message)
                        self.heard.append(client.recv(4096))
                except OSError:
                    self.heard.append(b"")


@contextmanager
def greeting_with(*messages: bytes) -> Iterator[GreetingServer]:
    """A server that is there while the block runs; afterwards all that it heard is known."""
    server = GreetingServer(messages)
    server.start()
    try:
        yield server
    finally:
        server.stop()
