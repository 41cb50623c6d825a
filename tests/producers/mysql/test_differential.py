"""A history on real servers and the same history in the simulator: what they write and say.

The simulated clients run groups with the bodies of the real ones; everything around them (GTID
events, positions, framing, sets, rotation, replication, rows) is the simulator's own work.
docs/fidelity.md says what is not compared, and why.
"""

from __future__ import annotations

from random import Random

import pytest

from tallystick.coordinates.events.journal import RecordType, Stream
from tallystick.coordinates.values.binlog import EventType
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.assemble import Fleet
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.kernel.transactions import Group, GroupKind
from tallystick.producers.simulator.server import administration, binary_log, commit
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.gtid_state import GtidState
from tallystick.producers.simulator.server.workload import make_group
from tests.support.real_history import (
    REPLICA,
    ROTATE_BEFORE,
    SECOND_REPLICA,
    SOURCE,
    STEPS,
    RealHistory,
    make_history,
)
from tests.support.simulated_journal import OPENERS, Record, records

SECOND_US = 1_000_000
FLAG_OF_REPLICA = 64
MYISAM_DDL = 1
"""The step that creates a table that is not InnoDB's."""
SIMULATED = {SOURCE: "source-a", REPLICA: "replica-a1", SECOND_REPLICA: "replica-a2"}


@pytest.fixture(scope="module")
def real(own_mysqld) -> RealHistory:
    """Of servers without a past: a simulated one has no gap in front of its first file."""
    return make_history(own_mysqld)


def groups(events: list[Record]) -> list[list[Record]]:
    """The events of each group, its GTID event first; framing is left out."""
    found: list[list[Record]] = []
    framing = (EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS, EventType.ROTATE)
    for event in events:
        if event.type in OPENERS:
            found.append([])
        if event.type not in framing and found:
            found[-1].append(event)
    return found


@pytest.fixture(scope="module")
def simulated(real) -> dict[str, list[Record]]:
    """The simulator's journals of the same steps, with the real servers' names and ids."""
    fleet = Fleet(
        Scenario(
            seed=2, topology="chain", acts=False, duration_ms=1, writes_per_second=0.001,
            max_binlog_size=1 << 30, lock_steps=False,
        )
    )  # fmt: skip
    for name, simulated_name in SIMULATED.items():
        become(fleet, simulated_name, real, name)
    source = fleet.instances[SIMULATED[SOURCE]]
    written = groups(real.binlog(SOURCE))
    assert len(STEPS) == len(written)
    for number, ((kind, _), events) in enumerate(zip(STEPS, written, strict=True)):
        if number == ROTATE_BEFORE:
            administration.flush_binary_logs(fleet, source)
        commit.commit(fleet, source, as_group(fleet, kind, events[1:], source.server_id))
        fleet.run(fleet.now + SECOND_US)
        fleet.collect(f"step-{number}", fleet.now)
        fleet.run(fleet.now + SECOND_US)
    fleet.collect("end", fleet.now)
    fleet.run(fleet.now + SECOND_US)
    return {
        name: records(fleet.instances[simulated_name].journal.build())
        for name, simulated_name in SIMULATED.items()
    }


def become(fleet: Fleet, simulated_name: str, real: RealHistory, name: str) -> None:
    """Give a simulated server the identity and the past of a real one."""
    instance = fleet.instances[simulated_name]
    first = real.first_files[name]
    previous = next(
        GtidSet.parse(r.text or "") for r in real.binlog(name) if r.type == EventType.PREVIOUS_GTIDS
    )
    past = GtidIntervals.of(*((str(sid), first, last) for sid, first, last in intervals(previous)))
    instance.server_id = real.server_ids[name]
    if name == SOURCE:
        instance.server_uuid = instance[GtidState].automatic_sid = real.server_uuid
    for known in (instance[GtidState].executed, instance[GtidState].logged):
        known.update(past)
    instance[BinaryLog].base_name, _, number = first.rpartition(".")
    binary_log.open_file(fleet, instance, int(number), past)


def intervals(gtids: GtidSet) -> list[tuple[str, int, int]]:
    found = []
    for part in filter(None, str(gtids).split(",")):
        sid, *spans = part.split(":")
        for span in spans:
            first, _, last = span.partition("-")
            found.append((sid, int(first), int(last or first)))
    return found


def as_group(fleet: Fleet, kind: GroupKind, body: list[Record], server_id: int) -> Group:
    made = make_group(fleet.rng, kind, server_id, fleet.now)
    made.body = tuple((r.type, int(r.query), r.length, r.checksum) for r in body)
    return made


