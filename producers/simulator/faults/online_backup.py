"""Faults of online backups (WL#3576): what slips through zone, engine locks and blocked metadata.

Each runs a backup on one server when it is due; up to then the server has no critical zone.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.backup import engine_locking
from tallystick.producers.simulator.backup.backup_protocol import Backup
from tallystick.producers.simulator.backup.backup_synchronization import BackupSynchronization
from tallystick.producers.simulator.backup.engine_locking import ENGINES, Engine, EngineLocks
from tallystick.producers.simulator.backup.tables import table_of
from tallystick.producers.simulator.faults.fault import BaseHistory, Fault
from tallystick.producers.simulator.faults.logs import first_replica, pure_source
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.server import administration, clients, commit, workload
from tallystick.producers.simulator.server.channels import ChannelMap

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.backup.threads import Thread
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group
    from tallystick.producers.simulator.kernel.world import World

_SECOND_US: Final = 1_000_000
_AGAIN_US: Final = 60_000
_TIMES_OUT: Final = (
    Engine("myisam", waits_us=(_SECOND_US,)),
    Engine("ndb", waits_us=(60_000_000,)),
)
_SLOW_FIRST: Final = (Engine("myisam", waits_us=(_SECOND_US,)), *ENGINES[1:])


class _BackupFault(Fault):
    """A backup of one server with the fault in it, repeated until it shows."""

    engines: tuple[Engine, ...] = ()
    rounds_max: int = engine_locking.ROUNDS_MAX

    def on_fleet(self, fleet: World) -> None:
        """Begin when the fault is due."""
        self.server = self.choose(fleet)
        fleet.schedule(fleet.fault_at, None, self._begin)

    def choose(self, fleet: World) -> Instance:
        """The server that is backed up."""
        return pure_source(fleet)

    def _begin(self, fleet: World) -> None:
        instance = self.server
        is_free = instance.is_running and instance.get(Backup) is None
        if not is_free or fleet.now < instance.blocked_until:
            self._again(fleet)
            return
        if instance.get(BackupSynchronization) is None:
            rng = Random(f"critical zone {fleet.scenario.seed} {self.name}")
            instance[BackupSynchronization] = self.make_synchronization(fleet, instance, rng)
        instance[Backup] = self.make_backup(fleet, instance, instance[BackupSynchronization])
        instance[Backup].begin()
        self.act(fleet, instance)

    def make_synchronization(
        self, fleet: World, instance: Instance, rng: Random
    ) -> BackupSynchronization:
        """The zone of the server."""
        del fleet
        return BackupSynchronization(instance, rng)

    def make_backup(
        self, fleet: World, instance: Instance, synchronization: BackupSynchronization
    ) -> Backup:
        """The backup."""
        return Backup(
            fleet,
            instance,
            synchronization,
            self.engines,
            lambda: self.at_validity_point(fleet, instance),
            lambda _: self._end(fleet, instance, synchronization),
            self.rounds_max,
        )

    def act(self, fleet: World, instance: Instance) -> None:
        """What clients do while the zone is closed."""

    def at_validity_point(self, fleet: World, instance: Instance) -> None:
        """All engines are locked, nobody is inside."""

    def at_end(
        self, fleet: World, instance: Instance, synchronization: BackupSynchronization
    ) -> None:
        """The backup is over, the zone is open."""

    def _end(
        self, fleet: World, instance: Instance, synchronization: BackupSynchronization
    ) -> None:
        self.at_end(fleet, instance, synchronization)
        if not self.injected:
            self._again(fleet)

    def _again(self, fleet: World) -> None:
        fleet.schedule(fleet.now + _AGAIN_US, None, self._begin)


class ZoneOpenedTwice(_BackupFault):
    """Two owners of one backup, each of which opens the zone."""

    number = 102
    name = "zone_opened_twice"
    text = "a commit zone that is open already is opened again"
    must_fire = frozenset({"zone_entry_protocol"})

    def at_end(
        self, fleet: World, instance: Instance, synchronization: BackupSynchronization
    ) -> None:
        """Open what is open."""
        self.mark(fleet, instance)
        synchronization.record("open")


class TicketDroppedTwice(_BackupFault):
    """A copied ticket: its destructor does not know of the drop by hand."""

    number = 103
    name = "ticket_dropped_twice"
    text = "a ticket of the commit zone is dropped by hand and again by its destructor"
    must_fire = frozenset({"zone_entry_protocol"})

    def at_end(
        self, fleet: World, instance: Instance, synchronization: BackupSynchronization
    ) -> None:
        """Enter, leave, leave."""
        self.mark(fleet, instance)
        ticket = synchronization.zone.enter("fault", lambda: None)
        assert ticket is not None
        ticket.drop()
        synchronization.record("drop", ticket=ticket.number)


class _Careless(BackupSynchronization):
    """A server on which one thread decides wrongly whether it takes part."""

    fault: _PassesZone
    fleet: World

    def execute(
        self, thread: Thread, run: Callable[[Thread], Any], go_on: Callable[[], None]
    ) -> bool:
        """Leave the zone to the others, once: while it is closed."""
        if self.is_on and self.participates(thread.tables) and not self.fault.injected:
            self.fault.mark(self.fleet, self.instance)
            thread.enter_zone = False
        return super().execute(thread, run, go_on)


class _PassesZone(_BackupFault):
    """Flag enter_zone is false for a thread that changes a table which is backed up."""

    def make_synchronization(
        self, fleet: World, instance: Instance, rng: Random
    ) -> BackupSynchronization:
        """One that lets a thread pass by."""
        synchronization = _Careless(instance, rng)
        synchronization.fault, synchronization.fleet = self, fleet
        return synchronization

    def source(self, instance: Instance) -> Instance:
        """Where clients write what passes the zone."""
        raise NotImplementedError

    def act(self, fleet: World, instance: Instance) -> None:
        """A client writes."""
        source = self.source(instance)
        if source.is_running:
            fleet.schedule(fleet.now + 1, source, _write, source)


class ParticipantPassesZone(_PassesZone):
    """A client's statement."""

    number = 104
    name = "participant_passes_zone"
    text = "a client logs a change of a backed-up table past the closed zone"
    must_fire = frozenset({"critical_sequence_in_zone"})

    def source(self, instance: Instance) -> Instance:
        """The server itself."""
        return instance


