"""JUnit XML: what each server answered, in a form that CI reads and nothing breaks."""

from __future__ import annotations

from datetime import datetime, timezone
from xml.etree import ElementTree as ET

import pytest

from tallystick.coordinates.results import Finding, Severity, Verdict
from tallystick.outputs.junit import Suite, junit_xml
from tallystick.runs.rule_results import Answer
from tests.support import results

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
HOSTILE = "a<b>&\"'\x00\x1b[31m\n\r\t\x85\ud800\ufffe\uffff\u2028\u202e\U0001f600]]>"


def finding(**more) -> Finding:
    values = {
        "rule": "no_errant_gtids", "severity": Severity.ERROR, "instance_id": "r",
        "channel": None, "at": "here", "sentence": "One thing.", "observed": "x",
        "observed_in": "the row", "expected": "y", "expected_in": "the log", "witness": "w",
        "collection_id": "c", "epoch": 0, "sequence": 0, "ts": 1,
    }  # fmt: skip
    return results.finding(**{**values, **more})


def parsed(*suites: Suite) -> ET.Element:
    return read(junit_xml(suites, at=AT, elapsed_s=1.5))


def read(text: str) -> ET.Element:
    return ET.fromstring(text.encode())  # noqa: S314  a document of our own


def test_each_answer_is_a_case_of_its_server():
    """Held passes, broken fails with both halves, undecided is skipped with its reason."""
    root = parsed(
        Suite(
            "r",
            [
                Answer("lsn_order", None, Verdict.CONSISTENT),
                Answer("no_errant_gtids", None, Verdict.INCONSISTENT, findings=(finding(),)),
                Answer("relay_mirrors_source", "c1", Verdict.UNDECIDED, "not read"),
                Answer("retrieved_matches_relay", "", Verdict.CONSISTENT),
            ],
            notes=["LOG_STATUS_TEAR at c: lag"],
        ),
        Suite("s", [Answer("lsn_order", None, Verdict.CONSISTENT)]),
    )
    assert {"tests": "7", "failures": "1", "errors": "0", "skipped": "1"} == {
        key: root.get(key) for key in ("tests", "failures", "errors", "skipped")
    }
    first, second = root
    assert ("r", "5", "1", "1") == tuple(
        first.get(key) for key in ("name", "tests", "failures", "skipped")
    )
    assert ("s", "2", "0", "2026-01-02T03:04:05+00:00") == tuple(
        second.get(key) for key in ("name", "tests", "failures", "timestamp")
    )
    cases = {case.get("name"): case for case in first.iter("testcase")}
    assert ["collection", "lsn_order", "no_errant_gtids", "relay_mirrors_source[c1]",
            "retrieved_matches_relay[(default)]"] == list(cases)  # fmt: skip
    failure = cases["no_errant_gtids"].find("failure")
    assert ("One thing.", "error") == (failure.get("message"), failure.get("type"))
    assert {"observed, the row: x", "expected, the log: y", "witness: w"} <= set(
        failure.text.split("\n")
    )
    skipped = cases["relay_mirrors_source[c1]"].find("skipped")
    assert "undecided: not read" == skipped.get("message")
    assert "LOG_STATUS_TEAR at c: lag" == first.findtext("system-out")


def test_a_server_without_a_row_is_an_error():
    """CI must not take a server that was never asked for one that is well."""
    root = parsed(Suite("a", [], error="server 'a' (db:3306): refused"))
    (suite,) = root
    assert "1" == suite.get("errors") == root.get("errors")
    error = suite.find("testcase").find("error")
    assert "server 'a' (db:3306): refused" == error.get("message")


@pytest.mark.parametrize("place", ["name", "reason", "finding", "error", "note"])
def test_nothing_from_a_server_breaks_the_document(place):
    """Markup is escaped, and what XML cannot hold is made visible, wherever it stands."""
    hostile = finding(sentence=HOSTILE, observed=HOSTILE, witness=HOSTILE, channel=HOSTILE)
    suite = {
        "name": Suite(HOSTILE, []),
        "reason": Suite("a", [Answer("lsn_order", HOSTILE, Verdict.UNDECIDED, HOSTILE)]),
        "finding": Suite(
            "a", [Answer("no_errant_gtids", None, Verdict.INCONSISTENT, findings=(hostile,))]
        ),
        "error": Suite("a", [], error=HOSTILE),
        "note": Suite("a", [], notes=[HOSTILE]),
    }[place]
    text = junit_xml([suite], at=AT, elapsed_s=0)
    root = read(text)
    shown = " ".join(
        " ".join([*element.attrib.values(), element.text or ""]) for element in root.iter()
    )
    assert "a<b>&\"'" in shown
    assert r"\x00\x1b[31m\n\r\t\x85\ud800" in shown
    assert "\x1b" not in text
    assert "\u202e" not in text
