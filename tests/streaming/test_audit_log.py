"""The log that audits are made again from: whoever holds them, and whoever does not, is equal."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from streaming_journals import history

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.instance import AuditOutput, InstanceAudit
from tallystick.coordinates.events._message_headers import headers_json
from tallystick.coordinates.events._packed_block import RECORDS_MAX
from tallystick.coordinates.events.block_codec import block_headers, encode_block
from tallystick.coordinates.events.journal import BlockBuilder, Stream, cut_into_blocks
from tallystick.coordinates.results import ObservationCode
from tallystick.coordinates.values.binlog import EventType
from tallystick.producers.simulator.assemble import simulate
from tallystick.streaming import audit_log
from tallystick.streaming.audit_log import ROW_COST, AuditLog
from tallystick.streaming.instance_step import BlockRow, JournalKey, KeyResult
from tallystick.streaming.schema import SEGMENTS
from tests.support.audit_steps import MemoryStore
from tests.support.packed_blocks import heartbeat_values, heartbeats

SEEDS = (0, 4, 63)
Rows = dict[str, list[BlockRow]]


class OneCluster(AuditLog):
    """Its instances are of no cluster."""

    def step(self, rows: Rows, store: MemoryStore) -> dict[str, KeyResult]:
        found = super().step({JournalKey("", name): of for name, of in rows.items()}, store)
        return {journal.instance_id: result for journal, result in found.items()}

    def finish(self) -> dict[str, list[AuditOutput]]:
        return {journal.instance_id: ends for journal, ends in super().finish().items()}


def steps_of(seed: int, size: int = 64) -> list[Rows]:
    """A fleet's messages, some of some instances in each micro-batch."""
    random = Random(seed)
    waiting = {
        name: [
            BlockRow(encode_block(part), headers_json(block_headers(part)), 0, offset)
            for offset, part in enumerate(cut_into_blocks(replace(journal, cluster=""), size))
        ]
        for name, journal in simulate(scenario_of(seed)).journals.items()
    }
    steps = []
    while any(waiting.values()):
        step: Rows = {}
        for name, rows in waiting.items():
            count = random.choice((0, 0, 1, 3))
            if rows[:count]:
                step[name], waiting[name] = rows[:count], rows[count:]
        if step:
            steps.append(step)
    return steps


def shown(results: dict[str, KeyResult]) -> dict[str, tuple[bytes, bytes]]:
    return {name: (r.document, r.events_document) for name, r in results.items() if r.blocks}


@pytest.fixture
def small_segments(monkeypatch):
    """Each step, or nearly, begins another segment."""
    monkeypatch.setattr(audit_log, "SEGMENT_COST_MIN", ROW_COST)
    monkeypatch.setattr(audit_log, "STATE_COST", 0)
    monkeypatch.setattr(audit_log, "SEGMENTS", 4)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("small_segments")
def test_audits_that_are_held_and_audits_that_are_made_again_are_equal(seed):
    """After any step, by any process: the same results, the same end, and no entry too many."""
    store, random = MemoryStore(), Random(seed)
    held, always_held = OneCluster(), OneCluster()
    steps = steps_of(seed)
    for step in steps:
        expected = always_held.step(step, MemoryStore())
        if random.random() < 0.5:
            held = OneCluster(frozenset(), store.read(), held.next_number)
        assert shown(held.step(step, store)) == shown(expected)
    assert held.next_number >= len(steps) > 2 * 4
    made = OneCluster(frozenset(), store.read(), held.next_number)
    assert [*map(repr, made.finish().items())] == [*map(repr, always_held.finish().items())]
    numbers = sorted(entry.number for _, entry in store.read())
    assert numbers == list(range(numbers[0], held.next_number))


def size_of(store: MemoryStore) -> int:
    return sum(len(entry.data) for _, entry in store.read())


