"""Journals that begin anew in the topic, judged by the job: real servers, real Kafka and Spark."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from tallystick.campaign import scenario_of
from tallystick.coordinates.events.collect_request import CollectRequest
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.producers.journal_reader import JournalReader, send_request
from tallystick.producers.mysql_lab.layout import SOURCE_A
from tallystick.producers.mysql_lab.load import LoadPlan
from tallystick.producers.simulator.assemble import simulate
from tallystick.servers.lab import Lab
from tests.support.started_commands import DEADLINE_S, Commands, wait_until

HEALTHY = (0, 8)
"""Seeds of pairs: the same instances, and other histories."""


def written(directory: Path, seed: int) -> set[str]:
    """A file with the journals of a simulated pair, under names of its own."""
    lines = [line for b in simulate(scenario_of(seed)).blocks(512) for line in block_to_lines(b)]
    text = "\n".join((*lines, "")).replace("source-a", "old-a").replace("replica-a1", "old-b")
    (directory / f"{seed}").write_text(text, "utf-8")
    return {json.loads(line)["instance"] for line in text.splitlines()}


def observe(commands: Commands, servers: str, lab: Lab, name: str) -> None:
    """A tail of the lab, from a directory of its own, until all have answered a collection."""
    where = ("--config", str(lab.config_file), "--directory", name)
    tail = commands.start("tail", *where, "--from-oldest")
    found: set[str] = set()
    topic = f"{commands.prefix}.journal"
    with closing(JournalReader(servers, topic=topic, notice=print)) as reader:

        def has_answered() -> bool:
            for block in reader.poll(0.2):
                if any(f'"{name}"' in text for text in block.texts.values()):
                    found.add(block.instance_id)
            return len(found) == len(lab.servers)

        request = CollectRequest(name, time.time_ns() // 1_000)
        send_request(servers, request, f"{commands.prefix}.collect")
        wait_until(has_answered, f"answers to {name}")
    tail.send_signal(signal.SIGTERM)
    assert tail.wait(DEADLINE_S) == 0


@pytest.mark.long
def test_journals_that_begin_anew_accuse_nobody(broker, commands, mysqld, tmp_path):
    """A tail after another one from elsewhere, a file after another one of the same instances."""
    running_load = mysqld.make_load(LoadPlan((SOURCE_A,), rate=20, seconds=900))
    running_load.start()
    try:
        for name in ("one", "two"):
            observe(commands, broker.bootstrap_servers, mysqld, name)
    finally:
        running_load.stop()
        running_load.finish()
    names = set(mysqld.servers)
    for seed in HEALTHY:
        names |= written(tmp_path, seed)
        assert commands.start("journal", "--write", f"{seed}").wait(DEADLINE_S) == 0
    audit: subprocess.Popen[str] = commands.start("audit", "--json", "--available-now")
    report = json.loads(audit.communicate(timeout=DEADLINE_S)[0])
    assert report["findings"] == []
    assert (3, "UNDECIDED") == (audit.returncode, report["verdict"])
    began = [o for o in report["observations"] if o["reason"] == "journal_epoch_began"]
    assert {observation["instance_id"] for observation in began} == names
