"""The audits between instances, made again from their log, are the same ones."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.fleet import FleetAudit, FleetOutput
from tallystick.coordinates.audit.fleet_events import FleetEvent, FleetEventKind
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.results import ObservationCode
from tallystick.coordinates.state_codec import encode
from tallystick.producers.simulator.assemble import simulate
from tallystick.streaming import fleet_log
from tallystick.streaming.audit_log import Entry
from tallystick.streaming.fleet_log import FleetLog, Span
from tallystick.streaming.orders import Orders
from tests.support.audit_steps import MemoryFleetStore

Events = dict[str, list[FleetEvent]]
"""By instance."""
WAIT_US = 10**6
NOW = Orders("now")
BEYOND = "instance_beyond"


def steps_of(seed: int) -> list[Events]:
    """What a simulated history shows, some blocks a micro-batch."""
    audits: dict[str, InstanceAudit] = {}
    steps: list[Events] = []
    blocks = list(simulate(scenario_of(seed)).blocks(64))
    for at in range(0, len(blocks), 3):
        events: Events = {}
        for block in blocks[at : at + 3]:
            name = block.instance_id
            shown = audits.setdefault(name, InstanceAudit(name)).absorb(block).fleet_events
            events.setdefault(name, []).extend(shown)
        steps.append(events)
    return steps


def taken(audit: FleetAudit, step: Events, retired: list[str]) -> FleetOutput:
    """One micro-batch, by hand."""
    for name in retired:
        if name in audit.reader.members:
            audit.retire(name)
    kept = {name: of for name, of in step.items() if name not in retired}
    newest = {name: max(e.ts for e in of) - WAIT_US for name, of in kept.items() if of}
    first = audit.absorb([event for of in kept.values() for event in of])
    last = audit.expire(newest)
    return FleetOutput(
        first.findings + last.findings,
        first.observations + last.observations,
        first.checks + last.checks,
        audit.waiting(),
    )


def log_of(store: MemoryFleetStore, span: Span | None = None, **options) -> FleetLog:
    """What a process finds that holds nothing."""
    return FleetLog(wait_us=WAIT_US, entries=store.read(), span=span, **options)


@pytest.mark.parametrize("seed", range(2, 40, 4))
def test_it_goes_on_from_any_entry(seed, monkeypatch):
    """Findings, checks and state of one that was never made again; members retire meanwhile."""
    monkeypatch.setattr(fleet_log, "LOG_ENTRIES_MAX", 3)
    rng, one, store = Random(seed), FleetAudit(), MemoryFleetStore()
    log, found, retired = log_of(store), list[FleetOutput](), dict[str, int]()
    steps = steps_of(seed)
    for step in steps:
        if one.reader.members and rng.random() < 0.05:
            retired[rng.choice(sorted(one.reader.members))] = 2**62
        if rng.random() < 0.3:
            log = log_of(store, log.span)
        orders = Orders("now", retired=retired)
        outputs = log.step({"east": step}, orders, store)
        expected = taken(one, step, sorted(retired))
        assert outputs.get("east", FleetOutput(waiting=one.waiting())) == expected
        found.append(expected)
        assert log_of(store, log.span).audits["east"].to_bytes() == one.to_bytes()
    assert ("state" in {entry.kind for entry in store.entries}) == (len(steps) >= 3)
    assert any(output.checks for output in found)


def test_clusters_do_not_see_each_other():
    """Each finds what it finds alone, whatever else is in its bucket."""
    fleets = {"east": steps_of(4), "west": steps_of(63)}
    alone = {}
    for cluster, steps in fleets.items():
        log, store = FleetLog(wait_us=WAIT_US), MemoryFleetStore()
        alone[cluster] = [log.step({cluster: step}, NOW, store).get(cluster) for step in steps]
        alone[cluster].append(log.end({}, NOW, goes_on=False)[cluster])
    log, store = FleetLog(wait_us=WAIT_US), MemoryFleetStore()
    together: dict[str, list[FleetOutput | None]] = {cluster: [] for cluster in fleets}
    for at in range(max(map(len, fleets.values()))):
        given = {cluster: steps[at] for cluster, steps in fleets.items() if at < len(steps)}
        outputs = log.step(given, NOW, store)
        for cluster in given:
            together[cluster].append(outputs.get(cluster))
    for cluster, output in log.end({}, NOW, goes_on=False).items():
        together[cluster].append(output)
    assert together == alone


def test_a_cluster_that_shows_nothing_is_not_written():
    """A step of which it takes nothing adds no entry, whatever other clusters take."""
    log, store = FleetLog(wait_us=WAIT_US), MemoryFleetStore()
    first, second = steps_of(4)[:2]
    log.step({"east": first, "west": first}, NOW, store)
    before = len(store.entries)
    log.step({"east": second}, NOW, store)
    assert ['["east"]'] == [entry.names for entry in store.entries[before:]]


def test_what_is_written_follows_what_is_taken(monkeypatch):
    """Not the size of the state: it is written once as much was taken again."""
    steps = [step for seed in range(2, 8) for step in steps_of(seed)]
    monkeypatch.setattr(fleet_log, "LOG_ENTRIES_MAX", 10**9)
    monkeypatch.setattr(fleet_log, "LOG_BYTES_MIN", 10**9)
    whole, of_all = FleetLog(wait_us=WAIT_US), MemoryFleetStore()
    for step in steps:
        whole.step({"": step}, NOW, of_all)
    assert {"taken"} == {entry.kind for entry in of_all.entries}
    monkeypatch.setattr(fleet_log, "LOG_BYTES_MIN", 2_000)
    log, store, written = FleetLog(wait_us=WAIT_US), MemoryFleetStore(), 0
    for step in steps:
        log.step({"": step}, NOW, store)
        if [entry.kind for entry in store.entries] == ["state"]:
            written += 1
            assert log.kept_bytes == len(store.entries[0].data)
    assert 3 < written < whole.kept_bytes // 2_000


def damaged(entry: Entry) -> Entry:
    return entry._replace(data=entry.data[:-1])


@pytest.mark.parametrize(
    "change",
    [
        lambda entries: [damaged(entries[0]), *entries[1:]],
        lambda entries: [*entries[:-1], damaged(entries[-1])],
        lambda entries: [entries[0]._replace(data=encode(int, 1)), *entries[1:]],
        lambda entries: [entries[0]._replace(names='["?"]'), *entries[1:]],
        lambda entries: entries[1:],
        lambda entries: entries[:-1],
    ],
    ids=["first", "last", "version", "whose", "first missing", "last missing"],
)
def test_a_log_that_cannot_be_read_is_reported_once(change):
    """All comparisons of the bucket begin anew, and what is written since goes on from there."""
    steps = steps_of(4)
    store, log = MemoryFleetStore(), FleetLog(wait_us=WAIT_US)
    for step in steps[:4]:
        log.step({"east": step}, NOW, store)
    store.entries = change(store.entries)
    log = log_of(store, log.span)
    for step, expected in ((steps[4], 1), (steps[5], 0)):
        outputs = log.step({"east": step}, NOW, store)
        seen = [o for output in outputs.values() for o in output.observations]
        lost = [one for one in seen if one.code is ObservationCode.STATE_UNREADABLE]
        assert [one.is_undecided for one in lost] == [True] * expected
    again = log_of(store, log.span)
    assert again.audits["east"].to_bytes() == log.audits["east"].to_bytes()
    assert not again.end({}, NOW, goes_on=True).keys() & {""}


def test_what_did_not_raise_before_and_raises_now_is_damage(monkeypatch):
    """The log is taken again by another version of the program."""
    store, log = MemoryFleetStore(), FleetLog(wait_us=WAIT_US)
    log.step({"east": steps_of(2)[0]}, NOW, store)
    with monkeypatch.context() as patched:
        patched.setattr(FleetAudit, "absorb", lambda *_: 1 // 0)
        again = log_of(store, log.span)
    [seen] = again.end({}, NOW, goes_on=True)[""].observations
    assert "ZeroDivisionError" in seen.data["error"]


def test_deadlines_pass_only_when_all_was_read():
    """What waits is undecided then, and not while a backlog is read."""
    steps = steps_of(4)
    counts = {}
    for is_caught_up in (True, False):
        log, store, found = FleetLog(wait_us=0), MemoryFleetStore(), 0
        for step in steps:
            only = {name: of for name, of in step.items() if name.startswith("replica")}
            orders = Orders("now", is_caught_up=is_caught_up)
            for output in log.step({"": only}, orders, store).values():
                found += sum(one.reason == "source_not_in_fleet" for one in output.observations)
        counts[is_caught_up] = found
    assert counts[True] > 0 == counts[False]


def test_who_is_away_or_not_listed_is_no_member():
    """Nothing waits for a journal that goes on in another cluster, or is not judged any more."""
    steps = steps_of(4)
    store, log = MemoryFleetStore(), FleetLog(wait_us=WAIT_US)
    log.step({"east": steps[0]}, NOW, store)
    first, *others = sorted(log.audits["east"].reader.members)
    log.step({}, Orders("now", away={first: "west"}), store)
    assert sorted(log.audits["east"].reader.members) == others
    listed = log_of(store, log.span, listed=frozenset(others[1:]))
    listed.step({}, NOW, store)
    assert sorted(listed.audits["east"].reader.members) == others[1:]
    # Where it is at home it stays; names come out of messages.
    home = b"east".decode("ascii")
    for events in ({"east": steps[0]}, {}):
        log.step(events, Orders("now", away={first: home}), store)
    assert first in log.audits["east"].reader.members


def test_a_retired_instance_counts_from_its_next_start_on():
    """What it shows before that is of nobody."""
    events = next(step for step in steps_of(4) if any(map(len, step.values())))
    name, of = next((n, of) for n, of in events.items() if of[0].kind is not FleetEventKind.TIME)
    start = next(event for event in of if event.kind is FleetEventKind.BOOT)
    for retired_ts, is_member in ((start.ts - 1, True), (start.ts, False)):
        log, store = FleetLog(wait_us=WAIT_US), MemoryFleetStore()
        log.step({"": {name: of}}, Orders("now", retired={name: retired_ts}), store)
        assert (name in log.audits[""].reader.members) == is_member


def raising_for(bad: set[str], monkeypatch) -> None:
    absorb = FleetAudit.absorb

    def raising(self, events):
        if bad & {event.instance_id for event in events}:
            raise ZeroDivisionError("nobody thought of this")
        return absorb(self, events)

    monkeypatch.setattr(FleetAudit, "absorb", raising)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.usefixtures("mistakes_are_contained")
def test_evidence_that_raises_is_left_out(count, monkeypatch):
    """The others are compared as without it; it is undecided, in each step anew."""
    steps = steps_of(63)
    names = sorted({name for step in steps for name in step})
    bad = set(names[:count])
    found, store, log = [], MemoryFleetStore(), FleetLog(wait_us=WAIT_US)
    without, alone = FleetLog(wait_us=WAIT_US), MemoryFleetStore()
    with monkeypatch.context() as patched:
        raising_for(bad, patched)
        for step in steps:
            output = log.step({"": step}, NOW, store).get("", FleetOutput())
            refused = [o for o in output.observations if o.reason == "evidence_refused"]
            assert {o.instance_id for o in refused} == bad & {n for n, of in step.items() if of}
            found += refused
            others = {name: of for name, of in step.items() if name not in bad}
            expected = without.step({"": others}, NOW, alone).get("", FleetOutput())
            if not any(others.values()):  # what waits goes on waiting
                expected.waiting = without.audits[""].waiting() if without.audits else []
            rest = [o for o in output.observations if o.reason != "evidence_refused"]
            assert replace(output, observations=rest) == expected
            log = log_of(store, log.span) if len(found) % 3 else log
    assert found
    assert all(one.is_undecided and one.at == "now" for one in found)
    assert "ZeroDivisionError: nobody thought of this (test_fleet_log.py:" in found[0].data["error"]


@pytest.mark.parametrize("end", ["finish", "give_up"])
@pytest.mark.usefixtures("mistakes_are_contained")
def test_what_raises_at_the_end_stays_with_its_instance(monkeypatch, end):
    """The others are decided, or given up, as they would be without it."""
    whole, decided = getattr(FleetAudit, end), []
    store, log = MemoryFleetStore(), FleetLog(wait_us=WAIT_US)
    for step in steps_of(4):
        log.step({"": step}, NOW, store)
    bad, *others = sorted(log.audits[""].reader.members)

    def raising(self):
        decided.append(sorted(self.reader.members))
        if bad in self.reader.members:
            raise ZeroDivisionError("nobody thought of this")
        return whole(self)

    monkeypatch.setattr(FleetAudit, end, raising)
    output = log.end({}, Orders("the end"), goes_on=end == "give_up")[""]
    refused = [o for o in output.observations if o.reason == "evidence_refused"]
    assert [(bad, "the end")] == [(one.instance_id, one.at) for one in refused]
    assert decided[-1] == others


def test_a_cluster_has_no_more_instances_than_are_compared(monkeypatch):
    """Whoever may write cannot make members without end; a list of instances is its own limit."""
    monkeypatch.setattr(fleet_log, "INSTANCES_MAX", 2)
    steps = steps_of(63)
    names = sorted({name for step in steps for name in step})
    assert len(names) > 2
    for listed, count in ((None, 2), (frozenset(names), len(names))):
        log, store, named = FleetLog(listed=listed, wait_us=WAIT_US), MemoryFleetStore(), set()
        for step in steps:
            for output in log.step({"": step}, NOW, store).values():
                named |= {o.instance_id for o in output.observations if o.reason == BEYOND}
        assert len(log.audits[""].reader.members) == count
        assert named == set(names) - log.audits[""].reader.members.keys()
