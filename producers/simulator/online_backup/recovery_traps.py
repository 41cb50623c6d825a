"""Traps of point-in-time recovery: a server's history ends, and another begins in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.producers.simulator.online_backup import backup_image, tables
from tallystick.producers.simulator.online_backup import point_in_time_recovery as recovery
from tallystick.producers.simulator.online_backup.point_in_time_recovery import StopPoint
from tallystick.producers.simulator.trap import Trap

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.model import Instance
    from tallystick.producers.simulator.online_backup.backup_image import Image
    from tallystick.producers.simulator.online_backup.point_in_time_recovery import Recovery

_IMAGE_AT = 0.2
_CHECKSUMS_AT = 0.5
Place = tuple[str, int]

_RECOVERY_US = 60_000
"""From the checksums to the recovery."""


def recover_on_new_server(fleet: Fleet) -> None:
    """An image and the binary log make a new server, which then replicates from the source."""
    source = _sources(fleet)[0]
    _plan(fleet, source, source, _recover_on_new_server)


def recover_on_same_server(fleet: Fleet) -> None:
    """A server goes back into its own past and writes on from there."""
    source = _sources(fleet)[0]

    def recover(fleet: Fleet, image: Image, source: Instance, place: Place) -> None:
        if not source.is_running:
            return
        source.writes = False

        def go_on(_: Recovery) -> None:
            source.writes = True

        recovery.recover(fleet, image, source, StopPoint(place), go_on)

    _plan(fleet, source, source, recover)


def recover_to_a_time(fleet: Fleet) -> None:
    """The binary log is replayed across rotations and an idle hour, up to a time."""
    source = _sources(fleet)[0]

    def recover(fleet: Fleet, image: Image, source: Instance, _: Place) -> None:
        server = recovery.add_server(fleet, source)
        stop = StopPoint(before_ts=fleet.now - _RECOVERY_US)
        recovery.recover(fleet, image, server, stop)

    _plan(fleet, source, source, recover)


def recover_from_replica(fleet: Fleet) -> None:
    """An image of a replica is brought forward with the binary log of its source."""
    for channel in next(i for i in fleet.instances.values() if i.channels).channels.values():
        _plan(fleet, channel.replica, channel.source, _recover_on_new_server)


def _recover_on_new_server(fleet: Fleet, image: Image, source: Instance, place: Place) -> None:
    server = recovery.add_server(fleet, source)

    def go_on(done: Recovery) -> None:
        fleet.add_channel(server, "", source, done.end)

    recovery.recover(fleet, image, server, StopPoint(place), go_on, source=source)


def _plan(
    fleet: Fleet,
    backed_up: Instance,
    source: Instance,
    recover: Callable[[Fleet, Image, Instance, Place], None],
) -> None:
    """An image, later the source's checksums, and soon behind them a recovery up to there."""
    tables.install(fleet.instances.values())
    for instance in (backed_up, source):
        backup_image.prepare(fleet, instance)
    lineage = source.binlog.lineage
    images: list[Image] = []

    def recover_later(place: Place) -> None:
        # Behind RESET MASTER no way leads from the image to the place.
        if images and source.binlog.lineage == lineage:
            fleet.schedule(fleet.now + _RECOVERY_US, None, recover, images[0], source, place)

    def back_up(_: Fleet) -> None:
        backed_up.backups_begun += 1
        backup_id = f"{backed_up.instance_id}-backup-{backed_up.backups_begun}"
        backup_image.back_up(fleet, backed_up, backup_id, images.append)

    load = fleet.load_ends_at - fleet.start_ts
    for share, act in (
        (_IMAGE_AT, back_up),
        (_CHECKSUMS_AT, lambda _: backup_image.check_sums(fleet, source, recover_later)),
    ):
        fleet.schedule(fleet.start_ts + int(load * share), None, act)


def _sources(fleet: Fleet) -> list[Instance]:
    return [instance for instance in fleet.instances.values() if instance.writes]


TRAPS = (
    Trap(
        "recovery_on_new_server",
        "T34",
        "a server appears with an image's sets and a log of its own, replays groups of another's "
        "log and becomes its replica",
        {"writes_per_second": 15.0},
        recover_on_new_server,
    ),
    Trap(
        "recovery_on_same_server",
        "T34",
        "a server falls back to an image's sets, replays its own old log and uses GNOs again",
        {"topology": "single", "writes_per_second": 15.0},
        recover_on_same_server,
    ),
    Trap(
        "recovery_by_position",
        "T34",
        "without GTIDs only the position keeps a replay from losing or repeating groups",
        {"gtid_mode": "OFF", "auto_position": False, "writes_per_second": 15.0},
        recover_on_new_server,
    ),
    Trap(
        "recovery_to_a_time",
        "T34",
        "a replay crosses rotations and ends before a time, in the middle of a file",
        {"topology": "single", "max_binlog_size": 4_096, "writes_per_second": 15.0},
        recover_to_a_time,
    ),
    Trap(
        "recovery_from_replica",
        "T34",
        "an image of a replica begins inside the log of its source, where it had executed up to",
        {"topology": "pair", "writes_per_second": 15.0},
        recover_from_replica,
    ),
)
"""The traps of this module."""
