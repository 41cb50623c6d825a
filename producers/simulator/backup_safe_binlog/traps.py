"""Traps of backup locks: backups that are right, though they look as if something went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.producers.simulator import administration
from tallystick.producers.simulator.backup_safe_binlog import backup_locks
from tallystick.producers.simulator.backup_safe_binlog.backup_utility import (
    DEFAULTS,
    BackupUtility,
    Options,
)
from tallystick.producers.simulator.backup_safe_binlog.galera_node import GaleraNode
from tallystick.producers.simulator.backup_safe_binlog.innodb_header import VARIABLE
from tallystick.producers.simulator.backup_safe_binlog.lock_state import HeaderUpdates
from tallystick.producers.simulator.trap import Trap

if TYPE_CHECKING:
    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.model import Instance

_LONG_US = 700_000


def _at(fleet: Fleet, share: float, instance: Instance, options: Options = DEFAULTS) -> None:
    """Run the utility when a share of the load's time has passed."""
    moment = fleet.start_ts + int(share * (fleet.load_ends_at - fleet.start_ts))
    fleet.clock.schedule(moment, None, BackupUtility(fleet, instance, options).begin)


def make_backup_safe(instance: Instance) -> None:
    """A server whose table lock writes the header."""
    administration.set_variables(instance, **{VARIABLE: True})


def back_up_without_binlog_lock(fleet: Fleet) -> None:
    """Case 1 on backup-safe servers: commits go on, the header runs ahead of the table lock."""
    for instance in fleet.instances.values():
        make_backup_safe(instance)
        _at(fleet, 0.4, instance)


def back_up_with_stale_headers(fleet: Fleet) -> None:
    """Servers without the variable: the header is stale, so the utility takes the binlog lock."""
    for instance in fleet.instances.values():
        instance.header_updates = HeaderUpdates.INNODB_COMMITS
        _at(fleet, 0.4, instance)


def back_up_replicas(fleet: Fleet) -> None:
    """Case 2: the positions of replicas are wanted; finishing the redo copy takes long."""
    options = Options(slave_info=True, finish_redo_us=_LONG_US)
    for instance in fleet.instances.values():
        make_backup_safe(instance)
        if instance.channels:
            _at(fleet, 0.3, instance, options)


def send_snapshots(fleet: Fleet) -> None:
    """Case 3: a node with GTIDs sends its last binary log file along."""
    for instance in fleet.instances.values():
        make_backup_safe(instance)
        instance.galera = GaleraNode()
        _at(fleet, 0.5, instance)


def kill_backups(fleet: Fleet) -> None:
    """The session of a backup is killed, or its server goes down, while it holds its locks."""
    for number, instance in enumerate(fleet.instances.values()):
        make_backup_safe(instance)
        _at(fleet, 0.3, instance, Options(slave_info=True, finish_redo_us=_LONG_US))
        moment = fleet.start_ts + int(0.3 * (fleet.load_ends_at - fleet.start_ts)) + 650_000
        act = backup_locks.end_all if number % 2 else administration.shut_down
        fleet.schedule(moment, instance, act, instance)


TRAPS: tuple[Trap, ...] = (
    Trap(
        "backup_locks",
        "T37",
        "commits go on under LOCK TABLES FOR BACKUP, and the InnoDB header runs ahead of it",
        {"writes_per_second": 20.0},
        back_up_without_binlog_lock,
    ),
    Trap(
        "stale_innodb_header",
        "T30",
        "the InnoDB header is behind non-transactional updates: the server has no "
        "have_backup_safe_binlog_info",
        {"writes_per_second": 15.0},
        back_up_with_stale_headers,
    ),
    Trap(
        "binlog_lock_held_long",
        "T37",
        "commits, receivers and appliers wait while a backup finishes its copy of the redo",
        {"topology": "pair", "writes_per_second": 15.0},
        back_up_replicas,
    ),
    Trap(
        "galera_snapshot",
        "T28",
        "a node's last binary log file is copied while clients wait to commit",
        {"writes_per_second": 15.0},
        send_snapshots,
    ),
    Trap(
        "backup_session_killed",
        "T37",
        "a backup ends in the middle: the server releases its locks, nobody unlocks",
        {"writes_per_second": 15.0},
        kill_backups,
    ),
)
