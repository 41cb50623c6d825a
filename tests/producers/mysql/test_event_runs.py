"""Events read as columns are what they are when they are read one by one."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.coordinates.events.journal import Block, BlockBuilder, Stream
from tallystick.coordinates.values.binlog import EventType
from tallystick.producers.mysql.binlog_events import _READERS, read_event
from tallystick.producers.mysql.event_runs import IS_REGULAR, EventRun, read_run
from tests.producers.mysql.test_binlog_events import event, microseconds

START, FILE = 400, "binlog.000001"

uuids = st.sampled_from([bytes(range(16)), bytes(range(1, 17))])
lengths_of_groups = st.sampled_from(
    [b"\x10", b"\xfa", b"\xfc\x2c\x01", b"\xfd\x00\x00\x01", b"\xfe" + struct.pack("<Q", 2**40)]
)
commit_times = st.one_of(
    st.just(microseconds(1000)), st.just(microseconds(1000 | 1 << 55) + microseconds(900))
)
commits = st.tuples(
    commit_times, lengths_of_groups, st.sampled_from([b"", b"\x00\x50\x3a\x01\x00"])
)


def gtid(uuid: bytes, gno: int, more: tuple[bytes, ...]) -> bytes:
    return struct.pack("<B16sqBqq", 1, uuid, gno, 2, gno - 1, gno) + b"".join(more)


def query(statement: bytes, status: bytes, schema: bytes) -> bytes:
    head = struct.pack("<IIBHH", 5, 0, len(schema), 0, len(status))
    return head + status + schema + b"\0" + statement


gtids = st.builds(gtid, uuids, st.integers(1, 2**62), commits)
queries = st.builds(
    query,
    st.sampled_from(
        [b"BEGIN", b"begin", b"COMMIT", b"XA END X'61'", b"SHOUT", b"", b"CREATE " * 40]
    ),
    st.binary(max_size=90),
    st.sampled_from([b"", b"shop"]),
)
others = st.tuples(
    st.sampled_from([EventType.XID, EventType.TABLE_MAP, EventType.WRITE_ROWS, 200]),
    st.binary(max_size=60),
)
bodies = st.one_of(
    st.tuples(st.just(EventType.GTID), gtids), st.tuples(st.just(EventType.QUERY), queries), others
)


def run_of(events: list[bytes], before: bytes = b"") -> EventRun | None:
    lengths = [len(each) for each in events]
    offsets = [len(before) + sum(lengths[:index]) for index in range(len(events))]
    return read_run(
        before + b"".join(events), offsets, lengths, start=START, file=FILE, checksum_length=4
    )


def one_by_one(events: list[bytes]) -> Block:
    builder, at = BlockBuilder("a"), START
    for each in events:
        read = read_event(each, at, FILE, 4)
        builder.log_event(Stream.BINLOG, read.type, ts=7, **read.fields)
        at = read.end
    return builder.build()


def same(one: Block, other: Block) -> bool:
    return (one.files, dict(one.texts)) == (other.files, dict(other.texts)) and all(
        np.array_equal(
            np.array([*one.sids, ""])[column] if name == "sid" else column,
            np.array([*other.sids, ""])[other.columns[name]]
            if name == "sid"
            else other.columns[name],
        )
        for name, column in one.columns.items()
    )


@given(st.lists(bodies, min_size=1, max_size=30), st.binary(max_size=3))
def test_a_run_has_what_its_events_have(kinds: list[tuple[int, bytes]], before: bytes) -> None:
    """Every column of every record, wherever the events lie in the buffer."""
    events = [event(kind, body, flags=8) for kind, body in kinds]
    run = run_of(events, before)
    assert run is not None
    builder = BlockBuilder("a")
    builder.log_events(Stream.BINLOG, run.table, file=run.file, ts=7, sids=run.sids)
    assert same(one_by_one(events), builder.build())
    assert run.last_type == kinds[-1][0]
    assert run.ends.tolist()[-1] == START + sum(map(len, events))


def test_rows_and_runs_stand_in_a_block_in_their_order() -> None:
    """Texts and GTIDs keep their records, whichever way each came."""
    events = [
        event(EventType.GTID, gtid(bytes(16), 5, (microseconds(1), b"\x10"))),
        event(EventType.ROTATE, struct.pack("<Q", 4) + b"binlog.000002"),
        event(EventType.GTID, gtid(bytes(range(16)), 6, (microseconds(1), b"\x10"))),
        event(EventType.XID, b"12345678"),
    ]
    builder, at = BlockBuilder("a"), START
    for part in (events[:1], events[1:2], events[2:]):
        read = read_event(part[0], at, FILE, 4)
        if len(part) > 1:
            run = read_run(
                b"".join(part), [0, len(part[0])], [*map(len, part)],
                start=at, file=FILE, checksum_length=4,
            )  # fmt: skip
            assert run is not None
            builder.log_events(Stream.BINLOG, run.table, file=FILE, ts=7, sids=run.sids)
        else:
            builder.log_event(Stream.BINLOG, read.type, ts=7, **read.fields)
        at += sum(map(len, part))
    assert len(builder) == len(events)
    assert same(one_by_one(events), builder.build())
    assert len(builder) == 0


ANONYMOUS = event(EventType.ANONYMOUS_GTID, gtid(bytes(16), 1, (microseconds(1), b"\x10")))
NAMED = event(EventType.GTID, gtid(bytes(16), 1, (microseconds(1), b"\x10")))
XID = event(EventType.XID, b"12345678")


@pytest.mark.parametrize(
    ("events", "is_anonymous"),
    [([XID], None), ([NAMED, XID], False), ([XID, ANONYMOUS, XID], True)],
)
def test_a_run_says_of_what_mode_its_groups_are(
    events: list[bytes], is_anonymous: bool | None
) -> None:
    """None where no group begins."""
    run = run_of(events)
    assert run is not None
    assert run.is_anonymous is is_anonymous


@pytest.mark.parametrize(
    "events",
    [
        [XID[:9] + struct.pack("<I", 99) + XID[13:]],
        [event(EventType.XID, b"12345678", log_pos=0)],
        [event(EventType.XID, b"12345678", flags=0x20)],
        [NAMED, ANONYMOUS],
        [event(EventType.GTID, gtid(bytes(16), 1, ()))],
        [event(EventType.GTID, gtid(bytes(16), 1, (microseconds(1),)))],
        [event(EventType.GTID, gtid(bytes(16), 1, (microseconds(1), b"\xfb")))],
        [event(EventType.GTID, gtid(bytes(16), 1, (microseconds(1), b"\xfd\x01")))],
        [event(EventType.QUERY, b"short")],
        [event(EventType.QUERY, query(b"", b"", b"")[:-1])],
    ],
)
def test_what_is_not_regular_is_read_one_by_one(events: list[bytes]) -> None:
    """One such event leaves the whole stretch to the reader that says what is wrong with it."""
    assert run_of([XID, *events, XID]) is None


def test_framing_stands_in_no_run() -> None:
    """What opens and closes files is reported on its own."""
    framing = (EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS, EventType.ROTATE)
    assert not any(IS_REGULAR[kind] for kind in (*framing, EventType.STOP, EventType.HEARTBEAT))
    assert all(IS_REGULAR[kind] for kind in (EventType.GTID, EventType.XID, EventType.QUERY, 200))


def test_what_is_read_of_a_body_is_read_in_a_run_or_one_by_one() -> None:
    """Of a type that may be in a run only what ``read_run`` knows is read."""
    read_in_runs = {EventType.GTID, EventType.ANONYMOUS_GTID, EventType.QUERY}
    assert {kind for kind in _READERS if IS_REGULAR[kind]} == read_in_runs
