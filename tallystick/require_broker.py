"""Whether a broker is where Kafka should be; the clients would take long to report an error."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from tallystick.producers.kafka_clients.errors import BrokerUnreachableError
from tallystick.producers.kafka_clients.properties import uses_tls
from tallystick.producers.kafka_clients.tls import require_tls, tls_context

if TYPE_CHECKING:
    from tallystick.settings import Settings

TIMEOUT_S = 3.0


def require_broker(settings: Settings) -> None:
    """Return when one of the addresses takes a connection, and answers over TLS where that is set.

    Raises:
        BrokerUnreachableError: None does.
        BrokerRefusesError: The first that does fails in TLS.
        KafkaPropertyError: A certificate or key cannot be read.
    """
    properties = settings.kafka_properties
    context = tls_context(properties) if uses_tls(properties) else None
    reason = "no address"
    for address in settings.bootstrap_servers.split(","):
        host, _, port = address.rpartition(":")
        try:
            if context is None:
                socket.create_connection((host, int(port)), timeout=TIMEOUT_S).close()
            else:
                require_tls(host, int(port), context, TIMEOUT_S)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
        else:
            return
    raise BrokerUnreachableError(settings.bootstrap_servers, reason)