@pytest.mark.usefixtures("small_segments")
def test_states_that_are_written_again_and_again_do_not_pile_up():
    """As of an instance of which each micro-batch has a message that cannot be read."""
    store, log = MemoryStore(), OneCluster()
    blocks = cut_into_blocks(history("a", 40, broken=frozenset()), 64)
    for offset, block in enumerate(blocks):
        rows = [BlockRow(encode_block(block), None, 0, 2 * offset)]
        log.step({"a": [*rows, BlockRow(b"rubbish", None, 0, 2 * offset + 1)]}, store)
        entries = [entry for _, entry in store.read()]
        assert {entry.kind for entry in entries} == {"audit"}
    assert len(entries) <= 2


def test_of_many_blocks_the_state_is_written_as_it_is_smaller():
    """Nothing is written that is larger than what it stands for."""
    store, log = MemoryStore(), OneCluster()
    blocks = cut_into_blocks(history("a", 40, broken=frozenset()), 1)
    rows = [BlockRow(encode_block(b), None, 0, at) for at, b in enumerate(blocks)]
    assert sum(len(row.value) + ROW_COST for row in rows) > audit_log.SEGMENT_COST_MIN
    log.step({"a": rows}, store)
    assert size_of(store) < audit_log.SEGMENT_COST_MIN // 8
    [(_, entry)] = store.read()
    assert entry.kind == "audit"


def test_blocks_of_many_instances_are_several_entries(monkeypatch):
    """Each no larger than it should be; together they are as one."""
    monkeypatch.setattr(audit_log, "ENTRY_COST_MAX", 3 * ROW_COST)
    step = of_three(0)
    store, log = MemoryStore(), OneCluster()
    log.step(step, store)
    names = [json.loads(entry.names) for _, entry in store.read()]
    assert names == [[["", "a"]], [["", "b"]], [["", "c"]]]
    made = OneCluster(frozenset(), store.read(), log.next_number)
    assert shown(made.step(of_three(1), MemoryStore())) == shown(log.step(of_three(1), store))


@pytest.mark.usefixtures("small_segments")
def test_the_log_does_not_grow():
    """What is older than a round through the segments is written anew, or gone."""
    store, log = MemoryStore(), OneCluster()
    quiet = history("quiet", 2, broken=frozenset())
    log.step({"quiet": [BlockRow(encode_block(quiet), None, 0, 0)]}, store)
    blocks = cut_into_blocks(history("a", 40, broken=frozenset()), 16)
    assert len(blocks) > 100
    for offset, block in enumerate(blocks):
        log.step({"a": [BlockRow(encode_block(block), None, 0, offset)]}, store)
        entries = [entry for _, entry in store.read()]
        assert len(entries) < 60
    assert min(entry.number for entry in entries) > len(blocks) // 2
    assert {"a", "quiet"} == OneCluster(frozenset(), store.read(), log.next_number).finish().keys()


def test_blocks_are_written_not_states():
    """What a step of a known instance adds to the log is about its message."""
    blocks = cut_into_blocks(history("a", 40, broken=frozenset()), 64)
    store, log = MemoryStore(), OneCluster()
    sizes = []
    for offset, block in enumerate(blocks):
        row = BlockRow(encode_block(block), None, 0, offset)
        before = list(store.read())
        log.step({"a": [row]}, store)
        [(_, entry)] = list(store.read())[len(before) :]
        sizes.append(len(entry.data) - len(row.value))
    assert entry.kind == "rows"
    assert max(sizes) < 2_000


def test_a_small_state_is_written_seldom_too():
    """To write one takes as long as to read the messages of many micro-batches."""
    store, log = MemoryStore(), OneCluster()
    for offset, value in enumerate(heartbeat_values(100)):
        log.step({"a": [BlockRow(value, None, 0, offset)]}, store)
    kinds = [entry.kind for _, entry in store.read()]
    assert kinds.count("rows") > 10 * (kinds.count("audit") + kinds.count("moved"))


def test_states_of_a_fleet_that_began_at_once_are_not_written_at_once(monkeypatch):
    """Such a step would take many times as long as the others."""
    monkeypatch.setattr(audit_log, "SEGMENT_COST_MIN", ROW_COST)
    store, log = MemoryStore(), OneCluster()
    names = [f"instance-{number}" for number in range(40)]
    moved = []
    for offset, block in enumerate(heartbeats(100)):
        first = log.next_number
        values = {name: encode_block(replace(block, instance_id=name)) for name in names}
        rows = {name: [BlockRow(value, None, 0, offset)] for name, value in values.items()}
        log.step(rows, store)
        new = [entry for _, entry in store.read() if entry.number >= first]
        moved.append(sum(entry.kind == "moved" for entry in new))
    assert max(moved) < len(names) / 4
    # All of them are written, again and again.
    assert sum(moved) > 2 * len(names)


