"""A saved state that cannot be read: the instance, or the fleet, begins anew and says so."""

from __future__ import annotations

import random

import pytest

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.fleet import FleetAudit
from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.audit.instance import AuditOutput, InstanceAudit
from tallystick.coordinates.events.journal import Block
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import Finding, ObservationCode, Outcome, Verdict
from tallystick.coordinates.state_codec import encode, split
from tallystick.coordinates.values.errors import StateError
from tallystick.producers.simulator.assemble import simulate
from tests.support.fleet_journals import A, C, fleet_of_two, names
from tests.support.fleet_journals import Journal as FleetJournal
from tests.support.journals import UUID_A, Journal

LOSSES = 3
SEEDS = range(0, 120, 10)
"""Histories without a fault."""


def other_version(saved: bytes) -> bytes:
    """The state of another version, whose settings of the server are the same."""
    return encode(int, 1, before=bytes(split(saved, "it")[0]))


def damaged(saved: bytes) -> bytes:
    """Nothing of it can be read."""
    return b"?" + saved[1:]


def flipped(saved: bytes) -> bytes:
    """One bit has changed, of the server's settings or of the rest."""
    bit = random.Random(len(saved)).randrange(8 * len(saved))
    changed = bytearray(saved)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def resumed(audit: InstanceAudit, saved: bytes, first: Block) -> tuple[InstanceAudit, AuditOutput]:
    """The audit that goes on where the state of one cannot be read."""
    with pytest.raises(StateError, match=repr(audit.instance_id)) as caught:
        InstanceAudit.from_bytes(saved, audit.instance_id)
    again = InstanceAudit(audit.instance_id)
    return again, again.lose_state(saved, caught.value, first)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("lose", [other_version, damaged, flipped])
def test_an_instance_whose_state_is_lost_gives_no_finding(seed, lose):
    """Wherever it is lost, whatever the history; each loss is reported as undecided."""
    random_ = random.Random(seed)
    blocks = list(simulate(scenario_of(seed)).blocks(random_.choice([64, 256, 1024])))
    at = set(random_.sample(range(len(blocks)), min(LOSSES, len(blocks))))
    audits: dict[str, InstanceAudit] = {}
    fleet, findings = FleetAudit(), list[Finding]()

    def take(output: AuditOutput) -> None:
        findings.extend((*output.findings, *fleet.absorb(output.fleet_events).findings))

    for number, block in enumerate(blocks):
        audit = audits.setdefault(block.instance_id, InstanceAudit(block.instance_id))
        if number in at:
            audit, reported = resumed(audit, lose(audit.to_bytes()), block)
            audits[block.instance_id] = audit
            seen, where = reported.observations[0], f"{block.epoch}:{block.first_sequence}"
            assert seen.is_undecided
            assert ObservationCode.STATE_UNREADABLE is seen.code
            assert (seen.at, seen.ts) == (where, block.columns["ts"][0])
            take(reported)
        take(audit.absorb(block))
    for audit in audits.values():
        take(audit.finish())
    findings += fleet.finish().findings
    assert [] == findings


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fleet_whose_state_is_lost_gives_no_finding(seed):
    """What it reads afterwards is the middle of every journal."""
    random_ = random.Random(seed)
    blocks = list(simulate(scenario_of(seed)).blocks(random_.choice([64, 256, 1024])))
    at = set(random_.sample(range(len(blocks)), min(LOSSES, len(blocks))))
    audits: dict[str, InstanceAudit] = {}
    fleet, findings = FleetAudit(), list[Finding]()
    for number, block in enumerate(blocks):
        audit = audits.setdefault(block.instance_id, InstanceAudit(block.instance_id))
        fleet = FleetAudit() if number in at else fleet
        findings += fleet.absorb(audit.absorb(block).fleet_events).findings
    for audit in audits.values():
        findings += fleet.absorb(audit.finish().fleet_events).findings
    findings += fleet.finish().findings
    assert [] == findings


def rows(lose) -> list[tuple[str, str]]:
    """The answer and reason of each row: one before the loss, then one with each file."""
    journal = Journal("a", UUID_A).begin().groups(2)
    journal.row()
    [before] = blocks_from_lines(journal.lines())
    journal.groups(1)
    journal.row()
    journal.binlog.rotate()
    journal.groups(1)
    journal.row()
    journal.groups(1)
    journal.row()
    [whole] = blocks_from_lines(journal.lines())
    audit = InstanceAudit("a")
    cuts = audit.absorb(before).cuts
    rest = whole.take(len(before), len(whole))
    audit, _ = resumed(audit, lose(audit.to_bytes()), rest)
    cuts += audit.absorb(rest).cuts
    return [(cut.verdict, cut.reason) for cut in cuts]


def test_rows_are_undecided_until_the_journal_has_shown_enough_again():
    """The next file says what was logged; then rows are judged as before."""
    before, first, second, third = rows(other_version)
    assert Verdict.CONSISTENT == before[0]
    assert Verdict.UNDECIDED == first[0]
    assert Verdict.CONSISTENT == second[0] == third[0]


def test_without_the_settings_rows_stay_undecided():
    """Until a start record has them: their defaults may not be this server's."""
    _, *after = rows(damaged)
    assert [(Verdict.UNDECIDED, "settings_lost")] * 3 == after


def test_where_the_journal_goes_on_is_decided_by_the_next_block():
    """No block is dropped as repeated, and none is reported as missing."""
    journal = Journal("a", UUID_A).begin().groups(4)
    [block] = blocks_from_lines(journal.lines())
    audit = InstanceAudit("a")
    audit.absorb(block)
    later = block.take(6, len(block))
    audit, _ = resumed(audit, other_version(audit.to_bytes()), later)
    output = audit.absorb(later)
    assert [] == output.observations
    assert block.next_sequence == audit.next_sequence


@pytest.mark.parametrize(
    ("who", "is_compared"), [("s", True), ("r", True), ("a", False), ("x", False)]
)
def test_only_what_is_compared_with_an_instance_that_begins_anew_is_undecided(who, is_compared):
    """The replica's row waits for its source's journal; a third instance has no part in it."""
    source, replica = fleet_of_two(has_row=False)
    third = FleetJournal(source.clock, "x" if is_compared else who, C, 3)
    third.boot()
    replica.receive(source, (1, f"{A}:1"), (3, f"{A}:3"))
    replica.status(f"{A}:1:3", replica.says(source, f"{A}:1:3"))
    journals = {journal.name: journal for journal in (source, replica, third)}
    fleet = FleetAudit()
    for journal in journals.values():
        fleet.absorb(journal.fleet_events)
    said = fleet.absorb([journals[who].fleet_event(FleetEventKind.BEGUN_ANEW)])
    waited = {one.check.outcome for one in said.checks if one.check.rule == "relay_mirrors_source"}
    assert waited == ({Outcome.UNDECIDED} if is_compared else set())
    source.status(f"{A}:1-3")
    output = fleet.absorb(source.fleet_events[-1:])
    assert names(output) + names(fleet.finish()) == ["relay_mirrors_source"] * (not is_compared)