def binlog(journal: list[Record], first_file: str) -> list[Record]:
    events = [r for r in journal if r.stream is Stream.BINLOG]
    return events[next(i for i, r in enumerate(events) if r.file == first_file) :]


def arithmetic(event: Record) -> tuple:
    return (event.file, event.start, event.length, EventType(event.type).name, event.log_pos,
            event.query.name, event.gtid, event.sequence_number, event.transaction_length,
            event.server_id)  # fmt: skip


def sets_of(events: list[Record]) -> list[str]:
    return [str(GtidSet.parse(r.text or "")) for r in events if r.type == EventType.PREVIOUS_GTIDS]


def test_the_source_writes_the_same_log(real, simulated):
    """Places, lengths, log_pos, GTIDs, sequence numbers, transaction_length, files and sets."""
    reported = real.binlog(SOURCE)
    made = binlog(simulated[SOURCE], real.first_files[SOURCE])
    assert [arithmetic(event) for event in reported] == [arithmetic(event) for event in made]
    assert sets_of(reported) == sets_of(made)


ROWS = frozenset(
    {EventType.TABLE_MAP, EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS,
     EventType.ROWS_QUERY, EventType.INTVAR}
)  # fmt: skip


def test_groups_are_of_the_kinds_that_simulated_clients_write(real):
    """Event types and verbs of each kind of group, rows taken as one."""
    for (kind, _), events in zip(STEPS, groups(real.binlog(SOURCE)), strict=True):
        made = make_group(Random(3), kind, 1, 0, rows_length=50)
        assert outline([(e.type, int(e.query)) for e in events[1:]]) == outline(
            [(event_type, query) for event_type, query, _, _ in made.body]
        ), kind


def outline(body: list[tuple[int, int]]) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for event_type, query in body:
        one = ("ROWS", 0) if event_type in ROWS else (EventType(event_type).name, query)
        if one != ("ROWS", 0) or not found or found[-1] != one:
            found.append(one)
    return found


@pytest.mark.parametrize("name", [REPLICA, SECOND_REPLICA])
def test_a_replica_writes_the_same_log(real, simulated, name):
    """Types, lengths and origins; a real applier writes statements anew, so with other lengths."""
    reported = groups(real.binlog(name))
    made = groups(binlog(simulated[name], real.first_files[name]))
    compressed = [kind for kind, _ in STEPS].index(GroupKind.COMPRESSED)
    # A replica that does not compress writes the group out; a simulated one keeps the payload.
    assert EventType.TRANSACTION_PAYLOAD not in {event.type for event in reported[compressed]}
    assert EventType.TRANSACTION_PAYLOAD in {event.type for event in made[compressed]}
    del reported[compressed], made[compressed]
    # Nor does it log the text of statements, unless it is configured to; a simulated one copies it.
    texts = [
        sum(e.type == EventType.ROWS_QUERY for g in half for e in g) for half in (reported, made)
    ]
    assert [0, 1] == texts
    assert [[copied(e) for e in group] for group in reported] == [
        [copied(e) for e in group if e.type != EventType.ROWS_QUERY] for group in made
    ]
    for group in (*reported, *made):
        assert sum(event.length for event in group) == group[0].transaction_length
        assert 86 - (group[0].transaction_length < 250) * 2 == group[0].length


def copied(event: Record) -> tuple:
    length = event.length if event.type not in (*OPENERS, EventType.QUERY) else None
    return EventType(event.type).name, event.query.name, length, event.server_id, event.gtid


def lengths(event: Record) -> tuple:
    return (EventType(event.type).name, event.query.name, event.length, event.server_id,
            event.transaction_length)  # fmt: skip


@pytest.mark.parametrize("name", [REPLICA, SECOND_REPLICA])
def test_a_relay_log_holds_what_the_source_wrote(real, simulated, name):
    """Each event with the source's length and log_pos, on real servers and simulated ones."""
    source = {REPLICA: SOURCE, SECOND_REPLICA: REPLICA}[name]
    for journal, relay in (
        (real.binlog(source), real.relay(name)),
        (
            binlog(simulated[source], real.first_files[source]),
            [r for r in simulated[name] if r.stream is Stream.RELAY],
        ),
    ):
        sent = groups(journal)
        first = sent[0][0].gtid
        received = [group for group in groups(relay) if group[0].gtid >= first]
        assert [[source_half(e) for e in group] for group in sent] == [
            [source_half(e) for e in group] for group in received
        ]


