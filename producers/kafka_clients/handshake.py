"""Whether a broker lets this client in: TLS and SASL once, before a client library is started.

The libraries try on with what is refused for good, report it late and each in its own words, and
none names an expired certificate or a wrong host. So one connection is made here first, by the same
properties, whatever library or Spark comes after it.
"""

from __future__ import annotations

import socket
import ssl
import struct
from typing import TYPE_CHECKING, Any, Final

from tallystick.producers.kafka_clients.errors import BrokerRefusesError
from tallystick.producers.kafka_clients.properties import KafkaProperties, uses_sasl, uses_tls
from tallystick.producers.kafka_clients.tls import tls_context

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from io import BufferedRWPair

_API_VERSIONS, _SASL_HANDSHAKE, _SASL_AUTHENTICATE = (18, 0), (17, 1), (36, 0)
"""Keys and versions of requests."""
_CLIENT: Final = b"tallystick"
_ANSWER_BYTES_MAX = 1_000_000
_TLS_ALERT = b"\x15\x03"
_UNSUPPORTED_MECHANISM = 33
# X509_V_ERR_… of OpenSSL's x509_vfy.h.
_EXPIRED, _NOT_YET_VALID = 10, 9
_OTHER_HOST = frozenset({62, 64})
_UNKNOWN_ISSUER = frozenset({2, 18, 19, 20, 21})
_SEE_PROTOCOL = "set security.protocol to that of its listener"


def require_accepted(host: str, port: int, properties: KafkaProperties, timeout_s: float) -> None:
    """Return when a broker has answered, over TLS and after SASL where these are set.

    Raises:
        OSError: It does not answer.
        BrokerRefusesError: It does, but TLS or SASL fails.
        KafkaPropertyError: A certificate or key cannot be read, or a token cannot be fetched.
    """
    where = f"{host}:{port}"
    context = tls_context(properties) if uses_tls(properties) else None
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            opened: AbstractContextManager[socket.socket] = (
                connection
                if context is None
                else context.wrap_socket(connection, server_hostname=host)
            )
            with opened as stream, stream.makefile("rwb") as file:
                # Answered to everybody; a client's certificate is refused in place of an answer.
                _ask(file, where, _API_VERSIONS, b"")
                if uses_sasl(properties):
                    _authenticate(file, where, properties)
    except ssl.SSLCertVerificationError as error:
        raise BrokerRefusesError(where, *_untrusted(error, host)) from None
    except ssl.SSLError as error:
        raise BrokerRefusesError(where, *_failed(error)) from None


def _ask(
    file: BufferedRWPair[Any, Any], where: str, request: tuple[int, int], body: bytes
) -> bytes:
    """The answer's body: after length and correlation id."""
    header = struct.pack(f">hhih{len(_CLIENT)}s", *request, 1, len(_CLIENT), _CLIENT)
    file.write(struct.pack(">i", len(header) + len(body)) + header + body)
    file.flush()
    head = file.read(8)
    if head.startswith(_TLS_ALERT):
        raise BrokerRefusesError(where, "it speaks TLS at this port", _SEE_PROTOCOL)
    if len(head) < 8:
        raise BrokerRefusesError(where, "it ends the connection without an answer", _SEE_PROTOCOL)
    length, _correlation_id = struct.unpack(">ii", head)
    if not 4 <= length <= _ANSWER_BYTES_MAX:
        raise BrokerRefusesError(where, "what answers there is no Kafka broker", _SEE_PROTOCOL)
    answer: bytes = file.read(length - 4)
    return answer


def _authenticate(file: BufferedRWPair[Any, Any], where: str, properties: KafkaProperties) -> None:
    """SASL as of KIP-152: the mechanism is named, then its messages go back and forth."""
    name = properties.get("sasl.mechanism", "")
    mechanism = _mechanism(name, properties)
    if mechanism is None:
        return
    encoded = name.encode()
    answer = _ask(file, where, _SASL_HANDSHAKE, struct.pack(">h", len(encoded)) + encoded)
    if struct.unpack(">h", answer[:2])[0] == _UNSUPPORTED_MECHANISM:
        raise BrokerRefusesError(where, f"it does not take {name}", "set sasl.mechanism")
    while not mechanism.is_done():
        token = mechanism.auth_bytes()
        answer = _ask(file, where, _SASL_AUTHENTICATE, struct.pack(">i", len(token)) + token)
        error, length = struct.unpack(">hh", answer[:4])
        if error:
            reason = answer[4 : 4 + max(0, length)].decode("utf-8", "replace")
            raise BrokerRefusesError(
                where, f"it does not accept this user ({reason})", "set its name and password"
            )
        # The error's message, null, is followed by the mechanism's own.
        mechanism.receive(answer[8:])


def _mechanism(name: str, properties: KafkaProperties) -> Any:
    """One side of an exchange; None: of a mechanism that is librdkafka's own affair."""
    from kafka.net.sasl import get_sasl_mechanism

    from tallystick.producers.kafka_clients.kafka_python_arguments import MECHANISMS, sasl_arguments

    if name not in MECHANISMS:
        return None
    return get_sasl_mechanism(name)(**sasl_arguments(properties))


def _untrusted(error: ssl.SSLCertVerificationError, host: str) -> tuple[str, str]:
    if error.verify_code == _EXPIRED:
        return "its certificate has expired", "renew it on the broker"
    if error.verify_code == _NOT_YET_VALID:
        return "its certificate is not valid yet", "check this machine's clock and the certificate"
    if error.verify_code in _OTHER_HOST:
        return (
            f"its certificate is not for the host name {host!r}",
            "name the broker as its certificate does",
        )
    if error.verify_code in _UNKNOWN_ISSUER:
        return (
            "its certificate is not signed by an authority that is trusted here",
            "set ssl.ca.location to the certificate of its authority",
        )
    return f"its certificate is not accepted ({error.verify_message})", "see the certificate"


def _failed(error: ssl.SSLError) -> tuple[str, str]:
    reason = (error.reason or "").replace("_", " ").lower()
    if "alert" in reason and ("certificate" in reason or "unknown ca" in reason):
        return (
            f"it does not accept this client's certificate ({reason})",
            "set ssl.certificate.location and ssl.key.location to one that its authorities signed",
        )
    if "wrong version" in reason or "record layer" in reason:
        return "it does not speak TLS at this port", "name its TLS port, or set security.protocol"
    return f"TLS fails ({reason or error})", "see its log"
