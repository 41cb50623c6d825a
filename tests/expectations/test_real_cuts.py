"""Cuts as the audit makes them from simulated fleets: sound on healthy ones, sharp on faults."""

from __future__ import annotations

import pytest

from tallystick.coordinates.audit.collection_checks import (
    CollectionChecks,
    collections_of,
    rows_with_checks,
)
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.results import Verdict
from tallystick.expectations.judgement import Outcome
from tallystick.expectations.validate import CollectionValidator
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import PROFILES, Scenario

# Faults of each kind of rule: on a row by itself, on events, over time, between instances.
FAULTS = {
    "executed_ahead_of_position": "executed_within_logged",
    "position_regressed": "snapshot_position_monotone",
    "retrieved_inflated": "retrieved_matches_relay",
    "gtid_logged_twice": "gtid_logged_once",
    "errant_write": "no_errant_gtids",
}


@pytest.fixture(scope="module")
def validator():
    return CollectionValidator()


def validated(validator, scenario):
    """Every collection of a history, then what came to light after the last one."""
    result = audit_history(simulate(scenario).blocks(500))
    checks = CollectionChecks()
    checks.absorb(result.findings, result.observations, result.checks)
    rounds = collections_of(result.cuts)
    found = [validator.validate(rows_with_checks(cuts, checks.of(cuts))) for cuts in rounds]
    if checks.waiting:
        last = rows_with_checks(rounds[-1], checks.of(rounds[-1], is_last=True))
        found.append(validator.validate(last))
    return result, found


@pytest.mark.parametrize("seed", range(2))
def test_healthy_fleets_are_consistent(validator, seed):
    """No expectation breaks, and none is left open, on a fleet that does everyday work."""
    _, found = validated(
        validator, Scenario(seed=seed, profile=PROFILES[seed % 2], topology="pair")
    )
    for one in found:
        assert one.verdict is Verdict.CONSISTENT, one.failed + one.undecided
    assert {r.rule for one in found for r in one.results if r.outcome is Outcome.HELD} >= {
        "executed_within_logged", "gtid_logged_once", "no_errant_gtids", "relay_source_pos_monotone"
    }  # fmt: skip


@pytest.mark.parametrize(("fault", "rule"), FAULTS.items(), ids=FAULTS)
def test_every_breach_is_broken_at_a_collection_and_at_all_later_ones(validator, fault, rule):
    """Its witness is whole; no collection of the fleet reads "0 broken" from then on."""
    result, found = validated(validator, Scenario(seed=3, fault=fault))
    broken = [{r.rule: r for r in one.failed} for one in found]
    assert rule in broken[-1]
    first = next(number for number, rules in enumerate(broken) if rules)
    for one in found[first:]:
        assert one.statistics["broken"] > 0
        assert one.verdict is Verdict.INCONSISTENT
    assert {finding.rule for finding in result.findings} == set(broken[-1])
    witnesses = {finding.witness for finding in result.findings if finding.rule == rule}
    assert {row.witness for row in broken[-1][rule].broken} & witnesses
