"""The findings of a result as messages of a Kafka topic, in the form of the streaming job's own.

The brokers are those of the settings. The job itself publishes findings as soon as they are found,
``audit`` and ``demo`` need no output for it.
"""

from __future__ import annotations

from tallystick.coordinates.rules.topic_messages import Origin, finding_message
from tallystick.runs.result import RunResult

DEFAULT = "tallystick.findings"
"""The topic."""


def write(result: RunResult, target: str) -> None:
    """Publish the findings, the key of each its ``finding_id``.

    Raises:
        BrokerUnreachableError: No broker listens, or one was not acknowledged.
        TopicError: The topic does not exist.
    """
    from tallystick.journal_topic import client_of, require_topic
    from tallystick.settings import load

    settings = load().settings
    require_topic(settings, target)
    client = client_of(settings)
    ended_us = int(result.ended_at.timestamp() * 1_000_000)
    origin = Origin(settings.topic_prefix, ended_us, settings.page_url)
    for finding in result.findings:
        key, value, headers = finding_message(finding, origin)
        client.send(settings.bootstrap_servers, target, key, value, headers)
