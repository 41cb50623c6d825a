"""A replica far behind its source is judged like one that is not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from tallystick.coordinates.audit import needed_logs
from tallystick.coordinates.audit.fleet import FleetAudit, FleetOutput
from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.audit.instance_timeline import EVENTS_MIN, InstanceTimeline
from tallystick.coordinates.audit.timeline_file import HEADER_EVENTS, PACKED_EVENTS, BinlogFile
from tallystick.coordinates.results import Outcome
from tallystick.coordinates.state_codec import encode
from tallystick.producers.load.history import LoadPlan
from tallystick.producers.load.run import LoadOptions, load_blocks
from tests.support.fleet_journals import (
    EVENT_LENGTH,
    EVENTS_OF_GROUP,
    A,
    B,
    C,
    Clock,
    Journal,
    end_of,
)

STEP = 2**15
"""Groups that the source logs at a time: three quarters of the events that are kept anyway."""
STEPS = 6
COORDINATES = "source_coordinate_valid"
MIRROR = "relay_mirrors_source"


@dataclass
class Fleet:
    """A source that logs much, and replicas that have received it; read step by step."""

    name: str = ""
    uuids: tuple[str, str, str] = (A, B, C)
    clock: Clock = field(default_factory=Clock)
    audit: FleetAudit = field(default_factory=FleetAudit)
    logged: int = 0
    in_file: int = 0
    received: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.uuid = self.uuids[0]
        self.journals = [
            Journal(self.clock, name + self.name, uuid, number)
            for number, (name, uuid) in enumerate(zip("srq", self.uuids, strict=True), start=1)
        ]
        self.source, self.slow, self.quick = self.journals
        for journal in self.journals:
            journal.boot()
            journal.open_file()
        for replica in (self.slow, self.quick):
            replica.follow(self.source)
        self.source.status("")

    def log(self, count: int = STEP) -> None:
        source, event_count = self.source, EVENTS_OF_GROUP * count
        ends = source.position + EVENT_LENGTH * np.arange(1, event_count + 1)
        source.fleet_event(
            FleetEventKind.LOGGED,
            {
                "event_ends": ends,
                "group_event": np.arange(2, event_count, EVENTS_OF_GROUP, dtype=np.int32),
                **self._columns(self.logged + 1, count),
            },
            **source._place(),
            start=source.position,
            sids=[self.uuid],
        )
        source.position = int(ends[-1])
        self.logged += count
        self.in_file += count

    def rotate(self) -> None:
        self.source.rotate(f"{self.uuid}:1-{self.logged}")
        self.in_file = 0

    def _columns(self, first: int, count: int) -> dict[str, np.ndarray]:
        return {
            "group_sid": np.zeros(count, dtype=np.int32),
            "group_gno": np.arange(first, first + count),
            "group_server_id": np.ones(count, dtype=np.int64),
            "group_commit_ts": np.full(count, 1000),
            "group_is_empty": np.zeros(count, dtype=np.bool_),
        }

    def receive(self, replica: Journal, last: int | None = None) -> None:
        """The groups of the source's present file up to a GTID, by default to the last."""
        before = self.logged - self.in_file
        first = max(self.received[replica.name], before)
        last = self.logged if last is None else last
        ends = end_of(0) + 3 * EVENT_LENGTH * np.arange(first - before + 1, last - before + 1)
        replica.fleet_event(
            FleetEventKind.RECEIVED,
            {"group_source_end": ends, **self._columns(first + 1, last - first)},
            channel="",
            channel_lineage=replica.channel_lineages[""],
            source_base_name=f"{self.source.name}-bin",
            source_file_number=self.source.file,
            follows_hole=False,
            sids=[self.uuid],
        )
        self.received[replica.name] = last

    def row(self, replica: Journal, executed: int, by: int = 0) -> None:
        """A row that has executed so many groups of the source's file, and some bytes more.

        It has executed by set what it has received, or, with bytes more, no more than those groups.
        """
        gtids = f"{self.uuid}:1-{self.received[replica.name]}"
        done = f"{self.uuid}:1-{executed}" if by else gtids
        values = {
            "read_source_log_file": self.source.file_name,
            "read_source_log_pos": self.source.position,
            "exec_source_log_file": self.source.file_name,
            "exec_source_log_pos": end_of(executed) + by,
        }
        replica.status(done, replica.says(self.source, gtids, **values))

    def read(self) -> FleetOutput:
        """The audit, as it was saved, reads what is new; what it says to that."""
        self.audit = FleetAudit.from_bytes(self.audit.to_bytes())
        output = self.audit.absorb([e for journal in self.journals for e in journal.fleet_events])
        for journal in self.journals:
            journal.fleet_events = []
        return output

    def step(self, executed: int, by: int = 0) -> FleetOutput:
        """The source logs much, the slow replica stays where it is, the quick one follows."""
        self.log()
        for replica in (self.slow, self.quick):
            self.receive(replica)
        self.row(self.slow, executed, by)
        self.row(self.quick, self.in_file)
        return self.catch_up()

    def catch_up(self) -> FleetOutput:
        """The source's journal is known up to now."""
        self.source.status(f"{self.uuid}:1-{self.logged}")
        self.source.time()
        return self.read()

    @property
    def timeline(self) -> InstanceTimeline:
        """What is remembered of the source."""
        return self.audit.reader.timelines[self.source.name]

    @property
    def remembered(self) -> int:
        """Events of the source."""
        return self.timeline.event_count


