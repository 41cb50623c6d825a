"""The journal as text, one JSON object a line: written in full.

``docs/journal.md`` is the contract, ``coordinates.events.json_lines`` reads it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from tallystick.coordinates.events._record_checks import GROUP_TYPES
from tallystick.coordinates.events._record_fields import KINDS_WITH_CHANNEL
from tallystick.coordinates.events.journal import (
    ABSENT,
    QueryVerb,
    RecordType,
    RedoType,
    Stream,
)
from tallystick.coordinates.values.binlog import EventType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tallystick.coordinates.events.journal import Block

_print = json.JSONEncoder(separators=(",", ":")).encode
_ENVELOPE = frozenset({"kind", "instance", "ts", "epoch", "sequence", "cluster"})
_TYPES = [_print(code) for code in range(256)]
for _event_type in EventType:
    _TYPES[_event_type] = _print(_event_type.name)
_VERBS = {int(verb): _print(verb.name.replace("_", " ")) for verb in QueryVerb if verb}
_LOGS = {Stream.BINLOG: "binlog", Stream.RELAY: "relay", Stream.REDO: "redo"}
_REDO_KEYS = (
    ("start", "start_lsn"),
    ("value", "lsn"),
    ("sequence_number", "block_number"),
    ("last_committed", "data_length"),
)
_OF_GROUP = ("last_committed", "sequence_number", "transaction_length", "original_commit_timestamp")
_SAME_IN_SHAPE = ("stream", "type", "flags", "query", "channel", "file", "sid", "has_text")
_MAY_BE_ABSENT = ("start", "length", "log_pos", "server_id", "checksum", "value", *_OF_GROUP)
_KEYS_MAX = 1 << 62

Column = npt.NDArray[np.int64]


def block_to_lines(block: Block) -> Iterator[str]:
    """Write each record of the block as one line, without a line end.

    Raises:
        JournalError: The body of a server record is no JSON object.
    """
    columns = {name: column.astype(np.int64) for name, column in block.columns.items()}
    columns["sequence"] = block.first_sequence + np.arange(len(block))
    columns["has_text"] = np.zeros(len(block), np.int64)
    columns["has_text"][list(block.texts)] = 1
    lines = [""] * len(block)
    is_server_record = columns["stream"] == Stream.SERVER
    for row in np.flatnonzero(is_server_record).tolist():
        lines[row] = _server_record(block, row)
    for rows in _rows_of_shapes(columns, np.flatnonzero(~is_server_record)):
        # To print a shape's lines at once takes half the time of one line after the other.
        for row, line in zip(rows.tolist(), _Shape(block, columns, rows).lines(), strict=True):
            lines[row] = line
    if block.cluster and lines and not _is_start(block, 0):
        # It holds from a line on, and the lines of other blocks may be in front of these.
        lines[0] = f'{lines[0][:-1]},"cluster":{_print(block.cluster)}}}'
    yield from lines


def _rows_of_shapes(columns: Mapping[str, Column], rows: Column) -> list[Column]:
    """The rows, those together whose lines differ in nothing but numbers and texts."""
    if not len(rows):
        return []
    parts = [columns[name][rows] for name in _SAME_IN_SHAPE]
    parts += [columns[name][rows] != ABSENT for name in _MAY_BE_ABSENT]
    keys: Column = np.zeros(len(rows), np.int64)
    count = 1
    for part in parts:
        low = int(part.min())
        span = int(part.max()) - low + 1
        if count * span > _KEYS_MAX:
            found, inverse = np.unique(keys, return_inverse=True)
            keys, count = inverse.astype(np.int64), len(found)
        keys = keys * span + (part - low)
        count *= span
    order = np.argsort(keys, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(keys[order])) + 1)


@final
class _Shape:
    """What the lines of some events have in common, and of each what they have not."""

    def __init__(self, block: Block, columns: Mapping[str, Column], rows: Column) -> None:
        self._block = block
        self._columns = columns
        self._rows = rows
        self._template = ""
        self._values: list[Iterable[Any]] = []
        if self._first("stream") == Stream.REDO:
            self._add_redo_event()
        else:
            self._add_position()
            self._add_rest()

    def lines(self) -> Iterable[str]:
        """The lines, in the order of the rows."""
        log = _LOGS[Stream(self._first("stream"))]
        template = f'{{"kind":"{log}"{self._template}}}'
        values = zip(*self._values, strict=True) if self._values else [()] * len(self._rows)
        return map(template.__mod__, values)

    def _add_envelope(self) -> None:
        self._add("instance", _print(self._block.instance_id))
        self._add_number("ts")
        self._add("epoch", str(self._block.epoch))
        self._add_number("sequence")

    def _add_redo_event(self) -> None:
        self._add_envelope()
        self._add("type", _print(RedoType(self._first("type")).name))
        for name, key in _REDO_KEYS:
            if self._first(name) != ABSENT:
                self._add_number(name, key)

    def _add_position(self) -> None:
        block = self._block
        self._add_envelope()
        for key, names in (("channel", block.channels), ("file", block.files)):
            if self._first(key) != ABSENT:
                self._add(key, _print(names[self._first(key)]))
        self._add_if_present("start", "length")
        self._add("type", _TYPES[self._first("type")])
        self._add_if_present("log_pos", "server_id", "checksum")
        if self._first("flags"):
            self._add_number("flags")

    def _add_rest(self) -> None:
        """What only events of some types have."""
        event_type = self._first("type")
        if event_type in GROUP_TYPES:
            if self._first("sid") != ABSENT:
                sid = _print(self._block.sids[self._first("sid")])[:-1].replace("%", "%%")
                self._template += f',"gtid":{sid}:%d"'
                self._values.append(self._columns["gno"][self._rows].tolist())
            elif self._first("has_text"):
                self._add_text("gtid")
            self._add_if_present(*_OF_GROUP)
        elif event_type == EventType.QUERY:
            self._add("query", _VERBS[self._first("query")])
        elif event_type == EventType.PREVIOUS_GTIDS:
            self._add_text("gtid_set")
        elif event_type == EventType.ROTATE:
            self._add_text("next_file")
            if self._first("value") != ABSENT:
                self._add_number("value", "next_position")

    def _first(self, name: str) -> int:
        return int(self._columns[name][self._rows[0]])

    def _add(self, key: str, text: str) -> None:
        self._template += f',"{key}":{text}'.replace("%", "%%")

    def _add_number(self, name: str, key: str = "") -> None:
        numbers = self._columns[name][self._rows]
        if (numbers == numbers[0]).all():
            self._add(key or name, str(numbers[0]))
        else:
            self._template += f',"{key or name}":%d'
            self._values.append(numbers.tolist())

    def _add_if_present(self, *names: str) -> None:
        for name in names:
            if self._first(name) != ABSENT:
                self._add_number(name)

    def _add_text(self, key: str) -> None:
        self._template += f',"{key}":%s'
        self._values.append([_print(self._block.texts[row]) for row in self._rows.tolist()])


def _is_start(block: Block, i: int) -> bool:
    kind = int(block.columns["stream"][i]), int(block.columns["type"][i])
    return kind == (Stream.SERVER, RecordType.START)


def _server_record(block: Block, i: int) -> str:
    record_type = RecordType(int(block.columns["type"][i]))
    record: dict[str, Any] = {
        "kind": record_type.name.lower(),
        "instance": block.instance_id,
        "ts": int(block.columns["ts"][i]),
        "epoch": block.epoch,
        "sequence": block.first_sequence + i,
    }
    body = block.body(i)
    channel = int(block.columns["channel"][i])
    if channel >= 0 and record_type in KINDS_WITH_CHANNEL:
        body.setdefault("channel", block.channels[channel])
    record.update((key, value) for key, value in body.items() if key not in _ENVELOPE)
    if _is_start(block, i) and (cluster := block.cluster or body.get("cluster")):
        record["cluster"] = cluster
    return _print(record)