class ApplierPassesZone(_PassesZone):
    """The SQL thread heeds the zone as little as it did the global read lock."""

    number = 105
    name = "applier_passes_zone"
    text = "an applier logs a change of a backed-up table past the closed zone"
    must_fire = frozenset({"critical_sequence_in_zone"})
    base = BaseHistory.REPLICA

    def choose(self, fleet: World) -> Instance:
        """A replica that replicates."""
        return first_replica(fleet)

    def at_end(
        self, fleet: World, instance: Instance, synchronization: BackupSynchronization
    ) -> None:
        """A metadata change may have stopped the applier meanwhile."""
        administration.restart_appliers(fleet, instance)

    def source(self, instance: Instance) -> Instance:
        """The source of its first channel."""
        return instance[ChannelMap].configured[0].source


class _LeavesEarly(BackupSynchronization):
    """A server on which one thread thinks that it is done when it has committed."""

    fault: TablesUnlockedOutsideZone
    fleet: World

    def record_sequence(self, step: str, thread: Thread) -> None:
        """Drop the ticket too early, once, while no backup waits for it."""
        is_invisible = thread.group.kind is GroupKind.NON_TRANSACTIONAL
        is_to_leave = step == "unlock_tables" and is_invisible and self.zone.is_open
        if is_to_leave and thread.ticket and not self.fault.injected:
            self.fault.mark(self.fleet, self.instance)
            thread.ticket.drop()
        super().record_sequence(step, thread)


class TablesUnlockedOutsideZone(_BackupFault):
    """The critical sequence ends with the commit, as it would for InnoDB."""

    number = 106
    name = "tables_unlocked_outside_zone"
    text = "a thread leaves the zone before a non-transactional change is made visible"
    must_fire = frozenset({"critical_sequence_in_zone"})

    def make_synchronization(
        self, fleet: World, instance: Instance, rng: Random
    ) -> BackupSynchronization:
        """One that lets a thread leave early."""
        synchronization = _LeavesEarly(instance, rng)
        synchronization.fault, synchronization.fleet = self, fleet
        return synchronization

    def act(self, fleet: World, instance: Instance) -> None:
        """A client changes a MyISAM table."""
        clients.write(fleet, instance, GroupKind.NON_TRANSACTIONAL)


class _ImpatientBackup(Backup):
    """A backup that does not end, or does not sleep, when its engines cannot be locked."""

    fault: _EnginesTimeOut

    def sleep_or_bail_out(self) -> None:
        """Do what the fault does instead."""
        self.fault.mark(self.fleet, self.instance)
        self.fault.go_on(self)


class _EnginesTimeOut(_BackupFault):
    """A backup whose engines can never be locked in time."""

    engines = _TIMES_OUT

    def make_backup(
        self, fleet: World, instance: Instance, synchronization: BackupSynchronization
    ) -> Backup:
        """One that goes on as the fault wants it."""
        backup = _ImpatientBackup(
            fleet,
            instance,
            synchronization,
            self.engines,
            _nothing,
            lambda _: None,
            self.rounds_max,
        )
        backup.fault = self
        return backup

    def go_on(self, backup: Backup) -> None:
        """What the backup does after a round that failed."""
        raise NotImplementedError


