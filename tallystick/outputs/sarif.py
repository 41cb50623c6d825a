"""The findings as SARIF 2.1.0, for whatever shows results of analyses (code scanning, dashboards).

Section numbers are those of the standard. A rule of the registry is a reportingDescriptor (3.49), a
finding a result (3.27), its instance and channel a logical location (3.33); its ``finding_id`` is
the fingerprint (3.27.17) by which two runs have the same result. What is undecided is a
notification of the run (3.20.21), which then was not successful (3.20.14).
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

from tallystick import __version__
from tallystick.coordinates.results import Finding, Severity, Verdict
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.describe import written_in
from tallystick.coordinates.rules.explanation import explain
from tallystick.coordinates.rules.registry import Rule
from tallystick.outputs import document
from tallystick.outputs._view import channel_name, doubts
from tallystick.runs.result import RunResult

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {Severity.CRITICAL: "error", Severity.ERROR: "error", Severity.WARNING: "warning"}
FINGERPRINT = "tallystick/v1"


def _render(result: RunResult) -> str:
    names = [*RULES, *sorted({f.rule for f in result.findings} - RULES.keys())]
    is_decided = result.verdict is not Verdict.UNDECIDED
    run = {
        "tool": {
            "driver": {
                "name": "tallystick",
                "version": __version__,
                "rules": [_rule(name, RULES.get(name)) for name in names],
            }
        },
        "invocations": [
            {
                "executionSuccessful": is_decided,
                "startTimeUtc": _utc(result.begun_at),
                "endTimeUtc": _utc(result.ended_at),
                "exitCode": result.exit_code.value,
                "toolExecutionNotifications": [
                    {"level": "warning", "message": {"text": f"undecided: {why}"}}
                    for why in doubts(result)
                ],
            }
        ],
        "results": [_result(finding, names.index(finding.rule)) for finding in result.findings],
        "properties": {
            "verdict": result.verdict.value,
            "verdict_now": result.verdict_now.value,
            "title": result.title,
            **result.counts,
        },
    }
    sarif = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(sarif, separators=(",", ":")) + "\n"


write = document(_render)


def _rule(name: str, rule: Rule | None) -> dict[str, Any]:
    """A rule with its help text; of one that this version does not know, its name."""
    if rule is None:
        return {"id": name}
    sources = "; ".join(written_in(rule))
    help_text = f"{rule.remedy}\n\nRunbook: {rule.family.place}\n\nWritten in: {sources}"
    return {
        "id": name,
        "shortDescription": {"text": rule.claim},
        "fullDescription": {"text": rule.why},
        "help": {"text": help_text},
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
    }


def _result(finding: Finding, rule_index: int) -> dict[str, Any]:
    texts = explain(finding)
    sides = (
        f"observed, {texts.observed_in}: {texts.observed}",
        f"expected, {texts.expected_in}: {texts.expected}",
        f"witness: {finding.witness}",
        *(f"on {on}: {statement}" for on, statement in texts.verify),
        f"to do: {texts.remedy}",
    )
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": LEVELS[finding.severity],
        "message": {"text": "\n".join((texts.sentence, *sides))},
        "locations": [{"logicalLocations": [_location(finding)]}],
        "fingerprints": {FINGERPRINT: finding.finding_id},
        "properties": {"at": finding.at, "case": finding.case, "data": finding.data},
    }


def _location(finding: Finding) -> dict[str, str]:
    if finding.channel is None:
        names = {"name": finding.instance_id, "fullyQualifiedName": finding.instance_id}
        return {**names, "kind": "instance"}
    channel = channel_name(finding.channel)
    qualified = f"{finding.instance_id}/{channel}"
    return {"name": channel, "fullyQualifiedName": qualified, "kind": "channel"}


def _utc(at: datetime) -> str:
    return at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
