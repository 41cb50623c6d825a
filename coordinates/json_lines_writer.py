"""The journal as text, one JSON object a line: written in full.

``docs/journal.md`` is the contract, ``coordinates.json_lines`` reads it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from coordinates._record_checks import GROUP_TYPES
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
_PRINT_GROUP = "".join(f',"{key}":%d' for key in _OF_GROUP)
_NUMBERS = ("start", "length", "log_pos", "server_id", "checksum")
_OF_EVENT = ("stream", "type", "ts", "channel", "file", "flags", *_NUMBERS)
_LOGS = {Stream.BINLOG: "binlog", Stream.RELAY: "relay"}


def block_to_lines(block: Block) -> Iterator[str]:
    """Write each record of the block as one line, without a line end.

    Raises:
        JournalError: The body of a fact is no JSON object.
    """
    columns = {name: column.tolist() for name, column in block.columns.items()}
    instance = f'"instance":{_print(block.instance_id)},"ts":'
    begins = {stream: f'{{"kind":"{log}",{instance}' for stream, log in _LOGS.items()}
    epoch = f',"epoch":{block.epoch},"sequence":'
    channels = [*(f',"channel":{_print(name)}' for name in block.channels), ""]
    files = [*(f',"file":{_print(name)}' for name in block.files), ""]
    rest = _rest_of_events(block, columns)
    numbers = np.array([block.columns[name] for name in _NUMBERS], dtype=np.int64)
    is_whole = (numbers != ABSENT).all(axis=0).tolist()
    rows = zip(is_whole, *(columns[name] for name in _OF_EVENT), strict=True)
    # Printed in one piece: by way of dictionaries it takes four times as long.
    for i, (whole, stream, kind, ts, channel, file, flags, *of_place) in enumerate(rows):
        if stream == Stream.SERVER:
            yield _fact(block, i, columns)
            continue
        start, length, log_pos, server_id, checksum = of_place
        if whole:
            place = (
                f',"start":{start},"length":{length},"type":{_TYPES[kind]}'
                f',"log_pos":{log_pos},"server_id":{server_id},"checksum":{checksum}'
            )
        else:
            place = (
                f"{_present(start=start, length=length)},"
                f'"type":{_TYPES[kind]}'
                f"{_present(log_pos=log_pos, server_id=server_id, checksum=checksum)}"
            )
        if flags:
            place += f',"flags":{flags}'
        yield (
            f"{begins[stream]}{ts}{epoch}{block.first_sequence + i}{channels[channel]}"
            f"{files[file]}{place}{rest.get(i, '')}}}"
        )


def _present(**values: int) -> str:
    return "".join(f',"{name}":{value}' for name, value in values.items() if value != ABSENT)


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

    rest = {i: _group(block, columns, i) for i in of(*GROUP_TYPES)}
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
    numbers = [columns[key][i] for key in _OF_GROUP]
    if ABSENT in numbers:
        return gtid + _present(**dict(zip(_OF_GROUP, numbers, strict=True)))
    return gtid + _PRINT_GROUP % tuple(numbers)
