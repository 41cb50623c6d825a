"""What no record of a block can be, whoever wrote it: checked at once over whole columns.

This is about single records and their ranges. Whether records agree with each other is the audit's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.events.journal import (
    ABSENT,
    COLUMNS,
    INDEX_COLUMNS,
    QueryVerb,
    RecordType,
    RedoType,
    Stream,
)
from tallystick.coordinates.values.binlog import EventType
from tallystick.coordinates.values.errors import BlockError

if TYPE_CHECKING:
    import numpy.typing as npt

    from tallystick.coordinates.events._block_parts import Bounds
    from tallystick.coordinates.events.journal import Block

GNO_MAX = 2**63 - 2
UINT32_MAX = 2**32 - 1
HEARTBEAT_TYPES = (EventType.HEARTBEAT, EventType.HEARTBEAT_V2)
"""Events that only a dump stream has: they are no part of any file and need no position."""
GTID_TYPES = (EventType.GTID, EventType.GTID_TAGGED)
GROUP_TYPES = (*GTID_TYPES, EventType.ANONYMOUS_GTID)
"""Events that begin a group."""

_AT_LEAST_ABSENT = tuple(
    name for name, dtype in COLUMNS.items() if dtype.kind == "i" and name not in INDEX_COLUMNS
)
_AT_MOST = (
    ("stream", int(max(Stream))),
    ("query", int(max(QueryVerb))),
    ("log_pos", UINT32_MAX),
    ("server_id", UINT32_MAX),
    ("gno", GNO_MAX),
)
_POSITION = 1
_TEXT = 2
_SID = 4
_QUERY = 8


def _needs_by_type() -> npt.NDArray[np.uint8]:
    needs = np.full(256, _POSITION, dtype=np.uint8)
    needs[list(HEARTBEAT_TYPES)] = 0
    needs[[EventType.PREVIOUS_GTIDS, EventType.ROTATE]] |= _TEXT
    needs[list(GTID_TYPES)] |= _SID
    needs[EventType.QUERY] |= _QUERY
    return needs


_NEEDS = _needs_by_type().tobytes()
# Plain numbers: an array looks through a member's class for what it might do with arrays.
_RECORD_TYPE_MAX, _REDO_TYPE_MAX = int(max(RecordType)), int(max(RedoType))
_SERVER, _RELAY, _REDO = int(Stream.SERVER), int(Stream.RELAY), int(Stream.REDO)
_REDO_WRITE = int(RedoType.WRITE)
_POSITION_MAX = 2**63 - 1


def check_records(block: Block, bounds: Bounds, where: str) -> None:
    """Refuse a block with a record that cannot be.

    Args:
        block: It has at least one record.
        bounds: Of its columns.
        where: What the error says before the record.

    Raises:
        BlockError: It names the first such record, its column, the value and what was expected.
    """
    columns = block.columns
    for name in _AT_LEAST_ABSENT:
        if bounds[name][0] < ABSENT:
            _refuse(block, where, columns[name] < ABSENT, name, "a number from -1")
    for name, most in _AT_MOST:
        if bounds[name][1] > most:
            _refuse(block, where, columns[name] > most, name, f"at most {most}")
    if bounds["ts"][0] < 0:
        _refuse(block, where, columns["ts"] < 0, "ts", "microseconds from 0")
    if _are_plain_server_records(bounds):
        return
    # One table lookup a record; translate() is the fastest of them for bytes.
    needs = np.frombuffer(columns["type"].tobytes().translate(_NEEDS), dtype=np.uint8)
    if bounds["stream"][0] == _SERVER:
        needs = _check_server_records(block, where, needs)
    if bounds["stream"][1] == _REDO:
        needs = _check_redo_events(block, where, needs)
    _check_positions(block, bounds, where, needs)
    _check_fields_of_types(block, where, needs)


def _are_plain_server_records(bounds: Bounds) -> bool:
    """Whether nothing that follows can refuse one: a quiet server's blocks are of such alone."""
    least, most = bounds["type"]
    return (
        bounds["stream"][1] == _SERVER
        and 1 <= least <= most <= _RECORD_TYPE_MAX
        and bounds["sid"][1] < 0
        and bounds["gno"][1] <= 0
        and bounds["query"][1] == 0
        and bounds["start"][1] + bounds["length"][1] <= _POSITION_MAX
    )


