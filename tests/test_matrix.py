"""The matrix: each fault breaks exactly its rules, and no healthy history breaks any."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from tallystick.campaign import (
    SeedResult,
    judge_seed,
    run_seed,
    scenario_of,
    simulate_command,
)
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.results import Verdict
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.producers.simulator.assemble import History, simulate
from tallystick.producers.simulator.faults import FAULTS
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.negatives import NEGATIVES

_RUNS = 2
"""Fleets in which each negative case is tried."""


# The tests of one fault run one after another (its scope is the module): they share its history.
@functools.lru_cache(maxsize=1)
def _history(fault: str) -> History:
    """A faulty fleet of the campaign; another for every fault. Pairs are in test_cures."""
    return simulate(scenario_of(2 * FAULTS[fault].number + 1, [fault]))


@functools.lru_cache(maxsize=1)
def _row(fault: str) -> SeedResult:
    """A row of the matrix: what the audit says of a fault."""
    return judge_seed(_history(fault))


_FAULT_OF_RULE = {
    rule: next((name for name, fault in FAULTS.items() if rule in fault.must_fire), "none")
    for rule in RULES
}


def _explain(result: SeedResult) -> str:
    return "\n".join([simulate_command(result.scenario), *result.sentences])


@pytest.mark.parametrize("fault", FAULTS, scope="module")
def test_a_fault_breaks_exactly_the_rules_of_the_catalogue(fault: str) -> None:
    """Nothing that it breaks is overlooked, and nothing else is blamed."""
    result = _row(fault)
    assert result.injected, _explain(result)
    assert result.fired == FAULTS[fault].must_fire, _explain(result)


@pytest.mark.parametrize(
    "fault",
    [name for name, one in FAULTS.items() if any(RULES[r].scope == "X" for r in one.must_fire)],
    scope="module",
)
def test_what_the_end_of_a_history_shows_is_not_consistent_if_it_goes_on(fault: str) -> None:
    """Cut where a finding has its evidence: what waits for later records is undecided."""
    blocks = list(_history(fault).blocks(512))
    for ts in {finding.ts for finding in audit_history(blocks).findings[:2]}:
        sizes = [int((block.columns["ts"] <= ts).sum()) for block in blocks]
        cut = [block.take(0, size) for block, size in zip(blocks, sizes, strict=True) if size]
        if audit_history(cut).verdict is Verdict.INCONSISTENT:
            assert audit_history(cut, goes_on=True).verdict is not Verdict.CONSISTENT


@pytest.mark.parametrize("run", range(_RUNS))
@pytest.mark.parametrize("negative", NEGATIVES)
def test_a_legal_history_that_looks_wrong_breaks_nothing(negative: str, run: int) -> None:
    """A negative case is no fault."""
    result = run_seed(Scenario(seed=2_000 + run, negatives=(negative,)))
    assert not result.fired, _explain(result)


@pytest.mark.parametrize("seed", [16, 38])
def test_a_crash_after_a_restart_that_kept_relay_logs_breaks_nothing(seed: int) -> None:
    """By position the start after a crash throws them away: nothing is executed again."""
    negatives = ("restart_replica", "xa", "crash_in_zone")
    options = {"gtid_mode": "OFF_PERMISSIVE", "auto_position": False}
    result = run_seed(Scenario(seed=seed, negatives=negatives, **options))
    assert not result.fired, _explain(result)


@pytest.mark.parametrize(
    ("seed", "options"),
    [
        # A session names the GTID that the applier commits while it waits in front of a zone.
        (
            1438,
            {
                "topology": "pair",
                "writes_per_second": 15.0,
                "negatives": ("hole_filled_on_every_server", "recovery_from_replica"),
            },
        ),
        # A source that is held back has not filled the hole: its replicas do not either.
        (
            668,
            {
                "profile": "wl9452",
                "topology": "pair",
                "writes_per_second": 15.0,
                "negatives": ("backup_session_killed", "hole_filled_on_every_server"),
            },
        ),
        # The source keeps what a replica needs whose repositories were refused.
        (
            1852,
            {
                "profile": "wl9452",
                "topology": "pair",
                "writes_per_second": 20.0,
                "acts": False,
                "max_binlog_size": 4096,
                "negatives": ("backup_bails_out", "repositories_refused"),
            },
        ),
    ],
)
def test_negatives_together_break_nothing(seed: int, options: dict[str, Any]) -> None:
    """What campaigns found."""
    result = run_seed(Scenario(seed=seed, **options))
    assert not result.fired, _explain(result)


def test_every_rule_is_broken_by_a_fault() -> None:
    """No rule is registered that nothing shows to work."""
    broken = {name for fault in FAULTS.values() for name in fault.must_fire}
    assert broken == set(RULES)


@pytest.mark.parametrize(
    ("fault", "rule"),
    [(fault, rule) for rule, fault in _FAULT_OF_RULE.items()],
    scope="module",
)
def test_the_matrix_fails_without_any_one_rule(fault: str, rule: str) -> None:
    """Switched off, a rule is missing from the row of its fault, and no other replaces it."""
    complete = _row(fault)
    result = judge_seed(_history(fault), disabled=frozenset({rule}))
    assert rule in complete.fired, _explain(complete)
    assert rule not in result.fired
    assert result.missed == {rule}, _explain(result)
