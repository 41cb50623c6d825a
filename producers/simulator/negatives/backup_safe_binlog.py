"""Backup locks: backups that are right, though they look as if something went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tallystick.producers.simulator.backup import backup_locks
from tallystick.producers.simulator.backup.backup_utility import DEFAULTS, BackupUtility, Options
from tallystick.producers.simulator.backup.galera_node import GaleraNode
from tallystick.producers.simulator.innodb.header import VARIABLE, HeaderUpdates, InnodbHeader
from tallystick.producers.simulator.negatives.acts import time_at
from tallystick.producers.simulator.negatives.negative import Negative
from tallystick.producers.simulator.server import administration, lifecycle
from tallystick.producers.simulator.server.channels import ChannelMap

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

_LONG_US = 700_000
_OF_THE_OTHER_DESIGN = frozenset(
    {
        *("commit_zone", "backup_bails_out", "replica_zone", "crash_in_zone"),
        *("recovery_on_new_server", "recovery_on_same_server", "recovery_by_position"),
        *("recovery_to_a_time", "recovery_from_replica"),
    }
)
"""No server has both: backups take the locks of Percona Server, or WL#3576's critical zone."""


class BackupLocks(Negative):
    """Case 1 on backup-safe servers: commits go on, the header runs ahead of the table lock."""

    name = "backup_locks"
    text = "commits go on under LOCK TABLES FOR BACKUP, and the InnoDB header runs ahead of it"
    options: ClassVar = {"writes_per_second": 20.0}
    excludes: ClassVar = _OF_THE_OTHER_DESIGN

    def arrange(self, fleet: World) -> None:
        for instance in fleet.instances.values():
            _make_backup_safe(instance)
            _back_up(fleet, 0.4, instance)


class StaleInnodbHeader(Negative):
    """Servers without the variable: the header is stale, so the utility takes the binlog lock."""

    name = "stale_innodb_header"
    text = (
        "the InnoDB header lacks non-transactional updates: the server has no "
        "have_backup_safe_binlog_info"
    )
    options: ClassVar = {"writes_per_second": 15.0}
    excludes: ClassVar = _OF_THE_OTHER_DESIGN

    def arrange(self, fleet: World) -> None:
        for instance in fleet.instances.values():
            instance[InnodbHeader].updates = HeaderUpdates.INNODB_COMMITS
            _back_up(fleet, 0.4, instance)


class BinlogLockHeldLong(Negative):
    """Case 2: the positions of replicas are wanted; finishing the redo copy takes long."""

    name = "binlog_lock_held_long"
    text = "commits, receivers and appliers wait while a backup finishes its copy of the redo"
    options: ClassVar = {"topology": "pair", "writes_per_second": 15.0}
    excludes: ClassVar = _OF_THE_OTHER_DESIGN

    def arrange(self, fleet: World) -> None:
        options = Options(slave_info=True, finish_redo_us=_LONG_US)
        for instance in fleet.instances.values():
            _make_backup_safe(instance)
            if instance[ChannelMap].channels:
                _back_up(fleet, 0.3, instance, options)


class GaleraSnapshot(Negative):
    """Case 3: a node with GTIDs sends its last binary log file along."""

    name = "galera_snapshot"
    text = "a node's last binary log file is copied while clients wait to commit"
    options: ClassVar = {"writes_per_second": 15.0}
    excludes: ClassVar = _OF_THE_OTHER_DESIGN

    def arrange(self, fleet: World) -> None:
        for instance in fleet.instances.values():
            _make_backup_safe(instance)
            instance[GaleraNode] = GaleraNode()
            _back_up(fleet, 0.5, instance)


class BackupSessionKilled(Negative):
    """The session of a backup is killed, or its server goes down, while it holds its locks."""

    name = "backup_session_killed"
    text = "a backup ends in the middle: the server releases its locks, nobody unlocks"
    options: ClassVar = {"writes_per_second": 15.0}
    excludes: ClassVar = _OF_THE_OTHER_DESIGN

    def arrange(self, fleet: World) -> None:
        for number, instance in enumerate(fleet.instances.values()):
            _make_backup_safe(instance)
            _back_up(fleet, 0.3, instance, Options(slave_info=True, finish_redo_us=_LONG_US))
            act = backup_locks.end_all if number % 2 else lifecycle.shut_down
            fleet.schedule(time_at(fleet, 0.3) + 650_000, instance, act, instance)


def _back_up(fleet: World, share: float, instance: Instance, options: Options = DEFAULTS) -> None:
    """Run the utility when a share of the load's time has passed."""
    fleet.clock.schedule(time_at(fleet, share), None, BackupUtility(fleet, instance, options).begin)


def _make_backup_safe(instance: Instance) -> None:
    """A server whose table lock writes the header."""
    administration.set_variables(instance, **{VARIABLE: True})
