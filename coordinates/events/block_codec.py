"""Blocks as bytes: the value, key and headers of a journal message.

A block is one Arrow IPC stream of exactly one record batch, and the checksum of that stream
(``docs/journal.md``, Blocks). The checksum is compared before anything is parsed, so a changed bit
is damage and never a record. The bytes may come from anybody: what is read is checked before it is
used, nothing in it is executed, and reading needs no more memory than the bytes themselves. Numbers
are not copied.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tallystick.coordinates.events._field_checks import FieldError, instance_name
from tallystick.coordinates.events._record_checks import check_records
from tallystick.coordinates.events.journal import (
    ABSENT,
    COLUMNS,
    INDEX_COLUMNS,
    SCHEMA_VERSION,
    Block,
)
from tallystick.coordinates.values._gtid_text import read_sid
from tallystick.coordinates.values.checksum import checksum
from tallystick.coordinates.values.errors import BlockError, GtidSetParseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

BLOCK_BYTES_MAX = 16 * 2**20
"""No block is larger; a producer splits long before, at its broker's limit."""

METADATA_KEYS = ("schema_version", "instance_id", "epoch", "first_sequence", "count")
CLUSTER = "cluster"
"""The metadata that only the blocks of an instance have that belongs to a cluster."""

_DICTIONARY = pa.dictionary(pa.int32(), pa.utf8())
_FIELDS = [
    pa.field(name, _DICTIONARY if name in INDEX_COLUMNS else pa.from_numpy_dtype(dtype), nullable)
    for name, dtype in COLUMNS.items()
    for nullable in (name in INDEX_COLUMNS,)
]
ARROW_SCHEMA = pa.schema([*_FIELDS, pa.field("text", pa.utf8())])
"""The columns of a block, without the metadata that differs from block to block."""

_read_number = re.compile(rb"0|[1-9][0-9]{0,18}").fullmatch
_INT64_MAX = 2**63 - 1

_SEAL_MAGIC = b"TSbl"
_SEAL = struct.Struct("<4sI")
"""After the stream: magic, its checksum."""


def encode_block(block: Block) -> bytes:
    """The block as the value of a message."""
    count = len(block)
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
    if block.texts:
        texts = block.texts
        arrays.append(pa.array([texts.get(i) for i in range(count)], type=pa.utf8()))
    else:
        arrays.append(pa.nulls(count, pa.utf8()))
    schema = ARROW_SCHEMA.with_metadata(dict(block_headers(block)))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return seal_stream(sink.getvalue())


def seal_stream(stream: Any) -> bytes:
    """An Arrow stream, any bytes-like object, with its checksum: the value of a message."""
    return b"".join((stream, _SEAL.pack(_SEAL_MAGIC, checksum(stream))))


def block_headers(block: Block) -> list[tuple[str, bytes]]:
    """The headers of the block's message; its schema metadata holds the same."""
    headers = [
        ("schema_version", b"%d" % SCHEMA_VERSION),
        ("instance_id", block.instance_id.encode()),
        ("epoch", b"%d" % block.epoch),
        ("first_sequence", b"%d" % block.first_sequence),
        ("count", b"%d" % len(block)),
    ]
    return [*headers, (CLUSTER, block.cluster.encode())] if block.cluster else headers


def decode_block(
    data: bytes,
    *,
    key: bytes | None = None,
    headers: Iterable[tuple[str, bytes]] | None = None,
) -> Block:
    """Read the value of a message.

    Args:
        data: The value.
        key: The message's key, compared with the block's instance unless None.
        headers: The message's headers, compared with the block's own unless None; headers of
            other names are nobody's business here.

    Raises:
        BlockError: The bytes are no block of this version, have changed since it was made, or a
            record in it is impossible.
    """
    batch = _read_batch(_unsealed(data))
    metadata = _check_schema(batch.schema)
    instance_id = _read_name(metadata[b"instance_id"], "instance")
    cluster = _read_name(metadata[b"cluster"], "cluster") if b"cluster" in metadata else ""
    if key is not None and key != metadata[b"instance_id"]:
        raise BlockError(
            f"a block of instance {instance_id!r} under the key {key[:80]!r}: expected the instance"
        )
    if headers is not None:
        _check_headers(headers, metadata)
    epoch, first_sequence = _number(metadata, "epoch"), _number(metadata, "first_sequence")
    where = f"block of instance {instance_id!r}, epoch {epoch}, from {first_sequence}"
    _check_count(batch.num_rows, _number(metadata, "count"), first_sequence, where)
    columns: dict[str, npt.NDArray[Any]] = {}
    dictionaries: dict[str, tuple[str, ...]] = {}
    for name, array in zip(COLUMNS, batch.columns, strict=False):
        if name in INDEX_COLUMNS:
            dictionaries[name] = _dictionary(array, f"{where}, column {name!r}")
            columns[name] = _indices(array.indices)
        elif array.null_count:
            raise BlockError(f"{where}, column {name!r}: {array.null_count} nulls, expected none")
        else:
            columns[name] = array.to_numpy()
    block = Block(
        instance_id=instance_id,
        epoch=epoch,
        first_sequence=first_sequence,
        columns=columns,
        channels=dictionaries["channel"],
        files=dictionaries["file"],
        sids=_sids(dictionaries["sid"], f"{where}, column 'sid'"),
        texts=_texts(batch.column(len(COLUMNS))),
        cluster=cluster,
    )
    check_records(block, where)
    return block


