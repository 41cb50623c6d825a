"""Files of binary and relay logs: every byte is counted as a server counts it."""

import itertools

import pytest

from tallystick.coordinates.events.journal import FLAG_RELAY_LOG, RecordType, Stream
from tallystick.coordinates.values.binlog import EventType
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.assemble import Fleet, History, simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.server import administration
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tests.support.simulated_journal import OPENERS, Record, bodies_of, files, groups, records

DEMO = Scenario(seed=7, topology="demo", duration_ms=5_000, writes_per_second=15.0)


@pytest.fixture(scope="module")
def demo() -> History:
    return simulate(DEMO)


def binlog_files(history: History) -> list[tuple[str, str, list[Record]]]:
    return [
        (instance_id, name, events)
        for instance_id, block in history.journals.items()
        for name, events in files(records(block), Stream.BINLOG).items()
    ]


def relay_files(history: History) -> list[tuple[str, str, str, list[Record]]]:
    found = []
    for instance_id, block in history.journals.items():
        journal = records(block)
        channels = sorted({r.channel for r in journal if r.stream is Stream.RELAY})
        for channel in channels:
            for name, events in files(journal, Stream.RELAY, channel).items():
                found.append((instance_id, channel, name, events))
    return found


def test_files_are_contiguous_from_offset_4(demo: History) -> None:
    """Each event starts where the one before ended, in binary logs and relay logs."""
    seen = [events for *_, events in [*binlog_files(demo), *relay_files(demo)]]
    assert len(seen) > 20
    for events in seen:
        assert events[0].start == 4
        for before, after in itertools.pairwise(events):
            assert after.start == before.end


def test_binlog_files_begin_with_format_and_previous_gtids(demo: History) -> None:
    """FORMAT_DESCRIPTION is 122 bytes, PREVIOUS_GTIDS as long as its set."""
    for _, _, events in binlog_files(demo):
        assert (events[0].type, events[0].length) == (EventType.FORMAT_DESCRIPTION, 122)
        previous = GtidSet.parse(events[1].text or "")
        intervals = list(previous)
        expected = 31 + 24 * len({sid for sid, _, _ in intervals}) + 16 * len(intervals)
        assert (events[1].type, events[1].length) == (EventType.PREVIOUS_GTIDS, expected)
        assert expected == len(previous.encode()) + 23


def test_log_pos_is_the_end_of_the_event(demo: History) -> None:
    """In a binary log the header's field is the event's end."""
    for _, _, events in binlog_files(demo):
        assert [e.log_pos for e in events] == [e.end for e in events]


def test_lengths_of_rotate_and_stop() -> None:
    """ROTATE is 31 bytes and the name of the next file, which comes next; STOP is 23 bytes."""
    history = simulate(Scenario(seed=3, topology="pair", negatives=("restart_source", "rotate")))
    journal = records(history.journals["source-a"])
    by_file = files(journal, Stream.BINLOG)
    names = list(by_file)
    endings = {events[-1].type for events in list(by_file.values())[:-1]}
    assert endings == {EventType.ROTATE, EventType.STOP}
    for position, events in enumerate(by_file.values()):
        last = events[-1]
        if last.type == EventType.ROTATE:
            assert last.length == 31 + len(last.text or "")
            assert (last.text, last.value) == (names[position + 1], 4)
        if last.type == EventType.STOP:
            assert last.length == 23


def test_groups_are_complete_and_their_length_is_claimed(demo: History) -> None:
    """transaction_length is the bytes of the whole group, in the replica's log as well."""
    counted = 0
    for _, _, events in binlog_files(demo):
        found = groups(events)
        assert len(found) == sum(e.type in OPENERS for e in events)
        for group in found:
            assert group.events[0].transaction_length == sum(e.length for e in group.events)
            counted += 1
    assert counted > 100


def test_gtid_events_of_replicated_groups_are_longer(demo: History) -> None:
    """79 bytes on the origin, 86 with an original commit time of its own."""
    for instance_id, _, events in binlog_files(demo):
        lengths = {e.length for e in events if e.type == EventType.GTID}
        assert lengths <= ({77, 79, 80} if instance_id.startswith("source") else {84, 86, 87})


def test_sequence_numbers_start_anew_in_each_file(demo: History) -> None:
    """sequence_number counts 1, 2, 3 per file; last_committed is below it."""
    for _, _, events in binlog_files(demo):
        openers = [e for e in events if e.type in OPENERS]
        assert [e.sequence_number for e in openers] == list(range(1, len(openers) + 1))
        assert all(0 <= e.last_committed < e.sequence_number for e in openers)


def test_previous_gtids_hold_all_earlier_groups(demo: History) -> None:
    """PREVIOUS_GTIDS of a file is that of the file before and the groups in it."""
    for block in demo.journals.values():
        by_file = list(files(records(block), Stream.BINLOG).values())
        for before, after in itertools.pairwise(by_file):
            logged = GtidSet(
                (g.gtid[0], g.gtid[1], g.gtid[1]) for g in groups(before) if g.gtid is not None
            )
            expected = GtidSet.parse(before[1].text or "") | logged
            assert GtidSet.parse(after[1].text or "") == expected


