"""Faults of the Log Position Lock (WL#9452): what goes on although a collection holds every lock.

Each act comes behind the row and before the first unlock, so that the row itself stays true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tallystick.producers.simulator import administration, innodb, receiver
from tallystick.producers.simulator.faults.fault import BaseHistory, FaultGroup, declare
from tallystick.producers.simulator.faults.injector import Injector, is_pure_source
from tallystick.producers.simulator.gtid_intervals import GtidIntervals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.model import Channel, Instance

_GONE_UUID: Final = "0badc0de-0000-4000-8000-000000000000"
_AFTERWARDS_US: Final = 5_000
_REDO_LENGTH: Final = 300

LOG_POSITION_LOCK_FAULTS: Final = tuple(
    declare(number, FaultGroup.PROTOCOL, name, injection, "no_progress_while_locked", base=base)
    for number, (name, injection, base) in enumerate(
        (
            (
                "gtids_assigned_during_collection",
                "gtid_executed is assigned to while a collection holds every lock",
                BaseHistory.SERVER,
            ),
            (
                "channel_removed_during_collection",
                "RESET REPLICA ALL ends a channel while a collection holds every lock",
                BaseHistory.REPLICA,
            ),
            (
                "engine_log_moves_during_collection",
                "InnoDB adds redo between the lock and the unlock of its log",
                BaseHistory.SERVER,
            ),
            (
                "receiver_flush_during_collection",
                "a receiver writes slave_master_info while a collection holds every lock",
                BaseHistory.REPLICA,
            ),
        ),
        78,
    )
)


class _UnderTheLocks(Injector):
    """An act of another session between the row and the first unlock of a collection."""

    def on_collect_step(
        self, fleet: Fleet, instance: Instance, collection_id: str, step: str, resource: str | None
    ) -> bool:
        """Act before the engine's log, the last that was locked, is told to be unlocked."""
        is_first = step == "unlock" and resource == "engine:InnoDB"
        if is_first and self.is_due(fleet) and self.is_possible(fleet, instance):
            self.mark(fleet, instance)
            self.act(fleet, instance)
        return True

    def is_possible(self, fleet: Fleet, instance: Instance) -> bool:
        """Whether the act would change nothing else here."""
        raise NotImplementedError

    def act(self, fleet: Fleet, instance: Instance) -> None:
        """What no session can do under the locks."""
        raise NotImplementedError


class GtidsAssigned(_UnderTheLocks):
    """GTIDs of a server that is gone enter every set of the fleet, here too early."""

    def is_possible(self, fleet: Fleet, instance: Instance) -> bool:
        """The replicas, which have answered already, get them at the same moment."""
        instances = fleet.instances.values()
        return is_pure_source(instance) and all(
            i.is_running and i.gtid_mode == "ON" and not i.is_collecting
            for i in instances
            if i is not instance
        )

    def act(self, fleet: Fleet, instance: Instance) -> None:
        """SET gtid_purged = '+…' everywhere."""
        added = GtidIntervals.of((_GONE_UUID, 1, 3))
        for each in reversed(fleet.instances.values()):
            administration.set_gtid_purged(fleet, each, added)


class ChannelRemoved(_UnderTheLocks):
    """A channel ends, and begins again when the locks are free."""

    def is_possible(self, fleet: Fleet, instance: Instance) -> bool:
        """Nobody waits for what the replica would log meanwhile."""
        channel = _channel(instance)
        return (
            channel is not None
            and channel.auto_position
            and channel.source.is_running
            and not channel.pending
        )

    def act(self, fleet: Fleet, instance: Instance) -> None:
        """RESET REPLICA ALL; later CHANGE REPLICATION SOURCE and START REPLICA."""
        channel = _channel(instance)
        assert channel is not None
        administration.reset_replica(fleet, channel, everything=True)
        fleet.schedule(fleet.now + _AFTERWARDS_US, instance, _create_again, channel)


def _create_again(fleet: Fleet, channel: Channel) -> None:
    administration.change_source(fleet, channel, channel.source)
    administration.start_replication(fleet, channel)


class EngineLogMoves(_UnderTheLocks):
    """InnoDB goes on."""

    def is_possible(self, fleet: Fleet, instance: Instance) -> bool:
        """Redo can be added at any time."""
        return True

    def act(self, fleet: Fleet, instance: Instance) -> None:
        """A mini-transaction reserves room in the log buffer."""
        innodb.write_redo(instance.innodb, _REDO_LENGTH)


class ReceiverFlushes(_UnderTheLocks):
    """A receiver tells its repository where it is."""

    def is_possible(self, fleet: Fleet, instance: Instance) -> bool:
        """It runs, and what it has read is flushed."""
        channel = _channel(instance)
        return (
            channel is not None
            and channel.receiver_runs
            and not administration.has_partial_group(channel)
        )

    def act(self, fleet: Fleet, instance: Instance) -> None:
        """The row of slave_master_info is written."""
        channel = _channel(instance)
        assert channel is not None
        receiver.persist_position(fleet, channel, "sync")


def _channel(instance: Instance) -> Channel | None:
    return next((c for c in instance.channels.values() if c.is_configured), None)


LOG_POSITION_LOCK_INJECTORS: Final[Mapping[str, Callable[[], Injector]]] = {
    "gtids_assigned_during_collection": GtidsAssigned,
    "channel_removed_during_collection": ChannelRemoved,
    "engine_log_moves_during_collection": EngineLogMoves,
    "receiver_flush_during_collection": ReceiverFlushes,
}
