"""Loads: histories that are legal event by event, the same by seed, and sent at a rate."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict

import numpy as np
import pytest

from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.events.block_codec import block_headers, decode_block, encode_block
from tallystick.coordinates.events.journal import (
    FLAG_ARTIFICIAL,
    FLAG_RELAY_LOG,
    QueryVerb,
    RecordType,
    Stream,
)
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.values.binlog import EventType
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.load.history import LoadPlan, journal_blocks
from tallystick.producers.load.run import LoadOptions, drive_load, paced, percentile
from tallystick.producers.publisher import Delivery, MemorySink

PLAN = LoadPlan(
    sources=2, replicas=1, status_every=300, block_size=64, binlog_bytes_max=30_000, seed=5
)


def take(plan, events):
    blocks = []
    for block in journal_blocks(plan):
        blocks.append(block)
        events -= len(block)
        if events <= 0:
            return blocks
    raise AssertionError


def records(plan, events):
    """Each instance's records, as their JSON lines say them."""
    found = defaultdict(list)
    for block in take(plan, events):
        for line in block_to_lines(block):
            record = json.loads(line)
            found[record["instance"]].append(record)
    return found


@pytest.fixture(scope="module")
def journals():
    return records(PLAN, 40_000)


def test_the_same_seed_gives_the_same_bytes():
    """And another seed gives others."""

    def encoded(plan):
        return [encode_block(block) for block in take(plan, 5000)]

    assert encoded(PLAN) == encoded(PLAN)
    assert encoded(PLAN) != encoded(LoadPlan(sources=2, replicas=1, status_every=300, seed=6))


def test_blocks_are_what_a_consumer_accepts():
    """In sequence, no larger than asked, readable as Arrow and as text."""
    following = defaultdict(int)
    for block in take(PLAN, 20_000):
        assert len(block) <= max(PLAN.block_size, 12)
        assert block.first_sequence == following[block.instance_id]
        following[block.instance_id] = block.next_sequence
        decode_block(
            encode_block(block), key=block.instance_id.encode(), headers=block_headers(block)
        )
        (again,) = blocks_from_lines(block_to_lines(block), block_size=10_000)
        assert len(again) == len(block)


def test_time_never_falls_and_replicas_come_after_their_source(journals):
    """A group is logged, then received, then applied."""
    for name, journal in journals.items():
        times = [record["ts"] for record in journal]
        assert times == sorted(times), name
        logged = {
            record["gtid"]: record["ts"]
            for record in journals[name.split("-replica")[0]]
            if record["kind"] == "binlog" and "gtid" in record
        }
        for record in journal:
            if record["instance"] != name.split("-replica")[0] and "gtid" in record:
                assert record["ts"] > logged[record["gtid"]]


def log_files(journal, kind):
    """The events of each file of one log, in order."""
    files = {}
    for record in journal:
        if record["kind"] == kind:
            files.setdefault(record["file"], []).append(record)
    return files


def test_a_file_is_larger_than_a_short_load():
    """Where nothing else is said: servers do not rotate with each transaction either."""
    blocks = take(LoadPlan(sources=1), 300_000)
    columns = [block.columns for block in blocks]
    ends = [(of["stream"] == Stream.BINLOG) & (of["type"] == EventType.ROTATE) for of in columns]
    assert not np.concatenate(ends).any()


@pytest.mark.parametrize("kind", ["binlog", "relay"])
def test_files_are_contiguous_and_framed(journals, kind):
    """From offset 4 without a gap, headed and ended as servers do, one number after the other."""
    seen = 0
    for journal in journals.values():
        files = log_files(journal, kind)
        names = list(files)
        seen += len(names)
        for position, (name, events) in enumerate(files.items()):
            assert int(name[-6:]) == position + 1
            ends = [event["start"] + event["length"] for event in events]
            assert [event["start"] for event in events] == [4, *ends[:-1]]
            assert [event["type"] for event in events[:2]] == [
                "FORMAT_DESCRIPTION",
                "PREVIOUS_GTIDS",
            ]
            if position + 1 < len(names):
                assert events[-1]["type"] == "ROTATE"
                assert events[-1]["next_file"] == names[position + 1]
            if kind == "binlog":
                assert [event["log_pos"] for event in events] == ends
            else:
                assert all(event["flags"] == FLAG_RELAY_LOG for event in events[:2])
                assert events[2]["flags"] == FLAG_ARTIFICIAL
    assert seen > 6


