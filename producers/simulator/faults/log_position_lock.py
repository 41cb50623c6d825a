"""Faults of collections (WL#9452): their locks, and what goes on although they hold every lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.faults.fault import BaseHistory, Fault, FaultGroup
from tallystick.producers.simulator.faults.journal import JournalFault
from tallystick.producers.simulator.faults.logs import is_pure_source
from tallystick.producers.simulator.faults.row import Row, RowFault
from tallystick.producers.simulator.innodb import redo_log
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.log_status.log_status_query import LogStatus, OutOfMemory
from tallystick.producers.simulator.server import administration, clients, receiver
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap, Receiver
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

_SECOND_US: Final = 1_000_000
_GONE_UUID: Final = "0badc0de-0000-4000-8000-000000000000"
_AFTERWARDS_US: Final = 5_000
_REDO_LENGTH: Final = 300
_BLOCK_LENGTH: Final = 512


class LockOrderInverted(JournalFault):
    """One collection takes the engine's log first and the binary log last."""

    number = 64
    name = "lock_order_inverted"
    text = "a collection locks the engine's log before the binary log"
    must_fire = frozenset({"collection_lock_order"})
    group = FaultGroup.PROTOCOL
    _SWAPPED: Final = {"binlog": "engine:InnoDB", "engine:InnoDB": "binlog"}

    def __init__(self) -> None:
        super().__init__()
        self._collection = ""

    def on_server_record(
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


class LockLeaked(Fault):
    """A collection fails with 3722 and never unlocks the channel map."""

    number = 65
    name = "lock_leaked_on_error"
    text = "a collection that fails leaves the channel map locked"
    must_fire = frozenset({"collection_unlock_complete"})

    def __init__(self) -> None:
        super().__init__()
        self._collection = ""

    def on_collect_step(
        self, fleet: World, instance: Instance, collection_id: str, step: str, resource: str | None
    ) -> bool:
        """Let the collection fail; leave out one unlock."""
        if step == "enter" and self.is_due(fleet):
            self.mark(fleet, instance)
            self._collection = collection_id
            instance[LogStatus].out_of_memory = OutOfMemory("collect", "engine:InnoDB")
        is_it = instance.instance_id == self.injected_in and collection_id == self._collection
        return not (is_it and step == "unlock" and resource == "channel_map")


class _StepLeftOut(Fault):
    """One collection does not take some steps."""

    left_out: frozenset[tuple[str, str | None]]

    def __init__(self) -> None:
        super().__init__()
        self._collection = ""

    def on_collect_step(
        self, fleet: World, instance: Instance, collection_id: str, step: str, resource: str | None
    ) -> bool:
        """Leave them out of the first collection that begins when the fault is due."""
        if step == "enter" and self.is_due(fleet):
            self.mark(fleet, instance)
            self._collection = collection_id
        is_it = instance.instance_id == self.injected_in and collection_id == self._collection
        return not (is_it and (step, resource) in self.left_out)


class CollectionNeverLeaves(_StepLeftOut):
    """The session is stuck after its last unlock."""

    number = 160
    name = "collection_never_leaves"
    text = "a collection that has released its locks never leaves its state"
    must_fire = frozenset({"collection_steps_complete"})
    left_out = frozenset({("leave", None)})


class CollectedUnlocked(_StepLeftOut):
    """The wrapper of gtid_executed has no lock of its own."""

    number = 161
    name = "collected_unlocked"
    text = "a collection reads gtid_executed without having locked it"
    must_fire = frozenset({"collection_steps_complete"})
    left_out = frozenset({("lock", "gtid_state"), ("unlock", "gtid_state")})


class LogNotCollected(_StepLeftOut):
    """The list of wrappers is walked one too few."""

    number = 162
    name = "log_not_collected"
    text = "a collection locks the binary log and does not collect it"
    must_fire = frozenset({"collection_steps_complete"})
    left_out = frozenset({("collect", "binlog")})


class RowLsnOfAnotherMoment(RowFault):
    """The LSN of a row was read before the engine's log was locked."""

    number = 167
    name = "row_lsn_of_another_moment"
    text = "the LSN of a row is one block before the one at which the collection locked the log"
    must_fire = frozenset({"row_lsn_as_collected"})
    group = FaultGroup.PROTOCOL

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        """One block back, where the previous row and the checkpoint allow it."""
        lsn = row.innodb["LSN"] - _BLOCK_LENGTH
        if lsn <= max(before.innodb["LSN"], row.innodb["LSN_checkpoint"]):
            return False
        row.innodb["LSN"] = lsn
        return True


class CommitDuringCollection(Fault):
    """A client commits between the last lock and the first unlock."""

    number = 66
    name = "commit_during_collection"
    text = "a group is logged while a collection holds every lock"
    must_fire = frozenset({"no_progress_while_locked"})

    def on_collect_step(
        self, fleet: World, instance: Instance, collection_id: str, step: str, resource: str | None
    ) -> bool:
        """Commit before the first resource is collected."""
        is_locked = step == "collect" and is_pure_source(instance)
        if is_locked and self.is_due(fleet) and not instance[BinaryLog].rotation_is_due:
            self.mark(fleet, instance)
            clients.write(fleet, instance)
        return True


class CollectionTooSlow(Fault):
    """Three seconds pass before the first unlock; the instance does nothing else."""

    number = 67
    name = "collection_too_slow"
    text = "a collection holds its locks for three seconds"
    must_fire = frozenset({"collection_within_budget"})

    def on_collect_step(
        self, fleet: World, instance: Instance, collection_id: str, step: str, resource: str | None
    ) -> bool:
        """Let time pass at the last resource, which is unlocked first."""
        is_first = step == "unlock" and resource == "engine:InnoDB"
        if is_first and self.is_due(fleet):
            self.mark(fleet, instance)
            instance.journal.tick(3 * _SECOND_US)
        return True


class _UnderTheLocks(Fault):
    """An act of another session between the row and the first unlock of a collection."""

    def on_collect_step(
        self, fleet: World, instance: Instance, collection_id: str, step: str, resource: str | None
    ) -> bool:
        """Act before the engine's log, the last that was locked, is unlocked."""
        is_first = step == "unlock" and resource == "engine:InnoDB"
        if is_first and self.is_due(fleet) and self.is_possible(fleet, instance):
            self.mark(fleet, instance)
            self.act(fleet, instance)
        return True

    def is_possible(self, fleet: World, instance: Instance) -> bool:
        """Whether the act would change nothing else here."""
        raise NotImplementedError

    def act(self, fleet: World, instance: Instance) -> None:
        """What no session can do under the locks."""
        raise NotImplementedError


class GtidsAssigned(_UnderTheLocks):
    """GTIDs of a server that is gone enter every set of the fleet, here too early."""

    number = 78
    name = "gtids_assigned_during_collection"
    text = "gtid_executed is assigned to while a collection holds every lock"
    must_fire = frozenset({"no_progress_while_locked"})

    def is_possible(self, fleet: World, instance: Instance) -> bool:
        """The replicas, which have answered already, get them at the same moment."""
        instances = fleet.instances.values()
        return is_pure_source(instance) and all(
            i.is_running and i[GtidState].mode == "ON" and not i[LogStatus].is_collecting
            for i in instances
            if i is not instance
        )

    def act(self, fleet: World, instance: Instance) -> None:
        """SET gtid_purged = '+…' everywhere."""
        added = GtidIntervals.of((_GONE_UUID, 1, 3))
        for each in reversed(fleet.instances.values()):
            administration.set_gtid_purged(fleet, each, added)


class ChannelRemoved(_UnderTheLocks):
    """A channel ends, and begins again when the locks are free."""

    number = 79
    name = "channel_removed_during_collection"
    text = "RESET REPLICA ALL ends a channel while a collection holds every lock"
    must_fire = frozenset({"no_progress_while_locked"})
    base = BaseHistory.REPLICA

    def is_possible(self, fleet: World, instance: Instance) -> bool:
        """Nobody waits for what the replica would log meanwhile."""
        channel = _channel(instance)
        return (
            channel is not None
            and channel.auto_position
            and channel.source.is_running
            and not channel.pending
        )

    def act(self, fleet: World, instance: Instance) -> None:
        """RESET REPLICA ALL; later CHANGE REPLICATION SOURCE and START REPLICA."""
        channel = _channel(instance)
        assert channel is not None
        administration.reset_replica(fleet, channel, everything=True)
        fleet.schedule(fleet.now + _AFTERWARDS_US, instance, _create_again, channel)


def _create_again(fleet: World, channel: Channel) -> None:
    administration.change_source(fleet, channel, channel.source)
    administration.start_replication(fleet, channel)


class EngineLogMoves(_UnderTheLocks):
    """InnoDB goes on."""

    number = 80
    name = "engine_log_moves_during_collection"
    text = "InnoDB adds redo between the lock and the unlock of its log"
    must_fire = frozenset({"no_progress_while_locked"})

    def is_possible(self, fleet: World, instance: Instance) -> bool:
        """Redo can be added at any time."""
        return True

    def act(self, fleet: World, instance: Instance) -> None:
        """A mini-transaction reserves room in the log buffer."""
        redo_log.add_redo(instance, _REDO_LENGTH)


class ReceiverFlushes(_UnderTheLocks):
    """A receiver stores where it is in its repository."""

    number = 81
    name = "receiver_flush_during_collection"
    text = "a receiver writes slave_master_info while a collection holds every lock"
    must_fire = frozenset({"no_progress_while_locked"})
    base = BaseHistory.REPLICA

    def is_possible(self, fleet: World, instance: Instance) -> bool:
        """It runs, and what it has read is flushed."""
        channel = _channel(instance)
        return (
            channel is not None and channel[Receiver].is_running and channel.partial_group is None
        )

    def act(self, fleet: World, instance: Instance) -> None:
        """The row of slave_master_info is written."""
        channel = _channel(instance)
        assert channel is not None
        receiver.persist_position(fleet, channel, "sync")


def _channel(instance: Instance) -> Channel | None:
    return next(iter(instance[ChannelMap].configured), None)
