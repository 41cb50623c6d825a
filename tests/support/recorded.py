"""What the audit answers on known journals, and what the simulator writes for known scenarios.

``python -m tests.support.catalogue_pages`` writes ``tests/recorded`` anew; its difference shows
what a change of the code changes in results and in histories.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from zlib import crc32

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.faults import FAULTS
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.negatives import with_options
from tests.support.journals import audit
from tests.support.rule_cases import all_cases

RECORDED = Path(__file__).parents[1] / "recorded"

CASES = all_cases()

SCENARIOS: dict[str, Scenario] = (
    {
        "demo": Scenario(seed=1, topology="demo", duration_ms=1_500),
        "wl9452": Scenario(seed=2, topology="chain", profile="wl9452", duration_ms=1_500),
        "small_files": Scenario(seed=3, topology="multi_source", max_binlog_size=4_096),
        "diamond": Scenario(seed=4, topology="diamond", duration_ms=1_500, writes_per_second=12.0),
        "workers": Scenario(
            seed=5, topology="star", applier_workers=4, preserve_commit_order=False
        ),
        "positions": Scenario(seed=6, topology="pair", gtid_mode="OFF", auto_position=False),
    }
    | {
        name: with_options(Scenario(seed=number, negatives=(name,)))
        for number, name in enumerate(
            (
                "commit_holes",
                "receiver_inside_group",
                "reset_replica",
                "relay_log_recovery",
                "crash_source",
                "crash_replica",
                "failover",
                "xa",
                "flush_failure",
                "gtid_persister",
                "persister_crash",
                "persister_without_binlog",
                "clone_then_failover",
                "clone_xa",
                "crash_with_gaps",
                "crash_between_steps",
                "repositories_migrated",
                "recovery_from_replica",
                "backup_locks",
                "redo_lost_in_power_cut",
            )
        )
    }
    | {
        name: scenario_of(2 * fault.number + 1, [name])
        for name, fault in FAULTS.items()
        if any(RULES[rule].scope == "X" for rule in fault.must_fire)
    }
)
"""Healthy fleets, and those with a fault that rules between instances find."""


def of_case(name: str, breaks: bool) -> str:
    """What is found in a rule's case, with a sum of it, of observations and the rule's checks."""
    result = audit(CASES[name].build(breaks=breaks))
    rule = name.partition("__")[0]
    checks = [check.to_dict() for cut in result.cuts for check in cut.checks if check.rule == rule]
    reports = [one.to_dict() for one in (*result.findings, *result.observations)]
    found = [f"{one.rule}:{one.case} at {one.at}: {one.witness}" for one in result.findings]
    side = "outside" if breaks else "inside"
    return "; ".join([f"{name} {side} {_sum([reports, checks]):08x}", *found]).replace("\n", "")


def of_scenario(name: str) -> list[str]:
    """How many records of which kind a history has, what is found, and how often rules held."""
    history = simulate(SCENARIOS[name])
    by_kind: dict[str, list[str]] = {}
    for block in history.journals.values():
        for line in block_to_lines(block):
            by_kind.setdefault(json.loads(line)["kind"], []).append(line)
    result = audit_history(history.blocks(512))
    checks = [check for cut in result.cuts for check in cut.checks]
    checks += [one.check for one in result.checks]
    outcomes = Counter(f"{one.rule} {one.outcome.value} {one.reason}".strip() for one in checks)
    return [
        *(
            f"{name}: {len(lines)} records {kind} {_sum(lines):08x}"
            for kind, lines in sorted(by_kind.items())
        ),
        *(
            f"{name}: found {one.rule}:{one.case} {one.instance_id} {_sum(one.to_dict()):08x}"
            for one in result.findings
        ),
        *(f"{name}: {count} times {outcome}" for outcome, count in sorted(outcomes.items())),
    ]


def _sum(value: Any) -> int:
    return crc32(json.dumps(value, sort_keys=True).encode())


def cases() -> list[str]:
    """A line for each case, inside and outside of its rule's boundary."""
    return [of_case(name, breaks) for name in sorted(CASES) for breaks in (False, True)]


def histories() -> list[str]:
    """The lines of all scenarios."""
    return [line for name in SCENARIOS for line in of_scenario(name)]


FILES = {"rule_cases.txt": cases, "histories.txt": histories}


def write() -> None:
    """Write all files anew."""
    for name, make in FILES.items():
        (RECORDED / name).write_text("".join(f"{line}\n" for line in make()), "utf-8")


def read(name: str) -> list[str]:
    """The lines of a file."""
    return (RECORDED / name).read_text("utf-8").splitlines()
