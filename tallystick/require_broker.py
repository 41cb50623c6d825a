"""Whether a broker is where Kafka should be, and lets this client in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.kafka_clients.errors import BrokerUnreachableError
from tallystick.producers.kafka_clients.handshake import require_accepted

if TYPE_CHECKING:
    from tallystick.settings import Settings

TIMEOUT_S = 10.0


def require_broker(settings: Settings) -> None:
    """Return when one of the addresses has let this client in.

    Raises:
        BrokerUnreachableError: None answers.
        BrokerRefusesError: The first that does refuses this client.
        KafkaPropertyError: A property is none of the client's, or its file cannot be read.
    """
    properties = settings.kafka_properties
    # What the client itself refuses needs no broker.
    kafka_client(settings.client, properties)
    reason = "no address"
    for address in settings.bootstrap_servers.split(","):
        found = unreachable(address, properties)
        if found is None:
            return
        reason = found
    raise BrokerUnreachableError(settings.bootstrap_servers, reason)


def unreachable(address: str, properties: Mapping[str, str]) -> str | None:
    """Why a broker's address does not answer; None when it has let this client in.

    Raises:
        BrokerRefusesError: It refuses this client.
        KafkaPropertyError: A certificate or key cannot be read, or a token cannot be fetched.
    """
    host, _, port = address.rpartition(":")
    try:
        require_accepted(host.strip("[]"), int(port), properties, TIMEOUT_S)
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error) or type(error).__name__
    return None
