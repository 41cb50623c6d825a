"""Blocks in the Arrow form: streams that Arrow would read, and a block is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tallystick.coordinates.events._arrow_block import ARROW_SCHEMA
from tallystick.coordinates.events.block_codec import decode_block, seal
from tallystick.coordinates.events.journal import COLUMNS
from tallystick.coordinates.values.errors import BlockError
from tests.support.arrow_blocks import batch_of, encode_arrow, stream_of
from tests.support.block_samples import make_block, without_records


def test_numbers_are_not_copied():
    """The columns of a decoded block lie in the bytes of the message."""
    data = encode_arrow(make_block())
    start = np.frombuffer(data, dtype=np.uint8).ctypes.data
    for name in ("ts", "start", "gno"):
        assert start <= decode_block(data).columns[name].ctypes.data < start + len(data)


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
    with pytest.raises(BlockError, match="column 'gno' has 1 nulls"):
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


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_buffers_are_refused(codec):
    """A few bytes may claim to be many: memory stays bounded by the size of the message."""
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pytest.raises(BlockError, match="compressed Arrow buffers"):
        decode_block(stream_of(batch_of(make_block()), options=options))


def test_a_block_is_one_batch_and_nothing_after_it():
    """Two batches, none, bytes after the end, an end that is missing."""
    batch = batch_of(make_block())
    once = stream_of(batch)[:-8]
    none = stream_of(batch, times=0)[:-8]
    for stream in (stream_of(batch, times=2)[:-8], none, once + b"\0"):
        with pytest.raises(BlockError, match=r"does not end after|garbled"):
            decode_block(seal(stream))
    schema = none[:-8]  # without the end
    with pytest.raises(BlockError, match=rf"Arrow message at byte {len(schema)} is of kind 1: "):
        decode_block(seal(schema + once))
    for stream in (once[:-1], b"\0"):
        with pytest.raises(BlockError, match=r"does not end after|garbled"):
            decode_block(seal(stream))
    with pytest.raises(BlockError, match="it is empty"):
        decode_block(encode_arrow(without_records(make_block())))


@pytest.mark.parametrize(
    "marker", [b"\xff\xff\xff\xfe\0\0\0\1", b"\xff\xff\xff\xff\xff\xff\xff\xff"]
)
def test_what_is_there_instead_of_a_message_is_shown(marker):
    """Another beginning than a message has, or a length below nothing; after the schema's."""
    stream = bytearray(stream_of(batch_of(make_block()))[:-8])
    at = stream.index(b"\xff\xff\xff\xff", 1)
    stream[at : at + 8] = marker
    with pytest.raises(BlockError) as refused:
        decode_block(seal(bytes(stream)))
    found = bytes(stream[at : at + 16])
    assert f"a block without an Arrow message at byte {at}, but with {found!r}" == str(
        refused.value
    )


def test_the_schema_is_the_contract():
    """The columns on the wire are those of the journal, in order, then the text."""
    assert ARROW_SCHEMA.names == [*COLUMNS, "text"]
