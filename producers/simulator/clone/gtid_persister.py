"""InnoDB's GTID persister (WL#9211): GTIDs of transactions go from undo headers into the table.

It writes every second or every so many transactions, then moves the oldest unpersisted number on.
Purge of undo never passes that number, so after a crash the undo headers hold what the table lacks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coordinates.journal import RecordType
from producers.simulator.gtid_intervals import GtidIntervals

if TYPE_CHECKING:
    from producers.simulator.engine import Fleet
    from producers.simulator.model import Group, Instance

_PERIOD_US = 1_000_000
_TRANSACTIONS_MAX = 1_024


@dataclass(slots=True)
class GtidPersister:
    """The persister of one instance."""

    unpersisted: list[tuple[int, str, int]] = field(default_factory=list)
    """Number of the transaction, sid and GNO, in order."""


def install(fleet: Fleet, instance: Instance) -> None:
    """Let the journal of an instance tell what its persister does."""
    instance.persister = GtidPersister()
    fleet.schedule(fleet.now + _PERIOD_US, instance, _work, instance)


def note_commit(instance: Instance, group: Group) -> None:
    """A transaction with a GTID committed in InnoDB: its undo header has the GTID."""
    persister = instance.persister
    if persister is None or group.sid is None or not group.redo_length:
        return
    number = instance.innodb.next_trx_no
    instance.innodb.next_trx_no += 1
    persister.unpersisted.append((number, group.sid, group.gno))
    _tell(instance, "commit", trx_no=number, gtid=f"{group.sid}:{group.gno}")
    if len(persister.unpersisted) >= _TRANSACTIONS_MAX:
        write(instance)


def write(instance: Instance) -> None:
    """Write what is buffered into mysql.gtid_executed; then undo may be purged up to there."""
    persister = instance.persister
    if persister is None or not persister.unpersisted:
        return
    written = _as_set(persister)
    persister.unpersisted = []
    instance.table.update(written)
    oldest = instance.innodb.next_trx_no
    _tell(instance, "write", gtids=written.text(), oldest_trx_no=oldest, trx_num_gtid=oldest)
    _tell(instance, "purge", trx_no=oldest)


def in_undo(instance: Instance) -> GtidIntervals:
    """GTIDs of committed transactions that only undo log headers hold."""
    return GtidIntervals() if instance.persister is None else _as_set(instance.persister)


def undo_gtids(instance: Instance) -> GtidIntervals:
    """What a start finds in the undo headers; the table gets it before replication starts."""
    found = in_undo(instance)
    instance.table.update(found)
    return found


def recover(instance: Instance, found: GtidIntervals) -> None:
    """Tell what the start found, and begin anew."""
    if instance.persister is None:
        return
    instance.persister.unpersisted = []
    _tell(instance, "recover", gtids=found.text())


def _as_set(persister: GtidPersister) -> GtidIntervals:
    gtids = GtidIntervals()
    for _, sid, gno in persister.unpersisted:
        gtids.add(sid, gno)
    return gtids


def _work(fleet: Fleet, instance: Instance) -> None:
    if instance.is_running:
        write(instance)
    if fleet.now < fleet.load_ends_at + 2 * _PERIOD_US:
        fleet.schedule(fleet.now + _PERIOD_US, instance, _work, instance)


def _tell(instance: Instance, step: str, **fields: Any) -> None:
    instance.journal.fact(RecordType.GTID_PERSISTER, {"step": step, **fields})
