"""What the readers of logs keep, and what they forget, when a log begins anew or has a gap."""

from __future__ import annotations

import json
from dataclasses import fields
from itertools import chain
from typing import TYPE_CHECKING

import pytest

from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.logs import group_queue, log_reader, redo_log
from tallystick.coordinates.logs.binlog_reader import BinlogReader
from tallystick.coordinates.logs.event_window import GNO, EventWindow, pack_row
from tallystick.coordinates.logs.group_queue import Q_END, Q_GNO
from tallystick.coordinates.logs.log_groups import GroupState
from tallystick.coordinates.logs.relay_reader import RelayReader
from tallystick.coordinates.state_codec import TRANSIENT
from tallystick.coordinates.values.growing_set import GrowingGtidSet
from tests.support.journals import UUID_A, UUID_B, UUID_C, Binlog, Journal, audit
from tests.support.recorded import CASES
from tests.support.rule_cases import purging, replica

if TYPE_CHECKING:
    from tests.support.journals import Record


def binlog_of(journal: Journal) -> BinlogReader:
    """The reader of the binary log, after the last record."""
    result = audit(journal)
    assert result.audit is not None
    return result.audit.binlog


def relay_of(records: Journal | list[Record]) -> RelayReader:
    """The reader of the only relay log, after the last record."""
    result = audit(records)
    assert result.audit is not None
    [relay] = result.audit.relays.values()
    return relay


def values(reader: BinlogReader | RelayReader) -> dict[str, str]:
    """What a reader keeps between blocks, field by field."""
    reader.compact()
    kept = {
        one.name: getattr(reader, one.name)
        for one in fields(reader)
        if one.name not in ("reporter", "server") and one.metadata != TRANSIENT
    }
    return {
        name: str(value.freeze() if isinstance(value, GrowingGtidSet) else value)
        for name, value in kept.items()
    }


def ends_open(journal: Journal) -> Journal:
    """A group is begun."""
    del journal.binlog.group()[1:]
    del journal.records[-4:]
    return journal


def ends_in_resync(journal: Journal) -> Journal:
    """Something that is no part of a group; the next opening event is waited for."""
    journal.binlog.event("XID", 31)
    return journal


def ends_closed(journal: Journal) -> Journal:
    journal.binlog.stop()
    return journal


def ends_started(journal: Journal) -> Journal:
    journal.binlog.stop()
    journal.start(crashed=False)
    return journal


def ends_purged(journal: Journal) -> Journal:
    """Files are gone; others' groups, one without a writer, and an unexplained past."""
    journal.record("binlog_purge", to_file="binlog.000002")
    journal.binlog.group(f"{UUID_B}:1")
    journal.binlog.group(f"{UUID_C}:1", server_id=None)
    journal.binlog.gtids.add(f"{UUID_A}:50")
    journal.binlog.rotate()
    return journal


ENDS = (ends_open, ends_in_resync, ends_closed, ends_started, ends_purged)


@pytest.mark.parametrize("end", ENDS)
def test_a_binary_log_that_begins_anew_is_like_one_never_read(end):
    """RESET, clone, restore: of what was before only the number of lineages is known."""
    reader = binlog_of(end(purging()))
    reader.begin_lineage("reset")
    fresh = BinlogReader(reader.reporter, reader.server, sids=reader.sids)
    fresh.lineage = 1
    # How the last file ended is asked only where a file is open.
    fresh.file_number, fresh.file_events = reader.file_number, reader.file_events
    fresh.last_sequence_number = reader.last_sequence_number
    assert values(fresh) == values(reader)


