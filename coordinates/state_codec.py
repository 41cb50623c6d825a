"""State as bytes, from type hints: dataclasses to one JSON document beside numpy arrays, and back.

A class whose state is kept is a dataclass; its fields are the state. Two kinds of fields are left
out, by their metadata: `COLLABORATOR`, taken from the attribute of the same name of the whole that
is read (an underscore in front does not count), and `TRANSIENT`, which begins with its default.
Encoders and decoders are compiled once for each type. Reading runs no code that the bytes bring.

The bytes: magic, checksum of what follows, hash of the schema, length of the payload, payload. The
schema is the structure of the types, so a changed field, type or class is another schema: a state
of it is refused, never guessed at. A part whose fields all have their defaults is written as
`_IDLE`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import struct
import sys
import types
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

from tallystick.coordinates.state_tables import Array, Reader, Writer
from tallystick.coordinates.values.checksum import checksum
from tallystick.coordinates.values.errors import StateDamagedError, StateVersionError
from tallystick.coordinates.values.growing_set import GrowingGtidSet
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.coordinates.values.json_bytes import of_json, to_json

COLLABORATOR: Final = {"state": "collaborator"}
"""Metadata of a field that is no state: another part of the same whole."""
TRANSIENT: Final = {"state": "transient"}
"""Metadata of a field that is no state: empty between two steps, or made from other fields."""

MAGIC = b"TSst"
_IDLE = 0
_MISSING = dataclasses.MISSING
_HEAD = struct.Struct("<4sI")
_CHECKED = struct.Struct("<8sI")
_HEAD_BYTES = _HEAD.size + _CHECKED.size
_NATIVE = (int, str, bool, float, type(None), Any, object)

Bytes = bytes | memoryview

Encode = Callable[[Any, Writer], Any]
Decode = Callable[[Any, Reader], Any]


class _Coder(NamedTuple):
    """How values of one type become JSON and come back; None: they are JSON as they are."""

    encode: Encode | None
    decode: Decode | None
    schema: Any


# Whole states


def encode(hint: Any, value: Any, before: bytes = b"") -> bytes:
    """A value of a type as bytes, after those of another one (see `split`)."""
    coder = _coder(hint)
    writer = Writer()
    document = value if coder.encode is None else coder.encode(value, writer)
    head = to_json([document, writer.sets, writer.index])
    payload = [len(head).to_bytes(4, "little"), head, *writer.raw]
    checked = _CHECKED.pack(schema_hash(hint), sum(map(len, payload)))
    return b"".join((before, _HEAD.pack(MAGIC, checksum(checked, *payload)), checked, *payload))


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
    is_headed = len(data) >= _HEAD_BYTES
    end = _HEAD_BYTES + (_CHECKED.unpack_from(data, _HEAD.size)[1] if is_headed else 0)
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

    def set_fields(values: Any, reader: Reader) -> None:
        if values == _IDLE:
            reset(whole)
            return
        for name, coder, value in zip(names, coders, values, strict=True):
            setattr(whole, name, value if coder.decode is None else coder.decode(value, reader))

    _decoded(kind, data, of, whole, set_fields)


def _decoded(hint: Any, data: Bytes, of: str, whole: Any, decode_it: Decode | None) -> Any:
    if len(data) < _HEAD_BYTES or data[: len(MAGIC)] != MAGIC:
        raise StateDamagedError(f"the state of {of} does not begin like one: {bytes(data[:8])!r}")
    expected_sum = _HEAD.unpack_from(data)[1]
    found, length = _CHECKED.unpack_from(data, _HEAD.size)
    payload = memoryview(data)[_HEAD_BYTES:]
    if len(payload) != length:
        raise StateDamagedError(f"the state of {of} has {len(payload)} bytes, expected {length}")
    if (found_sum := checksum(memoryview(data)[_HEAD.size :])) != expected_sum:
        raise StateDamagedError(
            f"the state of {of} is damaged: its checksum is {found_sum:08x}, expected"
            f" {expected_sum:08x}"
        )
    if found != (expected := schema_hash(hint)):
        raise StateVersionError(
            f"the state of {of} has schema {found.hex()}, expected {expected.hex()}:"
            " another version has written it"
        )
    try:
        size = 4 + int.from_bytes(payload[:4], "little")
        document, sets, index = of_json(payload[4:size])
        reader = Reader(whole, sets, index, payload[size:])
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
            setattr(part, field.name, _default(field))


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


def _encode_array(array: Any, writer: Writer) -> int:
    return writer.array(array)


def _decode_array(number: int, reader: Reader) -> Array:
    return reader.arrays[number]


def _encode_gtids(gtids: GtidSet, writer: Writer) -> int:
    return writer.gtids(gtids)


def _decode_gtids(number: int, reader: Reader) -> GtidSet:
    return reader.sets[number]


def _encode_growing(gtids: GrowingGtidSet, writer: Writer) -> int:
    return writer.gtids(gtids.freeze())


def _decode_growing(number: int, reader: Reader) -> GrowingGtidSet:
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

    def encode_member(value: Any, writer: Writer) -> Any:
        if value is None:
            return None
        tag = tags[type(value)]
        encode_it = coders[tag].encode
        return [tag, value if encode_it is None else encode_it(value, writer)]

    def decode_member(tagged: Any, reader: Reader) -> Any:
        if tagged is None:
            return None
        decode_it = coders[tagged[0]].decode
        return tagged[1] if decode_it is None else decode_it(tagged[1], reader)

    return _Coder(encode_member, decode_member, schema)


def _optional(coder: _Coder, schema: Any) -> _Coder:
    encode_it, decode_it = coder.encode, coder.decode

    def encode_optional(value: Any, writer: Writer) -> Any:
        return None if value is None else encode_it(value, writer)  # type: ignore[misc]

    def decode_optional(value: Any, reader: Reader) -> Any:
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

    def encode_items(values: Any, writer: Writer) -> Any:
        return [encode_it(value, writer) for value in values]  # type: ignore[misc]

    def encode_sorted(values: Any, writer: Writer) -> Any:
        return sorted(values if encode_it is None else encode_items(values, writer))

    def decode_items(values: Any, reader: Reader) -> Any:
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

    def encode_row(values: Any, writer: Writer) -> Any:
        row = list(values)
        for number, encode_it in encoders:
            row[number] = encode_it(row[number], writer)
        return row

    def decode_row(row: Any, reader: Reader) -> Any:
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

    def encode_dict(values: Any, writer: Writer) -> Any:
        return {key: encode_it(each, writer) for key, each in values.items()}  # type: ignore[misc]

    def decode_dict(values: Any, reader: Reader) -> Any:
        return {key: decode_it(each, reader) for key, each in values.items()}  # type: ignore[misc]

    return _Coder(
        None if encode_it is None else encode_dict,
        None if decode_it is None else decode_dict,
        ["dict", value.schema],
    )


def _pairs(pair: _Coder) -> _Coder:
    """A dict whose keys are no texts."""
    encode_it, decode_it = pair.encode, pair.decode

    def encode_pairs(values: Any, writer: Writer) -> Any:
        if encode_it is None:
            return list(values.items())
        return [encode_it(item, writer) for item in values.items()]

    def decode_pairs(items: Any, reader: Reader) -> Any:
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


def _default(field: dataclasses.Field[Any]) -> Any:
    make = field.default_factory
    return field.default if make is _MISSING else make()


def _idle_values(kind: Any, names: list[str]) -> tuple[Any, ...] | None:
    """The defaults of all fields that are state; None: some have none, or cannot be compared."""
    fields = [field for field in dataclasses.fields(kind) if field.name in names]
    values = tuple(map(_default, fields))
    hints = [_hint(kind, name) for name in names]
    is_array = any(get_origin(h) is np.ndarray for hint in hints for h in (hint, *get_args(hint)))
    if is_array or any(v is _MISSING or dataclasses.is_dataclass(v) for v in values):
        return None
    return values


def _dataclass(kind: Any) -> _Coder:
    names, coders = _fields(kind)
    collaborators = [
        field.name
        for field in dataclasses.fields(kind)
        if field.metadata.get("state") == "collaborator"
    ]
    attributes = [name.lstrip("_") for name in collaborators]
    arguments = [*collaborators, *names]
    idle_values = _idle_values(kind, names)
    head = [kind.__name__, names, *([] if idle_values is None else ["may be idle"])]
    encode_row, decode_row, schema = _row(None, coders, head)
    assert decode_row is not None
    compact = getattr(kind, "compact", None)
    values_of = attrgetter(*names) if len(names) > 1 else lambda part: (getattr(part, *names),)

    def encode_part(part: Any, writer: Writer) -> Any:
        if compact is not None:
            compact(part)
        values = values_of(part)
        if values == idle_values:
            return _IDLE
        return values if encode_row is None else encode_row(values, writer)

    def decode_value(values: Any, reader: Reader) -> Any:
        return kind() if values == _IDLE else kind(*decode_row(values, reader))

    def decode_part(values: Any, reader: Reader) -> Any:
        whole = reader.whole
        given = [getattr(whole, attribute) for attribute in attributes]
        if values != _IDLE:
            given += decode_row(values, reader)
        return kind(*given) if is_positional else kind(**dict(zip(arguments, given, strict=False)))

    positional = [f.name for f in dataclasses.fields(kind) if f.init and not f.kw_only]
    is_value = positional == names
    is_positional = positional[: len(arguments)] == arguments
    return _Coder(encode_part, decode_value if is_value else decode_part, schema)
