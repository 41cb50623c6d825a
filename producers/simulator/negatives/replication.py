"""Commits, receivers and appliers of healthy servers that seem to be ahead or late."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tallystick.producers.simulator.negatives.acts import SECOND_US, channels, near
from tallystick.producers.simulator.negatives.negative import Negative
from tallystick.producers.simulator.server import administration, lifecycle
from tallystick.producers.simulator.server.channels import Applier, Receiver

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel


class _SlowCommitStage(Negative):
    """Much time passes between flush and commit stage, as it does on a busy disk."""

    def arrange(self, fleet: World) -> None:
        fleet.pace.commit_stage_us = (2_000, 80_000)


class CommitHoles(_SlowCommitStage):
    """The commit stage has another order than the flush stage."""

    name = "commit_holes"
    text = "gtid_executed trails the position with holes: commits are not ordered"
    options: ClassVar = {"order_commits": False, "profile": "mysql-8.0", "writes_per_second": 20.0}


class CommitLag(_SlowCommitStage):
    """The commit stage has the order of the flush stage."""

    name = "commit_lag"
    text = "gtid_executed trails the position by a suffix: groups are between flush and commit"
    options: ClassVar = {"profile": "mysql-8.0", "writes_per_second": 20.0}


class SemiSync(Negative):
    """Sources wait for the acknowledgement of their replicas before the commit stage."""

    name = "semi_sync"
    text = "a replica executes what its semi-sync source does not show in gtid_executed yet"
    options: ClassVar = {"profile": "mysql-8.0", "topology": "pair", "writes_per_second": 20.0}

    def arrange(self, fleet: World) -> None:
        for channel in channels(fleet):
            channel[Receiver].semi_sync = True


class ReceiverInsideGroup(Negative):
    """Receivers get most groups in pieces."""

    name = "receiver_inside_group"
    text = "the relay coordinate lies inside a transaction, content lies beyond it"
    options: ClassVar = {"writes_per_second": 20.0}

    def arrange(self, fleet: World) -> None:
        fleet.pace.partial_chance = 0.6


class FlushRelayLogs(Negative):
    """FLUSH RELAY LOGS after the load has ended and everything is applied."""

    name = "flush_relay_logs"
    text = (
        "an idle channel rotates: the flushed position is in the old relay file, the applied one "
        "in the new"
    )
    options: ClassVar = {"topology": "pair"}

    def arrange(self, fleet: World) -> None:
        for channel in channels(fleet):
            fleet.schedule(
                fleet.load_ends_at + 3 * SECOND_US,
                channel.replica,
                administration.flush_relay_logs,
                channel,
            )


class ResetReplica(Negative):
    """RESET REPLICA in the middle; START REPLICA a collection later."""

    name = "reset_replica"
    text = "RESET REPLICA: relay coordinate ('', 0), retrieved set empty, groups skipped afterwards"
    options: ClassVar = {"auto_position": True, "topology": "pair"}

    def arrange(self, fleet: World) -> None:
        for channel in channels(fleet):
            near(fleet, 0.4, channel.replica, administration.reset_replica, channel)
            near(fleet, 0.7, channel.replica, _start_again, channel)


class PassedSlowly(ResetReplica):
    """As where a channel asks by GTID set for what comes after gigabytes that it has."""

    name = "passed_slowly"
    text = (
        "a source sends heartbeats while it passes groups that a replica has: read and executed"
        " positions are within them"
    )
    # Images of replicas that name such a position, which nothing can be started from.
    excludes: ClassVar = frozenset(
        {"backup_session_killed", "binlog_lock_held_long", "recovery_from_replica", "replica_zone"}
    )

    def arrange(self, fleet: World) -> None:
        super().arrange(fleet)
        fleet.pace.passing_us = (50_000, 200_000)


class ResetReplicaAll(Negative):
    """One of several channels is given up for good."""

    name = "reset_replica_all"
    text = "RESET REPLICA ALL: the channel disappears from the list"
    options: ClassVar = {"auto_position": True, "topology": "diamond"}

    def arrange(self, fleet: World) -> None:
        channel = channels(fleet)[-1]
        near(fleet, 0.5, channel.replica, _give_up, channel)


class AutoPositionReconnect(Negative):
    """The connection breaks again and again while groups arrive in pieces."""

    name = "auto_position_reconnect"
    text = "the source position steps back and a partial group is received again in full"
    options: ClassVar = {"auto_position": True, "topology": "pair", "writes_per_second": 20.0}

    def arrange(self, fleet: World) -> None:
        fleet.pace.partial_chance = 0.6
        for channel in channels(fleet):
            for tenth in range(2, 10):
                near(fleet, tenth / 10, channel.replica, administration.reconnect, channel)


class RelayLogRecovery(Negative):
    """A clean restart of the replica with relay_log_recovery."""

    name = "relay_log_recovery"
    text = (
        "after a start the read position falls back to the applied one, the retrieved set empties"
    )
    options: ClassVar = {"topology": "pair"}

    def arrange(self, fleet: World) -> None:
        for channel in channels(fleet):
            channel.replica.variables["relay_log_recovery"] = True
            near(fleet, 0.5, channel.replica, lifecycle.shut_down, channel.replica)


class FilterFromTheStart(Negative):
    """The option file has a filter when the replica is restarted; it goes again with the next."""

    name = "filter_from_the_start"
    text = (
        "replicate_ignore_db from a restart on: groups are left out, and no record names a filter"
    )
    options: ClassVar = {"topology": "pair"}

    def arrange(self, fleet: World) -> None:
        for channel in channels(fleet):
            near(fleet, 0.35, channel.replica, _restart_with_filter, channel, "archive")
            near(fleet, 0.75, channel.replica, _restart_with_filter, channel, "")


class LowWaterMark(Negative):
    """Groups pile up in front of the appliers."""

    name = "low_water_mark"
    text = "a multi-threaded applier's position lags what is executed and jumps at checkpoints"
    options: ClassVar = {
        "topology": "pair",
        "applier_workers": 4,
        "preserve_commit_order": False,
        "writes_per_second": 20.0,
    }

    def arrange(self, fleet: World) -> None:
        fleet.pace.apply_us = (10_000, 50_000)


def _start_again(fleet: World, channel: Channel) -> None:
    if channel.replica.is_running:
        administration.start_replication(fleet, channel)


def _give_up(fleet: World, channel: Channel) -> None:
    administration.reset_replica(fleet, channel, everything=True)


def _restart_with_filter(fleet: World, channel: Channel, ignored_db: str) -> None:
    lifecycle.shut_down(fleet, channel.replica)
    channel[Applier].ignored_db = ignored_db
