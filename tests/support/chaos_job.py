"""The steps of the streaming job in memory, killed at any of them and started again.

``Bucket``, ``FleetStep`` and its checkpoint location are the real ones; tables and published
results are lists, with the promises of Delta Lake and Kafka.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.events._message_headers import headers_json
from tallystick.coordinates.events.block_codec import CLUSTER
from tallystick.coordinates.results import (
    Incident,
    SubjectCheck,
    Verdict,
)
from tallystick.streaming import audit_log, fleet_log
from tallystick.streaming.audit_log import AuditLog, Entry
from tallystick.streaming.auditor import rows_of_clusters, rows_of_results
from tallystick.streaming.bucket import Bucket, Judging
from tallystick.streaming.checkpoint import CheckpointLocation, Layout
from tallystick.streaming.fleet import FleetStep
from tallystick.streaming.instance_step import BlockRow, DeadLetter, JournalKey, KeyResult
from tallystick.streaming.journal_holes import PlannedOffsets
from tallystick.streaming.progress import Metrics
from tallystick.streaming.rounds import Deadline
from tallystick.streaming.schema import AUDIT_ROWS
from tallystick.streaming.table_sink import END_BATCH
from tests.support.audit_steps import BucketState, MemoryFleetStore, MemoryStore
from tests.support.chaos_journal import CANARY, PARTITIONS, CrashError, Crashes, Topic, flipped_bit

NOW_US = 1_800_000_000_000_000
NEVER = Deadline(10**15, 10**6, None, 10**15)
"""No answer is late: what is missing at the end is lost."""
JUDGING = Judging(wait_us=NEVER.journal_us)


@cache
def _arrow_rows() -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(AUDIT_ROWS)


AuditEntries = tuple[tuple[int, Entry], ...]
"""The instances' log, each entry with its segment."""


@dataclass
class Plan:
    """A micro-batch: offsets, the job's clock, and which saved state is damaged before it.

    Attributes:
        audits: The instances' log of the first job that ran it, if something of it is damaged, and
            the number of its next entry.
    """

    ranges: list[tuple[int, int]]
    now_us: int
    damage: tuple[str, int] | None = None
    audits: tuple[AuditEntries, int] | None = None


@dataclass
class Disk:
    """What outlives the job's process."""

    directory: Path
    plans: list[Plan] = field(default_factory=list)
    logs: dict[int, dict[bool, BucketState]] = field(default_factory=lambda: {-1: {}})
    """After each micro-batch, by bucket: the canary has its own, so that it is never lost."""
    committed: int = -1
    end_damage: int | None = None
    damaged: set[int] = field(default_factory=set)
    rows: dict[str, list[tuple[int | None, Any]]] = field(default_factory=lambda: defaultdict(list))
    done: Counter[str] = field(default_factory=Counter)
    changes: dict[str, Any] = field(default_factory=dict)
    letters: int = 0

    def values(self, table: str) -> list[Any]:
        return [value for _, value in self.rows[table]]


class Tables:
    """As ``TableSink``: a commit for each table and number, made once."""

    def __init__(self, disk: Disk, crashes: Crashes) -> None:
        self._disk = disk
        self._crashes = crashes

    def write(self, batch: int | None, **values: Any) -> None:
        if batch is END_BATCH:
            self.take_back_end()
        for name, of_table in values.items():
            if not of_table or (batch is not END_BATCH and self._disk.done[name] > batch):
                continue
            self._disk.rows[name] += [(batch, value) for value in of_table]
            if batch is not END_BATCH:
                self._disk.done[name] = batch + 1
            self._crashes.at(f"table {name} written")

    def incidents(self, before: int) -> list[Incident]:
        rows = [one for batch, one in self._disk.rows["incidents"] if batch < before]
        return list({one.incident_id: one for one in rows}.values())

    def take_back_end(self) -> None:
        for name, rows in self._disk.rows.items():
            self._disk.rows[name] = [row for row in rows if row[0] is not END_BATCH]

    def last_collection(self) -> tuple[list[Cut], list[SubjectCheck]]:
        begun: dict[str, int] = {}
        for cut in self._disk.values("cuts"):
            begun[cut.collection_id] = min(cut.ts, begun.get(cut.collection_id, cut.ts))
        newest = max(begun, key=begun.__getitem__, default=None)
        cuts, checks = self._disk.values("cuts"), self._disk.values("checks")
        return (
            [one for one in cuts if one.collection_id == newest],
            [one for one in checks if one.collection_id == newest],
        )


