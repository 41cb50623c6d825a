"""How InnoDB ends a transaction with a GTID (WL#9211, key point 1): undo first, then memory.

XA PREPARE, XA COMMIT and XA ROLLBACK take the same way as a commit. A prepared transaction has no
number yet: its undo log stays in its slot, which purge never looks at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tallystick.coordinates.values.binlog import EventType
from tallystick.producers.simulator.innodb.session_gtid import get_gtid_info
from tallystick.producers.simulator.innodb.undo_log import (
    UndoLogHeader,
    UndoState,
    trx_undo_gtid_write,
)
from tallystick.producers.simulator.kernel.transactions import GroupKind

if TYPE_CHECKING:
    from tallystick.producers.simulator.innodb.gtid_info import GtidDesc
    from tallystick.producers.simulator.innodb.gtid_persister import GtidPersister
    from tallystick.producers.simulator.innodb.rollback_segments import RollbackSegment, TrxSys
    from tallystick.producers.simulator.innodb.session_gtid import SessionGtid
    from tallystick.producers.simulator.kernel.transactions import Group

_CHANGING_ROWS: Final = frozenset((EventType.UPDATE_ROWS, EventType.DELETE_ROWS))


@dataclass(slots=True, eq=False)
class TransactionEnd:
    """A transaction on its way out of InnoDB.

    Attributes:
        desc: Its GTID; None without one.
        trx_no: Its number; 0 for XA PREPARE.
        header: Its update undo log; None if it has none.
        segment: Where the log is.
    """

    desc: GtidDesc | None
    trx_no: int = 0
    header: UndoLogHeader | None = None
    segment: RollbackSegment | None = None


def is_insert_only(group: Group) -> bool:
    """Tell whether a group only inserts rows: its insert undo is freed at its commit."""
    types = {event[0] for event in group.body}
    return EventType.WRITE_ROWS in types and types.isdisjoint(_CHANGING_ROWS)


def allocate_undo(trx_sys: TrxSys, session: SessionGtid) -> TransactionEnd:
    """Find the undo log that ends the transaction, or allocate a slot for it.

    A transaction that only inserts needs an update undo slot for its GTID alone.
    """
    group = session.group
    desc = get_gtid_info(session)
    if group.xa_of is not None:
        for segment in trx_sys.segments:
            for header, owner in segment.slots:
                if owner is group.xa_of:
                    return TransactionEnd(desc, header=header, segment=segment)
    inserts = is_insert_only(group)
    if inserts and desc is None and group.kind is not GroupKind.XA_PREPARE:
        return TransactionEnd(None)
    header = UndoLogHeader(is_insert_only=inserts)
    segment = trx_sys.assign_segment()
    segment.slots.append((header, group))
    return TransactionEnd(desc, header=header, segment=segment)


def write_prepare(end: TransactionEnd) -> None:
    """XA PREPARE: GTID, XID and state go into the undo log in one mini-transaction."""
    assert end.header is not None
    end.header.write_xid()
    end.header.state = UndoState.PREPARED
    if end.desc is not None:
        trx_undo_gtid_write(end.header, end.desc)


def serialise(trx_sys: TrxSys, end: TransactionEnd) -> None:
    """Give the transaction its number; from now on it is in the serialisation list."""
    with trx_sys.mutex:
        end.trx_no = trx_sys.next_trx_no
        trx_sys.next_trx_no += 1
        trx_sys.serialisation_list.append(end.trx_no)


def write_serialisation_history(end: TransactionEnd) -> None:
    """GTID and number go into the undo log, the log goes into the history: durable from here on."""
    header, segment = end.header, end.segment
    if header is None or segment is None:
        return
    segment.slots = [slot for slot in segment.slots if slot[0] is not header]
    header.trx_no = end.trx_no
    header.state = UndoState.TO_PURGE
    if end.desc is not None:
        trx_undo_gtid_write(header, end.desc)
    segment.add_to_history(header)


def commit_in_memory(trx_sys: TrxSys, persister: GtidPersister, end: TransactionEnd) -> None:
    """The undo log is durable: leave the serialisation list and hand over the GTID, as one."""
    with trx_sys.mutex:
        if end.trx_no:
            trx_sys.serialisation_list.remove(end.trx_no)
        if end.desc is not None:
            persister.add(trx_sys, end.desc)


def is_prepare(session: SessionGtid) -> bool:
    """Tell whether the transaction stays prepared; ONE PHASE commits at once."""
    return session.group.kind is GroupKind.XA_PREPARE and not session.is_one_phase_commit()
