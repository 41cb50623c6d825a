"""Faults of point-in-time recovery (WL#3576): images that name no state, replays that miss it.

Each takes an image of a server, later the checksums of the server whose log is replayed, and, where
the fault is one of the recovery, recovers a new server up to there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.backup import backup_image, tables
from tallystick.producers.simulator.backup import point_in_time_recovery as recovery
from tallystick.producers.simulator.backup.point_in_time_recovery import StopPoint
from tallystick.producers.simulator.backup.tables import TableData, make_change, table_of
from tallystick.producers.simulator.faults import cures
from tallystick.producers.simulator.faults.fault import BaseHistory, Fault
from tallystick.producers.simulator.faults.logs import ends_in_xid, first_replica, pure_source
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.kernel.transactions import Group, GroupKind
from tallystick.producers.simulator.server import administration, commit
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap, RelayLog
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from tallystick.producers.simulator.backup.backup_image import Image
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import LoggedGroup
    from tallystick.producers.simulator.kernel.world import World

_RETRY_US: Final = 10_000
_BETWEEN_US: Final = 300_000
"""From the image to two changes, and from them to the checksums."""
_VISIBLE_US: Final = 100_000
"""After this long a change is visible."""
_BACKUP_ID: Final = "backup-1"
_MYISAM: Final = "shop.visits"


class _BackupFault(Fault):
    """A backup is taken when the fault is due, and a new server recovered from it.

    Attributes:
        recovers: Whether there is a recovery.
        backed_up: The server that the image is of.
        source: The server whose log is replayed.
    """

    recovers = True

    def on_fleet(self, fleet: World) -> None:
        """Keep the servers' tables; begin when the fault is due."""
        self.source = pure_source(fleet)
        self.backed_up = self.choose(fleet)
        tables.install(fleet.instances.values())
        fleet.schedule(fleet.fault_at, None, self.begin)

    def cure(self, fleet: World) -> None:
        """Make the recovered server anew, as a replica of the server that it was recovered from."""
        restored = list(fleet.instances.values())[-1]
        administration.add_channel(fleet, restored, "", self.source)
        cures.rebuild(fleet, restored.instance_id)

    def choose(self, fleet: World) -> Instance:
        """The server that is backed up."""
        return self.source

    def begin(self, fleet: World) -> None:
        """The fault is due."""
        self.back_up(fleet)

    def back_up(self, fleet: World) -> None:
        """Take an image."""
        backup_image.prepare(fleet, self.backed_up)
        when_done = partial(self.go_on, fleet)
        backup_image.back_up(fleet, self.backed_up, _BACKUP_ID, when_done)

    def go_on(self, fleet: World, image: Image) -> None:
        """Recover a new server, or take another image if this one could not show the fault."""
        if not self.recovers:
            if not self.injected:
                fleet.schedule(fleet.now + _RETRY_US, None, self.back_up)
            return
        fleet.schedule(fleet.now + _BETWEEN_US, None, self._change_twice)
        fleet.schedule(fleet.now + 2 * _BETWEEN_US, None, self._check_sums, image)

    def _change_twice(self, fleet: World) -> None:
        """Two clients change one row, so that the replay has something to lose."""
        self.changes = [_change(fleet, self.source)]
        self.changes.append(_change(fleet, self.source, self.changes[0]))

    def _check_sums(self, fleet: World, image: Image) -> None:
        def recover(position: tuple[str, int]) -> None:
            server = recovery.add_server(fleet, self.source)
            recovery.recover(fleet, image, server, StopPoint(position))

        backup_image.prepare(fleet, self.source)
        backup_image.check_sums(fleet, self.source, recover)


def _change(fleet: World, source: Instance, like: Group | None = None) -> Group:
    """A client changes a row that is backed up: any, or the one that another group changed."""
    group = make_change(fleet.rng, GroupKind.INNODB, source.server_id, fleet.now, like)
    commit.commit(fleet, source, group)
    return group


class ImagePositionEarly(_BackupFault):
    """The last group of the image is after its position."""

    number = 117
    name = "image_position_early"
    text = "the position in an image's summary is one group before its GTID set and data"
    must_fire = frozenset({"backup_image_names_one_state"})
    recovers = False

    def on_image(self, fleet: World, image: Image) -> None:
        """Move the position back over one group."""
        groups = self.source[BinaryLog].active.groups()
        if groups and image.position is not None and not self.injected:
            image.position = image.position[0], groups[-1].start
            self.mark(fleet, self.source)