def test_a_record_later_than_its_message_is_noted_once():
    """Also where the messages of several records are read as one."""
    for ahead in ({1}, {0, 1}, {2, 3, 5}):
        rows = [
            BlockRow(value, None, 0, at, 1_000_000 * at - (10**12 if at in ahead else 0))
            for at, value in enumerate(heartbeat_values(6))
        ]
        together = OneCluster().step({"a": rows}, MemoryStore())["a"]
        log, alone = OneCluster(), []
        for row in rows:
            alone += log.step({"a": [row]}, MemoryStore())["a"].observations
        assert [(one.at, one.data) for one in together.observations] == [
            (one.at, one.data) for one in alone
        ]
        assert len(alone) == (2 if 5 in ahead else 1)


def test_what_is_refused_is_not_read_again():
    """The state is written instead: nobody meets a message twice that could not be read."""
    store, log = MemoryStore(), OneCluster()
    first, second = cut_into_blocks(history("a", 4, broken=frozenset()), 100)[:2]
    log.step({"a": [BlockRow(encode_block(first), None, 0, 0)]}, store)
    log.step({"a": [BlockRow(b"rubbish", None, 0, 1)]}, store)
    assert ["rows", "audit"] == [entry.kind for _, entry in store.read()]
    made = OneCluster(frozenset(), store.read(), log.next_number)
    row = BlockRow(encode_block(second), None, 0, 2)
    assert shown(made.step({"a": [row]}, MemoryStore())) == shown(log.step({"a": [row]}, store))


def damage(store: MemoryStore, name: str, **changed) -> None:
    """Change the newest entry of an instance."""
    for entries in store.segments.values():
        for at, entry in enumerate(entries):
            if name in entry.names:
                entries[at] = entry._replace(**changed)


def unreadable(results: dict[str, KeyResult]) -> set[str]:
    return {
        name
        for name, result in results.items()
        for seen in result.observations
        if seen.code is ObservationCode.STATE_UNREADABLE
    }


def of_three(offset: int) -> Rows:
    blocks = {name: cut_into_blocks(history(name, 4, broken=frozenset()), 60) for name in "abc"}
    return {n: [BlockRow(encode_block(b[offset]), None, 0, offset)] for n, b in blocks.items()}


def test_what_is_damaged_is_of_those_that_it_names():
    """The others go on; and it is reported once."""
    store, log = MemoryStore(), OneCluster()
    for name in "abc":
        log.step({name: of_three(0)[name]}, store)
    damage(store, '"b"', data=b"?")
    for offset, expected in ((1, {"b"}), (2, set())):
        log = OneCluster(frozenset(), store.read(), log.next_number)
        assert expected == unreadable(log.step(of_three(offset), store))


@pytest.mark.usefixtures("small_segments")
def test_a_rule_that_is_switched_off_later_is_silent():
    """Whether its audit is made from a state, which had it on, or from blocks."""
    blocks = cut_into_blocks(history("a", 6, broken=frozenset({5})), 16)
    rows = [{"a": [BlockRow(encode_block(block), None, 0, at)]} for at, block in enumerate(blocks)]
    store, log = MemoryStore(), OneCluster()
    for row in rows[:-1]:
        log.step(row, store)
    again = OneCluster(frozenset(), store.read(), log.next_number)
    [finding] = again.step(rows[-1], MemoryStore())["a"].findings
    off = OneCluster(frozenset({finding.rule}), store.read(), log.next_number)
    assert not off.step(rows[-1], MemoryStore())["a"].findings


