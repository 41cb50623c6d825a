"""What clients do: the bodies of transactions, with the lengths real events have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.events.journal import QueryVerb
from tallystick.coordinates.values.binlog import EventType
from tallystick.producers.simulator.kernel.transactions import BodyEvent, Group, GroupKind

if TYPE_CHECKING:
    from random import Random

_NONE, _BEGIN = int(QueryVerb.NONE), int(QueryVerb.BEGIN)
_QUERY, _TABLE_MAP = int(EventType.QUERY), int(EventType.TABLE_MAP)
_XID = (int(EventType.XID), _NONE, 31)
_XA_PREPARE_LENGTH = 48
_INTVAR_LENGTH = 32
_CHECKSUM_STEP = 0x9E3779B1
_ROWS = (int(EventType.WRITE_ROWS), int(EventType.UPDATE_ROWS), int(EventType.DELETE_ROWS))

USUAL_KINDS = (
    *(GroupKind.INNODB,) * 84,
    *(GroupKind.NON_TRANSACTIONAL,) * 5,
    *(GroupKind.DDL,) * 5,
    *(GroupKind.COMPRESSED,) * 4,
    *(GroupKind.EMPTY,) * 2,
)
"""An ordinary mix of transactions."""
_WITHOUT_INNODB = (GroupKind.NON_TRANSACTIONAL, GroupKind.ROLLED_BACK, GroupKind.EMPTY)
"""They write no redo."""


def make_group(
    rng: Random,
    kind: GroupKind,
    server_id: int,
    commit_ts: int,
    *,
    rows_length: int | None = None,
    rows_count: int = 1,
    xa_of: Group | None = None,
) -> Group:
    """A transaction that has no GTID yet.

    Args:
        rng: Decides lengths and content.
        kind: How it is written.
        server_id: Of the server that commits it first.
        commit_ts: When it does.
        rows_length: Bytes of each rows event; None: a usual length.
        rows_count: How many rows events there are.
        xa_of: The prepared group that an XA_COMMIT or XA_ROLLBACK ends.
    """
    checksum = rng.getrandbits(32)
    shapes = _shapes(rng, kind, rows_length, rows_count)
    body: list[BodyEvent] = []
    for event_type, query, length in shapes:
        checksum = (checksum + _CHECKSUM_STEP) & 0xFFFFFFFF
        body.append((event_type, query, length, checksum))
    redo = 0 if kind in _WITHOUT_INNODB else 160 + sum([event[2] for event in body])
    return Group(None, -1, server_id, commit_ts, kind, tuple(body), min(redo, 1 << 20), xa_of)


def emptied(rng: Random, group: Group) -> Group:
    """What an applier logs of a group that its filters leave out: its GTID and no change."""
    empty = make_group(rng, GroupKind.EMPTY, group.server_id, group.original_commit_timestamp)
    empty.sid, empty.gno = group.sid, group.gno
    return empty


def _shapes(
    rng: Random, kind: GroupKind, rows_length: int | None, rows_count: int
) -> list[tuple[int, int, int]]:
    begin = _QUERY, _BEGIN, 74 + rng.randrange(8)
    if kind is GroupKind.INNODB:
        return [begin, *_rows(rng, rows_length, rows_count), _XID]
    if kind in (GroupKind.NON_TRANSACTIONAL, GroupKind.ROLLED_BACK):
        verb = QueryVerb.COMMIT if kind is GroupKind.NON_TRANSACTIONAL else QueryVerb.ROLLBACK
        return [begin, *_rows(rng, rows_length, rows_count), (_QUERY, int(verb), 75)]
    if kind is GroupKind.MIXED:
        return [
            begin,
            *_rows(rng, rows_length, rows_count),
            *_rows(rng, rows_length, rows_count),
            _XID,
        ]
    if kind is GroupKind.EMPTY:
        return [begin, (_QUERY, int(QueryVerb.COMMIT), 75)]
    if kind is GroupKind.DDL:
        return [(_QUERY, int(QueryVerb.STATEMENT), rng.randrange(110, 300))]
    if kind is GroupKind.XA_COMMIT:
        return [(_QUERY, int(QueryVerb.XA_COMMIT), 92)]
    if kind is GroupKind.XA_ROLLBACK:
        return [(_QUERY, int(QueryVerb.XA_ROLLBACK), 94)]
    if kind in (GroupKind.XA_PREPARE, GroupKind.XA_ONE_PHASE):
        return [
            (_QUERY, int(QueryVerb.XA_START), 98),
            *_rows(rng, rows_length, rows_count),
            (_QUERY, int(QueryVerb.XA_END), 96),
            (int(EventType.XA_PREPARE), _NONE, _XA_PREPARE_LENGTH),
        ]
    length = rows_length or rng.randrange(160, 900)
    return [(int(EventType.TRANSACTION_PAYLOAD), _NONE, length)]


def _rows(rng: Random, rows_length: int | None, rows_count: int) -> list[tuple[int, int, int]]:
    if rows_length is None and rng.random() < 0.06:  # binlog_format = STATEMENT
        return [
            (int(EventType.INTVAR), _NONE, _INTVAR_LENGTH),
            (_QUERY, int(QueryVerb.STATEMENT), rng.randrange(120, 200)),
        ]
    rows = [
        (_TABLE_MAP, _NONE, rng.randrange(45, 70)),
        *((_ROWS[rng.randrange(3)], _NONE, rows_length or rng.randrange(40, 420)),) * rows_count,
    ]
    if rng.random() < 0.08:  # binlog_rows_query_log_events
        rows.insert(0, (int(EventType.ROWS_QUERY), _NONE, rng.randrange(60, 120)))
    return rows
