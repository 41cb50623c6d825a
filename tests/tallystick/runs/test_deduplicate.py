"""Two transactions under one GTID are one finding, and so is a state that stays."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import Finding
from tallystick.runs.deduplicate import deduplicate
from tests.support.fleet_journals import A, C, Journal, audit, fleet_of_two
from tests.support.results import checks, finding

RULE_OF_PAIRS = "gtid_origin_agreement"


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
    assert len([finding for finding in found if finding.rule == RULE_OF_PAIRS]) > 1
    return found


def test_pairs_about_one_transaction_are_one_finding_in_any_order():
    """The first of them, with the other pair beside it and all servers that they name."""
    found = disagreeing(2)
    outcomes = [deduplicate(order, []) for order in permutations(found)]
    (one,) = outcomes[0].findings
    (other,) = outcomes[0].of(one)
    assert all(outcomes[0] == outcome for outcome in outcomes)
    assert (RULE_OF_PAIRS, f"{A}:2") == (one.rule, one.witness) == (other.rule, other.witness)
    assert {"r", "s", "t"} == outcomes[0].instances(one)


def test_a_run_of_transactions_is_one_finding():
    """With the whole run as its witness."""
    (one,) = deduplicate(disagreeing(2, 3, 4), []).findings
    assert f"{A}:2-4" == one.witness


def test_two_transactions_stay_two():
    """Each with its own pairs."""
    one, other = deduplicate([*disagreeing(2), *disagreeing(5)], []).findings
    assert (f"{A}:2", f"{A}:5") == (one.witness, other.witness)


def test_a_pair_alone_names_both_its_servers():
    """It is one finding, about two."""
    pair, *_ = disagreeing(2)
    once = deduplicate([pair], [])
    assert ([pair], []) == (once.findings, list(once.of(pair)))
    assert len(once.instances(pair)) == 2


def test_a_server_that_holds_both_transactions_is_named():
    """Its relay log has the source's transaction, its binary log its own."""
    once = deduplicate(disagreeing(2, is_also_received=True), [])
    (one,) = [finding for finding in once.findings if finding.rule == RULE_OF_PAIRS]
    assert {"r", "s", "t"} == once.instances(one)


RULE = "relay_info_updated_with_commit"


def seen(number: int, instance: str = "r", **other: str) -> Finding:
    """What one collection finds of a row."""
    return finding(
        rule=RULE, instance_id=instance, channel="", at=f"c{number}", collection_id=f"c{number}",
        epoch=1, sequence=number, ts=10 * number, **other,
    )  # fmt: skip


def rule_held_at(ts: int, channel: str = "") -> Cut:
    return Cut(
        collection_id="c", instance_id="r", scope="channel", channel=channel, ts=ts,
        checks=checks(held=f"lsn_order,{RULE}"),
    )  # fmt: skip


def test_a_state_that_stays_is_one_finding_where_it_was_seen_first():
    """With where it was seen again, whatever order the findings came in."""
    states = [seen(1), seen(2), seen(3)]
    for order in permutations(states):
        once = deduplicate(order, [rule_held_at(15, "another channel")])
        assert states[:1] == once.findings
        assert states[1:] == once.of(states[0])


def test_a_fault_that_comes_back_is_another():
    """The rule held in between."""
    found = [seen(1), seen(2), seen(4)]
    once = deduplicate(found, [rule_held_at(30)])
    assert [found[0], found[2]] == once.findings
    assert [found[1]] == once.of(found[0])


@pytest.mark.parametrize("other", [seen(2, "s"), seen(2, witness="w2"), seen(2, case="another")])
def test_another_contradiction_is_another_finding(other):
    """Another witness, another server, or another case of the rule."""
    assert [seen(1), other] == deduplicate([seen(1), other], []).findings


def test_findings_of_the_journal_itself_stay_apart():
    """Each is where it is in a log."""
    found = [replace(seen(n), collection_id=None) for n in (1, 2)]
    assert found == deduplicate(found, []).findings
