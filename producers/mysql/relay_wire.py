"""What a relay log reader and a tail send each other: frames, and how each shows that it is who.

A frame is its length, four bytes, big-endian, and so many bytes. The reader speaks first, with a
nonce; each side then shows by a keyed hash of both nonces that it has the token, which is never
sent. After that the tail asks, in JSON, and the reader answers, one frame each: a letter, and
JSON, the parts of an outline (``event_outlines``), or why it refuses.

The limits here hold for whoever is at the other end.
"""

from __future__ import annotations

import hmac
import json
import socket
import ssl
import struct
import time
from typing import TYPE_CHECKING, Any, final

from tallystick.producers.mysql.event_outlines import CHUNK_BYTES

if TYPE_CHECKING:
    from tallystick.producers.mysql.event_outlines import Part

PROTOCOL = 1
NONCE_BYTES = 32
REQUEST_MAX_BYTES = 4096
ANSWER_MAX_BYTES = 16 << 20
IS_JSON, IS_OUTLINE, IS_REFUSAL = b"j", b"o", b"r"
_LENGTH = struct.Struct("!I")
_PART = struct.Struct("!II")


class WireError(Exception):
    """What came is not of the protocol, did not come in time, or nothing comes any more."""


@final
class Wire:
    """Frames over a connection.

    Args:
        connection: A connected socket, or one with TLS; closed with it.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, content: bytes, timeout_s: float) -> None:
        """Send a frame.

        Raises:
            WireError: It could not be sent in time.
        """
        try:
            self._connection.settimeout(timeout_s)
            self._connection.sendall(_LENGTH.pack(len(content)) + content)
        except (OSError, ValueError) as error:
            raise WireError(reason_of(error)) from None

    def receive(self, most: int, timeout_s: float, begin_s: float | None = None) -> bytes:
        """Receive a frame.

        Args:
            most: Its length, in bytes, at most.
            timeout_s: How long it may take.
            begin_s: How long it may take until it begins, if that is another time.

        Raises:
            WireError: None came.
        """
        deadline = time.monotonic() + (timeout_s if begin_s is None else begin_s)
        (length,) = _LENGTH.unpack(self._receive(_LENGTH.size, deadline))
        if length > most:
            raise WireError(f"expected at most {most} bytes, found {length}")
        if begin_s is not None:
            deadline = time.monotonic() + timeout_s
        return self._receive(length, deadline)

    def _receive(self, length: int, deadline: float) -> bytes:
        content = bytearray()
        while len(content) < length:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise WireError("timed out")
            try:
                self._connection.settimeout(left_s)
                some = self._connection.recv(min(length - len(content), CHUNK_BYTES))
            except (OSError, ValueError) as error:
                raise WireError(reason_of(error)) from None
            if not some:
                raise WireError("the connection was closed")
            content += some
        return bytes(content)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


def reason_of(error: Exception) -> str:
    """Why a connection does not work, in a few words."""
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or type(error).__name__}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def proof(token: str, side: str, reader_nonce: bytes, tail_nonce: bytes) -> str:
    """What shows that a side, ``reader`` or ``tail``, has the token: a keyed hash, as hex."""
    message = side.encode() + reader_nonce + tail_nonce
    return hmac.new(token.encode(), message, "sha256").hexdigest()


def read_document(content: bytes) -> dict[str, Any]:
    """A JSON object.

    Raises:
        WireError: It is none.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise WireError("expected a JSON object")
    return document


def write_document(**document: Any) -> bytes:
    """A JSON object as bytes."""
    return json.dumps(document, separators=(",", ":")).encode()


def text_of(document: dict[str, Any], key: str) -> str:
    """A text of a document.

    Raises:
        WireError: It has none there.
    """
    value = document.get(key)
    if not isinstance(value, str):
        raise WireError(f"expected a text {key!r}")
    return value


def number_of(document: dict[str, Any], key: str, most: int = 2**63 - 1) -> int:
    """A number, no less than 0, of a document.

    Raises:
        WireError: It has none there.
    """
    value = document.get(key)
    if type(value) is not int or not 0 <= value <= most:
        raise WireError(f"expected a number {key!r} from 0 to {most}")
    return value


def numbers_in(document: dict[str, Any], key: str) -> list[int]:
    """A list of numbers, none less than 0, of a document.

    Raises:
        WireError: It has none there.
    """
    value = document.get(key)
    if not isinstance(value, list) or not all(type(one) is int and one >= 0 for one in value):
        raise WireError(f"expected numbers {key!r}")
    return value


def nonce_of(document: dict[str, Any]) -> bytes:
    """The nonce of a document.

    Raises:
        WireError: It has none.
    """
    try:
        nonce = bytes.fromhex(text_of(document, "nonce"))
    except ValueError:
        nonce = b""
    if len(nonce) != NONCE_BYTES:
        raise WireError(f"expected a nonce of {NONCE_BYTES} bytes")
    return nonce


def is_proven(document: dict[str, Any], expected: str) -> bool:
    """Whether a document has a proof; compared in a time that does not depend on it."""
    found = text_of(document, "proof")
    return hmac.compare_digest(found.encode("utf-8", "replace"), expected.encode())


def write_parts(parts: list[Part]) -> bytes:
    """Parts of an outline as bytes."""
    return b"".join(piece for raw, zeros in parts for piece in (_PART.pack(len(raw), zeros), raw))


def read_parts(content: bytes, most: int) -> bytes:
    """An outline, with its zeros.

    Args:
        content: Its parts.
        most: Its length, in bytes, at most.

    Raises:
        WireError: It is none, or longer.
    """
    found: list[bytes] = []
    at = size = 0
    while at < len(content):
        if len(content) - at < _PART.size:
            raise WireError("a part of an outline is cut short")
        length, zeros = _PART.unpack_from(content, at)
        at += _PART.size
        size += length + zeros
        if length > len(content) - at or size > most:
            raise WireError("a part of an outline is longer than it can be")
        found += (content[at : at + length], bytes(zeros))
        at += length
    return b"".join(found)
