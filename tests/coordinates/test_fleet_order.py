"""The fleet's audit does not depend on interleaving, on cuts, or on being saved in between."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.coordinates.audit.fleet import FleetAudit, FleetOutput
from tallystick.coordinates.audit.fleet_events import FleetEvent, FleetEventKind
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.results import Outcome
from tallystick.coordinates.rules.explanation import observation_text
from tallystick.coordinates.state_codec import encode
from tallystick.coordinates.values.errors import StateDamagedError, StateVersionError
from tallystick.producers.simulator.assemble import History, simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tests.support.deadlines import ends_within
from tests.support.fleet_journals import (
    A,
    B,
    C,
    Clock,
    Journal,
    audit,
    end_of,
    fleet_of_two,
    names,
    split_logged,
)

FAULTS = {
    "receiver_skips_group": 0,
    "receiver_requeues_old_group": 0,
    "relay_pos_saved_as_exec_pos": 0,
    "source_loses_commits_at_crash": 0,
    "gno_reused_after_reset": 2,
    "phantom_group_received": 0,
    "errant_write": 0,
    "source_purged_too_early": 0,
    "server_uuid_copied": 0,
    "clone_position_shifted": 0,
    "clone_resume_gap": 0,
}
NEGATIVES = (
    "failover",
    "reset_binary_logs",
    "crash_source",
    "clone",
    "reset_replica_all",
    "two_paths",
)


def broken_history() -> dict[str, list[FleetEvent]]:
    """A source, a replica of it and a replica of that; each rule but the clone's is broken."""
    clock = Clock()
    s, r, t = Journal(clock, "s", A, 1), Journal(clock, "r", B, 2), Journal(clock, "t", C, 3)
    twin = Journal(clock, "z", C, 4)
    for journal in (s, r, t, twin):
        journal.boot()
    for journal in (s, r, t):
        journal.open_file()
    r.follow(s)
    t.follow(r)
    s.log(*(f"{A}:{n}" for n in range(1, 9)))
    r.receive(s, (1, f"{A}:1"), (3, f"{A}:3"), (2, f"{A}:2"), (5, f"{A}:77"))
    r.log(f"{A}:1", f"{A}:3", server_id=1)
    r.log(f"{B}:1")
    fields = {"read_source_log_file": "s-bin.000001", "read_source_log_pos": end_of(3) + 1}
    r.status(f"{A}:1:3,{B}:1", r.says(s, f"{A}:1-3:77", **fields))
    s.status(f"{A}:1-8", purged=f"{A}:1-8")
    t.receive(r, (1, f"{A}:1"), (2, f"{A}:3"), server_id=1)
    t.log(f"{A}:1", f"{A}:3", f"{C}:5", server_id=1)
    t.status(f"{A}:1:3,{C}:5", t.says(r, f"{A}:1:3"))
    r.status(f"{A}:1:3,{B}:1", r.says(s, f"{A}:1-3:77", **fields))
    twin.status()
    s.boot()
    s.end_file(end_of(2))
    s.open_file(f"{A}:1-2")
    s.commit_times = {f"{A}:3": 4711}
    s.log(f"{A}:3")
    s.status(f"{A}:1-3", purged=f"{A}:1-2")
    r.status(f"{A}:1-3,{B}:1", r.says(s, f"{A}:1-3:77", **fields))
    for journal in (s, r, t):
        journal.time()
    return {journal.name: journal.fleet_events for journal in (s, r, t, twin)}


EXPECTED = sorted(
    (
        "relay_mirrors_source",
        "server_uuid_unique",
        "received_within_source_logged",
        "no_errant_gtids",
        "gtid_origin_agreement",
        "source_coordinate_valid",
        "purged_not_needed",
    )
)


def content(output: FleetOutput) -> list[str]:
    """All that findings and observations say, in an order of its own."""
    reported = [f.to_dict() for f in output.findings] + [o.to_dict() for o in output.observations]
    return sorted(json.dumps(values, sort_keys=True) for values in reported)


def facts_of(history: History, size: int) -> dict[str, list[FleetEvent]]:
    """What the instances' audits make of a history that is cut into blocks of `size`."""
    audits: dict[str, InstanceAudit] = {}
    events: dict[str, list[FleetEvent]] = {}
    for block in history.blocks(size):
        if block.instance_id not in audits:
            audits[block.instance_id] = InstanceAudit(block.instance_id)
        found = audits[block.instance_id].absorb(block).fleet_events
        events.setdefault(block.instance_id, []).extend(found)
    for name, instance in audits.items():
        events[name] += instance.finish().fleet_events
    return events


