"""Alerts of a real audit, with Kafka and Spark, killed with -9 while an alert is under way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path

import pytest
from receivers import Receiver, wait_for

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.spark


def test_each_incident_of_an_audit_is_alerted_once(broker, tallystick, tmp_path, monkeypatch):
    """The log has each line once; the webhook gets what was under way again, with its id."""
    monkeypatch.setenv("TALLYSTICK_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    monkeypatch.setenv("TALLYSTICK_TOPIC_PREFIX", f"t{uuid.uuid4().hex[:8]}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    fault = ("--topology", "pair", "--seed", "4", "--fault", "errant_write")
    assert 0 == tallystick("simulate", *fault, "--output", "j").code
    assert 0 == tallystick("journal", "--write", "j").code
    with Receiver() as receiver:
        receiver.answers.clear()
        command = [
            *(sys.executable, "-m", "tallystick.cli", "audit", "--available-now"),
            *("--alert", f"webhook={receiver.url}", "--alert", "log=alerts.log"),
        ]
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        ) as job:
            wait_for(lambda: receiver.got or job.poll() is not None, "no POST", deadline_s=240)
            assert job.poll() is None, job.stderr.read()
            os.killpg(job.pid, signal.SIGKILL)
        receiver.answers.set()
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
        assert 1 == ended.returncode, ended.stderr
    lines = Path("alerts.log").read_text("utf-8").splitlines()
    ids = [line.rpartition("alert ")[2].rstrip(")") for line in lines]
    assert lines
    assert len(ids) == len(set(ids))
    opened = Counter(line.partition("(incident ")[2][:24] for line in lines if " opened " in line)
    assert set(opened.values()) == {1}
    assert any(" no_errant_gtids " in line for line in lines)
    by_id = Counter(headers["webhook-id"] for headers, _ in receiver.got)
    assert set(ids) == set(by_id)
    again = {h["webhook-id"] for h, _ in receiver.got if h["Tallystick-Attempt"] != "1"}
    assert {name for name, count in by_id.items() if count > 1} <= again
    listed = tallystick("alerts", "list")
    assert 0 == listed.code
    assert "waits" not in listed.out
    assert len(listed.out.splitlines()) == 1 + 2 * len(ids)
