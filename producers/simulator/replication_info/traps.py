"""Legal histories of replication info that look wrong: stale, refused and repeated without harm."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from tallystick.producers.simulator.model import GroupKind
from tallystick.producers.simulator.replication_info import acts
from tallystick.producers.simulator.replication_info.crash_points import CrashPlan, CrashPoint
from tallystick.producers.simulator.replication_info.rpl_info_handler import Repository
from tallystick.producers.simulator.replication_info.rpl_info_table_access import INNODB, MYISAM
from tallystick.producers.simulator.trap import Trap

if TYPE_CHECKING:
    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.model import Channel

_BY_POSITION = {"gtid_mode": "OFF", "auto_position": False, "topology": "pair"}
_BY_GTID = {"auto_position": True, "topology": "pair", "writes_per_second": 10.0}


def _lose_file_at_power_cut(fleet: Fleet) -> None:
    for channel in _channels(fleet):
        replica = channel.replica
        replica.variables["relay_log_recovery"] = False
        _at(fleet, 0.2, channel, acts.restart_with, replica, Repository.FILE)
        plan = CrashPlan(CrashPoint.BEHIND_POSITION, passes=3, power_cut=True)
        _at(fleet, 0.6, channel, acts.crash_at, replica, plan)


def _leave_row_behind(fleet: Fleet) -> None:
    for channel in _channels(fleet):
        replica = channel.replica
        replica.variables["relay_log_recovery"] = False
        _at(fleet, 0.2, channel, acts.restart_with, replica, Repository.TABLE, MYISAM)
        plan = CrashPlan(CrashPoint.BETWEEN_COMMIT_AND_POSITION, passes=3)
        _at(fleet, 0.6, channel, acts.crash_at, replica, plan)


def _fill_both(fleet: Fleet) -> None:
    for channel in _channels(fleet):
        _at(fleet, 0.3, channel, acts.leave_file_behind, channel)
        _at(fleet, 0.35, channel, acts.restart_with, channel.replica, Repository.TABLE)
        _at(fleet, 0.7, channel, acts.remove_file, channel)


def _go_round(fleet: Fleet) -> None:
    """TABLE to FILE, read the file, back to a table of MyISAM, to InnoDB."""
    for channel in _channels(fleet):
        steps: tuple[tuple[float, tuple[Any, ...]], ...] = (
            (0.1, (Repository.FILE,)),
            (0.35, (Repository.FILE,)),
            (0.6, (Repository.TABLE, MYISAM)),
            (0.85, (Repository.TABLE, INNODB)),
        )
        for share, how in steps:
            _at(fleet, share, channel, acts.restart_with, channel.replica, *how)


def _crash_at_some_step(fleet: Fleet) -> None:
    for channel in _channels(fleet):
        rng = Random(f"crash {fleet.scenario.seed} {channel.replica.instance_id}")
        plan = CrashPlan(rng.choice(acts.STEPS_OF_A_TRANSACTION), passes=rng.randrange(6))
        plan.power_cut = rng.random() < 0.5
        # What workers have done is looked up in the relay log: it has to be there.
        channel.replica.variables["sync_relay_log"] = 1
        _at(fleet, 0.4, channel, acts.crash_at, channel.replica, plan)


def _leave_gaps(fleet: Fleet) -> None:
    fleet.apply_us = (10_000, 40_000)
    for channel in _channels(fleet):
        plan = CrashPlan(CrashPoint.BETWEEN_BINARY_LOG_AND_COMMIT, passes=fleet.scenario.seed % 7)
        _at(fleet, 0.5, channel, acts.crash_at, channel.replica, plan)


def _repeat_statements(fleet: Fleet) -> None:
    """Changes without a transaction are executed again: S1 calls that well known."""
    fleet.kinds = (GroupKind.NON_TRANSACTIONAL, GroupKind.ROLLED_BACK, GroupKind.INNODB)
    for channel in _channels(fleet):
        kinds = (GroupKind.NON_TRANSACTIONAL, GroupKind.ROLLED_BACK)
        plan = CrashPlan(CrashPoint.BETWEEN_COMMIT_AND_POSITION, passes=1, kinds=kinds)
        _at(fleet, 0.4, channel, acts.crash_at, channel.replica, plan)


def _channels(fleet: Fleet) -> list[Channel]:
    return [channel for i in fleet.instances.values() for channel in i.channels.values()]


def _at(fleet: Fleet, share: float, channel: Channel, act: Any, *args: Any) -> None:
    moment = fleet.start_ts + int((fleet.load_ends_at - fleet.start_ts) * share)
    fleet.schedule(moment, channel.replica, act, *args)


TRAPS: tuple[Trap, ...] = (
    Trap(
        "stale_info_file",
        "T41",
        "a power cut takes the positions of a file back; by GTID set nothing is executed again",
        _BY_GTID,
        _lose_file_at_power_cut,
    ),
    Trap(
        "stale_myisam_row",
        "T42",
        "a MyISAM row is behind what was committed; by GTID set nothing is executed again",
        _BY_GTID,
        _leave_row_behind,
    ),
    Trap(
        "repositories_refused",
        "T43",
        "a start finds a file and a table and leaves the channel down, until one is removed",
        {**_BY_GTID, "acts": False},
        _fill_both,
    ),
    Trap(
        "repositories_migrated",
        "T44",
        "positions go from table to file and back, and from engine to engine",
        {"topology": "pair"},
        _go_round,
    ),
    Trap(
        "crash_between_steps",
        "T45",
        "a replica by position dies between two steps; its InnoDB table tells where to go on",
        _BY_POSITION,
        _crash_at_some_step,
    ),
    Trap(
        "crash_with_gaps",
        "T46",
        "workers had committed behind a gap; their bitmaps tell what is left to execute",
        {
            **_BY_POSITION,
            "applier_workers": 4,
            "preserve_commit_order": False,
            "writes_per_second": 12.0,
        },
        _leave_gaps,
    ),
    Trap(
        "statements_repeated",
        "T47",
        "a change without a transaction is executed again after a crash, as WL#2775 foretells",
        _BY_POSITION,
        _repeat_statements,
    ),
)
"""The traps of WL#2775."""