def absorbed(
    journals: dict[str, list[FleetEvent]], data: st.DataObject | None = None, *, save: bool = False
) -> FleetOutput:
    """The history in an interleaving that Hypothesis draws (None: one instance after another)."""
    fleet, result = FleetAudit(), FleetOutput()
    rest = {name: list(events) for name, events in journals.items()}
    while rest:
        name = min(rest) if data is None else data.draw(st.sampled_from(sorted(rest)))
        left = rest[name]
        count = len(left) if data is None else data.draw(st.sampled_from((1, 2, 7, len(left))))
        output = fleet.absorb(left[:count])
        result.findings += output.findings
        result.observations += output.observations
        del left[:count]
        if not left:
            del rest[name]
        if save:
            fleet = FleetAudit.from_bytes(fleet.to_bytes())
    output = fleet.finish()
    result.findings += output.findings
    result.observations += output.observations
    ids = [finding.finding_id for finding in result.findings]
    assert len(ids) == len(set(ids)), "a finding was reported twice"
    return result


@pytest.mark.parametrize("named", [{"source_uuid": A}, {"source_instance": "s"}])
def test_a_replica_is_compared_as_soon_as_its_source_has_answered(named: dict[str, str]):
    """However the replica names it; nothing new of the replica is needed."""
    source, replica = fleet_of_two(has_row=False)
    replica.administer("change_source", **named)
    replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-4"))
    before = len(source.fleet_events)
    source.status(f"{A}:1-3")
    source.time()
    fleet = FleetAudit()
    fleet.absorb(source.fleet_events[:before])
    assert [] == names(fleet.absorb(replica.fleet_events))
    assert ["received_within_source_logged"] == names(fleet.absorb(source.fleet_events[before:]))


def test_the_broken_history_breaks_every_rule() -> None:
    """Else the tests below would prove little."""
    assert sorted(set(names(absorbed(broken_history())))) == EXPECTED


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_interleaving_and_any_cut_give_the_same(data: st.DataObject) -> None:
    """The same findings and observations, word for word."""
    journals = broken_history()
    expected = content(absorbed(journals))
    cut: dict[str, list[FleetEvent]] = {}
    for name, events in journals.items():
        cut[name] = [
            part for event in events for part in split_logged(event, data.draw(st.integers(0, 30)))
        ]
    assert content(absorbed(cut, data, save=data.draw(st.booleans()))) == expected


