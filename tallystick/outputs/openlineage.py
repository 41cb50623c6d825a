"""The run as OpenLineage events: what was asserted of each instance, and whether it held.

A run is a run of the job ``tallystick.COMMAND``, with a START and a COMPLETE event; the instances
are its input datasets. Their facet of data quality assertions has the rules that were decided.
An assertion is true or false there, so what is undecided is in a facet of the run, with why.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from tallystick import __version__
from tallystick.coordinates.results import Severity, Verdict
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.explanation import explain
from tallystick.errors import MisuseError
from tallystick.extras import require_extra
from tallystick.outputs import document
from tallystick.outputs._view import doubts
from tallystick.runs.result import RunResult
from tallystick.runs.rule_results import RuleResult
from tallystick.terminal import escaped

SPEC = "https://openlineage.io/spec/"
RUN_EVENT = f"{SPEC}2-0-2/OpenLineage.json#/$defs/RunEvent"
ASSERTIONS = (
    f"{SPEC}facets/1-1-0/DataQualityAssertionsDatasetFacet.json"
    "#/$defs/DataQualityAssertionsDatasetFacet"
)
PRODUCER = f"urn:tallystick:{__version__}"
FACET = "urn:tallystick:facet:run:1"
PATH = "/api/v1/lineage"
API_KEY = "OPENLINEAGE_API_KEY"
_RUNS = uuid.UUID("5f0c1b5e-6f4c-5d0a-9d53-0a6f6a1d7c11")


def events_of(result: RunResult) -> list[dict[str, Any]]:
    """A START and a COMPLETE event."""
    run_id = uuid.uuid5(_RUNS, f"{result.command} {result.title} {result.begun_at.isoformat()}")
    namespace = "tallystick"
    common = {
        "producer": PRODUCER,
        "schemaURL": RUN_EVENT,
        "job": {"namespace": namespace, "name": f"tallystick.{result.command}"},
    }
    facet = {
        "_producer": PRODUCER,
        "_schemaURL": FACET,
        "title": result.title,
        "verdict": result.verdict.value,
        "verdictNow": result.verdict_now.value,
        "undecided": list(doubts(result)),
        "counts": dict(result.counts),
    }
    started = {"eventType": "START", "eventTime": _utc(result.begun_at), "run": {}}
    completed = {"eventType": "COMPLETE", "eventTime": _utc(result.ended_at), "run": {}}
    started["run"] = {"runId": str(run_id)}
    completed["run"] = {"runId": str(run_id), "facets": {"tallystick": facet}}
    inputs = [
        {
            "namespace": namespace,
            "name": name,
            "inputFacets": {
                "dataQualityAssertions": {
                    "_producer": PRODUCER,
                    "_schemaURL": ASSERTIONS,
                    "assertions": [_assertion(one) for one in found if _is_decided(one)],
                }
            },
        }
        for name, found in result.rule_results.items()
    ]
    return [common | started, common | completed | {"inputs": inputs}]


def write(result: RunResult, target: str) -> None:
    """Write a line an event to a file or standard output, or POST each to a URL.

    Without a path the URL's is ``/api/v1/lineage``; ``OPENLINEAGE_API_KEY`` is sent as a bearer
    token.

    Raises:
        MisuseError: The target cannot be written, or did not take an event.
        MissingExtraError: It is a URL, and the extra ``stream`` is not installed.
    """
    if "://" not in target:
        _write_lines(result, target)
        return
    require_extra("stream", "--output openlineage=URL")
    from tallystick.alerts.http import Endpoint, encoded
    from tallystick.alerts.sinks import SinkError

    key = os.environ.get(API_KEY)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    has_path = "/" in target.partition("://")[2].rstrip("/")
    url = target if has_path else target.rstrip("/") + PATH
    endpoint = Endpoint(url, "--output openlineage", headers)
    for event in events_of(result):
        try:
            endpoint.post(encoded(event), {})
        except SinkError as error:
            raise MisuseError(f"--output openlineage: an event was not taken: {error}") from error


def _lines(result: RunResult) -> str:
    return "".join(f"{json.dumps(e, separators=(',', ':'))}\n" for e in events_of(result))


_write_lines = document(_lines)


def _is_decided(one: RuleResult) -> bool:
    return one.verdict is not Verdict.UNDECIDED


def _assertion(one: RuleResult) -> dict[str, Any]:
    rule = RULES.get(one.rule)
    where = "" if one.channel is None else f"[{one.channel}]"
    return {
        "assertion": one.rule,
        "success": one.verdict is Verdict.CONSISTENT,
        "name": f"{one.rule}{escaped(where)}",
        **dict(_about(one)),
        **({} if rule is None else {"description": rule.claim, "severity": _level(rule.severity)}),
    }


def _about(one: RuleResult) -> Iterator[tuple[str, str]]:
    if one.findings:
        texts = explain(one.findings[0])
        yield "actual", texts.observed
        yield "expected", texts.expected


def _level(severity: Severity) -> str:
    return "warn" if severity is Severity.WARNING else "error"


def _utc(at: datetime) -> str:
    return at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