def checks(output: FleetOutput, rule: str, replica: Journal) -> list[tuple[Outcome, str]]:
    """What a rule says of a replica."""
    of_replica = [one.check for one in output.checks if one.instance_id == replica.name]
    return [(check.outcome, check.reason) for check in of_replica if check.rule == rule]


def far_behind(executed: int = 7) -> Fleet:
    """The slow replica is half a million events behind, and all is well."""
    fleet = Fleet()
    for _ in range(STEPS):
        output = fleet.step(executed)
        assert output.findings == []
        assert {one.check.outcome for one in output.checks} == {Outcome.HOLDS}
    return fleet


def size_of(fleet: Fleet) -> int:
    """Bytes of the source's log in a saved state."""
    return len(encode(dict[tuple[int, int], BinlogFile], fleet.timeline.files))


HOLDS = [(Outcome.HOLDS, "")]


def test_what_the_slowest_replica_needs_is_remembered() -> None:
    """All of it, from the group in which it is, and in few bytes."""
    fleet = far_behind()
    assert fleet.remembered > 4 * 2**17
    output = fleet.step(9)
    for replica in (fleet.slow, fleet.quick):
        assert checks(output, COORDINATES, replica) == HOLDS
        assert checks(output, MIRROR, replica) == HOLDS
    assert size_of(fleet) < 2.2 * fleet.remembered


BETWEEN_PARTS = (3 * PACKED_EVENTS - HEADER_EVENTS) // EVENTS_OF_GROUP
"""After so many groups comes one whose first event is the last of those packed together."""


@pytest.mark.parametrize("executed", [7, BETWEEN_PARTS])
@pytest.mark.parametrize(
    ("by", "case"),
    [
        (EVENT_LENGTH, "executed_inside_group"),
        (2 * EVENT_LENGTH, "executed_inside_group"),
        (1, "executed_inside_event"),
    ],
)
def test_a_position_that_is_none_is_found_however_far_behind(
    executed: int, by: int, case: str
) -> None:
    """Inside a group, and inside an event, of half a million events ago; and it stays so."""
    fleet = far_behind(executed)
    output = fleet.step(executed, by)
    assert [(f.rule, f.case, f.instance_id) for f in output.findings] == [(COORDINATES, case, "r")]
    output = fleet.step(executed, by)
    assert checks(output, COORDINATES, fleet.slow) == [(Outcome.BROKEN, "")]