@pytest.mark.parametrize("end", ENDS)
def test_after_an_unreadable_name_of_a_file_nothing_of_its_end_is_known(end):
    """What that event belongs to may be anything: also a log that a RESET has begun anew."""
    reader = binlog_of(end(purging()))
    reader.mark_gap()
    fresh = BinlogReader(reader.reporter, reader.server)
    fresh.mark_gap()
    known = {
        "end", "group_state", "is_closed", "has_stopped", "must_open_file", "last_sequence_number",
        "oldest_file", "closed", "logged", "logged_is_complete", "grouped", "empty", "maybe_empty",
        "file_set",
    }  # fmt: skip
    expected, found = values(fresh), values(reader)
    assert {name: expected[name] for name in known} == {name: found[name] for name in known}
    said = ("is_closed", "has_stopped", "must_open_file", "logged_is_complete")
    assert ["False"] * 4 == [found[name] for name in said]
    assert ("-1", "") == (found["end"], found["logged"])


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("is_same_file", [False, True])
def test_how_a_log_ended_before_a_gap_is_not_held_against_what_follows(end, is_same_file):
    """A RESET may be in it, and its first file have the name of the last one known."""
    journal = end(purging())
    before = audit(journal).broken
    journal.record("gap")
    number = journal.binlog.number if is_same_file else 1
    log = Binlog(journal, number=number)
    log.open()
    for gno in (900, 901):
        log.group(f"{UUID_A}:{gno}")
    assert before == audit(journal).broken
    reader = binlog_of(journal)
    assert (number, log.end) == (reader.file_number, reader.end)
    assert str(reader.logged.freeze()) == f"{UUID_A}:900-901"


@pytest.mark.parametrize("read", [1, 2])
@pytest.mark.parametrize(
    ("connects", "goes_on", "comes_again", "found"),
    [
        (False, 0, (), ["group_inside_group"]),
        (True, 0, (), []),
        (True, 1, (), ["group_inside_group"]),
        (True, 0, (1,), ["group_inside_group"]),
    ],
)
def test_a_group_comes_again_behind_a_connection_alone(read, connects, goes_on, comes_again, found):
    """By file and position it is lost after any event; then the group goes on, or comes again."""
    journal, relay, more = replica()
    group = more[0]
    relay.copy(group[:read])
    if connects:
        relay.connect(position=group[read]["start"])
    relay.copy(group[read : read + goes_on])
    for count in (*comes_again, len(group)):
        relay.copy(group[:count])
    journal.row()
    findings = audit(journal).findings
    assert [one.case for one in findings if one.rule == "binlog_group_wellformed"] == found


def test_a_relay_log_that_begins_anew_is_like_one_never_read():
    """RESET REPLICA: that, what was ever received, and how often it began are known; no more."""
    journal, relay, more = replica()
    relay.rotate()
    relay.copy(more[0])
    relay.copy(more[1])
    reader = relay_of(journal.records[:-1])
    assert len(reader.queue)
    assert reader.arriving()
    lineage, received, steps_back = reader.lineage, reader.received_ever, reader.steps_back
    reader.begin_lineage()
    reader.forget_files()
    fresh = RelayReader(reader.reporter, reader.server, "", sids=reader.sids)
    fresh.lineage, fresh.received_ever, fresh.steps_back = lineage + 1, received, steps_back
    fresh.group_state = GroupState.RESYNC  # what was begun may go on, and is passed over
    # Which file comes next, and of which file of the source, is asked where one is open.
    fresh.file_number, fresh.source_number = reader.file_number, reader.source_number
    fresh.is_next_file, fresh.is_given_up = reader.is_next_file, True
    assert values(fresh) == values(reader)


def whole_state(
    monkeypatch: pytest.MonkeyPatch, records: Journal | list[Record], fast_min: int
) -> bytes:
    """What an audit keeps after the last record, read in columns from so many events on."""
    monkeypatch.setattr(log_reader, "FAST_MIN", fast_min)
    monkeypatch.setattr(redo_log, "REDO_FAST_MIN", fast_min)
    result = audit(records)
    assert result.audit is not None
    return result.audit.to_bytes()


@pytest.mark.parametrize("name", CASES)
def test_columns_and_single_events_leave_equal_state(monkeypatch, name):
    """Of histories just inside and just outside of each rule's boundary."""
    for breaks in (False, True):
        journal = CASES[name].build(breaks=breaks)
        assert whole_state(monkeypatch, journal, 1) == whole_state(monkeypatch, journal, 10**9)


@pytest.mark.parametrize("form", ["rows", "ddl_preamble", "xa_prepare"])
@pytest.mark.parametrize("begins", [0, 1])
def test_columns_and_single_events_leave_equal_state_within_a_group(monkeypatch, form, begins):
    """Wherever the journal ends, with and without groups that are complete."""
    journal = Journal().begin().groups(begins)
    first = len(journal.records)
    journal.binlog.group(form=form)
    for count in range(first, len(journal.records) + 1):
        records = journal.records[:count]
        assert whole_state(monkeypatch, records, 1) == whole_state(monkeypatch, records, 10**9)


