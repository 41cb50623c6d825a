"""The Arrow form of a block: an IPC stream of one record batch, as any Arrow library writes it.

Reading needs no more memory than the bytes themselves, and numbers are not copied.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tallystick.coordinates.events._block_parts import (
    CLUSTER,
    METADATA_KEYS,
    BlockParts,
    check_version,
)
from tallystick.coordinates.events.journal import ABSENT, COLUMNS, INDEX_COLUMNS
from tallystick.coordinates.values.errors import BlockError, one_line

if TYPE_CHECKING:
    import numpy.typing as npt

_DICTIONARY = pa.dictionary(pa.int32(), pa.utf8())
_FIELDS = [
    pa.field(name, _DICTIONARY if name in INDEX_COLUMNS else pa.from_numpy_dtype(dtype), nullable)
    for name, dtype in COLUMNS.items()
    for nullable in (name in INDEX_COLUMNS,)
]
ARROW_SCHEMA = pa.schema([*_FIELDS, pa.field("text", pa.utf8())])
"""The columns of a block, without the metadata that differs from block to block."""


def read_arrow(data: memoryview) -> BlockParts:
    """Read the Arrow form.

    Raises:
        BlockError: The bytes have another one.
    """
    batch = _read_batch(data)
    metadata = _check_schema(batch.schema)
    columns: dict[str, npt.NDArray[Any]] = {}
    dictionaries: dict[str, list[str | None]] = {}
    for name, array in zip(COLUMNS, batch.columns, strict=False):
        if name in INDEX_COLUMNS:
            dictionaries[name] = array.dictionary.to_pylist()
            columns[name] = _indices(array.indices)
        elif array.null_count:
            raise BlockError(f"a block whose column {name!r} has {array.null_count} nulls")
        else:
            columns[name] = array.to_numpy()
    texts = _texts(batch.column(len(COLUMNS)))
    return BlockParts(metadata, columns, dictionaries, texts)


def _read_batch(data: memoryview) -> Any:
    _check_frames(data)
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            batch = reader.read_next_batch()
        # Arrow trusts what it reads until it is asked: offsets, indices, UTF-8.
        batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, StopIteration) as error:
        raise BlockError(f"a block that is no Arrow stream: {one_line(error)}") from None
    return batch


def _indices(array: Any) -> npt.NDArray[np.int32]:
    if array.null_count == len(array):
        return np.full(len(array), ABSENT, dtype=np.int32)
    if array.null_count:
        # What is under a null is whatever the writer left there.
        array = array.fill_null(ABSENT)
    numbers: npt.NDArray[np.int32] = array.to_numpy()
    return numbers


def _texts(array: Any) -> dict[int, str]:
    if array.null_count == len(array):
        return {}
    present = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False)).tolist()
    return dict(zip(present, array.drop_null().to_pylist(), strict=True))


def _check_schema(schema: Any) -> dict[str, bytes]:
    """The metadata that a message's headers repeat."""
    metadata = schema.metadata or {}
    check_version(metadata.get(b"schema_version"))
    missing = [name for name in METADATA_KEYS if name.encode() not in metadata]
    if missing:
        raise BlockError(f"a block without {missing[0]!r} in its schema metadata")
    if not schema.equals(ARROW_SCHEMA):
        # What is there instead is not shown: its name may be no text at all.
        for index, field in enumerate(ARROW_SCHEMA):
            if index >= len(schema) or not schema.field(index).equals(field):
                raise BlockError(
                    f"a block whose column {index} is not {field.name!r} of type {field.type}"
                )
        raise BlockError(f"a block of {len(schema)} columns: expected {len(ARROW_SCHEMA)}")
    names = (*METADATA_KEYS, CLUSTER)
    return {name: metadata[name.encode()] for name in names if name.encode() in metadata}


# Framing
#
# Arrow would read any stream: with compressed buffers, whose claimed size it allocates before it
# looks, with dictionaries that replace each other, with batches without end. A block is none of
# that, so its messages are checked first: a schema, one dictionary for each index column, one
# batch, the end. Their heads are flatbuffers; only what is asked for here is read from them.

_CONTINUATION = 0xFFFFFFFF
_KIND_SCHEMA, _KIND_DICTIONARY, _KIND_BATCH = 1, 2, 3
_EXPECTED_KINDS = (_KIND_SCHEMA, *[_KIND_DICTIONARY] * len(INDEX_COLUMNS), _KIND_BATCH)
_FIELD_KIND, _FIELD_HEADER, _FIELD_BODY_LENGTH = 1, 2, 3
_FIELD_DICTIONARY_BATCH, _FIELD_COMPRESSION = 1, 3

_frame = struct.Struct("<Ii").unpack_from
_uint16 = struct.Struct("<H").unpack_from
_int32 = struct.Struct("<i").unpack_from
_uint32 = struct.Struct("<I").unpack_from
_int64 = struct.Struct("<q").unpack_from


def _check_frames(data: memoryview) -> None:
    position = 0
    try:
        for expected in _EXPECTED_KINDS:
            position = _check_message(data, position, expected)
    except struct.error:
        raise BlockError(
            f"a block of {len(data)} bytes that is cut short or garbled in the Arrow message at"
            f" byte {position}"
        ) from None
    if bytes(data[position : position + 9]) != b"\xff\xff\xff\xff\0\0\0\0":
        raise BlockError(
            f"a block of {len(data)} bytes that does not end after its record batch, at byte"
            f" {position}"
        )


def _check_message(data: memoryview, position: int, expected: int) -> int:
    marker, head_length = _frame(data, position)
    if marker != _CONTINUATION or head_length < 0:
        raise BlockError(
            f"a block without an Arrow message at byte {position}, but with"
            f" {bytes(data[position : position + 16])!r}"
        )
    head = data[position + 8 : position + 8 + head_length]
    message = _uint32(head, 0)[0]
    kind_at = _field(head, message, _FIELD_KIND)
    kind = head[kind_at] if 0 < kind_at < len(head) else 0
    if kind != expected:
        raise BlockError(
            f"a block whose Arrow message at byte {position} is of kind {kind}: expected {expected}"
        )
    if kind != _KIND_SCHEMA:
        batch = _follow(head, message, _FIELD_HEADER)
        if kind == _KIND_DICTIONARY:
            batch = _follow(head, batch, _FIELD_DICTIONARY_BATCH)
        if _field(head, batch, _FIELD_COMPRESSION):
            raise BlockError("a block with compressed Arrow buffers: expected plain ones")
    length_at = _field(head, message, _FIELD_BODY_LENGTH)
    body_length = int(_int64(head, length_at)[0]) if length_at else 0
    end: int = position + 8 + head_length + body_length
    if body_length < 0 or end > len(data):
        raise BlockError(f"a block of {len(data)} bytes whose Arrow message ends at byte {end}")
    return end


def _field(head: memoryview, table: int, number: int) -> int:
    """Where field ``number`` of the flatbuffer table is in its head; 0 if it is absent."""
    vtable = table - int(_int32(head, table)[0])
    if vtable < 0:
        raise struct.error
    slot = 4 + 2 * number
    if slot + 2 > _uint16(head, vtable)[0]:
        return 0
    offset = int(_uint16(head, vtable + slot)[0])
    return table + offset if offset else 0


def _follow(head: memoryview, table: int, number: int) -> int:
    at = _field(head, table, number)
    if not at:
        raise struct.error
    return at + int(_uint32(head, at)[0])
