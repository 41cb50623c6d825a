"""What opens an incident, lets it grow, and ends it; and which breaches can heal at all."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.audit.fleet_events import FleetEvent, FleetEventKind
from tallystick.coordinates.audit.incidents import Incidents
from tallystick.coordinates.events.incident_control import (
    ControlAction,
    IncidentControl,
    IncidentControlError,
    encode_control,
    parse_control,
)
from tallystick.coordinates.results import (
    Check,
    Finding,
    Incident,
    IncidentChange,
    Outcome,
    SubjectCheck,
)
from tallystick.coordinates.rules.catalogue import RULES
from tests.support.results import finding

A = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"


def errant(gno: int, ts: int, **values: Any) -> Finding:
    """A write of the replica's own."""
    given = {
        "rule": "no_errant_gtids",
        "case": "not_of_source",
        "instance_id": "b",
        "at": f"{A}:{gno}",
        "witness": f"{A}:{gno}",
        "data": {"sources": ["a"]},
        "ts": ts,
    }
    return finding(**{**given, **values})


def broken(rule: str, ts: int, **values: Any) -> Finding:
    """A finding of a rule, of its first case."""
    return finding(
        **{"rule": rule, "case": next(iter(RULES[rule].cases)), "at": f"at {ts}", "ts": ts} | values
    )


def check(outcome: Outcome, ts: int, rule: str = "no_errant_gtids") -> SubjectCheck:
    """What the fleet's audit says of the replica."""
    return SubjectCheck("b", None, f"c-{ts}", ts, Check(rule, outcome))


def event(kind: FleetEventKind, ts: int, instance_id: str = "a", **body: Any) -> FleetEvent:
    """A fleet event."""
    return FleetEvent(kind, instance_id, 1, ts, ts, body)


def row(ts: int, *checks: Check, **values: Any) -> Cut:
    """A row of instance a."""
    given = {"collection_id": f"c-{ts}", "instance_id": "a", "scope": "instance", "ts": ts}
    return Cut(**{**given, "verdict": "CONSISTENT", "checks": checks, **values})


def kinds(changes: list[IncidentChange]) -> list[str]:
    """What happened."""
    return [change.kind.value for change in changes]


def only(incidents: Incidents) -> Incident:
    """The one incident."""
    [one] = incidents.newest()
    return one


def control(action: str, target: str, ts: int, until_ts: int | None = None) -> IncidentControl:
    """What an operator asks for."""
    return IncidentControl(ControlAction(action), target, "dba", "known", ts, until_ts)


def test_twenty_errant_writes_are_one_incident() -> None:
    """It grows in count, set and time; of one step at once."""
    incidents = Incidents()
    assert kinds(incidents.absorb([errant(1, 10)])) == ["opened"]
    more = [errant(gno, 10 + gno) for gno in range(2, 21)]
    assert kinds(incidents.absorb(more)) == ["grown"]
    assert kinds(incidents.absorb(more)) == []  # the same findings again
    one = only(incidents)
    assert (one.count, one.witness) == (20, f"{A}:1-20")
    assert (one.opened_ts, one.last_seen_ts) == (10, 30)
    assert one.finding == errant(1, 10)


def test_another_case_cause_or_subject_is_another_incident() -> None:
    """Each has a life of its own."""
    incidents = Incidents()
    found = [
        errant(1, 10),
        errant(2, 10, data={"sources": ["c"]}),
        errant(3, 10, instance_id="c"),
        errant(4, 10, case="not_of_sources"),
    ]
    assert kinds(incidents.absorb(found)) == ["opened"] * 4


def test_a_comparison_that_holds_again_resolves() -> None:
    """Not one of the same time, nor one that is undecided; still broken is seen again."""
    incidents = Incidents()
    incidents.absorb([errant(1, 10)])
    assert incidents.absorb(checks=[check(Outcome.HOLDS, 10)]) == []
    assert incidents.absorb(checks=[check(Outcome.UNDECIDED, 11)]) == []
    assert only(incidents).last_seen_ts == 10
    assert incidents.absorb(checks=[check(Outcome.BROKEN, 12)]) == []
    assert only(incidents).last_seen_ts == 12
    assert kinds(incidents.absorb(checks=[check(Outcome.HOLDS, 13)])) == ["resolved"]
    assert (only(incidents).closed_ts, only(incidents).is_open) == (13, False)


