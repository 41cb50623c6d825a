"""Provisioning a replica by a clone (WL#9211, user scenario US-1).

Step 1 executes CLONE INSTANCE on the recipient, step 2 waits for its restart, step 3 looks into
clone_status. Where that says Failed the clone is issued again; where it says Completed, step 4
configures the channel, by GTID or at the cloned position, and starts replication.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallystick.producers.simulator.clone.clone_status import ER_CLONE_DONOR_VERSION, State
from tallystick.producers.simulator.clone.donor import BLOCKED_US
from tallystick.producers.simulator.clone.recipient import Clone, CrashPoint
from tallystick.producers.simulator.server import administration, commit
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

__all__ = ["Cloning", "CrashPoint", "clone", "follow_donor"]

_LOOK_US = 40_000
"""After this time an operator looks again at servers that are not ready, or goes on."""
_AGAIN_US = 150_000


def follow_donor(fleet: World, channel: Channel, cloned: Clone) -> None:
    """Step 4 (US-1.2, US-1.3): the recipient becomes a replica of its donor."""
    status = cloned.status
    position = (status.binlog_file, status.binlog_position)
    administration.change_source(fleet, channel, cloned.donor, position=position)
    administration.start_replication(fleet, channel)


@dataclass(slots=True, eq=False)
class Cloning:
    """What an operator does to make one replica by a clone.

    Attributes:
        channel: The channel of the recipient that replicates before and afterwards.
        donor: Whom to clone.
        crashes: Crash points, each taken once over all attempts.
        blocked_us: How long the donor holds external XA back.
        step_4: Configures and starts replication when the clone has completed.
        again_us: How long after a failure it is issued again.
        data_dropped: Whether the recipient's own data are gone.
        has_begun: Whether the recipient is kept out of replication for this clone.
    """

    fleet: World
    channel: Channel
    donor: Instance
    crashes: list[CrashPoint]
    blocked_us: int
    step_4: Callable[[World, Channel, Clone], None]
    again_us: int
    data_dropped: bool = False
    has_begun: bool = False

    def begin(self, _fleet: World) -> None:
        """Step 1, as soon as both servers are there and nobody else makes a clone there."""
        recipient = self.channel.replica
        is_taken = recipient[ChannelMap].awaits_clone and not self.has_begun
        are_ready = _is_ready(self.fleet, recipient) and _is_ready(self.fleet, self.donor)
        if is_taken or not are_ready:
            self._later(_LOOK_US, self.begin)
            return
        self.has_begun = True
        recipient[ChannelMap].awaits_clone = True
        for channel in recipient[ChannelMap].channels.values():
            administration.stop_replication(self.fleet, channel)
        commit.finish_all(self.fleet, recipient)
        issued = Clone(self.fleet, recipient, self.donor, self._look, self.crashes, self.blocked_us)
        if issued.begin() is not None:
            recipient[ChannelMap].awaits_clone = False
            administration.start_replication(self.fleet, self.channel)

    def _look(self, ended: Clone) -> None:
        """Step 3: look into clone_status."""
        self.data_dropped = self.data_dropped or ended.data_dropped
        if ended.status.state is State.COMPLETED:
            self._later(_LOOK_US, self._replicate, ended)
        elif ended.status.error.number == ER_CLONE_DONOR_VERSION and not self.data_dropped:
            # Nothing was touched: it goes on as the replica that it was.
            self._later(_LOOK_US, self._give_up)
        else:
            self._later(self.again_us, self.begin)

    def _replicate(self, _fleet: World, completed: Clone) -> None:
        recipient = self.channel.replica
        if not _is_ready(self.fleet, recipient):
            self._later(_LOOK_US, self._replicate, completed)
            return
        recipient[ChannelMap].awaits_clone = False
        self.step_4(self.fleet, self.channel, completed)

    def _give_up(self, _fleet: World) -> None:
        recipient = self.channel.replica
        if not _is_ready(self.fleet, recipient):
            self._later(_LOOK_US, self._give_up)
            return
        recipient[ChannelMap].awaits_clone = False
        for channel in recipient[ChannelMap].configured:
            administration.start_replication(self.fleet, channel)

    def _later(self, delay_us: int, act: Callable[..., None], *args: object) -> None:
        self.fleet.schedule(self.fleet.now + delay_us, None, act, *args)


def clone(
    fleet: World,
    channel: Channel,
    *,
    donor: Instance | None = None,
    crashes: tuple[CrashPoint, ...] = (),
    blocked_us: int = BLOCKED_US,
    step_4: Callable[[World, Channel, Clone], None] = follow_donor,
    again_us: int = _AGAIN_US,
) -> None:
    """Make the replica of ``channel`` a clone, and let it replicate from there.

    Args:
        fleet: The fleet.
        channel: A channel of the recipient.
        donor: Whom to clone; None: the source of the channel.
        crashes: Where crashes cut it off; it is issued again until it succeeds.
        blocked_us: How long external XA of the donor waits while the clone ends.
        step_4: Configures and starts replication when the clone has completed.
        again_us: How long after a failure it is issued again.
    """
    source = channel.source if donor is None else donor
    Cloning(fleet, channel, source, list(crashes), blocked_us, step_4, again_us).begin(fleet)


def _is_ready(fleet: World, instance: Instance) -> bool:
    return (
        instance.is_running and instance[BinaryLog].is_open and fleet.now >= instance.blocked_until
    )
