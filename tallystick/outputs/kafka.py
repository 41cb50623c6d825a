"""The findings of a result as messages of a Kafka topic, in the form of the streaming job's own.

The brokers are those of the settings. The job itself publishes findings as soon as they are found,
``audit`` and ``demo`` need no output for it.
"""

from __future__ import annotations

import json

from tallystick.coordinates.rules.explanation import finding_document
from tallystick.runs.result import RunResult

DEFAULT = "tallystick.findings"
"""The topic."""


def write(result: RunResult, target: str) -> None:
    """Publish the findings, the key of each its ``finding_id``.

    Raises:
        BrokerUnreachableError: No broker listens, or one was not acknowledged.
    """
    from tallystick.producers.kafka_clients.choice import kafka_client
    from tallystick.require_broker import require_broker
    from tallystick.settings import load

    settings = load().settings
    require_broker(settings.bootstrap_servers)
    client = kafka_client(settings.client)
    for finding in result.findings:
        value = json.dumps(finding_document(finding), separators=(",", ":")).encode()
        client.send(settings.bootstrap_servers, target, finding.finding_id.encode(), value)
