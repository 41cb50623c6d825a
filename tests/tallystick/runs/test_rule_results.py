"""What a run found of each rule on each instance: the newest check counts, a breach stays."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.results import Check, Finding, Outcome, SubjectCheck, Verdict
from tallystick.coordinates.rules.relay_mirror import relay_mirrors_source
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.runs.replay import result_of_audit
from tallystick.runs.result import RunResult
from tests.support import results

HELD, UNDECIDED, BROKEN = Verdict.CONSISTENT, Verdict.UNDECIDED, Verdict.INCONSISTENT
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def row(ts: int, channel: str | None = None, **values: str) -> Cut:
    values = {"journal_gtid_set": "", "verdict": "CONSISTENT"} | values
    scope = "instance" if channel is None else "channel"
    return Cut(
        collection_id=f"c{ts}", instance_id="a", scope=scope, channel=channel, ts=ts, **values
    )


def run(*cuts: Cut, found: tuple[Finding, ...] = (), checks: tuple = ()) -> RunResult:
    audit = AuditResult(cuts=list(cuts), findings=list(found), checks=list(checks))
    return result_of_audit(audit, command="replay", title="t", begun_at=NOW)


def given(made: RunResult, rule: str, instance: str = "a") -> list[tuple[str | None, Verdict]]:
    shown = made.rule_results.get(instance, [])
    return [(each.channel, each.verdict) for each in shown if each.rule == rule]


def test_the_newest_check_of_instance_and_channel_counts():
    """With its reason; a rule that is not asked again keeps what it was."""
    made = run(
        row(1, checks=results.checks(held="lsn_order", undecided="executed_monotone: first")),
        row(1, "c", checks=results.checks(held="retrieved_matches_relay")),
        row(2, checks=results.checks(held="executed_monotone")),
        row(2, "c", checks=results.checks(undecided="retrieved_matches_relay: none left")),
    )
    assert [(None, HELD)] == given(made, "lsn_order") == given(made, "executed_monotone")
    assert [("c", UNDECIDED)] == given(made, "retrieved_matches_relay")
    (shown,) = [one for one in made.rule_results["a"] if one.rule == "retrieved_matches_relay"]
    assert ("none left", True) == (shown.reason, shown.is_optional)


def test_a_finding_outweighs_rows_that_held_after_it():
    """Broken is broken, and names what broke it; also where no collection follows."""
    cuts = [row(ts, checks=results.checks(held="lsn_order")) for ts in (1, 5)]
    for ts in (3, 9):
        found = results.finding(rule="lsn_order", ts=ts)
        made = run(*cuts, found=(found,))
        assert [(None, BROKEN)] == given(made, "lsn_order")
        (shown,) = [one for one in made.rule_results["a"] if one.rule == "lsn_order"]
        assert (found,) == shown.findings
        assert Outcome.BROKEN in {one.check.outcome for one in made.checks if one.ts == 5}
    found = results.finding(rule="lsn_order")
    assert [(None, BROKEN)] == given(run(found=(found,)), "lsn_order")


def test_a_finding_about_two_instances_breaks_the_rule_on_both():
    """In the table of checks too."""
    found = results.finding(rule="gtid_origin_agreement", data={"other": "b"})
    made = run(row(1), found=(found,))
    for name in "ab":
        assert [(None, BROKEN)] == given(made, "gtid_origin_agreement", name)


def test_an_undecided_comparison_is_not_optional():
    """It leaves the run undecided; what a consistent row cannot show does not."""
    rule = relay_mirrors_source.name
    check = Check(rule, Outcome.UNDECIDED, "not_in_fleet", {"source": "s"})
    made = run(row(1, journal_gtid_set=None), checks=(SubjectCheck("a", "", "c1", 1, check),))
    optional = {one.rule: one.is_optional for one in made.rule_results["a"]}
    assert not optional[rule]
    assert optional["gtid_logged_once"]


@pytest.mark.parametrize("fault", [None, "errant_write", "gtid_logged_twice"])
def test_the_audit_in_memory_has_the_checks_of_all_rules(fault):
    """Rules on rows, of events and between instances, for each collection."""
    audit = audit_history(simulate(Scenario(seed=3, topology="demo", fault=fault)).blocks(512))
    made = result_of_audit(audit, command="replay", title="t", begun_at=NOW)
    assert {cut.collection_id for cut in made.cuts} == {one.collection_id for one in made.checks}
    rules = {one.check.rule for one in made.checks}
    assert {"executed_within_logged", "gtid_logged_once", "relay_mirrors_source"} <= rules
    broken = {one.check.rule for one in made.checks if one.check.outcome is Outcome.BROKEN}
    assert {finding.rule for finding in audit.findings} == broken
    keys = [(o.collection_id, o.instance_id, o.channel, o.check.rule) for o in made.checks]
    assert len(keys) == len(set(keys))
