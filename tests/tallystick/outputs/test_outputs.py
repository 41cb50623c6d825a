"""The outputs as a command finds them: by name, to a file or to standard output."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from reports import broken, finding, healthy, hostile, observation, result

from tallystick import outputs
from tallystick.coordinates.results import Check, Outcome, Severity, SubjectCheck, Verdict
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.explanation import explain
from tallystick.errors import MisuseError
from tallystick.outputs import Request, html, junit, requests_of, text, write_all
from tallystick.outputs._view import undecided_rules
from tallystick.outputs.json import document_of
from tallystick.runs.tables import read_run
from tallystick.streaming.delta_table import read
from tallystick.streaming.tables import CUTS

STANDARD = {"text", "json", "junit", "html", "tables", "kafka"}
LOCAL = sorted(set(outputs.NAMES) - {"kafka"})


def test_every_module_is_an_output():
    """A module that is added is there, and nothing else has to name it."""
    assert set(outputs.NAMES) >= STANDARD
    assert all(callable(outputs._output(name).write) for name in outputs.NAMES)


@pytest.mark.parametrize("build", [healthy, broken, hostile, result])
@pytest.mark.parametrize("name", LOCAL)
def test_every_output_takes_every_result(tmp_path, name, build):
    """A healthy fleet, a broken one, a hostile one, and none at all."""
    outputs._output(name).write(build(), str(tmp_path / "out"))
    assert (tmp_path / "out").exists()


@pytest.mark.parametrize("name", LOCAL)
def test_a_target_that_cannot_be_written_is_named(tmp_path, name):
    """One sentence instead of a trace."""
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "out"
    with pytest.raises(MisuseError, match="cannot be written"):
        outputs._output(name).write(broken(), str(target))


def test_text_goes_to_standard_output_unless_something_else_does():
    """So a file beside it costs no flag more."""
    assert [Request("text", "-")] == requests_of([])
    assert [Request("text", "-"), Request("junit", "x=y")] == requests_of(["junit=x=y"])
    assert [Request("json", "-")] == requests_of(["json"])
    assert [Request("html", "-"), Request("text", "t")] == requests_of(["html", "text=t"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["jsno"], "did you mean 'json'"),
        (["_view"], f"expected {', '.join(outputs.NAMES)}"),
        (["json", "junit=-"], "json and junit cannot both go to standard output"),
        (["json=a", "html", "junit=a"], "json and junit cannot both go to 'a'"),
        (["json=+a", "junit=./+a"], r"json and junit cannot both go to '\+a'"),
    ],
)
def test_misuse_is_one_sentence(words, message):
    """Before anything is run."""
    with pytest.raises(MisuseError, match=message):
        requests_of(words)


@pytest.mark.parametrize("build", [healthy, broken, hostile])
def test_the_json_document_leaves_nothing_out(build):
    """All findings, observations and the newest cuts, as written."""
    made = build()
    document = json.loads(json.dumps(document_of(made)))
    assert document["verdict"] == made.verdict.value
    assert [f["observed"] for f in document["findings"]] == [
        explain(finding).observed for finding in made.findings
    ]
    repeats = sum(len(finding["repeats"]) for finding in document["findings"])
    assert len(made.found) == len(made.findings) + repeats
    assert len(document["newest_cuts"]) == len(made.collections[-1])
    assert document["counts"]["findings"] == len(made.findings)
    assert document["rules"].keys() == {cut.instance_id for cut in made.cuts} | {
        finding.instance_id for finding in made.found
    }


def test_every_key_of_the_json_document_is_documented():
    """Also those of findings, of observations, and of rules."""
    page = (Path(__file__).parents[3] / "docs" / "outputs.md").read_text("utf-8")
    document = document_of(broken())
    parts = [document["findings"][0], document["observations"][0], document["rules"]["source-1"][0]]
    keys = set(document).union(*parts, document["collections"][0], document["counts"])
    assert {key for key in keys if f"`{key}`" not in page} == set()


def test_no_output_calls_the_newest_collection_of_an_inconsistent_fleet_consistent():
    """The rows are, and stay so: the finding is about events after them."""
    rows = healthy(3).cuts
    late = finding(rule="gtid_logged_once", collection_id=None, ts=rows[-1].ts + 1)
    made = result(rows, found=(late,))
    assert {cut.verdict for cut in made.newest_cuts} == {"CONSISTENT"}
    document = document_of(made)
    assert document["collections"][-1]["verdict"] == document["verdict"] == "INCONSISTENT"
    broken_rules = {
        (name, one["rule"])
        for name, found in document["rules"].items()
        for one in found
        if one["verdict"] == "INCONSISTENT"
    }
    assert {(late.instance_id, late.rule)} == broken_rules
    page = re.sub(r"<[^>]+>", " ", html.render(made))
    assert '<p class="word">INCONSISTENT</p>' in html.render(made)
    cards = page[page.index("Coordinates") :]
    assert re.search(rf"{late.instance_id}\s+INCONSISTENT", cards)
    assert next(text.lines(made))[0] == "INCONSISTENT"
    assert 'failures="1"' in junit._render(made).split("<testsuite ")[0]


def test_an_undecided_result_has_its_reasons_in_json():
    """A script need not guess why."""
    gap = observation(is_undecided=True, reason="4 blocks are missing.")
    document = document_of(replace(healthy(), observations=(gap, observation())))
    assert ("UNDECIDED", 3) == (document["verdict"], document["exit_status"])
    assert ["source-1: 4 blocks are missing."] == document["undecided"]


def test_a_rule_is_listed_as_undecided_with_its_reason_where_it_is():
    """On no other instance, and none that holds or is broken."""
    made = broken()
    listed = {
        (reason, rule, name)
        for reason, rules in undecided_rules(made)
        for rule, names in rules.items()
        for name in names
    }
    assert listed == {
        (one.reason, one.rule, name)
        for name, results in made.rule_results.items()
        for one in results
        if one.verdict is Verdict.UNDECIDED
    }
    assert len(listed) > 1
    assert document_of(replace(made, elapsed_s=1.23456))["elapsed_s"] == 1.235


def test_reasons_are_in_the_order_of_the_gravest_rule_that_they_leave_undecided():
    """The text shows some of them only."""
    of_rules = {
        Severity.CRITICAL: "source_unknown",
        Severity.ERROR: "retrieved_unknown",
        Severity.WARNING: "source_not_reached",
    }
    count = Counter[Severity]()
    checks = []
    for rule in RULES.values():
        count[rule.severity] += 1
        # The gravest reason is of the fewest rules.
        if count[rule.severity] <= 1 + [*Severity].index(rule.severity):
            check = Check(rule.name, Outcome.UNDECIDED, of_rules[rule.severity])
            checks.append(SubjectCheck("source-1", None, "c1", 1, check))
    found = undecided_rules(replace(healthy(), checks=checks))
    severities = [{RULES[rule].severity for rule in rules} for _, rules in found]
    assert severities == [{one} for one in Severity]


def test_tables_are_read_back_as_the_same_result(tmp_path):
    """What one run wrote, a report shows."""
    made = broken()
    write_all(made, [Request("tables", str(tmp_path / "tables"))])
    again = read_run(tmp_path, command="report", title="", begun_at=made.begun_at)
    assert (made.verdict, made.findings, len(made.cuts)) == (
        again.verdict,
        again.findings,
        len(again.cuts),
    )


def test_tables_of_another_run_are_left_as_they_are(tmp_path):
    """A report of the directory would have all rows of both; the same command's are replaced."""
    made, tables = broken(), Request("tables", str(tmp_path / "tables"))
    write_all(made, [tables])
    write_all(made, [tables])
    assert len(made.cuts) == len(read(tmp_path / "tables", CUTS))
    with pytest.raises(MisuseError, match="has the tables of another run: expected a new"):
        write_all(replace(made, command="another"), [tables])
    assert len(made.cuts) == len(read(tmp_path / "tables", CUTS))
