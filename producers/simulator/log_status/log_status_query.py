"""A session that reads performance_schema.log_status: table_instance_log_status::make_row().

Steps (b) to (k) of WL#9452, Step-3. The collector's own mutex comes first, then the channel map;
then every resource is wrapped, locked and collected in one order and unlocked in the reverse one,
whatever fails in between.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.kernel.bus import Permit
from tallystick.producers.simulator.log_status.latches import (
    CHANNEL_MAP,
    LOCK_COLLECT_INSTANCE_LOG,
    LOCK_PLUGIN,
    Latches,
)
from tallystick.producers.simulator.log_status.log_resources import (
    LOCAL,
    REPLICATION,
    InstanceLogResource,
    InstanceLogResourceFactory,
)
from tallystick.producers.simulator.log_status.storage_engines import StorageEngines
from tallystick.producers.simulator.server.channels import ChannelMap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

COLLECT_STEP: Permit[[World, Instance, str, str, str | None]] = Permit(
    "before a collection step is written; False: it is left out"
)

ER_UNABLE_TO_COLLECT_LOG_STATUS = 3722
_LOCK_US = 3
_LEAVE_US = 20
_REASONS = {
    "instantiate": "failed to instantiate resources",
    "lock": "failed to lock",
    "collect": "out of memory",
}
_TEXT_MAX = 192
"""Bytes of a column's name and of a reason in the message (I-3)."""


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """Where one collection fails with 3722."""

    at: str
    """``instantiate``: before anything but the map is locked; ``collect``: with all locks held."""
    resource: str
    """As in the journal's lock steps."""


@dataclass(slots=True, eq=False)
class LogStatus:
    """The table performance_schema.log_status of an instance, and who reads it.

    Attributes:
        privileges: ``all``, ``no_select`` (1142), ``no_backup_admin`` (1227).
        is_collecting: Whether a collector reads here: it asks for one collection after the other.
        out_of_memory: Where the next collection gets no memory.
        unlocks_backwards: Whether resources are unlocked in the reverse order, as by MySQL 8.0;
            else as they were locked, as Step-3 (g) reads.
        waiting_queries: Sessions that wait for LOCK_collect_instance_log, oldest first.
    """

    privileges: str = "all"
    is_collecting: bool = False
    out_of_memory: OutOfMemory | None = None
    unlocks_backwards: bool = True
    waiting_queries: list[LogStatusQuery] = field(default_factory=list)


