"""docs/expectations.md: its examples run, and its parameters are those of the classes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tallystick.expectations.rules import ExpectPurgedWithinExecuted

PAGE = (Path(__file__).parents[2] / "docs" / "expectations.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_runs(example):
    """One for each family: a row, the checks, the collection; each asserts what it shows."""
    assert "assert" in example
    exec(compile(example, "docs/expectations.md", "exec"), {})  # noqa: S102  # our own page


def test_there_is_an_example_of_each_family():
    """Three families."""
    assert len(EXAMPLES) == 3


def test_every_parameter_is_documented():
    """The fields of a class, columns under one heading, are in the table of parameters."""
    parameters = set(ExpectPurgedWithinExecuted.success_keys)
    columns = {"gtid_executed_column", "gtid_purged_column"}
    assert columns < parameters
    for parameter in parameters - columns:
        assert f"| `{parameter}` |" in PAGE
