"""Cuts as the audit makes them from simulated fleets: sound on healthy ones, sharp on faults."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.results import Verdict
from tallystick.expectations.validate import CollectionValidator
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import PROFILES, Scenario

# Faults that one cut shows, by the invariant whose expectation has to find them.
FAULTS = {
    "snapshot_silently_empty": "snapshot_never_silently_empty",
    "executed_ahead_of_position": "executed_within_logged",
    "position_regressed": "snapshot_position_monotone",
    "commit_lag_excess": "commit_lag_bounded",
    "executed_shrunk": "executed_monotone",
    "purged_outside_executed": "purged_within_executed",
    "purged_shrunk": "purged_monotone",
    "owned_and_executed": "owned_disjoint_from_executed",
    "lsn_regressed": "lsn_monotone",
    "lsn_in_block_trailer": "lsn_block_offset",
    "checkpoint_beyond_lsn": "lsn_order",
    "relay_position_beyond_file": "relay_position_on_written_boundary",
    "exec_beyond_read": "exec_source_pos_within_read",
    "retrieved_inflated": "retrieved_matches_relay",
}


@pytest.fixture(scope="module")
def validator():
    return CollectionValidator()


def collections(scenario):
    audits, found = {}, defaultdict(list)
    for block in simulate(scenario).blocks(500):
        audit = audits.setdefault(block.instance_id, InstanceAudit(block.instance_id, frozenset()))
        for cut in audit.absorb(block).cuts:
            found[cut.collection_id].append(cut)
    for audit in audits.values():
        for cut in audit.finish().cuts:
            found[cut.collection_id].append(cut)
    return found.values()


@pytest.mark.parametrize("seed", range(4))
def test_healthy_fleets_are_consistent(validator, seed):
    """No expectation breaks, and none is left open, on a fleet that does everyday work."""
    for cuts in collections(Scenario(seed=seed, profile=PROFILES[seed % 2])):
        validation = validator.validate(cuts)
        assert validation.verdict is Verdict.CONSISTENT, validation.failed + validation.undecided


@pytest.mark.parametrize(("fault", "invariant"), FAULTS.items(), ids=FAULTS)
def test_a_fault_that_a_cut_shows_is_found(validator, fault, invariant):
    """The expectation that mirrors the invariant fails, and the audit agrees with the halves."""
    found = [
        validator.validate(cuts)
        for cuts in collections(Scenario(seed=3, fault=fault, topology="pair"))
    ]
    failed = {result.invariant for validation in found for result in validation.failed}
    assert invariant in failed
    assert Verdict.INCONSISTENT in {validation.verdict for validation in found}
    assert "expect_audit_to_agree_with_the_halves" not in {
        result.expectation for validation in found for result in validation.failed
    }
