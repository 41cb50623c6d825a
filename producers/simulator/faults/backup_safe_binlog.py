"""Faults of backup locks, of the InnoDB header, and of backups that trust what they must not."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.binlog import parse_log_file_name
from tallystick.producers.simulator.backup import backup_locks
from tallystick.producers.simulator.backup.backup_utility import (
    HEADER,
    Backup,
    BackupUtility,
    Options,
)
from tallystick.producers.simulator.backup.galera_node import GaleraNode
from tallystick.producers.simulator.backup.lock_state import BINLOG, TABLES, BackupLocks
from tallystick.producers.simulator.faults.fault import BaseHistory, Fault
from tallystick.producers.simulator.faults.logs import first_replica, groups_between, pure_source
from tallystick.producers.simulator.innodb.header import VARIABLE, HeaderUpdates, InnodbHeader
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.server import administration, clients, commit
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap
from tallystick.producers.simulator.server.clients import Clients
from tallystick.producers.simulator.server.commit_queue import CommitQueue

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import LoggedGroup
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel, QueuedGroup

_SESSION: Final = 9
_HOLD_US: Final = 20_000
_RETRY_US: Final = 100_000
_LONG_US: Final = 400_000


class _OnQuietServer(Fault):
    """Something that begins on a source when nobody is between the stages of a commit there."""

    def on_fleet(self, fleet: World) -> None:
        """Begin when the fault is due."""
        instance = pure_source(fleet)
        fleet.schedule(fleet.fault_at, instance, self._wait, instance)

    def _wait(self, fleet: World, instance: Instance) -> None:
        if (
            not instance.is_running
            or instance[CommitQueue].in_commit
            or instance[BinaryLog].rotation_is_due
        ):
            fleet.schedule(fleet.now + 1_000, instance, self._wait, instance)
            return
        self.begin(fleet, instance)

    def begin(self, fleet: World, instance: Instance) -> None:
        """Nothing is under way."""
        raise NotImplementedError


class _LockIgnored(_OnQuietServer):
    """A session holds backup locks, and a group is committed all the same."""

    locks: tuple[str, ...]
    kind: GroupKind

    def begin(self, fleet: World, instance: Instance) -> None:
        """Take the locks, write as if there were none, release them in reverse."""
        self.mark(fleet, instance)
        take = {TABLES: backup_locks.lock_tables, BINLOG: backup_locks.lock_binlog}
        for lock in self.locks:
            take[lock](fleet, instance, _SESSION, _nothing)
        state = instance[BackupLocks]
        stopped = state.stops_changes, state.stops_coordinates
        state.stops_changes = state.stops_coordinates = False
        if self.kind is GroupKind.DDL:
            # The binary log alone does not show that it is DDL.
            body = {"engine": "innodb", "type": "ddl", "binlogged": True}
            instance.journal.record(RecordType.STATEMENT, body)
        clients.write(fleet, instance, self.kind)
        state.stops_changes, state.stops_coordinates = stopped
        end = partial(backup_locks.end_session, fleet, instance, _SESSION)
        fleet.clock.schedule(fleet.now + _HOLD_US, instance, end)


class CommitUnderBinlogLock(_LockIgnored):
    """A client commits under LOCK BINLOG FOR BACKUP."""

    number = 91
    name = "commit_under_binlog_lock"
    text = "a group is committed under LOCK BINLOG FOR BACKUP"
    must_fire = frozenset({"backup_locks_freeze_scope"})
    locks = (TABLES, BINLOG)
    kind = GroupKind.INNODB


class DdlUnderTableLock(_LockIgnored):
    """A definition changes under LOCK TABLES FOR BACKUP."""

    number = 92
    name = "ddl_under_table_lock"
    text = "a DDL statement is executed under LOCK TABLES FOR BACKUP"
    must_fire = frozenset({"backup_locks_freeze_scope"})
    locks = (TABLES,)
    kind = GroupKind.DDL


class _ReplicaGoesOn(Fault):
    """The binlog lock is taken where a thread of replication has passed the check already."""

    base = BaseHistory.REPLICA

    def take_lock(self, fleet: World, replica: Instance) -> None:
        """Take the lock on a replica where nobody is between the stages of a commit."""
        locks = replica[BackupLocks]
        if (
            not self.is_due(fleet)
            or replica[CommitQueue].in_commit
            or replica[BinaryLog].rotation_is_due
            or locks.requests
        ):
            return
        self.mark(fleet, replica)
        backup_locks.lock_binlog(fleet, replica, _SESSION, _nothing)
        end = partial(backup_locks.end_session, fleet, replica, _SESSION)
        fleet.clock.schedule(fleet.now + _HOLD_US, replica, end)


class ApplierMovesUnderBinlogLock(_ReplicaGoesOn):
    """The applier executes a group, and the position executed moves with it."""

    number = 93
    name = "applier_moves_under_binlog_lock"
    text = "an applier executes a group under LOCK BINLOG FOR BACKUP"
    must_fire = frozenset({"backup_locks_freeze_scope"})

    def on_apply(self, fleet: World, channel: Channel, queued: QueuedGroup) -> bool:
        """Lock before a group that the applier has already begun."""
        self.take_lock(fleet, channel.replica)
        return True


class ReceiverMovesUnderBinlogLock(_ReplicaGoesOn):
    """The receiver queues a group, and the position read moves with it."""

    number = 94
    name = "receiver_moves_under_binlog_lock"
    text = "a receiver queues a group under LOCK BINLOG FOR BACKUP"
    must_fire = frozenset({"backup_locks_freeze_scope"})

    def on_queue(self, fleet: World, channel: Channel, logged: LoggedGroup) -> bool:
        """Lock before a group that the receiver has already got."""
        self.take_lock(fleet, channel.replica)
        return True


class _UnsafeBackup(_OnQuietServer):
    """A backup of a server to which nothing but InnoDB transactions are written meanwhile.

    Attributes:
        options: Of the utility.
    """

    options = Options()

    def begin(self, fleet: World, instance: Instance) -> None:
        """Run the utility."""
        self.prepare(fleet, instance)
        finished = partial(self._finished, fleet, instance)
        BackupUtility(fleet, instance, self.options, finished).begin()

    def prepare(self, fleet: World, instance: Instance) -> None:
        """What the server is like, and what it has done last."""
        self.mark(fleet, instance)

    def _finished(self, fleet: World, instance: Instance, backup: Backup) -> None:
        """The backup is complete."""


class TableLockWithoutHeader(_UnsafeBackup):
    """LOCK TABLES FOR BACKUP does not write the coordinates into the header."""

    number = 95
    name = "table_lock_without_header"
    text = "LOCK TABLES FOR BACKUP leaves the InnoDB header stale on a backup-safe server"
    must_fire = frozenset({"backup_coordinates_match_data", "trx_sys_coords_fresh_under_lock"})
    options = Options(lock_binlog=False)

    def prepare(self, fleet: World, instance: Instance) -> None:
        """The last update is not one of InnoDB; clients pause."""
        super().prepare(fleet, instance)
        administration.set_variables(instance, **{VARIABLE: True})
        _write_last(fleet, instance)

    def on_header_flush(self, fleet: World, instance: Instance) -> bool:
        """Leave the header as it is."""
        return not self.injected

    def _finished(self, fleet: World, instance: Instance, backup: Backup) -> None:
        instance[Clients].writes = True


class StaleHeaderTrusted(_UnsafeBackup):
    """A utility does not ask for the variable."""

    number = 96
    name = "stale_header_trusted"
    text = "a backup takes its coordinates from the header of a server that is not backup-safe"
    must_fire = frozenset({"backup_coordinates_match_data", "backup_lock_steps_complete"})
    options = Options(lock_binlog=False, coordinates_from=HEADER)

    def prepare(self, fleet: World, instance: Instance) -> None:
        """A server before 8.0; the last update is not one of InnoDB; clients pause."""
        super().prepare(fleet, instance)
        instance[InnodbHeader].updates = HeaderUpdates.INNODB_COMMITS
        _write_last(fleet, instance)

    def _finished(self, fleet: World, instance: Instance, backup: Backup) -> None:
        instance[Clients].writes = True


class UnlockedInWrongOrder(_UnsafeBackup):
    """UNLOCK TABLES comes first."""

    number = 99
    name = "backup_unlocked_in_wrong_order"
    text = "a backup executes UNLOCK TABLES before UNLOCK BINLOG"
    must_fire = frozenset({"backup_lock_protocol"})
    options = Options(lock_binlog=True, unlocks=(TABLES, BINLOG))


class LockLeftBehind(_UnsafeBackup):
    """UNLOCK TABLES does not come; the server releases the lock with the session."""

    number = 100
    name = "backup_lock_left_behind"
    text = "a backup ends without UNLOCK TABLES"
    must_fire = frozenset({"backup_lock_protocol"})
    options = Options(lock_binlog=True, unlocks=(BINLOG,))


class LockedInWrongOrder(_OnQuietServer):
    """LOCK BINLOG FOR BACKUP, then LOCK TABLES FOR BACKUP."""

    number = 101
    name = "backup_locked_in_wrong_order"
    text = "a session takes LOCK TABLES FOR BACKUP under LOCK BINLOG FOR BACKUP"
    must_fire = frozenset({"backup_lock_protocol"})

    def begin(self, fleet: World, instance: Instance) -> None:
        """Nobody holds a table now, so nobody waits for anybody."""
        self.mark(fleet, instance)
        backup_locks.lock_binlog(fleet, instance, _SESSION, _nothing)
        backup_locks.lock_tables(fleet, instance, _SESSION, _nothing)
        end = partial(backup_locks.end_session, fleet, instance, _SESSION)
        fleet.clock.schedule(fleet.now + _HOLD_US, instance, end)


class SnapshotFileWithoutLock(_UnsafeBackup):
    """A node's last binary log file is copied while clients commit."""

    number = 98
    name = "snapshot_file_without_binlog_lock"
    text = "a snapshot copies the last binary log file without the binlog lock while clients commit"
    must_fire = frozenset({"backup_binlog_copy_matches_data", "backup_lock_steps_complete"})
    options = Options(lock_binlog=False)

    def prepare(self, fleet: World, instance: Instance) -> None:
        """A node whose header is right, and clients that write to InnoDB."""
        fleet.pace.kinds = (GroupKind.INNODB,)
        administration.set_variables(instance, **{VARIABLE: True})
        instance[GaleraNode] = GaleraNode()
        for step in range(12):
            moment = fleet.now + step * _LONG_US // 8
            fleet.schedule(moment, instance, _write_to_innodb, instance)

    def _finished(self, fleet: World, instance: Instance, backup: Backup) -> None:
        """Once more, if nothing was committed in time."""
        instance.remove(GaleraNode)
        copy = backup.binlog_copy
        assert copy is not None
        name, position = backup.coordinates
        low = parse_log_file_name(name)[1], position
        if groups_between(instance, low, (copy.file.number, copy.position)):
            self.mark(fleet, instance)
            return
        fleet.schedule(fleet.now + _RETRY_US, instance, self._wait, instance)


