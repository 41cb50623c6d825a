"""Incidents and their changes as JSON values."""

from __future__ import annotations

import json
from dataclasses import replace

from tallystick.coordinates.results import (
    Acknowledgement,
    Finding,
    Incident,
    IncidentChange,
    IncidentChangeKind,
    IncidentState,
    Severity,
)

FINDING = Finding(
    rule="no_errant_gtids",
    case="not_of_source",
    severity=Severity.ERROR,
    instance_id="b",
    channel=None,
    at="x:1 against a",
    witness="x:1",
    data={"sources": ["a"]},
    collection_id="c-1",
    epoch=1,
    sequence=7,
    ts=5,
)
INCIDENT = Incident(
    incident_id=FINDING.finding_id,
    rule=FINDING.rule,
    case=FINDING.case,
    severity=FINDING.severity,
    instance_id="b",
    channel=None,
    cause={"sources": "['a']"},
    state=IncidentState.OPEN,
    opened_ts=5,
    last_seen_ts=5,
    closed_ts=None,
    count=1,
    witness="x:1",
    finding=FINDING,
)


def test_an_incident_survives_json() -> None:
    """Open, and acknowledged until a time."""
    known = replace(
        INCIDENT,
        state=IncidentState.ACKNOWLEDGED,
        acknowledgement=Acknowledgement("dba", "known since Monday", 6, 9),
    )
    for incident in (INCIDENT, known):
        assert Incident.from_dict(json.loads(json.dumps(incident.to_dict()))) == incident


def test_a_change_survives_json_and_has_one_id() -> None:
    """Another kind or another count is another change."""
    change = IncidentChange(IncidentChangeKind.OPENED, INCIDENT, 5)
    values = json.loads(json.dumps(change.to_dict()))
    assert IncidentChange.from_dict(values) == change
    grown = IncidentChange(IncidentChangeKind.GROWN, replace(INCIDENT, count=2), 5)
    again = replace(grown, incident=replace(INCIDENT, count=3))
    assert len({change.change_id, grown.change_id, again.change_id}) == 3
    assert values["change_id"] == change.change_id
