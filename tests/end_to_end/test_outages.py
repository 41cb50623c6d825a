"""Brokers that go away under an audit and its producer: commands as users start them."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tallystick.producers.kafka_clients.choice import CLIENTS
from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics
from tallystick.streaming import table_reader
from tests.support.broker_cluster import BrokerCluster
from tests.support.started_commands import DEADLINE_S, Commands, wait_until

pytestmark = pytest.mark.broker


@contextmanager
def commands_at(servers: str, directory: Path, replicas: int = 1) -> Iterator[Commands]:
    """Starts commands with topics of their own."""
    made = Commands(directory, servers)
    ensure_topics(servers, tallystick_topics(2, prefix=made.prefix), replication_factor=replicas)
    try:
        yield made
    finally:
        made.kill_all()


def rows(tables: Path) -> int:
    found = table_reader.read_cuts(tables) if (tables / "cuts").exists() else ()
    return sum(cut.answer == "row" for cut in found)


@pytest.mark.long
def test_three_brokers_are_restarted_one_after_the_other(tmp_path):
    """In order as for an upgrade, and the last one by kill -9."""
    with (
        BrokerCluster(tmp_path / "brokers") as cluster,
        commands_at(cluster.bootstrap_servers, tmp_path, replicas=3) as fleet,
    ):

        def restart_all() -> None:
            cluster.restart(0, signal.SIGTERM)
            cluster.restart(1, signal.SIGTERM)
            cluster.restart(2, signal.SIGKILL)

        nothing_changes(fleet, CLIENTS[0], restart_all)


def nothing_changes(fleet: Commands, client: str, disturb: Callable[[], None]) -> None:
    """Nothing is lost, nothing is twice; what is found is what a replay finds."""
    tables = fleet.directory / ".tallystick" / "audit" / "tables"
    audit = fleet.start("audit", "--json", "--collect-interval-s", "2")
    wait_until((tables.parent / "checkpoint" / "auditor").exists, "the audit's queries")
    fault = ("--fault", "errant_write", "--fault-at-ms", "1000")
    simulated = fleet.start("simulate", "--topology", "pair", "--client", client, *fault)
    wait_until(lambda: rows(tables) >= 6, "answers")
    disturb()
    before = rows(tables)
    wait_until(lambda: rows(tables) >= before + 6, "answers after the outage")
    simulated.send_signal(signal.SIGINT)
    simulated.communicate(timeout=DEADLINE_S)
    audit.send_signal(signal.SIGTERM)
    out, _ = audit.communicate(timeout=DEADLINE_S)
    report = json.loads(out)
    assert (0, 1) == (simulated.returncode, audit.returncode)
    journal = fleet.start("journal")
    lines, _ = journal.communicate(timeout=DEADLINE_S)
    (fleet.directory / "journal").write_text(lines)
    replay = fleet.start("replay", "journal", "--json", "--history-goes-on")
    replayed = json.loads(replay.communicate(timeout=DEADLINE_S)[0])
    found = [{one["finding_id"] for one in each["findings"]} for each in (report, replayed)]
    assert found[0] == found[1] != set()
    lost = [o for each in (report, replayed) for o in each["observations"]
            if o["code"].startswith("JOURNAL")]  # fmt: skip
    assert [] == lost
