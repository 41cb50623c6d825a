"""What faults of replication channels share: rows of a channel, positions, slow networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tallystick.coordinates.values.binlog import parse_log_file_name
from tallystick.producers.simulator.faults.fault import BaseHistory, Fault, FaultGroup
from tallystick.producers.simulator.faults.row import Row, RowFault
from tallystick.producers.simulator.server import applier, receiver
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import Applier, ChannelMap, Receiver, RelayLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallystick.producers.simulator.kernel.transactions import LoggedGroup
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.binary_log import BinlogFile
    from tallystick.producers.simulator.server.channels import Channel, QueuedGroup, RelayFile

_RETRY_US: Final = 1_000


class ChannelFault(Fault):
    """A receiver or an applier does something else than it should."""

    group = FaultGroup.CHANNEL
    base = BaseHistory.REPLICA


class ChannelRowFault(RowFault):
    """Tampers with what one row says of one channel."""

    group = FaultGroup.CHANNEL
    base = BaseHistory.REPLICA

    def tamper_channel(self, row: Row, before: Row, channel: Channel) -> bool:
        """Change what ``row`` says of ``channel``, if the moment allows it."""
        raise NotImplementedError

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        """Tamper with the first channel that allows it."""
        return any(
            channel[Receiver].is_running
            and channel[Receiver].is_connected
            and self.tamper_channel(row, before, channel)
            for channel in row.instance[ChannelMap].channels.values()
        )


def channels(fleet: World) -> Iterator[Channel]:
    """All channels, in the order of instances."""
    for instance in fleet.instances.values():
        yield from instance[ChannelMap].channels.values()


def relay_file(channel: Channel, name: str) -> RelayFile | None:
    """The retained relay log file of that name."""
    return next((file for file in channel[RelayLog].files if file.name == name), None)


def coordinate(name: str, position: int) -> tuple[int, int]:
    """File and position as a value that is ordered as the log is."""
    return (parse_log_file_name(name)[1], position) if name else (0, position)


def unread_groups(channel: Channel) -> Iterator[tuple[BinlogFile, LoggedGroup]]:
    """The groups of the source after the read position that the channel never received."""
    read = coordinate(*channel[Receiver].read)
    for file in channel.source[BinaryLog].files:
        if file.number >= read[0]:
            for logged in file.groups():
                group = logged.group
                is_new = (
                    group.sid is None or (group.sid, group.gno) not in channel[Receiver].retrieved
                )
                if (file.number, logged.start) >= read and is_new:
                    yield file, logged


def waiting_groups(channel: Channel) -> list[QueuedGroup]:
    """Whole groups with a GTID in the last relay file that no applier has executed."""
    return [
        group
        for group in channel[RelayLog].files[-1].groups
        if group.is_complete and group in channel.pending and group.logged.group.sid is not None
    ]


def clog_receivers(fault: Fault, fleet: World) -> None:
    """From when the fault is due until it is injected, nothing arrives from any source."""
    for channel in channels(fleet):
        fleet.schedule(fleet.fault_at, None, _clog, fault, channel, Receiver, receiver.wake)


def clog_appliers(fault: Fault, fleet: World, after_us: int = 0) -> None:
    """From when the fault is due until it is injected, appliers wait as for a long transaction."""
    for channel in channels(fleet):
        due = fleet.fault_at + after_us
        fleet.schedule(due, None, _clog, fault, channel, Applier, applier.wake)


def _clog(
    fleet: World,
    fault: Fault,
    channel: Channel,
    thread: type[Receiver | Applier],
    wake: Callable[[World, Channel], None],
) -> None:
    # A call that is under way clears the mark; it is set again soon.
    channel[thread].is_scheduled = not fault.injected
    if fault.injected:
        wake(fleet, channel)
    else:
        fleet.schedule(fleet.now + _RETRY_US, None, _clog, fault, channel, thread, wake)


def leaf_channels(fleet: World) -> list[Channel]:
    """The channels of replicas that nobody reads from."""
    return [
        channel
        for instance in fleet.instances.values()
        if not instance[ChannelMap].subscribers
        for channel in instance[ChannelMap].configured
    ]