@pytest.mark.parametrize("fast_min", [1, 10**9])
def test_a_source_position_that_falls_in_the_next_relay_file_is_found(monkeypatch, fast_min):
    """No connection was made anew, so nothing earlier may come."""
    monkeypatch.setattr(log_reader, "FAST_MIN", fast_min)
    journal, relay, more = replica()
    relay.copy(more[1])
    relay.rotate()
    relay.copy(more[0])
    assert "relay_source_pos_monotone" in audit(journal).broken


def test_a_source_position_may_fall_where_part_of_a_relay_log_is_missing():
    """A new connection may be in that part; what is missing is found, and nothing else."""
    journal, relay, more = replica()
    relay.copy(more[1])
    relay.end += 100
    relay.copy(more[0])
    assert ["log_events_contiguous"] == audit(journal).broken


@pytest.mark.parametrize(
    ("before", "field", "position"),
    [
        (2**32 - 2**30, 2**30 - 1, 2**32 + 2**30 - 1),
        (2**32 - 2**30 - 1, 2**30 - 1, 2**30 - 1),
        (2**32 - 2**30, 2**30, 2**30),
        (2**33 - 100, 2**32 - 200, 2**33 - 200),
        (2**33 - 100, 300, 2**33 + 300),
        (2**33 - 100, 2**32 - 50, 2**33 - 50),
    ],
)
def test_a_field_of_32_bits_wraps_within_the_length_of_an_event(before, field, position):
    """Where a filter left out what is between, only so much can be; else the position fell."""
    journal, relay, more = replica()
    relay.connect(position=before)
    relay.event("GTID", 79, gtid=more[0][0]["gtid"], log_pos=field)
    assert position == relay_of(journal).position_end


def test_columns_and_single_events_note_the_same_writers(monkeypatch):
    """Groups of other servers' numbers, logged under the own id, under another, and without one."""
    journal = Journal().begin()
    for number in range(1, 60):
        writer = ({}, {"server_id": 1}, {"server_id": 7})[number % 3]
        opener = journal.binlog.group(f"{UUID_B}:{number}")[0]
        del opener["server_id"]
        opener.update(writer)
    assert whole_state(monkeypatch, journal, 1) == whole_state(monkeypatch, journal, 10**9)
    reader = binlog_of(journal)
    written = [[n for n in range(1, 60) if n % 3 == kind] for kind in (0, 1)]
    assert [len(gnos) for gnos in written] == [
        gtids.freeze().count() for gtids in (reader.of_unknown_writer, reader.local)
    ]


def test_what_waits_in_a_relay_file_is_remembered_in_the_next_one():
    """A group that its applier has passed by, but not executed, is found after a rotation too."""
    journal, relay, more = replica()
    before = journal.replica_status()
    relay.copy(more[0])
    passed = journal.replica_status()
    relay.rotate()
    journal.row(replica_status=before)
    assert audit(journal).broken == []
    journal.row(replica_status=passed)
    assert "applied_relay_gtids_executed" in audit(journal).broken


def test_after_a_gap_of_a_relay_log_no_group_waits_to_be_applied():
    """Which groups are between the known ones and the next is not known."""
    journal, relay, more = replica()
    relay.copy(more[0])
    reader = relay_of(journal)
    assert 4 == len(reader.queue)
    reader.mark_gap()
    assert 0 == len(reader.queue)
    assert not reader.received_is_complete
    assert (-1, -1, -1) == (reader.source_end, reader.position_end, reader.end)


