"""The backup image of WL#3576: data of all engines as of the validity point, and a summary block.

The summary has the binary log position of the validity point and, on a replica, how far it is on
its sources: the positions read and executed and both info repositories. The data of each table are
there whatever its engine, so a restored server differs from this one by nothing but what is after
the position.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.backup import backup_protocol, backup_synchronization
from tallystick.producers.simulator.backup.backup_protocol import Backup
from tallystick.producers.simulator.backup.backup_synchronization import BackupSynchronization
from tallystick.producers.simulator.backup.engine_locking import ENGINES
from tallystick.producers.simulator.backup.tables import BACKED_UP, TableData
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.kernel.bus import Notice
from tallystick.producers.simulator.replication_info import master_info, relay_log_info
from tallystick.producers.simulator.replication_info.master_info import MasterInfo
from tallystick.producers.simulator.replication_info.relay_log_info import RelayLogInfo
from tallystick.producers.simulator.server import applier
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import Applier, ChannelMap, Receiver
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.backup.engine_locking import Engine
    from tallystick.producers.simulator.innodb.rollback_segments import TrxSys
    from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

IMAGE: Notice[[World, Image]] = Notice(
    "a backup image is complete; it may be changed before its summary is written"
)

_RETRY_US = 50_000


@dataclass(slots=True, eq=False)
class Image:
    """A backup image.

    Attributes:
        backup_id: What records call it.
        instance: The server that it was taken from.
        binlog_lineage: Of that server's binary log: its position means nothing in another.
        position: Binary log coordinate of the validity point; None without a binary log.
        executed: GTIDs of the groups up to it.
        data: Content of the tables that are backed up.
        transactions: Undo logs, those of prepared XA transactions too.
        channels: Replica positions, as the journal has them.
    """

    backup_id: str
    instance: Instance
    binlog_lineage: int
    position: tuple[str, int] | None
    executed: GtidIntervals
    data: TableData
    transactions: TrxSys
    channels: list[dict[str, Any]] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """The summary block, as the journal has it."""
        body: dict[str, Any] = {
            "backup_id": self.backup_id,
            "gtid_executed": self.executed.text(),
            "tables": self.data.checksums(),
        }
        if self.position is not None:
            body["binlog_file"], body["binlog_position"] = self.position
        if self.channels:
            body["channels"] = self.channels
        return body


def prepare(fleet: World, instance: Instance) -> None:
    """From now on backups may be taken of a server: its binary log is kept elsewhere too."""
    if instance.get(BackupSynchronization) is None:
        backup_synchronization.install(fleet, instance)
    if instance[BinaryLog].archive is None:
        lineage = instance[BinaryLog].lineage
        instance[BinaryLog].archive = [(lineage, file) for file in instance[BinaryLog].files]


def back_up(
    fleet: World, instance: Instance, backup_id: str, when_done: Callable[[Image], None]
) -> None:
    """Take an image of a server as soon as no other backup runs; ``when_done`` gets it in the end.

    A backup during which the server goes down has no image.
    """
    images: list[Image] = []

    def take() -> None:
        images.append(take_image(instance, backup_id, is_validity_point=True))
        fleet.bus.emit(IMAGE, fleet, images[0])
        _record(instance, step="image", **images[0].summary())

    def end(has_validity_point: bool) -> None:
        _record(instance, step="end", backup_id=backup_id)
        for channel in instance[ChannelMap].channels.values():
            if channel[Applier].sql_errno:
                applier.start(fleet, channel)  # a DDL met the backup and stopped replication
        if has_validity_point:
            when_done(images[0])

    begin = {"step": "begin", "backup_id": backup_id, "tables": [t.name for t in BACKED_UP]}
    announce = partial(_record, instance, **begin)
    _at_validity_point(fleet, instance, take, end, engines=ENGINES, announce=announce)


def check_sums(
    fleet: World, instance: Instance, when_done: Callable[[tuple[str, int]], None]
) -> None:
    """Compute the checksums of all tables at a validity point of its own, for comparison later."""
    positions: list[tuple[str, int]] = []

    def take() -> None:
        positions.append(instance[BinaryLog].position)
        file, position = positions[0]
        tables = instance[TableData].checksums()
        coordinates = {"binlog_file": file, "binlog_position": position}
        _record(instance, step="checksum", **coordinates, tables=tables)

    def end(has_validity_point: bool) -> None:
        if has_validity_point:
            when_done(positions[0])

    _at_validity_point(fleet, instance, take, end)


def _at_validity_point(
    fleet: World,
    instance: Instance,
    take: Callable[[], None],
    end: Callable[[bool], None],
    *,
    engines: tuple[Engine, ...] = (),
    announce: Callable[[], None] = lambda: None,
) -> None:
    """Call ``take`` at the validity point of a backup that begins as soon as none runs."""
    if instance.is_running and instance.get(Backup) is None:
        announce()
        has_begun = backup_protocol.begin(
            fleet, instance, engines, at_validity_point=take, at_end=end
        )
        assert has_begun, f"prepare {instance.instance_id} for backups first"
        return
    again = partial(_at_validity_point, take=take, end=end, engines=engines, announce=announce)
    fleet.schedule(fleet.now + _RETRY_US, instance, again, instance)


def take_image(instance: Instance, backup_id: str, *, is_validity_point: bool) -> Image:
    """What an image of this moment holds; only at a validity point do data and position agree.

    There only groups that take no part in the backup are between the stages of their commit. The
    log has them, so a replay from the position will not bring them: the set of the image has them.
    """
    executed = instance[GtidState].executed.copy()
    if is_validity_point:
        for pending in instance[CommitQueue].in_commit:
            group = pending.logged.group
            if group.sid is not None:
                executed.add(group.sid, group.gno)
    return Image(
        backup_id=backup_id,
        instance=instance,
        binlog_lineage=instance[BinaryLog].lineage,
        position=instance[BinaryLog].position if instance[BinaryLog].is_open else None,
        executed=executed,
        data=instance[TableData].copy([table.name for table in BACKED_UP]),
        transactions=instance[Innodb].transactions.copy(),
        channels=[_replica_positions(channel) for channel in instance[ChannelMap].configured],
    )


def _replica_positions(channel: Channel) -> dict[str, Any]:
    """Replication state, the replica's position, master.info and relay.info."""
    body: dict[str, Any] = {
        "channel": channel.name,
        "source_instance": channel.source.instance_id,
        "read_source_log_file": channel[Receiver].read[0],
        "read_source_log_pos": channel[Receiver].read[1],
        "exec_source_log_file": channel[Applier].executed[0],
        "exec_source_log_pos": channel[Applier].executed[1],
        "relay_log_file": channel[Applier].applied[0],
        "relay_log_pos": channel[Applier].applied[1],
    }
    for table, info in (
        (master_info.TABLE, channel[MasterInfo]),
        (relay_log_info.TABLE, channel[RelayLogInfo]),
    ):
        fields = info.handler.init_info()
        if fields is not None:
            values = fields.values.items()
            body[table] = {key: value for key, value in values if key != master_info.PASSWORD}
    return body


def _record(instance: Instance, **body: Any) -> None:
    instance.journal.record(RecordType.BACKUP, body)
