"""The result as one JSON document, nothing left out; docs/outputs.md has its keys."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from tallystick.coordinates.results import Finding, Incident
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.describe import written_in
from tallystick.coordinates.rules.explanation import finding_document, moment, observation_document
from tallystick.outputs import document
from tallystick.outputs._groups import FindingGroup, groups_of
from tallystick.outputs._view import doubts, summaries
from tallystick.runs.history import History
from tallystick.runs.result import RunResult

SCHEMA_VERSION = 2


def document_of(result: RunResult) -> dict[str, Any]:
    """The result as JSON values."""
    return {
        "schema_version": SCHEMA_VERSION,
        "command": result.command,
        "title": result.title,
        "begun_at": result.begun_at.isoformat(),
        "elapsed_s": round(result.elapsed_s, 3),
        "verdict": result.verdict.value,
        "verdict_now": result.verdict_now.value,
        "since": None if result.since is None else moment(result.since),
        "exit_status": result.exit_code.value,
        "counts": result.counts,
        "findings": [_finding(result, finding) for finding in result.findings],
        "groups": [_group(group) for group in groups_of(result, result.findings)],
        "incidents": [_incident(one) for one in result.incidents],
        "observations": list(map(observation_document, result.observations)),
        "undecided": list(doubts(result)),
        "rules": {
            instance: [
                {
                    "rule": one.rule,
                    "channel": one.channel,
                    "verdict": one.verdict.value,
                    "reason": one.reason,
                    "findings": [finding.finding_id for finding in one.findings],
                }
                for one in results
            ]
            for instance, results in result.rule_results.items()
        },
        "collections": [
            {
                "collection_id": summary.collection_id,
                "at": moment(summary.ts),
                "verdict": summary.verdict.value,
                "rows": summary.rows,
            }
            for summary in summaries(result)
        ],
        "history": None if result.history is None else _history(result.history),
        "newest_cuts": [cut.to_dict() for cut in result.newest_cuts],
        "topology": [asdict(edge) for edge in result.topology],
        "servers": {name: asdict(server) for name, server in result.servers.items()},
        "validation": None if result.validation is None else result.validation.to_dict(),
        "scenario": None if result.scenario is None else result.scenario.to_dict(),
        "paths": {name: str(path) for name, path in result.paths.items()},
    }


def _history(history: History) -> dict[str, Any]:
    """The whole period, where more was collected than ``collections`` has."""
    first, last = history.period
    return {"first": moment(first), "last": moment(last), "instances": history.by_instance}


def _finding(result: RunResult, finding: Finding) -> dict[str, Any]:
    """A finding with where it is written that healthy servers keep the rule."""
    rule, incident = RULES.get(finding.rule), result.incident_of(finding)
    return {
        **finding_document(finding),
        "incident_id": None if incident is None else incident.incident_id,
        "incident_state": None if incident is None else incident.state.value,
        "written_in": [] if rule is None else list(written_in(rule)),
        "repeats": [
            {"finding_id": one.finding_id, "instance_id": one.instance_id, "at": one.at}
            for one in result.deduplicated.of(finding)
        ],
    }


def _incident(incident: Incident) -> dict[str, Any]:
    """An incident; its finding is the one whose id it has."""
    values = incident.to_dict()
    del values["finding"]
    return values


def _group(group: FindingGroup) -> dict[str, Any]:
    """Findings of one rule, subject and cause as one."""
    return {
        "rule": group.first.rule,
        "case": group.first.case,
        "instances": group.instances,
        "channel": group.first.channel,
        "findings": [one.finding_id for one in group.findings],
        "state": None if group.state is None else group.state.value,
        "count": group.count,
        "witness": group.witness,
        "first": moment(group.first.ts),
        "last": moment(group.last_ts),
        "sentence": group.texts.sentence,
    }


def _render(result: RunResult) -> str:
    # On one line; what is not ASCII is escaped.
    return json.dumps(document_of(result), separators=(",", ":")) + "\n"


write = document(_render)
