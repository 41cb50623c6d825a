"""Commands beside a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics
from tests.support.started_commands import Commands


@pytest.fixture
def commands(broker, tmp_path) -> Iterator[Commands]:
    """Starts commands with topics of their own."""
    made = Commands(tmp_path, broker.bootstrap_servers)
    ensure_topics(broker.bootstrap_servers, tallystick_topics(2, prefix=made.prefix))
    yield made
    made.kill_all()
