"""Point-in-time recovery: a server's history ends, and another begins in its position."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tallystick.producers.simulator.backup import backup_image, tables
from tallystick.producers.simulator.backup import point_in_time_recovery as recovery
from tallystick.producers.simulator.backup.lock_state import BackupLocks
from tallystick.producers.simulator.backup.point_in_time_recovery import StopPoint
from tallystick.producers.simulator.negatives.acts import at, sources
from tallystick.producers.simulator.negatives.negative import Negative
from tallystick.producers.simulator.server import administration
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap
from tallystick.producers.simulator.server.clients import Clients

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.backup.backup_image import Image
    from tallystick.producers.simulator.backup.point_in_time_recovery import Recovery
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

_IMAGE_AT = 0.2
_CHECKSUMS_AT = 0.5
_RECOVERY_US = 60_000
"""From the checksums to the recovery."""
Position = tuple[str, int]


class RecoveryOnNewServer(Negative):
    """An image and the binary log make a new server, which then replicates from the source."""

    name = "recovery_on_new_server"
    text = (
        "a server appears with an image's sets and a log of its own, replays groups of another's "
        "log and becomes its replica"
    )
    options: ClassVar = {"writes_per_second": 15.0}

    def arrange(self, fleet: World) -> None:
        source = sources(fleet)[0]
        _plan(fleet, source, source, _recover_on_new_server)


class RecoveryOnSameServer(Negative):
    """A server goes back into its own past and writes on from there."""

    name = "recovery_on_same_server"
    text = "a server falls back to an image's sets, replays its own old log and uses GNOs again"
    options: ClassVar = {"topology": "single", "writes_per_second": 15.0}
    # A restored server that replicates from this one has what it falls back from.
    excludes: ClassVar = frozenset(
        {"recovery_on_new_server", "recovery_by_position", "recovery_to_a_time"}
    )

    def arrange(self, fleet: World) -> None:
        source = sources(fleet)[0]

        def recover(fleet: World, image: Image, source: Instance, position: Position) -> None:
            if not source.is_running:
                return
            source[Clients].writes = False

            def go_on(_: Recovery) -> None:
                source[Clients].writes = True

            recovery.recover(fleet, image, source, StopPoint(position), go_on)

        _plan(fleet, source, source, recover)


class RecoveryByPosition(RecoveryOnNewServer):
    """The same in a fleet without GTIDs."""

    name = "recovery_by_position"
    text = "without GTIDs only the position keeps a replay from losing or repeating groups"
    options: ClassVar = {"gtid_mode": "OFF", "auto_position": False, "writes_per_second": 15.0}


class RecoveryToATime(Negative):
    """The binary log is replayed across rotations and an idle hour, up to a time."""

    name = "recovery_to_a_time"
    text = "a replay crosses rotations and ends before a time, in the middle of a file"
    options: ClassVar = {"topology": "single", "max_binlog_size": 4_096, "writes_per_second": 15.0}

    def arrange(self, fleet: World) -> None:
        source = sources(fleet)[0]

        def recover(fleet: World, image: Image, source: Instance, _: Position) -> None:
            server = recovery.add_server(fleet, source)
            stop = StopPoint(before_ts=fleet.now - _RECOVERY_US)
            recovery.recover(fleet, image, server, stop)

        _plan(fleet, source, source, recover)


class RecoveryFromReplica(Negative):
    """An image of a replica is brought forward with the binary log of its source."""

    name = "recovery_from_replica"
    text = "an image of a replica begins inside the log of its source, where it had executed up to"
    # MyISAM's table locks are not played among workers that commit in any order, and without GTIDs
    # what these have executed beyond the applier's position is replayed again.
    excludes: ClassVar = frozenset({"no_innodb_changes", "low_water_mark"})
    options: ClassVar = {"topology": "pair", "writes_per_second": 15.0}

    def arrange(self, fleet: World) -> None:
        for channel in next(i for i in fleet.instances.values() if i[ChannelMap].channels)[
            ChannelMap
        ].channels.values():
            _plan(fleet, channel.replica, channel.source, _recover_on_new_server)


def _recover_on_new_server(
    fleet: World, image: Image, source: Instance, position: Position
) -> None:
    server = recovery.add_server(fleet, source)
    awaited_by = source[BinaryLog].awaited_by
    awaited_by.add(server.instance_id)

    def go_on(done: Recovery) -> None:
        administration.add_channel(fleet, server, "", source, done.end)
        awaited_by.discard(server.instance_id)

    recovery.recover(fleet, image, server, StopPoint(position), go_on, source=source)


def _plan(
    fleet: World,
    backed_up: Instance,
    source: Instance,
    recover: Callable[[World, Image, Instance, Position], None],
) -> None:
    """An image, later the source's checksums, and soon after them a recovery up to there."""
    tables.install(fleet.instances.values())
    for instance in (backed_up, source):
        backup_image.prepare(fleet, instance)
    lineage = source[BinaryLog].lineage
    images: list[Image] = []

    def recover_later(position: Position) -> None:
        # After RESET MASTER no log leads from the image to the position.
        if images and source[BinaryLog].lineage == lineage:
            fleet.schedule(fleet.now + _RECOVERY_US, None, recover, images[0], source, position)

    def back_up(_: World) -> None:
        backed_up[BackupLocks].backups_begun += 1
        backup_id = f"{backed_up.instance_id}-backup-{backed_up[BackupLocks].backups_begun}"
        backup_image.back_up(fleet, backed_up, backup_id, images.append)

    at(fleet, _IMAGE_AT, None, back_up)
    at(fleet, _CHECKSUMS_AT, None, lambda _: backup_image.check_sums(fleet, source, recover_later))