@pytest.mark.parametrize("name", [*FAULTS, *NEGATIVES])
def test_simulated_histories_in_any_order_and_blocks(name: str) -> None:
    """However a history is cut into blocks and however late an instance is."""
    if name in FAULTS:
        history = simulate(Scenario(seed=FAULTS[name], fault=name))
        assert history.injected
    else:
        history = simulate(Scenario(negatives=(name,)))
    facts = functools.cache(lambda size: facts_of(history, size))
    expected = [finding.to_dict() for finding in absorbed(facts(3000)).findings]
    expected.sort(key=lambda finding: finding["finding_id"])

    @settings(max_examples=4, deadline=None, database=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        journals = facts(data.draw(st.sampled_from((7, 40, 500))))
        found = absorbed(journals, data, save=data.draw(st.booleans())).findings
        reported = sorted((f.to_dict() for f in found), key=lambda finding: finding["finding_id"])
        assert reported == expected

    check()
    assert bool(expected) == (name in FAULTS)


def test_negative_evidence_waits_for_the_source() -> None:
    """Until the source's journal has passed the row nothing is said; one mark after it decides."""
    source, replica = fleet_of_two(groups=1)
    replica.status(f"{A}:1", replica.says(source, f"{A}:1-2"))
    fleet = FleetAudit()
    fleet.absorb(source.fleet_events)
    assert content(fleet.absorb(replica.fleet_events)) == []
    before = len(source.fleet_events)
    source.time()
    output = fleet.absorb(source.fleet_events[before:])
    assert names(output) == ["received_within_source_logged"]


def test_expired_comparisons_are_undecided() -> None:
    """Each rule says so once, names both instances and the reason; later rows still wait."""
    source, replica = fleet_of_two(groups=1)
    early = replica.status(f"{C}:1", replica.says(source, f"{A}:1-2"))
    late = replica.status(f"{C}:1", replica.says(source, f"{A}:1-2"))
    fleet = FleetAudit()
    fleet.absorb([*source.fleet_events, *replica.fleet_events])
    # No other clock ends its waiting, however far that is ahead.
    assert content(fleet.expire({"s": 2**60})) == []
    output = fleet.expire({"r": late.ts})
    assert output.findings == []
    reported = {rule: o for o in output.observations for rule in o.rules}
    assert {"received_within_source_logged", "no_errant_gtids"} <= set(reported)
    assert "later_rows" not in reported["no_errant_gtids"].data
    for observation in reported.values():
        assert observation.is_undecided
        assert observation.collection_id == early.body["collection_id"]
        assert "instance r" in observation_text(observation)
        assert "instance s" in observation_text(observation)
    assert content(fleet.expire({"r": late.ts})) == []
    output = fleet.finish()
    assert {f.collection_id for f in output.findings} == {late.body["collection_id"]}


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_rows_that_wait_together_are_undecided_together(rows: int) -> None:
    """The first is named, and how many came after it."""
    source, replica = fleet_of_two(groups=1)
    late = [replica.status(f"{C}:1", replica.says(source, None)) for _ in range(rows)][-1]
    fleet = FleetAudit()
    fleet.absorb([*source.fleet_events, *replica.fleet_events])
    output = fleet.expire({"r": late.ts + 1})
    [seen] = [one for one in output.observations if "no_errant_gtids" in one.rules]
    assert seen.data.get("later_rows", 0) == rows - 1


def test_a_retired_instance_is_no_source_any_more() -> None:
    """What its replica shows from then on is undecided; it may come back, and is compared again."""
    source, replica = fleet_of_two(groups=1)
    replica.status(f"{A}:1", replica.says(source, f"{A}:1"))
    source.time()
    fleet = FleetAudit()
    fleet.absorb([*source.fleet_events, *replica.fleet_events])
    assert [edge.source for edge in fleet.topology()] == ["s"]
    fleet.retire("s")
    assert {name for names in fleet.reader.holders.values() for name in names} == {"r"}
    row = replica.status(f"{A}:1", replica.says(source, f"{A}:1"))
    fleet.absorb([row])
    assert [edge.source for edge in fleet.topology()] == [None]
    [*_, last] = fleet.expire({"r": row.ts + 1}).observations
    assert last.is_undecided
    fleet.retire("r")
    assert (fleet.topology(), fleet.queues) == ([], {})
    fleet.absorb([*source.fleet_events, *replica.fleet_events])
    assert [edge.source for edge in fleet.topology()] == ["s"]
    assert fleet.finish().findings == []


@pytest.mark.parametrize("leaves", ["retired", "begun anew"])
@pytest.mark.parametrize("who", ["r", "s"])
def test_what_was_reported_of_an_instance_is_reported_when_it_comes_back(
    leaves: str, who: str
) -> None:
    """Its logs are numbered anew: what they claim otherwise then is not what was reported."""
    source, replica = fleet_of_two(groups=1)
    replica.commit_times = {f"{A}:1": 9}
    replica.log(f"{A}:1", server_id=1)
    replica.status(f"{A}:1", replica.says(source, f"{A}:1"), replica.says(None, channel="other"))
    source.status(f"{A}:1")
    fleet = FleetAudit()
    both = [*source.fleet_events, *replica.fleet_events]
    first = fleet.absorb(both)
    assert "gtid_origin_agreement" in {finding.rule for finding in first.findings}
    if leaves == "retired":
        fleet.retire(who)
    else:
        fleet.absorb([replace(both[0], kind=FleetEventKind.BEGUN_ANEW, instance_id=who, body={})])
    again = fleet.absorb([event for event in both if event.instance_id == who])
    of_origins = [f for f in again.findings if f.rule == "gtid_origin_agreement"]
    assert [f.instance_id for f in of_origins] == ["r"]
    unknown = [o.channel for o in again.observations if o.reason == "source_unknown"]
    assert unknown == ["other"] * (who == "r")


def test_a_removed_channel_that_info_tables_still_hold_is_none() -> None:
    """Until a row names a source for it."""
    source, replica = fleet_of_two(groups=1)
    replica.administer("reset_all")
    replica.status(f"{A}:1", replica.says(None))
    source.status(f"{A}:1")
    fleet = FleetAudit()
    output = fleet.absorb([*source.fleet_events, *replica.fleet_events])
    assert (output.observations, fleet.topology()) == ([], [])
    fleet.absorb([replica.status(f"{A}:1", replica.says(source))])
    assert [edge.source for edge in fleet.topology()] == ["s"]


def test_what_holds_already_is_not_undecided() -> None:
    """Sets only grow: a subset of what is known is a subset of what will be."""
    source, replica = fleet_of_two(groups=1)
    row = replica.status(f"{A}:1", replica.says(source, f"{A}:1"))
    fleet = FleetAudit()
    fleet.absorb([*source.fleet_events, *replica.fleet_events])
    output = fleet.expire({"r": row.ts + 1})
    assert (output.findings, output.observations) == ([], [])
    assert {one.check.outcome for one in output.checks} == {Outcome.HOLDS}


def test_waiting_is_bounded() -> None:
    """Rows of a source that never comes are given up, the oldest first."""
    source, replica = fleet_of_two(groups=1)
    fleet = FleetAudit()
    fleet.absorb(replica.fleet_events)
    for _ in range(300):
        fleet.absorb([replica.status(f"{C}:1", replica.says(source, f"{A}:9"))])
    waiting = [len(queue.items) for queue in fleet.queues.values()]
    assert max(waiting) == 128
    reported = fleet.finish().observations
    assert reported == []  # once for each rule, when the first row was given up


def test_another_state_is_refused() -> None:
    """Bytes of something else, or damaged ones, are never guessed at."""
    data = FleetAudit().to_bytes()
    for wrong in (b"", b"nonsense", b"XXXX" + data[4:], data[:-1], data[:-1] + b"?"):
        with pytest.raises(StateDamagedError, match="the fleet"):
            FleetAudit.from_bytes(wrong)
    with pytest.raises(StateVersionError, match="the fleet"):
        FleetAudit.from_bytes(encode(int, 1))


@pytest.mark.parametrize("before", [(), ("no_errant_gtids",)])
@pytest.mark.parametrize("after", [(), ("no_errant_gtids",)])
def test_what_is_disabled_is_no_state(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    """A job that is started again with another setting judges by it."""
    source, replica = fleet_of_two(groups=1)
    replica.status(f"{B}:1", replica.says(source, f"{A}:1"))
    fleet = FleetAudit(frozenset(before))
    fleet = FleetAudit.from_bytes(fleet.to_bytes(), frozenset(after))
    fleet.absorb([*source.fleet_events, *replica.fleet_events])
    assert [found.rule for found in fleet.finish().findings] == ["no_errant_gtids"] * (not after)


def test_files_beyond_the_bound_are_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a source's oldest files held is forgotten first, and then nothing is said of it."""
    monkeypatch.setattr("tallystick.coordinates.audit.instance_timeline.EVENTS_MIN", 20)
    source, replica = fleet_of_two(groups=1)
    source.log(*(f"{A}:{n}" for n in range(2, 10)))
    source.rotate(f"{A}:1-9")
    source.log(*(f"{A}:{n}" for n in range(10, 19)))
    for file, position in (("000001", end_of(1) + 1), ("000002", end_of(1) + 1)):
        fields = {"read_source_log_file": f"s-bin.{file}", "read_source_log_pos": position}
        replica.status(f"{A}:1-18", replica.says(source, f"{A}:1-18", **fields))
    source.status(f"{A}:1-18")
    output = audit(source, replica)
    assert [f.witness for f in output.findings] == [f"s-bin.000002:{end_of(1) + 1}"]
    assert any(
        "s-bin.000001 of the source is not remembered" in observation_text(o)
        for o in output.observations
    )


@pytest.mark.parametrize(("number", "is_next"), [(2, True), (3, False)])
def test_a_receiver_may_be_where_the_file_follows_that_was_the_last_one_then(
    number: int, is_next: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By now that one is forgotten, and with it the ROTATE that named the next."""
    monkeypatch.setattr("tallystick.coordinates.audit.instance_timeline.EVENTS_MIN", 20)
    source, replica = fleet_of_two(groups=1)
    read = {"read_source_log_file": f"s-bin.00000{number}", "read_source_log_pos": 4}
    replica.status(f"{A}:1", replica.says(source, f"{A}:1", **read))
    source.status(f"{A}:1")
    source.rotate(f"{A}:1")
    source.log(*(f"{A}:{n}" for n in range(2, 10)))
    assert names(audit(source, replica)) == ["source_coordinate_valid"] * (not is_next)


@pytest.mark.parametrize("group", [1, 2, 8])
def test_a_file_that_was_taken_back_is_not_known_without_what_was_forgotten_of_it(
    group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica was there before: of the file a part is forgotten, and then a start lacks it.

    The end is still known.
    """
    monkeypatch.setattr("tallystick.coordinates.audit.instance_timeline.EVENTS_MIN", 8)
    monkeypatch.setattr("tallystick.coordinates.audit.timeline_file.PACKED_EVENTS", 4)
    source, replica = fleet_of_two(groups=1)
    source.rotate(f"{A}:1")
    for number in range(2, 10):
        source.log(f"{A}:{number}")
    source.status(f"{A}:1-9")
    read = {"read_source_log_file": source.file_name, "read_source_log_pos": end_of(group)}
    replica.status("", replica.says(source, **read))
    source.boot()
    source.file = 1
    source.end_file(end_of(1))
    source.open_file(f"{A}:1")
    source.status(f"{A}:1")
    fleet = FleetAudit()
    for event in source.fleet_events:
        fleet.absorb([event])
    output = fleet.absorb(replica.fleet_events)
    assert [f.rule for f in (*output.findings, *fleet.finish().findings)] == []
    is_open = any("source_coordinate_valid" in o.rules for o in output.observations)
    assert is_open is (group < 8)


def test_origins_beyond_the_bound_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forgotten GTID contradicts nothing, and that it was not compared is said."""

    def history() -> tuple[Journal, Journal]:
        source, replica = fleet_of_two(groups=1)
        source.log(*(f"{A}:{n}" for n in range(2, 40)))
        replica.commit_times = {f"{A}:1": 7}
        replica.log(f"{A}:1", server_id=1)
        replica.status(f"{A}:1", replica.says(source, ""))
        source.status(f"{A}:1-39")
        return source, replica

    assert names(audit(*history())) == ["gtid_origin_agreement"]
    monkeypatch.setattr("tallystick.coordinates.audit.origins.ORIGINS_MAX", 20)
    output = audit(*history())
    assert names(output) == []
    assert [(o.instance_id, o.reason, o.data["gtids"]) for o in output.observations] == [
        ("r", "origins_forgotten", f"{A}:1")
    ]
    assert output.observations[0].is_undecided


def test_claims_of_before_a_reset_that_are_forgotten_are_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A replica's journal comes when the source has had a RESET, and many rows since."""
    source, replica = fleet_of_two()
    replica.commit_times = {f"{A}:1": 7}
    replica.log(f"{A}:1", server_id=1)
    for _ in range(2):
        source.status(f"{A}:1-3")
        replica.status(f"{A}:1", replica.says(source))
    for journal in (source, replica):
        journal.reset()
    for _ in range(8):
        source.status("")
    replica.status("", replica.says(source))
    source.status("")

    def said() -> tuple[set[str], set[str]]:
        fleet = FleetAudit()
        events = [*source.fleet_events, *replica.fleet_events]
        outputs = [*(fleet.absorb([event]) for event in events), fleet.finish()]
        found = {f.rule for output in outputs for f in output.findings}
        return found, {o.reason for output in outputs for o in output.observations}

    found, reasons = said()
    assert "gtid_origin_agreement" in found
    assert "origins_forgotten" not in reasons
    monkeypatch.setattr("tallystick.coordinates.audit.origins.STATES_MAX", 4)
    found, reasons = said()
    assert "gtid_origin_agreement" not in found
    assert "origins_forgotten" in reasons


def after_a_reset_everywhere() -> Iterator[list[FleetEvent]]:
    """The steps of a history in which numbers are given again, to the same on both sides."""
    source, replica = fleet_of_two(groups=1)
    source.log(*(f"{A}:{n}" for n in range(2, 16)))
    replica.log(*(f"{A}:{n}" for n in range(1, 16)), server_id=1)
    replica.status(f"{A}:1-15", replica.says(source))
    source.status(f"{A}:1-15")
    yield [*source.fleet_events, *replica.fleet_events]
    for journal in (source, replica):
        journal.fleet_events.clear()
        journal.reset()
        journal.status("")
        journal.commit_times = {f"{A}:{n}": 9_000 + n for n in range(1, 9)}
    source.log(*(f"{A}:{n}" for n in range(1, 9)))
    source.status(f"{A}:1-8")
    yield [*source.fleet_events, *replica.fleet_events]
    replica.fleet_events.clear()
    replica.log(*(f"{A}:{n}" for n in range(1, 9)), server_id=1)
    replica.status(f"{A}:1-8", replica.says(source))
    yield replica.fleet_events


def test_what_is_claimed_after_a_reset_is_held_against_nothing_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Earlier origins are forgotten between the source's claim and the replica's."""
    monkeypatch.setattr("tallystick.coordinates.audit.origins.ORIGINS_MAX", 20)
    fleet = FleetAudit()
    outputs = [fleet.absorb(step) for step in after_a_reset_everywhere()]
    assert [f.rule for output in (*outputs, fleet.finish()) for f in output.findings] == []


def test_many_groups_in_many_facts_are_quick() -> None:
    """Two million groups in events of 800 take seconds; square time would be hours."""
    import numpy as np

    def run(start: int, position: int) -> FleetEvent:
        gno = np.arange(start, start + 800, dtype=np.int64)
        arrays: dict[str, Any] = {
            "event_ends": position + np.arange(1, 4001, dtype=np.int64) * 60,
            "group_event": np.arange(4, 4000, 5, dtype=np.int32),
            "group_sid": np.zeros(800, dtype=np.int32),
            "group_gno": gno,
            "group_server_id": np.ones(800, dtype=np.int64),
            "group_commit_ts": gno,
            "group_is_empty": np.zeros(800, dtype=np.bool_),
        }
        log_file = {"binlog_lineage": 0, "base_name": "b", "file_number": 1, "sids": [A]}
        return FleetEvent(
            FleetEventKind.LOGGED, "s", 0, start, start, {**log_file, "start": position}, arrays
        )

    events = [run(1 + n * 800, 4 + n * 240_000) for n in range(2500)]
    fleet = FleetAudit()
    with ends_within(200):
        for event in events:
            fleet.absorb([event])


@pytest.mark.parametrize("order", ["zrs", "rzs", "szr", "zr"])
def test_a_copied_server_uuid_is_not_taken_for_the_source(order):
    """Alone known, an idle copy is no source: its server_id is not the one that the row has."""
    clock = Clock()
    s, r, z = Journal(clock, "s", A, 1), Journal(clock, "r", B, 2), Journal(clock, "z", A, 4)
    for journal in (s, r, z):
        journal.boot()
        journal.open_file()
    s.log(*(f"{A}:{number}" for number in range(1, 4)))
    for _ in range(2):
        r.status(f"{A}:1-3", {**r.says(s, f"{A}:1-3"), "source_server_id": 1})
        z.status("")
        s.status(f"{A}:1-3")
    fleet, found = FleetAudit(), []
    for name in order:
        [journal] = (one for one in (s, r, z) if one.name == name)
        journal.time()
        found += names(fleet.absorb(journal.fleet_events))
    assert found + names(fleet.finish()) == ["server_uuid_unique"] * ("s" in order)


@pytest.mark.parametrize(("server_id", "is_judged"), [(1, True), (None, True), (4, False)])
def test_a_server_with_the_sources_server_uuid_is_it_unless_its_server_id_differs(
    server_id, is_judged
):
    """One that is not known is nothing against it."""
    clock = Clock()
    replica, source = Journal(clock, "r", B, 2), Journal(clock, "z", A, server_id)
    for journal in (replica, source):
        journal.boot()
        journal.open_file()
    for _ in range(2):
        says = {**replica.says(source, f"{A}:1-3"), "source_server_id": 1}
        replica.status(f"{A}:1-3", says)
        source.status("")
    assert bool(audit(replica, source).findings) is is_judged


def test_what_waits_of_a_retired_instance_is_not_answered_and_what_waits_of_others_is():
    """Their rows wait until every other journal has passed them."""
    clock = Clock()
    one, two, late = (
        Journal(clock, n, u, i) for n, u, i in (("s", A, 1), ("r", B, 2), ("z", C, 3))
    )
    for journal in (one, two, late):
        journal.boot()
        journal.open_file()
    one.log(f"{A}:1")
    two.status("")
    one.status(f"{A}:1")
    fleet = FleetAudit()
    for journal in (one, two, late):
        fleet.absorb(journal.fleet_events)
    fleet.retire("r")
    late.time()
    one.time()
    output = fleet.absorb([late.fleet_events[-1], one.fleet_events[-1]])
    answered = {x.instance_id for x in output.checks if x.check.rule == "gtid_origin_agreement"}
    assert answered == {"s"}
