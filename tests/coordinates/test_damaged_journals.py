"""Journals of healthy fleets, damaged: whatever is missing, late or twice, nothing is found.

``python -m tests.coordinates.test_damaged_journals FIRST END`` runs a long sweep over seeds.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from random import Random

import pytest

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.events.journal import cut_into_blocks
from tallystick.coordinates.results import ObservationCode, Verdict
from tallystick.coordinates.rules.explanation import explain
from tallystick.producers.simulator.assemble import History, simulate
from tallystick.producers.simulator.faults import FAULTS
from tests.support.damage import GAPS, KINDS, damaged

SEEDS = (12, 26, 36, 52, 56, 66, 72, 80, 98, 130, 142, 148, 1002, 10084)
"""Healthy fleets; 10084 is a small one: no journal has three blocks of the largest size."""
FAULT_SEEDS = range(1, 2 * len(FAULTS), 26)


@lru_cache(maxsize=64)
def history_of(seed: int) -> History:
    """A seed's fleet, for all kinds of damage."""
    return simulate(scenario_of(seed))


def audited(kind: str, seed: int) -> AuditResult:
    """The damaged journals of a seed's fleet, audited; another damage for each kind and seed."""
    return audit_history(damaged(kind, history_of(seed).journals, Random(f"{kind} {seed}")))


def sentences(result: AuditResult) -> list[str]:
    """What was found."""
    return [f"{f.instance_id}: {f.rule}: {explain(f).sentence}" for f in result.findings]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_damage_of_a_healthy_fleets_journals_is_no_finding(kind: str, seed: int) -> None:
    """It leaves checks undecided, and is reported where records are missing."""
    result = audited(kind, seed)
    assert sentences(result) == []
    if kind in GAPS:
        assert ObservationCode.JOURNAL_GAP in {one.code for one in result.observations}
        assert result.verdict is Verdict.UNDECIDED


@pytest.mark.parametrize("seed", range(0, 60, 2))
def test_a_journal_cut_short_is_not_held_against_others(seed: int) -> None:
    """It lacks its end, as where its producer died: what that may have had is undecided."""
    rng = Random(f"cut short {seed}")
    journals = dict(history_of(seed).journals)
    name = rng.choice(list(journals))
    whole = journals[name]
    journals[name] = whole.take(0, int(len(whole) * rng.uniform(0.4, 0.95)))
    result = audit_history(
        block for each in journals.values() for block in cut_into_blocks(each, 512)
    )
    assert sentences(result) == []


@pytest.mark.parametrize("kind", ["block lost", "record lost", "new epoch"])
@pytest.mark.parametrize("seed", FAULT_SEEDS)
def test_a_fault_beside_damage_is_never_called_consistent(kind: str, seed: int) -> None:
    """It is found, or what is missing leaves the run undecided."""
    assert audited(kind, seed).verdict is not Verdict.CONSISTENT


def sweep(first: int, end: int) -> int:
    """Every kind of damage in every healthy seed of a range; returns how many had findings."""
    wrong = 0
    for seed in range(first + first % 2, end, 2):
        for kind in KINDS:
            found = sentences(audited(kind, seed))
            wrong += bool(found)
            for sentence in found:
                sys.stdout.write(f"seed {seed}, {kind}: {sentence}\n")
    return wrong


if __name__ == "__main__":
    sys.exit(bool(sweep(int(sys.argv[1]), int(sys.argv[2]))))
