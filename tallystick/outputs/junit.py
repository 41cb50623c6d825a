"""An audit's answers as JUnit XML, for whoever runs it: a suite a server, a case an rule.

A broken invariant is a failure, an undecided one is skipped with its reason, a server that gave no
row is an error. XML cannot hold control characters, not even escaped: they are made visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from xml.etree import ElementTree as ET

from tallystick.coordinates.results import Finding, Verdict
from tallystick.coordinates.rules.explanation import explain
from tallystick.expectations.neutral import printable
from tallystick.runs.rule_results import Answer

COLLECTION_CASE = "collection"
"""The case of each server that says whether it answered."""
_NOT_IN_XML = {ord("\ufffe"): "\\ufffe", ord("\uffff"): "\\uffff"}


@dataclass(frozen=True, slots=True)
class Suite:
    """What is told of one server.

    Attributes:
        name: Our key of the server.
        answers: What each invariant answered on it.
        error: Why it gave no row, empty when it gave one.
        notes: What else was seen, a line each.
    """

    name: str
    answers: Sequence[Answer]
    error: str = ""
    notes: Sequence[str] = ()


def junit_xml(suites: Sequence[Suite], *, at: datetime, elapsed_s: float) -> str:
    """Write a report of test cases.

    Args:
        suites: One for each server.
        at: When the check began.
        elapsed_s: How long it took, seconds.
    """
    root = ET.Element("testsuites", name="tallystick check", time=f"{elapsed_s:.3f}")
    for suite in suites:
        root.append(_suite(suite, at, elapsed_s))
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(each.get(key, "0")) for each in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode") + "\n"


def _suite(suite: Suite, at: datetime, elapsed_s: float) -> ET.Element:
    cases = [_case(suite.name, COLLECTION_CASE)]
    if suite.error:
        _tell(cases[0], "error", "log_status", suite.error, [])
    cases += [_answered(suite.name, answer) for answer in suite.answers]
    element = ET.Element(
        "testsuite",
        name=_safe(suite.name),
        timestamp=at.isoformat(timespec="seconds"),
        time=f"{elapsed_s:.3f}",
        tests=str(len(cases)),
        failures=str(_count(cases, "failure")),
        errors=str(_count(cases, "error")),
        skipped=str(_count(cases, "skipped")),
    )
    element.extend(cases)
    if suite.notes:
        ET.SubElement(element, "system-out").text = "\n".join(map(_safe, suite.notes))
    return element


def _answered(suite: str, answer: Answer) -> ET.Element:
    channel = "" if answer.channel is None else f"[{answer.channel or '(default)'}]"
    case = _case(suite, f"{answer.rule}{channel}")
    if answer.verdict is Verdict.INCONSISTENT:
        first = answer.findings[0]
        lines = [line for finding in answer.findings for line in _lines(finding)]
        _tell(case, "failure", first.severity.value, explain(first).sentence, lines)
    elif answer.verdict is Verdict.UNDECIDED:
        _tell(case, "skipped", "", f"undecided: {answer.reason}", [])
    return case


def _case(suite: str, name: str) -> ET.Element:
    # No time of its own: all rows are judged together.
    return ET.Element("testcase", classname=_safe(f"tallystick.{suite}"), name=_safe(name))


def _tell(case: ET.Element, tag: str, kind: str, message: str, lines: Sequence[str]) -> None:
    told = ET.SubElement(case, tag)
    told.set("message", _safe(message))
    if kind:
        told.set("type", _safe(kind))
    if lines:
        told.text = "\n".join(map(_safe, lines))


def _lines(finding: Finding) -> list[str]:
    channel = "" if finding.channel is None else f", channel {finding.channel or '(default)'}"
    return [
        f"{finding.instance_id}{channel}, at {finding.at}",
        explain(finding).sentence,
        f"observed, {explain(finding).observed_in}: {explain(finding).observed}",
        f"expected, {explain(finding).expected_in}: {explain(finding).expected}",
        f"witness: {finding.witness}",
    ]


def _safe(text: str) -> str:
    return printable(text).translate(_NOT_IN_XML)


def _count(cases: Sequence[ET.Element], tag: str) -> int:
    return sum(case.find(tag) is not None for case in cases)
