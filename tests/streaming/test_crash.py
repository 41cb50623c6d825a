"""Jobs in processes of their own: killed, restarted, asked to stop, refused."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import final

import pytest
from streaming_journals import history, make_topics, produce, read_topic

from tallystick.coordinates.audit.incidents import incidents_of_history
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.deploy.jars import spark_kafka_jars
from tallystick.streaming import delta_table, table_reader, tables

# Each of these starts a Spark of its own, whatever fixtures it asks for.
pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("streaming_driver.py")
DEADLINE_S = 300
INSTANCES = ("a", "b")
# Micro-batches in which the driver is killed: the first, which has no state yet, and later ones.
KILLED_AFTER = (1, 3)


@final
class Job:
    """One job process; killed with its JVM when the test ends."""

    def __init__(self, directory: Path, **settings) -> None:
        self.directory = directory
        self.log_file = directory / "spark.log"
        given = {
            "jars": [str(jar) for jar in spark_kafka_jars()],
            "log_file": str(self.log_file),
            "checkpoint": str(directory / "checkpoint"),
            "output": str(directory / "out"),
            **settings,
        }
        self.process = subprocess.Popen(
            [sys.executable, str(DRIVER), json.dumps(given)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_) -> None:
        self.kill_all()
        self.process.communicate()

    def kill_all(self) -> None:
        """The driver and its JVM, as when a machine goes down."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def wait_for_the_end_of_all(self) -> None:
        """The JVM and its Python workers end with the driver, none later than a moment after."""
        deadline = time.monotonic() + 10
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.killpg(self.process.pid, 0)
                assert time.monotonic() < deadline, "a process of the job is still there"
                time.sleep(0.05)

    def jvm(self) -> int:
        """The process of its JVM: its only child."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        [child] = map(int, children.read_text().split())
        return child

    def wait_for(self, batches: int) -> None:
        """Read what the job says until it has done so many micro-batches."""
        self.wait_until(lambda metrics: metrics["micro_batches"] >= batches)

    def wait_until(self, condition: Callable[[dict[str, float]], object]) -> None:
        """Read what the job says until something holds."""
        deadline = time.monotonic() + DEADLINE_S
        line = ""
        while time.monotonic() < deadline:
            line = self.process.stdout.readline() or line
            if line and condition(json.loads(line)):
                return
            if self.process.poll() is not None:
                break
        pytest.fail(f"waited in vain: {line!r} {self.process.stderr.read()!r}")


@pytest.mark.long
def test_killed_and_restarted_nothing_is_lost_and_nothing_is_said_twice(broker, tmp_path):
    """Killed in the middle of micro-batches; the last restart ends with all that the core finds."""
    servers = broker.bootstrap_servers
    topics = make_topics(servers)
    blocks = [history(name, 40, broken=frozenset(range(0, 40, 3))) for name in INSTANCES]
    outputs = [InstanceAudit(block.instance_id).absorb(block) for block in blocks]
    expected = sorted(
        (finding for output in outputs for finding in output.findings),
        key=lambda finding: finding.order,
    )
    incidents = incidents_of_history(
        expected, [cut for output in outputs for cut in output.cuts], (), ()
    )
    produce(servers, topics["journal_topic"], blocks, 40)
    settings = {
        "bootstrap_servers": servers,
        "instances": INSTANCES,
        "available_now": True,
        "max_messages": 10,
        **topics,
    }
    for after in KILLED_AFTER:
        with Job(tmp_path, **settings) as job:
            job.wait_for(after)
            # The next micro-batch is under way: Spark commits this one and goes on at once.
            job.kill_all()
    partly = table_reader.read_findings(tmp_path / "out")
    assert 0 < len(partly) < len(expected)
    with Job(tmp_path, **settings) as job:
        _, errors = job.process.communicate(timeout=DEADLINE_S)
        assert (0, "") == (job.process.returncode, errors)
    assert expected == table_reader.read_findings(tmp_path / "out")
    assert incidents == table_reader.read_incidents(tmp_path / "out")
    sent = [json.loads(m.value()) for m in read_topic(servers, topics["incidents_topic"])]
    kinds = Counter(
        (change["kind"], change["incident"]["incident_id"])
        for change in {change["change_id"]: change for change in sent}.values()
    )
    for one in incidents:
        assert kinds["opened", one.incident_id] == 1
        assert kinds["resolved", one.incident_id] == (not one.is_open)
    rows = delta_table.read(tmp_path / "out", tables.FINDINGS)
    assert len(expected) == len(rows), "a finding is in two micro-batches"
    sent = read_topic(servers, topics["findings_topic"])
    assert {f.finding_id for f in expected} == {message.key().decode() for message in sent}
    assert [f"c-{n:03d}" for n in range(40)] == [
        row["collection_id"] for row in table_reader.read_validations(tmp_path / "out")
    ]
    assert not [
        o
        for o in table_reader.observations_of(table_reader.read_observations(tmp_path / "out"))
        if "JOURNAL" in o.code
    ]


def drain(job: Job, number: int) -> None:
    """A signal ends the job with 0: nothing on standard error, no JVM left behind."""
    job.process.send_signal(number)
    _, errors = job.process.communicate(timeout=DEADLINE_S)
    assert (0, "") == (job.process.returncode, errors)
    with pytest.raises(ProcessLookupError):
        os.killpg(job.process.pid, 0)


def test_a_signal_drains_and_a_jvm_that_is_stopped_ends_the_job_with_one_sentence(broker, tmp_path):
    """No stack trace, no process left; each time the next job goes on with what was kept."""
    servers = broker.bootstrap_servers
    topics = make_topics(servers)
    blocks = [history(name, 4, broken=frozenset({1})) for name in INSTANCES]
    produce(servers, topics["journal_topic"], blocks, 100)
    settings = {"bootstrap_servers": servers, "collect_interval_s": 1.0, **topics}
    with Job(tmp_path, **settings) as job:
        job.wait_for(1)
        drain(job, signal.SIGTERM)
    kept = table_reader.read_findings(tmp_path / "out")
    assert kept
    with Job(tmp_path, **settings) as job:
        job.wait_for(1)
        os.kill(job.jvm(), signal.SIGKILL)
        _, errors = job.process.communicate(timeout=DEADLINE_S)
    assert job.process.returncode == 2
    said = "Spark's JVM was killed by signal 9, as the kernel does when no memory is left. "
    assert f"{said}What was read is kept; start the job again.\n" == errors
    with Job(tmp_path, **settings) as job:
        job.wait_for(1)
        os.kill(job.jvm(), signal.SIGTERM)
        _, errors = job.process.communicate(timeout=DEADLINE_S)
    assert job.process.returncode == 2
    assert re.match(r"Spark's JVM (was stopped|ended with status 143)\b", errors), errors
    assert errors.endswith(" What was read is kept; start the job again.\n")
    assert 1 == errors.count("\n")
    more = [history("c", 4, broken=frozenset({1}))]
    produce(servers, topics["journal_topic"], more, 100)
    with Job(tmp_path, **settings) as job:
        job.wait_until(lambda metrics: metrics["findings"])
        drain(job, signal.SIGINT)
    found = table_reader.read_findings(tmp_path / "out")
    assert len(found) == len(INSTANCES) + len(more)
    assert {one.finding_id for one in kept} < {one.finding_id for one in found}


def test_a_broker_that_does_not_answer_is_waited_for(tmp_path):
    """The job goes on asking until it is stopped; the stack trace is in the log file."""
    with Job(tmp_path, bootstrap_servers="127.0.0.1:9") as job:
        job.wait_until(lambda metrics: metrics["outages"])
        job.process.send_signal(signal.SIGTERM)
        _, errors = job.process.communicate(timeout=DEADLINE_S)
    assert (0, "") == (job.process.returncode, errors)
    assert "TimeoutException" in job.log_file.read_text()
