"""Two transactions under one GTID are told once, with all whom that concerns."""

from __future__ import annotations

from itertools import permutations

from coordinates.cut import Cut
from coordinates.verdict import Finding
from tallystick.results import owners
from tallystick.told_once import ToldOnce, tell_once
from tests.support.fleet_facts import A, B, C, Journal, audit, fleet_of_two

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
    assert len([finding for finding in found if finding.invariant == INVARIANT]) > 1
    return found


def told(findings: list[Finding]) -> ToldOnce:
    return tell_once(findings, {A: "s", B: "r", C: "t"})


def test_pairs_about_one_transaction_are_one_finding_in_any_order():
    """It names all servers, each side with the origin that its logs have."""
    found = disagreeing(2)
    outcomes = [told(list(order)) for order in permutations(found)]
    (one,) = outcomes[0].findings
    assert all(outcomes[0] == other for other in outcomes)
    assert (INVARIANT, "r", f"{A}:2") == (one.invariant, one.instance_id, one.at)
    assert one.sentence == (
        f"{A}:2 is one transaction in the logs of s, and another in the logs of r and t."
    )
    assert one.observed == (
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
    (one,) = [finding for finding in once.findings if finding.invariant == INVARIANT]
    assert "in the logs of r and s, and another in the logs of r and t." in one.sentence
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
