"""Every reason why a check is undecided, or something is noted, has evidence that produces it."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from tallystick.coordinates.rules import catalogue  # noqa: F401 - registers all reasons
from tallystick.coordinates.rules.registry import REASONS
from tests.support.evidence_reduced import reasons_in, reduced
from tests.support.rule_cases import all_cases

TESTS = Path(__file__).parents[1]
LINES = [
    [part.strip() for part in line.split("|")]
    for line in Path(__file__).with_name("reasons.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]
OF_CASES = {code: (case[0], case[1]) for code, *case in LINES if len(case) == 2}
"""By reason: the rule's case, and what is left out of its journal."""
OF_TESTS = [case[0] for _, *case in LINES if "::" in case[0]]
CASES = all_cases()


def test_each_reason_has_its_evidence() -> None:
    """A line of the list, or a test that names it; what is no reason any more has none."""
    listed = {code for code, *_ in LINES}
    assert len(listed) == len(LINES)
    assert listed <= set(REASONS)
    tests = "".join(path.read_text("utf-8") for path in sorted(TESTS.rglob("*.py")))
    assert [code for code in REASONS if code not in listed and f'"{code}"' not in tests] == []


@pytest.mark.parametrize("code", OF_CASES)
def test_a_case_with_something_left_out_produces_it(code: str) -> None:
    """With `nothing` left out the case itself lacks what is needed."""
    case, left_out = OF_CASES[code]
    journal = CASES[case.rstrip("!")].build(breaks=case.endswith("!"))
    records = json.loads(json.dumps(journal.records))
    assert code in reasons_in(reduced(records, left_out))


@pytest.mark.parametrize("path", sorted({test.partition("::")[0] for test in OF_TESTS}))
def test_the_tests_that_are_named_are_there(path: str) -> None:
    """A test that was renamed is renamed in the list too."""
    nodes = ast.walk(ast.parse((TESTS / path).read_text("utf-8")))
    known = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    named = {test.split("::")[-1] for test in OF_TESTS if test.startswith(f"{path}::")}
    assert named <= known
