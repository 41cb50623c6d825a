"""The job with Spark's checkpoints in a real HDFS: killed, started again, and fenced."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace

import pytest

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.journal import Block
from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.publisher import KafkaSettings
from tallystick.producers.simulator.assemble import simulate
from tests.support.mini_hdfs import MiniHdfs
from tests.support.spark_cluster import HOST, SparkCluster
from tests.support.started_commands import DEADLINE_S, wait_until

RECORDS = 4
"""Of a message: the history is more micro-batches than one."""


def send(settings: KafkaSettings, blocks: list[Block]) -> None:
    sink = kafka_client("confluent-kafka").open_sink(settings)
    for block in blocks:
        sink.send(block)
    sink.close()


@pytest.mark.long
def test_the_audit_goes_on_from_hdfs(broker, commands, tmp_path):
    """The directory has the driver's own files alone; whoever comes from another one is refused."""
    blocks = [*simulate(replace(scenario_of(2), fault="errant_write")).blocks(RECORDS)]
    expected = audit_history(blocks)
    assert expected.findings
    settings = KafkaSettings(
        bootstrap_servers=broker.bootstrap_servers, topic=f"{commands.prefix}.journal"
    )
    half = len(blocks) // 2
    send(settings, blocks[:half])
    home = tmp_path / ".tallystick" / "audit" / "checkpoint"
    with MiniHdfs(tmp_path / "hdfs") as hdfs, SparkCluster(tmp_path / "cluster", 1) as cluster:
        commands.set(
            spark_checkpoint=f"{hdfs.url}/tallystick/audit",
            spark_master=cluster.url,
            spark_properties=json.dumps(
                {"spark.driver.host": HOST, "spark.executor.memory": "512m"}
            ),
        )
        first = commands.start("audit")
        wait_until(
            lambda: [*home.glob("fleet/*.state")] or first.poll() is not None, "a micro-batch"
        )
        second = commands.start("audit", "--directory", "other")
        second.communicate(timeout=DEADLINE_S)
        assert 2 == second.returncode
        said = (tmp_path / "errors.1").read_text("utf-8")
        assert "fence.json' names another audit" in said
        assert repr(str(home)) in said
        assert first.poll() is None
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        send(settings, blocks[half:])
        again = commands.start("audit", "--available-now", "--history-ends", "--json")
        out, _ = again.communicate(timeout=DEADLINE_S)
    report = json.loads(out)
    assert (1, "INCONSISTENT") == (again.returncode, report["verdict"])
    assert {one["finding_id"] for one in report["findings"]} == {
        one.finding_id for one in expected.findings
    }
    assert not [*home.glob("auditor")]
