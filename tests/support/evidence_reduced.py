"""Evidence with something left out of it, and which reasons an audit names then."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tests.support.journals import Record, show


def reasons(result: AuditResult) -> set[str]:
    """The codes of all reasons: of checks, of rows and of observations."""
    checks = [check for cut in result.cuts for check in cut.checks]
    checks += [one.check for one in result.checks]
    show(result.findings, result.observations, checks)
    found = {check.reason for check in checks} | {cut.reason for cut in result.cuts}
    return found | {one.reason for one in result.observations}


def reasons_in(records: Iterable[Record]) -> set[str]:
    """Those of a journal of JSON Lines."""
    lines = [json.dumps(record) for record in records]
    return reasons(audit_history(blocks_from_lines(lines)))


def reduced(records: list[Record], left_out: str) -> list[Record]:
    """The records without something.

    Args:
        records: A journal of one instance.
        left_out: ``nothing``; ``KIND``, all records of a kind; ``KIND.KEY.KEY``, a key of all
            records of a kind; ``#N``, one record; ``gap N``, what is before a record.
    """
    if left_out == "nothing":
        return records
    if left_out.startswith("#"):
        number = int(left_out[1:])
        return records[:number] + records[number + 1 :]
    if left_out.startswith("gap "):
        number = int(left_out[4:])
        gap = {"kind": "gap"} | {key: records[number][key] for key in ("instance", "ts")}
        return [*records[:number], gap, *records[number:]]
    kind, *keys = left_out.split(".")
    if not keys:
        return [record for record in records if record["kind"] != kind]
    return [_without(record, keys) if record["kind"] == kind else record for record in records]


def _without(value: Record, keys: list[str]) -> Record:
    first, *rest = keys
    if first not in value:
        return value
    if not rest:
        return {key: each for key, each in value.items() if key != first}
    inner = value[first]
    return {**value, first: _without(inner, rest)} if isinstance(inner, dict) else value