class ImageSetBeforeZoneEmpty(_BackupFault):
    """The summary's GTID set was read before the last thread had left the zone."""

    number = 118
    name = "image_set_before_zone_empty"
    text = "the GTID set of an image is read before the last thread has left the closed zone"
    must_fire = frozenset({"backup_image_names_one_state"})
    recovers = False

    def on_image(self, fleet: World, image: Image) -> None:
        """Take the last participating group out of the set."""
        for logged in reversed(self.source[BinaryLog].active.groups()):
            group, table = logged.group, table_of(logged.group)
            is_inside = table is not None and table.is_backed_up
            if is_inside and group.sid is not None and not self.injected:
                image.executed.discard(group.sid, group.gno)
                self.mark(fleet, self.source)


class ImageWithoutZone(_BackupFault):
    """An image is taken between the flush stage of a group and its commit stage."""

    number = 119
    name = "image_without_zone"
    text = "an image is taken while a group is logged and not visible: its position leads its data"
    must_fire = frozenset(
        {
            "backup_image_names_one_state",
            "recovered_data_equal_source",
            "recovery_reaches_stop_point",
        }
    )

    def __init__(self) -> None:
        super().__init__()
        self._group: Group | None = None
        self._image: Image | None = None

    def back_up(self, fleet: World) -> None:
        """Wait for a group that the image will miss."""
        archive = self.source[BinaryLog]
        archive.archive = [(archive.lineage, file) for file in archive.files]
        _change(fleet, self.source)

    def on_commit(self, fleet: World, instance: Instance, group: Group) -> Group | None:
        """Copy the data before the group is logged."""
        is_ready = self.is_due(fleet) and instance[BinaryLog].archive is not None
        if is_ready and instance is self.source and self._group is None and _counts(group):
            self._group = group
            self._image = backup_image.take_image(instance, _BACKUP_ID, is_validity_point=False)
        return group

    def on_committed(self, fleet: World, instance: Instance, logged: LoggedGroup) -> bool:
        """Read the position after the group, before anybody can see its change."""
        image = self._image
        if logged.group is self._group and image is not None and instance is self.source:
            self._image = None
            image.position = instance[BinaryLog].position
            self.mark(fleet, instance)
            instance.journal.record(RecordType.BACKUP, {"step": "image", **image.summary()})
            self.go_on(fleet, image)
        return True


class ImageRelayInfoStale(_BackupFault):
    """Relay.info of the image is the one from before the last transaction."""

    number = 120
    name = "image_relay_info_stale"
    text = "relay.info in the image of a replica is that of the group before"
    must_fire = frozenset({"backup_replica_positions_agree"})
    base = BaseHistory.REPLICA
    recovers = False

    def choose(self, fleet: World) -> Instance:
        """A replica."""
        return first_replica(fleet)

    def on_image(self, fleet: World, image: Image) -> None:
        """Let one row name the position before the last transaction."""
        for channel, copied in zip(
            self.backed_up[ChannelMap].channels.values(), image.channels, strict=True
        ):
            row = copied.get("slave_relay_log_info")
            applied = [
                queued
                for file in channel[RelayLog].files
                for queued in file.groups
                if queued.is_applied and ends_in_xid(queued.logged)
            ]
            if row is None or not applied or self.injected:
                continue
            last = applied[-1]
            row["Relay_log_name"] = f"./{last.relay_file.name}"
            row["Relay_log_pos"] = last.start
            row["Master_log_name"] = last.source_file
            row["Master_log_pos"] = last.logged.start
            self.mark(fleet, self.backed_up)


class ImageHasRelayPosition(_BackupFault):
    """The summary takes an offset of the relay log for one of the source's log."""

    number = 179
    name = "image_has_relay_position"
    text = "the executed position in the image of a replica has an offset of its relay log"
    must_fire = frozenset({"image_source_position_valid", "backup_replica_positions_agree"})
    base = BaseHistory.REPLICA
    recovers = False

    def choose(self, fleet: World) -> Instance:
        """A replica."""
        return first_replica(fleet)

    def on_image(self, fleet: World, image: Image) -> None:
        """Swap them where that is no end of a group, and after all positions of the image."""
        for copied in image.channels:
            file, offset = copied["exec_source_log_file"], copied["relay_log_pos"]
            source = fleet.instances[copied["source_instance"]]
            found = next((f for f in source[BinaryLog].files if f.name == file), None)
            if self.injected or found is None or not any(found.groups()):
                continue
            # In the source's next file the offsets are lower than those of the relay log, and in
            # this one no later group can end there.
            if found is source[BinaryLog].active:
                administration.flush_binary_logs(fleet, source)
            ends = {found.end, *(group.end for group in found.groups())}
            is_closed = found is not source[BinaryLog].active
            is_read_up_to = copied["read_source_log_file"] == file
            known = max(copied["exec_source_log_pos"], copied["read_source_log_pos"])
            if is_closed and is_read_up_to and offset > known and offset not in ends:
                copied["exec_source_log_pos"] = offset
                self.mark(fleet, self.backed_up)


