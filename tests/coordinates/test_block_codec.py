"""Blocks as bytes: what is written is read back, and nothing else is read."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.coordinates.events.block_codec import (
    ARROW_SCHEMA,
    BLOCK_BYTES_MAX,
    block_headers,
    decode_block,
    encode_block,
    seal_stream,
)
from tallystick.coordinates.events.journal import (
    COLUMNS,
    Block,
    BlockBuilder,
    QueryVerb,
    RecordType,
    Stream,
)
from tallystick.coordinates.values.binlog import EventType
from tallystick.coordinates.values.errors import BlockError

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


def test_what_is_written_is_read_back():
    """A block, its key and its headers come back as they were."""
    block = make_block()
    read = decode_block(encode_block(block), key=b"a", headers=block_headers(block))
    assert same(block, read)


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


@given(blocks())
@settings(max_examples=60, deadline=None)
def test_every_possible_block_is_read_back(block):
    """Whatever a producer may say arrives unchanged, also in pieces."""
    assert same(block, decode_block(encode_block(block), headers=block_headers(block)))
    middle = len(block) // 2
    if middle:
        piece = block.take(middle, len(block))
        assert same(piece, decode_block(encode_block(piece)))


def test_numbers_are_not_copied():
    """The columns of a decoded block lie in the bytes of the message."""
    data = encode_block(make_block())
    start = np.frombuffer(data, dtype=np.uint8).ctypes.data
    for name in ("ts", "start", "gno"):
        assert start <= decode_block(data).columns[name].ctypes.data < start + len(data)


IMPOSSIBLE_RECORDS = [
    ("stream", 0, 4, "stream 4: expected at most 3"),
    ("type", 0, 0, "type 0: expected a known kind"),
    ("type", 0, max(RecordType) + 1, "expected a known kind"),
    ("query", 2, 9, "query 9"),
    ("query", 2, 0, "a query verb on QUERY events"),
    ("query", 1, 1, "a query verb on QUERY events"),
    ("ts", 1, -1, "ts -1: expected microseconds"),
    ("start", 1, -1, "start -1"),
    ("start", 1, -2, "start -2"),
    ("length", 2, -5, "length -5"),
    ("length", 2, 0, "length 0: expected at least 1"),
    ("start", 2, 2**63 - 10, r"ends below 2\^63"),
    ("log_pos", 1, 2**32, "log_pos 4294967296"),
    ("server_id", 1, 2**32, "server_id 4294967296"),
    ("gno", 1, 2**63 - 1, "gno 9223372036854775807"),
    ("gno", 1, 0, "sid and GNO on GTID events"),
    ("sid", 1, -1, "sid and GNO on GTID events"),
    ("gno", 3, 5, "sid and GNO on GTID events"),
    ("file", 1, -1, "file -1: expected a log file"),
    ("channel", 3, -1, "channel -1: expected a channel"),
    ("transaction_length", 1, -2, "transaction_length -2"),
]


@pytest.mark.parametrize(("column", "index", "value", "message"), IMPOSSIBLE_RECORDS)
def test_a_record_that_cannot_be_is_refused(column, index, value, message):
    """The error names the instance, the record and the value."""
    with pytest.raises(BlockError, match=f"instance 'a'.*record {70 + index} .*{message}"):
        decode_block(encode_block(changed(make_block(), column, index, value)))


def test_an_event_without_its_text_is_refused():
    """ROTATE and PREVIOUS_GTIDS mean nothing without their text."""
    block = dataclasses.replace(make_block(), texts={0: "{}", 4: "oops"})
    with pytest.raises(BlockError, match="record 73 has no text"):
        decode_block(encode_block(block))


def test_a_heartbeat_event_needs_no_place():
    """Heartbeats of a dump stream are no part of any file."""
    block = make_block().take(2, 3)
    for column, value in (("type", 27), ("query", 0), ("file", -1), ("start", -1), ("length", -1)):
        block = changed(block, column, 0, value)
    assert same(block, decode_block(encode_block(block)))


def test_keys_and_headers_that_disagree_are_refused():
    """A block under another instance's key, or beside other headers, is nobody's journal."""
    block = make_block()
    data = encode_block(block)
    with pytest.raises(BlockError, match="instance 'a' under the key b'b'"):
        decode_block(data, key=b"b")
    for at, name in enumerate(
        ("schema_version", "instance_id", "epoch", "first_sequence", "count")
    ):
        headers = block_headers(block)
        headers[at] = (name, b"9")
        with pytest.raises(BlockError, match=f"header '{name}' is b'9'"):
            decode_block(data, headers=headers)
        del headers[at]
        with pytest.raises(BlockError, match=f"without the header '{name}'"):
            decode_block(data, headers=headers)
    decode_block(data, headers=[*block_headers(block), ("traceparent", b"x")])


# Streams that Arrow would read and a block is not


def stream_of(batch: Any, *, options: Any = None, times: int = 1) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        for _ in range(times):
            writer.write_batch(batch)
    return seal_stream(sink.getvalue())


def batch_of(block: Block) -> Any:
    return pa.ipc.open_stream(encode_block(block)).read_next_batch()


def with_metadata(**changes: str | None) -> bytes:
    batch = batch_of(make_block())
    metadata = {**{k.decode(): v for k, v in batch.schema.metadata.items()}, **changes}
    return stream_of(
        batch.replace_schema_metadata({k: v for k, v in metadata.items() if v is not None})
    )


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"schema_version": "1"}, "schema version b'1': expected 2"),
        ({"schema_version": None}, "schema version None"),
        ({"epoch": None}, "without 'epoch'"),
        ({"epoch": "-1"}, "epoch is b'-1'"),
        ({"epoch": "01"}, "epoch is b'01'"),
        ({"first_sequence": "1e3"}, "first_sequence is b'1e3'"),
        ({"first_sequence": "9223372036854775808"}, "first_sequence is"),
        ({"first_sequence": "9223372036854775805"}, "sequence numbers end"),
        ({"count": "6"}, "5 records, its count says 6"),
        ({"instance_id": ""}, "text that is not empty"),
        ({"instance_id": "a\nb"}, "printable text"),
        ({"instance_id": "\x1b[2J"}, "printable text"),
        ({"instance_id": "x" * 256}, "1 to 255 bytes"),
        ({"instance_id": b"\xff"}, "no UTF-8"),
    ],
)
def test_metadata_that_does_not_fit_is_refused(metadata, message):
    """Version, numbers and count are those of the contract."""
    with pytest.raises(BlockError, match=message):
        decode_block(with_metadata(**metadata))


def test_other_columns_are_refused():
    """A column more, less, elsewhere or of another type is another schema."""
    batch = batch_of(make_block())
    names = batch.schema.names
    swapped = [names[1], names[0], *names[2:]]
    wider = batch.set_column(
        0, pa.field("stream", pa.int64()), batch.column(0).cast(pa.int64())
    ).replace_schema_metadata(batch.schema.metadata)
    for other, message in [
        (batch.select(names[:-1]), "column 19 is not 'text' of type string"),
        (batch.append_column("more", batch.column(0)), "21 columns: expected 20"),
        (batch.select(swapped), "column 0 is not 'stream' of type uint8"),
        (wider, "column 0 is not 'stream' of type uint8"),
    ]:
        with pytest.raises(BlockError, match=message):
            decode_block(stream_of(other.replace_schema_metadata(batch.schema.metadata)))


def test_nulls_among_numbers_are_refused():
    """What lies under a null is anything; absent numbers are -1."""
    batch = batch_of(make_block())
    position = batch.schema.get_field_index("gno")
    nulls = pa.array([1, None, 3, 4, 5], type=pa.int64())
    arrays = [nulls if i == position else column for i, column in enumerate(batch.columns)]
    with pytest.raises(BlockError, match="column 'gno': 1 nulls"):
        decode_block(stream_of(pa.RecordBatch.from_arrays(arrays, schema=batch.schema)))


def with_dictionary(values: Any, indices: Any) -> bytes:
    batch = batch_of(make_block())
    position = batch.schema.get_field_index("file")
    column = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), values, safe=False)
    arrays = [column if i == position else given for i, given in enumerate(batch.columns)]
    return stream_of(pa.RecordBatch.from_arrays(arrays, schema=batch.schema))


def test_dictionaries_are_checked():
    """An index beyond the dictionary, a value twice, a null value, bytes that are no text."""
    files = pa.array(["binlog.000001", "relay.000002"])
    assert decode_block(with_dictionary(files, [None, 0, 0, 1, 0]))
    for index in (2, -1, 2**31 - 1):
        with pytest.raises(BlockError, match="no Arrow stream"):
            decode_block(with_dictionary(files, [None, 0, 0, index, 0]))
    with pytest.raises(BlockError, match="column 'file': its dictionary repeats"):
        decode_block(with_dictionary(pa.array(["x.000001", "x.000001"]), [None, 0, 0, 1, 0]))
    with pytest.raises(BlockError, match="column 'file': its dictionary repeats"):
        decode_block(with_dictionary(pa.array(["x.000001", None]), [None, 0, 0, 1, 0]))
    bad = pa.Array.from_buffers(
        pa.utf8(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")]
    )
    with pytest.raises(BlockError, match="no Arrow stream"):
        decode_block(with_dictionary(bad, [None, 0, 0, 0, 0]))


UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def with_sids(*sids: str) -> bytes:
    """A block with a group of each source identifier."""
    builder = BlockBuilder("a")
    for gno, sid in enumerate(sids, 1):
        builder.log_event(
            Stream.BINLOG, EventType.GTID, file="b.000001", start=gno, length=79, ts=gno, sid=sid,
            gno=gno,
        )  # fmt: skip
    return encode_block(builder.build())


def test_source_identifiers_are_checked_and_lowered():
    """A flipped bit in one is no reason to stop later, and none has two spellings."""
    tagged = f"{UUID.upper()}:TAG"
    assert (UUID, f"{UUID}:tag") == decode_block(with_sids(UUID.upper(), tagged)).sids
    for wrong in (UUID[1:], UUID.replace("-", "m"), f"{UUID}:", f"{UUID}:1", ""):
        with pytest.raises(BlockError, match="column 'sid': malformed source identifier"):
            decode_block(with_sids(UUID, wrong))
    with pytest.raises(BlockError, match="two spellings"):
        decode_block(with_sids(UUID, UUID.upper()))


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_buffers_are_refused(codec):
    """A few bytes may claim to be many: memory stays bounded by the size of the message."""
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pytest.raises(BlockError, match="compressed Arrow buffers"):
        decode_block(stream_of(batch_of(make_block()), options=options))


def test_a_block_is_one_batch_and_nothing_after_it():
    """Two batches, none, bytes behind the end, an end that is missing."""
    batch = batch_of(make_block())
    once = stream_of(batch)[:-8]
    for stream in (stream_of(batch, times=2)[:-8], stream_of(batch, times=0)[:-8], once + b"\0"):
        with pytest.raises(BlockError, match=r"does not end after|of kind|garbled"):
            decode_block(seal_stream(stream))
    for stream in (once[:-1], b"\0"):
        with pytest.raises(BlockError, match=r"does not end after|garbled"):
            decode_block(seal_stream(stream))
    empty = dataclasses.replace(
        make_block(), columns={n: c[:0] for n, c in make_block().columns.items()}, texts={}
    )
    with pytest.raises(BlockError, match="it is empty"):
        decode_block(encode_block(empty))


@pytest.mark.parametrize(
    "marker", [b"\xff\xff\xff\xfe\0\0\0\1", b"\xff\xff\xff\xff\xff\xff\xff\xff"]
)
def test_what_is_there_instead_of_a_message_is_shown(marker):
    """Another beginning than a message has, or a length below nothing; after the schema's."""
    stream = bytearray(stream_of(batch_of(make_block()))[:-8])
    at = stream.index(b"\xff\xff\xff\xff", 1)
    stream[at : at + 8] = marker
    with pytest.raises(BlockError) as refused:
        decode_block(seal_stream(bytes(stream)))
    found = bytes(stream[at : at + 16])
    assert f"a block without an Arrow message at byte {at}, but with {found!r}" == str(
        refused.value
    )


