"""Faults of protocols that a server plays in a moment: commit zone, engine locks, backup locks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.faults.fault import Fault
from tallystick.producers.simulator.faults.logs import groups_between, pure_source
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.commit_queue import CommitQueue

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

_STEP_US: Final = 200
_SECOND_US: Final = 1_000_000


class _Protocol(Fault):
    """A protocol that an instance plays from beginning to end, with the fault in it."""

    def on_fleet(self, fleet: World) -> None:
        """Play it when the fault is due."""
        instance = pure_source(fleet)
        fleet.schedule(fleet.fault_at, instance, self._begin, instance)

    def _begin(self, fleet: World, instance: Instance) -> None:
        if not instance.is_running or instance[CommitQueue].in_commit:
            fleet.schedule(fleet.now + 1_000, instance, self._begin, instance)
            return
        self.mark(fleet, instance)
        self.play(fleet, instance)
        instance.blocked_until = instance.journal.tick(_STEP_US)

    def play(self, fleet: World, instance: Instance) -> None:
        """Write all steps into the journal."""
        raise NotImplementedError


def _step(instance: Instance, record_type: RecordType, **body: Any) -> None:
    instance.journal.tick(_STEP_US)
    instance.journal.record(record_type, body)


class ZoneEnteredWhileClosed(_Protocol):
    """Between validity point and open a ticket is handed out."""

    number = 68
    name = "zone_entered_while_closed"
    text = "a commit zone lets a transaction in after the validity point, before it opens"
    must_fire = frozenset({"zone_entry_protocol"})

    def play(self, fleet: World, instance: Instance) -> None:
        """The second ticket comes too early."""
        _step(instance, RecordType.ZONE, step="enter", ticket=1)
        _step(instance, RecordType.ZONE, step="close")
        _step(instance, RecordType.ZONE, step="wait")
        _step(instance, RecordType.ZONE, step="drop", ticket=1)
        _step(instance, RecordType.ZONE, step="validity_point")
        _step(instance, RecordType.ZONE, step="enter", ticket=2)
        _step(instance, RecordType.ZONE, step="open")
        _step(instance, RecordType.ZONE, step="drop", ticket=2)


class ValidityPointTooEarly(_Protocol):
    """The validity point does not wait for the last ticket."""

    number = 69
    name = "vp_before_zone_empty"
    text = "the validity point is taken while a transaction is still inside the commit zone"
    must_fire = frozenset({"vp_only_in_empty_closed_zone"})

    def play(self, fleet: World, instance: Instance) -> None:
        """The ticket is dropped after the validity point."""
        _step(instance, RecordType.ZONE, step="enter", ticket=1)
        _step(instance, RecordType.ZONE, step="close")
        _step(instance, RecordType.ZONE, step="wait")
        _step(instance, RecordType.ZONE, step="validity_point")
        _step(instance, RecordType.ZONE, step="drop", ticket=1)
        _step(instance, RecordType.ZONE, step="open")


class EngineLockOvertime(_Protocol):
    """The second engine takes three seconds, and nobody gives up."""

    number = 70
    name = "engine_lock_overtime"
    text = "locking the engines takes three seconds and the backup goes on"
    must_fire = frozenset({"engine_lock_budget"})

    def play(self, fleet: World, instance: Instance) -> None:
        """Lock two engines."""
        _step(instance, RecordType.ENGINE_LOCK, step="begin", round=1)
        _step(instance, RecordType.ENGINE_LOCK, step="lock", engine="myisam", round=1)
        instance.journal.tick(3 * _SECOND_US)
        _step(instance, RecordType.ENGINE_LOCK, step="lock", engine="innodb", round=1)
        _step(instance, RecordType.ENGINE_LOCK, step="done", round=1)
        _step(instance, RecordType.ENGINE_LOCK, step="unlock_all", round=1)


class UnloggedWriteUnderLock(_Protocol):
    """SET sql_log_bin = 0 hides a write from the log, not from the tables."""

    number = 71
    name = "unlogged_nontrx_write_under_lock"
    text = "a MyISAM table changes, unlogged, under LOCK TABLES FOR BACKUP"
    must_fire = frozenset({"backup_locks_freeze_scope"})

    def play(self, fleet: World, instance: Instance) -> None:
        """Write between lock and unlock."""
        _step(instance, RecordType.BACKUP_LOCK, step="lock", lock="tables", session=9)
        _step(instance, RecordType.STATEMENT, engine="myisam", type="dml", binlogged=False)
        _step(instance, RecordType.BACKUP_LOCK, step="unlock", lock="tables", session=9)


class HeaderStaleUnderLock(Fault):
    """A collection under LOCK TABLES FOR BACKUP reads old coordinates in the InnoDB header."""

    number = 72
    name = "innodb_header_stale_under_lock"
    text = "under LOCK TABLES FOR BACKUP the InnoDB header names an older group's coordinates"
    must_fire = frozenset({"trx_sys_coords_fresh_under_lock"})

    def __init__(self) -> None:
        super().__init__()
        self._collection = ""

    def on_variables(self, instance_id: str, variables: dict[str, Any]) -> None:
        """Servers that write coordinates into the header under the lock."""
        variables["have_backup_safe_binlog_info"] = True

    def on_collect_step(
        self, fleet: World, instance: Instance, collection_id: str, step: str, resource: str | None
    ) -> bool:
        """Lock tables around one collection."""
        active = instance[BinaryLog].active
        groups = groups_between(instance, (0, 0), (active.number, active.end))
        if (
            step == "enter"
            and self.is_due(fleet)
            and len(groups) >= 2
            and instance[BinaryLog].is_open
        ):
            self.mark(fleet, instance)
            self._collection = collection_id
            file, older = groups[-2]
            instance[Innodb].trx_sys = file.name, older.end
            _step(instance, RecordType.BACKUP_LOCK, step="lock", lock="tables", session=9)
        is_it = instance.instance_id == self.injected_in and collection_id == self._collection
        if is_it and step == "leave":
            _step(instance, RecordType.BACKUP_LOCK, step="unlock", lock="tables", session=9)
        return True
