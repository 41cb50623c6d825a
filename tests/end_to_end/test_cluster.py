"""The job on Spark's standalone cluster: a master and two workers, one of which is killed."""

from __future__ import annotations

import json
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
from tests.support.spark_cluster import HOST, SparkCluster
from tests.support.started_commands import DEADLINE_S, wait_until

RECORDS = 4
"""Of a message: the history is more micro-batches than one."""


def others() -> Iterator[Block]:
    """Servers of other clusters, so that both workers have some."""
    source = simulate(Scenario(seed=5, topology="pair")).journals["source-a"]
    for number in range(4):
        whole = replace(source, instance_id=f"other-{number}", cluster=f"cluster-{number}")
        yield from cut_into_blocks(whole, 10 * RECORDS)


@pytest.mark.long
def test_a_worker_that_is_killed_changes_nothing(broker, commands, tmp_path):
    """Its tasks are run again by the other one, from the state that the first has written."""
    blocks = [*simulate(replace(scenario_of(2), fault="errant_write")).blocks(RECORDS), *others()]
    expected = audit_history(blocks)
    assert expected.findings
    topic = f"{commands.prefix}.journal"
    settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers, topic=topic)
    sink = kafka_client("confluent-kafka").open_sink(settings)
    for block in blocks:
        sink.send(block)
    sink.close()
    with SparkCluster(tmp_path / "cluster") as cluster:
        commands.set(
            spark_master=cluster.url,
            spark_partitions="2",
            spark_properties=json.dumps(
                {"spark.driver.host": HOST, "spark.executor.memory": "512m"}
            ),
        )
        audit = commands.start("audit", "--available-now", "--history-ends", "--json")
        home = Path(tmp_path, ".tallystick", "audit")
        commits = home / "checkpoint" / "auditor" / "commits"
        wait_until(lambda: (commits / "0").exists() or audit.poll() is not None, "a micro-batch")
        cluster.kill_worker(0)
        out, _ = audit.communicate(timeout=DEADLINE_S)
        assert 1 == cluster.live_workers()
    report = json.loads(out)
    assert "Lost executor" in (home / "spark.log").read_text("utf-8")
    assert (1, "INCONSISTENT") == (audit.returncode, report["verdict"])
    assert {one["finding_id"] for one in report["findings"]} == {
        one.finding_id for one in expected.findings
    }
