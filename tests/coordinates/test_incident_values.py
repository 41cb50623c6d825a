"""Incidents and their changes as JSON values."""

from __future__ import annotations

import json
from dataclasses import replace

from tallystick.coordinates.results import (
    Acknowledgement,
    Check,
    Finding,
    Incident,
    IncidentChange,
    IncidentChangeKind,
    IncidentState,
    Observation,
    ObservationCode,
    Outcome,
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


def test_a_finding_is_one_by_what_it_contradicts() -> None:
    """Its id is stored: however often it is seen, and whatever it says then, it is the same."""
    again = replace(FINDING, case="assigned_ahead", witness="x:1-2", ts=9, sequence=8, epoch=2)
    assert again.finding_id == FINDING.finding_id == "e639ce9b64ce797e4c44ef81"
    others = [
        {"instance_id": "c"},
        {"rule": "gtid_origin_agreement"},
        {"at": "x:2 against a"},
        {"channel": ""},
        {"channel": "east"},
        {"channel": "west"},
    ]
    ids = {replace(FINDING, **changes).finding_id for changes in others}
    assert len({FINDING.finding_id, *ids}) == 1 + len(others)


def test_findings_have_one_order() -> None:
    """By time, then by where they are; one of no channel is before those of a named one."""
    ordered = [
        {"ts": 4, "instance_id": "z"},
        {},
        {"channel": "east", "at": "a"},
        {"channel": "west", "at": "a"},
        {"rule": "z_last_rule"},
        {"sequence": 8},
        {"epoch": 2, "sequence": 0},
        {"instance_id": "c", "epoch": 0, "sequence": 0},
    ]
    found = [replace(FINDING, **changes) for changes in ordered]
    found.reverse()
    assert sorted(found, key=lambda one: one.order) == found[::-1]


def test_values_are_alike_whatever_their_data() -> None:
    """They go into sets; data may be any JSON."""
    check = Check("no_errant_gtids", Outcome.UNDECIDED, "source_not_in_fleet", {"sources": ["a"]})
    seen = Observation.of_no_record(ObservationCode.JOURNAL_GAP, "x", "lost", {"sources": ["a"]})
    for one in (check, seen, FINDING):
        other = replace(one, data={"sources": ["b"]})
        assert hash(one) == hash(other)
        assert len({one, other, replace(one)}) == 2
