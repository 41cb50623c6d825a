"""Faults F64 to F76: locks, freezing protocols, clone, the table of GTIDs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.faults.injector import (
    Injector,
    Row,
    RowFault,
    is_pure_source,
    server_text,
)
from tallystick.producers.simulator.faults.tampered_journal import JournalFault
from tallystick.producers.simulator.model import OutOfMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.model import Instance

_SECOND_US: Final = 1_000_000
_STEP_US: Final = 200
_FAR: Final = 1_000


class LockOrderInverted(JournalFault):
    """F64: one collection takes the engine's log first and the binary log last."""

    _SWAPPED: Final = {"binlog": "engine:InnoDB", "engine:InnoDB": "binlog"}

    def __init__(self) -> None:
        super().__init__()
        self._collection = ""

    def on_fact(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Swap both resources in every step of one collection."""
        if record_type is not RecordType.COLLECTION:
            return body
        if body["step"] == "enter" and self.is_due_in(instance_id):
            self.mark_in(instance_id)
            self._collection = body["collection_id"]
        is_it = instance_id == self.injected_in and body["collection_id"] == self._collection
        resource = body.get("resource")
        if not is_it or resource not in self._SWAPPED:
            return body
        return {**body, "resource": self._SWAPPED[resource]}


class LockLeaked(Injector):
    """F65: a collection fails with 3722 and never unlocks the channel map."""

    def __init__(self) -> None:
        super().__init__()
        self._collection = ""

    def on_collect_step(
        self, fleet: Fleet, instance: Instance, collection_id: str, step: str, resource: str | None
    ) -> bool:
        """Let the collection fail; leave out one unlock."""
        if step == "enter" and self.is_due(fleet):
            self.mark(fleet, instance)
            self._collection = collection_id
            instance.out_of_memory = OutOfMemory("collect", "engine:InnoDB")
        is_it = instance.instance_id == self.injected_in and collection_id == self._collection
        return not (is_it and step == "unlock" and resource == "channel_map")


class CommitDuringCollection(Injector):
    """F66: a client commits between the last lock and the first unlock."""

    def on_collect_step(
        self, fleet: Fleet, instance: Instance, collection_id: str, step: str, resource: str | None
    ) -> bool:
        """Commit before the first resource is collected."""
        is_locked = step == "collect" and is_pure_source(instance)
        if is_locked and self.is_due(fleet) and not instance.rotation_is_due:
            self.mark(fleet, instance)
            fleet.write(instance)
        return True


class CollectionTooSlow(Injector):
    """F67: three seconds pass before the first unlock; the instance stands still."""

    def on_collect_step(
        self, fleet: Fleet, instance: Instance, collection_id: str, step: str, resource: str | None
    ) -> bool:
        """Let time pass at the last resource, which is unlocked first."""
        is_first = step == "unlock" and resource == "engine:InnoDB"
        if is_first and self.is_due(fleet):
            self.mark(fleet, instance)
            instance.journal.tick(3 * _SECOND_US)
        return True


class _Protocol(Injector):
    """A protocol that an instance plays from beginning to end, with the fault in it."""

    def on_fleet(self, fleet: Fleet) -> None:
        """Play it when the fault is due."""
        instance = next(i for i in fleet.instances.values() if is_pure_source(i))
        fleet.clock.schedule(fleet.fault_at, instance, self._begin, fleet, instance)

    def _begin(self, fleet: Fleet, instance: Instance) -> None:
        if not instance.is_running or instance.in_commit:
            fleet.clock.schedule(fleet.now + 1_000, instance, self._begin, fleet, instance)
            return
        self.mark(fleet, instance)
        self.play(fleet, instance)
        instance.blocked_until = instance.journal.tick(_STEP_US)

    def play(self, fleet: Fleet, instance: Instance) -> None:
        """Write all steps into the journal."""
        raise NotImplementedError


def _step(instance: Instance, record_type: RecordType, **body: Any) -> None:
    instance.journal.tick(_STEP_US)
    instance.journal.fact(record_type, body)


class ZoneEnteredWhileClosed(_Protocol):
    """F68: between validity point and open a ticket is handed out."""

    def play(self, fleet: Fleet, instance: Instance) -> None:
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
    """F69: the validity point does not wait for the last ticket."""

    def play(self, fleet: Fleet, instance: Instance) -> None:
        """The ticket is dropped behind the validity point."""
        _step(instance, RecordType.ZONE, step="enter", ticket=1)
        _step(instance, RecordType.ZONE, step="close")
        _step(instance, RecordType.ZONE, step="wait")
        _step(instance, RecordType.ZONE, step="validity_point")
        _step(instance, RecordType.ZONE, step="drop", ticket=1)
        _step(instance, RecordType.ZONE, step="open")


class EngineLockOvertime(_Protocol):
    """F70: the second engine takes three seconds, and nobody gives up."""

    def play(self, fleet: Fleet, instance: Instance) -> None:
        """Lock two engines."""
        _step(instance, RecordType.ENGINE_LOCK, step="begin", round=1)
        _step(instance, RecordType.ENGINE_LOCK, step="lock", engine="myisam", round=1)
        instance.journal.tick(3 * _SECOND_US)
        _step(instance, RecordType.ENGINE_LOCK, step="lock", engine="innodb", round=1)
        _step(instance, RecordType.ENGINE_LOCK, step="done", round=1)
        _step(instance, RecordType.ENGINE_LOCK, step="unlock_all", round=1)


class UnloggedWriteUnderLock(_Protocol):
    """F71: sql_log_bin=0 hides a write from the log, not from the tables."""

    def play(self, fleet: Fleet, instance: Instance) -> None:
        """Write between lock and unlock."""
        _step(instance, RecordType.BACKUP_LOCK, step="lock", lock="tables", session=9)
        _step(instance, RecordType.STATEMENT, engine="myisam", type="dml", binlogged=False)
        _step(instance, RecordType.BACKUP_LOCK, step="unlock", lock="tables", session=9)


class HeaderStaleUnderLock(Injector):
    """F72: a collection under LOCK TABLES FOR BACKUP reads old coordinates in the InnoDB header."""

    def __init__(self) -> None:
        super().__init__()
        self._collection = ""

    def on_variables(self, instance_id: str, variables: dict[str, Any]) -> None:
        """Servers that write coordinates into the header under the lock."""
        variables["have_backup_safe_binlog_info"] = True

    def on_collect_step(
        self, fleet: Fleet, instance: Instance, collection_id: str, step: str, resource: str | None
    ) -> bool:
        """Lock tables around one collection."""
        groups = instance.binlog.active.groups()
        if step == "enter" and self.is_due(fleet) and len(groups) >= 2 and instance.log_bin:
            self.mark(fleet, instance)
            self._collection = collection_id
            instance.innodb.trx_sys = instance.binlog.active.name, groups[-2].end
            _step(instance, RecordType.BACKUP_LOCK, step="lock", lock="tables", session=9)
        is_it = instance.instance_id == self.injected_in and collection_id == self._collection
        if is_it and step == "leave":
            _step(instance, RecordType.BACKUP_LOCK, step="unlock", lock="tables", session=9)
        return True


class GtidTableAhead(RowFault):
    """F76: the table holds a GTID of the own UUID that was never given."""

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Add a GTID to the table's rows."""
        if "gtid_executed_table" not in row.body or row.instance.gtid_mode != "ON":
            return False
        uuid = row.instance.server_uuid
        gno = row.instance.logged.next_free(uuid) + _FAR
        table = GtidSet.parse(row.body["gtid_executed_table"]) | GtidSet([(uuid, gno, gno)])
        row.body["gtid_executed_table"] = server_text(table)
        return True


PROTOCOL_INJECTORS: Final[Mapping[str, Callable[[], Injector]]] = {
    "lock_order_inverted": LockOrderInverted,
    "lock_leaked_on_error": LockLeaked,
    "commit_during_collection": CommitDuringCollection,
    "collection_too_slow": CollectionTooSlow,
    "zone_entered_while_closed": ZoneEnteredWhileClosed,
    "vp_before_zone_empty": ValidityPointTooEarly,
    "engine_lock_overtime": EngineLockOvertime,
    "unlogged_nontrx_write_under_lock": UnloggedWriteUnderLock,
    "innodb_header_stale_under_lock": HeaderStaleUnderLock,
    "gtid_table_ahead": GtidTableAhead,
}
