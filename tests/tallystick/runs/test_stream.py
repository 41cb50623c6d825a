"""The streaming job in its thread: stopped while Spark is starting, and ended by an error."""

from __future__ import annotations

import threading

import pytest

from tallystick import terminal
from tallystick.coordinates.values.errors import AuditError
from tallystick.runs.stream import StreamRun

DEADLINE_S = 60.0


def run(directory, settings, stop: threading.Event) -> bool:
    with terminal.progress("starting") as progress:
        stream = StreamRun(
            "audit", directory, title="t", progress=progress, validated=lambda *_: ""
        )
        return stream.run(settings, stop=stop, started="it runs", watch=lambda _: False)


def test_a_stop_while_spark_is_starting_takes_effect_at_once(tmp_path):
    """Whatever the start takes: nobody waits for it, and there is no result."""
    stop, is_over = threading.Event(), threading.Event()

    def starting():
        stop.set()
        is_over.wait(DEADLINE_S)
        raise AuditError("the test is over")

    assert run(tmp_path, starting, stop) is False
    is_over.set()


def test_what_ends_the_job_ends_the_run(tmp_path):
    """An error of the job's thread is raised where the run was asked for."""

    def failing():
        raise AuditError("no Spark here")

    with pytest.raises(AuditError, match="no Spark here"):
        run(tmp_path, failing, threading.Event())
