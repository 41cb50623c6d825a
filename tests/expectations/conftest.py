"""Fixtures of the expectations: one Spark session for all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# Builders beside the tests; with importlib mode pytest puts no folder on the path.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """The session that runs already in this process, or a new one for these tests."""
    from pyspark.sql import SparkSession

    from streaming.session import SessionSettings, start_session

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    started = start_session(SessionSettings(jars=(), log_file=log, shuffle_partitions=2))
    yield started
    started.stop()
