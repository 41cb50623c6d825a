"""How an operator heals what a fault broke: what the remedies of its rules ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tallystick.producers.simulator.clone import cloning
from tallystick.producers.simulator.server import administration, lifecycle
from tallystick.producers.simulator.server.channels import ChannelMap
from tallystick.producers.simulator.server.clients import Clients
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from tallystick.producers.simulator.faults.fault import Fault
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

_COLLECTIONS: Final = 3.5
"""So many intervals after a fault the collections have shown it, whatever the clocks."""
_LOOK_US: Final = 50_000


def schedule(fleet: World, fault: Fault) -> None:
    """Cure the fault when the history shows it, and a collection has."""
    interval_ms = fleet.scenario.collection_interval_ms
    shown_us = int(_COLLECTIONS * interval_ms + fault.shown_after_ms) * 1_000
    if not fault.injected or fleet.now < fault.injected_at + shown_us:
        fleet.schedule(fleet.now + _LOOK_US, None, schedule, fault)
        return
    fault.withdraw(fleet)
    if fault.has_own_cure():
        fault.cure(fleet)
    else:
        rebuild(fleet, fault.injected_in)


def rebuild(fleet: World, instance_id: str) -> None:
    """CLONE INSTANCE FROM the source, and replicate from there; a source is replaced first."""
    server = fleet.instances[instance_id]
    if server[ChannelMap].configured:
        cloning.clone(fleet, server[ChannelMap].configured[0])
    else:
        replace_source(fleet, server)


def replace_source(fleet: World, old: Instance) -> None:
    """Promote a replica that has everything, and make the old source a clone of it."""
    old[Clients].writes = False
    followers = [c for c in old[ChannelMap].subscribers if c.is_configured]
    if old[CommitQueue].in_commit or not all(_has_everything(old, c.replica) for c in followers):
        fleet.schedule(fleet.now + _LOOK_US, None, replace_source, old)
        return
    first, *others = followers
    administration.reset_replica(fleet, first, everything=True)
    for channel in others:
        administration.stop_replication(fleet, channel)
        administration.change_source(fleet, channel, first.replica)
        administration.start_replication(fleet, channel)
    first.replica[Clients].writes = True
    cloning.clone(fleet, administration.add_channel(fleet, old, "", first.replica))


def _has_everything(source: Instance, replica: Instance) -> bool:
    executed = source[GtidState].executed.minus(replica[GtidState].executed)
    return source.is_running and replica.is_running and not executed


def fetch_again(fleet: World, channel: Channel) -> None:
    """RESET REPLICA: with auto-positioning all that is not executed is asked for again."""
    administration.reset_replica(fleet, channel)
    administration.start_replication(fleet, channel)


def fetch_from(fleet: World, source: Instance, replica: Instance) -> None:
    """Let the source fetch what only its replica has, by a channel that is removed afterwards."""
    channel = administration.add_channel(fleet, source, "fetch", replica)

    def remove(_fleet: World) -> None:
        if replica[GtidState].executed.minus(source[GtidState].executed):
            fleet.schedule(fleet.now + _LOOK_US, None, remove)
        else:
            administration.reset_replica(fleet, channel, everything=True)

    remove(fleet)


def restart_as(
    fleet: World, instance: Instance, *, server_uuid: str = "", server_id: int = 0
) -> None:
    """Restart a server without its auto.cnf, or with another server_id."""
    lifecycle.shut_down(fleet, instance)
    instance.server_id = server_id or instance.server_id
    if server_uuid:
        instance.server_uuid = instance[GtidState].automatic_sid = server_uuid