def test_what_all_have_passed_is_forgotten() -> None:
    """But for the newest events, as many as in a fleet where nobody ever lagged."""
    page = (Path(__file__).parents[2] / "docs/streaming.md").read_text("utf-8")
    promised = int(re.search(r"last ([\d,]+) events are remembered", page)[1].replace(",", ""))
    fleet = far_behind()
    kept = fleet.remembered
    fleet.step(fleet.in_file // 2)
    assert EVENTS_MIN + 2 * PACKED_EVENTS < fleet.remembered < kept
    output = fleet.step(fleet.in_file + STEP)
    assert checks(output, COORDINATES, fleet.slow) == HOLDS
    assert promised <= fleet.remembered < promised + 2 * PACKED_EVENTS


def test_the_state_of_a_fleet_that_is_up_to_date_does_not_grow() -> None:
    """However much its source logs, in one file or several."""
    fleet = Fleet()
    for step in range(12):
        if step % 4 == 3:
            fleet.rotate()
        fleet.step(fleet.in_file + STEP)
        assert fleet.remembered < EVENTS_MIN + 2 * PACKED_EVENTS
        assert size_of(fleet) < 2.2 * (EVENTS_MIN + 2 * PACKED_EVENTS)
        assert fleet.timeline.byte_count < 800_000


def retired(fleet: Fleet) -> None:
    fleet.audit.retire(fleet.slow.name)
    fleet.journals.remove(fleet.slow)


def without_channel(fleet: Fleet) -> None:
    fleet.slow.administer("reset_all")


def not_in_its_row(fleet: Fleet) -> None:
    fleet.slow.status("")


def in_another_log(fleet: Fleet) -> None:
    values = {"exec_source_log_file": "t-bin.000001", "exec_source_log_pos": end_of(7)}
    fleet.slow.status("", fleet.slow.says(fleet.source, "", **values))


def of_another_source(fleet: Fleet) -> None:
    fleet.slow.follow(fleet.quick)


@pytest.mark.parametrize(
    "end", [retired, without_channel, not_in_its_row, in_another_log, of_another_source]
)
def test_who_is_no_replica_any_more_needs_nothing(end: Callable[[Fleet], None]) -> None:
    """Retired, without its channel, in a log of another name, or pointed to another source."""
    fleet = far_behind()
    end(fleet)
    fleet.log()
    fleet.source.time()
    fleet.read()
    assert fleet.remembered < EVENTS_MIN + 2 * PACKED_EVENTS


@pytest.mark.parametrize("begins_anew", [True, False])
def test_a_log_that_was_reset_is_needed_no_more(begins_anew: bool) -> None:
    """Nor is the new one needed by a replica whose coordinates are of the old one."""
    fleet = Fleet()
    fleet.step(7)
    fleet.source.reset()
    fleet.logged = fleet.in_file = 0
    fleet.received.clear()
    if begins_anew:
        fleet.slow.follow(fleet.source)
    for _ in range(STEPS):
        fleet.step(7)
    assert [*fleet.timeline.files] == [(1, 1)]
    is_needed = fleet.remembered > STEPS * STEP * EVENTS_OF_GROUP
    assert is_needed == begins_anew


def test_a_gap_in_the_replicas_journal_changes_nothing() -> None:
    """It is still where it was, as the next row shows."""
    fleet = far_behind()
    fleet.slow.gap()
    fleet.log()
    fleet.catch_up()
    output = fleet.step(9)
    assert checks(output, COORDINATES, fleet.slow) == HOLDS


def test_a_row_that_waits_for_the_source_needs_its_position() -> None:
    """The source's time is not known yet, while its log grows, and the replica follows."""
    fleet = Fleet()
    fleet.log()
    fleet.row(fleet.slow, 7)
    for _ in range(STEPS):
        fleet.log()
        fleet.row(fleet.slow, fleet.in_file)
        fleet.read()
    assert checks(fleet.catch_up(), COORDINATES, fleet.slow) == (1 + STEPS) * HOLDS


def test_queued_groups_of_which_no_row_has_come_need_theirs() -> None:
    """A collection may be long in coming, and a source quick."""
    fleet = Fleet()
    for _ in range(STEPS):
        fleet.log()
        fleet.receive(fleet.slow)
        fleet.source.time()
        fleet.read()
    fleet.row(fleet.slow, fleet.in_file)
    assert checks(fleet.catch_up(), MIRROR, fleet.slow) == HOLDS


def test_queued_groups_that_wait_for_the_source_need_its_groups() -> None:
    """They are from the begin of its log on, and the replica has executed more."""
    fleet = Fleet()
    fleet.log()
    fleet.receive(fleet.slow)
    for _ in range(STEPS):
        fleet.log()
        fleet.row(fleet.slow, fleet.in_file)
        fleet.read()
    assert checks(fleet.catch_up(), MIRROR, fleet.slow) == HOLDS


def test_what_waits_is_compared_with_the_groups_since_the_last_ones() -> None:
    """The channel goes on in the third file: what it left out of the second counts."""
    fleet = Fleet()
    fleet.step(STEP)
    fleet.rotate()
    fleet.log(2 * STEP)
    fleet.rotate()
    fleet.log()
    for replica in (fleet.slow, fleet.quick):
        fleet.receive(replica)
        fleet.row(replica, fleet.in_file)
    for _ in range(3):
        fleet.log()
        fleet.read()
    output = fleet.catch_up()
    assert checks(output, MIRROR, fleet.slow) == HOLDS


def test_a_load_at_full_speed_is_decided_to_its_last_row() -> None:
    """Replicas that follow a slot of 50,000 events later, in micro-batches of some 250,000."""
    audit, instances = FleetAudit(), dict[str, InstanceAudit]()
    options = LoadOptions(plan=LoadPlan(sources=1, replicas=2), events=1_500_000)
    blocks = load_blocks(options, lambda: 0.0)
    undecided = []
    while batch := list(islice(blocks, 64)):
        events = []
        for block in batch:
            instance = instances.setdefault(block.instance_id, InstanceAudit(block.instance_id))
            events += instance.absorb(block).fleet_events
        undecided += [o for o in audit.absorb(events).observations if o.is_undecided]
    events = [event for each in instances.values() for event in each.finish().fleet_events]
    for output in (audit.absorb(events), audit.finish()):
        undecided += [o for o in output.observations if o.is_undecided]
    assert undecided == []


class TestLimit:
    """A replica may be so far behind that what it needs takes more bytes than there is room."""

    def test_what_is_given_up_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(needed_logs, "SOURCE_BYTES_MAX", 1_200_000)
        fleet, named = Fleet(), []
        for step in range(10):
            fleet.log()
            fleet.receive(fleet.slow, 1000 * step + 1)
            fleet.receive(fleet.quick)
            fleet.row(fleet.slow, 7)
            fleet.row(fleet.quick, fleet.in_file)
            output = fleet.catch_up()
            named += [o for o in output.observations if o.reason == "replica_too_far_behind"]
        undecided = [(Outcome.UNDECIDED, "replica_too_far_behind")]
        assert checks(output, COORDINATES, fleet.slow) == undecided
        assert checks(output, MIRROR, fleet.slow) == undecided
        assert checks(output, COORDINATES, fleet.quick) == HOLDS
        assert checks(output, MIRROR, fleet.quick) == HOLDS
        assert fleet.remembered > EVENTS_MIN + 2 * PACKED_EVENTS
        assert fleet.timeline.byte_count < 1_300_000
        assert [(o.instance_id, o.data["source"]) for o in named] == 3 * [("r", "s")]

    def test_sources_share_the_room_of_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(needed_logs, "FLEET_BYTES_MAX", 2_400_000)
        first = Fleet()
        second = Fleet("2", tuple(one[:-1] + "9" for one in (A, B, C)), first.clock, first.audit)
        for _ in range(8):
            for fleet in (first, second):
                fleet.audit = first.audit if fleet is second else second.audit
                fleet.step(7)
        for fleet in (first, second):
            fleet.audit = second.audit
            assert fleet.timeline.given_up is not None
            assert fleet.timeline.byte_count < 1_300_000
