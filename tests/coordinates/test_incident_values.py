"""Incidents and their changes as JSON values."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations, product

import pytest

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
    SubjectCheck,
    Verdict,
    gravest,
    verdict_now,
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
    assert sorted([*found[4:], *found[:4]], key=lambda one: one.order) == found


def test_values_are_alike_whatever_their_data() -> None:
    """They go into sets; data may be any JSON."""
    check = Check("no_errant_gtids", Outcome.UNDECIDED, "source_not_in_fleet", {"sources": ["a"]})
    seen = Observation.of_no_record(ObservationCode.JOURNAL_GAP, "x", "lost", {"sources": ["a"]})
    assert (0, 0, 0) == (seen.epoch, seen.sequence, seen.ts)
    for one in (check, seen, FINDING):
        other = replace(one, data={"sources": ["b"]})
        assert hash(one) == hash(other)
        assert len({one, other, replace(one)}) == 2


@pytest.mark.parametrize("order", list(permutations(Outcome)))
def test_the_gravest_check_of_a_rule_counts(order: tuple[Outcome, ...]) -> None:
    """Broken more than undecided, that more than holds, in whatever order they come."""
    checks = [SubjectCheck("b", None, "c1", 1, Check("no_errant_gtids", one)) for one in order]
    others = [one._replace(channel="") for one in checks if one.check.outcome is Outcome.HOLDS]
    assert [one.check.outcome for one in gravest([*checks, *others])] == [
        Outcome.BROKEN,
        Outcome.HOLDS,
    ]
    graver = [(a.value, b.value) for a, b in product(Outcome, repeat=2) if _is_graver(a, b)]
    assert sorted(graver) == [("broken", "holds"), ("broken", "undecided"), ("undecided", "holds")]


def _is_graver(one: Outcome, other: Outcome) -> bool:
    return Check("no_errant_gtids", one).is_graver(Check("no_errant_gtids", other))


@pytest.mark.parametrize(
    ("states", "is_undecided", "rows", "expected"),
    [
        ([], [], [Verdict.CONSISTENT], Verdict.CONSISTENT),
        ([], [False, False], [Verdict.CONSISTENT], Verdict.CONSISTENT),
        ([], [False, True], [Verdict.CONSISTENT], Verdict.UNDECIDED),
        ([], [], [Verdict.CONSISTENT, Verdict.UNDECIDED], Verdict.UNDECIDED),
        ([], [], [Verdict.INCONSISTENT], Verdict.CONSISTENT),  # it is over
        (["RESOLVED", "SUPERSEDED", "ACKNOWLEDGED"], [], [Verdict.CONSISTENT], Verdict.CONSISTENT),
        (["RESOLVED", "OPEN"], [True], [Verdict.UNDECIDED], Verdict.INCONSISTENT),
    ],
)
def test_the_verdict_now_is_of_open_incidents_and_of_what_is_missing(
    states: list[str], is_undecided: list[bool], rows: list[Verdict], expected: Verdict
) -> None:
    """An observation that leaves nothing undecided is no doubt."""
    incidents = [replace(INCIDENT, state=IncidentState[one]) for one in states]
    code = ObservationCode.JOURNAL_GAP
    seen = [Observation.of_no_record(code, "x", "lost", is_undecided=one) for one in is_undecided]
    assert verdict_now(incidents, seen, rows) is expected
    assert verdict_now(incidents, seen, [], rows) is expected
