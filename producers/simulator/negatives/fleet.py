"""Fleets that change: other sources, paths, members, privileges and versions."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, ClassVar

from tallystick.coordinates.events.journal import QueryVerb
from tallystick.coordinates.values.binlog import EventType
from tallystick.producers.simulator.clone import cloning
from tallystick.producers.simulator.kernel.journal_writer import WrongClock
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.log_status.log_status_query import LogStatus, OutOfMemory
from tallystick.producers.simulator.negatives.acts import (
    MS_US,
    SECOND_US,
    channels,
    foreign_uuid,
    near,
    replicas,
    sources,
    time_at,
)
from tallystick.producers.simulator.negatives.negative import Negative
from tallystick.producers.simulator.server import administration, commit, lifecycle, workload
from tallystick.producers.simulator.server.channels import Applier, ChannelMap, Receiver
from tallystick.producers.simulator.server.clients import Clients
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

_UPGRADED_VERSION = "8.4.3"
_GNO_BLOCK = 1_000_000


class Failover(Negative):
    """A switchover: clients stop, replicas catch up, one becomes the source of all others."""

    name = "failover"
    text = "a replica becomes the source: a new UUID appears, retrieved sets begin anew"
    options: ClassVar = {"auto_position": True, "topology": "star"}
    attaches: ClassVar = True
    """Whether the old source replicates from the new one."""

    def arrange(self, fleet: World) -> None:
        source = sources(fleet)[0]
        moment = time_at(fleet, 0.4)
        fleet.clock.schedule(moment, source, _demote, source)
        fleet.schedule(moment + SECOND_US, None, _promote, source, self.attaches)


class OldSourceUnattached(Failover):
    """The same, and the old source stays as it is: nothing that it has is missing elsewhere."""

    name = "old_source_unattached"
    text = "a source that was replaced in order has no channel, and nobody replicates from it"
    attaches: ClassVar = False


class ReplicaDetached(Negative):
    """RESET REPLICA ALL on the only replica, for good: the source writes on."""

    name = "replica_detached"
    text = "two servers of one history have no channel; one has what the other will never get"
    options: ClassVar = {"auto_position": True, "topology": "pair"}

    def arrange(self, fleet: World) -> None:
        (channel,) = channels(fleet)
        near(fleet, 0.5, channel.replica, _detach, channel)


class PointedElsewhere(Negative):
    """CHANGE REPLICATION SOURCE; START REPLICA a collection or two later.

    In every second fleet the replica restarts in between; in the others the new source is away when
    the receiver starts.
    """

    name = "pointed_elsewhere"
    text = (
        "until the receiver is connected the relay coordinate is in the relay log that CHANGE"
        " REPLICATION SOURCE has removed"
    )
    options: ClassVar = {"auto_position": True, "topology": "chain"}

    def arrange(self, fleet: World) -> None:
        channel, source = channels(fleet)[-1], sources(fleet)[0]
        restarts = Random(f"pointed elsewhere {fleet.scenario.seed}").random() < 0.5
        at, who, start_at = (0.55, channel.replica, 0.85) if restarts else (0.71, source, 0.735)
        near(fleet, 0.3, channel.replica, _point_elsewhere, channel, source)
        near(fleet, at, who, lifecycle.shut_down, who)
        near(fleet, start_at, channel.replica, _start_there, channel)


class PointedWithinGroup(Negative):
    """Twice the receiver alone gets another source, when it is within a group."""

    name = "pointed_within_group"
    text = "an applier without workers names the file that it was in, beside positions in another"
    options: ClassVar = {
        "auto_position": True,
        "topology": "chain",
        "writes_per_second": 20.0,
        "applier_workers": 0,
    }
    # That leaves the replica behind, and the source to which this returns may purge meanwhile.
    excludes: ClassVar = frozenset({"pointed_elsewhere"})

    def arrange(self, fleet: World) -> None:
        fleet.pace.partial_chance = 0.6
        channel = channels(fleet)[-1]
        for share in (0.2, 0.25):
            near(fleet, share, channel.source, administration.flush_binary_logs, channel.source)
        near(fleet, 0.4, channel.replica, _point_within_group, channel, sources(fleet)[0])
        near(fleet, 0.7, channel.replica, _point_within_group, channel, channel.source)


class PointedByPosition(PointedElsewhere):
    """The same by file and position: the source has another address."""

    name = "pointed_by_position"
    text = "the same by file and position; what was received and not executed is received again"
    options: ClassVar = {"auto_position": False, "gtid_mode": "OFF", "topology": "pair"}
    # That changes the mode without waiting for what a stopped channel has still to receive.
    excludes: ClassVar = frozenset({"gtid_mode_permissive"})


class TwoPaths(Negative):
    """Two channels of one replica bring the groups of one source."""

    name = "two_paths"
    text = "one GTID arrives on two channels, one copy executes"
    options: ClassVar = {"topology": "diamond", "writes_per_second": 10.0}


class GroupReplication(Negative):
    """Sources number their groups as members of one group, each from its block."""

    name = "group_replication"
    text = "GTIDs under a group name, GNO blocks with large holes, view changes"
    options: ClassVar = {"gtid_mode": "ON"}

    def arrange(self, fleet: World) -> None:
        group_name = foreign_uuid(fleet)
        for instance in fleet.instances.values():
            administration.set_variables(instance, group_replication_group_name=group_name)
        for number, source in enumerate(sources(fleet)):
            source[GtidState].automatic_sid = group_name
            source[GtidState].gno_block = 1 + number * _GNO_BLOCK
            near(fleet, 0.3, source, _change_view, source)
            block = 1 + (number + 5) * _GNO_BLOCK
            near(fleet, 0.6, source, _take_block, source, group_name, block)


class IgnoredServerId(Negative):
    """One of two channels ignores what the source wrote."""

    name = "ignored_server_id"
    text = "a filtered channel leaves no relay events of a source"
    options: ClassVar = {"auto_position": True, "topology": "diamond"}

    def arrange(self, fleet: World) -> None:
        channel = channels(fleet)[-1]
        ids = tuple(source.server_id for source in sources(fleet))
        near(fleet, 0.3, channel.replica, _change_to_filtered, channel, ids)


class Clone(Negative):
    """A replica clones its source and resumes after it."""

    name = "clone"
    text = "a recipient's sets, LSN and channel jump; its own logs begin anew"
    options: ClassVar = {"auto_position": True, "topology": "pair", "acts": False}

    def arrange(self, fleet: World) -> None:
        for channel in channels(fleet):
            near(fleet, 0.5, None, cloning.clone, channel)


class RefusedCollection(Negative):
    """Privileges go and come back; a column cannot be collected once."""

    name = "refused_collection"
    text = "collections end with 1142, 1227 and 3722"

    def arrange(self, fleet: World) -> None:
        for instance in fleet.instances.values():
            refusal = fleet.rng.choice(("no_select", "no_backup_admin", "fail"))
            near(fleet, 0.2, instance, _refuse, instance, refusal)
            near(fleet, 0.6, instance, _refuse, instance, "all")


class Upgrade(Negative):
    """Replicas, then sources, restart with a newer version; then GTIDs get tags."""

    name = "upgrade"
    text = "an upgrade to 8.4: other event sizes, tagged GTIDs"
    options: ClassVar = {"topology": "pair"}
    # A restored server keeps its version, and cannot replicate tagged GTIDs.
    excludes: ClassVar = frozenset(
        {"recovery_on_new_server", "recovery_by_position", "recovery_from_replica"}
    )

    def arrange(self, fleet: World) -> None:
        for share, instances in ((0.2, replicas(fleet)), (0.5, sources(fleet))):
            for instance in instances:
                near(fleet, share, instance, upgrade_now, instance)


class SkewedClock(Negative):
    """The observers of the instances have clocks that differ, and go at different rates."""

    name = "skewed_clock"
    text = "clocks of producers differ: a replica's journal has groups before its source logs them"

    def arrange(self, fleet: World) -> None:
        rng = Random(f"skewed clock {fleet.scenario.seed}")
        instances = list(fleet.instances.values())
        rng.shuffle(instances)
        amount = rng.choice((SECOND_US // 5, SECOND_US, 3 * SECOND_US))
        for number, instance in enumerate(instances):
            ahead_us = (amount, -amount)[number] if number < 2 else 0
            drift = rng.uniform(-0.001, 0.001)
            instance.journal.hand_over(WrongClock(fleet.start_ts, ahead_us, drift))


def _demote(old: Instance) -> None:
    old[Clients].writes = False
    old[CommitQueue].super_read_only = True


def _promote(fleet: World, old: Instance, attaches: bool) -> None:
    """As soon as every replica has everything: the group before was a second ago."""
    replicated = [c for c in channels(fleet) if c.source is old]
    is_ready = bool(replicated) and not any(_lacks(channel, old) for channel in replicated)
    if old[CommitQueue].in_commit or not old.is_running or not is_ready:
        fleet.schedule(fleet.now + SECOND_US // 10, None, _promote, old, attaches)
        return
    promoted = replicated[0].replica
    for channel in replicated:
        administration.stop_replication(fleet, channel)
    administration.reset_replica(fleet, replicated[0], everything=True)
    for channel in replicated[1:]:
        administration.change_source(fleet, channel, promoted)
        administration.start_replication(fleet, channel)
    if attaches:
        administration.add_channel(fleet, old, "", promoted)
    promoted[Clients].writes = True


def _lacks(channel: Channel, source: Instance) -> bool:
    """Whether a replica cannot yet do without its source."""
    replica = channel.replica
    is_ready = replica.is_running and not replica[ChannelMap].awaits_clone and not channel.pending
    return not is_ready or not source[GtidState].executed.is_subset(replica[GtidState].executed)


def _point_elsewhere(fleet: World, channel: Channel, source: Instance) -> None:
    """By position it goes on after what it has executed."""
    if channel.is_configured and not channel.replica[ChannelMap].awaits_clone:
        administration.stop_replication(fleet, channel)
        executed = channel[Applier].executed
        administration.change_source(fleet, channel, source, position=executed)


def _point_within_group(fleet: World, channel: Channel, source: Instance) -> None:
    if fleet.now > fleet.load_ends_at or not channel.replica.is_running:
        return
    if channel.is_configured and channel[Receiver].is_running and channel.partial_group is not None:
        administration.point_receiver(fleet, channel, source)
        return
    later = fleet.now + MS_US
    fleet.schedule(later, channel.replica, _point_within_group, channel, source)


def _start_there(fleet: World, channel: Channel) -> None:
    if channel.is_configured and channel.replica.is_running:
        administration.start_replication(fleet, channel)


def _change_view(fleet: World, instance: Instance) -> None:
    """A member joins: a view change group under the group name."""
    group = workload.make_group(fleet.rng, GroupKind.EMPTY, instance.server_id, fleet.now)
    begin, end = group.body
    view = (int(EventType.VIEW_CHANGE), int(QueryVerb.NONE), 141, fleet.rng.getrandbits(32))
    group.body = (begin, view, end)
    if instance.is_running:
        commit.commit(fleet, instance, group)


def _take_block(fleet: World, instance: Instance, group_name: str, first: int) -> None:
    """The group hands out the next block of GNOs, if the member still numbers by the group."""
    if instance[GtidState].automatic_sid == group_name and fleet.now < fleet.load_ends_at:
        instance[GtidState].gno_block = first


def _change_to_filtered(fleet: World, channel: Channel, ids: tuple[int, ...]) -> None:
    administration.stop_replication(fleet, channel)
    administration.change_source(fleet, channel, channel.source, ignore_server_ids=ids)
    administration.start_replication(fleet, channel)


def _refuse(fleet: World, instance: Instance, refusal: str) -> None:
    if refusal == "fail":
        resource = fleet.rng.choice(("binlog", "engine:InnoDB"))
        instance[LogStatus].out_of_memory = OutOfMemory("collect", resource)
    else:
        instance[LogStatus].privileges = refusal


def upgrade_now(fleet: World, instance: Instance) -> None:
    """Restart with a newer version."""
    lifecycle.shut_down(fleet, instance)
    instance.version = _UPGRADED_VERSION
    if instance[Clients].writes:
        instance[GtidState].automatic_sid = f"{instance.server_uuid}:batch"
        instance[GtidState].gno_block = 1


def _detach(fleet: World, channel: Channel) -> None:
    administration.reset_replica(fleet, channel, everything=True)