def test_what_only_goes_on_is_touched_in_a_hundredth_of_its_age_or_36_minutes() -> None:
    """So what is shown of it is hardly old; a row of the table at each collection is too many."""
    incidents = Incidents()
    incidents.absorb([errant(1, 10)])
    minute, shown, rows = 60_000_000, 10, 0
    for ts in range(minute, 14 * 24 * 60 * minute, minute):
        incidents.absorb(checks=[check(Outcome.BROKEN, ts)])
        assert only(incidents).last_seen_ts == ts
        for one in incidents.touched.values():
            shown, rows = one.last_seen_ts, rows + 1
        assert ts - shown <= min(36 * minute, ts // 100) + minute
    assert rows < 1500


def test_what_is_broken_again_without_a_finding_opens_again() -> None:
    """A comparison that has reported GTIDs only says that it is still broken."""
    incidents = Incidents()
    incidents.absorb([errant(1, 10)], checks=[check(Outcome.HOLDS, 13)])
    for late in (12, 13):
        assert kinds(incidents.absorb(checks=[check(Outcome.BROKEN, late)])) == []
    assert kinds(incidents.absorb(checks=[check(Outcome.BROKEN, 14)])) == ["reopened"]
    assert only(incidents).is_open


def test_a_row_rule_holds_again_at_a_later_row() -> None:
    """Each row that breaks it is a finding; a row that cannot be judged ends nothing."""
    name = "executed_within_logged"
    incidents = Incidents()
    incidents.absorb([broken(name, 10)], [row(10, Check(name, Outcome.BROKEN))])
    incidents.absorb([broken(name, 20)], [row(20, Check(name, Outcome.BROKEN))])
    assert only(incidents).count == 2
    assert incidents.absorb(cuts=[row(30, Check(name, Outcome.UNDECIDED, "x"))]) == []
    other = row(40, Check(name, Outcome.HOLDS), instance_id="b")
    assert incidents.absorb(cuts=[other]) == []
    assert kinds(incidents.absorb(cuts=[row(50, Check(name, Outcome.HOLDS))])) == ["resolved"]


@pytest.mark.parametrize("name", ["snapshot_position_monotone", "applied_exactly_once"])
def test_what_happened_once_stays_open(name: str) -> None:
    """The next row holds only because its baseline is another."""
    incidents = Incidents()
    incidents.absorb([broken(name, 10)], [row(20, Check(name, Outcome.HOLDS))])
    assert only(incidents).is_open


def test_what_was_not_executed_is_over_when_it_is_executed() -> None:
    """Whatever the rule says of it; not by a row that is itself contradicted."""
    incidents = Incidents()
    lost = broken("executed_monotone", 10, witness=f"{A}:5-6")
    incidents.absorb([lost], [row(20, gtid_executed=f"{A}:1-5")])
    wrong = row(30, gtid_executed=f"{A}:1-9", verdict="INCONSISTENT")
    assert incidents.absorb(cuts=[wrong]) == []
    assert kinds(incidents.absorb(cuts=[row(40, gtid_executed=f"{A}:1-9")])) == ["resolved"]


def test_what_is_found_in_the_same_step_must_be_executed_too() -> None:
    """A row of the same step has only the first of two."""
    incidents = Incidents()
    lost = [broken("executed_monotone", ts, witness=f"{A}:{ts}") for ts in (5, 6)]
    rows = [row(ts, gtid_executed=f"{A}:1-5") for ts in (20, 30)]
    assert kinds(incidents.absorb(lost, rows)) == ["opened", "grown"]
    assert only(incidents).witness == f"{A}:5-6"
    assert kinds(incidents.absorb(cuts=[row(40, gtid_executed=f"{A}:1-6")])) == ["resolved"]


LOGGED = "gtid_logged_once"
REDO = "redo_writes_contiguous"
RELAY = "relay_source_pos_monotone"
STATE = "retrieved_matches_relay"
ONCE = "applied_exactly_once"
STEP = "collection_lock_order"


@pytest.mark.parametrize(
    ("ends", "over"),
    [
        (event(FleetEventKind.LINEAGE, 20, reason="reset"), {LOGGED}),
        (event(FleetEventKind.LINEAGE, 20, reason="unseen"), set()),
        (
            event(FleetEventKind.LINEAGE, 20, reason="restored"),
            {LOGGED, REDO, RELAY, STATE, ONCE},  # not STEP
        ),
        (event(FleetEventKind.LINEAGE, 20, "b", reason="cloned"), set()),
        (event(FleetEventKind.CHANNEL, 20, channel="x", action="reset"), {RELAY}),
        (event(FleetEventKind.CHANNEL, 20, channel="x", action="reset_all"), {RELAY, STATE}),
        (event(FleetEventKind.CHANNEL, 20, channel="y", action="reset_all"), set()),
    ],
)
def test_what_it_was_found_in_is_no_more(ends: FleetEvent, over: set[str]) -> None:
    """Superseded, also where the finding comes late; damage to the data only with the data."""
    found = [broken(name, 10) for name in (LOGGED, REDO, STEP)]
    found += [broken(name, 10, channel="x") for name in (RELAY, STATE, ONCE)]
    for steps in permutations((found, ends)):
        incidents = Incidents()
        for step in steps:
            if isinstance(step, FleetEvent):
                incidents.absorb(fleet_events=[step])
            else:
                incidents.absorb(step)
        ended = [one for one in incidents.newest() if not one.is_open]
        assert {one.rule for one in ended} == over
        assert {(one.state.value, one.closed_ts) for one in ended} <= {("superseded", 20)}


def test_what_a_clone_itself_breaks_is_of_the_new_data() -> None:
    """Only what was there before the clone began is over."""
    incidents = Incidents()
    begin = event(FleetEventKind.CLONE, 20, role="recipient", step="begin")
    incidents.absorb(
        [broken(REDO, 10), broken("clone_protocol", 25)],
        fleet_events=[begin, event(FleetEventKind.LINEAGE, 30, reason="cloned")],
    )
    assert [one.rule for one in incidents.newest() if one.is_open] == ["clone_protocol"]
    assert [one.closed_ts for one in incidents.newest() if not one.is_open] == [30]


@pytest.mark.parametrize(
    ("between", "reason"),
    [
        (event(FleetEventKind.CLONE, 23, step="end", role="recipient", error=1317), "cloned"),
        (event(FleetEventKind.BOOT, 23), "cloned"),
        (event(FleetEventKind.CLONE, 23, step="end", role="donor", error=1317), "restored"),
    ],
)
def test_a_clone_that_replaced_nothing_keeps_nothing_open(between: FleetEvent, reason: str) -> None:
    """It has failed, or crashed, or an image was restored since: the old data are replaced."""
    incidents = Incidents()
    incidents.absorb(
        [broken(REDO, 25)],
        fleet_events=[
            event(FleetEventKind.CLONE, 20, role="recipient", step="begin"),
            between,
            event(FleetEventKind.LINEAGE, 30, reason=reason),
        ],
    )
    assert not only(incidents).is_open


def test_who_replicates_from_nobody_has_no_errant_gtids() -> None:
    """An instance that is gone shows nothing, and its incidents stay open."""
    incidents = Incidents()
    incidents.absorb([errant(1, 10)])
    incidents.absorb(fleet_events=[event(FleetEventKind.STATUS, 20, "b", channels=[{}])])
    assert only(incidents).is_open
    changes = incidents.absorb(fleet_events=[event(FleetEventKind.STATUS, 30, "b", channels=[])])
    assert kinds(changes) == ["superseded"]


@pytest.mark.parametrize(("case", "is_open"), [("not_of_source", False), ("assigned_ahead", True)])
def test_what_a_replica_has_left_out_is_not_there_when_its_source_gives_it_out(
    case: str, is_open: bool
) -> None:
    """The rule holds again, and so it does when it replicates from nobody; its data lack it."""
    incidents = Incidents()
    incidents.absorb([errant(1, 10, case=case)], checks=[check(Outcome.HOLDS, 20)])
    assert only(incidents).is_open is is_open
    incidents.absorb(fleet_events=[event(FleetEventKind.STATUS, 30, "b", channels=[])])
    assert only(incidents).is_open is is_open
    incidents.absorb(fleet_events=[event(FleetEventKind.LINEAGE, 40, "b", reason="restored")])
    assert not only(incidents).is_open


def test_an_acknowledgement_holds_until_it_runs_out_or_is_taken_back() -> None:
    """Growth does not end it; its end is a time of the journal."""
    incidents = Incidents()
    incidents.absorb([errant(1, 10)])
    name = only(incidents).incident_id
    assert kinds(incidents.absorb(controls=[control("ack", name, 20, 50)])) == ["acknowledged"]
    assert kinds(incidents.absorb([errant(2, 30)])) == ["grown"]
    assert only(incidents).state.value == "acknowledged"
    [change] = incidents.absorb(fleet_events=[event(FleetEventKind.TIME, 60)])
    assert (change.kind.value, change.ts, change.incident.acknowledgement) == ("reopened", 50, None)
    incidents.absorb(controls=[control("ack", name, 70)])
    assert kinds(incidents.absorb(controls=[control("unack", name, 80)])) == ["reopened"]
    assert kinds(incidents.absorb(controls=[control("unack", name, 80)])) == []
    assert kinds(incidents.absorb(controls=[control("retire", "b", 90)])) == ["superseded"]


def test_an_acknowledgement_may_come_before_its_incident() -> None:
    """A job that begins anew reads the control topic first."""
    incidents = Incidents()
    assert incidents.absorb(controls=[control("ack", errant(1, 10).finding_id, 20)]) == []
    assert kinds(incidents.absorb([errant(1, 10)])) == ["opened", "acknowledged"]


def test_of_what_comes_before_its_incident_the_last_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So many as the limit says: that which came first is forgotten."""
    monkeypatch.setattr("tallystick.coordinates.audit.incidents.EARLY_MAX", 2)
    incidents, found = Incidents(), [errant(gno, 10, data={"source": gno}) for gno in range(3)]
    incidents.absorb(controls=[control("ack", one.finding_id, 20) for one in found])
    incidents.absorb(found)
    known = {one.finding.at for one in incidents.newest() if one.state.value == "acknowledged"}
    assert known == {found[1].at, found[2].at}


def test_what_is_over_is_forgotten_after_a_week() -> None:
    """What is open is not."""
    incidents = Incidents()
    incidents.absorb([errant(1, 10), broken(REDO, 10)], checks=[check(Outcome.HOLDS, 13)])
    assert len(incidents.newest()) == 2
    week = 7 * 24 * 3600 * 1_000_000
    for later, left in ((week, 2), (week + 1, 1)):
        incidents.absorb(fleet_events=[event(FleetEventKind.TIME, 13 + later)])
        assert len(incidents.newest()) == left
    assert only(incidents).rule == REDO


def test_the_state_survives_each_step() -> None:
    """Saved and read after every step: the same changes and the same incidents."""
    steps: list[dict[str, Any]] = [
        {"findings": [errant(1, 10), broken(REDO, 10)]},
        {"findings": [errant(1, 10), errant(2, 11)]},
        {"controls": [control("ack", errant(1, 10).finding_id, 12, 15)]},
        {"checks": [check(Outcome.BROKEN, 16)]},
        {"checks": [check(Outcome.HOLDS, 17)]},
        {"fleet_events": [event(FleetEventKind.LINEAGE, 20, reason="restored")]},
        {"findings": [broken(REDO, 9)]},
    ]
    whole, saved = Incidents(), Incidents()
    for step in steps:
        read = Incidents()
        read.restore(saved.to_bytes())
        assert whole.absorb(**step) == read.absorb(**step)
        assert whole.newest() == read.newest()
        saved = read


def test_what_was_shown_goes_on_where_the_state_is_lost() -> None:
    """What is open grows by what is new, and what is over comes back by what is later."""
    incidents = Incidents()
    incidents.absorb([errant(1, 10), broken(REDO, 11)], checks=[check(Outcome.HOLDS, 13)])
    again = Incidents.of(incidents.newest())
    assert again.newest() == incidents.newest()
    assert again.now_ts == 13
    assert again.absorb([errant(1, 10), broken(REDO, 11)]) == []
    changes = again.absorb([errant(1, 20), broken(REDO, 20)])
    assert [(one.kind.value, one.incident.count) for one in changes] == [
        ("reopened", 2),
        ("grown", 2),
    ]


def test_a_control_survives_its_message() -> None:
    """What is none is refused with what was expected."""
    asked = control("ack", "x", 5, 9)
    assert parse_control(encode_control(asked)) == asked
    last = replace(asked, ts=0, until_ts=2**63 - 1, why="k" * 1_000)
    assert parse_control(encode_control(last)) == last
    good = encode_control(asked)
    for value in (
        None, b"", b"[]", b"{", good.replace(b'"ack"', b'"no"'), good.replace(b'"dba"', b"1"),
        good.replace(b'"dba"', b'" "'), good.replace(b":5", b":-5"), good.replace(b":9", b":true"),
        good.replace(b":9", b":9223372036854775808"), good.replace(b"known", b"k" * 1_001),
        b" " * 2**20 + good, b"[" * 100_000, b"\xff",
    ):  # fmt: skip
        with pytest.raises(IncidentControlError, match="expected"):
            parse_control(value)


def test_still_broken_counts_before_holds_of_the_same_time() -> None:
    """Two sources of one replica may differ; in whatever order they are given."""
    for outcomes in permutations((Outcome.HOLDS, Outcome.BROKEN)):
        incidents = Incidents()
        incidents.absorb([errant(1, 10)])
        assert incidents.absorb(checks=[check(outcome, 13) for outcome in outcomes]) == []
        assert only(incidents).is_open


def test_a_journal_that_repeats_itself_opens_nothing_again() -> None:
    """The finding of what is over comes again; one of a later time is the breach again."""
    incidents = Incidents()
    incidents.absorb([errant(1, 10)], checks=[check(Outcome.HOLDS, 13)])
    assert incidents.absorb([errant(1, 10)]) == []
    [change] = incidents.absorb([errant(1, 20)])
    assert (change.kind.value, change.incident.count) == ("reopened", 2)


def test_a_reset_begins_anew_what_is_executed() -> None:
    """Of the instance; what a replica left out of its channel is still missing."""
    lost = broken("executed_monotone", 10, witness=f"{A}:5")
    omitted = broken("relay_mirrors_source", 10, case="omitted", channel="x", witness=f"{A}:5")
    incidents = Incidents()
    ends = event(FleetEventKind.LINEAGE, 20, reason="reset")
    again = event(FleetEventKind.CHANNEL, 30, channel="x", action="reset")
    incidents.absorb([lost, omitted], fleet_events=[ends, again])
    assert [one.rule for one in incidents.newest() if one.is_open] == ["relay_mirrors_source"]
    # What ended is remembered beside what ended later: the finding may come late.
    assert kinds(incidents.absorb([broken(LOGGED, 10)])) == ["opened", "superseded"]


def test_of_what_ends_again_and_again_the_last_time_is_remembered() -> None:
    """Of data, log and each channel: a server may be cloned and reset every day."""
    incidents = Incidents()
    for ts in (20, 40):
        logs = [
            event(FleetEventKind.LINEAGE, ts + later, reason=reason)
            for later, reason in enumerate(("cloned", "reset"))
        ]
        channels = [
            event(FleetEventKind.CHANNEL, ts, channel=name, action="reset") for name in "xy"
        ]
        incidents.absorb(fleet_events=[*logs, *channels])
    [remembered] = incidents.ended.values()
    assert sorted((one.channel or "", one.what, one.ts) for one in remembered) == [
        ("", "data", 40), ("", "log", 41), ("x", "log", 40), ("y", "log", 40)
    ]  # fmt: skip


def test_the_time_of_a_message_ends_an_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    """At its very end; and the number of incidents that are remembered is bounded."""
    monkeypatch.setattr("tallystick.coordinates.audit.incidents.CLOSED_MAX", 1)
    incidents = Incidents()
    incidents.absorb([errant(1, 10)])
    name = only(incidents).incident_id
    incidents.absorb(controls=[control("ack", name, 20, 50)])
    assert kinds(incidents.absorb(controls=[control("unack", "other", 50)])) == ["reopened"]
    incidents.absorb([broken(REDO, 10, instance_id="b")])
    incidents.absorb(controls=[control("retire", "b", 60)])
    assert len(incidents.newest()) == 1