class _CollectError(Exception):
    """A column cannot be collected."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(
            f"Unable to collect information for column '{_cut(column)}': {_cut(reason)}."
        )
        self.column = column


def _cut(text: str) -> str:
    """What ``%-.192s`` leaves of a text: as many whole characters as fit."""
    return text.encode()[:_TEXT_MAX].decode(errors="ignore")


class LogStatusQuery:
    """One session in "Collecting Logs Positions State"."""

    def __init__(
        self,
        fleet: World,
        instance: Instance,
        collection_id: str,
        on_row: Callable[[dict[str, Any]], None],
        on_error: Callable[[dict[str, Any]], None],
    ) -> None:
        """Prepare the query; the session has the privilege.

        Args:
            fleet: The fleet.
            instance: The server that is asked.
            collection_id: What the lock steps are recorded under.
            on_row: Gets the row while all locks are still held.
            on_error: Gets the error after all locks were released.
        """
        self._fleet = fleet
        self._instance = instance
        self._collection_id = collection_id
        self._on_row = on_row
        self._on_error = on_error
        self._session = 40 + fleet.rng.randrange(8)

    def begin(self) -> None:
        """Enter the state; wait for LOCK_collect_instance_log while another session has it."""
        self._record("enter")
        if LOCK_COLLECT_INSTANCE_LOG in self._instance[Latches].held:
            self._instance[LogStatus].waiting_queries.append(self)
            return
        self.make_row()

    def make_row(self) -> None:
        """Steps (b) to (k), with LOCK_collect_instance_log free."""
        instance, session = self._instance, self._session
        if not instance.is_running:
            # The server went down while the session waited.
            self._wake_next()
            self._on_error({"unreachable": True})
            return
        memory = instance[LogStatus].out_of_memory
        instance[LogStatus].out_of_memory = None
        self._exhausted = None if memory is None else (memory.at, memory.resource)
        factory = InstanceLogResourceFactory(instance, session)
        error: _CollectError | None = None
        locked: list[InstanceLogResource] = []
        self._take(LOCK_COLLECT_INSTANCE_LOG)
        self._take(CHANNEL_MAP)
        try:
            # All wrappers are there before the first of them is locked.
            for resource in list(self._wrap_all(factory)):
                if resource.lock():
                    self._fail("lock", resource.name, resource.column)
                locked.append(resource)
                self._record_of("lock", resource)
            for resource in locked:
                self._allocate("collect", resource.name, resource.column)
                self._record_of("collect", resource)
                resource.collect_info()
        except _CollectError as failure:
            error = failure
        else:
            self._on_row(factory.row())
        for resource in locked[::-1] if instance[LogStatus].unlocks_backwards else locked:
            resource.unlock()
            self._record_of("unlock", resource)
        self._release(CHANNEL_MAP)
        self._release(LOCK_COLLECT_INSTANCE_LOG)
        self._record("leave")
        instance.blocked_until = instance.journal.tick(_LEAVE_US)
        self._wake_next()
        if error is not None:
            self._on_error(
                {
                    "code": ER_UNABLE_TO_COLLECT_LOG_STATUS,
                    "message": str(error),
                    "column": error.column,
                }
            )

    def _wrap_all(self, factory: InstanceLogResourceFactory) -> Iterator[InstanceLogResource]:
        """Step-3 (d): the wrappers in the order in which they are locked."""
        instance = self._instance
        for channel in instance[ChannelMap].configured:
            self._allocate("instantiate", f"channel:{channel.name}", REPLICATION)
            yield factory.wrap_channel(channel)
        self._allocate("instantiate", "binlog", LOCAL)
        yield factory.wrap_binary_log()
        self._allocate("instantiate", "gtid_state", LOCAL)
        yield factory.wrap_gtid_state()
        self._take(LOCK_PLUGIN)
        ready = instance[StorageEngines].ready()
        self._release(LOCK_PLUGIN)
        for hton in ready:
            if hton.takes_part:
                # The server names this column in the singular here.
                self._allocate("instantiate", f"engine:{hton.name}", "STORAGE_ENGINE")
                yield factory.wrap_handlerton(hton)

    def _allocate(self, at: str, resource: str, column: str) -> None:
        if self._exhausted == (at, resource):
            self._fail(at, resource, column)

    def _fail(self, at: str, resource: str, column: str) -> None:
        self._record("error", resource)
        raise _CollectError(column, f"{_REASONS[at]} {resource}" if at == "lock" else _REASONS[at])

    def _take(self, latch: str) -> None:
        self._instance[Latches].take(latch, self._session)
        self._record("lock", latch)

    def _release(self, latch: str) -> None:
        self._instance[Latches].release(latch, self._session)
        self._record("unlock", latch)

    def _wake_next(self) -> None:
        """LOCK_collect_instance_log is free: the session that waits longest takes it."""
        instance = self._instance
        if instance[LogStatus].waiting_queries:
            query = instance[LogStatus].waiting_queries.pop(0)
            at = max(self._fleet.now, instance.blocked_until)
            self._fleet.clock.schedule(at, instance, query.make_row)

    def _record_of(self, step: str, resource: InstanceLogResource) -> None:
        """Write a step of a resource; of an engine with where its log ends."""
        self._record(step, resource.name, resource.lsn)

    def _record(
        self, step: str, resource: str | None = None, lsn: Callable[[], int | None] | None = None
    ) -> None:
        """Write one step; a fault may leave the record out, never the act."""
        fleet, instance = self._fleet, self._instance
        if not fleet.bus.emit(COLLECT_STEP, fleet, instance, self._collection_id, step, resource):
            return
        if not fleet.scenario.lock_steps:
            return
        ts = instance.journal.tick(_LOCK_US)
        body: dict[str, Any] = {
            "collection_id": self._collection_id,
            "session": self._session,
            "step": step,
        }
        if resource is not None and step != "error":
            body["resource"] = resource
        reached = None if lsn is None else lsn()
        if reached is not None:
            body["lsn"] = reached
        instance.journal.server_record(RecordType.COLLECTION, body, ts=ts)
