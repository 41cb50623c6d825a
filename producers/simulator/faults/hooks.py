"""What a fault may take part in: a method for each moment of the bus.

A hook may change what it is given, return something else, act on the fleet, or schedule acts with
``fleet.schedule``. The default of each leaves the history healthy, and is not connected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallystick.producers.simulator.backup import backup_image, backup_locks, point_in_time_recovery
from tallystick.producers.simulator.clone import donor
from tallystick.producers.simulator.innodb import gtid_persistence
from tallystick.producers.simulator.kernel import world
from tallystick.producers.simulator.kernel.journal_writer import JournalWriter
from tallystick.producers.simulator.kernel.world import JOURNAL
from tallystick.producers.simulator.log_status import collection, log_status_query
from tallystick.producers.simulator.replication_info import rpl_info_handler
from tallystick.producers.simulator.server import (
    applier,
    binary_log,
    commit,
    lifecycle,
    locks,
    receiver,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.producers.simulator.backup.backup_image import Image
    from tallystick.producers.simulator.innodb.undo_log import UndoLogHeader
    from tallystick.producers.simulator.kernel.bus import Bus, Moment
    from tallystick.producers.simulator.kernel.clock import Clock
    from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group, LoggedGroup
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel, QueuedGroup


_MOMENTS: Mapping[str, Moment[..., Any]] = {
    "on_may_commit": locks.MAY_COMMIT,
    "on_commit": commit.BEFORE_COMMIT,
    "on_committed": commit.COMMITTED,
    "on_previous_gtids": binary_log.PREVIOUS_GTIDS,
    "on_rotate": binary_log.ROTATE,
    "on_purge": binary_log.PURGED,
    "on_logged": binary_log.LOGGED,
    "on_info_write": rpl_info_handler.INFO_WRITE,
    "on_queue": receiver.QUEUE,
    "on_flush": receiver.FLUSH,
    "on_stop": lifecycle.STOPPED,
    "on_recovered": lifecycle.RECOVERED,
    "on_apply": applier.APPLY,
    "on_undo_durable": gtid_persistence.UNDO_DURABLE,
    "on_flush_prepare": gtid_persistence.FLUSH_PREPARE,
    "on_persister_wait": gtid_persistence.PERSISTER_WAIT,
    "on_log_reset": gtid_persistence.LOG_RESET,
    "on_undo_purge": gtid_persistence.UNDO_PURGE,
    "on_recovery": gtid_persistence.RECOVERY,
    "on_row": collection.ROW,
    "on_collect_step": log_status_query.COLLECT_STEP,
    "on_clone_step": donor.CLONE_STEP,
    "on_image": backup_image.IMAGE,
    "on_header_flush": backup_locks.HEADER_FLUSH,
    "on_restore": point_in_time_recovery.RESTORED,
    "on_replay": point_in_time_recovery.REPLAY,
    "on_fleet": world.BUILT,
    "on_variables": world.VARIABLES,
}
"""The moment at which each hook is called."""


class FaultHooks:
    """No fault at all; the base of every injector."""

    def join(self, bus: Bus) -> None:
        """Take part in the moments whose hooks a subclass has."""
        for name, moment in _MOMENTS.items():
            if getattr(type(self), name) is not getattr(FaultHooks, name):
                bus.connect(moment, getattr(self, name))
        bus.connect(JOURNAL, lambda instance_id, clock, _: self.on_journal(instance_id, clock))

    def on_journal(self, instance_id: str, clock: Clock) -> JournalWriter:
        """Where an instance's records are written; asked once, before anything is written."""
        return JournalWriter(instance_id, clock)

    def on_variables(self, instance_id: str, variables: dict[str, Any]) -> None:
        """The variables that an instance is first started with; they may be changed in place."""

    def on_fleet(self, fleet: World) -> None:
        """The fleet is built, nothing has been written but the first files: schedule acts here."""

    def on_row(
        self, fleet: World, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """The whole body of a log_status record, before it is written; None: it is not written."""
        return body

    def on_collect_step(
        self, fleet: World, instance: Instance, collection_id: str, step: str, resource: str | None
    ) -> bool:
        """Before a collection step is written; False: it is left out."""
        return True

    def on_may_commit(self, instance: Instance, group: Group) -> bool:
        """A group is to be committed; False: whoever asks tries again after a while."""
        return True

    def on_commit(self, fleet: World, instance: Instance, group: Group) -> Group | None:
        """Before a group is written to a binary log; None: it is not logged and not committed."""
        return group

    def on_logged(self, fleet: World, instance: Instance, logged: LoggedGroup) -> None:
        """The group has its position and numbers, its events are not in the journal yet."""

    def on_committed(self, fleet: World, instance: Instance, logged: LoggedGroup) -> bool:
        """Commit stage: before the GTID enters gtid_executed; False: it never does."""
        return True

    def on_rotate(self, fleet: World, instance: Instance, number: int) -> int:
        """The number of the next binary log file, before the ROTATE event is written."""
        return number

    def on_previous_gtids(
        self, fleet: World, instance: Instance, gtids: GtidIntervals
    ) -> GtidIntervals:
        """The set that a new binary log file's PREVIOUS_GTIDS will hold."""
        return gtids

    def on_queue(self, fleet: World, channel: Channel, logged: LoggedGroup) -> bool:
        """Before the receiver queues the first event of a group; False: it skips the group."""
        return True

    def on_flush(self, fleet: World, channel: Channel) -> bool:
        """Before a receiver flushes its coordinates while it receives; False: that fails."""
        return True

    def on_apply(self, fleet: World, channel: Channel, queued: QueuedGroup) -> bool:
        """Before the applier executes a group; False: positions move on without executing it."""
        return True

    def on_info_write(self, fleet: World, channel: Channel, table: str, reason: str) -> bool:
        """Before a row of an info repository is written; False: the row stays as it was."""
        return True

    def on_clone_step(self, fleet: World, instance: Instance, step: str) -> bool:
        """A clone's donor or recipient has reached a step; False at ``version``: it goes on."""
        return True

    def on_header_flush(self, fleet: World, instance: Instance) -> bool:
        """LOCK TABLES FOR BACKUP is to write the InnoDB header; False: it stays as it was."""
        return True

    def on_stop(self, fleet: World, instance: Instance, crashed: bool) -> None:
        """The instance goes down; ``instance.binlog`` is as it was written."""

    def on_recovered(self, fleet: World, instance: Instance, start: dict[str, Any]) -> None:
        """State after recovery and the body of the ``start`` record, before it is written."""

    def on_undo_durable(self, fleet: World, instance: Instance, header: UndoLogHeader) -> None:
        """InnoDB has written the undo log header of a transaction's end; it may be changed."""

    def on_flush_prepare(self, fleet: World, instance: Instance) -> bool:
        """Before the GTID of XA PREPARE goes from the undo header; False: nobody has saved it."""
        return True

    def on_persister_wait(self, fleet: World, instance: Instance, at: int) -> int:
        """The moment at which the GTID persister will wake up by itself."""
        return at

    def on_log_reset(self, fleet: World, instance: Instance) -> bool:
        """RESET is about to let the persister write its GTIDs; False: it keeps them."""
        return True

    def on_undo_purge(self, fleet: World, instance: Instance, limit: int) -> int:
        """The transaction number below which purge removes undo logs."""
        return limit

    def on_recovery(self, fleet: World, instance: Instance, trx_num_gtid: int) -> int:
        """The transaction number from which on a start reads undo logs."""
        return trx_num_gtid

    def on_purge(self, fleet: World, instance: Instance, purged: GtidIntervals) -> bool:
        """Files were removed by PURGE, ``purged`` is to be gtid_purged; False: U stays."""
        return True

    def on_image(self, fleet: World, image: Image) -> None:
        """A backup image is complete; it may be changed before its summary is recorded."""

    def on_restore(self, fleet: World, instance: Instance) -> None:
        """An image was restored; the server has its sets and data, and records them next."""

    def on_replay(self, fleet: World, instance: Instance, groups: list[Group]) -> list[Group]:
        """The groups that a point-in-time recovery is about to execute, in order."""
        return groups
