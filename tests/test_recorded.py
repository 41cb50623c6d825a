"""The audit answers, and the simulator writes, what they did before; a change is seen and kept."""

from __future__ import annotations

import pytest

from tallystick.coordinates.logs import log_reader, redo_log
from tests.support.recorded import CASES, SCENARIOS, of_case, of_scenario, read

CASE_LINES = {tuple(line.split(" ", 2)[:2]): line for line in read("rule_cases.txt")}
HISTORY_LINES = read("histories.txt")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("side", ["inside", "outside"])
@pytest.mark.parametrize("in_columns", [False, True])
def test_a_rules_case_has_the_findings_with_the_values_that_it_had(
    monkeypatch, name, side, in_columns
):
    """Findings, their witnesses and data, observations and checks; of columns as of events."""
    if in_columns:
        monkeypatch.setattr(redo_log, "REDO_FAST_MIN", 1)
        monkeypatch.setattr(log_reader, "FAST_MIN", 1)
    assert CASE_LINES[name, side] == of_case(name, side == "outside")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_has_the_history_that_it_had(name):
    """Byte for byte, and its rows are judged as before: no rule is left out unnoticed."""
    assert [line for line in HISTORY_LINES if line.startswith(f"{name}: ")] == of_scenario(name)


def test_nothing_is_recorded_that_is_not_there():
    """A case or a scenario that was taken out leaves no line."""
    assert {name for name, _ in CASE_LINES} == set(CASES)
    assert {line.partition(":")[0] for line in HISTORY_LINES} == set(SCENARIOS)
