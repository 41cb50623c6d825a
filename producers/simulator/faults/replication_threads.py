"""Faults of a channel's threads: one stops with an error, and nobody acts until a row shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from tallystick.producers.simulator.faults.channels import leaf_channels
from tallystick.producers.simulator.faults.fault import ActFault, BaseHistory, FaultGroup
from tallystick.producers.simulator.faults.row import Row
from tallystick.producers.simulator.server import applier, receiver
from tallystick.producers.simulator.server.channels import Receiver

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

ER_DUP_ENTRY: Final = 1062


class ThreadFails(ActFault):
    """A thread is stopped by an error, again if it is started before a row shows that.

    Attributes:
        column: Of SHOW REPLICA STATUS, with the error's number.
    """

    group = FaultGroup.CHANNEL
    base = BaseHistory.REPLICA
    retry_us = 5_000
    column: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self._channel: Channel | None = None

    def act(self, fleet: World) -> bool:
        """Stop it until a row has shown it."""
        if self.injected:
            return True
        if self._channel is None or not self._channel.is_configured:
            channels = leaf_channels(fleet)
            self._channel = fleet.rng.choice(channels) if channels else None
        if self._channel is not None and self._channel.replica.is_running:
            self.fail(fleet, self._channel)
        return False

    def on_row(
        self, fleet: World, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Somebody reads the row, and acts."""
        row, channel = Row.of(instance, body), self._channel
        if row is None or channel is None or channel.replica is not instance or self.injected:
            return body
        status = row.status(channel)
        if status is not None and status[self.column]:
            self.mark(fleet, instance)
            fleet.clock.schedule(fleet.now + 1, instance, self.start, fleet, channel)
        return body

    def fail(self, fleet: World, channel: Channel) -> None:
        """Let the thread stop, if it runs."""
        raise NotImplementedError

    def start(self, fleet: World, channel: Channel) -> None:
        """START REPLICA."""
        raise NotImplementedError


class ApplierFails(ThreadFails):
    """A row that the source inserts is there already."""

    number = 138
    name = "applier_fails"
    text = "an applier stops with error 1062 and stays stopped until a row shows it"
    must_fire = frozenset({"applier_not_failed"})
    column = "Last_SQL_Errno"

    def fail(self, fleet: World, channel: Channel) -> None:
        applier.stop(fleet, channel, ER_DUP_ENTRY)

    def start(self, fleet: World, channel: Channel) -> None:
        applier.start(fleet, channel)


class ReceiverFails(ThreadFails):
    """The source cannot send what the receiver asks for."""

    number = 139
    name = "receiver_fails"
    text = "a receiver stops with error 13114 and stays stopped until a row shows it"
    must_fire = frozenset({"receiver_not_failed"})
    column = "Last_IO_Errno"

    def fail(self, fleet: World, channel: Channel) -> None:
        if channel[Receiver].is_running:
            receiver.stop(fleet, channel)
            channel[Receiver].io_errno = receiver.ER_SOURCE_FATAL_ERROR

    def start(self, fleet: World, channel: Channel) -> None:
        receiver.start(fleet, channel)


class ReceiverSilent(ActFault):
    """What lies between the servers drops the source's packets, and nobody notices."""

    number = 270
    name = "receiver_silent"
    text = "a receiver stays connected, without an error, and receives nothing more"
    must_fire = frozenset({"receiver_not_silent"})
    group = FaultGroup.CHANNEL
    base = BaseHistory.REPLICA
    heals = False
    shown_after_ms = 150_000
    bears_acts = False

    def __init__(self) -> None:
        super().__init__()
        self._channel: Channel | None = None

    def act(self, fleet: World) -> bool:
        """Between two groups: the receiver finds no file to read on in."""
        channels = [c for c in leaf_channels(fleet) if c[Receiver].is_connected]
        channels = [c for c in channels if c.partial_group is None]
        if not channels:
            return False
        self._channel = fleet.rng.choice(channels)
        self._channel[Receiver].cursor_file = 0
        self.mark(fleet, self._channel.replica)
        return True

    def cure(self, fleet: World) -> None:
        """STOP REPLICA and START REPLICA."""
        assert self._channel is not None
        receiver.stop(fleet, self._channel)
        receiver.start(fleet, self._channel)


class ReceiverSilentWithoutGtids(ReceiverSilent):
    """The same where positions alone say what is missing."""

    number = 274
    name = "receiver_silent_without_gtids"
    text = "a receiver of a fleet without GTIDs stays connected, and receives nothing more"

    def on_variables(self, instance_id: str, variables: dict[str, Any]) -> None:
        """No GTIDs."""
        variables["gtid_mode"] = "OFF"
