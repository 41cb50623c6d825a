"""Holes in a server's own numbers: what is nowhere is an observation, the rest is a fault."""

from __future__ import annotations

from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import Observation, ObservationCode, Verdict
from tallystick.coordinates.rules.explanation import observation_text
from tests.coordinates.test_fleet_rules import A, audit, fleet_of_two, names, received_all
from tests.support.journals import UUID_A, Journal


def noted(journal: Journal) -> tuple[list[Observation], list[str], list[Verdict]]:
    """Free numbers that were observed, rules broken, and the verdicts of the rows."""
    one = InstanceAudit("a")
    observations, rules, verdicts = [], [], []
    for block in blocks_from_lines(journal.lines()):
        output = one.absorb(block)
        rules += [finding.rule for finding in output.findings]
        observations += [o for o in output.observations if o.code is ObservationCode.GNO_FREE]
        verdicts += [Verdict(cut.verdict) for cut in output.cuts]
    return observations, rules, verdicts


def with_hole() -> Journal:
    """The log holds 1 to 3 and 9."""
    journal = Journal().begin().groups(3)
    journal.row(gtid_owned="", gtid_purged="")
    journal.binlog.group(f"{UUID_A}:9")
    return journal


def test_numbers_that_are_nowhere_are_observed_once():
    """No rule is broken, and no verdict is another one for it."""
    journal = with_hole()
    journal.row(gtid_owned="", gtid_purged="")
    journal.row(gtid_owned="", gtid_purged="")
    [one], rules, verdicts = noted(journal)
    assert rules == []
    assert not one.is_undecided
    assert f"({UUID_A}:4-8)" in observation_text(one)
    assert verdicts == [Verdict.CONSISTENT] * 3


def test_the_first_number_of_all_may_be_free():
    """Whoever sets GTID_NEXT may begin with 2."""
    journal = Journal().begin()
    journal.binlog.group(f"{UUID_A}:2")
    journal.row(gtid_owned="", gtid_purged="")
    [one], rules, _ = noted(journal)
    assert rules == []
    assert f"({UUID_A}:1)" in observation_text(one)


def test_numbers_that_a_session_owns_are_not_free():
    """They are on their way."""
    journal = with_hole()
    journal.row(gtid_owned=f"{UUID_A}:4#21:5#22:6#23:7#24:8#25", gtid_purged="")
    assert noted(journal)[:2] == ([], [])


def test_numbers_that_were_purged_are_not_free():
    """SET gtid_purged may have added them after the row's gtid_executed was read."""
    journal = with_hole()
    journal.row(gtid_owned="", gtid_purged=f"{UUID_A}:4-8")
    observations, _, _ = noted(journal)
    assert observations == []


def test_numbers_that_come_later_leave_a_smaller_hole():
    """What was observed is not observed again, and nothing is held against its late arrival."""
    journal = with_hole()
    journal.row(gtid_owned="", gtid_purged="")
    for gno in (4, 5):
        journal.binlog.group(f"{UUID_A}:{gno}")
    journal.row(gtid_owned="", gtid_purged="")
    observations, rules, _ = noted(journal)
    assert (len(observations), rules) == (1, [])


def test_a_number_executed_and_neither_logged_nor_purged_is_a_fault():
    """The server's own log must have what it has executed."""
    journal = with_hole()
    journal.executed.add(f"{UUID_A}:5")
    journal.row(gtid_owned="", gtid_purged="")
    assert noted(journal)[1] == ["executed_within_logged"]


def test_a_number_that_only_another_server_has_is_a_fault():
    """A replica that has executed what its owner has not is named, however it came by it."""
    for retrieved, rule in (
        (f"{A}:1-3:5", "no_errant_gtids"),
        (f"{A}:1-5", "received_within_source_logged"),
    ):
        source, replica = fleet_of_two()
        received_all(source, replica)
        source.log(f"{A}:5")
        source.status(f"{A}:1-3:5")
        replica.status(f"{A}:1-5", replica.says(source, retrieved))
        source.status(f"{A}:1-3:5")
        assert rule in names(audit(source, replica))
