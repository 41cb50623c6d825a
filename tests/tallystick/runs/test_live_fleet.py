"""The fleet that a demonstration shows, without a broker: moments, pace, faults, negative cases."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.audit.fleet import FleetAudit
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.collect_request import CollectRequest
from tallystick.coordinates.events.journal import RecordType, Stream
from tallystick.coordinates.results import Verdict
from tallystick.producers.kafka_clients.errors import SupersededError
from tallystick.producers.publisher import MemorySink
from tallystick.producers.simulator.faults import FAULTS
from tallystick.runs.demo import DEADLINE_US, audit_deadline, demo_fleet, demo_scenario
from tallystick.runs.live_fleet import LiveFleet, Pace
from tallystick.streaming.rounds import Rounds

MOMENTS = 7


class Requests:
    """Asks for a collection in every so many polls, which are so many in a second."""

    def __init__(
        self, every: int = 15, instances: frozenset[str] | None = None, a_second: int = 8
    ) -> None:
        self.every = every
        self.a_second = a_second
        self.instances = instances
        self.polls = 0

    def clock(self) -> float:
        return self.polls / self.a_second

    def poll(self, timeout_s: float) -> list[CollectRequest]:
        self.polls += 1
        if self.polls % self.every:
            return []
        return [CollectRequest(f"c-{self.polls:04d}", self.polls, self.instances)]


def demonstrate(
    seed: int = 1,
    fault: str | None = None,
    negatives: tuple[str, ...] = (),
    every: int = 15,
    a_second: int = 8,
):
    """Run a demonstration's fleet to its end; the fleet, its life and the blocks."""
    fleet, pace = demo_fleet(demo_scenario(seed, fault, negatives), 1_700_000_000_000_000)
    requests, sink = Requests(every, a_second=a_second), MemorySink()
    live = LiveFleet(fleet, sink, requests, pace=pace, clock=requests.clock)
    live.run(threading.Event())
    return fleet, live, sink.blocks


def audited_live(blocks):
    """What a job that goes on has found so far: nothing is its end, but what is overdue expires."""
    instances: dict[str, InstanceAudit] = {}
    fleet = FleetAudit()
    findings = []
    for block in blocks:
        audit = instances.get(block.instance_id)
        if audit is None:
            audit = instances[block.instance_id] = InstanceAudit(block.instance_id)
        output = audit.absorb(block)
        findings += [*output.findings, *fleet.absorb(output.fleet_events).findings]
        known = {event.instance_id: event.ts - DEADLINE_US for event in output.fleet_events}
        findings += fleet.expire(known).findings
    return {finding.rule for finding in findings}


def test_a_healthy_demonstration_is_consistent():
    """All planned collections are answered, every record arrives, and nothing is found."""
    fleet, live, blocks = demonstrate()
    result = audit_history(blocks)
    assert (Verdict.CONSISTENT, []) == (result.verdict, result.findings)
    assert (MOMENTS, MOMENTS) == (live.collections, len({c.collection_id for c in result.cuts}))
    assert sum(map(len, blocks)) == live.records
    assert ["hub", "replica-a1", "replica-a2", "source-a", "source-b"] == sorted(fleet.instances)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_found_in_the_demonstration(fault):
    """`tallystick demo --fault NAME` names exactly the rules of the catalogue, in time."""
    # What is polled for less often comes in fewer blocks: as below, it is the same.
    fleet, _, blocks = demonstrate(fault=fault, every=4, a_second=2)
    assert fleet.injected, "the fault found no moment"
    assert FAULTS[fault].must_fire == audited_live(blocks)


def test_the_rest_of_the_machine_does_not_matter():
    """However late the requests come, the rows show the same history."""
    rows = []
    for every in (5, 40):
        _, _, blocks = demonstrate(every=every)
        bodies = [
            block.body(index)
            for block in blocks
            for index in np.flatnonzero(
                (block.columns["stream"] == Stream.SERVER)
                & (block.columns["type"] == RecordType.LOG_STATUS)
            ).tolist()
        ]
        rows.append([body["row"] for body in bodies])
    assert len(rows[0]) == MOMENTS * 5
    assert rows[0] == rows[1]


def test_virtual_time_follows_the_clock_and_waits_at_a_planned_moment():
    """Time runs at the speed that was asked for, and never past a moment nobody has asked for."""
    fleet, _ = demo_fleet(demo_scenario(1), 0)
    requests = Requests(every=10_000)
    stop = threading.Event()
    seen = []

    def clock() -> float:
        seen.append(fleet.now)
        if requests.polls == 8:
            stop.set()
        return requests.clock()

    live = LiveFleet(
        fleet, MemorySink(), requests, pace=Pace(speed=4.0, moments=[1_000_000]), clock=clock
    )
    live.run(stop)
    assert [0, 0, *range(500_000, 1_000_001, 500_000), *[1_000_000] * 5] == seen


def test_a_live_fleet_ends_when_somebody_else_writes_its_journals():
    """At once, and as an error: what it would write is dropped."""
    fleet, pace = demo_fleet(demo_scenario(1), 0)
    sink, requests = MemorySink(), Requests()
    later: dict[str, SupersededError] = {}

    def superseded() -> dict[str, SupersededError]:
        if requests.polls == 20:
            later["hub"] = SupersededError("hub", 8, 7)
        return later

    live = LiveFleet(
        fleet,
        sink,
        requests,
        pace=pace,
        epochs=dict.fromkeys(fleet.instances, 7),
        superseded=superseded,
        clock=requests.clock,
    )
    with pytest.raises(SupersededError, match=r"hub: another producer .* \(epoch 8, ours is 7\)"):
        live.run(threading.Event())
    assert requests.polls == 20
    assert {block.epoch for block in sink.blocks} == {7}


def test_a_live_fleet_answers_whenever_it_is_asked_and_only_then():
    """Without planned moments each request is answered; one for others is not."""
    for instances, answered in ((None, 3), (frozenset({"hub"}), 3), (frozenset({"other"}), 0)):
        fleet, _ = demo_fleet(demo_scenario(1), 0)
        requests = Requests(10, instances)
        names: list[str] = []
        sink = MemorySink()
        live = LiveFleet(
            fleet,
            sink,
            requests,
            pace=Pace(speed=1.0, ends_at=4_000_000),
            epochs=dict.fromkeys(fleet.instances, 9),
            answered=names.append,
            clock=requests.clock,
        )
        live.run(threading.Event())
        assert (answered, answered) == (live.collections, len(names))
        assert {9} == {block.epoch for block in sink.blocks}


def test_requests_beyond_the_plan_are_no_collections_however_slow_the_machine_is():
    """The fleet has ended: nobody answers them. What some have answered lacks the others."""
    now, later = 1_700_000_000_000_000, 1_700_007_200_000_000
    rounds = Rounds(("a", "b"), audit_deadline())
    requests = [CollectRequest(name, now, None) for name in ("half", "beyond")]
    cut = Cut(collection_id="half", instance_id="a", scope="instance", channel=None, ts=now)
    rounds.absorb([cut], {}, requests, now_us=now)
    assert ([], []) == rounds.absorb((), {}, now_us=later)
    closed, _ = rounds.give_up(later, is_history=False)
    assert [("half", ("b",))] == [(each.collection_id, each.missing) for each in closed]
