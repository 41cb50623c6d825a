"""SARIF: what the standard asks of each object, and what a reader needs of a finding."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from reports import broken, finding, healthy, hostile, observation, result

from tallystick.coordinates.rules.catalogue import RULES
from tallystick.outputs.sarif import _render


def run_of(made) -> dict:
    log = json.loads(_render(made))
    assert ("2.1.0", 1) == (log["version"], len(log["runs"]))
    return log["runs"][0]


@pytest.mark.parametrize("build", [healthy, broken, hostile, result])
def test_each_finding_is_a_result_of_its_rule(build):
    """Level, message, rule, where it is, and a fingerprint by which two runs are compared."""
    made = build()
    run = run_of(made)
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules) >= len(RULES)
    assert len(made.findings) == len(run["results"])
    for found, one in zip(made.findings, run["results"], strict=True):
        assert found.rule == one["ruleId"] == rules[one["ruleIndex"]]["id"]
        assert one["level"] in {"error", "warning"}
        assert f"witness: {found.witness}" in one["message"]["text"]
        assert {"tallystick/v1": found.finding_id} == one["fingerprints"]


def test_instance_and_channel_are_logical_locations():
    """There is no file to point to."""
    made = replace(
        healthy(), found=(finding(), finding(at="x", channel=""), finding(at="y", channel="c"))
    )
    locations = [one["locations"][0]["logicalLocations"][0] for one in run_of(made)["results"]]
    assert [
        ("instance", "replica-2"), ("channel", "replica-2/(default)"), ("channel", "replica-2/c")
    ] == [(each["kind"], each["fullyQualifiedName"]) for each in locations]  # fmt: skip


def test_every_rule_has_its_help():
    """Claim, why it holds, what to do and where that is written, of the registry."""
    for rule in run_of(healthy())["tool"]["driver"]["rules"]:
        known = RULES[rule["id"]]
        assert (known.claim, known.why) == (
            rule["shortDescription"]["text"],
            rule["fullDescription"]["text"],
        )
        assert known.remedy in rule["help"]["text"]


def test_an_undecided_run_was_not_successful():
    """With the reason as a notification; no results alone would look like health."""
    gap = observation(is_undecided=True, reason="4 lost")
    (invocation,) = run_of(replace(healthy(), observations=(gap,)))["invocations"]
    assert (False, 3) == (invocation["executionSuccessful"], invocation["exitCode"])
    (notification,) = invocation["toolExecutionNotifications"]
    assert "undecided: source-1: 4 lost" == notification["message"]["text"]
    (invocation,) = run_of(healthy())["invocations"]
    assert (True, []) == (
        invocation["executionSuccessful"],
        invocation["toolExecutionNotifications"],
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", invocation["startTimeUtc"])
