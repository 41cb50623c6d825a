"""Where a fault may take hold of the engine. Every hook's default leaves the history healthy.

The engine calls the hooks of the one fault of its scenario. A hook may change what it is given,
return something else, call the engine (``fleet``) or set up acts with ``fleet.schedule``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallystick.producers.simulator.journal_writer import JournalWriter

if TYPE_CHECKING:
    from tallystick.producers.simulator.clock import Clock
    from tallystick.producers.simulator.clone.undo_log import UndoLogHeader
    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.gtid_intervals import GtidIntervals
    from tallystick.producers.simulator.model import (
        Channel,
        Group,
        Instance,
        LoggedGroup,
        QueuedGroup,
    )
    from tallystick.producers.simulator.online_backup.backup_image import Image


class FaultHooks:
    """No fault at all; the base of every injector."""

    def on_journal(self, instance_id: str, clock: Clock) -> JournalWriter:
        """Where an instance's records are written; asked once, before anything is written."""
        return JournalWriter(instance_id, clock)

    def on_variables(self, instance_id: str, variables: dict[str, Any]) -> None:
        """The variables that an instance is first started with; they may be changed in place."""

    def on_fleet(self, fleet: Fleet) -> None:
        """The fleet is built, nothing has been written but the first files: schedule acts here."""

    def on_row(
        self, fleet: Fleet, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """The whole body of a log_status record, before it is written; None: it is not written."""
        return body

    def on_collect_step(
        self, fleet: Fleet, instance: Instance, collection_id: str, step: str, resource: str | None
    ) -> bool:
        """Before a collection step is written; False: it is left out."""
        return True

    def on_commit(self, fleet: Fleet, instance: Instance, group: Group) -> Group | None:
        """Before a group is written to a binary log; None: it is not logged and not committed."""
        return group

    def on_logged(self, fleet: Fleet, instance: Instance, logged: LoggedGroup) -> None:
        """The group has its place and numbers, its events are not in the journal yet."""

    def on_committed(self, fleet: Fleet, instance: Instance, logged: LoggedGroup) -> bool:
        """Commit stage: before the GTID enters gtid_executed; False: it never does."""
        return True

    def on_rotate(self, fleet: Fleet, instance: Instance, number: int) -> int:
        """The number of the next binary log file, before the ROTATE event is written."""
        return number

    def on_previous_gtids(
        self, fleet: Fleet, instance: Instance, gtids: GtidIntervals
    ) -> GtidIntervals:
        """The set that a new binary log file's PREVIOUS_GTIDS will hold."""
        return gtids

    def on_queue(self, fleet: Fleet, channel: Channel, logged: LoggedGroup) -> bool:
        """Before the receiver queues the first event of a group; False: it skips the group."""
        return True

    def on_apply(self, fleet: Fleet, channel: Channel, queued: QueuedGroup) -> bool:
        """Before the applier executes a group; False: positions move on without executing it."""
        return True

    def on_info_write(self, fleet: Fleet, channel: Channel, table: str, reason: str) -> bool:
        """Before a row of an info repository is written; False: the row stays as it was."""
        return True

    def on_clone_step(self, fleet: Fleet, instance: Instance, step: str) -> bool:
        """A clone's donor or recipient has reached a step; False at ``version``: it goes on."""
        return True

    def on_header_flush(self, fleet: Fleet, instance: Instance) -> bool:
        """LOCK TABLES FOR BACKUP is to write the InnoDB header; False: it stays as it was."""
        return True

    def on_stop(self, fleet: Fleet, instance: Instance, crashed: bool) -> None:
        """The instance goes down; ``instance.binlog`` is as it was written."""

    def on_recovered(self, fleet: Fleet, instance: Instance, start: dict[str, Any]) -> None:
        """State after recovery and the body of the ``start`` record, before it is written."""

    def on_undo_durable(self, fleet: Fleet, instance: Instance, header: UndoLogHeader) -> None:
        """InnoDB has written the undo log header of a transaction's end; it may be changed."""

    def on_flush_prepare(self, fleet: Fleet, instance: Instance) -> bool:
        """Before the GTID of XA PREPARE goes from the undo header; False: nobody has saved it."""
        return True

    def on_persister_wait(self, fleet: Fleet, instance: Instance, at: int) -> int:
        """The moment at which the GTID persister will wake up by itself."""
        return at

    def on_log_reset(self, fleet: Fleet, instance: Instance) -> bool:
        """RESET is about to let the persister write its GTIDs; False: it keeps them."""
        return True

    def on_undo_purge(self, fleet: Fleet, instance: Instance, limit: int) -> int:
        """The transaction number below which purge removes undo logs."""
        return limit

    def on_recovery(self, fleet: Fleet, instance: Instance, trx_num_gtid: int) -> int:
        """The transaction number from which on a start reads undo logs."""
        return trx_num_gtid

    def on_purge(self, fleet: Fleet, instance: Instance, purged: GtidIntervals) -> bool:
        """Files were removed by PURGE, ``purged`` is to be gtid_purged; False: U stays."""
        return True

    def on_image(self, fleet: Fleet, image: Image) -> None:
        """A backup image is complete; it may be changed before its summary is told."""

    def on_restore(self, fleet: Fleet, instance: Instance) -> None:
        """An image was restored; the server has its sets and data, and tells of them next."""

    def on_replay(self, fleet: Fleet, instance: Instance, groups: list[Group]) -> list[Group]:
        """The groups that a point-in-time recovery is about to execute, in order."""
        return groups
