"""The job takes a history in many steps, `replay` in one: the incidents are the same."""

from __future__ import annotations

from random import Random

import pytest

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.fleet import FleetAudit
from tallystick.coordinates.audit.incidents import Incidents
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.results import Incident
from tallystick.producers.simulator.assemble import simulate

SEEDS = (19, 27, 47, 81, 85, 101, 111, 113, 117, 119, 121, 145)
"""Rules on rows, on logs, and between instances; breaches that end and that do not."""


def _summary(incidents: list[Incident]) -> list[tuple[object, ...]]:
    return sorted(
        (one.rule, one.instance_id, one.channel or "", one.case, one.state.value, one.witness)
        for one in incidents
    )


def in_steps(seed: int, size: int) -> list[Incident]:
    """As the job does it: state is saved and read between steps, other instances may lag."""
    history = simulate(scenario_of(seed))
    audits = {name: InstanceAudit(name) for name in history.journals}
    fleet, incidents = FleetAudit(), Incidents()
    blocks, random = list(history.blocks(size)), Random(seed)
    while blocks:
        taken, blocks = blocks[: (count := random.choice((1, 5, 20)))], blocks[count:]
        outputs = [audits[block.instance_id].absorb(block) for block in taken]
        of_fleet = fleet.absorb([event for output in outputs for event in output.fleet_events])
        again = Incidents()
        again.restore(incidents.to_bytes())
        again.absorb(
            [finding for output in (*outputs, of_fleet) for finding in output.findings],
            [cut for output in outputs for cut in output.cuts],
            of_fleet.checks,
            [event for output in outputs for event in output.fleet_events],
        )
        incidents = again
    ends = [audit.finish() for audit in audits.values()]
    events = [event for output in ends for event in output.fleet_events]
    of_fleet = [fleet.absorb(events), fleet.finish()]
    incidents.absorb(
        [finding for output in (*ends, *of_fleet) for finding in output.findings],
        [cut for output in ends for cut in output.cuts],
        [check for output in of_fleet for check in output.checks],
        events,
    )
    return incidents.newest()


@pytest.mark.parametrize("seed", SEEDS)
def test_many_steps_and_one_have_the_same_incidents(seed: int) -> None:
    """Findings may come late; what ends an incident does not depend on that."""
    whole = audit_history(simulate(scenario_of(seed)).blocks(512)).incidents
    assert whole
    assert _summary(in_steps(seed, 64)) == _summary(whole)
