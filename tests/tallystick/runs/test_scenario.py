"""Demonstrations of the designs: what each claims is shown, and the audit agrees."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.results import Outcome
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.errors import MisuseError
from tallystick.outputs.text import _scenario
from tallystick.producers.simulator.assemble import History, simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.scenarios.catalogue import DESIGN_SCENARIOS, with_options
from tallystick.producers.simulator.scenarios.design_scenario import (
    DesignScenario,
    Expected,
    Showing,
)
from tallystick.runs.replay import result_of_audit
from tallystick.runs.scenario import FILE, RuleCount, ScenarioResult, scenario_result

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
SEEDS = (1, 2, 3)
DESIGNS = (Path(__file__).parents[3] / "docs" / "designs.md").read_text("utf-8")


@functools.cache
def run(name: str, seed: int) -> tuple[History, AuditResult]:
    history = simulate(Scenario(seed=seed, design_scenario=name))
    return history, audit_history(history.blocks(512))


def beside(
    demonstration: DesignScenario, shown: Sequence[Showing], audit: AuditResult, **more: bool
) -> ScenarioResult:
    result = result_of_audit(audit, command="replay", title="t", begun_at=NOW)
    return scenario_result(
        demonstration,
        shown,
        findings=result.findings,
        checks=result.checks,
        **more,
    )


def shown(name: str, seed: int = 1) -> ScenarioResult:
    history, audit = run(name, seed)
    return beside(DESIGN_SCENARIOS[name], history.shown, audit)


def text(shown: ScenarioResult) -> str:
    return "\n".join(line if isinstance(line, str) else line[0] for line in _scenario(shown))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", DESIGN_SCENARIOS)
def test_every_claim_is_shown_and_nothing_else_is_found(name: str, seed: int) -> None:
    """Each claim is seen, what the document expects is found, and no other rule breaks."""
    said = shown(name, seed)
    assert [] == [claim.requirement for claim in said.claims if not claim.seen]
    assert [] == [(one.instance, one.rule) for one in said.expected if not one.found]
    assert () == said.others
    assert said.is_shown


@pytest.mark.parametrize("name", DESIGN_SCENARIOS)
def test_a_demonstration_claims_rows_of_its_document(name: str) -> None:
    """Requirements are labels of its section, rules are registered, nothing is said twice."""
    demonstration = DESIGN_SCENARIOS[name]
    section = re.split(r"^## ", DESIGNS, flags=re.MULTILINE)
    (page,) = [part for part in section if part.startswith(f"{demonstration.design}:")]
    labels = set(re.findall(r"^\| \*\*(.+?)\*\*", page, flags=re.MULTILINE))
    requirements = [claim.requirement for claim in demonstration.claims]
    assert set(requirements) <= labels
    assert len(requirements) == len(set(requirements))
    named = {name for claim in demonstration.claims for name in claim.rules}
    assert named | {one.rule for one in demonstration.expected} <= set(RULES)
    assert all(claim.rules for claim in demonstration.claims)


@pytest.mark.parametrize("name", DESIGN_SCENARIOS)
def test_every_showing_is_of_a_claim(name: str) -> None:
    """Nothing is shown that the summary would not print."""
    history, _ = run(name, 1)
    claimed = {claim.requirement for claim in DESIGN_SCENARIOS[name].claims}
    assert {showing.requirement for showing in history.shown} <= claimed


@pytest.mark.parametrize("name", DESIGN_SCENARIOS)
def test_a_demonstration_is_deterministic(name: str) -> None:
    """The same seed shows the same, in the same records."""
    history, _ = run(name, 1)
    again = simulate(Scenario(seed=1, design_scenario=name))
    assert history.shown == again.shown
    assert len(history) == len(again)


def test_what_is_not_seen_not_found_or_not_foretold_is_told() -> None:
    """A claim without a showing, a missing and a surplus finding each deny the demonstration."""
    name = "log_status"
    history, audit = run(name, 1)
    demonstration = DESIGN_SCENARIOS[name]
    unseen = beside(demonstration, history.shown[1:], audit)
    assert not unseen.is_shown
    assert "was not seen" in text(unseen)
    warned = replace(demonstration, expected=(Expected("hub", "lsn_monotone", "it says so"),))
    missing = beside(warned, history.shown, audit)
    assert not missing.is_shown
    assert "not found" in text(missing)
    claims = len(demonstration.claims)
    counted = "claims shown, 0 of 1 expected findings found, nothing else found"
    assert text(missing).splitlines()[:3] == [
        f"NOT SHOWN  {demonstration.design}: {demonstration.title}",
        f"  {claims} of {claims} {counted}",
        "",
    ]
    faulty = simulate(Scenario(seed=1, topology="multi_source", fault="lsn_regressed"))
    found = audit_history(faulty.blocks(512))
    surplus = beside(demonstration, history.shown, found)
    broken = [name for _, name in surplus.others]
    assert broken == ["lsn_monotone", "row_lsn_as_collected"]
    assert not surplus.is_shown
    assert "found and not expected" in text(surplus)
    at = surplus.others[0][0]
    foretold = replace(
        demonstration, expected=tuple(Expected(at, name, "it says so") for name in broken)
    )
    assert beside(foretold, history.shown, found).is_shown
    one_less = replace(foretold, expected=foretold.expected[:1])
    assert not beside(one_less, history.shown, found).is_shown
    unread = beside(foretold, history.shown, found, is_complete=False)
    assert not unread.is_shown


def test_a_claim_whose_rule_was_not_judged_is_not_shown() -> None:
    """What was seen counts only where the audit of the rules behind it agrees."""
    history, audit = run("log_status", 1)
    demonstration = DESIGN_SCENARIOS["log_status"]
    unjudged = replace(demonstration.claims[0], rules=("gtid_table_has_closed_files",))
    other = replace(demonstration, claims=(unjudged, *demonstration.claims[1:]))
    silent = replace(audit, cuts=())
    for judged, is_shown in ((audit, True), (silent, False)):
        (claim,) = beside(replace(other, claims=(unjudged,)), history.shown, judged).claims
        assert claim.seen
        assert claim.is_shown is is_shown
    assert "not judged" in text(beside(other, history.shown, silent))


def test_the_counts_are_those_of_the_cuts() -> None:
    """Held counts rows that keep the rule, broken counts findings."""
    _, audit = run("log_status", 1)
    held = sum("lsn_monotone" in cut.names(Outcome.HOLDS) for cut in audit.cuts)
    assert 0 < held < len(audit.cuts)
    claims = {claim.requirement: claim for claim in shown("log_status").claims}
    assert f"lsn_monotone held {held} times" == str(claims["F-1.2.4"].rules[1])
    for cut in audit.cuts:
        names = [*cut.names(Outcome.HOLDS), *cut.names(Outcome.BROKEN)]
        assert cut.evaluated == len(names)


def test_more_breaches_than_expected_are_told_beside_those() -> None:
    """What the document expects is no breach of its own."""
    assert str(RuleCount("lsn_order", 2, 5, 0, 2)) == (
        "lsn_order broken 3 times, held 2 times, broken 2 times as expected"
    )


def test_a_run_keeps_what_it_showed(tmp_path: Path) -> None:
    """A report that is rendered later from the run's directory has it."""
    assert ScenarioResult.load(tmp_path) is None
    said = shown("log_status")
    said.save(tmp_path)
    assert said == ScenarioResult.load(tmp_path)
    (tmp_path / FILE).write_text('{"name": 1}')
    with pytest.raises(MisuseError, match=r"scenario\.json"):
        ScenarioResult.load(tmp_path)


def test_a_demonstration_stands_alone() -> None:
    """A fault or a negative case beside it is refused, and so is an unknown name."""
    with pytest.raises(ValueError, match="purge"):
        with_options(Scenario(design_scenario="log_status", negatives=("purge",)))
    with pytest.raises(ValueError, match="lsn_frozen"):
        with_options(Scenario(design_scenario="log_status", fault="lsn_frozen"))
    with pytest.raises(ValueError, match="expected a scenario of"):
        simulate(Scenario(design_scenario="earthquake"))
