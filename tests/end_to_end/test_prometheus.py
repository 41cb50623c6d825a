"""A real Prometheus scrapes a real audit, on a real broker and Spark, with the shipped files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from tallystick.deploy.ports import free_base_port
from tests.support.started_commands import DEADLINE_S, wait_until

SHIPPED = Path(__file__).parents[2] / "deploy" / "prometheus"
HOST = "127.0.0.1"


def read(port: int, path: str) -> tuple[int, str]:
    """Status and text of a path; 0 while nobody listens."""
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def wait_until_answers(port: int, path: str, expected: tuple[int, str]) -> None:
    """Wait for an answer; where it does not come, show the last one."""
    last: list[tuple[int, str]] = []

    def answers() -> bool:
        last[:] = [read(port, path)]
        return last == [expected]

    try:
        wait_until(answers, path)
    except AssertionError as error:
        raise AssertionError(f"{path}: {last}, expected {expected}") from error


class Prometheus:
    """A running Prometheus, asked over its own API."""

    def __init__(self, commands, directory: Path, target: int) -> None:
        program = shutil.which("prometheus")
        if program is None:
            pytest.skip("there is no prometheus: apt-get install prometheus")
        shipped = (SHIPPED / "prometheus.yml").read_text("utf-8")
        config = shipped.replace(":9477", f":{target}").replace("15s", "1s")
        (directory / "prometheus.yml").write_text(
            f"global: {{evaluation_interval: 1s}}\n{config}", "utf-8"
        )
        shutil.copy(SHIPPED / "tallystick.rules.yml", directory)
        self._port = free_base_port(1)
        commands.run(
            program,
            f"--config.file={directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={directory / 'series'}",
            f"--web.listen-address={HOST}:{self._port}",
        )

    def _get(self, path: str) -> dict:
        status, text = read(self._port, f"/api/v1/{path}")
        return json.loads(text)["data"] if status == 200 else {}

    def query(self, query: str) -> list[dict[str, str]]:
        """The labels of what a query finds, with its ``value``."""
        found = self._get(f"query?query={urllib.parse.quote(query)}").get("result", ())
        return [{**one["metric"], "value": one["value"][1]} for one in found]

    def alerts(self) -> set[tuple[str, str]]:
        """Alerts that fire or will, with the instance that each is about."""
        return {
            (one["labels"]["alertname"], one["labels"].get("instance", ""))
            for one in self._get("alerts").get("alerts", ())
        }


def test_prometheus_sees_what_the_audit_sees(commands, tmp_path):
    """Probes, incidents, verdicts and silence, each as it comes; the report agrees at the end."""
    port = free_base_port(1)
    prometheus = Prometheus(commands, tmp_path, port)
    audit = commands.start(
        "audit", "--json", "--metrics-port", str(port), "--collect-interval-s", "2"
    )
    wait_until_answers(port, "/readyz", (503, "no collection has been closed since the start\n"))
    assert (200, "ok\n") == read(port, "/healthz")
    fault = ("--topology", "pair", "--seed", "4", "--fault", "errant_write")
    fleet = commands.start("simulate", *fault)
    wait_until_answers(port, "/readyz", (200, "ok\n"))

    now = 'tallystick_verdict_now{verdict="INCONSISTENT"} == 1'
    wait_until(lambda: prometheus.query(now), "an incident")
    opened = prometheus.query('tallystick_open_incidents{rule="no_errant_gtids"}')
    assert opened
    assert all(one["instance"].startswith(("source-", "replica-")) for one in opened)
    alert = "TallystickInconsistent", f"{HOST}:{port}"
    wait_until(lambda: alert in prometheus.alerts(), "an alert of it")
    answered = prometheus.query("time() - tallystick_last_answer_timestamp_seconds")
    assert {"source-a", "replica-a1"} == {one["instance"] for one in answered}
    assert all(-1 < float(one["value"]) < DEADLINE_S for one in answered)
    for expected in (
        'tallystick_collections_total{outcome="complete"} > 0',
        "tallystick_records_total > 0",
        "tallystick_journal_bytes_total > 0",
        "tallystick_state_memory_bytes > 0",
        "tallystick_fleet_state_bytes > 0",
        "sum(tallystick_detection_latency_seconds_count) > 0",
        "tallystick_micro_batch_duration_seconds_count > 0",
        'tallystick_lag_blocks{partition="0"} >= 0',
        "tallystick_build_info == 1",
        "process_resident_memory_bytes > 0",
    ):
        wait_until(lambda query=expected: prometheus.query(query), expected)

    os.killpg(fleet.pid, signal.SIGKILL)
    wait_until(
        lambda: (
            prometheus.alerts()
            >= {("TallystickInstanceSilent", n) for n in ("source-a", "replica-a1")}
        ),
        "alerts of who is silent",
    )
    wait_until(lambda: "nobody has answered" in read(port, "/readyz")[1], "an unready audit")
    assert 200 == read(port, "/healthz")[0]
    [period] = prometheus.query("tallystick_verdict_period == 1")
    audit.send_signal(signal.SIGTERM)
    out, _ = audit.communicate(timeout=DEADLINE_S)
    assert json.loads(out)["verdict"] == period["verdict"] == "INCONSISTENT"