def test_a_block_beyond_the_size_limit_is_refused_unread():
    """Size is looked at before anything else."""
    with pytest.raises(BlockError, match=f"expected at most {BLOCK_BYTES_MAX}"):
        decode_block(bytes(BLOCK_BYTES_MAX + 1))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_block_error(data):
    """Bytes from anybody raise BlockError and nothing else."""
    with pytest.raises(BlockError):
        decode_block(data)


GOOD = encode_block(make_block())


@pytest.mark.parametrize("bit", range(8))
def test_a_block_with_one_bit_changed_is_damaged(bit):
    """Every bit of the stream, of its checksum, and of the name of that."""
    for at in range(len(GOOD)):
        data = bytearray(GOOD)
        data[at] ^= 1 << bit
        with pytest.raises(BlockError, match="damaged"):
            decode_block(bytes(data))


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_a_block_cut_short_or_written_over_is_damaged(data):
    """Bytes that are missing at either end or inside, or were replaced by others."""
    first = data.draw(st.integers(0, len(GOOD) - 1))
    end = data.draw(st.integers(first + 1, len(GOOD)))
    other = data.draw(st.binary(max_size=end - first).filter(lambda new: new != GOOD[first:end]))
    with pytest.raises(BlockError):
        decode_block(GOOD[:first] + other + GOOD[end:])


@given(st.integers(0, len(GOOD) - 9), st.integers(1, 255), st.integers(0, len(GOOD) - 8))
@settings(max_examples=400, deadline=None)
def test_garbled_streams_are_read_or_refused(at, flip, length):
    """Whatever somebody sealed never does anything but raise BlockError."""
    stream = GOOD[:-8]
    data = bytearray(stream)
    data[at] ^= flip
    for garbled in (bytes(data), stream[:length], bytes(data[:length])):
        try:
            block = decode_block(seal_stream(garbled))
        except BlockError:
            continue
        assert len(block) == 5


def test_the_schema_is_the_contract():
    """The columns on the wire are those of the journal, in order, then the text."""
    assert ARROW_SCHEMA.names == [*COLUMNS, "text"]
