"""A run of transactions as columns, made once by seed and laid end to end ever after.

A history of millions of events is the same run again and again at the next offset, GNO and time, so
each repetition costs a few additions over whole columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.events.journal import ABSENT, COLUMNS, QueryVerb, Stream
from tallystick.coordinates.values.binlog import EventType

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

_GTID_LENGTH = 79
_BEGIN_LENGTH = 75
_TABLE_MAP_LENGTH = 50
_XID_LENGTH = 31
_ROWS_LENGTH_MIN = 40
_ROWS_LENGTH_SPREAD = 360
_EVENT_TIME_US = 4

_GTID = (EventType.GTID, QueryVerb.NONE, _GTID_LENGTH)
_BEGIN = (EventType.QUERY, QueryVerb.BEGIN, _BEGIN_LENGTH)
_TABLE_MAP = (EventType.TABLE_MAP, QueryVerb.NONE, _TABLE_MAP_LENGTH)
_XID = (EventType.XID, QueryVerb.NONE, _XID_LENGTH)
# A length of 0 is drawn for each event.
_WRITE = (EventType.WRITE_ROWS, QueryVerb.NONE, 0)
_UPDATE = (EventType.UPDATE_ROWS, QueryVerb.NONE, 0)
_DELETE = (EventType.DELETE_ROWS, QueryVerb.NONE, 0)

_TRANSACTIONS = (
    (_GTID, _BEGIN, _TABLE_MAP, _WRITE, _XID),
    (_GTID, _BEGIN, _TABLE_MAP, _UPDATE, _TABLE_MAP, _WRITE, _XID),
    (_GTID, _BEGIN, _TABLE_MAP, _DELETE, _XID),
    (_GTID, (EventType.QUERY, QueryVerb.STATEMENT, 190)),
)
_SHARES = (0.5, 0.25, 0.2, 0.05)
_EVENTS_PER_TRANSACTION = sum(
    share * len(events) for share, events in zip(_SHARES, _TRANSACTIONS, strict=True)
)
_PARALLEL_MAX = 16


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """A run of whole transactions, counted from 0.

    Attributes:
        type: MySQL's event type codes.
        query: Query verbs.
        length: Bytes of each event.
        start: Offset of each event in the run.
        end: Offset after each event.
        ts: Microseconds of each event since the run began.
        checksum: A number for each event.
        openers: Indices of the GTID events.
        size: Bytes of each transaction.
        parallel: By how many transactions before it each one does not have to wait.
    """

    type: Array
    query: Array
    length: Array
    start: Array
    end: Array
    ts: Array
    checksum: Array
    openers: Array
    size: Array
    parallel: Array

    @property
    def events(self) -> int:
        """How many events it has."""
        return len(self.type)

    @property
    def transactions(self) -> int:
        """How many transactions it has."""
        return len(self.openers)

    @property
    def total_bytes(self) -> int:
        """Bytes of all events."""
        return int(self.end[-1])

    @property
    def duration_us(self) -> int:
        """Microseconds from the first event to after the last."""
        return self.events * _EVENT_TIME_US


def make_tile(rng: np.random.Generator, events: int) -> Tile:
    """Draw a run of about ``events`` events, at least one transaction."""
    count = max(1, round(events / _EVENTS_PER_TRANSACTION))
    chosen = rng.choice(len(_TRANSACTIONS), size=count, p=_SHARES)
    flat = np.array([event for events in _TRANSACTIONS for event in events], dtype=np.int64)
    lengths = np.array([len(events) for events in _TRANSACTIONS])
    firsts = np.cumsum(lengths) - lengths
    counts = lengths[chosen]
    openers = np.cumsum(counts) - counts
    total = int(counts.sum())
    index = np.arange(total) - np.repeat(openers, counts) + np.repeat(firsts[chosen], counts)
    length = flat[index, 2].copy()
    rows = np.flatnonzero(length == 0)
    length[rows] = rng.integers(
        _ROWS_LENGTH_MIN, _ROWS_LENGTH_MIN + _ROWS_LENGTH_SPREAD, size=len(rows)
    )
    end = np.cumsum(length)
    return Tile(
        type=flat[index, 0].astype(np.uint8),
        query=flat[index, 1].astype(np.uint8),
        length=length,
        start=end - length,
        end=end,
        ts=np.arange(total) * _EVENT_TIME_US,
        checksum=rng.integers(0, 2**32, size=total),
        openers=openers,
        size=np.add.reduceat(length, openers),
        parallel=rng.integers(1, _PARALLEL_MAX, size=count),
    )


@dataclass(frozen=True, slots=True)
class Lay:
    """Where a tile is laid in one log.

    Attributes:
        stream: The log.
        offset: Where it begins in the file.
        log_pos_offset: Where it begins in the file where it was first written.
        first_gno: GNO of its first transaction.
        first_sequence_number: Sequence number of its first transaction.
        ts: Time of its first event.
        ts_divisor: How much faster than the tile's own times it goes.
        commit_ts: When its first transaction began at its origin.
        server_id: The origin's.
        salt: What makes this repetition's checksums differ from others'.
    """

    stream: Stream
    offset: int
    log_pos_offset: int
    first_gno: int
    first_sequence_number: int
    ts: int
    ts_divisor: int
    commit_ts: int
    server_id: int
    salt: int


class TileColumns:
    """The columns of a tile at any position. What does not depend on the position is shared."""

    def __init__(self, tile: Tile) -> None:
        self.tile = tile
        events = tile.events
        self._index = np.arange(tile.transactions)
        self._shared = {
            "type": tile.type,
            "query": tile.query,
            "length": tile.length,
            "flags": np.zeros(events, dtype=COLUMNS["flags"]),
            "file": np.zeros(events, dtype=COLUMNS["file"]),
            "sid": self._at_openers(np.int32(0), COLUMNS["sid"]),
            "transaction_length": self._at_openers(tile.size),
            "value": np.full(events, ABSENT, dtype=COLUMNS["value"]),
        }
        self._streams = {
            stream: {
                "stream": np.full(events, stream, dtype=COLUMNS["stream"]),
                "channel": np.full(
                    events, 0 if stream is Stream.RELAY else ABSENT, dtype=COLUMNS["channel"]
                ),
            }
            for stream in (Stream.BINLOG, Stream.RELAY)
        }
        self._server_ids: dict[int, Array] = {}

    def _at_openers(self, values: Any, dtype: np.dtype[Any] = COLUMNS["gno"]) -> Array:
        column = np.full(self.tile.events, ABSENT, dtype=dtype)
        column[self.tile.openers] = values
        return column

    def _server_id(self, server_id: int) -> Array:
        found = self._server_ids.get(server_id)
        if found is None:
            found = np.full(self.tile.events, server_id, dtype=COLUMNS["server_id"])
            self._server_ids[server_id] = found
        return found

    def lay(self, lay: Lay) -> dict[str, Array]:
        """The columns of the tile at a position."""
        tile = self.tile
        numbers = self._index + lay.first_sequence_number
        elapsed = tile.ts if lay.ts_divisor == 1 else tile.ts // lay.ts_divisor
        columns = {
            **self._shared,
            **self._streams[lay.stream],
            "server_id": self._server_id(lay.server_id),
            "ts": elapsed + lay.ts,
            "start": tile.start + lay.offset,
            "log_pos": (tile.end + lay.log_pos_offset) & 0xFFFFFFFF,
            "checksum": tile.checksum ^ (lay.salt & 0xFFFFFFFF),
            "gno": self._at_openers(self._index + lay.first_gno),
            "sequence_number": self._at_openers(numbers),
            "last_committed": self._at_openers(np.maximum(numbers - tile.parallel, 0)),
            "original_commit_timestamp": self._at_openers(tile.ts[tile.openers] + lay.commit_ts),
        }
        return {name: columns[name] for name in COLUMNS}