class EngineLocksRetriedTooEarly(_EnginesTimeOut):
    """The server is stalled again before it has caught up."""

    number = 107
    name = "engine_locks_retried_too_early"
    text = "engine locking is retried one second after it gave up"
    must_fire = frozenset({"engine_lock_budget"})
    rounds_max = 3

    def go_on(self, backup: Backup) -> None:
        """Try again in a second."""
        backup.synchronization.open()
        backup.later(_SECOND_US, backup.synchronise)


class EngineLocksAfterBailOut(_EnginesTimeOut):
    """The operator believes that there is no backup, and commits wait for it."""

    number = 108
    name = "engine_locks_after_bail_out"
    text = "a backup that has bailed out locks its engines once more"
    must_fire = frozenset({"engine_lock_budget"})
    rounds_max = 2

    def go_on(self, backup: Backup) -> None:
        """Say that it bails out, and do not."""
        backup.locks.abort(backup.round_number)
        backup.round_number += 1
        backup.lock_engines()


class _GenerousLocks(EngineLocks):
    """Engine locks that do not count what is used up."""

    def time_left(self, end_max: int) -> int:
        """Always everything."""
        del end_max
        return engine_locking.TIMEOUT_US


class WholeTimeOutForEachEngine(_BackupFault):
    """Four engines may take four times the time."""

    number = 109
    name = "whole_time_out_for_each_engine"
    text = "every engine is given the whole time-out, not what the others left of it"
    must_fire = frozenset({"engine_lock_budget"})
    engines = _SLOW_FIRST

    def make_backup(
        self, fleet: World, instance: Instance, synchronization: BackupSynchronization
    ) -> Backup:
        """One that is generous."""
        backup = super().make_backup(fleet, instance, synchronization)
        locks = backup.locks
        backup.locks = _GenerousLocks(
            fleet, instance, locks.engines, locks.rounds_max, locks.is_alive
        )
        return backup

    def at_validity_point(self, fleet: World, instance: Instance) -> None:
        """It shows by now."""
        self.mark(fleet, instance)


class GroupLoggedInLockedBinlog(_BackupFault):
    """A writer of the binary log that does not take its mutex."""

    number = 110
    name = "group_logged_in_locked_binlog"
    text = "a group is logged while the binary log is locked as one of the engines"
    must_fire = frozenset({"locked_engines_stand_still"})
    engines = ENGINES

    def at_validity_point(self, fleet: World, instance: Instance) -> None:
        """Log a change of a table that is not backed up, which needs no ticket."""
        self.mark(fleet, instance)
        group = _outsider(fleet, instance)
        synchronization, instance[BackupSynchronization] = instance.get(BackupSynchronization), None
        commit.commit(fleet, instance, group)
        instance[BackupSynchronization] = synchronization


class ClusterCommitsInLockedEngine(_BackupFault):
    """The lock of NDB holds for this server only."""

    number = 111
    name = "cluster_commits_in_locked_engine"
    text = "another member of the cluster changes NDB while the backup has it locked"
    must_fire = frozenset({"locked_engines_stand_still"})
    engines = ENGINES

    def at_validity_point(self, fleet: World, instance: Instance) -> None:
        """Another member commits."""
        self.mark(fleet, instance)
        body = {"engine": "ndb", "type": "dml", "binlogged": False}
        instance.journal.record(RecordType.STATEMENT, body)


class DdlDuringBackup(_BackupFault):
    """A DDL that does not ask for the lock."""

    number = 112
    name = "ddl_during_backup"
    text = "a DDL is executed and logged while a backup blocks metadata operations"
    must_fire = frozenset({"no_metadata_change_during_backup"})
    engines = ENGINES

    def act(self, fleet: World, instance: Instance) -> None:
        """Execute it between begin and validity point."""
        self.mark(fleet, instance)
        commit.commit(fleet, instance, _group(fleet, instance, GroupKind.DDL))


def _write(fleet: World, instance: Instance) -> None:
    if instance.is_running:
        clients.write(fleet, instance)


def _nothing() -> None:
    """No position is stored."""


def _group(fleet: World, instance: Instance, kind: GroupKind) -> Group:
    return workload.make_group(fleet.rng, kind, instance.server_id, fleet.now)


def _outsider(fleet: World, instance: Instance) -> Group:
    while True:
        group = _group(fleet, instance, GroupKind.INNODB)
        table = table_of(group)
        if table is not None and not table.is_backed_up:
            return group
