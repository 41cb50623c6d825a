"""F50 names a group that nothing was received of: one that is arriving may be counted already."""

from __future__ import annotations

from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.assemble import Fleet
from tallystick.producers.simulator.faults.logs import gtid_of
from tallystick.producers.simulator.faults.replication import RetrievedInflated
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.server import clients, receiver
from tallystick.producers.simulator.server.channels import (
    Channel,
    ChannelMap,
    QueuedGroup,
    Receiver,
)


class StatusRow:
    """A row that has of one channel only what it retrieved."""

    def __init__(self, channel: Channel) -> None:
        self.reported = {"Retrieved_Gtid_Set": channel[Receiver].retrieved.text()}

    def status(self, _channel: Channel) -> dict[str, str]:
        return self.reported


def receive_in_part(fleet: Fleet, channel: Channel) -> QueuedGroup:
    """Lets time pass until a part of a group is received, and the clients have written more."""
    while fleet.now < fleet.load_ends_at:
        fleet.run(fleet.now + 100)
        last = channel.pending[-1] if channel.pending else None
        if isinstance(last, QueuedGroup) and not last.is_complete:
            return last
    raise AssertionError("no group came in pieces")


def test_a_group_that_was_arriving_is_not_the_one_named():
    """The connection breaks inside a group and is made anew: the fault names one after it."""
    fleet = Fleet(Scenario(3, topology="pair", writes_per_second=60.0))
    fleet.pace.partial_chance = 1.0
    [channel] = fleet.instances["replica-a1"][ChannelMap].channels.values()
    partial = receive_in_part(fleet, channel)
    receiver.disconnect(fleet, channel)
    receiver.connect(fleet, channel, channel.generation)
    for _ in range(2):
        clients.write(fleet, channel.source)
    row = StatusRow(channel)
    assert RetrievedInflated().tamper_channel(row, row, channel)
    named = (
        GtidSet.parse(row.reported["Retrieved_Gtid_Set"])
        - channel[Receiver].retrieved.to_gtid_set()
    )
    assert 1 == named.count()
    assert named.isdisjoint(gtid_of(partial.logged))
