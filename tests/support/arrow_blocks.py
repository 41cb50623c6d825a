"""Blocks in the Arrow form, as earlier versions have written them and others may."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tallystick.coordinates.events._arrow_block import ARROW_SCHEMA
from tallystick.coordinates.events.block_codec import block_headers, seal
from tallystick.coordinates.events.journal import COLUMNS, INDEX_COLUMNS, Block


def batch_of(block: Block) -> Any:
    """The block as a record batch with its metadata."""
    dictionaries = {"channel": block.channels, "file": block.files, "sid": block.sids}
    arrays = []
    for name, dtype in COLUMNS.items():
        column = block.columns[name]
        if name in INDEX_COLUMNS:
            indices = pa.array(column, type=pa.int32(), mask=column < 0)
            values = pa.array(dictionaries[name], type=pa.utf8())
            arrays.append(pa.DictionaryArray.from_arrays(indices, values))
        else:
            arrays.append(pa.array(column, type=pa.from_numpy_dtype(dtype)))
    arrays.append(pa.array([block.texts.get(i) for i in range(len(block))], type=pa.utf8()))
    schema = ARROW_SCHEMA.with_metadata(dict(block_headers(block)))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def stream_of(batch: Any, *, options: Any = None, times: int = 1) -> bytes:
    """A record batch as the value of a message."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        for _ in range(times):
            writer.write_batch(batch)
    return seal(sink.getvalue())


def encode_arrow(block: Block) -> bytes:
    """The block as the value of a message."""
    return stream_of(batch_of(block))
