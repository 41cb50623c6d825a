"""State as bytes, from type hints: dataclasses to one JSON document beside numpy arrays, and back.

A class whose state is kept is a dataclass; its fields are the state. Two kinds of fields are left
out, by their metadata: `COLLABORATOR`, taken from the attribute of the same name of the whole that
is read (an underscore in front does not count), and `TRANSIENT`, which begins with its default.
Encoders and decoders are compiled once for each type. Reading runs no code that the bytes bring.

The bytes: magic, hash of the schema, CRC-32 and length of the payload, payload. The schema is the
structure of the types, so a changed field, type or class is another schema: a state of it is
refused, never guessed at.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import math
import struct
import sys
import types
import zlib
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import (
    Any,
    Final,
    Literal,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
import numpy.typing as npt

from tallystick.coordinates.values.errors import StateDamagedError, StateVersionError
from tallystick.coordinates.values.growing_set import GrowingGtidSet
from tallystick.coordinates.values.gtid import GtidSet

COLLABORATOR: Final = {"state": "collaborator"}
"""Metadata of a field that is no state: another part of the same whole."""
TRANSIENT: Final = {"state": "transient"}
"""Metadata of a field that is no state: empty between two steps, or made from other fields."""

MAGIC = b"TSst"
_HEAD = struct.Struct("<4s8sII")
_NARROW_MIN = 1024
"""Arrays shorter than this are stored as they are."""
_NATIVE = (int, str, bool, float, type(None), Any, object)

Array = npt.NDArray[Any]
Bytes = bytes | memoryview


class _Writer:
    """What one document refers to by number: arrays, and texts of GTID sets."""

    def __init__(self) -> None:
        self.index: list[Any] = []
        self.raw: list[bytes] = []
        self.texts: dict[str, int] = {}
        self._known: dict[int, tuple[int, GtidSet]] = {}

    def array(self, array: Array) -> int:
        """Enter an array; the integers of a long one take the narrowest room."""
        if array.dtype.str[0] == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        if array.ndim != 1 or len(array) >= _NARROW_MIN:
            stored, base = _narrowed(array)
            self.index.append((array.dtype.str, array.shape, stored.dtype.str, base))
            self.raw.append(stored.tobytes())
        else:
            self.index.append((array.dtype.str, len(array)))
            self.raw.append(array.tobytes())
        return len(self.raw) - 1

    def gtids(self, gtids: GtidSet) -> int:
        """Enter a set: equal sets are written once."""
        known = self._known.get(id(gtids))
        if known is None:
            number = self.texts.setdefault(str(gtids), len(self.texts))
            # The set is kept, so that no other one gets its id meanwhile.
            known = self._known[id(gtids)] = (number, gtids)
        return known[0]


class _Reader:
    """The arrays and sets that a document refers to.

    Attributes:
        whole: Has the collaborators of the parts that are read, by their names.
    """

    def __init__(self, whole: Any, texts: list[str], index: list[Any], raw: memoryview) -> None:
        self.whole = whole
        self.sets = [GtidSet.parse(text) for text in texts]
        self.arrays: list[Array] = []
        offset = 0
        for dtype, shape, *narrowed in index:
            if narrowed:
                stored, base = narrowed
                count = math.prod(shape) - (base is not None)
                column = np.frombuffer(raw, stored, count, offset)
                self.arrays.append(_widened(column, dtype, shape, base))
            else:
                column = np.frombuffer(raw, dtype, shape, offset)
                self.arrays.append(column.copy())
            offset += column.nbytes
        if offset != len(raw):
            raise ValueError(f"{len(raw)} bytes of arrays, expected {offset}")


def _narrowed(array: Array) -> tuple[Array, int | None]:
    """An array of integers in fewer bytes, and its first value if these are the differences."""
    if array.dtype.kind not in "iu" or array.ndim != 1:
        return array, None
    narrow = np.promote_types(np.min_scalar_type(array.min()), np.min_scalar_type(array.max()))
    if array.dtype == np.int64 and narrow.itemsize > 1:
        steps = array[1:] - array[:-1]
        low, high = int(steps.min()), int(steps.max())
        if low >= 0 and high < 2**32 and np.min_scalar_type(high).itemsize < narrow.itemsize:
            return steps.astype(np.min_scalar_type(high)), int(array[0])
    if narrow.kind in "iu" and narrow.itemsize < array.dtype.itemsize:
        return array.astype(narrow), None
    return array, None


def _widened(column: Array, dtype: str, shape: list[int], base: int | None) -> Array:
    """Inverse of `_narrowed`; always a copy of its own, which may be written to."""
    if base is None:
        return column.astype(dtype).reshape(shape)
    whole = np.empty(shape, dtype=dtype)
    whole[0] = base
    np.cumsum(column, out=whole[1:], dtype=dtype)
    whole[1:] += base
    return whole


Encode = Callable[[Any, _Writer], Any]
Decode = Callable[[Any, _Reader], Any]


class _Coder(NamedTuple):
    """How values of one type become JSON and come back; None: they are JSON as they are."""

    encode: Encode | None
    decode: Decode | None
    schema: Any


# Whole states


def encode(hint: Any, value: Any, before: bytes = b"") -> bytes:
    """A value of a type as bytes, behind those of another one (see `split`)."""
    coder = _coder(hint)
    writer = _Writer()
    document = value if coder.encode is None else coder.encode(value, writer)
    head = json.dumps(
        [document, list(writer.texts), writer.index], separators=(",", ":"), check_circular=False
    ).encode()
    payload = [len(head).to_bytes(4, "little"), head, *writer.raw]
    checksum = 0
    for piece in payload:
        checksum = zlib.crc32(piece, checksum)
    length = sum(map(len, payload))
    return b"".join((before, _HEAD.pack(MAGIC, schema_hash(hint), checksum, length), *payload))


def decode(hint: Any, data: Bytes, of: str) -> Any:
    """Inverse of `encode`.

    Args:
        hint: The type.
        data: The bytes.
        of: Whose state it is, for messages.

    Raises:
        StateVersionError: The bytes are of another schema.
        StateDamagedError: They are cut short, or changed.
    """
    return _decoded(hint, data, of, None, _coder(hint).decode)


def split(data: Bytes, of: str) -> tuple[memoryview, memoryview]:
    """Bytes of several `encode`, one after the other: the first, and what follows.

    Raises:
        StateDamagedError: They end within the first.
    """
    end = _HEAD.size + (_HEAD.unpack_from(data)[3] if len(data) >= _HEAD.size else 0)
    if end > len(data):
        raise StateDamagedError(f"the state of {of} is cut short")
    view = memoryview(data)
    return view[:end], view[end:]


def restore(whole: Any, data: Bytes, of: str) -> None:
    """Read the state of `whole`, whose class is a dataclass, into it, field by field.

    Args:
        whole: As its constructor has left it; its fields are the collaborators of its parts.
        data: The bytes that `encode` gave.
        of: As of `decode`.

    Raises:
        StateVersionError, StateDamagedError: As of `decode`; `whole` is of no use then.
    """
    kind: Any = type(whole)
    names, coders = _fields(kind)

    def set_fields(values: Any, reader: _Reader) -> None:
        for name, coder, value in zip(names, coders, values, strict=True):
            setattr(whole, name, value if coder.decode is None else coder.decode(value, reader))

    _decoded(kind, data, of, whole, set_fields)


def _decoded(hint: Any, data: Bytes, of: str, whole: Any, decode_it: Decode | None) -> Any:
    if len(data) < _HEAD.size or data[: len(MAGIC)] != MAGIC:
        raise StateDamagedError(f"the state of {of} does not begin like one: {bytes(data[:8])!r}")
    _, found, checksum, length = _HEAD.unpack_from(data)
    payload = memoryview(data)[_HEAD.size :]
    if len(payload) != length:
        raise StateDamagedError(f"the state of {of} has {len(payload)} bytes, expected {length}")
    if zlib.crc32(payload) != checksum:
        raise StateDamagedError(f"the state of {of} has changed: its checksum does not agree")
    if found != (expected := schema_hash(hint)):
        raise StateVersionError(
            f"the state of {of} has schema {found.hex()}, expected {expected.hex()}:"
            " another version has written it"
        )
    try:
        size = 4 + int.from_bytes(payload[:4], "little")
        document, texts, index = json.loads(bytes(payload[4:size]))
        reader = _Reader(whole, texts, index, payload[size:])
        return document if decode_it is None else decode_it(document, reader)
    except (ValueError, TypeError, LookupError) as error:
        raise StateDamagedError(f"the state of {of} cannot be read: {error!r}") from error


@cache
def schema_hash(hint: Any) -> bytes:
    """Eight bytes that change with the structure of a type."""
    text = json.dumps(_coder(hint).schema, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()[:8]


def reset(part: Any) -> None:
    """Let the state of a dataclass begin anew: each field that is state gets its default."""
    for field in dataclasses.fields(part):
        if _is_state(field):
            make: Any = field.default_factory
            value = field.default if make is dataclasses.MISSING else make()
            setattr(part, field.name, value)


# Types


@cache
def _coder(hint: Any) -> _Coder:
    """The coder of a type.

    Raises:
        TypeError: The state of such a type cannot be kept.
    """
    if hint in _NATIVE or hint is None:
        return _Coder(None, None, getattr(hint, "__name__", str(hint)))
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _Coder(None, None, ["literal", *args])
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin in (list, set, frozenset, tuple):
        return _collection(origin, args)
    if origin in (dict, Mapping):
        return _dict(*args)
    if origin is np.ndarray:
        return _Coder(_encode_array, _decode_array, "array")
    if hint is GtidSet:
        return _Coder(_encode_gtids, _decode_gtids, "GtidSet")
    if hint is GrowingGtidSet:
        return _Coder(_encode_growing, _decode_growing, "GrowingGtidSet")
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum(hint)
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        return _named_tuple(hint)
    if dataclasses.is_dataclass(hint):
        return _dataclass(hint)
    raise TypeError(f"no state of {hint!r} can be kept")


def _encode_array(array: Any, writer: _Writer) -> int:
    return writer.array(array)


def _decode_array(number: int, reader: _Reader) -> Array:
    return reader.arrays[number]


def _encode_gtids(gtids: GtidSet, writer: _Writer) -> int:
    return writer.gtids(gtids)


def _decode_gtids(number: int, reader: _Reader) -> GtidSet:
    return reader.sets[number]


def _encode_growing(gtids: GrowingGtidSet, writer: _Writer) -> int:
    return writer.gtids(gtids.freeze())


def _decode_growing(number: int, reader: _Reader) -> GrowingGtidSet:
    return GrowingGtidSet(reader.sets[number])


def _enum(kind: type[Enum]) -> _Coder:
    members = {member.value: member for member in kind}
    is_native = issubclass(kind, (int, str))
    return _Coder(
        None if is_native else lambda member, _: member.value,
        lambda value, _: members[value],
        [kind.__name__, *map(str, members)],
    )


def _union(hints: tuple[Any, ...]) -> _Coder:
    # Unions are equal in any order of their members, so the order must not matter here.
    members = sorted((hint for hint in hints if hint is not type(None)), key=str)
    coders = [_coder(hint) for hint in members]
    schema = ["union", len(hints) > len(members), *(coder.schema for coder in coders)]
    if all(coder.encode is None and coder.decode is None for coder in coders):
        return _Coder(None, None, schema)
    if len(members) == 1:
        return _optional(coders[0], schema)
    tags = {get_origin(hint) or hint: tag for tag, hint in enumerate(members)}

    def encode_member(value: Any, writer: _Writer) -> Any:
        if value is None:
            return None
        tag = tags[type(value)]
        encode_it = coders[tag].encode
        return [tag, value if encode_it is None else encode_it(value, writer)]

    def decode_member(tagged: Any, reader: _Reader) -> Any:
        if tagged is None:
            return None
        decode_it = coders[tagged[0]].decode
        return tagged[1] if decode_it is None else decode_it(tagged[1], reader)

    return _Coder(encode_member, decode_member, schema)


def _optional(coder: _Coder, schema: Any) -> _Coder:
    encode_it, decode_it = coder.encode, coder.decode

    def encode_optional(value: Any, writer: _Writer) -> Any:
        return None if value is None else encode_it(value, writer)  # type: ignore[misc]

    def decode_optional(value: Any, reader: _Reader) -> Any:
        return None if value is None else decode_it(value, reader)  # type: ignore[misc]

    return _Coder(
        None if encode_it is None else encode_optional,
        None if decode_it is None else decode_optional,
        schema,
    )


def _collection(kind: type, args: tuple[Any, ...]) -> _Coder:
    if kind is tuple and args[-1] is not Ellipsis:
        return _row(tuple, [_coder(hint) for hint in args], ["tuple"])
    item = _coder(args[0])
    encode_it, decode_it = item.encode, item.decode
    schema = [kind.__name__, item.schema]

    def encode_items(values: Any, writer: _Writer) -> Any:
        return [encode_it(value, writer) for value in values]  # type: ignore[misc]

    def encode_sorted(values: Any, writer: _Writer) -> Any:
        return sorted(values if encode_it is None else encode_items(values, writer))

    def decode_items(values: Any, reader: _Reader) -> Any:
        if decode_it is None:
            return kind(values)
        return kind([decode_it(value, reader) for value in values])

    if kind in (set, frozenset):
        return _Coder(encode_sorted, decode_items, schema)
    return _Coder(
        None if encode_it is None else encode_items,
        None if kind is list and decode_it is None else decode_items,
        schema,
    )


def _row(make: Callable[[Any], Any] | None, coders: list[_Coder], schema: list[Any]) -> _Coder:
    """So many values of these types; ``make`` takes them, None: they remain a list."""
    encoders = [(n, c.encode) for n, c in enumerate(coders) if c.encode is not None]
    decoders = [(n, c.decode) for n, c in enumerate(coders) if c.decode is not None]

    def encode_row(values: Any, writer: _Writer) -> Any:
        row = list(values)
        for number, encode_it in encoders:
            row[number] = encode_it(row[number], writer)
        return row

    def decode_row(row: Any, reader: _Reader) -> Any:
        for number, decode_it in decoders:
            row[number] = decode_it(row[number], reader)
        return row if make is None else make(row)

    schema = [*schema, *(coder.schema for coder in coders)]
    return _Coder(encode_row if encoders else None, decode_row, schema)


def _named_tuple(kind: Any) -> _Coder:
    hints = get_type_hints(kind)
    return _row(
        kind._make,
        [_coder(hints[name]) for name in kind._fields],
        [kind.__name__, list(kind._fields)],
    )


def _dict(key_hint: Any, value_hint: Any) -> _Coder:
    value = _coder(value_hint)
    encode_it, decode_it = value.encode, value.decode
    if key_hint is not str:
        return _pairs(_row(tuple, [_coder(key_hint), value], ["pair"]))

    def encode_dict(values: Any, writer: _Writer) -> Any:
        return {key: encode_it(each, writer) for key, each in values.items()}  # type: ignore[misc]

    def decode_dict(values: Any, reader: _Reader) -> Any:
        return {key: decode_it(each, reader) for key, each in values.items()}  # type: ignore[misc]

    return _Coder(
        None if encode_it is None else encode_dict,
        None if decode_it is None else decode_dict,
        ["dict", value.schema],
    )


def _pairs(pair: _Coder) -> _Coder:
    """A dict whose keys are no texts."""
    encode_it, decode_it = pair.encode, pair.decode

    def encode_pairs(values: Any, writer: _Writer) -> Any:
        if encode_it is None:
            return list(values.items())
        return [encode_it(item, writer) for item in values.items()]

    def decode_pairs(items: Any, reader: _Reader) -> Any:
        return dict(decode_it(item, reader) for item in items)  # type: ignore[misc]

    return _Coder(encode_pairs, decode_pairs, ["pairs", pair.schema])


# Dataclasses


def _is_state(field: dataclasses.Field[Any]) -> bool:
    return "state" not in field.metadata


@cache
def _fields(kind: Any) -> tuple[list[str], list[_Coder]]:
    """Names and coders of the fields that are state."""
    names = [field.name for field in dataclasses.fields(kind) if _is_state(field)]
    return names, [_coder(_hint(kind, name)) for name in names]


def _hint(kind: type, name: str) -> Any:
    """The type of one field: types of collaborators may be known to the type checker alone."""
    holder = next(each for each in kind.__mro__ if name in inspect.get_annotations(each))
    alone = types.SimpleNamespace(__annotations__={name: holder.__annotations__[name]})
    return get_type_hints(alone, vars(sys.modules[holder.__module__]))[name]


def _dataclass(kind: Any) -> _Coder:
    names, coders = _fields(kind)
    collaborators = [
        field.name
        for field in dataclasses.fields(kind)
        if field.metadata.get("state") == "collaborator"
    ]
    attributes = [name.lstrip("_") for name in collaborators]
    arguments = [*collaborators, *names]
    encode_row, decode_row, schema = _row(None, coders, [kind.__name__, names])
    assert decode_row is not None
    compact = getattr(kind, "compact", None)
    values_of = attrgetter(*names) if len(names) > 1 else lambda part: (getattr(part, *names),)

    def encode_part(part: Any, writer: _Writer) -> Any:
        if compact is not None:
            compact(part)
        values = values_of(part)
        return values if encode_row is None else encode_row(values, writer)

    def decode_value(values: Any, reader: _Reader) -> Any:
        return kind(*decode_row(values, reader))

    def decode_part(values: Any, reader: _Reader) -> Any:
        given = [getattr(reader.whole, attribute) for attribute in attributes]
        return kind(**dict(zip(arguments, given + decode_row(values, reader), strict=True)))

    positional = [field.name for field in dataclasses.fields(kind) if not field.kw_only]
    is_value = positional == names
    return _Coder(encode_part, decode_value if is_value else decode_part, schema)
