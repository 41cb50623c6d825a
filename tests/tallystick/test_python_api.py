"""docs/python_api.md is true: its examples run, and it names what the module has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tallystick import api

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "python_api.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
JOURNAL = (DOCS / "journal.md").read_text("utf-8").split("```json\n")[1].split("```")[0]
BROKEN = JOURNAL.replace('"binary_log_position":457', '"binary_log_position":426')
HEAVY = ("pandas", "pyspark", "great_expectations", "confluent_kafka", "typer", "pydantic", "rich")


def test_the_example_prints_what_the_page_says(tmp_path, monkeypatch, capsys):
    """Of the journal of docs/journal.md with the position that the page names."""
    (tmp_path / "journal.jsonl").write_text(BROKEN, "utf-8")
    monkeypatch.chdir(tmp_path)
    exec(EXAMPLES[0], {})  # noqa: S102  the page's own code
    (printed,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert printed == capsys.readouterr().out


def test_the_example_of_gtid_sets_holds():
    """It has assertions of its own."""
    assert "assert" in EXAMPLES[1]
    exec(EXAMPLES[1], {})  # noqa: S102


def test_the_page_names_what_the_module_has():
    """Each name has a row in the table, and nothing that is used is missing."""
    table = "".join(line for line in PAGE.splitlines() if line.startswith("|"))
    assert [name for name in api.__all__ if not re.search(rf"`{name}\b", table)] == []
    used = {
        name.strip()
        for example in EXAMPLES
        for names in re.findall(r"from tallystick.api import (.*)", example)
        for name in names.split(",")
    }
    assert used <= set(api.__all__)


def test_a_rule_that_is_left_out_is_one():
    """A misspelt name left nothing out, without an error."""
    with pytest.raises(ValueError, match="expected names of rules, found 'executed_within_loged'"):
        api.audit_history([], frozenset({"executed_within_loged"}))


def test_the_api_is_light():
    """A program that audits imports no command line, no Kafka and no Spark."""
    code = f"import sys, tallystick.api; print(sorted(set(sys.modules) & set({HEAVY})))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=DOCS.parent
    )
    assert "[]\n" == done.stdout


@pytest.fixture
def run_test(pytester, monkeypatch):
    """Run one test of a user with the plugin and no other."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(body: str, journal: str = JOURNAL):
        pytester.path.joinpath("journal.jsonl").write_text(journal, "utf-8")
        pytester.makepyfile(
            f"import json, pathlib, pytest\n"
            f"FILE = pathlib.Path({str(pytester.path / 'journal.jsonl')!r})\n"
            f"def test_it(tallystick_audit):\n    {body}\n"
        )
        return pytester.runpytest_inprocess("-p", "tallystick.pytest_plugin")

    return run


@pytest.mark.parametrize(
    "records",
    ["FILE", "FILE.read_text().splitlines()", "map(json.loads, FILE.open())"],
    ids=["file", "lines", "dicts"],
)
def test_the_fixture_takes_files_lines_and_dicts(run_test, records):
    """The same records, the same verdict."""
    run_test(f"tallystick_audit({records}).assert_consistent()").assert_outcomes(passed=1)


def test_the_failure_shows_each_finding(run_test):
    """As replay does: both sides and the witness, and nothing of the plugin's own code."""
    failed = run_test("tallystick_audit(FILE).assert_consistent()", BROKEN)
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(
        [
            "E * AssertionError: INCONSISTENT",
            "E *snapshot_position_on_group_boundary (*)",
            "E *executed_within_logged (*)",
            "E *  a, 0.000 s into the journal",
            "E *observed, *",
            "E *expected, *",
        ]
    )
    failed.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_the_pages_own_test_passes(pytester, monkeypatch):
    """The example of the fixture."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(EXAMPLES[2])
    pytester.runpytest_inprocess("-p", "tallystick.pytest_plugin").assert_outcomes(passed=1)


def test_missing_evidence_is_no_consistency(run_test):
    """A journal without a row is UNDECIDED, and says why."""
    first = JOURNAL.splitlines()[0]
    failed = run_test("tallystick_audit(FILE).assert_consistent()", first)
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["E * AssertionError: UNDECIDED", "E *nothing was collected*"])


@pytest.mark.parametrize(
    "body",
    [
        "assert {f.at for f in tallystick_audit(FILE).findings} == {'c1'}",
        "assert tallystick_audit(FILE).verdict.value == 'INCONSISTENT'",
        "assert len(tallystick_audit(FILE, disabled=['executed_within_logged']).findings) == 1",
        "assert tallystick_audit(FILE).result.events > 8",
        "pytest.raises(ValueError, tallystick_audit, [{'kind': 'x'}])",
        "pytest.raises(TypeError, tallystick_audit, 'journal.jsonl')",
    ],
)
def test_the_result_can_be_asked(run_test, body):
    """Findings, verdict, rules switched off, all of the result; unreadable records are errors."""
    run_test(body, BROKEN).assert_outcomes(passed=1)
