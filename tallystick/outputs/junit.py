"""The result as JUnit XML, for whoever runs it in CI: a suite an instance, a case a rule.

A broken rule is a failure. What leaves the verdict undecided is an error with its reasons, so a
run without failures and errors is CONSISTENT. Where the exit status is of the verdict now, what
counts in the verdict of the period alone is skipped: findings whose incidents are over or
acknowledged, and evidence that was missing earlier. XML cannot hold control characters, not even
escaped: they are made visible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from tallystick.coordinates.results import Finding, IncidentState, Verdict
from tallystick.coordinates.rules.explanation import observation_text
from tallystick.expectations.neutral import printable
from tallystick.outputs import document
from tallystick.outputs._groups import FindingGroup, groups_of
from tallystick.outputs._view import channel_name, doubts
from tallystick.runs.result import RunResult
from tallystick.runs.rule_results import RuleResult

_NOT_IN_XML = {ord("\ufffe"): "\\ufffe", ord("\uffff"): "\\uffff"}


def _render(result: RunResult) -> str:
    root = ET.Element("testsuites", name=f"tallystick {result.command}")
    root.append(_suite(result, "run", [_run_case(result)], []))
    with_row = {cut.instance_id for cut in result.cuts}
    for instance in sorted({*result.rule_results, *result.servers, *with_row}):
        cases = [_collection_case(result, instance)]
        cases += [
            _rule_case(result, instance, one) for one in result.rule_results.get(instance, ())
        ]
        seen = [o for o in result.observations if o.instance_id == instance]
        notes = [f"{o.code.value} at {o.at}: {observation_text(o)}" for o in seen]
        root.append(_suite(result, instance, cases, notes))
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    root.set("time", f"{result.elapsed_s:.3f}")
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode") + "\n"


write = document(_render)


def _suite(
    result: RunResult, name: str, cases: Sequence[ET.Element], notes: Sequence[str]
) -> ET.Element:
    suite = ET.Element(
        "testsuite",
        name=_safe(name),
        timestamp=result.begun_at.isoformat(timespec="seconds"),
        time=f"{result.elapsed_s:.3f}",
        tests=str(len(cases)),
        failures=str(_count(cases, "failure")),
        errors=str(_count(cases, "error")),
        skipped=str(_count(cases, "skipped")),
    )
    suite.extend(cases)
    if notes:
        ET.SubElement(suite, "system-out").text = "\n".join(map(_safe, notes))
    return suite


def _run_case(result: RunResult) -> ET.Element:
    """Whether the run could decide: an error with the reasons when it is undecided."""
    case = _case("run", "decided")
    if _judged(result) is Verdict.UNDECIDED:
        reasons = list(doubts(result)) or ["evidence is missing"]
        _add(case, "error", "UNDECIDED", f"undecided: {reasons[0]}", reasons)
    return case


def _collection_case(result: RunResult, instance: str) -> ET.Element:
    """Whether the instance returned a row each time it was asked."""
    case = _case(instance, "collection")
    rows = [cut for cut in result.cuts if cut.instance_id == instance and cut.channel is None]
    missing = [f"{c.collection_id}: {c.error_text or c.answer}" for c in rows if c.answer != "row"]
    server = result.servers.get(instance)
    if not rows:
        missing = [server.problem or "no row" if server is not None else "no row"]
    if missing:
        _add_undecided(result, case, missing[0], missing)
    unread = [] if server is None else [f"not read: {p}: {w}" for p, w in server.unread.items()]
    if unread:
        ET.SubElement(case, "system-out").text = "\n".join(map(_safe, unread))
    return case


def _rule_case(result: RunResult, instance: str, one: RuleResult) -> ET.Element:
    channel = "" if one.channel is None else f"[{channel_name(one.channel)}]"
    case = _case(instance, f"{one.rule}{channel}")
    counted = [finding for finding in one.findings if _counts(result, finding)]
    if one.verdict is Verdict.INCONSISTENT and not counted:
        _add(case, "skipped", "", "its incidents are over or acknowledged", [])
    elif one.verdict is Verdict.INCONSISTENT:
        groups = groups_of(result, counted)
        text = [line for group in groups for line in _lines(group)]
        _add(case, "failure", counted[0].severity.value, groups[0].texts.sentence, text)
    elif one.is_optional:
        _add(case, "skipped", "", f"undecided: {one.reason}", [])
    elif one.verdict is Verdict.UNDECIDED:
        _add_undecided(result, case, f"undecided: {one.reason}", [])
    return case


def _judged(result: RunResult) -> Verdict:
    """The verdict that the exit status is of."""
    return result.verdict if result.fail_on == "ever" else result.verdict_now


def _counts(result: RunResult, finding: Finding) -> bool:
    """Whether a finding counts in that verdict."""
    incident = result.incident_of(finding)
    return result.fail_on == "ever" or incident is None or incident.state is IncidentState.OPEN


def _add_undecided(result: RunResult, case: ET.Element, message: str, lines: Sequence[str]) -> None:
    if result.fail_on == "ever" or result.verdict_now is Verdict.UNDECIDED:
        _add(case, "error", "UNDECIDED", message, lines)
    else:
        _add(case, "skipped", "", message, lines)


def _case(suite: str, name: str) -> ET.Element:
    # No time of its own: all rows are judged together.
    return ET.Element("testcase", classname=_safe(f"tallystick.{suite}"), name=_safe(name))


def _add(case: ET.Element, tag: str, kind: str, message: str, lines: Sequence[str]) -> None:
    element = ET.SubElement(case, tag, message=_safe(message))
    if kind:
        element.set("type", _safe(kind))
    if lines:
        element.text = "\n".join(map(_safe, lines))


def _lines(group: FindingGroup) -> Iterator[str]:
    first, texts = group.first, group.texts
    channel = "" if first.channel is None else f", channel {channel_name(first.channel)}"
    yield f"{' and '.join(group.instances)}{channel}, {group.period}, at {texts.at}"
    yield texts.sentence
    yield f"observed, {texts.observed_in}: {texts.observed}"
    yield f"expected, {texts.expected_in}: {texts.expected}"
    yield f"witness: {group.witness}"
    yield from (f"on {on}: {statement}" for on, statement in texts.verify)
    if texts.remedy:
        yield f"to do: {texts.remedy}"


def _safe(text: str) -> str:
    return printable(text).translate(_NOT_IN_XML)


def _count(cases: Sequence[ET.Element], tag: str) -> int:
    return sum(case.find(tag) is not None for case in cases)