def _check_server_records(
    block: Block, where: str, needs: npt.NDArray[np.uint8]
) -> npt.NDArray[np.uint8]:
    event_type = block.columns["type"]
    is_server = block.columns["stream"] == _SERVER
    unknown = is_server & ((event_type < 1) | (event_type > _RECORD_TYPE_MAX))
    if unknown.any():
        _refuse(block, where, unknown, "type", "a known kind of record")
    return np.where(is_server, np.uint8(0), needs)


def _check_redo_events(
    block: Block, where: str, needs: npt.NDArray[np.uint8]
) -> npt.NDArray[np.uint8]:
    columns = block.columns
    redo_type, lsn, start = columns["type"], columns["value"], columns["start"]
    is_redo = columns["stream"] == _REDO
    unknown = is_redo & ((redo_type < 1) | (redo_type > _REDO_TYPE_MAX))
    if unknown.any():
        _refuse(block, where, unknown, "type", "a known event of the redo log")
    if (without := is_redo & (lsn < 0)).any():
        _refuse(block, where, without, "value", "an LSN")
    is_write = is_redo & (redo_type == _REDO_WRITE)
    if (wrong := is_write & ((start < 0) | (start >= lsn))).any():
        _refuse(block, where, wrong, "start", "an LSN below the write's own")
    return np.where(is_redo, np.uint8(0), needs)


def _check_positions(
    block: Block, bounds: Bounds, where: str, needs: npt.NDArray[np.uint8]
) -> None:
    columns = block.columns
    start, length = columns["start"], columns["length"]
    for column, least, expected in (
        ("file", 0, "a log file"),
        ("start", 0, "an offset from 0"),
        ("length", 1, "at least 1 byte"),
    ):
        if bounds[column][0] < least:
            wrong = ((needs & _POSITION) != 0) & (columns[column] < least)
            if wrong.any():
                _refuse(block, where, wrong, column, expected)
    if bounds["start"][1] + bounds["length"][1] > _POSITION_MAX:
        wrong = start > _POSITION_MAX - np.maximum(length, 0)
        if wrong.any():
            _refuse(block, where, wrong, "start", "an event that ends below 2^63")
    if bounds["channel"][0] < 0:
        wrong = (columns["stream"] == _RELAY) & (columns["channel"] < 0)
        if wrong.any():
            _refuse(block, where, wrong, "channel", "a channel")


def _check_fields_of_types(block: Block, where: str, needs: npt.NDArray[np.uint8]) -> None:
    columns, texts = block.columns, block.texts
    has_sid = columns["sid"] >= 0
    wrong = ((needs & _SID) != 0) != has_sid
    wrong |= (columns["gno"] > 0) != has_sid
    if wrong.any():
        # A GTID that could not be read has neither, and its text instead.
        raw = np.zeros(len(block), dtype=np.bool_)
        raw[list(texts)] = True
        raw &= ((needs & _SID) != 0) & ~has_sid & (columns["gno"] == ABSENT)
        wrong &= ~raw
        if wrong.any():
            _refuse(block, where, wrong, "gno", "sid and GNO on GTID events and no other")
    wrong = ((needs & _QUERY) != 0) != (columns["query"] != 0)
    if wrong.any():
        _refuse(block, where, wrong, "query", "a query verb on QUERY events and no other")
    for index in np.flatnonzero(needs & _TEXT).tolist():
        if index not in texts:
            raise BlockError(f"{_position(block, where, index)} has no text: expected one")


def _refuse(
    block: Block, where: str, wrong: npt.NDArray[np.bool_], column: str, expected: str
) -> None:
    index = int(np.argmax(wrong))
    value: Any = block.columns[column][index]
    raise BlockError(
        f"{_position(block, where, index)} has {column} {int(value)}: expected {expected}"
    )


def _position(block: Block, where: str, index: int) -> str:
    return f"{where}: record {block.first_sequence + index}"
