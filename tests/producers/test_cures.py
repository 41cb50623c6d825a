"""What a fault broke and its cure heals: the incidents end by it, and not without it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.results import Incident, Verdict
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.faults import FAULTS
from tallystick.producers.simulator.kernel.scenario import Scenario

ENDS = {
    "receiver_skips_group": {"resolved"},
    "receiver_requeues_old_group": {"superseded"},
    "clone_resume_gap": {"superseded"},
    "clone_of_purged_donor": {"superseded"},
    "group_repeated_after_crash": {"superseded"},
    "relay_logs_kept_after_crash": {"superseded"},
    "executed_without_receipt": {"superseded"},
    "phantom_group_received": {"superseded"},
    "errant_write": {"resolved"},
    "errant_write_hidden": {"superseded"},
    "group_skipped_by_empty_transaction": {"superseded"},
    "group_left_out_after_crash": {"superseded"},
    "receiver_skips_first_group": {"superseded"},
    "receiver_skips_given_up_group": {"superseded"},
    "receiver_silent": {"resolved"},
    "source_purged_too_early": {"superseded"},
    "server_uuid_copied": {"resolved"},
    "server_id_taken_at_restart": {"resolved"},
    "channel_to_itself": {"resolved"},
    "demoted_source_left_alone": {"resolved"},
}
"""By what the incidents of each fault end."""


def _scenario(fault: str, run: int) -> Scenario:
    scenario = scenario_of(2 * (FAULTS[fault].number + 1_000 * run) + 1, [fault])
    if scenario.topology in ("pair", "star", "chain"):
        return scenario
    # A replica of several sources that is made anew from one of them lacks what the others purged.
    return replace(scenario, topology=("pair", "star")[run])


def _incidents(scenario: Scenario, *, is_cured: bool) -> list[Incident]:
    result = audit_history(simulate(scenario, is_cured=is_cured).blocks(512))
    last = {cut.collection_id for cut in result.cuts[-1:]}
    rows = {cut.verdict for cut in result.cuts if cut.collection_id in last}
    assert not is_cured or rows == {Verdict.CONSISTENT.value}
    return result.incidents


@pytest.mark.parametrize("run", [0, 1])
@pytest.mark.parametrize("fault", ENDS)
def test_its_incidents_end_by_the_cure_alone(fault: str, run: int) -> None:
    """The same incidents, all open without it and all over with it; and no other is found."""
    scenario = _scenario(fault, run)
    left, healed = (_incidents(scenario, is_cured=cured) for cured in (False, True))
    assert {one.rule for one in left} == FAULTS[fault].must_fire
    assert {one.state.value for one in left} == {"open"}
    assert {one.rule for one in healed} == FAULTS[fault].must_fire
    assert {one.state.value for one in healed} == ENDS[fault]


def _to_heal(incidents: list[Incident]) -> list[Incident]:
    """Those that are open, and that something can end."""
    return [
        one
        for one in incidents
        if one.state.value == "open" and RULES[one.rule].healed_by(one.case) != "never"
    ]


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_fault_leaves_open_ends_by_its_cure_or_has_a_reason_to_stay(fault: str) -> None:
    """Else it ends by itself, or is a step of the past, which an operator acknowledges.

    In a pair, too, it breaks exactly its rules; fleets of the campaign are in the matrix.
    """
    # No replica of a replica: it would need what a server that is made anew has purged.
    scenario = replace(_scenario(fault, 1), topology="pair")
    incidents = _incidents(scenario, is_cured=False)
    assert {one.rule for one in incidents} == FAULTS[fault].must_fire
    left = _to_heal(incidents)
    if FAULTS[fault].stays_because or not left:
        assert left or not FAULTS[fault].stays_because
        return
    healed = _incidents(scenario, is_cured=True)
    assert healed
    assert {one.rule for one in healed} <= FAULTS[fault].must_fire
    assert not _to_heal(healed)
