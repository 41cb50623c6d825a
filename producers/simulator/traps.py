"""Traps: legal histories that look wrong. A scenario names those it exercises.

Each trap is a set of scenario options, an act, or both. The numbers are those of the list of legal
histories in ``docs``; what no act can show (delivery, client text) is not here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tallystick.producers.simulator import trap_acts
from tallystick.producers.simulator.backup_safe_binlog.traps import TRAPS as BACKUP_LOCK_TRAPS
from tallystick.producers.simulator.clone.persistence_traps import TRAPS as GTID_PERSISTENCE_TRAPS
from tallystick.producers.simulator.clone.traps import TRAPS as CLONE_TRAPS
from tallystick.producers.simulator.log_position_lock.traps import TRAPS as LOG_POSITION_LOCK_TRAPS
from tallystick.producers.simulator.online_backup.recovery_traps import TRAPS as RECOVERY_TRAPS
from tallystick.producers.simulator.online_backup.traps import TRAPS as ONLINE_BACKUP_TRAPS
from tallystick.producers.simulator.replication_info.traps import TRAPS as REPLICATION_INFO_TRAPS
from tallystick.producers.simulator.trap import Trap

if TYPE_CHECKING:
    from tallystick.producers.simulator.scenario import Scenario


def with_options(scenario: Scenario) -> Scenario:
    """The scenario with the options that its traps need.

    Raises:
        ValueError: A trap is not known, or needs another topology than the scenario has.
    """
    options: dict[str, Any] = {}
    for name in scenario.traps:
        trap = CATALOGUE.get(name)
        if trap is None:
            raise ValueError(f"expected a trap of {', '.join(CATALOGUE)}, got {name!r}")
        for key, value in trap.options.items():
            if options.setdefault(key, value) != value:
                raise ValueError(
                    f"trap {name!r} needs {key}={value!r}, another needs {options[key]!r}"
                )
    return replace(scenario, **options) if options else scenario


_TRAPS = (
    Trap(
        "commit_holes",
        "T1",
        "gtid_executed trails the position with holes: commits are not ordered",
        {"order_commits": False, "profile": "mysql-8.0", "writes_per_second": 20.0},
        trap_acts.commit_slowly,
    ),
    Trap(
        "commit_lag",
        "T1",
        "gtid_executed trails the position by a suffix: groups are between flush and commit",
        {"profile": "mysql-8.0", "writes_per_second": 20.0},
        trap_acts.commit_slowly,
    ),
    Trap(
        "semi_sync",
        "T2",
        "a replica executes what its semi-sync source does not show in gtid_executed yet",
        {"profile": "mysql-8.0", "topology": "pair", "writes_per_second": 20.0},
        trap_acts.semi_sync,
    ),
    Trap(
        "receiver_inside_group",
        "T3",
        "the relay coordinate lies inside a transaction, content lies beyond it",
        {"writes_per_second": 20.0},
        trap_acts.receive_in_pieces,
    ),
    Trap(
        "flush_relay_logs",
        "T4",
        "an idle channel rotates: the flushed place is in the old relay file, the applied one in "
        "the new",
        {"topology": "pair"},
        trap_acts.flush_relay_logs_when_idle,
    ),
    Trap(
        "reset_replica",
        "T5",
        "RESET REPLICA: relay coordinate ('', 0), retrieved set empty, groups skipped afterwards",
        {"auto_position": True, "topology": "pair"},
        trap_acts.reset_replica,
    ),
    Trap(
        "reset_replica_all",
        "T5",
        "RESET REPLICA ALL: the channel disappears from the list",
        {"auto_position": True, "topology": "diamond"},
        trap_acts.reset_replica_all,
    ),
    Trap(
        "auto_position_reconnect",
        "T6",
        "the source position steps back and a partial group is received again in full",
        {"auto_position": True, "topology": "pair", "writes_per_second": 20.0},
        trap_acts.reconnect_inside_groups,
    ),
    Trap(
        "relay_log_recovery",
        "T7",
        "after a start the read position falls back to the applied one, the retrieved set empties",
        {"topology": "pair"},
        trap_acts.recover_relay_log,
    ),
    Trap(
        "low_water_mark",
        "T9",
        "a multi-threaded applier's position is behind what is executed and jumps at checkpoints",
        {
            "topology": "pair",
            "applier_workers": 4,
            "preserve_commit_order": False,
            "writes_per_second": 20.0,
        },
        trap_acts.apply_slowly,
    ),
    Trap(
        "binlog_off",
        "T11",
        "a replica without a binary log: no file keys, purged equals executed; then it logs again",
        {"topology": "pair"},
        trap_acts.switch_binlog_off_and_on,
    ),
    Trap(
        "gtid_mode_off",
        "T12",
        "the position moves, gtid_executed stands still: all groups are anonymous",
        {"gtid_mode": "OFF", "auto_position": False},
    ),
    Trap(
        "gtid_mode_permissive",
        "T12",
        "the fleet goes online to anonymous groups and back",
        {"auto_position": False, "topology": "pair"},
        trap_acts.change_gtid_mode,
    ),
    Trap(
        "gtid_purged",
        "T13",
        "gtid_executed and gtid_purged grow without any event",
        {},
        trap_acts.set_gtid_purged,
    ),
    Trap(
        "injected_empty_group",
        "T13",
        "an empty group under the GTID of a server that is gone counts as executed",
        {},
        trap_acts.inject_empty_group,
    ),
    Trap(
        "reset_binary_logs",
        "T14",
        "RESET MASTER: file 000001, nothing executed, the same GNOs again",
        {"topology": "single"},
        trap_acts.reset_binary_logs,
    ),
    Trap(
        "restart_source",
        "T15",
        "next file number, sequence numbers from 1, a jump of the LSN",
        {},
        trap_acts.restart_source,
    ),
    Trap(
        "restart_replica",
        "T15",
        "a replica restarts; its channels are listed in another order",
        {"topology": "multi_source"},
        trap_acts.restart_replica,
    ),
    Trap(
        "crash_source",
        "T16",
        "events beyond the recovered end vanish: a torn last group",
        {},
        trap_acts.crash_source,
    ),
    Trap(
        "crash_replica",
        "T16",
        "the same on a replica, and its relay log begins anew",
        {"topology": "pair"},
        trap_acts.crash_replica,
    ),
    Trap(
        "file_beyond_4_gib",
        "T17",
        "the 32-bit field of the header falls while the position goes on beyond 2^32",
        {"max_binlog_size": 1 << 34, "acts": False},
        trap_acts.write_huge_group,
    ),
    Trap(
        "seven_digits",
        "T18",
        "the suffix of the binary log grows from six to seven digits",
        {"first_file_number": 999_998},
        trap_acts.rotate_often,
    ),
    Trap(
        "purge",
        "T19",
        "PURGE: the oldest file moves up, gtid_purged grows",
        {"max_binlog_size": 4_096},
        trap_acts.purge_often,
    ),
    Trap(
        "rotate",
        "T20",
        "the file changes and the position falls",
        {"max_binlog_size": 4_096},
        trap_acts.rotate_often,
    ),
    Trap(
        "idle",
        "T22",
        "positions, sets and LSN stand still between collections",
        {"writes_per_second": 0.2, "acts": False},
    ),
    Trap(
        "no_innodb_changes",
        "T23",
        "the position grows while the LSN stands still",
        {},
        trap_acts.write_without_innodb,
    ),
    Trap(
        "log_replica_updates_off",
        "T25",
        "the position of a replica stands still, gtid_purged grows with gtid_executed",
        {"topology": "pair"},
        trap_acts.log_no_replica_updates,
    ),
    Trap(
        "failover",
        "T26",
        "a replica becomes the source: a new UUID appears, retrieved sets begin anew",
        {"auto_position": True, "topology": "star"},
        trap_acts.fail_over,
    ),
    Trap(
        "two_paths",
        "T27",
        "one GTID arrives on two channels, one copy executes",
        {"topology": "diamond", "writes_per_second": 10.0},
    ),
    Trap(
        "group_replication",
        "T28",
        "GTIDs under a group name, GNO blocks with large holes, view changes",
        {},
        trap_acts.number_by_group,
    ),
    Trap(
        "ignored_server_id",
        "T29",
        "a filtered channel leaves no relay events of a source",
        {"auto_position": True, "topology": "diamond"},
        trap_acts.ignore_server_id,
    ),
    Trap(
        "clone",
        "T34",
        "a recipient's sets, LSN and channel jump; its own logs begin anew",
        {"auto_position": True, "topology": "pair", "acts": False},
        trap_acts.clone,
    ),
    Trap(
        "refused_collection",
        "T35",
        "collections end with 1142, 1227 and 3722",
        {},
        trap_acts.refuse_collections,
    ),
    Trap(
        "upgrade",
        "T36",
        "an upgrade to 8.4: other event sizes, tagged GTIDs",
        {"topology": "pair"},
        trap_acts.upgrade,
    ),
    Trap(
        "gtid_persister",
        "T10",
        "mysql.gtid_executed is behind gtid_executed, after a crash undo headers fill it",
        {"topology": "pair", "writes_per_second": 15.0},
        trap_acts.persist_gtids,
    ),
    Trap(
        "flush_failure",
        "T38",
        "a GNO given back after a failed flush is assigned to a later group",
        {},
        trap_acts.give_gno_back,
    ),
    Trap(
        "xa",
        "T39",
        "a prepared XA transaction and its commit are two groups with two GTIDs",
        {},
        trap_acts.run_xa,
    ),
    Trap(
        "compressed",
        "T40",
        "one TRANSACTION_PAYLOAD stands for a whole body",
        {},
        trap_acts.write_compressed,
    ),
)

CATALOGUE: dict[str, Trap] = {
    trap.name: trap
    for trap in (
        *_TRAPS,
        *LOG_POSITION_LOCK_TRAPS,
        *ONLINE_BACKUP_TRAPS,
        *CLONE_TRAPS,
        *GTID_PERSISTENCE_TRAPS,
        *BACKUP_LOCK_TRAPS,
        *REPLICATION_INFO_TRAPS,
        *RECOVERY_TRAPS,
    )
}
"""All traps by name."""
