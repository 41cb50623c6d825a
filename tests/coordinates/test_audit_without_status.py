"""A collector that cannot read SHOW REPLICA STATUS still compares what the relay log received."""

from __future__ import annotations

import json

import pytest

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.results import Verdict
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario

UNREAD = ("replica_status", "slave_master_info", "slave_relay_log_info")


def audited(scenario: Scenario):
    """Audit a history whose collector read the row and nothing about channels beside it."""
    lines = []
    for block in simulate(scenario).blocks(100):
        for line in block_to_lines(block):
            record = json.loads(line)
            for name in UNREAD if record["kind"] == "log_status" else ():
                record.pop(name, None)
            lines.append(json.dumps(record))
    return audit_history(blocks_from_lines(lines))


@pytest.mark.parametrize("seed", range(4))
def test_a_healthy_fleet_is_consistent(seed):
    """The relay log stands in for Retrieved_Gtid_Set, so nothing of the heart is missing."""
    result = audited(Scenario(seed=seed, topology="demo"))
    assert (Verdict.CONSISTENT, []) == (result.verdict, result.findings)


def test_what_the_source_never_logged_is_found():
    """A phantom group in the relay log is disputed without any status."""
    result = audited(Scenario(seed=1, topology="demo", fault="phantom_group_received"))
    assert {"received_within_source_logged", "relay_mirrors_source"} == {
        finding.rule for finding in result.findings
    }
