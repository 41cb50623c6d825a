"""What is shipped for Prometheus and Grafana: it names metrics that exist, and its alerts fire."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tallystick.runs.metric_families import ALERT_FAMILIES, FAMILIES
from tests.support.catalogue_pages import MARK
from tests.support.monitoring_pages import DASHBOARD, dashboard, metrics_table

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "tallystick.rules.yml"
CONFIG = RULES.with_name("prometheus.yml")
CASES = Path(__file__).with_name("prometheus_rules.yml")
EXIST = {one.shown for one in (*FAMILIES, *ALERT_FAMILIES)}


def named(text: str) -> set[str]:
    """The metrics that a text names, those of histograms without what their samples add."""
    found = set(re.findall(r"\btallystick_[a-z_]+", text))
    histograms = {one.shown for one in FAMILIES if one.kind == "histogram"}
    return {
        name.rpartition("_")[0] if name.rpartition("_")[0] in histograms else name for name in found
    }


def expressions() -> list[str]:
    panels = json.loads(dashboard())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def alerts(text: str) -> list[str]:
    return re.findall(r"alert(?:name)?: (\w+)", text)


def promtool(*arguments: str, cwd: Path = ROOT) -> str:
    """Run Prometheus's own tool on what is shipped."""
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("there is no promtool: apt-get install prometheus")
    ran = subprocess.run(
        [tool, *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=120
    )
    assert 0 == ran.returncode, ran.stdout + ran.stderr
    return ran.stdout


def test_rules_and_dashboard_name_metrics_that_exist():
    """A metric that is renamed is renamed there too."""
    assert named(RULES.read_text("utf-8")) <= EXIST
    shown = named(" ".join(expressions()))
    assert shown <= EXIST
    assert len(shown) > len(EXIST) / 2


def test_the_dashboard_is_the_generated_one():
    """``python -m tests.support.catalogue_pages`` writes it."""
    assert dashboard() == DASHBOARD.read_text("utf-8")


def test_every_metric_is_documented():
    """The page has each with its kind and labels, and names none that does not exist."""
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    assert metrics_table() == page.partition(MARK)[2]
    assert named(page) <= EXIST
    assert all(name in page for name in alerts(RULES.read_text("utf-8")))


def test_prometheus_takes_the_shipped_files():
    """Rules and configuration, as promtool checks them."""
    assert f"{len(alerts(RULES.read_text('utf-8')))} rules found" in promtool(
        "check", "config", str(CONFIG)
    )


def test_each_alert_fires_where_it_must_and_not_before(tmp_path):
    """Promtool plays series to the rules; each alert has a time at which it fires, and one not."""
    for path in (RULES, CASES):
        shutil.copy(path, tmp_path)
    assert "SUCCESS" in promtool("test", "rules", CASES.name, cwd=tmp_path)
    played = CASES.read_text("utf-8")
    assert set(alerts(RULES.read_text("utf-8"))) == set(alerts(played))
    fires = {part.partition("\n")[0] for part in re.split(r"\n +alertname: ", played)[1:]}
    quiet = set(re.findall(r"\{eval_time: \w+, alertname: (\w+)\}", played))
    assert set(alerts(played)) == fires == quiet


def test_queries_of_the_dashboard_are_understood_by_prometheus(tmp_path):
    """Each is taken as the expression of a rule, with Grafana's variables filled in."""
    lines = ["groups:", "- name: dashboard", "  rules:"]
    for number, query in enumerate(expressions()):
        filled = query.replace("$__rate_interval", "1m").replace("$job", "tallystick")
        lines += [f"  - record: panel_{number}", f"    expr: {json.dumps(filled)}"]
    path = tmp_path / "rules.yml"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    assert f"{len(expressions())} rules found" in promtool("check", "rules", str(path))
