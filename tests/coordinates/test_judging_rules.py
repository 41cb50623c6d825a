"""Each rule of one instance's audit, just inside and just outside its boundary."""

from __future__ import annotations

import pytest

from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.explanation import explain
from tests.support.journals import UUID_A, audit
from tests.support.rule_cases import all_cases, audited, local, source

CASES = all_cases()
ELSEWHERE = {
    "relay_mirrors_source",
    "clone_coordinates_equal_donor",
    "clone_resume_exact",
}
"""Judged across instances, though of a lower tier."""


@pytest.mark.parametrize("name", CASES)
def test_inside_the_boundary_nothing_is_found(name: str):
    """A history that goes as far as a server may breaks no rule."""
    result = audited(name, breaks=False)
    assert [] == [(f.rule, explain(f).sentence) for f in result.findings]


@pytest.mark.parametrize("name", CASES)
def test_outside_the_boundary_exactly_this_is_found(name: str):
    """One step further and the rule is named, and no other."""
    result = audited(name, breaks=True)
    assert sorted(CASES[name].names) == result.broken
    # A finding's data have every value that the texts of its case name.
    texts = [explain(finding) for finding in result.findings]
    assert all(text.observed_in for text in texts)
    assert not [text.witness for text in texts if "µs" in text.witness]


@pytest.mark.parametrize("name", CASES)
def test_a_disabled_rule_is_silent(name: str):
    """Switched off, a rule says nothing; the others speak as before."""
    rule = name.partition("__")[0]
    result = audit(CASES[name].build(breaks=True), disabled=frozenset({rule}))
    assert sorted(CASES[name].names - {rule}) == result.broken
    assert rule not in {check.rule for cut in result.cuts for check in cut.checks}


@pytest.mark.parametrize("name", CASES)
def test_it_is_found_at_the_same_record_of_the_journal(name: str):
    """However that is cut into blocks."""
    cut = audit(CASES[name].build(breaks=True), block_size=2)
    places = [
        sorted((one.rule, one.at, one.sequence) for one in result.findings)
        for result in (audited(name, breaks=True), cut)
    ]
    assert places[0] == places[1]


def test_every_rule_of_one_instance_has_a_case():
    """A rule without a case could be deleted unnoticed."""
    rules = {rule.name for rule in RULES.values() if rule.scope != "X"} - ELSEWHERE
    assert rules == {name.partition("__")[0] for name in CASES}


@pytest.mark.parametrize(("kept", "lost", "first"), [("1-2", "3-5", "3-5"), ("1", "2-5", "2-4")])
def test_a_finding_of_many_gtids_is_at_the_first_three(kept: str, lost: str, first: str):
    """So many a person can look up; the witness has them all."""
    journal = source(5)
    journal.row()
    local(journal.row())["gtid_executed"] = f"{UUID_A}:{kept}"
    [finding] = [f for f in audit(journal).findings if f.rule == "executed_monotone"]
    assert (finding.witness, finding.at) == (f"{UUID_A}:{lost}", f"{UUID_A}:{first}")


@pytest.mark.parametrize(
    "rule",
    [
        "executed_monotone",
        "purged_monotone",
        "lsn_monotone",
        "snapshot_position_monotone",
        "channel_positions_monotone",
    ],
)
def test_what_has_fallen_falls_once(rule: str):
    """The next row goes on from there: history is another one."""
    journal = CASES[rule].build(breaks=True)
    fallen = [one for one in journal.records if one["kind"] == "log_status"][-1]
    again = {key: value for key, value in fallen.items() if key not in ("kind", "instance", "ts")}
    for number in range(2):
        journal.record("log_status", **again | {"collection_id": f"again {number}"})
    found = [one.collection_id for one in audit(journal).findings if one.rule == rule]
    assert found == [fallen["collection_id"]]