def source_half(event: Record) -> tuple:
    return (*lengths(event), event.log_pos, event.sequence_number, event.gtid)


def test_a_rotation_of_the_source_is_framed_alike(real, simulated):
    """What a relay log holds between the groups around it: types, lengths, flags, log_pos."""
    reported = between(real.relay(REPLICA))
    made = between([r for r in simulated[REPLICA] if r.stream is Stream.RELAY])
    assert reported == made


def between(relay: list[Record]) -> list[tuple]:
    """Framing between the last group before the rotation and the first one after it."""
    gtids = [r.gtid for r in relay if r.type in OPENERS]
    behind = gtids[-len(STEPS) + ROTATE_BEFORE]
    end = next(i for i, r in enumerate(relay) if r.gtid == behind)
    begin = max(i for i, r in enumerate(relay[:end]) if r.type in (EventType.XID, EventType.QUERY))
    return [
        (
            EventType(r.type).name,
            r.length - len(r.text or ""),
            r.flags,
            # What the replica writes of its own ends in its own file.
            r.log_pos - r.end if r.flags & FLAG_OF_REPLICA else r.log_pos,
        )
        for r in relay[begin + 1 : end]
    ]


def simulated_answer(journal: list[Record]) -> dict:
    return [r.body for r in journal if r.is_fact(RecordType.LOG_STATUS)][-1]


@pytest.mark.parametrize("name", [SOURCE, REPLICA])
def test_log_status_and_what_stands_beside_it_have_one_shape(real, simulated, name):
    """Keys and types of the row; every column that a real collection brings is simulated too."""
    reported, made = real.rows[name], simulated_answer(simulated[name])
    assert shape(reported["row"]) == shape(made["row"])
    assert set(reported) - UNSIMULATED_PARTS <= set(made)
    for table in ("slave_master_info", "slave_relay_log_info", "replica_status"):
        columns = {key for row in reported[table] for key in row}
        simulated_columns = {key for row in made[table] for key in row}
        assert columns - UNSIMULATED_COLUMNS <= simulated_columns, table


UNSIMULATED_PARTS = frozenset(
    {"replication_connection_status", "replication_applier_status_by_worker", "slave_worker_info"}
)
"""Kept in the journal and judged by nobody; a simulated applier without workers has no row."""
UNSIMULATED_COLUMNS = frozenset({"Last_IO_Error_Timestamp", "Last_SQL_Error_Timestamp"})
"""Shown with an error, and judged by nobody."""


def shape(value: object) -> object:
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    return type(value).__name__


@pytest.mark.parametrize("name", [SOURCE, REPLICA, SECOND_REPLICA])
def test_sets_agree_at_the_end(real, simulated, name):
    """Of the source's GTIDs each server has executed all, and its log up to the row holds them."""
    own = GtidSet.parse(f"{real.server_uuid}:1-9223372036854775806")
    reported, made = real.rows[name], simulated_answer(simulated[name])
    assert executed(reported) & own == executed(made) & own
    for row, journal in ((reported, real.records[name]), (made, simulated[name])):
        logged = {str_of(r) for r in journal if r.stream is Stream.BINLOG and r.type in OPENERS}
        assert {str_of(group[0]) for group in groups(real.binlog(SOURCE))} <= logged
        assert all(GtidSet.parse(gtid) <= executed(row) for gtid in logged)


def executed(answer: dict) -> GtidSet:
    return GtidSet.parse(answer["row"]["LOCAL"]["gtid_executed"])


def str_of(event: Record) -> str:
    sid, gno = event.gtid
    return f"{sid}:{gno}"


def test_the_applier_row_moves_at_the_same_groups(real, simulated):
    """slave_relay_log_info without workers moves with commits in InnoDB only, on both sides."""
    reported = [is_up_to_date(answer) for answer in real.answers]
    made = [
        is_up_to_date(r.body)
        for r in simulated[SECOND_REPLICA]
        if r.is_fact(RecordType.LOG_STATUS) and str(r.body["collection_id"]).startswith("step-")
    ]
    assert len(STEPS) == len(reported) == len(made)
    # DDL on MyISAM is not atomic and leaves the row behind; a simulated DDL is always atomic.
    assert (False, True) == (reported.pop(MYISAM_DDL), made.pop(MYISAM_DDL))
    assert reported == made
    assert {True, False} == set(reported)


def is_up_to_date(answer: dict) -> bool:
    (row,), (status,) = answer["slave_relay_log_info"], answer["replica_status"]
    return row["Relay_log_pos"] == status["Relay_Log_Pos"]