def groups(events):
    """Each group's events, found by their GTID events."""
    found = []
    for event in events:
        if event["type"] == "GTID":
            found.append([event])
        elif event["type"] in ("FORMAT_DESCRIPTION", "PREVIOUS_GTIDS", "ROTATE"):
            continue
        else:
            found[-1].append(event)
    return found


@pytest.mark.parametrize("kind", ["binlog", "relay"])
def test_groups_are_whole_and_told_truly(journals, kind):
    """BEGIN to XID or one statement; length, sequence numbers and GNOs without a hole."""
    for journal in journals.values():
        gno = 0
        for events in log_files(journal, kind).values():
            previous = GtidSet.parse(events[1]["gtid_set"])
            assert previous.count() == gno
            found = groups(events)
            # The last group may still be open where the load was cut.
            for number, group in enumerate(found[:-1] if events[-1]["type"] != "ROTATE" else found):
                opener = group[0]
                gno += 1
                assert int(opener["gtid"].rsplit(":", 1)[1]) == gno
                assert opener["transaction_length"] == sum(event["length"] for event in group)
                assert opener["sequence_number"] == number + 1
                assert 0 <= opener["last_committed"] < opener["sequence_number"]
                if len(group) == 2:
                    assert group[1]["query"] == "STATEMENT"
                else:
                    assert group[1]["query"] == "BEGIN"
                    assert group[-1]["type"] == "XID"


def test_relay_logs_copy_the_source(journals):
    """Type, length, checksum, GTID and source position of every event are the source's."""
    for name, journal in journals.items():
        if "-replica" not in name:
            continue
        logged = {}
        for file, events in log_files(journals[name.split("-replica")[0]], "binlog").items():
            logged |= {(file, event["log_pos"]): event for event in events}
        source_file, copied = None, 0
        for events in log_files(journal, "relay").values():
            for event in events:
                flags = event.get("flags", 0)
                if event["type"] == "ROTATE" and flags & FLAG_ARTIFICIAL:
                    source_file = event["next_file"]
                if flags:
                    continue
                origin = logged[source_file, event["log_pos"]]
                for key in ("type", "length", "checksum", "server_id", "gtid", "next_file"):
                    assert event.get(key) == origin.get(key)
                for key in ("original_commit_timestamp", "sequence_number", "last_committed"):
                    assert event.get(key) == origin.get(key)
                copied += 1
        assert copied > 1000


def test_rows_agree_with_the_journal_before_them(journals):
    """Position, sets, files, channel and redo state are what the journal shows at that position."""
    for name, journal in journals.items():
        end, relay_end, logged, received = {}, {}, set(), set()
        lsn, checkpoint, kept, read, rows = 0, 0, 0, None, 0
        relay_purged_to = 0
        for record in journal:
            if record["kind"] in ("binlog", "relay"):
                is_relay = record["kind"] == "relay"
                position = relay_end if is_relay else end
                position[record["file"]] = record["start"] + record["length"]
                if "gtid" in record:
                    (received if is_relay else logged).add(record["gtid"])
                if is_relay and record["log_pos"] and not record.get("flags", 0):
                    read = record["log_pos"]
            if record["kind"] == "binlog_purge":
                kept = int(record["to_file"][-6:]) - 1
            if record["kind"] == "channel" and record["action"] == "relay_purge":
                relay_purged_to = int(record["to_file"][-6:])
            if record["kind"] != "log_status":
                continue
            rows += 1
            row = record["row"]
            file = list(end)[-1]
            assert row["LOCAL"]["binary_log_file"] == file
            assert row["LOCAL"]["binary_log_position"] == end[file]
            assert GtidSet.parse(row["LOCAL"]["gtid_executed"]).count() == len(logged)
            assert record["binary_logs"] == [
                {"name": n, "size": size} for n, size in list(end.items())[kept:]
            ]
            oldest = list(log_files(journal, "binlog").values())[kept]
            assert record["gtid_purged"] == oldest[1]["gtid_set"]
            innodb = row["STORAGE_ENGINES"]["InnoDB"]
            assert 8192 <= checkpoint <= innodb["LSN_checkpoint"] <= innodb["LSN"] or not lsn
            assert innodb["LSN"] >= lsn
            assert all(12 <= innodb[key] % 512 <= 507 for key in innodb)
            lsn, checkpoint = innodb["LSN"], innodb["LSN_checkpoint"]
            if "-replica" not in name:
                assert row["REPLICATION"]["channels"] == []
                continue
            relay_file = list(relay_end)[-1]
            (channel,) = row["REPLICATION"]["channels"]
            assert channel["relay_log_file"] == relay_file
            assert channel["relay_log_position"] == relay_end[relay_file]
            (status,) = record["replica_status"]
            assert GtidSet.parse(status["Retrieved_Gtid_Set"]).count() == len(received)
            assert status["Read_Source_Log_Pos"] == read
            applied = (status["Relay_Log_File"], status["Relay_Log_Pos"])
            executed = (status["Relay_Source_Log_File"], status["Exec_Source_Log_Pos"])
            assert applied == (relay_file, relay_end[relay_file])
            assert executed <= (status["Source_Log_File"], status["Read_Source_Log_Pos"])
            (stored,) = record["slave_relay_log_info"]
            assert stored["Relay_log_name"] == f"./{applied[0]}"
            assert (stored["Relay_log_pos"], stored["Master_log_pos"]) == (applied[1], executed[1])
            assert relay_purged_to in (0, int(relay_file[-6:]))
        assert rows > 5
        assert kept > 0


