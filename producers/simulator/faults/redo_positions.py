"""Faults of LSNs that rows, backups, clones and locks show beside the redo log."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tallystick.coordinates.events.journal import RecordType, RedoType, Stream
from tallystick.coordinates.values.innodb import BLOCK_LENGTH
from tallystick.producers.simulator.backup.backup_utility import Backup, BackupUtility, Options
from tallystick.producers.simulator.clone import cloning
from tallystick.producers.simulator.faults.fault import ActFault, BaseHistory, FaultGroup
from tallystick.producers.simulator.faults.journal import JournalFault
from tallystick.producers.simulator.faults.logs import pure_source
from tallystick.producers.simulator.faults.row import Row, RowFault
from tallystick.producers.simulator.innodb.header import VARIABLE
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.server import administration
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap
from tallystick.producers.simulator.server.commit_queue import CommitQueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tallystick.producers.simulator.faults.journal import Event
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

_FAR: Final = 2_048 * BLOCK_LENGTH
_RETRY_US: Final = 10_000


class RowCheckpointOfBefore(RowFault):
    """The checkpoint of the row before, though InnoDB has written another."""

    number = 153
    name = "row_checkpoint_of_before"
    text = "the row repeats the checkpoint of the row before, though the redo log has a later one"
    must_fire = frozenset({"row_lsn_at_its_instant"})

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        checkpoint = before.innodb["LSN_checkpoint"]
        if checkpoint == row.innodb["LSN_checkpoint"]:
            return False
        row.innodb["LSN_checkpoint"] = checkpoint
        return True


class _BackupLsn(JournalFault):
    """A backup of a source on which nobody is between the stages of a commit."""

    group = FaultGroup.PROTOCOL

    def __init__(self) -> None:
        super().__init__()
        self.flushed: dict[str, int] = {}

    def on_fleet(self, fleet: World) -> None:
        """Begin when the fault is due."""
        super().on_fleet(fleet)
        source = pure_source(fleet)
        fleet.schedule(fleet.fault_at, source, self._begin, source)

    def _begin(self, fleet: World, source: Instance) -> None:
        queue, log = source[CommitQueue], source[BinaryLog]
        is_busy = bool(queue.in_commit) or log.rotation_is_due or not source.is_running
        if is_busy or source.instance_id not in self.flushed:
            fleet.schedule(fleet.now + _RETRY_US, source, self._begin, source)
            return
        administration.set_variables(source, **{VARIABLE: True})
        ended = partial(self._ended, fleet, source)
        BackupUtility(fleet, source, Options(lock_binlog=True), ended).begin()

    def _ended(self, fleet: World, source: Instance, backup: Backup) -> None:
        """Take another one where this one had nothing to change."""
        if self.is_due_in(source.instance_id):
            fleet.schedule(fleet.now + _RETRY_US, source, self._begin, source)

    def on_event(self, instance_id: str, event: Event) -> Iterable[Event]:
        """Note what is flushed."""
        if event.stream is Stream.REDO and event.type == RedoType.FLUSH:
            self.flushed[instance_id] = event.fields["value"]
        return (event,)

    def changed(self, instance_id: str, body: Mapping[str, Any], lsn: int) -> dict[str, Any]:
        """The record with another LSN."""
        self.mark_in(instance_id)
        return {**body, "lsn": lsn}


class ImageLsnUnwritten(_BackupLsn):
    """The image says that it holds redo which nobody has written."""

    number = 154
    name = "image_lsn_unwritten"
    text = "a backup image has redo up to an LSN beyond what was written"
    must_fire = frozenset({"image_lsn_within_redo"})

    def on_server_record(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        is_image = record_type is RecordType.BACKUP and body["step"] == "image"
        if not is_image or "lsn" not in body or not self.is_due_in(instance_id):
            return body
        return self.changed(instance_id, body, body["lsn"] + _FAR)


class ImageLsnOfBefore(_BackupLsn):
    """The image ends before the redo that was flushed when the backup began."""

    number = 155
    name = "image_lsn_before_begin"
    text = "a backup image has redo up to an LSN from before the backup began"
    must_fire = frozenset({"image_lsn_within_redo"})

    def __init__(self) -> None:
        super().__init__()
        self._flushed_at_begin: dict[str, int] = {}

    def on_server_record(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        if record_type is RecordType.BACKUP and body["step"] == "begin":
            self._flushed_at_begin[instance_id] = self.flushed.get(instance_id, 0)
        is_image = record_type is RecordType.BACKUP and body["step"] == "image"
        flushed = self._flushed_at_begin.get(instance_id)
        if not (is_image and "lsn" in body and flushed and self.is_due_in(instance_id)):
            return body
        return self.changed(instance_id, body, flushed - BLOCK_LENGTH)


class ImageLsnBeforeCoordinates(_BackupLsn):
    """The copy of the redo ends where it was when the backup began, before groups it claims."""

    number = 269
    name = "image_lsn_before_coordinates"
    text = "a backup image has redo up to an LSN from before the last groups of its coordinates"
    must_fire = frozenset({"image_lsn_within_redo"})

    def __init__(self) -> None:
        super().__init__()
        self._at_begin: dict[str, int] = {}
        self._at_group: dict[str, int] = {}

    def on_event(self, instance_id: str, event: Event) -> Iterable[Event]:
        """Note also what was flushed before the last event of the binary log."""
        if event.stream is Stream.BINLOG and instance_id in self.flushed:
            self._at_group[instance_id] = self.flushed[instance_id]
        return super().on_event(instance_id, event)

    def on_server_record(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        if record_type is RecordType.BACKUP and body["step"] == "begin":
            self._at_begin[instance_id] = self.flushed[instance_id]
        is_image = record_type is RecordType.BACKUP and body["step"] == "image"
        if not (is_image and "lsn" in body and self.is_due_in(instance_id)):
            return body
        flushed = self._at_begin[instance_id]
        if flushed >= self._at_group.get(instance_id, flushed):
            return body
        return self.changed(instance_id, body, flushed)


class HeaderRedoUnflushed(_BackupLsn):
    """The lock is given before the redo of the header is on disk."""

    number = 156
    name = "header_redo_unflushed"
    text = "LOCK TABLES FOR BACKUP is given before the redo of InnoDB's header is flushed"
    must_fire = frozenset({"trx_sys_redo_flushed"})

    def on_server_record(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        is_lock = record_type is RecordType.BACKUP_LOCK and "lsn" in body
        if not is_lock or not self.is_due_in(instance_id):
            return body
        return self.changed(instance_id, body, body["lsn"] + _FAR)


class _CloneLsn(JournalFault):
    """A replica clones its source, and a step of the clone has an LSN of long before.

    Attributes:
        step: Which one.
    """

    group = FaultGroup.PROTOCOL
    base = BaseHistory.SINGLE_CHANNEL
    step: ClassVar[str]

    def on_fleet(self, fleet: World) -> None:
        """A replica that nobody reads from clones its source."""
        super().on_fleet(fleet)
        fleet.clock.schedule(fleet.fault_at, None, self._clone, fleet)

    def _clone(self, fleet: World) -> None:
        for instance in fleet.instances.values():
            channels = instance[ChannelMap].configured
            if len(channels) != 1 or instance[ChannelMap].subscribers or not instance.is_running:
                continue
            source = channels[0].source
            if source.is_running and len(source[BinaryLog].active.groups()) > 1:
                cloning.clone(fleet, channels[0])
                return
        fleet.clock.schedule(fleet.now + _RETRY_US, None, self._clone, fleet)

    def on_server_record(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Change the step."""
        is_it = record_type is RecordType.CLONE and body["step"] == self.step
        if not is_it or not self.is_due_in(instance_id):
            return body
        self.mark_in(instance_id)
        return {**body, "lsn": body["lsn"] - _FAR}