class ImageMissesChange(_BackupFault):
    """A MyISAM table is copied before its last change, which the log has."""

    number = 121
    name = "image_misses_nontransactional_change"
    text = "a MyISAM table is copied while only commits are locked, before its change is visible"
    must_fire = frozenset({"recovered_data_equal_source"})
    _copy: TableData | None = None

    def begin(self, fleet: World) -> None:
        """Copy the tables, change one; the image is taken when the change is visible."""
        self._copy = self.source[TableData].copy([_MYISAM])
        group = make_change(
            fleet.rng, GroupKind.NON_TRANSACTIONAL, self.source.server_id, fleet.now
        )
        commit.commit(fleet, self.source, group)
        fleet.schedule(fleet.now + _VISIBLE_US, None, self.back_up)

    def on_image(self, fleet: World, image: Image) -> None:
        """Put the older copy into the image."""
        if self._copy is not None:
            image.data.rows.pop(_MYISAM, None)
            image.data.rows.update(self._copy.rows)
            self.mark(fleet, self.source)


class ReplayBeginsLate(_BackupFault):
    """The first groups after the image are left out, up to one of a table backed up."""

    number = 122
    name = "replay_begins_late"
    text = "a replay begins one group after the image's position"
    must_fire = frozenset(
        {"recovered_data_equal_source", "recovery_reaches_stop_point", "replay_continues_image"}
    )

    def on_replay(self, fleet: World, instance: Instance, groups: list[Group]) -> list[Group]:
        """Leave them out."""
        self.mark(fleet, instance)
        return groups[1 + next(n for n, group in enumerate(groups) if _counts(group)) :]


class ReplayRepeatsGroup(_BackupFault):
    """A group is executed twice, the second time without its GTID."""

    number = 123
    name = "replay_repeats_group"
    text = "the first group of a replay is executed once more under another GTID"
    must_fire = frozenset(
        {"recovered_data_equal_source", "recovery_reaches_stop_point", "replay_continues_image"}
    )
    # Where the source has no replica, it and the recovered server have both gone on by themselves.
    base = BaseHistory.REPLICA

    def on_replay(self, fleet: World, instance: Instance, groups: list[Group]) -> list[Group]:
        """Repeat the first group of a table that is backed up."""
        self.mark(fleet, instance)
        at = next(n for n, group in enumerate(groups) if _counts(group))
        again = replace(groups[at], sid=None, gno=-1, server_id=instance.server_id)
        return [*groups[: at + 1], again, *groups[at + 1 :]]


class ReplaySwapsGroups(_BackupFault):
    """Two changes of one row are swapped."""

    number = 124
    name = "replay_swaps_groups"
    text = "two groups that change one row are replayed in the wrong order"
    must_fire = frozenset({"recovered_data_equal_source", "replay_continues_image"})

    def on_replay(self, fleet: World, instance: Instance, groups: list[Group]) -> list[Group]:
        """Exchange them."""
        self.mark(fleet, instance)
        first, second = (groups.index(group) for group in self.changes)
        swapped = list(groups)
        swapped[first], swapped[second] = groups[second], groups[first]
        return swapped


class RestoredGtidSetLost(_BackupFault):
    """Nobody sets gtid_purged on the restored server."""

    number = 125
    name = "restored_gtid_set_lost"
    text = "an image is restored and gtid_purged is not set to its GTID set"
    must_fire = frozenset({"recovery_reaches_stop_point", "restore_matches_image"})

    def on_restore(self, fleet: World, instance: Instance) -> None:
        """The server has executed nothing as far as it knows."""
        self.mark(fleet, instance)
        for name in ("executed", "purged", "table", "table_only", "logged"):
            setattr(instance[GtidState], name, GtidIntervals())


class RestoredSetBeyondImage(_BackupFault):
    """Somebody sets gtid_purged to what the source has executed by now."""

    number = 196
    name = "restored_set_beyond_image"
    text = "gtid_purged of a restored server is set to a later set than its image's"
    must_fire = frozenset({"restore_matches_image"})

    def go_on(self, fleet: World, image: Image) -> None:
        """Restore it when the source has gone on, and replay nothing."""
        if self.source[GtidState].executed.is_subset(image.executed):
            fleet.schedule(fleet.now + _RETRY_US, None, self.go_on, image)
            return
        recovery.restore(fleet, image, recovery.add_server(fleet, self.source))

    def on_restore(self, fleet: World, instance: Instance) -> None:
        """The set is that of the source."""
        self.mark(fleet, instance)
        instance[GtidState].begin_with(self.source[GtidState].executed)


def _counts(group: Group) -> bool:
    """Whether a group changes data that are backed up, by itself."""
    table = table_of(group)
    return table is not None and table.is_backed_up and group.kind is GroupKind.INNODB
