"""Findings and checks with only the values that a test is about."""

from __future__ import annotations

from typing import Any

from tallystick.coordinates.results import Check, Finding, Outcome, Severity
from tallystick.coordinates.rules.families import Lack
from tallystick.coordinates.rules.registry import reason

_GIVEN = reason("given_by_a_test", "{text}", Lack.NOTED)


def finding(**values: Any) -> Finding:
    """A finding; without a case of its rule it is shown by its data."""
    default: dict[str, Any] = {
        "rule": "executed_within_logged",
        "case": "given_by_a_test",
        "severity": Severity.CRITICAL,
        "instance_id": "a",
        "channel": None,
        "at": "c1",
        "witness": "w",
        "data": {},
        "collection_id": None,
        "epoch": 0,
        "sequence": 0,
        "ts": 1,
    }
    return Finding(**{**default, **values})


def checks(held: str = "", broken: str = "", undecided: str = "") -> tuple[Check, ...]:
    """Checks of a row: names with commas between; ``name: reason`` with semicolons between."""
    made = [Check(name, Outcome.HOLDS) for name in held.split(",") if name]
    made += [Check(name, Outcome.BROKEN) for name in broken.split(",") if name]
    for part in filter(None, undecided.split("; ")):
        name, _, reason = part.partition(": ")
        made.append(Check(name, Outcome.UNDECIDED, _GIVEN.code, {"text": reason}))
    return tuple(sorted(made, key=lambda check: check.rule))
