"""The job by spark-submit: the wheel shipped to the workers, and Kafka's secrets not by Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.replay import audit_history
from tallystick.deploy.jars import spark_kafka_jars
from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.publisher import KafkaSettings
from tallystick.producers.simulator.assemble import simulate
from tallystick.streaming.kafka_options import kafka_options
from tests.support.secured_brokers import running_secured_broker
from tests.support.spark_cluster import HOST, SparkCluster
from tests.support.started_commands import DEADLINE_S

ROOT = Path(__file__).parents[2]


@pytest.fixture
def environment(tmp_path):
    """An environment with the wheel of this checkout; its other packages are the running one's."""
    pytest.importorskip("hatchling", reason="set-up by make installs it")
    pytest.importorskip("pip", reason="set-up by make installs it")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    made = tmp_path / "environment"
    venv.create(made)
    into = [sys.executable, "-m", "pip", "--python", str(made / "bin" / "python"), "install"]
    subprocess.run(
        [*into, "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel)],
        check=True,
        capture_output=True,
    )
    (packages,) = made.glob("lib/python*/site-packages")
    beside = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "beside.pth").write_text("".join(f"{path}\n" for path in beside))
    return made


@pytest.fixture
def secured_broker(tmp_path_factory):
    """Nobody is let in without a certificate, a user and a password."""
    with running_secured_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.mark.long
def test_workers_run_the_wheel_that_spark_submit_ships(environment, secured_broker, tmp_path):
    """They have neither the checkout nor its environment, and Kafka lets in who has the secrets."""
    archive = tmp_path / "environment.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        packed.add(environment, ".")
    blocks = [*simulate(replace(scenario_of(2), fault="errant_write")).blocks(64)]
    expected = audit_history(blocks)
    assert expected.findings
    topic = f"{secured_broker.prefix}.journal"
    servers = secured_broker.local.bootstrap_servers
    client = kafka_client("confluent-kafka", secured_broker.admin)
    sink = client.open_sink(KafkaSettings(bootstrap_servers=servers, topic=topic))
    for block in blocks:
        sink.send(block)
    sink.close()
    secrets = dict(kafka_options(secured_broker.admin).environment)
    assert secrets
    # What runs these tests may tell Python where packages are, and to keep no compiled files.
    unset = dict.fromkeys(["PYTHONPATH", "PYTHONDONTWRITEBYTECODE"], "")
    with SparkCluster(tmp_path / "cluster", environment=secrets | unset) as cluster:
        properties = {
            "spark.pyspark.python": "./environment/bin/python",
            "spark.pyspark.driver.python": str(environment / "bin" / "python"),
            "spark.driver.host": HOST,
            "spark.executor.memory": "512m",
        }
        (driver,) = environment.glob("lib/python*/site-packages/tallystick")
        home = Path(pyspark.__file__).parent
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TALLYSTICK_", "PYTHON")) or name == "TALLYSTICK_HOME"
        }
        submitted = subprocess.run(
            [
                *(str(home / "bin" / "spark-submit"), "--master", cluster.url),
                *("--archives", f"{archive}#environment"),
                *("--jars", ",".join(map(str, spark_kafka_jars()))),
                *(f"--conf={name}={value}" for name, value in properties.items()),
                *(str(driver / "spark_submit.py"), "audit", "--available-now"),
                *("--history-ends", "--output", "json=result.json"),
            ],
            cwd=tmp_path,
            env=kept
            | secrets
            | secured_broker.variables(secured_broker.admin)
            | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST, "LC_ALL": "C.UTF-8"}
            | {"TALLYSTICK_SPARK_PARTITIONS": "2"},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        ran = [
            found
            for number in range(2)
            for found in cluster.home_of_worker(number).glob(
                "*/*/environment/lib/python*/site-packages/tallystick/streaming/__pycache__/"
                "auditor.*.pyc"
            )
        ]
    assert 1 == submitted.returncode, submitted.stdout + submitted.stderr[-4000:]
    report = json.loads((tmp_path / "result.json").read_text("utf-8"))
    assert "INCONSISTENT" == report["verdict"]
    assert {one["finding_id"] for one in report["findings"]} == {
        one.finding_id for one in expected.findings
    }
    # Python compiled what it imported: of an executor, from what was shipped to it.
    assert ran
    assert not any(secret in submitted.stdout + submitted.stderr for secret in secrets.values())