def test_both_instances_answer_the_same_collections(journals):
    """Replicas before their sources, so that sets can only have grown."""
    times = defaultdict(dict)
    for name, journal in journals.items():
        for record in journal:
            if record["kind"] == "log_status":
                times[record["collection_id"]][name] = record["ts"]
    whole = [answers for answers in times.values() if len(answers) == len(journals)]
    assert len(whole) > 5
    for answers in whole:
        assert answers["source-1-replica-1"] < answers["source-1"]


def test_the_audit_finds_a_load_clean():
    """A million events of sources and replicas: no finding, no doubt, every cut consistent."""
    plan = LoadPlan(sources=2, replicas=1, status_every=20_000, binlog_bytes_max=4_000_000)
    audits, cuts, notes = {}, [], []
    for block in take(plan, 1_000_000):
        audit = audits.setdefault(block.instance_id, InstanceAudit(block.instance_id))
        output = audit.absorb(block)
        cuts += output.cuts
        notes += [*output.findings, *output.observations]
    for audit in audits.values():
        output = audit.finish()
        cuts += output.cuts
        notes += [*output.findings, *output.observations]
    assert notes == []
    assert len(cuts) > 40
    assert {cut.verdict for cut in cuts} == {"CONSISTENT"}


def test_checksums_differ_between_repetitions():
    """A tile that comes again is no redelivery."""
    blocks = take(LoadPlan(sources=1, status_every=100, block_size=1000), 1000)
    tiles = [b for b in blocks if len(b) > 50]
    sums = np.concatenate([b.columns["checksum"] for b in tiles])
    assert len(np.unique(sums)) == len(sums)


@pytest.mark.parametrize("field", ["sources", "status_every", "block_size", "binlog_bytes_max"])
def test_a_plan_that_makes_no_sense_is_refused(field):
    """The error names the field and its value."""
    with pytest.raises(ValueError, match=f"{field} of at least 1, got 0"):
        LoadPlan(**{field: 0})
    with pytest.raises(ValueError, match="replicas of at least 0, got -1"):
        LoadPlan(replicas=-1)


# Running


class Clock:
    """Time that passes only while somebody sleeps, or by a step at each look."""

    def __init__(self, step=0.0):
        self.now, self.step, self.slept = 100.0, step, []

    def __call__(self):
        self.now += self.step
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


class AcknowledgingSink:
    """A sink whose messages are all acknowledged, each a millisecond later than the one before."""

    def __init__(self):
        self.inner, self.deliveries = MemorySink(), []

    def send(self, block):
        self.inner.send(block)
        latency_s = len(self.inner.blocks) / 1000
        self.deliveries.append(Delivery(block.instance_id, len(block), 10, latency_s))

    def flush(self):
        self.inner.flush()

    def close(self):
        self.inner.close()


