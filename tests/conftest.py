"""Fixtures of all tests, and the marks that follow from the fixtures a test asks for."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from py4j.protocol import Py4JError

from tallystick.coordinates.audit import culprits, instance
from tallystick.deploy.broker import LocalBroker
from tallystick.deploy.class_archives import SPARK, with_archive
from tallystick.deploy.jars import spark_kafka_jars
from tallystick.servers.lab import Lab
from tests.support.labs import running_lab

# What is imported and collected stays to the end: looking through it for garbage again and again
# was a quarter of the collection's time.
gc.disable()

# How long an example takes says something about the machine: tests share its processors.
settings.register_profile("tallystick", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tallystick")

MARKS_OF_FIXTURES = {
    "spark": "spark",
    "broker": "broker",
    "mysqld": "mysqld",
    "own_mysqld": "mysqld",
    "mariadb": "mysqld",
    "secured_broker": "broker",
}


@functools.cache
def _text(module: Path) -> str:
    return module.read_text("utf-8")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test by the costly fixtures that it uses, directly or through others."""
    for item in items:
        for fixture, mark in MARKS_OF_FIXTURES.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(mark)
                if mark not in _text(item.path):
                    raise pytest.UsageError(
                        f"{item.path} does not contain {mark!r}, by which the Makefile finds the "
                        f"modules of a stage, and uses {fixture}: name it there"
                    )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Garbage is looked for from now on, and not among tests and modules."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)  # a simulated history has that many objects, and ends with its test
    gc.enable()


@pytest.fixture(autouse=True)
def mistakes_are_raised(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the audit raises itself fails the test, where a user has it as an observation."""
    if "mistakes_are_contained" in request.fixturenames:
        return

    def raise_again(error: Exception) -> str:
        raise error

    for module in (culprits, instance):
        monkeypatch.setattr(module, "failure_text", raise_again)


@pytest.fixture
def mistakes_are_contained() -> None:
    """This test is about what the audit raises."""


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A real broker for the whole run; tests make topics of their own in it."""
    directory: Path = tmp_path_factory.mktemp("broker")
    with LocalBroker(directory, port=0) as started:
        yield started


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """The run's Spark session, with the job's own settings: a process has one of one kind."""
    from tallystick.streaming.session import SessionSettings, jvm_end, start_session, stop_session

    log_file = tmp_path_factory.mktemp("spark") / "spark.log"
    session = start_session(
        SessionSettings(
            jars=spark_kafka_jars(),
            log_file=log_file,
            shuffle_partitions=2,
            java_options=with_archive(SPARK),
        )
    )
    yield session
    # Whoever stops it makes all tests after that fail by what says nothing about them.
    is_stopped = session.sparkContext._jsc is None or not is_running(session)
    end = jvm_end() if is_stopped else None
    stop_session(session)
    assert not is_stopped, f"Spark was stopped: {end}\n{log_file.read_text('utf-8')[-8_000:]}"


def is_running(session) -> bool:
    """Whether its JVM answers and its context was not stopped there."""
    try:
        return not session.sparkContext._jsc.sc().isStopped()
    except (Py4JError, OSError):
        return False


@pytest.fixture(scope="session")
def mysqld(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The lab's five real MySQL servers, for the whole run; tests leave replication whole."""
    with running_lab(tmp_path_factory.mktemp("lab") / "lab") as lab:
        yield lab


@pytest.fixture(scope="module")
def own_mysqld(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab of a module's own: its servers have no past, and nobody uses what is left of them."""
    with running_lab(tmp_path_factory.mktemp("breakable") / "lab") as lab:
        yield lab
