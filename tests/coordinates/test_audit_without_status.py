"""A collector that cannot read SHOW REPLICA STATUS still compares what the relay log received.

How far the applier is, nothing else tells: what it may have left out is then undecided.
"""

from __future__ import annotations

import json

import pytest

from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.results import Verdict
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tests.support.journals import UUID_C, audit
from tests.support.rule_cases import replica

UNREAD = ("replica_status", "slave_master_info", "slave_relay_log_info")
IN_RELAY_LOG = ("Relay_Log_File", "Relay_Log_Pos")
IN_SOURCE_LOG = ("Relay_Source_Log_File", "Exec_Source_Log_Pos")


def audited(scenario: Scenario, unread=UNREAD, columns=()):
    """Audit a history whose collector left some things out that are read beside a row.

    Args:
        scenario: The history.
        unread: What it did not read.
        columns: Of SHOW REPLICA STATUS those that it left out.
    """
    lines = []
    for block in simulate(scenario).blocks(100):
        for line in block_to_lines(block):
            record = json.loads(line)
            for name in unread if record["kind"] == "log_status" else ():
                record.pop(name, None)
            for channel in record.get("replica_status", ()):
                for name in columns:
                    del channel[name]
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


@pytest.mark.parametrize(
    ("unread", "columns", "is_told"),
    [
        ((), (), True),
        ((), IN_RELAY_LOG, True),
        ((), IN_SOURCE_LOG, True),
        ((), (*IN_RELAY_LOG, *IN_SOURCE_LOG), False),
        (UNREAD, (), False),
    ],
)
def test_how_far_an_applier_is_without_gtids_only_the_status_tells(unread, columns, is_told):
    """With GTIDs gtid_executed shows what it has left out (TestPassedIsExecuted)."""
    scenario = Scenario(seed=1, topology="pair", gtid_mode="OFF_PERMISSIVE", auto_position=False)
    result = audited(scenario, unread, columns)
    assert result.findings == []
    reasons = {one.reason for one in result.observations if one.is_undecided}
    assert reasons == (set() if is_told else {"applier_progress_unknown"})
    assert result.verdict is (Verdict.CONSISTENT if is_told else Verdict.UNDECIDED)


@pytest.mark.parametrize(("is_whole", "received"), [(True, f"{UUID_C}:1-4"), (False, None)])
def test_what_was_received_a_relay_log_shows_that_was_read_whole(is_whole, received):
    """An audit that begins in the middle of its file has seen a part."""
    journal, relay, more = replica()
    if not is_whole:
        journal.records = [one for one in journal.records if one["kind"] != "relay"]
    relay.copy(more[0])
    journal.row()
    [status] = [e for e in audit(journal).fleet_events if e.kind is FleetEventKind.STATUS]
    assert status.body["channels"][0]["retrieved_gtid_set"] == received
