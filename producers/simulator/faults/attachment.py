"""Faults of who replicates from whom: a channel to nowhere, a server that was left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallystick.producers.simulator.faults import cures
from tallystick.producers.simulator.faults.channels import leaf_channels
from tallystick.producers.simulator.faults.fault import ActFault, BaseHistory
from tallystick.producers.simulator.faults.fleet import FleetFault, SourceLosesCommits
from tallystick.producers.simulator.faults.logs import gtid_of, is_pure_source
from tallystick.producers.simulator.faults.row import Row
from tallystick.producers.simulator.log_status.log_status_query import LogStatus
from tallystick.producers.simulator.server import administration, clients, lifecycle
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap, Receiver
from tallystick.producers.simulator.server.clients import Clients
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from tallystick.coordinates.values.gtid import GtidSet
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import LoggedGroup
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

_RETRY_US: Final = 50_000


class ChannelToItself(FleetFault, ActFault):
    """CHANGE REPLICATION SOURCE with the replica's own host; its receiver stops with an error."""

    number = 215
    name = "channel_to_itself"
    text = "a replica is pointed to itself"
    must_fire = frozenset({"receiver_not_failed", "source_is_another_server"})
    base = BaseHistory.SINGLE_CHANNEL
    bears_acts = False
    heals = False

    def act(self, fleet: World) -> bool:
        self._channel = next((c for c in leaf_channels(fleet) if c[Receiver].is_connected), None)
        if self._channel is None:
            return False
        self._source = self._channel.source
        self._point_to(fleet, self._channel.replica)
        self.mark(fleet, self._channel.replica)
        return True

    def _point_to(self, fleet: World, source: Instance) -> None:
        assert self._channel is not None
        administration.stop_replication(fleet, self._channel)
        administration.change_source(fleet, self._channel, source)
        administration.start_replication(fleet, self._channel)

    def cure(self, fleet: World) -> None:
        """Point it to its source again."""
        self._point_to(fleet, self._source)


class DemotedSourceLeftAlone(FleetFault, ActFault):
    """A failover loses what replicas had not received, and nobody attaches the old source."""

    number = 216
    name = "demoted_source_left_alone"
    text = "a replica is promoted without the source's last groups, and the source stays alone"
    must_fire = frozenset({"isolated_within_cluster"})
    base = BaseHistory.SINGLE_CHANNEL
    bears_acts = False
    heals = False
    retry_us = _RETRY_US

    def act(self, fleet: World) -> bool:
        """Cut a source off from all its replicas."""
        old = next(
            (i for i in fleet.instances.values() if is_pure_source(i) and i.is_running), None
        )
        if old is None or not old[ChannelMap].subscribers:
            return False
        followers = list(old[ChannelMap].subscribers)
        if not all(c[Receiver].is_connected for c in followers):
            return False
        for channel in followers:
            administration.stop_replication(fleet, channel)
        clients.write(fleet, old)
        old[Clients].writes = False
        fleet.schedule(fleet.now + _RETRY_US, None, self._promote, old, followers)
        return True

    def _promote(self, fleet: World, old: Instance, followers: list[Channel]) -> None:
        if old[CommitQueue].in_commit:
            fleet.schedule(fleet.now + _RETRY_US, None, self._promote, old, followers)
            return
        candidates = [c for c in followers if _only_channel(c)]
        first = max(candidates, key=lambda c: c.replica[GtidState].executed.to_gtid_set().count())
        promoted = first.replica
        administration.reset_replica(fleet, first, everything=True)
        for channel in followers:
            if channel is not first:
                administration.change_source(fleet, channel, promoted)
                administration.start_replication(fleet, channel)
        clients.write(fleet, promoted)
        promoted[Clients].writes = True
        self._old, self._promoted = old, promoted
        self.mark(fleet, old)

    def cure(self, fleet: World) -> None:
        """Let the new source fetch what only the old one has, and attach that."""
        cures.fetch_from(fleet, self._promoted, self._old)
        administration.add_channel(fleet, self._old, "", self._promoted)


class OwnLostInFailover(SourceLosesCommits, ActFault):
    """A power cut, a failover to a replica that has what it took, and the old source attached.

    No row of the old source has shown what it lost, and it ignores what it wrote itself.
    """

    number = 268
    name = "own_lost_in_failover"
    text = "a source that a power cut has set back replicates from the replica that was promoted"
    must_fire = frozenset({"applied_relay_gtids_executed"})
    base = BaseHistory.SINGLE_CHANNEL
    bears_acts = False

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[str, GtidSet] = {}

    def on_row(
        self, fleet: World, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Note what a source has shown, until its replicas may have shown more."""
        del fleet
        row = Row.of(instance, body)
        if row is not None:
            self._shown[instance.instance_id] = row.executed
        for channel in instance[ChannelMap].configured:
            self._shown.pop(channel.source.instance_id, None)
        return body

    def _last_groups(self, source: Instance) -> list[LoggedGroup]:
        """Those that no row has shown."""
        last: list[LoggedGroup] = []
        for logged in super()._last_groups(source):
            if gtid_of(logged) <= self._shown[source.instance_id]:
                break
            last.append(logged)
        return last

    def act(self, fleet: World) -> bool:
        """Cut the power when the replicas have executed all, and move them away."""
        source = next((i for i in fleet.instances.values() if self._is_ready(i)), None)
        if source is None:
            return False
        followers = list(source[ChannelMap].subscribers)
        # With another channel the promoted would stay a replica, to which the old one is errant.
        first = next(c for c in followers if _only_channel(c))
        others = [c for c in followers if c is not first]
        promoted = first.replica
        for channel in followers:
            administration.stop_replication(fleet, channel)
        administration.reset_replica(fleet, first, everything=True)
        for channel in others:
            administration.change_source(fleet, channel, promoted)
            administration.start_replication(fleet, channel)
        source[Clients].writes, promoted[Clients].writes = False, True
        self._victim = source
        self.mark(fleet, source)
        lifecycle.crash(fleet, source, torn=False)
        fleet.schedule(fleet.now + _RETRY_US, None, self._attach, source, promoted)
        return True

    def _is_ready(self, source: Instance) -> bool:
        channels = source[ChannelMap].subscribers
        has_shown = is_pure_source(source) and source.instance_id in self._shown
        # What is being read would show what a replica had retrieved before.
        reads = any(c.replica[LogStatus].is_collecting for c in channels)
        return (
            has_shown
            and not reads
            and source.is_running
            and not source[CommitQueue].in_commit
            and any(_only_channel(c) for c in channels)
            and bool(self._last_groups(source))
            and all(
                c[Receiver].read == source[BinaryLog].position
                and source[GtidState].executed.is_subset(c.replica[GtidState].executed)
                for c in channels
            )
        )

    def _attach(self, fleet: World, source: Instance, promoted: Instance) -> None:
        if source.is_running:
            administration.add_channel(fleet, source, "", promoted)
        else:
            fleet.schedule(fleet.now + _RETRY_US, None, self._attach, source, promoted)


def _only_channel(channel: Channel) -> bool:
    return len(channel.replica[ChannelMap].channels) == 1
