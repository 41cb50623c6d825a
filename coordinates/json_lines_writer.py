"""The journal as text, one JSON object a line: written in full.

``docs/journal.md`` is the contract, ``coordinates.json_lines`` reads it.
"""

from __future__ import annotations

import json
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from coordinates._record_checks import GTID_TYPES
from coordinates._record_fields import KINDS_WITH_CHANNEL
from coordinates.binlog import EventType
from coordinates.journal import ABSENT, QueryVerb, RecordType, Stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from coordinates.journal import Block

_print = json.JSONEncoder(separators=(",", ":")).encode
_ENVELOPE = frozenset({"kind", "instance", "ts", "epoch", "sequence"})
_TYPES = [_print(code) for code in range(256)]
for _event_type in EventType:
    _TYPES[_event_type] = _print(_event_type.name)
_VERBS = {int(verb): _print(verb.name.replace("_", " ")) for verb in QueryVerb if verb}
_OF_GROUP = ("last_committed", "sequence_number", "transaction_length", "original_commit_timestamp")
_GROUP_TYPES = (*GTID_TYPES, EventType.ANONYMOUS_GTID)
_LOGS = {Stream.BINLOG: "binlog", Stream.RELAY: "relay"}


def block_to_lines(block: Block) -> Iterator[str]:
    """Write each record of the block as one line, without a line end.

    Raises:
        JournalError: The body of a fact is no JSON object.
    """
    columns = {name: column.tolist() for name, column in block.columns.items()}
    instance = f'"instance":{_print(block.instance_id)},"ts":'
    begins = {stream: f'{{"kind":"{log}",{instance}' for stream, log in _LOGS.items()}
    more = _rest_of_events(block, columns)
    # Put together from printed parts: by way of dictionaries it takes twice as long.
    events = zip(
        columns["stream"],
        map(str, columns["ts"]),
        repeat(f',"epoch":{block.epoch},"sequence":'),
        map(str, range(block.first_sequence, block.next_sequence)),
        _values("channel", block.channels, columns["channel"]),
        _values("file", block.files, columns["file"]),
        _numbers("start", columns["start"]),
        _numbers("length", columns["length"]),
        (f',"type":{_TYPES[code]}' for code in columns["type"]),
        _numbers("log_pos", columns["log_pos"]),
        _numbers("server_id", columns["server_id"]),
        _numbers("checksum", columns["checksum"]),
        _numbers("flags", columns["flags"], absent=0),
        strict=False,
    )
    for i, (stream, *parts) in enumerate(events):
        if stream == Stream.SERVER:
            yield _fact(block, i, columns)
        else:
            yield f"{begins[stream]}{''.join(parts)}{more.get(i, '')}}}"


def _numbers(name: str, values: Sequence[int], absent: int = ABSENT) -> Iterator[str]:
    return ("" if value == absent else f',"{name}":{value}' for value in values)


def _values(name: str, dictionary: Sequence[str], indices: Sequence[int]) -> Iterator[str]:
    printed = [*(f',"{name}":{_print(value)}' for value in dictionary), ""]
    return map(printed.__getitem__, indices)


def _fact(block: Block, i: int, columns: Mapping[str, Sequence[int]]) -> str:
    record_type = RecordType(columns["type"][i])
    record: dict[str, Any] = {
        "kind": record_type.name.lower(),
        "instance": block.instance_id,
        "ts": columns["ts"][i],
        "epoch": block.epoch,
        "sequence": block.first_sequence + i,
    }
    body = block.body(i)
    channel = columns["channel"][i]
    if channel >= 0 and record_type in KINDS_WITH_CHANNEL:
        body.setdefault("channel", block.channels[channel])
    record.update((key, value) for key, value in body.items() if key not in _ENVELOPE)
    return _print(record)


def _rest_of_events(block: Block, columns: Mapping[str, Sequence[int]]) -> dict[int, str]:
    """What only events of some types have, by record."""
    is_event = block.columns["stream"] != Stream.SERVER
    types = block.columns["type"]

    def of(*event_types: int) -> list[int]:
        found: list[int] = np.flatnonzero(is_event & np.isin(types, event_types)).tolist()
        return found

    rest = {i: _group(block, columns, i) for i in of(*_GROUP_TYPES)}
    verbs = columns["query"]
    rest |= {i: f',"query":{_VERBS[verbs[i]]}' for i in of(EventType.QUERY)}
    texts, values = block.texts, columns["value"]
    rest |= {i: f',"gtid_set":{_print(texts[i])}' for i in of(EventType.PREVIOUS_GTIDS)}
    for i in of(EventType.ROTATE):
        position = "" if values[i] == ABSENT else f',"next_position":{values[i]}'
        rest[i] = f',"next_file":{_print(texts[i])}{position}'
    return rest


def _group(block: Block, columns: Mapping[str, Sequence[int]], i: int) -> str:
    sid, gtid = columns["sid"][i], ""
    if sid >= 0:
        gtid = f',"gtid":{_print(block.sids[sid])[:-1]}:{columns["gno"][i]}"'
    elif i in block.texts:
        gtid = f',"gtid":{_print(block.texts[i])}'
    return gtid + "".join(
        f',"{key}":{columns[key][i]}' for key in _OF_GROUP if columns[key][i] != ABSENT
    )