def _unsealed(data: bytes) -> memoryview:
    """The stream of a block that has not changed."""
    if len(data) > BLOCK_BYTES_MAX:
        raise BlockError(f"a block of {len(data)} bytes: expected at most {BLOCK_BYTES_MAX}")
    stream, seal = memoryview(data)[: -_SEAL.size], data[-_SEAL.size :]
    if not stream or seal[: len(_SEAL_MAGIC)] != _SEAL_MAGIC:
        raise BlockError(
            f"a block of {len(data)} bytes that ends with {seal!r}: expected {_SEAL_MAGIC!r} and a"
            f" checksum; it is cut short or damaged, or another version has written it"
        )
    expected, found = _SEAL.unpack(seal)[1], checksum(stream)
    if found != expected:
        raise BlockError(
            f"a block of {len(data)} bytes that is damaged: its checksum is {found:08x}, expected"
            f" {expected:08x}"
        )
    return stream


def _read_batch(data: memoryview) -> Any:
    _check_frames(data)
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            batch = reader.read_next_batch()
        # Arrow trusts what it reads until it is asked: offsets, indices, UTF-8.
        batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, StopIteration) as error:
        raise BlockError(f"a block that is no Arrow stream: {_one_line(error)}") from None
    return batch


def _check_count(found: int, count: int, first_sequence: int, where: str) -> None:
    if count != found:
        raise BlockError(f"{where}: {found} records, its count says {count}")
    if not count:
        raise BlockError(f"{where}: it is empty, expected at least one record")
    if first_sequence > _INT64_MAX - count:
        raise BlockError(f"{where}: sequence numbers end at {_INT64_MAX}, it has {count} records")


def _indices(array: Any) -> npt.NDArray[np.int32]:
    if array.null_count == len(array):
        return np.full(len(array), ABSENT, dtype=np.int32)
    if array.null_count:
        # What is under a null is whatever the writer left there.
        array = array.fill_null(ABSENT)
    numbers: npt.NDArray[np.int32] = array.to_numpy()
    return numbers


def _dictionary(array: Any, where: str) -> tuple[str, ...]:
    values = array.dictionary.to_pylist()
    if len(set(values)) != len(values) or None in values:
        raise BlockError(f"{where}: its dictionary repeats a value or holds a null")
    return tuple(values)


def _sids(values: tuple[str, ...], where: str) -> tuple[str, ...]:
    """Source identifiers as everything after this compares them: in lower case."""
    try:
        sids = tuple(map(read_sid, values))
    except GtidSetParseError as error:
        raise BlockError(f"{where}: {error}") from None
    if len(set(sids)) != len(sids):
        raise BlockError(f"{where}: its dictionary has one source identifier in two spellings")
    return sids


def _texts(array: Any) -> dict[int, str]:
    if array.null_count == len(array):
        return {}
    present = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False)).tolist()
    return dict(zip(present, array.drop_null().to_pylist(), strict=True))


# Metadata


def _check_schema(schema: Any) -> Mapping[bytes, bytes]:
    metadata: Mapping[bytes, bytes] = schema.metadata or {}
    version = metadata.get(b"schema_version")
    if version != b"%d" % SCHEMA_VERSION:
        raise BlockError(f"a block of schema version {version!r}: expected {SCHEMA_VERSION}")
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
    return metadata


def _read_name(raw: bytes, of: str) -> str:
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        raise BlockError(f"a block whose {of} {raw[:80]!r} is no UTF-8") from None
    try:
        return instance_name(name)
    except FieldError as error:
        raise BlockError(f"a block of {of} {repr(name)[:80]}: expected {error.expected}") from None


def _number(metadata: Mapping[bytes, bytes], name: str) -> int:
    raw = metadata[name.encode()]
    number = int(raw) if _read_number(raw) else -1
    if not 0 <= number <= _INT64_MAX:
        raise BlockError(f"a block whose {name} is {raw[:80]!r}: expected 0 to {_INT64_MAX}")
    return number


def _check_headers(headers: Iterable[tuple[str, bytes]], metadata: Mapping[bytes, bytes]) -> None:
    missing = {*METADATA_KEYS, *([CLUSTER] if CLUSTER.encode() in metadata else [])}
    for name, value in headers:
        if name in METADATA_KEYS or name == CLUSTER:
            missing.discard(name)
            expected = metadata.get(name.encode())
            if value != expected:
                raise BlockError(
                    f"a message whose header {name!r} is {repr(value)[:80]}: its block has"
                    f" {'none' if expected is None else repr(expected[:80])}"
                )
    if missing:
        raise BlockError(f"a message without the header {min(missing)!r}")


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


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
