"""Whether anybody listens where Kafka should be; its clients would take long to report an error."""

from __future__ import annotations

import socket

from tallystick.producers.kafka_clients.errors import BrokerUnreachableError

TIMEOUT_S = 3.0


def require_broker(bootstrap_servers: str) -> None:
    """Return when one of the addresses takes a connection.

    Raises:
        BrokerUnreachableError: None does.
    """
    reason = "no address"
    for address in bootstrap_servers.split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=TIMEOUT_S):
                return
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
    raise BrokerUnreachableError(bootstrap_servers, reason)