class CloneLsnOfBefore(_CloneLsn):
    """The copy of the redo log ends before redo that the donor has written."""

    number = 157
    name = "clone_lsn_written_before"
    text = "a clone's copy of the redo log ends before redo that its donor had written"
    must_fire = frozenset({"clone_lsn_within_redo"})
    step = "position_read"


class CloneRedoCutShort(_CloneLsn):
    """Recovery finds the end of the redo log before the copy of the donor ended."""

    number = 159
    name = "clone_redo_cut_short"
    text = "recovery of a clone finds less redo than its donor had copied"
    must_fire = frozenset({"clone_coordinates_equal_donor"})
    heals = False
    step = "recovered"


class RedoStatusFell(ActFault):
    """Two samples of the status variables, the second of an earlier state."""

    number = 158
    name = "redo_status_fell"
    text = "the flushed LSN of the status variables falls between two samples"
    must_fire = frozenset({"redo_status_agrees"})
    group = FaultGroup.STREAM

    def act(self, fleet: World) -> bool:
        instance = next((i for i in fleet.instances.values() if i.is_running), None)
        if instance is None:
            return False
        innodb = instance[Innodb]
        sample = {"current": innodb.lsn, "flushed": innodb.flushed}
        instance.journal.record(RecordType.REDO_STATUS, sample)
        sample["flushed"] -= BLOCK_LENGTH
        instance.journal.record(RecordType.REDO_STATUS, sample)
        self.mark(fleet, instance)
        return True