@pytest.mark.parametrize("fast_min", [1, 10**9])
@pytest.mark.parametrize(
    ("received", "expected"),
    [
        (5, [range(1, 5), range(3, 6), range(3, 7), range(3, 8), range(3, 9)]),
        (6, [range(1, 5), range(1, 6), range(1, 7), range(1, 7), range(1, 7)]),
    ],
)
def test_no_group_is_queued_after_one_that_was_left_out(monkeypatch, fast_min, received, expected):
    """What waits to be applied is without a hole; 3 are applied when so many were received."""
    monkeypatch.setattr(log_reader, "FAST_MIN", fast_min)
    monkeypatch.setattr(group_queue, "PACKED_GROUPS", 3)
    monkeypatch.setattr(group_queue, "BYTES_MAX", 1)
    monkeypatch.setattr(group_queue, "KEPT_BEHIND", 1)
    journal, relay, more = replica()
    records, waiting = len(journal.records), []
    for group in more:
        relay.copy(group)
    result = audit(journal.records[:records])
    assert result.audit is not None
    [reader] = result.audit.relays.values()
    [block] = blocks_from_lines([json.dumps(one) for one in journal.records])

    def gnos() -> list[int]:
        return reader.queue.rows()[:, Q_GNO].tolist()

    for number, first in enumerate(range(records, len(block) - 5, 5), 4):
        result.audit.absorb(block.take(first, first + 5))
        if number == received:
            reader.queue.drop_until(1, int(reader.queue.rows()[2, Q_END]))
        waiting.append(gnos())
    assert waiting == [list(some) for some in expected]
    assert reader.queue.is_full
    reader.queue.drop_until(1, reader.end)
    assert gnos() == [expected[-1][-1]]
    assert not reader.queue.is_full


def test_what_follows_the_end_of_a_file_is_found_once():
    """Its first event; the others follow that one."""
    journal = Journal().begin().groups(1)
    journal.binlog.event("ROTATE", 44, next_file="binlog.000002")
    journal.groups(2)
    [found] = audit(journal).findings
    assert ("binlog_file_framing", "event_after_end_of_file") == (found.rule, found.case)


@pytest.mark.parametrize(("position", "is_skipped"), [(4, False), (99, False), (100, True)])
def test_a_file_that_a_crash_left_with_a_head_was_not_only_begun(position, is_skipped):
    """It held events, which the journal lacks without a gap."""
    journal = Journal().begin().groups(1)
    journal.binlog.event("ROTATE", 44, next_file="binlog.000002")
    journal.start(crashed=True, recovered={"file": "binlog.000002", "position": position})
    journal.binlog.open(3)
    assert ["binlog_files_form_range"] * is_skipped == audit(journal).broken


def test_a_group_is_arriving_from_its_gtid_to_its_end():
    """Retrieved_Gtid_Set may count it; one without a GTID is in no set."""
    journal, relay, more = replica()
    first = len(journal.records)
    relay.copy(more[0])
    counts = range(first, len(journal.records) + 1)
    arriving = [str(relay_of(journal.records[:count]).arriving()) for count in counts]
    assert ["", *[f"{UUID_C}:4"] * 4, ""] == arriving


@pytest.mark.parametrize("fast_min", [1, 10**9])
@pytest.mark.parametrize("by", [-1, 1])
def test_a_block_that_does_not_begin_where_the_log_ends_is_found(monkeypatch, fast_min, by):
    """Though its events follow each other: written over what is there, or after a hole."""
    monkeypatch.setattr(log_reader, "FAST_MIN", fast_min)
    journal = Journal().begin().groups(10)
    count = len(journal.records)
    journal.binlog.end += by * 31
    journal.groups(9)
    assert "log_events_contiguous" in audit(journal, block_size=count).broken


@pytest.mark.parametrize("fast_min", [1, 10**9])
def test_the_fleet_learns_whose_groups_were_logged(monkeypatch, fast_min):
    """Whichever of the servers that the log knows a run of groups is of."""
    monkeypatch.setattr(log_reader, "FAST_MIN", fast_min)
    journal = Journal(gtid_mode="ON_PERMISSIVE").begin()
    a, b, c = UUID_A, UUID_B, UUID_C
    runs = [[f"{a}:1", f"{b}:1", f"{c}:1"], [f"{c}:2"], [f"{a}:2", None, f"{c}:3"], [f"{b}:2"]]
    for gtids in runs:
        for gtid in gtids:
            journal.binlog.group(gtid)
        journal.row()
    named = [
        None if (sid, gno) == (-1, -1) else f"{one.body['sids'][sid]}:{gno}"
        for one in audit(journal).fleet_events
        if one.kind is FleetEventKind.LOGGED
        for sid, gno in zip(*(one.arrays[f"group_{k}"] for k in ("sid", "gno")), strict=True)
    ]
    assert list(chain.from_iterable(runs)) == named