class Results:
    """As ``KafkaSink``: at least once."""

    def __init__(self, disk: Disk, crashes: Crashes) -> None:
        self._disk = disk
        self._crashes = crashes

    def publish(self, findings: Any, changes: Any, origin: Any) -> None:
        for change in changes:
            known = self._disk.changes.setdefault(change.change_id, change)
            assert known == change, "a change that is published again is the same"
        if changes:
            self._crashes.at("incidents published")
        if findings:
            self._crashes.at("findings published")

    def publish_dead_letters(self, letters: Any) -> None:
        if letters:
            self._disk.letters += len(letters)
            self._crashes.at("dead letters published")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return ""


def made_from(audits: AuditEntries, next_number: int) -> dict[JournalKey, bytes]:
    """The audits that whoever holds nothing makes from a log."""
    log = AuditLog(JUDGING.disabled, audits, next_number)
    return {name: log._state(name)[0] for name in sorted(log._since)}


@dataclass(frozen=True)
class _Answer:
    verdict: Verdict = Verdict.CONSISTENT


class Job:
    """The streaming job, started again whenever it crashes."""

    def __init__(self, topic: Topic, disk: Disk, crashes: Crashes) -> None:
        self.topic = topic
        self.disk = disk
        self._crashes = crashes
        self._start()

    def _start(self) -> None:
        self._held: dict[bool, Bucket] = {}
        self._fleet = FleetStep(
            checkpoint=CheckpointLocation(self.disk.directory, Layout(2, "t")),
            tables=Tables(self.disk, self._crashes),
            kafka=Results(self.disk, self._crashes),
            validate=lambda _: _Answer(),
            metrics=Metrics(),
            deadline=NEVER,
        )

    def run(self, plan: Plan | None = None) -> None:
        """One micro-batch, as often as it takes; without a plan, of what is in the topic now."""
        number = self.disk.committed + 1
        if len(self.disk.plans) == number:
            self.disk.plans.append(plan or self.plan())
        while self.disk.committed < number:
            try:
                self._crashes.at("planned")
                self._run(number)
            except CrashError:
                self._start()

    def plan(self) -> Plan:
        plans = self.disk.plans
        begun = [end for _, end in plans[-1].ranges] if plans else [0] * PARTITIONS
        ends = [len(partition) for partition in self.topic.partitions]
        return Plan(list(zip(begun, ends, strict=True)), NOW_US + 1_000 * len(plans))

    def _run(self, number: int) -> None:
        plan = self.disk.plans[number]
        if plan.damage is not None and number not in self.disk.damaged:
            self.disk.damaged.add(number)
            self._damage(number, *plan.damage)
        rows: dict[JournalKey, list[BlockRow]] = defaultdict(list)
        for partition, (first, end) in enumerate(plan.ranges):
            for offset in range(first, end):
                message = self.topic.partitions[partition][offset]
                headers = dict(message.headers)
                key = JournalKey(_text(headers.get(CLUSTER, b"")), _text(message.key))
                headers_text = headers_json(message.headers)
                rows[key].append(BlockRow(message.value, headers_text, partition, offset))
        frames = []
        for key in [key for key in rows if not key.instance_id]:
            letters = [DeadLetter(row, "no instance") for row in rows.pop(key)]
            frames += rows_of_results({key: KeyResult(is_known=False, dead_letters=letters)})
        planned = [PlannedOffsets("t", n, *of) for n, of in enumerate(plan.ranges)]
        orders = self._fleet.orders(number, planned)
        before, after = self.disk.logs[number - 1], {}
        held, self._held = self._held, {}
        for bucket in (False, True):
            state = before.get(bucket) or BucketState()
            of, audits = held.get(bucket), MemoryStore(state.audits)
            fleets = MemoryFleetStore(state.fleets)
            if of is None or number % 5 == 0:  # or another process has the task
                of = state.bucket(JUDGING)
            of_bucket = {
                key: rows[key] for key in sorted(rows) if (key.instance_id == CANARY) is bucket
            }
            with (
                patch.object(audit_log, "SEGMENT_COST_MIN", 3 * audit_log.ROW_COST),
                patch.object(audit_log, "STATE_COST", 0),
                patch.object(fleet_log, "LOG_ENTRIES_MAX", 4),
            ):
                results, outputs = of.step(of_bucket, orders, audits, fleets)
            held[bucket] = of
            after[bucket] = BucketState(of.numbers, tuple(audits.read()), tuple(fleets.read()))
            frames += rows_of_results(results)
            for _ in results:
                self._crashes.at("judged")
            frames += rows_of_clusters(int(bucket), outputs, of.fleet_bytes)
        self.disk.logs = {number - 1: before, number: after}
        self._crashes.at("states written")
        table = pa.Table.from_pylist(frames, schema=_arrow_rows())
        self._fleet.absorb(table, number, plan.now_us)
        self._crashes.at("fleet state written")
        self.disk.committed, self._held = number, held
        self._crashes.at("committed")

    def known(self, number: int) -> list[str]:
        """The instances that have a state after a micro-batch, the canary left out."""
        state = self.disk.logs[number].get(False) or BucketState()
        return sorted({name for _, entry in state.audits for _, name in json.loads(entry.names)})

    def _damage(self, number: int, what: str, seed: int) -> None:
        rng = Random(seed)
        states = self.disk.logs[number - 1]
        state = states.get(False) or BucketState()
        if what == "driver" or (what == "fleet" and not state.fleets):
            path = self.disk.directory / "fleet" / f"{number - 1:012d}.state"
            path.write_bytes(flipped_bit(path.read_bytes(), rng))
        elif what == "fleet":
            at = rng.randrange(len(state.fleets))
            damaged = state.fleets[at]._replace(data=flipped_bit(state.fleets[at].data, rng))
            fleets = (*state.fleets[:at], damaged, *state.fleets[at + 1 :])
            states[False] = state._replace(fleets=fleets)
        else:
            states[False] = self._damaged(self.disk.plans[number], state, what, rng)
        self._start()

    def _damaged(self, plan: Plan, state: BucketState, instance: str, rng: Random) -> BucketState:
        """With a bit changed in the newest entry that an instance's audit is made from.

        Whose it is beside, and in which entries the others are, depends on when processes were
        killed; what audits the log makes does not.
        """
        assert state.numbers is not None
        own = state.audits, state.numbers.next_number
        audits, next_number = plan.audits = plan.audits or own
        assert made_from(audits, next_number) == made_from(*own), "a log that makes other audits"
        _, newest = max(
            (one.number, at) for at, (_, one) in enumerate(audits) if f'"{instance}"' in one.names
        )
        segment, entry = audits[newest]
        changed = segment, entry._replace(data=flipped_bit(entry.data, rng))
        return state._replace(
            audits=(*audits[:newest], changed, *audits[newest + 1 :]),
            numbers=state.numbers._replace(next_number=next_number),
        )

    def finish(self, damage: int | None = None) -> None:
        """The history ends; the fleet's state may be damaged just before."""
        self.disk.end_damage = damage
        if damage is not None:
            self._damage(self.disk.committed + 1, ("driver", "fleet")[damage % 2], damage)
        while True:
            try:
                states = self.disk.logs[self.disk.committed].values()
                self._fleet.finish(state.bucket(JUDGING) for state in states)
                return
            except CrashError:
                self._start()
