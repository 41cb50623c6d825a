"""The context of Python's ssl that Kafka's properties describe."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tallystick.producers.given_files import read_whole
from tallystick.producers.kafka_clients.errors import KafkaPropertyError
from tallystick.producers.kafka_clients.properties import KafkaProperties
from tallystick.producers.secret_file import read_secret_file


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
        return read_whole(Path(properties[name])).decode()
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