def test_replicas_keep_the_origin_of_a_group(demo: History) -> None:
    """Server id and GTID survive replication; offsets are the replica's own."""
    origin = {
        g.gtid: g.events[0].server_id
        for instance_id, _, events in binlog_files(demo)
        if instance_id.startswith("source")
        for g in groups(events)
    }
    for instance_id, _, events in binlog_files(demo):
        for group in groups(events):
            assert {e.server_id for e in group.events} == {origin[group.gtid]}, instance_id


def test_relay_log_begins_as_a_server_writes_it() -> None:
    """Local format and set, then the dump's ROTATE and format: groups stand 210 bytes further."""
    for seed in range(30):
        history = simulate(Scenario(seed=seed, topology="pair", acts=False))
        source = records(history.journals["source-a"])
        if not any(r.file == "binlog.000001" for r in source):
            continue
        relay = files(records(history.journals["replica-a1"]), Stream.RELAY, "")
        second = list(relay.values())[1]
        assert [e.type for e in second[:5]] == [
            EventType.FORMAT_DESCRIPTION,
            EventType.PREVIOUS_GTIDS,
            EventType.ROTATE,
            EventType.FORMAT_DESCRIPTION,
            EventType.ROTATE,
        ]
        assert [e.log_pos for e in second[2:4]] == [0, 126]
        first_group = second[5]
        assert first_group.end - first_group.log_pos == 210
        return
    pytest.fail("no seed names its binary log 'binlog'")


def test_relay_delta_is_constant_in_a_segment(demo: History) -> None:
    """Between two ROTATE events relay offset minus source offset does not change."""
    segments = 0
    for *_, events in relay_files(demo):
        delta = None
        for event in events:
            if event.type == EventType.ROTATE:
                delta = None
            elif not event.flags & FLAG_RELAY_LOG and event.type != EventType.FORMAT_DESCRIPTION:
                if delta is None:
                    segments += 1
                    delta = event.end - event.log_pos
                assert event.end - event.log_pos == delta
    assert segments > 10


def test_relay_events_are_copies_of_the_source(demo: History) -> None:
    """Type, length, checksum and log_pos of a relayed event are those of the source's event."""
    originals = {
        (e.server_id, e.gtid, e.type, e.length, e.checksum, e.log_pos)
        for instance_id, _, events in binlog_files(demo)
        if instance_id.startswith("source")
        for e in events
    }
    copied = 0
    for *_, events in relay_files(demo):
        for e in events:
            if e.flags & FLAG_RELAY_LOG or e.log_pos == 0 or e.type < EventType.FORMAT_DESCRIPTION:
                continue
            if e.type == EventType.FORMAT_DESCRIPTION:
                continue
            assert (e.server_id, e.gtid, e.type, e.length, e.checksum, e.log_pos) in originals
            copied += 1
    assert copied > 300


def test_everything_is_received_and_executed_in_the_end(demo: History) -> None:
    """At the last collection replicas have executed all that their sources logged."""
    executed = {}
    for instance_id, block in demo.journals.items():
        last = bodies_of(records(block), RecordType.LOG_STATUS)[-1]
        executed[instance_id] = GtidSet.parse(last["row"]["LOCAL"]["gtid_executed"])
    assert executed["replica-a1"] == executed["replica-a2"] == executed["source-a"]
    assert executed["hub"] == executed["source-a"] | executed["source-b"]


def test_large_file_wraps_the_field_and_not_the_offset() -> None:
    """Beyond 4 GiB the field is the end modulo 2^32, offsets go on."""
    history = simulate(Scenario(seed=1, topology="pair", negatives=("file_beyond_4_gib",)))
    for block in history.journals.values():
        journal = records(block)
        events = [r for r in journal if r.stream is Stream.BINLOG]
        assert max(e.end for e in events) > 1 << 32
        assert all(e.log_pos == e.end % (1 << 32) for e in events)
        assert max(e.length for e in events) <= 1 << 30


def test_a_relay_log_names_the_wrapped_field_of_a_large_file() -> None:
    """The ROTATE that ends a file beyond 4 GiB is copied with its field, not with its end."""
    fleet = Fleet(Scenario(seed=1, topology="pair", negatives=("file_beyond_4_gib",)))
    fleet.run(fleet.load_ends_at)
    administration.flush_binary_logs(fleet, fleet.instances["source-a"])
    rotates = [
        r
        for r in records(fleet.advance(fleet.load_ends_at + 1_000_000)["replica-a1"])
        if r.stream is Stream.RELAY and r.type == EventType.ROTATE and r.log_pos > 0
    ]
    file = fleet.instances["source-a"][BinaryLog].files[-2]
    assert file.end > 1 << 32
    assert file.end % (1 << 32) in [r.log_pos for r in rotates]
    assert max(r.log_pos for r in rotates) < 1 << 32


def test_file_suffix_grows_to_seven_digits() -> None:
    """After .999999 comes .1000000."""
    history = simulate(Scenario(seed=1, topology="single", negatives=("seven_digits",)))
    names = list(files(records(history.journals["source-a"]), Stream.BINLOG))
    numbers = [int(name.rpartition(".")[2]) for name in names]
    assert numbers == list(range(999_998, 999_998 + len(names)))
    assert names[2].endswith(".1000000")
