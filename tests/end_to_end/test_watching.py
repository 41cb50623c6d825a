"""A live audit beside a fleet that dies: commands as users start them, a real broker and Spark."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tallystick.deploy.ports import free_base_port
from tallystick.streaming import table_reader
from tests.support.started_commands import DEADLINE_S, wait_until

INSTANCES = ["replica-a1", "source-a"]


def answers(tables: Path) -> dict[str, list[str]]:
    """Who has answered each collection how."""
    found: dict[str, list[str]] = {}
    for cut in table_reader.read_cuts(tables) if (tables / "cuts").exists() else ():
        if cut.channel is None:
            found.setdefault(cut.answer, []).append(cut.instance_id)
    return found


def scraped(port: str) -> dict[tuple[str, str | None], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    samples = [sample for family in families for sample in family.samples]
    return {(sample.name, sample.labels.get("instance")): sample.value for sample in samples}


def missing_in_the_newest(tables: Path) -> list[str]:
    newest = max(table_reader.read_cuts(tables), key=lambda cut: cut.ts).collection_id
    rows = [cut for cut in table_reader.read_cuts(tables) if cut.collection_id == newest]
    return [cut.instance_id for cut in rows if cut.answer == "missing"]


def test_a_fleet_that_is_killed_is_undecided(commands):
    """Nobody is left to write a record: the audit sees it by its own clock, and names them all."""
    tables = commands.directory / ".tallystick" / "audit" / "tables"
    # Its deadline never comes: unanswered requests alone must show it.
    timing = ("--collect-interval-s", "2", "--collect-deadline-s", "3600")
    log = commands.directory / "alerts.log"
    audit = commands.start("audit", "--json", "--alert", f"log={log}", *timing)
    # It begins when the audit asks, so that no request of it is left over.
    wait_until((tables.parent / "checkpoint" / "auditor").exists, "the audit's queries")
    port = str(free_base_port(1))
    fleet = commands.start("simulate", "--topology", "pair", "--no-acts", "--metrics-port", port)
    wait_until(lambda: len(answers(tables).get("row", ())) >= 4, "answers")
    published = scraped(port)
    for name in INSTANCES:
        assert published["tallystick_producer_answers_total", name] >= 2
        at = published["tallystick_producer_last_delivery_timestamp_seconds", name]
        assert time.time() - DEADLINE_S < at <= time.time()
    os.killpg(fleet.pid, signal.SIGKILL)
    wait_until(lambda: set(INSTANCES) <= set(answers(tables).get("missing", ())), "a hole")
    # What is gone for good need not answer: the collections go on without it.
    assert commands.start("retire", "replica-a1", "--why", "sold").wait(DEADLINE_S) == 0
    wait_until(lambda: missing_in_the_newest(tables) == ["source-a"], "a collection without it")
    wait_until(
        lambda: log.exists() and " resolved error instance_silent replica-a1:" in log.read_text(),
        "the alert's end",
    )
    audit.send_signal(signal.SIGTERM)
    out, _ = audit.communicate(timeout=DEADLINE_S)
    report = json.loads(out)
    assert (3, "UNDECIDED", "UNDECIDED") == (
        audit.returncode, report["verdict"], report["verdict_now"],
    )  # fmt: skip
    texts = [o["text"] for o in report["observations"] if o["code"] == "LOG_STATUS_MISSING"]
    for name in INSTANCES:
        assert any(f"'{name}' has not answered" in t and "last answer: 20" in t for t in texts)
    lines = [one for one in log.read_text("utf-8").splitlines() if " instance_silent " in one]
    assert len(lines) == len(set(lines))
    last = {line.split()[4]: line.split()[1] for line in lines}
    assert {"replica-a1:": "resolved", "source-a:": "opened"} == last