@pytest.mark.usefixtures("small_segments")
def test_a_state_that_cannot_be_written_stops_nobody(monkeypatch):
    """It shows when a segment is emptied, steps after what brought it: its instance begins anew."""
    store, log, found = MemoryStore(), OneCluster(), set()
    log.step(of_three(0), store)
    to_bytes = InstanceAudit.to_bytes

    def raise_of_b(audit):
        if audit.instance_id == "b" and audit.next_sequence:
            raise TypeError("nobody thought of this")
        return to_bytes(audit)

    monkeypatch.setattr(InstanceAudit, "to_bytes", raise_of_b)
    blocks = cut_into_blocks(history("new", 8, broken=frozenset()), 16)
    for offset, block in enumerate(blocks):
        row = BlockRow(encode_block(block), None, 0, offset)
        found |= unreadable(log.step({"new": [row]}, store))
    assert found == {"b"}
    assert {"a", "b", "c", "new"} == OneCluster(frozenset(), store.read()).finish().keys()


@pytest.mark.usefixtures("small_segments")
def test_where_it_is_not_known_whose_an_entry_was_all_begin_anew():
    """Also those that only it knew, when they come; one that begins was never known."""
    store, log = MemoryStore(), OneCluster()
    log.step({name: of_three(0)[name] for name in "ab"}, store)
    log.step({"c": of_three(0)["c"]}, store)
    damage(store, '"c"', names='["?"]')
    log = OneCluster(frozenset(), store.read(), log.next_number)
    assert {"a", "b"} == unreadable(log.step({"a": of_three(1)["a"]}, store))
    for offset in range(2, 2 * SEGMENTS):
        new = f"new {offset}"
        block = encode_block(history(new, 1, broken=frozenset()))
        assert not unreadable(log.step({new: [BlockRow(block, None, 0, 0)]}, store))
    log = OneCluster(frozenset(), store.read(), log.next_number)
    assert {"c"} == unreadable(log.step({"c": of_three(1)["c"]}, store))
    assert not unreadable(log.step(of_three(2), store))


def test_one_instance_in_two_clusters_has_two_audits():
    """What is read of it in one is no part of its journal in the other."""
    store, log = MemoryStore(), AuditLog()
    blocks = cut_into_blocks(history("a", 4, broken=frozenset()), 60)
    for offset, (cluster, block) in enumerate(zip(("", "east", ""), blocks, strict=False)):
        labelled = replace(block, cluster=cluster)
        row = BlockRow(encode_block(labelled), headers_json(block_headers(labelled)), 0, offset)
        [result] = log.step({JournalKey(cluster, "a"): [row]}, store).values()
    assert [one.code for one in result.observations] == [ObservationCode.JOURNAL_GAP]
    made = AuditLog(frozenset(), store.read(), log.next_number)
    assert {JournalKey("", "a"), JournalKey("east", "a")} == made.finish().keys()


def test_a_block_of_another_cluster_than_its_header_is_refused():
    """It would be judged against servers that it has nothing to do with."""
    block = replace(history("a", 1, broken=frozenset()), cluster="east")
    row = BlockRow(encode_block(block), None, 0, 0)
    [result] = AuditLog().step({JournalKey("", "a"): [row]}, MemoryStore()).values()
    assert ["a block of cluster 'east' with a header of ''"] == [
        letter.reason for letter in result.dead_letters
    ]


def test_blocks_of_an_instance_are_not_unpacked_all_at_once():
    """Few bytes may say much: 240 that are 8,192 events, which take 120 kB unpacked."""
    builder = BlockBuilder("a")
    builder.log_event(Stream.BINLOG, EventType.XID, file="b.000001", start=4, length=31, ts=1)
    one = builder.build()
    rows = []
    for at in range(24):
        columns = {name: np.repeat(column, RECORDS_MAX) for name, column in one.columns.items()}
        columns["start"] += 31 * (np.arange(RECORDS_MAX) + at * RECORDS_MAX)
        columns["log_pos"] = columns["start"] + 31
        block = replace(one, first_sequence=at * RECORDS_MAX, columns=columns)
        rows.append(BlockRow(encode_block(block), None, 0, at))
    assert sum(row.length for row in rows) < 20_000
    OneCluster().step({"a": rows[:1]}, MemoryStore())
    tracemalloc.start()
    try:
        results = OneCluster().step({"a": rows}, MemoryStore())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert results["a"].records == 24 * RECORDS_MAX
    assert peak < 6_300_000
