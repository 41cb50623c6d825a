"""Blocks to be written and read."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import strategies as st

from tallystick.coordinates.events.journal import (
    COLUMNS,
    Block,
    BlockBuilder,
    QueryVerb,
    RecordType,
    Stream,
)
from tallystick.coordinates.values.binlog import EventType

SID = "aaaaaaaa-0000-0000-0000-000000000001"


def make_block() -> Block:
    """One record of each stream, with text on some."""
    builder = BlockBuilder("a", epoch=3, first_sequence=70)
    builder.server_record(RecordType.START, {"server_uuid": SID, "note": "é"}, ts=1)
    builder.log_event(
        Stream.BINLOG, EventType.GTID, file="binlog.000001", start=157, length=79, ts=2,
        log_pos=236, server_id=1, sid=SID, gno=2**63 - 2, last_committed=0, sequence_number=1,
    )  # fmt: skip
    builder.log_event(
        Stream.BINLOG, EventType.QUERY, file="binlog.000001", start=236, length=75, ts=3,
        query=QueryVerb.BEGIN,
    )  # fmt: skip
    builder.log_event(
        Stream.RELAY, EventType.ROTATE, file="relay.000002", start=4, length=44, ts=4, channel="",
        flags=32, value=4, text="binlog.000001",
    )  # fmt: skip
    builder.log_event(
        Stream.BINLOG, EventType.GTID, file="binlog.000001", start=311, length=79, ts=5, text="oops"
    )
    return builder.build()


def same(one: Block, other: Block) -> bool:
    """Whether two blocks carry the same."""
    return (
        all(
            np.array_equal(one.columns[name], other.columns[name])
            and one.columns[name].dtype == other.columns[name].dtype
            for name in COLUMNS
        )
        and dict(one.texts) == dict(other.texts)
        and all(
            getattr(one, name) == getattr(other, name)
            for name in ("instance_id", "epoch", "first_sequence", "channels", "files", "sids")
        )
    )


def changed(block: Block, column: str, index: int, value: int) -> Block:
    columns = dict(block.columns)
    columns[column] = columns[column].copy()
    columns[column][index] = value
    return dataclasses.replace(block, columns=columns)


numbers = st.integers(-1, 2**63 - 1)


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    builder = BlockBuilder(
        draw(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8)),
        epoch=draw(st.integers(0, 2**62)),
        first_sequence=draw(st.integers(0, 2**62)),
    )
    for _ in range(draw(st.integers(1, 12))):
        ts = draw(st.integers(0, 2**63 - 1))
        if draw(st.booleans()):
            record_type = draw(st.sampled_from(RecordType))
            body = draw(st.dictionaries(st.text(max_size=3), st.text(max_size=5), max_size=3))
            builder.server_record(record_type, body, ts=ts, channel=draw(st.none() | st.just("c")))
            continue
        stream = draw(st.sampled_from([Stream.BINLOG, Stream.RELAY]))
        event_type = draw(st.integers(0, 255))
        has_text = event_type in (EventType.ROTATE, EventType.PREVIOUS_GTIDS)
        has_gtid = event_type in (EventType.GTID, EventType.GTID_TAGGED)
        verbs = [v for v in QueryVerb if (v != QueryVerb.NONE) == (event_type == EventType.QUERY)]
        start = draw(st.integers(0, 2**62 - 1))
        builder.log_event(
            stream,
            event_type,
            file=draw(st.sampled_from(["binlog.000001", "binlog.1000000"])),
            start=start,
            length=draw(st.integers(1, 2**62)),
            ts=ts,
            channel=draw(st.sampled_from(["", "é"])) if stream is Stream.RELAY else None,
            log_pos=draw(st.integers(-1, 2**32 - 1)),
            flags=draw(st.integers(0, 2**16 - 1)),
            server_id=draw(st.integers(-1, 2**32 - 1)),
            checksum=draw(numbers),
            query=draw(st.sampled_from(verbs)),
            sid=draw(st.sampled_from([SID, f"{SID}:tag"])) if has_gtid else None,
            gno=draw(st.integers(1, 2**63 - 2)) if has_gtid else -1,
            last_committed=draw(numbers),
            sequence_number=draw(numbers),
            transaction_length=draw(numbers),
            original_commit_timestamp=draw(numbers),
            value=draw(numbers),
            text=draw(st.text(st.characters(exclude_categories=["Cs"]))) if has_text else None,
        )
    return builder.build()


def without_records(block: Block) -> Block:
    """The same block, and nothing in it."""
    columns = {name: column[:0] for name, column in block.columns.items()}
    return dataclasses.replace(block, columns=columns, texts={})
