"""Faults of backups of which a step is left out (WL#3576, and Percona's backup locks)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.backup import backup_protocol, backup_synchronization
from tallystick.producers.simulator.backup.backup_synchronization import BackupSynchronization
from tallystick.producers.simulator.backup.backup_utility import BackupUtility, Options
from tallystick.producers.simulator.backup.engine_locking import ENGINES, TIMEOUT_US, Engine
from tallystick.producers.simulator.faults.fault import FaultGroup
from tallystick.producers.simulator.faults.journal import JournalFault
from tallystick.producers.simulator.faults.logs import pure_source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

_AGAIN_US: Final = 60_000


class _StepLeftOut(JournalFault):
    """A backup of one server, taken again until the step that it leaves out was demanded."""

    group = FaultGroup.PROTOCOL
    engines: ClassVar[tuple[Engine, ...]] = ENGINES

    def __init__(self) -> None:
        super().__init__()
        self._has_begun = False

    def on_fleet(self, fleet: World) -> None:
        """Begin when the fault is due."""
        super().on_fleet(fleet)
        self._server = pure_source(fleet)
        fleet.clock.schedule(fleet.fault_at, None, self._begin, fleet)

    def _begin(self, fleet: World) -> None:
        instance = self._server
        if instance.is_running and fleet.now >= instance.blocked_until:
            self._has_begun = True
            self.back_up(fleet, instance)
        else:
            fleet.clock.schedule(fleet.now + _AGAIN_US, None, self._begin, fleet)

    def back_up(self, fleet: World, instance: Instance) -> None:
        """A validity point of all engines."""
        if instance.get(BackupSynchronization) is None:
            backup_synchronization.install(fleet, instance)
        backup_protocol.begin(fleet, instance, self.engines, at_end=lambda _: self.ended(fleet))

    def ended(self, fleet: World) -> None:
        """The backup is over."""
        if not self.injected:
            fleet.clock.schedule(fleet.now + _AGAIN_US, None, self._begin, fleet)

    def on_server_record(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Leave the step out."""
        if not self._has_begun or not self.leaves_out(record_type, body):
            return body
        if not self.injected:
            self.mark_in(instance_id)
        return None

    def leaves_out(self, record_type: RecordType, body: Mapping[str, Any]) -> bool:
        """Whether this record is of the step."""
        raise NotImplementedError


class ZoneNotWaited(_StepLeftOut):
    """A backup closes the zone and goes on at once, though the one before has waited."""

    number = 163
    name = "zone_not_waited"
    text = "a backup does not wait until its closed zone is empty"
    must_fire = frozenset({"zone_steps_complete"})

    def __init__(self) -> None:
        super().__init__()
        self._has_waited = False

    def leaves_out(self, record_type: RecordType, body: Mapping[str, Any]) -> bool:
        """The second wait."""
        is_wait = record_type is RecordType.ZONE and body["step"] == "wait"
        has_waited, self._has_waited = self._has_waited, self._has_waited or is_wait
        return is_wait and has_waited


class EngineLeftUnlocked(_StepLeftOut):
    """NDB is prelocked and forgotten."""

    number = 164
    name = "engine_left_unlocked"
    text = "a backup takes its validity point with one engine unlocked"
    must_fire = frozenset({"engine_lock_steps_complete"})

    def leaves_out(self, record_type: RecordType, body: Mapping[str, Any]) -> bool:
        """Its lock."""
        is_lock = record_type is RecordType.ENGINE_LOCK and body["step"] == "lock"
        return is_lock and body["engine"] == "ndb"


class RoundNotBegunAnew(_StepLeftOut):
    """After a round that failed the engines are locked once more, and no round says so."""

    number = 266
    name = "engine_round_not_begun_anew"
    text = "a backup locks its engines again after a time-out without beginning another round"
    must_fire = frozenset({"engine_lock_steps_complete"})
    engines = (*ENGINES[:-2], Engine("innodb", waits_us=(2 * TIMEOUT_US,)), ENGINES[-1])

    def leaves_out(self, record_type: RecordType, body: Mapping[str, Any]) -> bool:
        """The beginning of the second round."""
        return record_type is RecordType.ENGINE_LOCK and body["step"] == "retry"


class MetadataNeverLocked(_StepLeftOut):
    """Metadata operations go on during the backup."""

    number = 165
    name = "metadata_never_locked"
    text = "a backup takes its validity point without the instance lock"
    must_fire = frozenset({"metadata_lock_steps_complete"})

    def leaves_out(self, record_type: RecordType, body: Mapping[str, Any]) -> bool:
        """Lock and unlock."""
        return record_type is RecordType.BACKUP_LOCK and body["lock"] == "instance"


class TablesNeverLocked(_StepLeftOut):
    """The utility relies on the binlog lock alone."""

    number = 166
    name = "tables_never_locked"
    text = "a backup copies tables without LOCK TABLES FOR BACKUP"
    must_fire = frozenset({"backup_lock_steps_complete"})

    def back_up(self, fleet: World, instance: Instance) -> None:
        """A backup with backup locks."""
        options = Options(lock_binlog=True)
        BackupUtility(fleet, instance, options, lambda _: self.ended(fleet)).begin()

    def leaves_out(self, record_type: RecordType, body: Mapping[str, Any]) -> bool:
        """Lock and unlock."""
        return record_type is RecordType.BACKUP_LOCK and body["lock"] == "tables"
