"""Clones (WL#9211): legal histories in which a clone looks wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tallystick.producers.simulator.clone import cloning, distributed_recovery
from tallystick.producers.simulator.clone.clone_status import STAGES, CloneStatus, State
from tallystick.producers.simulator.clone.cloning import CrashPoint
from tallystick.producers.simulator.clone.donor import END_STEPS
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.negatives.acts import (
    MS_US,
    SECOND_US,
    after_ms,
    watch_persisters,
)
from tallystick.producers.simulator.negatives.fleet import (
    Failover,
    GroupReplication,
    Upgrade,
    upgrade_now,
)
from tallystick.producers.simulator.negatives.negative import Negative
from tallystick.producers.simulator.negatives.replication import SemiSync
from tallystick.producers.simulator.server import administration, clients, commit, workload
from tallystick.producers.simulator.server.channels import ChannelMap
from tallystick.producers.simulator.server.commit_queue import CommitQueue

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

_RECIPIENT_CRASHES = tuple(CrashPoint("recipient", stage) for stage in STAGES)
_DONOR_CRASHES = tuple(
    CrashPoint("donor", step)
    for step in ("DROP DATA", "FILE COPY", "PAGE COPY", *END_STEPS, "FILE SYNC", "RESTART")
)
_PAIR = {"topology": "pair", "auto_position": True, "acts": False, "duration_ms": 4_000}
"""With the duration no case goes together with one whose clone fails on the same channel."""


class CloneRecipientCrashes(Negative):
    """The recipient crashes at every stage, in a later one each time."""

    name = "clone_recipient_crashes"
    text = "a clone fails at every stage of the copy and is issued again; recovery is begun twice"
    options: ClassVar = {**_PAIR, "duration_ms": 6_000, "max_binlog_size": 1 << 16}

    def arrange(self, fleet: World) -> None:
        watch_persisters(fleet)
        after_ms(fleet, 500, None, _clone, *_RECIPIENT_CRASHES)


class CloneDonorCrashes(Negative):
    """The donor crashes at every stage and at every step of the end."""

    name = "clone_donor_crashes"
    text = "the donor crashes at every stage and at every step of the end of a clone"
    options: ClassVar = {**_PAIR, "duration_ms": 8_000}

    def arrange(self, fleet: World) -> None:
        after_ms(fleet, 400, None, _clone, *_DONOR_CRASHES)


class CloneUnderLoad(Negative):
    """Many commits, unordered and slow, while the clone ends; the donor persists GTIDs."""

    name = "clone_under_load"
    text = "commits are unordered before and after the end of a clone, and ordered in between"
    options: ClassVar = {
        **_PAIR,
        "profile": "mysql-8.0",
        "order_commits": False,
        "writes_per_second": 40.0,
    }

    def arrange(self, fleet: World) -> None:
        fleet.pace.commit_stage_us = (2_000, 80_000)
        watch_persisters(fleet)
        after_ms(fleet, 1_500, None, _clone)


class CloneByPosition(Negative):
    """US-1.3: without auto-position the channel starts at the cloned position."""

    name = "clone_by_position"
    text = "a clone without auto-position starts in the middle of its donor's file"
    options: ClassVar = {"topology": "pair", "auto_position": False, "writes_per_second": 10.0}

    def arrange(self, fleet: World) -> None:
        after_ms(fleet, 1_700, None, _clone)


class CloneSemiSync(Negative):
    """F-4: before and after the clone the donor waits for acknowledgements."""

    name = "clone_semi_sync"
    text = "the donor waits for the acknowledgement of a recipient that is being cloned"
    options: ClassVar = {**_PAIR, "profile": "mysql-8.0", "writes_per_second": 20.0}

    def arrange(self, fleet: World) -> None:
        SemiSync().arrange(fleet)
        after_ms(fleet, 1_500, None, _clone)


class CloneXa(Negative):
    """XA transactions are prepared before, during and after the clone, and committed later."""

    name = "clone_xa"
    text = "XA transactions are prepared in the donor's data and committed after the clone"
    options: ClassVar = _PAIR

    def arrange(self, fleet: World) -> None:
        source = fleet.instances["source-a"]
        for ms in range(300, 2_700, 150):
            after_ms(fleet, ms, None, _prepare, source)
        after_ms(fleet, 1_000, None, _clone)


class CloneOfAClone(Negative):
    """A replica clones the source, the next one clones the clone and follows it."""

    name = "clone_of_a_clone"
    text = "a clone is cloned in its turn: two servers have data of a third"
    options: ClassVar = {"topology": "star", "auto_position": True, "acts": False}

    def arrange(self, fleet: World) -> None:
        after_ms(fleet, 600, None, _clone)
        after_ms(fleet, 1_900, None, _clone_the_clone)


class CloneThenFailover(Negative):
    """A clone becomes the source of all others soon after it."""

    name = "clone_then_failover"
    text = "a clone becomes the source: GTIDs that its own binary log never had are purged there"
    options: ClassVar = _PAIR

    def arrange(self, fleet: World) -> None:
        after_ms(fleet, 300, None, _clone)
        Failover().arrange(fleet)


class CloneThenUpgrade(Negative):
    """The recipient, then the donor are upgraded after the clone, as any server is."""

    name = "clone_then_upgrade"
    text = "a clone is upgraded like any server"
    options: ClassVar = _PAIR
    excludes: ClassVar = Upgrade.excludes

    def arrange(self, fleet: World) -> None:
        after_ms(fleet, 400, None, _clone)
        for ms, name in ((2_300, "replica-a1"), (3_200, "source-a")):
            after_ms(fleet, ms, None, _upgrade, fleet.instances[name])


class CloneRefused(Negative):
    """The recipient is a release ahead: 3864, and it goes on as the replica that it was."""

    name = "clone_refused"
    text = "the version differs: error 3864, nothing is dropped, replication goes on"
    options: ClassVar = _PAIR

    def arrange(self, fleet: World) -> None:
        after_ms(fleet, 500, None, _upgrade, fleet.instances["replica-a1"])
        after_ms(fleet, 1_600, None, _clone)


class CloneAcrossModes(Negative):
    """F-6: a donor of OFF_PERMISSIVE, then ON_PERMISSIVE; a recipient of ON."""

    name = "clone_across_modes"
    text = "donor and recipient differ in gtid_mode: anonymous groups before the position"
    options: ClassVar = {"topology": "pair", "auto_position": False, "acts": False}
    # The clone would be refused, and its mode stops the applier at the next anonymous group.
    excludes: ClassVar = frozenset({"upgrade"})

    def arrange(self, fleet: World) -> None:
        channel = _channel(fleet)
        after_ms(fleet, 600, None, _leave_mode, channel)


class CloneIntoGroup(Negative):
    """F-3: a member that has left comes back when the binary logs that it lacks are purged."""

    name = "clone_into_group"
    text = "a member comes back to its group by a clone, as the logs that it lacks are purged"
    options: ClassVar = {**_PAIR, **GroupReplication.options}

    def arrange(self, fleet: World) -> None:
        GroupReplication().arrange(fleet)
        channel = _channel(fleet)
        after_ms(fleet, 900, None, _leave_group, channel)


def _channel(fleet: World, recipient: str = "replica-a1") -> Channel:
    return next(iter(fleet.instances[recipient][ChannelMap].channels.values()))


def _clone(fleet: World, *crashes: CrashPoint) -> None:
    channel = _channel(fleet)
    status = channel.replica.get(CloneStatus)
    if status is not None and status.state is not State.COMPLETED:
        # One clone at a time; one that has failed is issued again by whoever issued it.
        fleet.schedule(fleet.now + 100 * MS_US, None, _clone, *crashes)
        return
    cloning.clone(fleet, channel, crashes=crashes)


def _prepare(fleet: World, instance: Instance) -> None:
    if instance.is_running:
        group = workload.make_group(fleet.rng, GroupKind.XA_PREPARE, instance.server_id, fleet.now)
        commit.commit(fleet, instance, group)
        fleet.schedule(fleet.now + SECOND_US, None, _end_xa, instance, group)


def _end_xa(fleet: World, instance: Instance, prepared: Group) -> None:
    if not instance.is_running or prepared not in instance[CommitQueue].prepared_xa:
        fleet.schedule(fleet.now + SECOND_US // 5, None, _end_xa, instance, prepared)
        return
    clients.write(fleet, instance, GroupKind.XA_COMMIT, xa_of=prepared)


def _clone_the_clone(fleet: World) -> None:
    donor = fleet.instances["replica-a1"]
    if donor[ChannelMap].awaits_clone or donor.get(CloneStatus) is None:
        _again(fleet, _clone_the_clone)
        return
    cloning.clone(fleet, _channel(fleet, "replica-a2"), donor=donor)


def _again(fleet: World, act: Any, *args: object) -> None:
    fleet.schedule(fleet.now + 50 * MS_US, None, act, *args)


def _upgrade(fleet: World, instance: Instance) -> None:
    if (
        instance[ChannelMap].awaits_clone
        or not instance.is_running
        or instance.blocked_until > fleet.now
    ):
        _again(fleet, _upgrade, instance)
        return
    upgrade_now(fleet, instance)


def _is_there(instance: Instance) -> bool:
    """Whether a server runs, and nobody makes a clone of it."""
    return instance.is_running and not instance[ChannelMap].awaits_clone


def _leave_mode(fleet: World, channel: Channel) -> None:
    donor = channel.source
    if not (donor.is_running and _is_there(channel.replica)):
        _again(fleet, _leave_mode, channel)
        return
    if donor.variables["gtid_mode"] != "ON":
        _clone(fleet)  # the fleet is elsewhere already
        return
    administration.stop_replication(fleet, channel)
    for mode in ("ON_PERMISSIVE", "OFF_PERMISSIVE"):
        commit.finish_all(fleet, donor)
        administration.set_variables(donor, gtid_mode=mode)
    fleet.schedule(fleet.now + 600 * MS_US, None, _clone)
    fleet.schedule(fleet.now + 700 * MS_US, donor, _enter_mode, donor)


def _enter_mode(fleet: World, donor: Instance) -> None:
    if not donor.is_running:
        _again(fleet, _enter_mode, donor)
        return
    commit.finish_all(fleet, donor)
    administration.set_variables(donor, gtid_mode="ON_PERMISSIVE")


def _leave_group(fleet: World, channel: Channel) -> None:
    if not _is_there(channel.replica):
        _again(fleet, _leave_group, channel)
        return
    administration.reset_replica(fleet, channel, everything=True)
    fleet.schedule(fleet.now + 700 * MS_US, None, _purge_and_join, channel)


def _purge_and_join(fleet: World, channel: Channel) -> None:
    donor = channel.source
    if not (donor.is_running and _is_there(channel.replica)):
        _again(fleet, _purge_and_join, channel)
        return
    administration.flush_binary_logs(fleet, donor)
    administration.purge_binary_logs(fleet, donor)
    distributed_recovery.join(fleet, channel, donor)
