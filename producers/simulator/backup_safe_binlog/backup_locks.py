"""Percona's backup locks: LOCK TABLES FOR BACKUP and LOCK BINLOG FOR BACKUP.

Under the table lock InnoDB commits go on; non-transactional changes and DDL wait. A backup-safe
server writes its binary log coordinates into the InnoDB header when the lock is taken. The binlog
lock stops everything that moves a coordinate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinates.journal import RecordType
from producers.simulator import commit
from producers.simulator.model import GroupKind

if TYPE_CHECKING:
    from producers.simulator.engine import Fleet
    from producers.simulator.model import Instance

WAIT_US = 20_000
"""After this time a statement that waits for the table lock is tried again."""
_WAITING_KINDS = frozenset({GroupKind.NON_TRANSACTIONAL, GroupKind.DDL})
_TABLES_LOCKED_US = 1_200_000
_BINLOG_LOCKED_US = 30_000
_SESSION = 77


def must_wait(instance: Instance, kind: GroupKind) -> bool:
    """Whether the table lock holds back what a group changes."""
    return instance.tables_are_locked and kind in _WAITING_KINDS


def back_up(fleet: Fleet, instance: Instance) -> None:
    """Take the table lock, later the binlog lock for a moment, then release both."""
    if not instance.is_running or instance.tables_are_locked:
        return
    # A change that waits for its commit stage still holds its tables.
    commit.finish_all(fleet, instance)
    instance.tables_are_locked = True
    _tell(instance, "lock", "tables")
    if instance.variables.get("have_backup_safe_binlog_info") and instance.log_bin:
        instance.innodb.trx_sys = instance.binlog.position
    fleet.schedule(fleet.now + _TABLES_LOCKED_US, instance, _finish, instance)


def _finish(fleet: Fleet, instance: Instance) -> None:
    if not instance.is_running or not instance.tables_are_locked:
        return
    commit.finish_all(fleet, instance)
    _tell(instance, "lock", "binlog")
    instance.blocked_until = instance.journal.tick(_BINLOG_LOCKED_US)
    _tell(instance, "unlock", "binlog")
    _tell(instance, "unlock", "tables")
    instance.tables_are_locked = False


def _tell(instance: Instance, step: str, lock: str) -> None:
    instance.journal.fact(RecordType.BACKUP_LOCK, {"step": step, "lock": lock, "session": _SESSION})
