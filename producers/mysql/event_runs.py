"""Consecutive events of a log read in one step: heads and bodies as columns.

A busy log is regular: GTID, QUERY, TABLE_MAP, rows, XID, over and over. What of it the journal
wants is at offsets that whole columns of events share, so it is read for all of them at once.
``binlog_events`` has the layouts and reads one event at a time: the others, and the regular ones
of a stretch in which one is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from tallystick.coordinates.events.journal import ABSENT, COLUMNS, FLAG_ARTIFICIAL, QueryVerb
from tallystick.coordinates.values.binlog import CHECKSUM_LENGTH, EVENT_HEADER_LENGTH, EventType
from tallystick.producers.mysql.binlog_events import (
    QUERY_HEAD_MAX,
    LogEvent,
    query_verb,
    read_event,
    uuid_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Array = npt.NDArray[Any]

_HEADER = np.dtype(
    [
        ("timestamp", "<u4"),
        ("type", "u1"),
        ("server_id", "<u4"),
        ("length", "<u4"),
        ("log_pos", "<u4"),
        ("flags", "<u2"),
    ]
)
TYPE_OFFSET = 4
"""Where in an event its type is."""
_ROW = {name: row for row, name in enumerate(COLUMNS)}
_ONE_BY_ONE = (
    EventType.FORMAT_DESCRIPTION,
    EventType.GTID_TAGGED,
    EventType.HEARTBEAT,
    EventType.HEARTBEAT_V2,
    EventType.PREVIOUS_GTIDS,
    EventType.ROTATE,
    EventType.STOP,
)
IS_REGULAR = bytes(event_type not in _ONE_BY_ONE for event_type in range(256))
"""By event type, whether events of it may be in a run."""

_SID, _GNO = slice(1, 17), slice(17, 25)
_LAST_COMMITTED, _SEQUENCE_NUMBER = slice(26, 34), slice(34, 42)
_TYPE_CODE = 25
_LOGICAL_TIMESTAMPS = 2
_IMMEDIATE, _ORIGINAL = 42, 49
_MICROSECONDS_LENGTH = 7
_HAS_ORIGINAL = 0x80
"""In the highest byte of the immediate commit timestamp."""
_NUMBER_SIZES = np.full(256, -1)
"""How many bytes follow the first one of a length-encoded integer; -1: it is none."""
_NUMBER_SIZES[:251] = 0
_NUMBER_SIZES[252:255] = 2, 3, 8
_NUMBER_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], dtype=np.uint64)
_GTID_BYTES = _ORIGINAL + _MICROSECONDS_LENGTH + 1 + 8
_QUERY_HEAD = 13
_BEGIN = np.frombuffer(b"BEGIN", np.uint8)


@final
@dataclass(frozen=True, slots=True, eq=False)
class EventRun:
    """Consecutive events of one file.

    Attributes:
        file: Its name.
        table: A row for each of ``COLUMNS``, a column for each event, int64; ``stream``, ``ts``,
            ``channel`` and ``file`` are not filled in.
        sids: What the ``sid`` row's numbers mean.
        ends: Where each event ends.
        is_anonymous: Whether its groups have no GTIDs; None where none begins in it.
    """

    file: str
    table: Array
    sids: tuple[str, ...]
    ends: Array
    is_anonymous: bool | None

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def end(self) -> int:
        """Where the last event ends."""
        return int(self.ends[-1])

    def column(self, name: str) -> Array:
        """One of ``COLUMNS``, of each event."""
        found: Array = self.table[_ROW[name]]
        return found

    @property
    def types(self) -> Array:
        """Their types."""
        return self.column("type")

    @property
    def last_type(self) -> int:
        """Type of the last event."""
        return int(self.types[-1])

    def part(self, first: int, last: int) -> EventRun:
        """The events ``first`` to ``last`` (exclusive)."""
        return EventRun(
            self.file,
            self.table[:, first:last],
            self.sids,
            self.ends[first:last],
            self.is_anonymous,
        )


Events = LogEvent | EventRun
"""One event, or some that follow each other."""


def count_of(events: Events) -> int:
    """How many events these are."""
    return len(events) if isinstance(events, EventRun) else 1


class _NotRegularError(Exception):
    """Some event is to be read on its own."""


def read_events(
    buffer: bytes,
    offsets: Sequence[int],
    lengths: Sequence[int],
    *,
    start: int,
    file: str,
    checksum_length: int,
) -> list[Events]:
    """What ``read_run`` reads, one by one where that must be; also an event of another type.

    Raises:
        EventError: Some bytes are no event.
    """
    if IS_REGULAR[buffer[offsets[0] + TYPE_OFFSET]]:
        run = read_run(
            buffer, offsets, lengths, start=start, file=file, checksum_length=checksum_length
        )
        if run is not None:
            return [run]
    found: list[Events] = []
    for offset, length in zip(offsets, lengths, strict=True):
        found.append(read_event(buffer[offset : offset + length], start, file, checksum_length))
        start += length
    return found


def read_run(
    buffer: bytes,
    offsets: Sequence[int],
    lengths: Sequence[int],
    *,
    start: int,
    file: str,
    checksum_length: int,
) -> EventRun | None:
    """Consecutive events of types that may be in a run, in one step.

    Args:
        buffer: Holds them.
        offsets: Where in it each begins.
        lengths: How many bytes of it each has.
        start: Where in the file the first begins.
        file: Its name.
        checksum_length: Bytes of the checksum, as the file's FORMAT_DESCRIPTION has it.

    Returns:
        None if they must be read one by one.
    """
    data = np.frombuffer(buffer, np.uint8)
    at, length = np.array(offsets, np.int64), np.array(lengths, np.int64)
    body, body_length = at + EVENT_HEADER_LENGTH, length - (EVENT_HEADER_LENGTH + checksum_length)
    ends = start + np.cumsum(length)
    table = np.full((len(COLUMNS), len(at)), ABSENT, np.int64)
    table[_ROW["start"]] = ends - length
    table[_ROW["length"]] = length
    try:
        _expect(body_length >= 0)
        _read_heads(data, at, table)
        if checksum_length:
            checksums = _gather(data, at + length - CHECKSUM_LENGTH, CHECKSUM_LENGTH)
            table[_ROW["checksum"]] = checksums.view("<u4")[:, 0]
        queries = np.flatnonzero(table[_ROW["type"]] == EventType.QUERY)
        if len(queries):
            table[_ROW["query"], queries] = _read_queries(data, body[queries], body_length[queries])
        is_gtid = table[_ROW["type"]] == EventType.GTID
        openers = np.flatnonzero(is_gtid | (table[_ROW["type"]] == EventType.ANONYMOUS_GTID))
        if not len(openers):
            return EventRun(file, table, (), ends, is_anonymous=None)
        is_anonymous = not is_gtid[openers[0]]
        _expect(is_gtid[openers] != is_anonymous)
        bodies = _gather(data, body[openers], _GTID_BYTES)
        _read_commits(bodies, body_length[openers], table, openers)
    except _NotRegularError:
        return None
    if is_anonymous:
        return EventRun(file, table, (), ends, is_anonymous=True)
    table[_ROW["gno"], openers] = _numbers(bodies, _GNO)
    sids, table[_ROW["sid"], openers] = _read_sids(bodies)
    return EventRun(file, table, sids, ends, is_anonymous=False)


def _read_heads(data: Array, at: Array, table: Array) -> None:
    heads = _gather(data, at, EVENT_HEADER_LENGTH).view(_HEADER)[:, 0]
    _expect(
        (heads["length"] == table[_ROW["length"]])
        & (heads["log_pos"] != 0)
        & (heads["flags"] & FLAG_ARTIFICIAL == 0)
    )
    for name in ("type", "flags", "log_pos", "server_id"):
        table[_ROW[name]] = heads[name]
    table[_ROW["query"]] = QueryVerb.NONE


def _expect(condition: Array) -> None:
    if not condition.all():
        raise _NotRegularError


def _gather(data: Array, at: Array, count: int) -> Array:
    """So many bytes from each offset on; after the end of the data anything."""
    offsets = at[:, np.newaxis] + np.arange(count)
    if offsets[-1, -1] >= len(data):
        np.minimum(offsets, len(data) - 1, out=offsets)
    found: Array = data[offsets]
    return found


def _numbers(bodies: Array, columns: slice) -> Array:
    return np.ascontiguousarray(bodies[:, columns]).view("<i8")[:, 0]


def _read_commits(bodies: Array, lengths: Array, table: Array, openers: Array) -> None:
    """Logical timestamps, commit time and length of the group, where 8.0 or later wrote them."""
    _expect((bodies[:, _TYPE_CODE] == _LOGICAL_TIMESTAMPS) & (lengths >= _ORIGINAL))
    table[_ROW["last_committed"], openers] = _numbers(bodies, _LAST_COMMITTED)
    table[_ROW["sequence_number"], openers] = _numbers(bodies, _SEQUENCE_NUMBER)
    has_original = bodies[:, _ORIGINAL - 1] & _HAS_ORIGINAL != 0
    times = np.zeros((len(bodies), 8), np.uint8)
    times[:, :_MICROSECONDS_LENGTH] = np.where(
        has_original[:, np.newaxis],
        bodies[:, _ORIGINAL : _ORIGINAL + _MICROSECONDS_LENGTH],
        bodies[:, _IMMEDIATE:_ORIGINAL],
    )
    table[_ROW["original_commit_timestamp"], openers] = times.view("<i8")[:, 0]
    at = _ORIGINAL + _MICROSECONDS_LENGTH * has_original
    rows = np.arange(len(bodies))
    first = bodies[rows, at]
    size = _NUMBER_SIZES[first]
    _expect((size >= 0) & (lengths > at + size))
    more = bodies[rows[:, np.newaxis], (at + 1)[:, np.newaxis] + np.arange(8)].view("<u8")[:, 0]
    table[_ROW["transaction_length"], openers] = np.where(
        size == 0, first, more & _NUMBER_MASKS[size]
    )


def _read_sids(bodies: Array) -> tuple[tuple[str, ...], Array]:
    """The UUIDs, and which each group has."""
    sids = np.ascontiguousarray(bodies[:, _SID])
    if (sids == sids[0]).all():
        return (uuid_text(sids[0].tobytes()),), np.zeros(len(sids), np.int64)
    found, numbers = np.unique(sids, axis=0, return_inverse=True)
    return tuple(uuid_text(sid.tobytes()) for sid in found), numbers.reshape(-1)


def _read_queries(data: Array, at: Array, lengths: Array) -> Array:
    """The verbs of statements; most are BEGIN."""
    _expect(lengths >= _QUERY_HEAD)
    head = _gather(data, at, _QUERY_HEAD).astype(np.int64)
    begin = _QUERY_HEAD + head[:, 8] + (head[:, 11] | head[:, 12] << 8) + 1
    statements = lengths - begin
    _expect(statements >= 0)
    verbs = np.full(len(at), QueryVerb.BEGIN, np.int64)
    is_begin = statements == len(_BEGIN)
    is_begin &= (_gather(data, at + begin, len(_BEGIN)) == _BEGIN).all(axis=1)
    for index in np.flatnonzero(~is_begin).tolist():
        first = int(at[index] + begin[index])
        last = first + min(int(statements[index]), QUERY_HEAD_MAX)
        verbs[index] = query_verb(data[first:last].tobytes())
    return verbs
