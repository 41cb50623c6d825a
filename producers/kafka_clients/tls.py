"""TLS by Kafka's properties: the context of Python's ssl, and whether a broker passes its checks.

The clients report a failed handshake late and in their libraries' words; none names an expired
certificate or a wrong host. So a handshake is made here first, with the same certificates.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tallystick.producers.kafka_clients.errors import BrokerRefusesError, KafkaPropertyError
from tallystick.producers.kafka_clients.properties import KafkaProperties
from tallystick.producers.secret_file import read_secret_file

_CLIENT = b"tallystick"
# X509_V_ERR_… of OpenSSL's x509_vfy.h.
_EXPIRED, _NOT_YET_VALID = 10, 9
_OTHER_HOST = frozenset({62, 64})
_UNKNOWN_ISSUER = frozenset({2, 18, 19, 20, 21})


def tls_context(properties: KafkaProperties) -> ssl.SSLContext:
    """The context that the properties describe.

    Raises:
        KafkaPropertyError: A file cannot be read, a key is open to others, or what is in it is no
            certificate or not the certificate's key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = (
        properties.get("ssl.endpoint.identification.algorithm", "https") != "none"
    )
    if properties.get("enable.ssl.certificate.verification", "true") == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _load_authorities(context, properties)
    _load_own(context, properties)
    return context


def _load_authorities(context: ssl.SSLContext, properties: KafkaProperties) -> None:
    name = "ssl.ca.pem" if "ssl.ca.pem" in properties else "ssl.ca.location"
    try:
        if name == "ssl.ca.pem":
            context.load_verify_locations(cadata=properties[name])
        elif name in properties:
            path = Path(properties[name])
            folder = str(path) if path.is_dir() else None
            context.load_verify_locations(None if folder else str(path), folder)
        else:
            context.load_default_certs()
        revoked = properties.get("ssl.crl.location")
        if revoked is not None:
            name = "ssl.crl.location"
            context.load_verify_locations(revoked)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    except ssl.SSLError:
        raise KafkaPropertyError(name, "expected certificates as PEM") from None
    except OSError as error:
        reason = f"{properties[name]!r} cannot be read: {error.strerror}"
        raise KafkaPropertyError(name, reason) from None


def _load_own(context: ssl.SSLContext, properties: KafkaProperties) -> None:
    certificate = _pem(properties, "ssl.certificate")
    key = _pem(properties, "ssl.key")
    if certificate is None or key is None:
        if (certificate is None) != (key is None):
            raise KafkaPropertyError(
                "ssl.certificate" if certificate is None else "ssl.key",
                "a client's certificate and its key are set together",
            )
        return
    try:
        # OpenSSL takes files only: these are in memory.
        with _in_memory(certificate) as certificate_file, _in_memory(key) as key_file:
            context.load_cert_chain(
                certificate_file, key_file, properties.get("ssl.key.password", "")
            )
    except ssl.SSLError as error:
        raise KafkaPropertyError(
            "ssl.key",
            f"it is no PEM key of the certificate, or its password is another"
            f" ({(error.reason or 'no reason').replace('_', ' ').lower()})",
        ) from None


def _pem(properties: KafkaProperties, prefix: str) -> str | None:
    if f"{prefix}.pem" in properties:
        return properties[f"{prefix}.pem"]
    name = f"{prefix}.location"
    if name not in properties:
        return None
    if prefix == "ssl.key":
        return private_key(properties[name])
    try:
        return Path(properties[name]).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise KafkaPropertyError(name, f"{properties[name]!r} cannot be read: {reason}") from None


def private_key(path: str) -> str:
    """The text of a private key's file.

    Raises:
        KafkaPropertyError: It cannot be read, or others can read it.
    """
    return read_secret_file(
        Path(path), lambda reason: KafkaPropertyError("ssl.key.location", reason)
    )


@contextmanager
def _in_memory(text: str) -> Iterator[str]:
    number = os.memfd_create("tallystick")
    try:
        os.write(number, text.encode())
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)


def require_tls(host: str, port: int, context: ssl.SSLContext, timeout_s: float) -> None:
    """Return when a broker has answered over TLS.

    A refused client certificate is reported only after the handshake, in place of an answer: so a
    broker is asked which versions it knows, which it answers to everybody.

    Raises:
        OSError: It does not answer.
        BrokerRefusesError: It does, but TLS fails.
    """
    where = f"{host}:{port}"
    try:
        with (
            socket.create_connection((host, port), timeout_s) as connection,
            context.wrap_socket(connection, server_hostname=host) as encrypted,
        ):
            encrypted.sendall(_versions_request())
            if not encrypted.recv(4):
                raise BrokerRefusesError(
                    where, "it ends the TLS connection without an answer", "see its log"
                )
    except ssl.SSLCertVerificationError as error:
        raise BrokerRefusesError(where, *_untrusted(error, host)) from None
    except ssl.SSLError as error:
        raise BrokerRefusesError(where, *_failed(error)) from None


def _versions_request() -> bytes:
    """ApiVersions, version 0: length; key 18, version, correlation id, the client's name."""
    body = struct.pack(f">hhih{len(_CLIENT)}s", 18, 0, 1, len(_CLIENT), _CLIENT)
    return struct.pack(">i", len(body)) + body


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