class ReplicaPositionWithoutLock(Fault):
    """SHOW SLAVE STATUS is read while the applier runs; the copy of the redo ends later."""

    number = 97
    name = "replica_position_without_binlog_lock"
    text = "a backup reads SHOW SLAVE STATUS without the binlog lock while the applier runs"
    must_fire = frozenset({"backup_replica_coordinates_match_data", "backup_lock_steps_complete"})
    base = BaseHistory.REPLICA

    def on_fleet(self, fleet: World) -> None:
        """Begin when the fault is due."""
        fleet.schedule(fleet.fault_at, None, self._begin)

    def _begin(self, fleet: World) -> None:
        fleet.pace.kinds = (GroupKind.INNODB,)
        replica = first_replica(fleet)
        administration.set_variables(replica, **{VARIABLE: True})
        for channel in replica[ChannelMap].channels.values():
            for step in range(12):
                moment = fleet.now + step * _LONG_US // 8
                fleet.schedule(moment, channel.source, _write_to_source, channel.source)
        options = Options(slave_info=True, lock_binlog=False, finish_redo_us=_LONG_US)
        BackupUtility(fleet, replica, options, partial(self._finished, fleet, replica)).begin()

    def _finished(self, fleet: World, replica: Instance, backup: Backup) -> None:
        """Once more, if the applier did not move by chance."""
        if backup.applied_since:
            self.mark(fleet, replica)
            return
        fleet.schedule(fleet.now + _RETRY_US, None, self._begin)


def _nothing() -> None:
    """The session does nothing with its lock."""


def _write_last(fleet: World, instance: Instance) -> None:
    """An InnoDB transaction writes the header, then another engine changes and clients pause."""
    instance[Clients].writes = False
    clients.write(fleet, instance, GroupKind.INNODB)
    clients.write(fleet, instance, GroupKind.NON_TRANSACTIONAL)
    commit.finish_all(fleet, instance)


def _write_to_innodb(fleet: World, instance: Instance) -> None:
    if instance.is_running:
        clients.write(fleet, instance, GroupKind.INNODB)


def _write_to_source(fleet: World, source: Instance) -> None:
    """Write where clients do; what a source in the middle of a chain logs comes from there."""
    while source[ChannelMap].channels and not source[Clients].writes:
        source = next(iter(source[ChannelMap].channels.values())).source
    _write_to_innodb(fleet, source)
