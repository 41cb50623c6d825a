"""Binary log coordinates in the system header of InnoDB (TRX_SYS page): who writes them, and when.

InnoDB writes them with its own commits, in the same mini-transaction. So after an update of a
non-transactional table they name an older position, until the next InnoDB commit. Two ways out:
write them at each update, as a Galera node does with its XID, or when LOCK TABLES FOR BACKUP is
taken, as a server with ``have_backup_safe_binlog_info`` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tallystick.producers.simulator.backup.galera_node import GaleraNode
from tallystick.producers.simulator.innodb import redo_log
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.commit_queue import ENGINE_COMMIT, CommitQueue

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.bus import Bus
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.server.commit_queue import Pending

VARIABLE = "have_backup_safe_binlog_info"
_REDO_LENGTH = 48
"""Redo of the records that set magic number, offset and name in the page."""


class HeaderUpdates(Enum):
    """What makes a server write its coordinates into the header."""

    NEVER = "never"
    """MySQL 8.0, but for the time of a clone."""
    INNODB_COMMITS = "InnoDB commits"
    """Servers before 8.0."""
    EVERY_UPDATE = "every update"
    """Fix 1: whatever the storage engine."""


@dataclass(slots=True, eq=False)
class InnodbHeader:
    """When an instance writes binary log coordinates into the header of InnoDB."""

    updates: HeaderUpdates = HeaderUpdates.NEVER


def is_backup_safe(instance: Instance) -> bool:
    """Whether the variable exists, whose value is always YES, and there are coordinates."""
    return bool(instance.variables.get(VARIABLE)) and instance[BinaryLog].is_open


def updates_of(instance: Instance) -> HeaderUpdates:
    """When the instance writes the header; a backup-safe server always does at InnoDB commits."""
    updates = instance[InnodbHeader].updates
    if updates is HeaderUpdates.NEVER and is_backup_safe(instance):
        return HeaderUpdates.INNODB_COMMITS
    return updates


def join(bus: Bus) -> None:
    """Coordinates may be written with each commit."""
    bus.connect(ENGINE_COMMIT, note_commit)


def note_commit(instance: Instance, pending: Pending) -> None:
    """The commit stage of a logged group; an InnoDB commit's redo holds the header's change."""
    node = instance.get(GaleraNode)
    if node is not None:
        node.note_commit(pending.logged.group)
    updates = updates_of(instance)
    if updates is HeaderUpdates.NEVER:
        return
    coordinates = pending.file.name, pending.logged.end
    if pending.logged.group.redo_length:
        instance[Innodb].trx_sys = coordinates
    elif updates is HeaderUpdates.EVERY_UPDATE:
        _write(instance, coordinates)


def flush_coordinates(instance: Instance) -> int:
    """Fix 2: the present coordinates go into the header and into the redo log. The LSN after it.

    Nobody is between flush and commit stage, so no commit will write an older position.
    """
    assert not instance[CommitQueue].in_commit
    return _write(instance, instance[BinaryLog].position)


def _write(instance: Instance, coordinates: tuple[str, int]) -> int:
    lsn = redo_log.add_redo(instance, _REDO_LENGTH + len(coordinates[0]))
    redo_log.flush_redo(instance)
    instance[Innodb].trx_sys = coordinates
    return lsn
