"""Two transactions under one GTID are told once, and so is a state that stays."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import Finding
from tallystick.coordinates.rules.explanation import explain
from tallystick.runs.deduplicate import ToldOnce, tell_once, tell_states_once
from tallystick.runs.result import owners
from tests.support.fleet_journals import A, B, C, Journal, audit, fleet_of_two
from tests.support.results import checks, finding

INVARIANT = "gtid_origin_agreement"


def disagreeing(*gnos: int, is_also_received: bool = False) -> list[Finding]:
    """Two replicas that log other transactions under GTIDs of the source: a finding a pair."""
    source, replica = fleet_of_two(groups=9)
    third = Journal(source.clock, "t", C, 3)
    third.boot()
    third.open_file()
    if is_also_received:
        replica.receive(source, *((gno, f"{A}:{gno}") for gno in gnos))
    for journal in (replica, third):
        journal.commit_times = {f"{A}:{gno}": 5 for gno in gnos}
        journal.log(*(f"{A}:{gno}" for gno in gnos), server_id=2)
        journal.status(f"{A}:{gnos[0]}-{gnos[-1]}")
    source.status(f"{A}:1-9")
    found = audit(source, replica, third).findings
    assert len([finding for finding in found if finding.rule == INVARIANT]) > 1
    return found


def told(findings: list[Finding]) -> ToldOnce:
    return tell_once(findings, {A: "s", B: "r", C: "t"})


def test_pairs_about_one_transaction_are_one_finding_in_any_order():
    """It names all servers, each side with the origin that its logs have."""
    found = disagreeing(2)
    outcomes = [told(list(order)) for order in permutations(found)]
    (one,) = outcomes[0].findings
    assert all(outcomes[0] == other for other in outcomes)
    assert (INVARIANT, "r", f"{A}:2") == (one.rule, one.instance_id, one.at)
    assert explain(one).sentence == (
        f"{A}:2 is one transaction in the logs of s, and another in the logs of r and t."
    )
    assert explain(one).observed == (
        "s: server_id 1, original_commit_timestamp 1000;"
        " r and t: server_id 2, original_commit_timestamp 5"
    )
    assert {one.finding_id: ("r", "s", "t")} == outcomes[0].instances


def test_a_run_of_transactions_is_one_finding():
    """With the whole run as its witness."""
    (one,) = told(disagreeing(2, 3, 4)).findings
    assert f"{A}:2-4" == one.witness


def test_two_transactions_stay_two():
    """And so does what is not about origins, in its place."""
    first, second = disagreeing(2), disagreeing(5)
    (one, other) = told([*first, *second]).findings
    assert (f"{A}:2", f"{A}:5") == (one.at, other.at)
    assert one.finding_id != other.finding_id


def test_a_pair_alone_is_told_as_it_is():
    """Nothing is gained by other words."""
    pair, *_ = disagreeing(2)
    assert ToldOnce([pair], {}) == told([pair])


def test_a_server_that_holds_both_is_on_both_sides():
    """Its relay log has the source's transaction, its binary log its own."""
    once = told(disagreeing(2, is_also_received=True))
    (one,) = [finding for finding in once.findings if finding.rule == INVARIANT]
    assert "in the logs of r and s, and another in the logs of r and t." in explain(one).sentence
    assert ("r", "s", "t") == once.instances[one.finding_id]


def test_without_a_known_owner_the_first_name_stands():
    """Whoever gives out the GTIDs may not be among the servers."""
    (one,) = tell_once(disagreeing(2)).findings
    assert {"r", "s", "t"} > {one.instance_id}


def test_owners_are_told_by_rows():
    """Of two instances with one server_uuid the first by name."""
    rows = [
        Cut(collection_id="c", instance_id=name, scope="instance", server_uuid=uuid)
        for name, uuid in (("b", "u"), ("a", "u"), ("c", "v"), ("d", None))
    ]
    assert {"u": "a", "v": "c"} == owners(rows)


RULE = "relay_info_updated_with_commit"


def seen(number: int, instance: str = "r", **other: str) -> Finding:
    """What one collection finds of a row."""
    said = {"sentence": "It is wrong.", "observed": "o", "expected": "e", "witness": "w", **other}
    return finding(
        rule=RULE, instance_id=instance, channel="", at=f"c{number}", collection_id=f"c{number}",
        epoch=1, sequence=number, ts=10 * number, **said,
    )  # fmt: skip


def rule_held_at(ts: int, channel: str = "") -> Cut:
    return Cut(
        collection_id="c", instance_id="r", scope="channel", channel=channel, ts=ts,
        checks=checks(held=f"lsn_order,{RULE}"),
    )  # fmt: skip


def test_a_state_that_stays_is_told_where_it_was_seen_first():
    """With how often it was seen again, whatever order the findings came in."""
    states = [seen(1), seen(2), seen(3)]
    for order in permutations(states):
        (one,) = tell_states_once(order, [rule_held_at(15, "another channel")])
        assert (states[0].finding_id, 10) == (one.finding_id, one.ts)
        assert explain(one).sentence == "It is wrong. So it stayed in 2 more rows, the last of c3."
    (one,) = tell_states_once(states[:2], [])
    assert explain(one).sentence == "It is wrong. So it stayed in one more row, of c2."


def test_a_fault_that_comes_back_is_another():
    """The rule held in between."""
    found = [seen(1), seen(2), seen(4)]
    first, again = tell_states_once(found, [rule_held_at(30)])
    assert ("c1", "c4") == (first.at, again.at)
    assert "one more row" in explain(first).sentence
    assert again == seen(4)


@pytest.mark.parametrize(
    "other",
    [seen(2, observed="o2"), seen(2, expected="e2"), seen(2, "s"), seen(2, witness="w2")],
)
def test_what_says_something_else_is_another(other):
    """Another value, or another server."""
    assert [seen(1), other] == tell_states_once([seen(1), other], [])


def test_findings_of_the_journal_itself_are_left_alone():
    """No collection is told in them."""
    found = [replace(seen(n), collection_id=None) for n in (1, 2)]
    assert found == tell_states_once(found, [])
