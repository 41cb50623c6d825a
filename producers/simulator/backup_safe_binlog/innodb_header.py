"""Binary log coordinates in the system header of InnoDB (TRX_SYS page): who writes them, and when.

InnoDB writes them with its own commits, in the same mini-transaction. So after an update of a
non-transactional table they name an older place, until the next InnoDB commit. Two ways out: write
them at each update, as a Galera node does with its XID, or when LOCK TABLES FOR BACKUP is taken, as
a server with ``have_backup_safe_binlog_info`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.producers.simulator import innodb
from tallystick.producers.simulator.backup_safe_binlog.lock_state import HeaderUpdates

if TYPE_CHECKING:
    from tallystick.producers.simulator.model import Instance, Pending

VARIABLE = "have_backup_safe_binlog_info"
_REDO_LENGTH = 48
"""Redo of the records that set magic number, offset and name in the page."""


def is_backup_safe(instance: Instance) -> bool:
    """Whether the variable exists, whose value is always YES, and there are coordinates."""
    return bool(instance.variables.get(VARIABLE)) and instance.log_bin


def updates_of(instance: Instance) -> HeaderUpdates:
    """When the instance writes the header; a backup-safe server always does at InnoDB commits."""
    if instance.header_updates is HeaderUpdates.NEVER and is_backup_safe(instance):
        return HeaderUpdates.INNODB_COMMITS
    return instance.header_updates


def note_commit(instance: Instance, pending: Pending) -> None:
    """The commit stage of a logged group; an InnoDB commit's redo holds the header's change."""
    if instance.galera is not None:
        instance.galera.note_commit(pending.logged.group)
    updates = updates_of(instance)
    if updates is HeaderUpdates.NEVER:
        return
    coordinates = pending.file.name, pending.logged.end
    if pending.logged.group.redo_length:
        instance.innodb.trx_sys = coordinates
    elif updates is HeaderUpdates.EVERY_UPDATE:
        _write(instance, coordinates)


def flush_coordinates(instance: Instance) -> None:
    """Fix 2: the present coordinates go into the header and into the redo log.

    Nobody is between flush and commit stage, so no commit will put an older place there.
    """
    assert not instance.in_commit
    _write(instance, instance.binlog.position)


def _write(instance: Instance, coordinates: tuple[str, int]) -> None:
    innodb.write_redo(instance.innodb, _REDO_LENGTH + len(coordinates[0]))
    innodb.flush_redo(instance.innodb)
    instance.innodb.trx_sys = coordinates
