"""Which of the two clients is used: the one named, else the faster one that is installed."""

from __future__ import annotations

from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from tallystick.coordinates.values.errors import MissingExtraError

if TYPE_CHECKING:
    from tallystick.producers.kafka_clients.properties import KafkaProperties
    from tallystick.producers.kafka_clients.protocol import KafkaClient

ClientName = Literal["confluent-kafka", "kafka-python"]
CONFLUENT: Final = "confluent-kafka"
KAFKA_PYTHON: Final = "kafka-python"
CLIENTS = (CONFLUENT, KAFKA_PYTHON)


def default_client() -> ClientName:
    """``confluent-kafka`` where it is installed, else ``kafka-python``, which always is."""
    return KAFKA_PYTHON if find_spec("confluent_kafka") is None else CONFLUENT


def kafka_client(
    name: str | None = None, properties: KafkaProperties = MappingProxyType({})
) -> KafkaClient:
    """A client that speaks to brokers by some properties.

    Args:
        name: The library's name; None: the default one.
        properties: Of security and connections; without any, in the clear and as nobody.

    Raises:
        MissingExtraError: It is confluent-kafka, which is not installed.
        KafkaPropertyError: The client has nothing like one of the properties.
    """
    name = name or default_client()
    if name == CONFLUENT:
        try:
            from tallystick.producers.kafka_clients.confluent import ConfluentClient
        except ModuleNotFoundError:
            raise MissingExtraError("the setting client names confluent-kafka", "stream") from None
        return ConfluentClient(properties)
    if name == KAFKA_PYTHON:
        from tallystick.producers.kafka_clients.kafka_python import KafkaPythonClient

        return KafkaPythonClient(properties)
    raise ValueError(f"expected one of {', '.join(CLIENTS)}, got {name!r}")
