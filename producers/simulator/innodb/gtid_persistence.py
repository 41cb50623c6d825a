"""GTID persistence through virtual time: who calls the persister and purge, and where it may crash.

Every server persists its GTIDs; the journal records it where it is observed
(``GtidPersistence.is_recorded``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.innodb import purge, transaction_end, undo_recovery
from tallystick.producers.simulator.innodb.gtid_persister import (
    PERIOD_US,
    TRANSACTIONS_MAX,
    GtidPersister,
)
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.innodb.session_gtid import SessionGtid
from tallystick.producers.simulator.innodb.undo_log import trx_undo_gtid_read
from tallystick.producers.simulator.kernel.bus import Change, Notice, Permit
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.server import gtid_state
from tallystick.producers.simulator.server.commit_queue import CommitQueue

if TYPE_CHECKING:
    from tallystick.producers.simulator.innodb.rollback_segments import TrxSys
    from tallystick.producers.simulator.innodb.transaction_end import TransactionEnd
    from tallystick.producers.simulator.innodb.undo_log import UndoLogHeader
    from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group
    from tallystick.producers.simulator.kernel.world import World

UNDO_DURABLE: Notice[[World, Instance, UndoLogHeader]] = Notice(
    "the undo log header of a transaction's end is written; it may be changed"
)
FLUSH_PREPARE: Permit[[World, Instance]] = Permit(
    "before the GTID of XA PREPARE goes from the undo header; False: nobody has saved it"
)
PERSISTER_WAIT: Change[[World, Instance, int], int] = Change(
    "when the GTID persister will wake up by itself"
)
LOG_RESET: Permit[[World, Instance]] = Permit(
    "RESET lets the persister write its GTIDs; False: it keeps them"
)
UNDO_PURGE: Change[[World, Instance, int], int] = Change(
    "the transaction number below which purge removes undo logs"
)
RECOVERY: Change[[World, Instance, int], int] = Change(
    "the transaction number from which on a start reads undo logs"
)
CRASH: Notice[[World, Instance]] = Notice("the server is to crash here")

_WRITE_US: Final = 1_500
"""From the switch of lists to the commit of the write to the table."""
_NUMBER_US: Final = 400
"""From there to the oldest number in the TRX_SYS page."""
_PURGE_US: Final = 370_000
"""Purge looks for undo logs so long after a transaction left one."""


class CrashPoint(str, Enum):
    """The steps before which a server can be made to crash."""

    ADD = "undo log durable, GTID not added to the persister"
    WRITE = "lists switched, GTIDs not written to the table"
    NUMBER = "GTIDs written to the table, oldest number not updated"
    PURGE = "in the middle of purge"
    RECOVERY_WRITE = "undo logs scanned by recovery, GTIDs not written to the table"
    RECOVERY_NUMBER = "GTIDs written to the table by recovery, oldest number not updated"


@dataclass(slots=True, eq=False)
class GtidPersistence:
    """GTID persistence of an instance.

    Attributes:
        persister: Memory of the persister; a crash leaves a new one.
        is_recorded: Whether the journal has records of what the persister and purge do.
        crash_at: The step before which the server will crash.
    """

    persister: GtidPersister = field(default_factory=GtidPersister)
    is_recorded: bool = False
    crash_at: CrashPoint | None = None


# Transactions


def end_transaction(
    fleet: World, instance: Instance, group: Group, *, with_gtid: bool = True
) -> bool:
    """InnoDB commits, prepares or rolls back what a group changed; other groups pass it by.

    Args:
        fleet: The fleet.
        instance: Where.
        group: What was executed.
        with_gtid: Whether the session still has its GTID when the engine asks for it.

    Returns:
        Whether InnoDB persists the GTID.
    """
    if not group.redo_length:
        return False
    session = _session_of(group, with_gtid=with_gtid)
    end = _write_undo(fleet, instance, session)
    transaction_end.commit_in_memory(
        instance[Innodb].transactions, instance[GtidPersistence].persister, end
    )
    _wake_persister(fleet, instance)
    _wake_purge(fleet, instance)
    return session.se_persists_gtid()


def crashes_before_add(fleet: World, instance: Instance, group: Group) -> bool:
    """If the server is to crash there: write the undo log of a group, and nothing in memory."""
    is_it = (
        instance[GtidPersistence].crash_at is CrashPoint.ADD
        and group.redo_length
        and group.sid is not None
    )
    if not is_it:
        return False
    _write_undo(fleet, instance, _session_of(group))
    _crash(fleet, instance)
    return True


def _session_of(group: Group, *, with_gtid: bool = True) -> SessionGtid:
    session = SessionGtid(group)
    if session.is_external_xa():
        # The binary log ends its part first: without the pin the engine would find no GTID.
        session.pin_gtid()
        session.free_owned_gtid()
    session.set_gtid_persisted_by_se()
    if not with_gtid:
        session.owned = None
    if session.owned is None:
        session.reset_gtid_persisted_by_se()
    return session


def _write_undo(fleet: World, instance: Instance, session: SessionGtid) -> TransactionEnd:
    trx_sys, owned = instance[Innodb].transactions, session.owned
    end = transaction_end.allocate_undo(trx_sys, session)
    is_prepare = transaction_end.is_prepare(session)
    if is_prepare:
        transaction_end.write_prepare(end)
    else:
        flush_prepare(fleet, instance, end)
        transaction_end.serialise(trx_sys, end)
        transaction_end.write_serialisation_history(end)
    if end.header is not None:
        fleet.bus.emit(UNDO_DURABLE, fleet, instance, end.header)
    session.unpin_gtid()
    if owned is not None and instance[GtidPersistence].is_recorded:
        gtid = f"{owned[0]}:{owned[1]}"
        if is_prepare:
            _record(instance, "prepare", gtid=gtid)
        else:
            _record(instance, "commit", gtid=gtid, trx_no=end.trx_no)
    return end


def flush_prepare(fleet: World, instance: Instance, end: TransactionEnd) -> None:
    """XA COMMIT and XA ROLLBACK overwrite the GTID of XA PREPARE: it goes into the table first."""
    prepared = None if end.header is None else trx_undo_gtid_read(end.header)
    is_unsaved = prepared is not None and instance[GtidPersistence].persister.holds(prepared)
    if is_unsaved and fleet.bus.emit(FLUSH_PREPARE, fleet, instance):
        wait_flush(instance)


def recover_from_binary_log(instance: Instance, group: Group) -> None:
    """Crash recovery ends a group that was in the binary log and not yet through the engine.

    Its GTID is in the binary log and nowhere in InnoDB: the start takes it from there.
    """
    trx_sys = instance[Innodb].transactions
    prepared = trx_sys.prepared()
    if group.kind is GroupKind.XA_PREPARE and group not in prepared:
        session = _session_of(group, with_gtid=False)
        transaction_end.write_prepare(transaction_end.allocate_undo(trx_sys, session))
    elif group.xa_of in prepared:
        end = transaction_end.allocate_undo(trx_sys, _session_of(group, with_gtid=False))
        transaction_end.serialise(trx_sys, end)
        transaction_end.write_serialisation_history(end)


# The background thread


def _wake_persister(fleet: World, instance: Instance) -> None:
    persister = instance[GtidPersistence].persister
    if len(persister.active) >= TRANSACTIONS_MAX and not persister.is_writing:
        at = fleet.now
    elif persister.wakes_at or persister.is_writing:
        return
    else:
        phase = (instance.server_id * 137_000) % PERIOD_US
        since = fleet.now - fleet.start_ts - phase
        at = fleet.now + PERIOD_US - since % PERIOD_US
        at = fleet.bus.emit(PERSISTER_WAIT, fleet, instance, at)
    if persister.wakes_at != at:
        persister.wakes_at = at
        fleet.schedule(at, instance, _switch, instance, persister, at)


def _switch(fleet: World, instance: Instance, persister: GtidPersister, at: int) -> None:
    is_stale = instance[GtidPersistence].persister is not persister or persister.wakes_at != at
    if is_stale or not instance.is_running or persister.is_writing:
        return
    persister.wakes_at = 0
    persister.switch(instance[Innodb].transactions)
    if instance[GtidPersistence].crash_at is CrashPoint.WRITE and persister.flushing:
        _crash(fleet, instance)
        return
    round_ = persister.round
    fleet.schedule(fleet.now + _WRITE_US, instance, _go_on, instance, persister, round_, _write)


def _go_on(
    fleet: World, instance: Instance, persister: GtidPersister, round_: int, step: Any
) -> None:
    """The next step of a write, unless somebody has finished it meanwhile."""
    if (
        instance[GtidPersistence].persister is persister
        and persister.round == round_
        and instance.is_running
    ):
        step(fleet, instance)


def _write(fleet: World, instance: Instance) -> None:
    persister = instance[GtidPersistence].persister
    has_gtids = bool(persister.flushing)
    _periodic_write(instance)
    if instance[GtidPersistence].crash_at is CrashPoint.NUMBER and has_gtids:
        _crash(fleet, instance)
        return
    round_ = persister.round
    fleet.schedule(fleet.now + _NUMBER_US, instance, _go_on, instance, persister, round_, _update)


def _update(fleet: World, instance: Instance) -> None:
    _update_number(instance)
    if instance[GtidPersistence].persister.active:
        _wake_persister(fleet, instance)


def _periodic_write(instance: Instance) -> None:
    """Clone_persist_gtid::periodic_write(): what was switched away goes into the table."""
    persister = instance[GtidPersistence].persister
    written = persister.flush_list()
    if not written:
        return
    persister.flushing = []  # who flushes before the number has followed writes them not again
    gtid_state.save(instance, written)
    gtid_state.update_prev_gtids(instance, written)
    collected = persister.collected
    _record(instance, "write", gtids=written.text(), oldest_trx_no=collected)


def _update_number(instance: Instance) -> None:
    before = instance[GtidPersistence].persister.oldest_trx_no
    number = instance[GtidPersistence].persister.update_oldest_trx_no(instance[Innodb].transactions)
    if number != before:
        _record(instance, "number", trx_num_gtid=number)


def wait_flush(instance: Instance) -> None:
    """Let the persister write everything now: a clone ends, a log is reset, the server stops."""
    persister = instance[GtidPersistence].persister
    if persister.is_writing:
        _periodic_write(instance)
        _update_number(instance)
    if persister.active:
        persister.switch(instance[Innodb].transactions)
        _periodic_write(instance)
        _update_number(instance)
    persister.wakes_at = 0


def reset(fleet: World, instance: Instance) -> None:
    """RESET MASTER: earlier GTIDs must not come into the table when it has been emptied.

    The session sets log_reset, so flushing the engine's log flushes the GTIDs as well. Undo logs
    keep them, and a start does not look at those: they are below TRX_SYS_TRX_NUM_GTID then.
    """
    if fleet.bus.emit(LOG_RESET, fleet, instance):
        wait_flush(instance)


# Purge


def _wake_purge(fleet: World, instance: Instance) -> None:
    trx_sys = instance[Innodb].transactions
    if not trx_sys.purge_is_due and trx_sys.history_length():
        trx_sys.purge_is_due = True
        fleet.schedule(fleet.now + _PURGE_US, instance, _purge, instance, trx_sys)


def _purge(fleet: World, instance: Instance, trx_sys: TrxSys) -> None:
    if instance[Innodb].transactions is not trx_sys:
        return
    trx_sys.purge_is_due = False
    if not instance.is_running:
        return
    limit = purge.oldest_read_view(trx_sys, instance[GtidPersistence].persister)
    limit = fleet.bus.emit(UNDO_PURGE, fleet, instance, limit)
    if instance[GtidPersistence].crash_at is CrashPoint.PURGE and trx_sys.history_length():
        purge.purge(trx_sys, limit - (limit - trx_sys.oldest_history()) // 2)
        _crash(fleet, instance)
        return
    if purge.purge(trx_sys, limit):
        _record(instance, "purge", trx_no=limit)
    _wake_purge(fleet, instance)


# Crash and start


def _crash(fleet: World, instance: Instance) -> None:
    instance[GtidPersistence].crash_at = None
    fleet.bus.emit(CRASH, fleet, instance)


def forget_memory(instance: Instance) -> None:
    """The server is gone: only pages and the table are left."""
    instance[Innodb].transactions.forget_memory()
    instance[GtidPersistence].persister = GtidPersister()


def recover(fleet: World, instance: Instance) -> GtidIntervals | None:
    """A start, before replication looks at GTIDs: undo logs are scanned, the table is filled.

    Returns:
        What undo logs had; None if the server crashes again meanwhile.
    """
    trx_sys = instance[Innodb].transactions
    persister = instance[GtidPersistence].persister
    begin = fleet.bus.emit(RECOVERY, fleet, instance, trx_sys.trx_num_gtid)
    scan = undo_recovery.scan_undo_logs(trx_sys, begin)
    with trx_sys.mutex:
        for desc in scan.descs:
            persister.add(trx_sys, desc)
    persister.switch(trx_sys)
    if _crashes_again(instance, CrashPoint.RECOVERY_WRITE):
        return None
    found = persister.flush_list()
    gtid_state.save(instance, found)
    if _crashes_again(instance, CrashPoint.RECOVERY_NUMBER):
        return None
    persister.update_oldest_trx_no(trx_sys)
    instance[CommitQueue].prepared_xa = trx_sys.prepared()
    return found


def _crashes_again(instance: Instance, point: CrashPoint) -> bool:
    if instance[GtidPersistence].crash_at is not point:
        return False
    instance[GtidPersistence].crash_at = None
    forget_memory(instance)
    return True


def record_recovery(instance: Instance, found: GtidIntervals) -> None:
    """The start is in the journal: record what the undo logs had."""
    number = instance[GtidPersistence].persister.oldest_trx_no
    _record(instance, "recover", gtids=found.text(), trx_num_gtid=number)


def _record(instance: Instance, step: str, **fields: Any) -> None:
    if instance[GtidPersistence].is_recorded:
        instance.journal.record(RecordType.GTID_PERSISTER, {"step": step, **fields})
