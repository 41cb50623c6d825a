"""How a member of a replication group catches up: from binary logs, or by a clone (WL#9211).

User story 2 and F-3: where the group still has all binary logs that the joining member lacks, its
recovery channel receives them; where they are purged, the member is cloned from its donor first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.events.journal import QueryVerb
from tallystick.coordinates.values.binlog import EventType
from tallystick.producers.simulator.clone import cloning
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.server import administration, commit, workload
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from tallystick.producers.simulator.clone.recipient import Clone
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

RECOVERY_CHANNEL = "group_replication_recovery"


def needs_clone(member: Instance, donor: Instance) -> bool:
    """Tell whether binary logs that the member lacks are gone from the donor."""
    return not donor[GtidState].purged.is_subset(member[GtidState].executed)


def join(fleet: World, channel: Channel, donor: Instance) -> None:
    """START GROUP_REPLICATION on the replica of ``channel``.

    Args:
        fleet: The fleet.
        channel: The channel by which it replicated before.
        donor: The member that it recovers from.
    """
    if needs_clone(channel.replica, donor):
        cloning.clone(fleet, channel, donor=donor, step_4=recover_behind_clone)
    else:
        _recover(fleet, channel, donor)


def recover_behind_clone(fleet: World, channel: Channel, cloned: Clone) -> None:
    """US-1.1: the recovery channel receives what was committed after the clone."""
    _recover(fleet, channel, cloned.donor)


def _recover(fleet: World, channel: Channel, donor: Instance) -> None:
    member = channel.replica
    if channel.is_configured:
        administration.reset_replica(fleet, channel, everything=True)
    name = donor.variables["group_replication_group_name"]
    administration.set_variables(member, group_replication_group_name=name)
    administration.add_channel(fleet, member, RECOVERY_CHANNEL, donor)
    change_view(fleet, donor)


def change_view(fleet: World, member: Instance) -> None:
    """A member joins: the group logs a view change."""
    if not member.is_running:
        return
    group = workload.make_group(fleet.rng, GroupKind.EMPTY, member.server_id, fleet.now)
    begin, end = group.body
    view = (int(EventType.VIEW_CHANGE), int(QueryVerb.NONE), 141, fleet.rng.getrandbits(32))
    group.body = (begin, view, end)
    commit.commit(fleet, member, group)
