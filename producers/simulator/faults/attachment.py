"""Faults of who replicates from whom: a channel to nowhere, a server that was left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tallystick.producers.simulator.faults import cures
from tallystick.producers.simulator.faults.channels import leaf_channels
from tallystick.producers.simulator.faults.fault import ActFault, BaseHistory
from tallystick.producers.simulator.faults.fleet import FleetFault
from tallystick.producers.simulator.faults.logs import is_pure_source
from tallystick.producers.simulator.server import administration, clients
from tallystick.producers.simulator.server.channels import ChannelMap, Receiver
from tallystick.producers.simulator.server.clients import Clients
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
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
        candidates = [c for c in followers if len(c.replica[ChannelMap].channels) == 1]
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
