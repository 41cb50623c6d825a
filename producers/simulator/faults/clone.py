"""Faults of clones (WL#9211): their entries in the catalogue, and what injects them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from producers.simulator.clone import cloning
from producers.simulator.faults.injector import Injector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from producers.simulator.engine import Fleet
    from producers.simulator.model import Channel, Instance, LoggedGroup

_SECOND_US: Final = 1_000_000


class _CloneFault(Injector):
    """A replica that nobody reads from clones its source, and something is wrong with it."""

    def __init__(self) -> None:
        super().__init__()
        self.channel: Channel | None = None

    def on_fleet(self, fleet: Fleet) -> None:
        """Clone when the fault is due."""
        fleet.clock.schedule(fleet.fault_at, None, self._begin, fleet)

    def _begin(self, fleet: Fleet) -> None:
        for instance in fleet.instances.values():
            channels = [c for c in instance.channels.values() if c.is_configured]
            if len(channels) != 1 or instance.subscribers or not instance.is_running:
                continue
            channel = channels[0]
            if channel.source.is_running and len(channel.source.binlog.active.groups()) >= 2:
                self.channel = channel
                self.clone(fleet, channel)
                return
        fleet.clock.schedule(fleet.now + 10_000, None, self._begin, fleet)

    def clone(self, fleet: Fleet, channel: Channel) -> None:
        """Clone the channel's source."""
        cloning.clone(fleet, channel)


class ClonePositionShifted(_CloneFault):
    """F73: the page's position is where the last group of the cloned set begins."""

    def on_clone_step(self, fleet: Fleet, instance: Instance, step: str) -> bool:
        """Let recovery read the wrong position."""
        clone = instance.clone
        if step == "RECOVERY" and clone is not None and clone.data is not None:
            place = clone.data.innodb.trx_sys
            name, start = max(
                (file.name, logged.start)
                for file in clone.donor.binlog.files
                for logged in file.groups()
                if (file.name, logged.end) <= place and logged.group.sid is not None
            )
            clone.data.innodb.trx_sys = (name, start)
            self.mark(fleet, instance)
        return True


class CloneResumeGap(_CloneFault):
    """F74: the first group that the donor would send is never queued."""

    def __init__(self) -> None:
        super().__init__()
        self._skipped: LoggedGroup | None = None
        self._is_cloned = False

    def on_clone_step(self, fleet: Fleet, instance: Instance, step: str) -> bool:
        """Clone properly."""
        self._is_cloned = self._is_cloned or step == "recovered"
        return True

    def on_queue(self, fleet: Fleet, channel: Channel, logged: LoggedGroup) -> bool:
        """Skip the first group behind the clone, whenever it comes."""
        is_it = channel is self.channel and self._is_cloned
        if is_it and not self.injected:
            self._skipped = logged
            self.mark(fleet, channel.replica)
        return not (is_it and logged is self._skipped)


class CloneBlocksDonor(_CloneFault):
    """F75: the donor's XA commits stand still for two seconds."""

    def clone(self, fleet: Fleet, channel: Channel) -> None:
        """Hold the donor."""
        self.mark(fleet, channel.source)
        cloning.clone(fleet, channel, blocked_us=2 * _SECOND_US)


CLONE_INJECTORS: Final[Mapping[str, Callable[[], Injector]]] = {
    "clone_position_shifted": ClonePositionShifted,
    "clone_resume_gap": CloneResumeGap,
    "clone_blocks_donor": CloneBlocksDonor,
}