def test_a_rate_is_kept():
    """Blocks wait until their records are due, so the whole takes events / rate."""
    clock, sink = Clock(), AcknowledgingSink()
    options = LoadOptions(plan=PLAN, rate=1000.0, events=5000)
    report = drive_load(options, sink, sink.deliveries, clock=clock, sleep=clock.sleep)
    assert report.seconds == pytest.approx(5.0, rel=0.03)
    assert report.events_per_s == pytest.approx(1000, rel=0.03)
    assert report.events == sum(len(block) for block in sink.inner.blocks)
    assert report.value_bytes == 10 * report.blocks
    assert report.produce_p50_s == pytest.approx(report.blocks / 2000, abs=0.001)
    assert report.produce_p99_s <= report.blocks / 1000


def test_the_number_of_events_ends_a_load():
    """At the end of the block that reached it, then a heartbeat of each instance."""
    sink = AcknowledgingSink()
    drive_load(LoadOptions(plan=PLAN, events=1000), sink, sink.deliveries)
    ends = sink.inner.blocks[-4:]
    assert all(block.columns["type"].tolist() == [RecordType.HEARTBEAT] for block in ends)
    assert {block.instance_id for block in ends} == {b.instance_id for b in sink.inner.blocks}
    latest = max(int(block.columns["ts"].max()) for block in sink.inner.blocks)
    assert all(block.columns["ts"].tolist() == [latest] for block in ends)
    following = defaultdict(int)
    for block in sink.inner.blocks:
        assert block.first_sequence == following[block.instance_id]
        following[block.instance_id] = block.next_sequence
    events = sum(following.values()) - 4
    assert 1000 <= events < 1000 + PLAN.block_size


def test_time_ends_a_load():
    """Nothing of a later block is sent."""
    clock, sink = Clock(step=0.01), AcknowledgingSink()
    options = LoadOptions(plan=PLAN, seconds=1.0)
    report = drive_load(options, sink, sink.deliveries, clock=clock, sleep=clock.sleep)
    assert 1.0 <= report.seconds < 1.3
    assert clock.slept == []


def test_options_that_never_end_are_refused():
    """A load needs an end, and numbers that are some."""
    with pytest.raises(ValueError, match="seconds, events or both"):
        LoadOptions(plan=PLAN)
    for field, value in (("rate", -1.0), ("seconds", float("nan")), ("events", -5)):
        with pytest.raises(ValueError, match=f"{field} of at least 0"):
            LoadOptions(plan=PLAN, **{"events": 1, field: value})


def test_without_a_rate_nothing_waits():
    """Full speed is no pacing at all."""
    clock = Clock()
    blocks = list(itertools.islice(journal_blocks(PLAN), 20))
    assert list(paced(iter(blocks), 0.0, clock, clock.sleep)) == blocks
    assert clock.slept == []


def test_percentiles_are_values_that_were_seen():
    """Nearest rank; nothing of nothing."""
    values = [float(i) for i in range(1, 101)]
    assert [percentile(values, share) for share in (0.5, 0.95, 0.99, 1.0)] == [50, 95, 99, 100]
    assert percentile([7.0], 0.5) == 7.0
    assert percentile([], 0.5) is None


def test_every_kind_of_transaction_occurs():
    """Inserts, updates, deletes and statements, in both logs."""
    seen = set()
    for block in take(PLAN, 20_000):
        columns = block.columns
        for stream in (Stream.BINLOG, Stream.RELAY):
            here = columns["stream"] == stream
            seen |= set(
                zip(
                    itertools.repeat(stream),
                    columns["type"][here].tolist(),
                    columns["query"][here].tolist(),
                    strict=False,
                )
            )
    for stream in (Stream.BINLOG, Stream.RELAY):
        for event_type in (EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS):
            assert (stream, event_type, QueryVerb.NONE) in seen
        assert (stream, EventType.QUERY, QueryVerb.STATEMENT) in seen


def test_a_slow_rate_is_sent_in_small_blocks_and_listens_while_it_waits():
    """Ten blocks a second, however large the plan's are; acknowledgements are taken in between."""
    now = 0.0
    flushed = []

    class Listening(MemorySink):
        def flush(self):
            flushed.append(now)

    def sleep(seconds):
        nonlocal now
        now += seconds

    sink = Listening()
    options = LoadOptions(plan=LoadPlan(sources=1), rate=500, seconds=2)
    drive_load(options, sink, [], clock=lambda: now, sleep=sleep)
    assert max(len(block) for block in sink.blocks) <= 50
    assert len(flushed) > 20
