"""A collection waits until its rows are compared: what nobody has compared is no evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from tallystick.coordinates.events._message_headers import headers_json
from tallystick.coordinates.events.block_codec import block_headers, encode_block
from tallystick.coordinates.events.incident_control import (
    ControlAction,
    IncidentControl,
    encode_control,
)
from tallystick.coordinates.events.journal import Block
from tallystick.coordinates.results import Verdict
from tallystick.coordinates.rules.explanation import check_text
from tallystick.expectations.validate import CollectionValidator
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.runs.result import RunResult
from tallystick.runs.tables import TABLES, read_run
from tallystick.streaming import fleet_log
from tallystick.streaming.auditor import rows_of_clusters, rows_of_results
from tallystick.streaming.bucket import Judging
from tallystick.streaming.checkpoint import CheckpointLocation, Layout
from tallystick.streaming.fleet import FleetStep
from tallystick.streaming.instance_step import BlockRow, JournalKey
from tallystick.streaming.progress import Metrics
from tallystick.streaming.schema import AUDIT_ROWS, CONTROL
from tallystick.streaming.table_sink import TableSink
from tests.support.audit_steps import BucketState, MemoryFleetStore, MemoryStore

SECOND = 1_000_000
NOW_US = 1_800_000_000 * SECOND
SOURCE, REPLICA = "source-a", "replica-a1"
ROWS = to_arrow_schema(AUDIT_ROWS)
NEVER, FOR_ONE_SECOND = Judging(wait_us=10**15), Judging(wait_us=SECOND)


def steps_of(every_us: int, **scenario: object) -> Iterator[list[Block]]:
    """The blocks of a healthy pair, those of so much time together."""
    blocks = simulate(Scenario(topology="pair", **scenario)).blocks(1)
    for _, some in groupby(blocks, lambda block: int(block.columns["ts"][0]) // every_us):
        yield list(some)


@dataclass
class Job:
    """The job's steps, without Spark and Kafka; each may be of a process of its own.

    Attributes:
        shown: Both verdicts after each step, as a watcher gets them.
    """

    directory: Path
    judging: Judging = NEVER
    validator: CollectionValidator = field(default_factory=CollectionValidator)
    shown: list[tuple[Verdict, Verdict]] = field(default_factory=list)
    state: BucketState = field(default_factory=BucketState)
    number: int = 0

    def __post_init__(self) -> None:
        (self.directory / TABLES).symlink_to(self.directory / "out")
        self.restart()

    def restart(self) -> None:
        self.bucket = self.state.bucket(self.judging)
        watcher = SimpleNamespace(
            stepped=lambda report: self.shown.append((report.verdict_now, report.verdict_period))
        )
        self.fleet = FleetStep(
            checkpoint=CheckpointLocation(self.directory / "checkpoint", Layout(1, "t")),
            tables=TableSink(self.directory / "out", "run"),
            kafka=None,
            validate=self.validator.validate,
            metrics=Metrics(watchers=[watcher]),
        )

    def step(self, blocks: list[Block], *orders: bytes) -> tuple[Verdict, Verdict]:
        messages: dict[JournalKey, list[BlockRow]] = {}
        for at, block in enumerate(blocks):
            headers = headers_json(block_headers(block))
            row = BlockRow(encode_block(block), headers, 0, 1_000 * self.number + at)
            messages.setdefault(JournalKey(block.cluster, block.instance_id), []).append(row)
        audits, fleets = MemoryStore(self.state.audits), MemoryFleetStore(self.state.fleets)
        planned = self.fleet.orders(self.number, ())
        results, outputs = self.bucket.step(messages, planned, audits, fleets)
        rows = rows_of_results(results) + rows_of_clusters(0, outputs, 0)
        rows += [
            dict.fromkeys(ROWS.names)
            | {"kind": CONTROL, "instance_id": "", "value": one, "partition": 0, "offset": 0}
            for one in orders
        ]
        table = pa.Table.from_pylist(rows, schema=ROWS)
        self.fleet.absorb(table, self.number, NOW_US + self.number * SECOND)
        state = BucketState(self.bucket.numbers, tuple(audits.read()), tuple(fleets.read()))
        self.state, self.number = state, self.number + 1
        return self.shown[-1]

    def report(self) -> RunResult:
        return read_run(self.directory, command="", title="", begun_at=datetime.now(timezone.utc))


@pytest.mark.parametrize("judging", [NEVER, FOR_ONE_SECOND])
def test_a_source_that_is_not_there_leaves_its_replica_undecided(tmp_path, monkeypatch, judging):
    """From the first row on, also before the deadline, and whoever goes on with the log."""
    monkeypatch.setattr(fleet_log, "LOG_ENTRIES_MAX", 3)
    job = Job(tmp_path, judging)
    undecided = Verdict.UNDECIDED, Verdict.UNDECIDED
    for number, blocks in enumerate(steps_of(500_000, seed=3, duration_ms=3_000)):
        if number % 4 == 3:
            job.restart()
        shown = job.step([block for block in blocks if block.instance_id == REPLICA])
        result = job.report()
        assert undecided == shown == (result.verdict_now, result.verdict), number
        why = {one.reason for one in result.observations if one.is_undecided}
        assert ("collections_open" in why) == bool(result.cuts and not result.validations)
    closed = {row["collection_id"] for row in result.validations}
    assert len(closed) == (3 if judging is FOR_ONE_SECOND else 0)
    whose = [one for one in result.checks if one.check.reason == "source_not_in_fleet"]
    assert closed == {one.collection_id for one in whose}  # each its own
    job.fleet.pause([job.bucket], NOW_US, is_history=False)
    result = job.report()
    assert undecided == job.shown[-1] == (result.verdict_now, result.verdict)
    assert {row.collection_id for row in result.cuts} == {
        row["collection_id"] for row in result.validations
    }
    assert "source_not_in_fleet" in {one.check.reason for one in result.newest_doubts}
    assert "comparison_waits" not in {one.check.reason for one in result.checks}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("every_us", [130_000, 700_000, 2_300_000])
def test_a_healthy_fleet_is_consistent_once_it_has_been_compared(tmp_path, seed, every_us):
    """With the next heartbeats of its sources; each collection is validated once."""
    job = Job(tmp_path)
    shown = [job.step(blocks) for blocks in steps_of(every_us, seed=seed, duration_ms=4_000)]
    undecided = (Verdict.UNDECIDED, Verdict.UNDECIDED)
    first = next(n for n, one in enumerate(shown) if one != undecided)
    assert {(Verdict.CONSISTENT, Verdict.CONSISTENT)} == set(shown[first:])
    assert first <= max(2, 3 * SECOND // every_us)
    result = job.report()
    assert (result.verdict_now, result.verdict) == shown[-1]
    job.fleet.finish([job.bucket])
    assert (Verdict.CONSISTENT, Verdict.CONSISTENT) == job.shown[-1]
    result = job.report()
    assert Verdict.CONSISTENT is result.verdict_now is result.verdict
    names = [row["collection_id"] for row in result.validations]
    assert sorted({row.collection_id for row in result.cuts}) == sorted(names)


@pytest.mark.parametrize("end", ["finish", "pause"])
def test_what_waited_at_the_last_collection_is_decided_at_the_end(tmp_path, end):
    """Of journals that end with it, or go on unread; if the job goes on, that is taken back."""
    job = Job(tmp_path)
    steps = steps_of(100_000, seed=3, duration_ms=3_000)
    while len({row.instance_id for row in job.report().cuts}) < 2:
        job.step(next(steps))
    job.step(next(steps))  # what comes between rows and heartbeats
    before = job.report()
    assert job.fleet._rounds._waiting
    assert (Verdict.UNDECIDED, Verdict.UNDECIDED) == (before.verdict_now, before.verdict)
    if end == "finish":
        job.fleet.finish([job.bucket])
    else:
        job.fleet.pause([job.bucket], NOW_US, is_history=True)
    result = job.report()
    assert (Verdict.CONSISTENT, Verdict.CONSISTENT) == job.shown[-1]
    assert job.shown[-1] == (result.verdict_now, result.verdict)
    assert "comparison_waits" not in {one.check.reason for one in result.checks}
    assert [False] == [row["is_late"] for row in result.validations]
    job.restart()
    assert (Verdict.UNDECIDED, Verdict.UNDECIDED) == job.step([])
    assert (job.report().checks, job.report().validations) == (before.checks, before.validations)


def test_what_is_never_compared_is_undecided_at_the_deadline(tmp_path):
    """As of a replica whose own journal has ended: no time of it passes."""
    job = Job(tmp_path)
    steps = steps_of(500_000, seed=3, duration_ms=3_000)
    while not job.report().cuts:
        job.step([block for block in next(steps) if block.instance_id == REPLICA])
    for _ in range(61):
        job.step([])
    [closed] = job.report().validations
    assert (Verdict.UNDECIDED.value, 0) == (closed["verdict"], closed["missing"])
    [why, *_] = [one for one in job.report().newest_doubts if one.instance_id == REPLICA]
    assert "comparison_waits" == why.check.reason
    said = "not compared before the deadline, as other journals were not known that far"
    assert said in check_text(why.check)


def test_nothing_waits_for_a_replica_that_was_retired(tmp_path):
    """Nor is it waited for in the step that retires it."""
    job = Job(tmp_path)
    steps = steps_of(500_000, seed=3, duration_ms=3_000)
    while not job.report().cuts:
        job.step([block for block in next(steps) if block.instance_id == REPLICA])
    assert job.fleet._rounds._waiting
    control = IncidentControl(ControlAction.RETIRE, REPLICA, "me", "sold", NOW_US)
    job.step(next(steps), encode_control(control))
    job.step(next(steps))
    assert REPLICA not in str(job.fleet._rounds._waiting)
