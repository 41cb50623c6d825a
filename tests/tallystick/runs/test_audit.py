"""What the audit gives to Spark, and what it refuses under spark-submit."""

from __future__ import annotations

import pytest

from tallystick.runs.audit import Audit
from tallystick.settings import load


@pytest.mark.parametrize(
    ("url", "is_local"),
    [("", True), ("file:///cp/audit/", True), ("hdfs://nn:8020/audit", False)],
)
def test_a_url_of_checkpoints_reaches_the_job(tallystick, url, is_local):
    """Spark's way to write them depends on it; a slash at its end makes no other URL of it."""
    settings = load({"spark_checkpoint": url or None}).settings
    job, session = Audit(settings, available_now=True, history_ends=True)._job([])
    assert (url.rstrip("/") or None) == job.spark_checkpoint
    assert is_local == session.is_checkpoint_local


@pytest.fixture
def submitted(monkeypatch):
    """As spark-submit starts a process; nothing gets so far as to use it."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark_master", "local[2]"),
        ("spark_memory", "1g"),
        ("spark_properties", '{"spark.executor.memory": "1g"}'),
    ],
)
def test_a_setting_that_spark_submit_decides_is_refused(
    tallystick, submitted, monkeypatch, name, value
):
    """It would have no effect."""
    monkeypatch.setenv(f"TALLYSTICK_{name.upper()}", value)
    ran = tallystick("audit")
    assert (2, f"tallystick: {name}: spark-submit has decided it") == (
        ran.code,
        ran.err.partition(";")[0],
    )


def test_secrets_must_be_where_spark_submit_runs(tallystick, submitted, monkeypatch):
    """Its JVM runs already, so they cannot be handed to it."""
    for name, value in {
        "SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "SASL_MECHANISM": "PLAIN",
        "SASL_USERNAME": "user",
        "SASL_PASSWORD": "not to be seen",
    }.items():
        monkeypatch.setenv(f"TALLYSTICK_KAFKA_{name}", value)
    variable = "TALLYSTICK_SPARK_KAFKA_SASL_JAAS_CONFIG"
    ran = tallystick("audit")
    assert 2 == ran.code
    assert ran.err.startswith(f"tallystick: {variable} is not set: expected")
    monkeypatch.setenv(variable, "any")
    assert variable not in tallystick("audit").err
