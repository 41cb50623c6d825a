"""Events of a log as values, and what each means to its group.

`EventColumns` makes values of a block's records where a reader takes them one by one; the tables
here also serve readers that take whole columns.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tallystick.coordinates.events.journal import QueryVerb
from tallystick.coordinates.values.binlog import EventType, parse_log_file_name
from tallystick.coordinates.values.errors import CoordinateError

if TYPE_CHECKING:
    import numpy.typing as npt

    from tallystick.coordinates.events.journal import Block

SLICE = 256
"""How many records of a block are made into values at a time."""
NO_FILE = ("", 0)
"""What `EventColumns` has instead of a file's base name and number that cannot be read."""


class EventClass(IntEnum):
    """What an event means to its group."""

    PART = 0
    OPENER = 1
    BEGIN = 2
    TERMINATOR = 3
    XA_END_OF_GROUP = 4
    STATEMENT = 5
    PAYLOAD = 6
    PREAMBLE = 7
    FRAMING = 8
    HEARTBEAT = 9
    INCIDENT = 10


def _class_table() -> npt.NDArray[np.uint8]:
    table = np.zeros((256, len(QueryVerb)), dtype=np.uint8)
    for event_type, event_class in {
        EventType.GTID: EventClass.OPENER,
        EventType.ANONYMOUS_GTID: EventClass.OPENER,
        EventType.GTID_TAGGED: EventClass.OPENER,
        EventType.XID: EventClass.TERMINATOR,
        EventType.XA_PREPARE: EventClass.TERMINATOR,
        EventType.TRANSACTION_PAYLOAD: EventClass.PAYLOAD,
        EventType.INCIDENT: EventClass.INCIDENT,
        EventType.INTVAR: EventClass.PREAMBLE,
        EventType.RAND: EventClass.PREAMBLE,
        EventType.USER_VAR: EventClass.PREAMBLE,
        EventType.ROWS_QUERY: EventClass.PREAMBLE,
        EventType.IGNORABLE: EventClass.PREAMBLE,
        EventType.FORMAT_DESCRIPTION: EventClass.FRAMING,
        EventType.PREVIOUS_GTIDS: EventClass.FRAMING,
        EventType.ROTATE: EventClass.FRAMING,
        EventType.STOP: EventClass.FRAMING,
        EventType.HEARTBEAT: EventClass.HEARTBEAT,
        EventType.HEARTBEAT_V2: EventClass.HEARTBEAT,
    }.items():
        table[event_type, :] = event_class
    for verb, event_class in {
        QueryVerb.NONE: EventClass.STATEMENT,
        QueryVerb.BEGIN: EventClass.BEGIN,
        QueryVerb.XA_START: EventClass.BEGIN,
        QueryVerb.COMMIT: EventClass.TERMINATOR,
        QueryVerb.ROLLBACK: EventClass.TERMINATOR,
        QueryVerb.XA_COMMIT: EventClass.XA_END_OF_GROUP,
        QueryVerb.XA_ROLLBACK: EventClass.XA_END_OF_GROUP,
        QueryVerb.XA_END: EventClass.PART,
        QueryVerb.STATEMENT: EventClass.STATEMENT,
    }.items():
        table[EventType.QUERY, verb] = event_class
    return table


CLASS = _class_table()
"""`EventClass` by event type and query verb."""
CLASS_ROWS: list[list[int]] = CLASS.tolist()
MAY_END_GROUP = np.isin(
    CLASS,
    (
        EventClass.TERMINATOR,
        EventClass.XA_END_OF_GROUP,
        EventClass.STATEMENT,
        EventClass.PAYLOAD,
        EventClass.INCIDENT,
    ),
)
"""By event type and query verb: a statement ends a group unless the group has a body."""
MAY_END_GROUP_ROWS: list[list[bool]] = MAY_END_GROUP.tolist()

LOG_COLUMNS = (
    "type",
    "flags",
    "query",
    "file",
    "start",
    "length",
    "log_pos",
    "server_id",
    "checksum",
    "sid",
    "gno",
    "last_committed",
    "sequence_number",
    "transaction_length",
    "original_commit_timestamp",
    "value",
    "ts",
)
"""The columns of what is read from one log."""
EVENT_COLUMNS = (*LOG_COLUMNS, "stream", "channel")


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event on the event-by-event path: of all values the quickest to make and to read."""

    type: int
    flags: int
    query: int
    file: int
    start: int
    length: int
    log_pos: int
    server_id: int
    checksum: int
    sid: int
    gno: int
    last_committed: int
    sequence_number: int
    transaction_length: int
    original_commit_timestamp: int
    value: int
    ts: int
    stream: int
    channel: int


class EventColumns:
    """A block's records as values, made in slices when the event-by-event path needs them.

    Attributes:
        file_names: Base name and number of each of the block's files, `NO_FILE` if unreadable.
        channel_names: Its channels in lower case; the last one, which ABSENT indexes, has no name.
    """

    __slots__ = ("_block", "_slices", "channel_names", "file_names")

    def __init__(self, block: Block) -> None:
        self._block = block
        self._slices: dict[int, list[Event]] = {}
        self.file_names = [_file_name(name) for name in block.files]
        self.channel_names = [*map(str.lower, block.channels), ""]

    def event(self, index: int) -> Event:
        """The event at ``index`` of the block."""
        return self._slice(index // SLICE)[index % SLICE]

    def between(self, first: int, last: int) -> list[Event]:
        """The events from ``first`` up to and without ``last``."""
        events: list[Event] = []
        while first < last:
            number, offset = divmod(first, SLICE)
            events += self._slice(number)[offset : offset + last - first]
            first = (number + 1) * SLICE
        return events

    def _slice(self, number: int) -> list[Event]:
        events = self._slices.get(number)
        if events is None:
            part = slice(number * SLICE, (number + 1) * SLICE)
            columns = [self._block.columns[name][part].tolist() for name in EVENT_COLUMNS]
            events = self._slices[number] = list(map(Event, *columns))
        return events


@lru_cache(maxsize=1024)
def _file_name(name: str) -> tuple[str, int]:
    try:
        return parse_log_file_name(name)
    except CoordinateError:
        return NO_FILE
