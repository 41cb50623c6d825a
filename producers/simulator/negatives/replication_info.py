"""Replication info (WL#2775) that looks wrong: stale, refused and repeated without harm."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.negatives.acts import at, channels
from tallystick.producers.simulator.negatives.negative import Negative
from tallystick.producers.simulator.replication_info import acts
from tallystick.producers.simulator.replication_info.crash_points import CrashPlan, CrashPoint
from tallystick.producers.simulator.replication_info.rpl_info_handler import Repository
from tallystick.producers.simulator.replication_info.rpl_info_table_access import INNODB, MYISAM

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.world import World

_BY_POSITION = {"gtid_mode": "OFF", "auto_position": False, "topology": "pair"}
_BY_GTID = {"auto_position": True, "topology": "pair", "writes_per_second": 10.0}


class StaleInfoFile(Negative):
    """Files are not synchronized, and the power is cut after a position was written."""

    name = "stale_info_file"
    text = "a power cut takes the positions of a file back; by GTID set nothing is executed again"
    options: ClassVar = _BY_GTID

    def arrange(self, fleet: World) -> None:
        for channel in channels(fleet):
            replica = channel.replica
            replica.variables["relay_log_recovery"] = False
            at(fleet, 0.2, channel.replica, acts.restart_with, replica, Repository.FILE)
            plan = CrashPlan(CrashPoint.BEHIND_POSITION, passes=3, power_cut=True)
            at(fleet, 0.6, channel.replica, acts.crash_at, replica, plan)


class StaleMyisamRow(Negative):
    """A crash falls between a commit and the write of its position."""

    name = "stale_myisam_row"
    text = "a MyISAM row lacks what was committed; by GTID set nothing is executed again"
    options: ClassVar = _BY_GTID

    def arrange(self, fleet: World) -> None:
        for channel in channels(fleet):
            replica = channel.replica
            replica.variables["relay_log_recovery"] = False
            at(fleet, 0.2, channel.replica, acts.restart_with, replica, Repository.TABLE, MYISAM)
            plan = CrashPlan(CrashPoint.BETWEEN_COMMIT_AND_POSITION, passes=3)
            at(fleet, 0.6, channel.replica, acts.crash_at, replica, plan)


class RepositoriesRefused(Negative):
    """Somebody leaves a file of the other repository, and removes it later."""

    name = "repositories_refused"
    text = "a start finds a file and a table and leaves the channel down, until one is removed"
    options: ClassVar = {**_BY_GTID, "acts": False}
    # The source would purge what the replica, whose channel is down, still needs.
    excludes: ClassVar = frozenset({"purge"})

    def arrange(self, fleet: World) -> None:
        for channel in channels(fleet):
            at(fleet, 0.3, channel.replica, acts.leave_behind, channel, Repository.FILE)
            at(fleet, 0.35, channel.replica, acts.restart_with, channel.replica, Repository.TABLE)
            at(fleet, 0.7, channel.replica, acts.remove, channel, Repository.FILE)


class RepositoriesMigrated(Negative):
    """TABLE to FILE, read the file, back to a table of MyISAM, to InnoDB."""

    name = "repositories_migrated"
    text = "positions go from table to file and back, and from engine to engine"
    options: ClassVar = {"topology": "pair"}
    # By position a crash repeats what a file, or a MyISAM table, did not get to know.
    # Two that move them at once: one begins anew what the other has written.
    excludes: ClassVar = frozenset(
        {"crash_between_steps", "crash_replica", "crash_with_gaps", "repositories_refused"}
    )

    def arrange(self, fleet: World) -> None:
        for channel in channels(fleet):
            steps: tuple[tuple[float, tuple[Any, ...]], ...] = (
                (0.1, (Repository.FILE,)),
                (0.35, (Repository.FILE,)),
                (0.6, (Repository.TABLE, MYISAM)),
                (0.85, (Repository.TABLE, INNODB)),
            )
            for share, how in steps:
                at(fleet, share, channel.replica, acts.restart_with, channel.replica, *how)


class CrashBetweenSteps(Negative):
    """A crash at any step of a transaction, with or without a power cut."""

    name = "crash_between_steps"
    text = "a replica by position dies between two steps; its InnoDB table says where to go on"
    options: ClassVar = _BY_POSITION

    def arrange(self, fleet: World) -> None:
        for channel in channels(fleet):
            rng = Random(f"crash {fleet.scenario.seed} {channel.replica.instance_id}")
            plan = CrashPlan(rng.choice(acts.STEPS_OF_A_TRANSACTION), passes=rng.randrange(6))
            plan.power_cut = rng.random() < 0.5
            # What workers have done is looked up in the relay log: it has to be there.
            channel.replica.variables["sync_relay_log"] = 1
            at(fleet, 0.4, channel.replica, acts.crash_at, channel.replica, plan)


class CrashWithGaps(Negative):
    """Workers commit in any order, and the replica crashes meanwhile."""

    name = "crash_with_gaps"
    text = "workers had committed after a gap; their bitmaps say what is left to execute"
    # With such gaps no one position stands for the data of an image. An applier that a backup
    # stopped leaves gaps, and relay log recovery by position knows nothing of them.
    excludes: ClassVar = frozenset({"recovery_from_replica", "crash_in_zone"})
    options: ClassVar = {
        **_BY_POSITION,
        "applier_workers": 4,
        "preserve_commit_order": False,
        "writes_per_second": 12.0,
    }

    def arrange(self, fleet: World) -> None:
        fleet.pace.apply_us = (10_000, 40_000)
        for channel in channels(fleet):
            plan = CrashPlan(
                CrashPoint.BETWEEN_BINARY_LOG_AND_COMMIT, passes=fleet.scenario.seed % 7
            )
            at(fleet, 0.5, channel.replica, acts.crash_at, channel.replica, plan)


class StatementsRepeated(Negative):
    """Changes without a transaction are executed again, as WL#2775 says."""

    name = "statements_repeated"
    text = "a change without a transaction is executed again after a crash, as WL#2775 says"
    options: ClassVar = _BY_POSITION
    # Tables of which a change was made twice are not those of the source any more. And the
    # simulator plays no table locks: clients may change a MyISAM row in another order than is
    # logged.
    excludes: ClassVar = frozenset({"recovery_from_replica", "recovery_on_new_server"})

    def arrange(self, fleet: World) -> None:
        fleet.pace.kinds = (GroupKind.NON_TRANSACTIONAL, GroupKind.ROLLED_BACK, GroupKind.INNODB)
        for channel in channels(fleet):
            kinds = (GroupKind.NON_TRANSACTIONAL, GroupKind.ROLLED_BACK)
            plan = CrashPlan(CrashPoint.BETWEEN_COMMIT_AND_POSITION, passes=1, kinds=kinds)
            at(fleet, 0.4, channel.replica, acts.crash_at, channel.replica, plan)
