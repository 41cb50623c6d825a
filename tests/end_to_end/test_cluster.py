"""The job on executors of their own, one of which is killed: a cluster's, and one machine's."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.journal import Block, cut_into_blocks
from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.publisher import KafkaSettings
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.streaming.session import AUTH_SECRET
from tests.support.spark_cluster import HOST, SparkCluster
from tests.support.started_commands import DEADLINE_S, Commands, wait_until

RECORDS = 4
"""Of a message: the history is more micro-batches than one."""


def others() -> Iterator[Block]:
    """Servers of other clusters, so that both workers have some."""
    source = simulate(Scenario(seed=5, topology="pair")).journals["source-a"]
    for number in range(4):
        whole = replace(source, instance_id=f"other-{number}", cluster=f"cluster-{number}")
        yield from cut_into_blocks(whole, 10 * RECORDS)


@pytest.fixture
def findings(broker, commands) -> set[str]:
    """What is to be found in the journal that the topic has, by id."""
    blocks = [*simulate(replace(scenario_of(2), fault="errant_write")).blocks(RECORDS), *others()]
    expected = audit_history(blocks)
    assert expected.findings
    topic = f"{commands.prefix}.journal"
    settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers, topic=topic)
    sink = kafka_client("confluent-kafka").open_sink(settings)
    for block in blocks:
        sink.send(block)
    sink.close()
    return {one.finding_id for one in expected.findings}


def begun(commands: Commands, directory: Path) -> subprocess.Popen[str]:
    """An audit of all that is there, in its second micro-batch."""
    audit = commands.start("audit", "--available-now", "--history-ends", "--json")
    commits = directory / "checkpoint" / "auditor" / "commits"
    wait_until(lambda: (commits / "0").exists() or audit.poll() is not None, "a micro-batch")
    return audit


def assert_found(audit: subprocess.Popen[str], findings: set[str]) -> None:
    """It ends, and has found these."""
    out, _ = audit.communicate(timeout=DEADLINE_S)
    report = json.loads(out)
    assert (1, "INCONSISTENT") == (audit.returncode, report["verdict"])
    assert {one["finding_id"] for one in report["findings"]} == findings


@pytest.fixture
def shared() -> Iterator[dict[str, str]]:
    """The secret that Spark's processes share, as their variables and those of the commands."""
    daemons = {"SPARK_DAEMON_JAVA_OPTS": "-Dspark.authenticate=true"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(AUTH_SECRET, "open sesame")
        yield {AUTH_SECRET: "open sesame", **daemons}


@pytest.mark.long
def test_a_worker_that_is_killed_changes_nothing(shared, commands, findings, tmp_path):
    """Its tasks are run again by the other one, from the state that the first has written."""
    directory = tmp_path / ".tallystick" / "audit"
    with SparkCluster(tmp_path / "cluster", environment=shared) as cluster:
        commands.set(
            spark_master=cluster.url,
            spark_partitions="2",
            spark_properties=json.dumps(
                {
                    "spark.driver.host": HOST,
                    "spark.executor.memory": "512m",
                    "spark.authenticate": "true",
                }
            ),
        )
        audit = begun(commands, directory)
        cluster.kill_worker(0)
        assert_found(audit, findings)
        assert 1 == cluster.live_workers()
    assert "Lost executor" in (directory / "spark.log").read_text("utf-8")


def test_executors_of_one_machine_find_the_same(commands, findings, tmp_path):
    """Each has a part, and one that is killed is replaced; none is left at the end."""
    directory = tmp_path / ".tallystick" / "audit"
    commands.set(spark_master="local-cluster[2,1,512]", spark_partitions="2")
    audit = begun(commands, directory)
    first = executors_of(directory)
    assert 2 == len(first)
    variables = Path("/proc", str(first[0]), "environ").read_bytes().split(b"\0")
    assert 1 == sum(one.startswith(AUTH_SECRET.encode() + b"=") for one in variables)
    written = [*(directory / "executors").rglob("std*")]
    assert len(written) >= 4
    assert not any(path.parent.stat().st_mode & 0o077 for path in written)
    os.kill(first[0], signal.SIGKILL)
    assert_found(audit, findings)
    assert "Lost executor" in (directory / "spark.log").read_text("utf-8")
    assert not executors_of(directory)


def executors_of(directory: Path) -> list[int]:
    """Processes of the executors whose work is in a directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_executor = b"\0--executor-id\0" in (entry / "cmdline").read_bytes()
            if is_executor and (entry / "cwd").readlink().is_relative_to(directory):
                found.append(int(entry.name))
    return found
