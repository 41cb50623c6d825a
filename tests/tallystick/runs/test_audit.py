"""The audit under spark-submit: what is not for tallystick to decide is refused."""

from __future__ import annotations

import pytest


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
