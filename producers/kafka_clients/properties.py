"""How brokers are spoken to: properties under librdkafka's names, and what of them is secret.

librdkafka takes them as they are; ``kafka_python_arguments`` and Spark's ``kafka_options`` have the
tables of the other two clients. A value is never shown: of a property that is not known nobody
knows whether it is a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tallystick.producers.kafka_clients.errors import KafkaPropertyError

KafkaProperties = Mapping[str, str]
"""Values by librdkafka's name of a property."""

SECRETS: Final = frozenset(
    {
        "sasl.password",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "ssl.key.password",
        "ssl.key.pem",
    }
)
SHOWN: Final = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.username",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.scope",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.endpoint.identification.algorithm",
        "client.id",
    }
)
"""What ``tallystick config`` shows the value of."""
_OTHER_NAMES = {"sasl.mechanisms": "sasl.mechanism"}
_UPPER = frozenset({"security.protocol", "sasl.mechanism"})
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LEAST = 4
"""A shorter secret is not looked for in texts: it would be found in words."""

# What a journal's order, its acknowledgement and its reading from the beginning rest on.
_OURS: Final = {
    "bootstrap.servers": "it is the setting bootstrap_servers",
    "metadata.broker.list": "it is the setting bootstrap_servers",
    **dict.fromkeys(
        (
            *("acks", "request.required.acks", "enable.idempotence", "transactional.id"),
            *("delivery.timeout.ms", "message.timeout.ms", "allow.auto.create.topics"),
            *("partitioner", "compression.type", "compression.codec", "linger.ms"),
            *("queue.buffering.max.ms", "message.max.bytes", "batch.size"),
            *("queue.buffering.max.kbytes", "group.id", "group.instance.id"),
            *("enable.auto.commit", "auto.offset.reset", "log_level"),
        ),
        "tallystick sets it",
    ),
    # The check of a broker's TLS, which all clients share, reads PEM.
    **dict.fromkeys(
        ("ssl.keystore.location", "ssl.keystore.password"),
        "name PEM files in ssl.certificate.location and ssl.key.location",
    ),
}


def checked(given: Mapping[str, str]) -> dict[str, str]:
    """The properties under one name each, with Kafka's spelling of protocol and mechanism.

    Raises:
        KafkaPropertyError: One is tallystick's own, or has no effect with the security protocol.
    """
    found: dict[str, str] = {}
    for written, value in given.items():
        name = _OTHER_NAMES.get(written, written)
        if name in _OURS:
            raise KafkaPropertyError(name, _OURS[name])
        found[name] = value.upper() if name in _UPPER else value
    protocol = found.get("security.protocol", "PLAINTEXT")
    if protocol not in _PROTOCOLS:
        raise KafkaPropertyError("security.protocol", f"expected one of {', '.join(_PROTOCOLS)}")
    # Without this, whoever forgets the protocol sends in the clear what was to be encrypted.
    for prefix, is_used in (("ssl.", uses_tls(found)), ("sasl.", uses_sasl(found))):
        unused = next((name for name in found if name.startswith(prefix)), None)
        if unused is not None and not is_used:
            raise KafkaPropertyError(
                unused, f"it has no effect with security.protocol {protocol}; set that too"
            )
    return found


def uses_tls(properties: KafkaProperties) -> bool:
    """Whether connections are encrypted."""
    return properties.get("security.protocol", "").endswith("SSL")


def uses_sasl(properties: KafkaProperties) -> bool:
    """Whether the client says who it is by SASL."""
    return properties.get("security.protocol", "").startswith("SASL_")


def without_secrets(text: object, properties: KafkaProperties) -> str:
    """A text, as of a client's error, with ``***`` for each value that may be a secret."""
    shown = str(text)
    for name, value in properties.items():
        if name not in SHOWN and len(value) >= _LEAST:
            shown = shown.replace(value, "***")
    return shown
