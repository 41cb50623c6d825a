"""The JSON Schema of a line of a journal, made of the definitions by which lines are read.

It has names, types, ranges and closed lists of every kind. What is said of several lines, as the
order of times, and what relates two keys of one line, is for the reader of lines alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events._field_checks import (
    CHANNEL_CHARACTERS_MAX,
    INSTANCE_BYTES_MAX,
    INT64_MAX,
    Integer,
    ListOf,
    OneOf,
    Shape,
    anything,
    boolean,
    channel_name,
    identifier,
    log_file,
    name,
    switch,
    table_row,
    text,
    uuid_text,
)
from tallystick.coordinates.events._record_fields import (
    RECORD_SHAPES,
    RESOURCES,
    Cases,
    gtid_set,
    one_gtid,
    resource,
    server_uuid,
)
from tallystick.coordinates.events.journal import QueryVerb, RedoType, Stream
from tallystick.coordinates.events.json_lines import REDO_FIELDS, event_shape
from tallystick.coordinates.values.binlog import EventType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tallystick.coordinates.events._field_checks import Check

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_NAME: Schema = {"type": "string", "minLength": 1}
_CHANNEL: Schema = {**_TEXT, "maxLength": CHANNEL_CHARACTERS_MAX}
_COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": INT64_MAX}
_LOG_FILE: Schema = {
    "type": "string",
    "pattern": r"^[^/\\\u0000]+\.(?!000000$)([0-9]{6}|[1-9][0-9]{6,17})$",
}
_OF_CHECK: Mapping[Check, Schema] = {
    anything: {},
    boolean: {"type": "boolean"},
    channel_name: _CHANNEL,
    gtid_set: _TEXT,
    identifier: {"anyOf": [_COUNT, _NAME]},
    log_file: _LOG_FILE,
    name: _NAME,
    one_gtid: _NAME,
    resource: {
        "anyOf": [{"enum": list(RESOURCES)}, {"type": "string", "pattern": "^(channel|engine):"}]
    },
    server_uuid: {
        "type": "string",
        "pattern": "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$",
    },
    switch: {
        "anyOf": [
            {"enum": [True, False, 0, 1, "0", "1"]},
            {"type": "string", "pattern": "^([Oo][Nn]|[Oo][Ff][Ff]|[Yy][Ee][Ss]|[Nn][Oo])$"},
        ]
    },
    table_row: {"type": "object"},
    text: _TEXT,
    uuid_text: _TEXT,
}
_OF_EVENT_KEY: Mapping[str, Schema] = {
    "channel": _CHANNEL,
    "file": _LOG_FILE,
    "gtid": _TEXT,
    "gtid_set": _TEXT,
    "next_file": _LOG_FILE,
    "query": {"enum": [verb.name.replace("_", " ") for verb in QueryVerb if verb]},
}
_INSTANCE: Schema = {
    **_NAME,
    "maxLength": INSTANCE_BYTES_MAX,
    "pattern": r"^[^\u0000-\u001f\u007f]+$",
}
_ENVELOPE: Mapping[str, Schema] = {
    "instance": _INSTANCE,
    "ts": _COUNT,
    "epoch": {**_COUNT, "maximum": INT64_MAX - 1},
    "sequence": {**_COUNT, "maximum": INT64_MAX - 1},
    "cluster": _INSTANCE,
}


def journal_schema() -> Schema:
    """The schema of one line, draft 2020-12."""
    kinds = dict(_kinds())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A record of tallystick's journal",
        "oneOf": [{"$ref": f"#/$defs/{title}"} for title in kinds],
        "$defs": kinds,
    }


def page() -> str:
    """The schema as docs/journal.schema.json has it, each kind in a line."""
    schema = journal_schema()
    kinds = schema.pop("$defs").items()
    head = json.dumps(schema, indent=1).removesuffix("\n}")
    lines = ",\n".join(f"  {json.dumps(title)}: {json.dumps(kind)}" for title, kind in kinds)
    return f'{head},\n "$defs": {{\n{lines}\n }}\n}}\n'


def _kinds() -> Iterator[tuple[str, Schema]]:
    for stream in (Stream.BINLOG, Stream.RELAY):
        kind = stream.name.lower()
        others, *special = _types_by_shape(stream)
        for types in special:
            named = [value for one in types for value in (one.name, int(one))]
            yield f"{kind}.{types[0].name}", _event(kind, stream, types[0], {"enum": named})
        code = {"type": "integer", "minimum": 0, "maximum": 255}
        known = [int(one) for types in special for one in types]
        which = [{"enum": [one.name for one in others]}, {**code, "not": {"enum": known}}]
        yield f"{kind}.event", _event(kind, stream, others[0], {"anyOf": which})
    yield from _redo()
    for record_type, shape in RECORD_SHAPES.items():
        kind = record_type.name.lower()
        for case, each in _cases(shape):
            title = f"{kind}.{case}" if case else kind
            properties = {"kind": {"const": kind}, **_properties(each), **_ENVELOPE}
            if case and isinstance(shape, Cases):
                properties[shape.key] = {"const": case}
            yield title, _object(properties, {"kind", "instance", *each.required}, each)


def _cases(shape: Shape | Cases) -> Iterable[tuple[str, Shape]]:
    return shape.cases.items() if isinstance(shape, Cases) else [("", shape)]


def _types_by_shape(stream: Stream) -> list[list[EventType]]:
    """Event types that have the same keys; those of UNKNOWN, without keys of their own, first."""
    groups: list[list[EventType]] = []
    for one in EventType:
        shape = event_shape(stream, one)
        group = next((g for g in groups if event_shape(stream, g[0]) == shape), None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    return groups


def _event(kind: str, stream: Stream, event_type: EventType, which: Schema) -> Schema:
    """Events of types that have the keys of this one; ``which`` says which types they are."""
    shape = event_shape(stream, event_type)
    integers = {
        key: {"type": "integer", "minimum": least, "maximum": most}
        for key, (_, least, most) in shape.integers.items()
    }
    properties = {
        "kind": {"const": kind},
        **_ENVELOPE,
        "type": which,
        **integers,
        **{key: _OF_EVENT_KEY[key] for key in shape.others},
    }
    return _object(properties, {"kind", "instance", "type", *shape.required})


def _redo() -> Iterator[tuple[str, Schema]]:
    for types, keys, required in (
        ([RedoType.WRITE], REDO_FIELDS, REDO_FIELDS[:2]),
        ([one for one in RedoType if one is not RedoType.WRITE], REDO_FIELDS[:1], REDO_FIELDS[:1]),
    ):
        properties = {
            "kind": {"const": "redo"},
            **_ENVELOPE,
            "type": {"enum": [one.name for one in types]},
            **dict.fromkeys(keys, _COUNT),
        }
        title = f"redo.{'_'.join(one.name for one in types)}"
        yield title, _object(properties, {"kind", "instance", "type", *required})


def _properties(shape: Shape) -> dict[str, Schema]:
    found = {key: _of(check) for key, check in shape.fields.items()}
    return found | {other: found[key] for other, key in (shape.aliases or {}).items()}


def _object(
    properties: Mapping[str, Schema], required: Iterable[str], shape: Shape | None = None
) -> Schema:
    """An object; a key that need not be there may be null."""
    aliases = (shape.aliases or {}) if shape is not None else {}
    renamed = set(aliases.values())
    needed = sorted(key for key in required if key not in renamed)
    schema: Schema = {
        "type": "object",
        "properties": {
            key: one if key in needed else _or_null(one) for key, one in properties.items()
        },
    }
    if needed:
        schema["required"] = needed
    either = [
        {"anyOf": [{"required": [each]} for each in (key, *_others(aliases, key))]}
        for key in sorted(renamed & set(required))
    ]
    if either:
        schema["allOf"] = either
    if shape is None or not shape.is_open:
        schema["additionalProperties"] = False
    return schema


def _or_null(schema: Schema) -> Schema:
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema:
        return {"enum": [*schema["enum"], None]}
    return {"anyOf": [*schema["anyOf"], {"type": "null"}]} if schema else schema


def _others(aliases: Mapping[str, str], key: str) -> list[str]:
    return [other for other, of in aliases.items() if of == key]


def _of(check: Check) -> Schema:
    if isinstance(check, Integer):
        return {"type": "integer", "minimum": check.least, "maximum": check.most}
    if isinstance(check, OneOf):
        return {"enum": list(check.allowed)}
    if isinstance(check, ListOf):
        return {"type": "array", "items": _of(check.check)}
    if isinstance(check, Shape):
        return _object(_properties(check), check.required, check)
    return _OF_CHECK[check]
