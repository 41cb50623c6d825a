"""Properties of Kafka's clients as arguments of kafka-python."""

from __future__ import annotations

from typing import Any

from tallystick.producers.kafka_clients.errors import KafkaPropertyError
from tallystick.producers.kafka_clients.oauth import ClientCredentials
from tallystick.producers.kafka_clients.properties import KafkaProperties, uses_sasl, uses_tls
from tallystick.producers.kafka_clients.tls import tls_context

_TEXTS = {
    "security.protocol": "security_protocol",
    "client.id": "client_id",
    "client.dns.lookup": "client_dns_lookup",
}
_SASL = {
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}
_NUMBERS = {
    "metadata.max.age.ms": "metadata_max_age_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "socket.receive.buffer.bytes": "receive_buffer_bytes",
    "socket.send.buffer.bytes": "send_buffer_bytes",
}
_IN_CONTEXT = frozenset(
    {
        *("ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem"),
        *("ssl.key.location", "ssl.key.pem", "ssl.key.password", "ssl.crl.location"),
        *("ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification"),
    }
)
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


_TOKENS = "sasl_oauth_token_provider"


def sasl_arguments(properties: KafkaProperties) -> dict[str, Any]:
    """The arguments of those that are about SASL, of clients and of one exchange alike.

    Raises:
        KafkaPropertyError: The mechanism is another, or it needs one that is missing.
    """
    mechanism = properties.get("sasl.mechanism", "")
    if mechanism not in MECHANISMS:
        raise KafkaPropertyError("sasl.mechanism", f"expected one of {', '.join(MECHANISMS)}")
    arguments: dict[str, Any] = {
        argument: properties[name] for name, argument in _SASL.items() if name in properties
    }
    if mechanism == "OAUTHBEARER":
        return {**arguments, _TOKENS: ClientCredentials(properties)}
    for name in ("sasl.username", "sasl.password"):
        if name not in properties:
            raise KafkaPropertyError(name, f"{mechanism} needs it")
    return arguments


def kafka_python_arguments(properties: KafkaProperties) -> dict[str, Any]:
    """The arguments of a producer, a consumer or an admin client.

    Raises:
        KafkaPropertyError: One has no counterpart, or an unfit value.
    """
    arguments = sasl_arguments(properties) if uses_sasl(properties) else {}
    of_tokens = ClientCredentials.PROPERTIES if _TOKENS in arguments else frozenset()
    for name, value in properties.items():
        if name in _TEXTS:
            arguments[_TEXTS[name]] = value
        elif name in _NUMBERS:
            if not value.isascii() or not value.isdigit():
                raise KafkaPropertyError(name, "expected an integer")
            arguments[_NUMBERS[name]] = int(value)
        elif name not in _IN_CONTEXT and name not in _SASL and name not in of_tokens:
            raise KafkaPropertyError(
                name, "kafka-python knows nothing like it; set client to confluent-kafka"
            )
    if uses_tls(properties):
        arguments["ssl_context"] = tls_context(properties)
    return arguments
