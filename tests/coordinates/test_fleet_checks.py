"""What each rule between instances says of a collection, and the values that its findings carry."""

from __future__ import annotations

from collections import Counter

import pytest

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.fleet import FleetAudit
from tallystick.coordinates.audit.fleet_event_order import in_time_order
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.results import Check, Finding, Outcome, SubjectCheck, gravest
from tallystick.coordinates.rules.between import COMPARISONS, Memory
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.producers.simulator.assemble import simulate
from tests.support.fleet_journals import A, B, C, Clock, Journal, audit, fleet_of_two

RECEIVED = "received_within_source_logged"


def outcomes(checks: list[SubjectCheck], rule: str) -> list[tuple[str, str | None, Outcome]]:
    return [
        (one.collection_id, one.channel, one.check.outcome)
        for one in checks
        if one.check.rule == rule and one.instance_id == "r"
    ]


def test_a_contradiction_that_stays_is_reported_once_and_broken_in_each_collection():
    """A finding is one; the check of every collection that shows it is broken."""
    source, replica = fleet_of_two()
    rows = [replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3"))]
    rows += [replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3:7-9")) for _ in range(2)]
    source.status(f"{A}:1-3")
    output = audit(source, replica)
    [finding] = [one for one in output.findings if one.rule == RECEIVED]
    assert (f"{A}:7-9", f"{A}:7, … (3 GTIDs)") == (finding.witness, finding.at)
    collections = [row.body["collection_id"] for row in rows]
    assert [
        (collections[0], "", Outcome.HOLDS),
        (collections[1], "", Outcome.BROKEN),
        (collections[2], "", Outcome.BROKEN),
    ] == outcomes(output.checks, RECEIVED)


def test_what_cannot_be_compared_is_undecided_in_each_collection_with_its_reason():
    """The observation comes once, the check with every row."""
    source, replica = fleet_of_two()
    for _ in range(3):
        replica.status("", replica.says(source, f"{A}:1"))
    output = audit(replica)
    assert 1 == sum(RECEIVED in seen.rules for seen in output.observations)
    checks = [one.check for one in output.checks if one.check.rule == RECEIVED]
    assert [("source_not_in_fleet", {"source": "instance s"})] * 3 == [
        (check.reason, check.data) for check in checks
    ]


def test_of_one_subject_the_gravest_check_counts():
    """Broken beats undecided beats holds, whatever the order."""

    def check(outcome: Outcome, channel: str | None = None) -> SubjectCheck:
        return SubjectCheck("r", channel, "c1", 1, Check("some_rule", outcome))

    holds, undecided, broken = map(check, (Outcome.HOLDS, Outcome.UNDECIDED, Outcome.BROKEN))
    other = check(Outcome.HOLDS, "one")
    assert [broken, other] == gravest([holds, other, broken, undecided])
    assert [undecided] == gravest([undecided, holds])


def test_a_step_gives_each_check_once():
    """Rows that wait long are checked when they are decided."""
    source, replica = fleet_of_two()
    replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3"))
    fleet = FleetAudit()
    fleet.absorb(source.fleet_events)
    assert [] == outcomes(fleet.absorb(replica.fleet_events).checks, RECEIVED)
    before = len(source.fleet_events)
    source.status(f"{A}:1-3")
    source.time()
    checks = fleet.absorb(source.fleet_events[before:]).checks
    assert 1 == len(outcomes(checks, RECEIVED))
    assert 1 == len(outcomes(checks, "gtid_origin_agreement"))
    assert [] == fleet.absorb([]).checks
    replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3"))
    source.status(f"{A}:1-3")
    last = [one.fleet_events[-1] for one in (replica, source)]
    assert 1 == len(outcomes(fleet.absorb(last).checks, "gtid_origin_agreement"))
    assert [] == fleet.absorb([]).checks


def test_every_comparison_is_of_a_registered_rule_and_takes_its_own_evidence():
    """Those of the registry are all there is."""
    assert {one.rule.name for one in COMPARISONS.values()} <= set(RULES)
    between = {name for name, rule in RULES.items() if rule.scope == "X"}
    assert between - {"gtid_origin_agreement"} == {
        one.rule.name for one in COMPARISONS.values() if one.leaves_undecided
    }


def test_positions_are_forgotten_and_reports_are_kept():
    """After its source's lineage numbers began anew."""
    memory = Memory(reported_at=frozenset({"at"}), lineage=3, last=(1, 4), high=(1, 4))
    assert Memory(reported_at=frozenset({"at"})) == memory.without_positions()


@pytest.mark.parametrize(
    "fault",
    [
        "clone_position_shifted",
        "clone_resume_gap",
        "errant_write",
        "phantom_group_received",
        "receiver_skips_group",
        "server_id_taken_at_restart",
    ],
)
def test_a_collection_with_a_finding_between_instances_has_a_broken_check(fault):
    """As Great Expectations is to see it."""
    result = audit_history(simulate(scenario_of(1, [fault])).blocks(512))
    broken = {
        (one.check.rule, one.instance_id, one.channel, one.collection_id)
        for one in result.checks
        if one.check.outcome is Outcome.BROKEN
    }
    found = {
        (f.rule, f.instance_id, f.channel, f.collection_id)
        for f in result.findings
        if RULES[f.rule].scope == "X" and f.collection_id is not None
    }
    assert found
    assert found <= broken


def test_origins_that_agree_are_checked_when_every_instance_is_known_that_far():
    """Not before, and not at all where there is but one instance."""
    source, replica = fleet_of_two()
    row = replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3"))
    rule = "gtid_origin_agreement"
    late = FleetAudit()
    late.absorb([*source.fleet_events, *replica.fleet_events])
    assert [] == outcomes(late.expire({"r": row.ts + 1}).checks, rule)
    known = outcomes(late.finish().checks, rule)
    assert [(row.body["collection_id"], None, Outcome.HOLDS)] == known
    assert [] == outcomes(audit(replica).checks, rule)


def test_a_channel_whose_source_is_not_known_is_undecided_in_each_collection():
    """Noted once."""
    source, replica = fleet_of_two()
    stranger = Journal(replica.clock, "r", B, 2)
    stranger.boot()
    stranger.open_file()
    for _ in range(2):
        stranger.status(f"{A}:1-3", {**stranger.says(source, f"{A}:1"), "source_uuid": None})
    output = audit(stranger)
    assert 1 == len(output.observations)
    reasons = [one.check.reason for one in output.checks if one.check.rule == RECEIVED]
    assert ["source_unknown"] * 2 == reasons


@pytest.mark.parametrize("is_former", [True, False])
def test_a_server_that_enters_late_decides_the_next_row_alone(is_former):
    """What the row before could not know stays undecided: nobody is called back to it."""
    clock = Clock()
    source, replica = Journal(clock, "s", A, 1), Journal(clock, "r", B, 2)
    for journal in (source, replica):
        journal.boot()
        journal.open_file()
    replica.follow(source)
    source.log(f"{A}:1")
    late = Journal(clock, "l", C, 3) if is_former else source
    if is_former:
        late.boot()
        late.open_file()
        late.log(f"{C}:1")
    executed = f"{A}:1,{C}:1" if is_former else f"{A}:1"
    fleet, read, seen = FleetAudit(), Counter(), []
    for members in ({source, replica} - {late}, {source, replica, late}):
        replica.status(executed, replica.says(source, f"{A}:1"))
        source.status(f"{A}:1")
        late.status(f"{C}:1" if is_former else f"{A}:1")
        for journal in (source, late, replica):
            journal.time()
        checks = []
        for journal in (one for one in (source, late, replica) if one in members):
            checks += fleet.absorb(journal.fleet_events[read[journal.name] :]).checks
            read[journal.name] = len(journal.fleet_events)
        checks += fleet.expire({"r": clock.tick()}).checks
        seen.append({one.check.reason for one in checks if one.check.rule == "no_errant_gtids"})
    unknown = "executed_of_former_source" if is_former else "source_not_in_fleet"
    assert seen == [{unknown}, {""}]
    assert fleet.finish().findings == []


@pytest.mark.parametrize("is_named", [True, False])
def test_a_replica_is_compared_as_soon_as_its_source_has_gone_on(is_named: bool) -> None:
    """Whether its channel names the source's instance, or its server_uuid alone."""
    clock = Clock()
    source, replica = Journal(clock, "s", A, 1), Journal(clock, "r", B, 2)
    for journal in (source, replica):
        journal.boot()
        journal.open_file()
    by_name = {"source_instance": source.name if is_named else None}
    replica.administer("change_source", source_uuid=A, **by_name)
    replica.status(f"{A}:1-3,{B}:1", replica.says(source, **by_name))
    source.status(f"{A}:1-3")
    source.time()
    fleet = FleetAudit()
    found: list[Finding] = []
    for event in in_time_order([*source.fleet_events, *replica.fleet_events]):
        found += fleet.absorb([event]).findings
    assert [one.rule for one in found] == ["no_errant_gtids"]