@pytest.mark.parametrize("fast_min", [1, 10**9])
def test_a_run_says_how_many_events_have_the_time_of_the_first(monkeypatch, fast_min: int) -> None:
    """Where the fleet cuts it."""
    monkeypatch.setattr(log_reader, "FAST_MIN", fast_min)
    journal = Journal().begin()
    journal.row()
    groups = journal.binlog.group(), journal.binlog.group()
    for group in groups:
        for event in group:
            event["ts"] = group[0]["ts"]
    logged = [one for one in audit(journal).fleet_events if one.kind is FleetEventKind.LOGGED]
    run = logged[-1]
    assert (run.body["first_ts"], run.body["first_count"]) == (groups[0][0]["ts"], 5)
    assert len(run.arrays["event_ends"]) == 10


def test_after_each_gap_the_logs_have_another_number():
    """A RESET may be in it: the fleet takes none of them for one that it knows."""
    journal, relay, more = replica()
    for group in more[:4]:
        journal.record("gap")
        relay.copy(group)
        journal.groups(1)
    events = audit(journal).fleet_events
    for kind, name in (
        (FleetEventKind.LOGGED, "binlog_lineage"),
        (FleetEventKind.RECEIVED, "channel_lineage"),
    ):
        found = dict.fromkeys(one.body[name] for one in events if one.kind is kind)
        assert len(found) == 5
        assert list(found) == sorted(found)


@pytest.mark.parametrize("fast_min", [1, 10**9])
def test_groups_after_a_hole_are_marked(monkeypatch, fast_min):
    """The first of them, once."""
    monkeypatch.setattr(log_reader, "FAST_MIN", fast_min)
    journal, relay, more = replica()
    relay.copy(more[0])
    lost = len(journal.records)
    relay.copy(more[1])
    goes_on = len(journal.records)
    for group in more[2:4]:
        relay.copy(group)
    records = journal.records[:lost] + journal.records[goes_on:]
    runs = [
        (one.body["follows_hole"], one.arrays["group_gno"].tolist())
        for one in audit(records).fleet_events
        if one.kind is FleetEventKind.RECEIVED
    ]
    assert [6] == [gnos[0] for follows_hole, gnos in runs if follows_hole]


def test_groups_of_a_relay_log_that_begins_anew_follow_no_hole():
    """What was missing of the one before it is given up."""
    journal, relay, more = replica()
    relay.end += 100
    relay.event("GTID", 79, gtid=more[0][0]["gtid"], log_pos=more[0][0]["log_pos"])
    journal.record("channel", channel="", action="reset")
    relay.open(1, previous="")
    relay.connect()
    relay.copy(more[0])
    holes = [
        one.body["follows_hole"]
        for one in audit(journal).fleet_events
        if one.kind is FleetEventKind.RECEIVED
    ]
    assert [False, False] == holes


@pytest.mark.parametrize("count", [2, 60])
def test_a_length_that_is_not_announced_is_not_compared(count):
    """The field may be empty; read event by event and in columns."""
    journal = Journal().begin()
    for _ in range(count):
        journal.binlog.group(transaction_length=0)
    journal.row()
    assert ([], ["CONSISTENT"]) == (audit(journal).broken, audit(journal).verdicts)


def test_what_a_window_covers_begins_with_its_oldest_event():
    """Not with the one after it, in the same file or the next one."""
    window = EventWindow(2)
    for row in ((1, 4, 100), (1, 100, 200), (2, 4, 150)):
        window.append(pack_row(*row, 0, 0, 0, -1, 0, -1, -1, 0))
    positions = ((1, 99), (1, 100), (1, 101), (2, 3), (2, 4))
    assert [False, True, True, True, True] == [window.covers(*one) for one in positions]


def test_groups_are_up_to_a_position_or_after_it():
    """A position is one of its file, whatever the others have at that offset."""
    journal, ends = Journal().begin(), []
    for count in (1, 3, 2):
        for _ in range(count):
            journal.groups(1)
            ends.append((journal.binlog.number, journal.binlog.end))
        journal.binlog.rotate()
    reader = binlog_of(journal)
    for count, end in enumerate(ends, 1):
        before, after = reader.groups_up_to(*end), reader.groups_after(*end)
        assert before[:, GNO].tolist() == list(range(1, count + 1))
        assert after[:, GNO].tolist() == list(range(count + 1, len(ends) + 1))
        assert str(reader.logged_at(*end)) == f"{UUID_A}:1" + f"-{count}" * (count > 1)
