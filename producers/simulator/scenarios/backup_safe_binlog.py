"""Backup-safe binlog information (Percona Server), shown: three cases, with the lock and without.

A source and its replica are backed up again and again while clients write. Three of the backups go
the unsafe way that the document warns of; what they report is found to be wrong.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tallystick.producers.simulator.backup.backup_locks import HEADER_FLUSH
from tallystick.producers.simulator.backup.backup_utility import (
    HEADER,
    Backup,
    BackupUtility,
    Options,
)
from tallystick.producers.simulator.backup.galera_node import GaleraNode
from tallystick.producers.simulator.backup.lock_state import BINLOG, TABLES, BackupLocks
from tallystick.producers.simulator.innodb.header import VARIABLE, HeaderUpdates, InnodbHeader
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.scenarios.design_scenario import (
    Claim,
    DesignScenario,
    Expected,
    text_of,
)
from tallystick.producers.simulator.server import administration, clients, commit
from tallystick.producers.simulator.server.channels import Applier, ChannelMap, Receiver
from tallystick.producers.simulator.server.clients import Clients
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

_SOURCE, _REPLICA = "source-a", "replica-a1"
_REDO_US = 250_000
_UNDER_THE_TABLE_LOCK_US = 200_000
"""From the beginning of a backup: it holds the table lock then, whatever its copies take."""
_WRITES_US = range(150_000, 850_000, 12_000)
_SAFE = Options(finish_redo_us=_REDO_US)
_LOCKLESS = Options(lock_binlog=False, finish_redo_us=_REDO_US)
_SLAVE_INFO = Options(slave_info=True, finish_redo_us=_REDO_US)
_SLAVE_INFO_LOCKLESS = Options(slave_info=True, lock_binlog=False, finish_redo_us=_REDO_US)


def _arrange(fleet: World) -> None:
    """One backup after the other."""
    fleet.pace.kinds = (GroupKind.INNODB,)
    source, replica = fleet.instances[_SOURCE], fleet.instances[_REPLICA]
    source[InnodbHeader].updates = HeaderUpdates.INNODB_COMMITS
    acts: tuple[tuple[int, Instance, Callable[[World, Instance], None]], ...] = (
        (600, source, _trust_a_stale_header),
        (1_500, source, _back_up_with_both_locks),
        (2_400, source, _back_up_without_binlog_lock),
        (3_300, replica, _back_up_replica_without_binlog_lock),
        (4_300, replica, _back_up_replica),
        (5_300, source, _send_snapshot_without_binlog_lock),
        (6_300, source, _send_snapshot),
    )
    for milliseconds, instance, act in acts:
        fleet.schedule(fleet.start_ts + milliseconds * 1_000, instance, act, instance)


def _run(
    fleet: World,
    instance: Instance,
    options: Options,
    show: Callable[[World, Instance, Backup], None],
) -> None:
    BackupUtility(fleet, instance, options, partial(show, fleet, instance)).begin()


# Case 1


def _trust_a_stale_header(fleet: World, source: Instance) -> None:
    """The last update before the backup is not one of InnoDB, and clients pause."""
    source[Clients].writes = False
    clients.write(fleet, source, GroupKind.INNODB)
    clients.write(fleet, source, GroupKind.NON_TRANSACTIONAL)
    commit.finish_all(fleet, source)
    options = Options(lock_binlog=False, coordinates_from=HEADER)
    _run(fleet, source, options, _show_stale_header)


def _show_stale_header(fleet: World, source: Instance, backup: Backup) -> None:
    if backup.coordinates < backup.tables_locked_at:
        fleet.show(
            "stale after a non-transactional update",
            source,
            f"the header says {text_of(backup.coordinates)}, the log ended at "
            f"{text_of(backup.tables_locked_at)} when the table lock was taken",
        )
    source[Clients].writes = True


def _back_up_with_both_locks(fleet: World, source: Instance) -> None:
    """Without the variable the utility takes the binlog lock; clients go on writing."""
    _run(fleet, source, _SAFE, _show_both_locks)
    fleet.schedule(fleet.now + _UNDER_THE_TABLE_LOCK_US, source, _write_all_kinds, source)


def _write_all_kinds(fleet: World, source: Instance) -> None:
    for kind in (GroupKind.DDL, GroupKind.NON_TRANSACTIONAL, GroupKind.INNODB):
        clients.write(fleet, source, kind)


def _show_both_locks(fleet: World, source: Instance, backup: Backup) -> None:
    position = text_of(backup.coordinates)
    if backup.waiting[TABLES] > 1:
        fleet.show(
            "LOCK TABLES FOR BACKUP",
            source,
            f"{backup.waiting[TABLES]} statements waited: DDL and a change of a MyISAM table",
        )
    if backup.redo_ended_at == backup.coordinates and backup.waiting[BINLOG]:
        fleet.show(
            "LOCK BINLOG FOR BACKUP",
            source,
            f"{backup.waiting[BINLOG]} commits waited; SHOW MASTER STATUS said {position}, and "
            f"the log ended there {_REDO_US // 1_000} ms later",
        )
        fleet.show(
            "finishing the redo copy",
            source,
            f"redo copied up to LSN {backup.lsn}, {_REDO_US // 1_000} ms after SHOW MASTER "
            "STATUS, while nobody committed",
        )
        fleet.show(
            "case #1", source, f"{position} from SHOW MASTER STATUS is where the copied data end"
        )


def _back_up_without_binlog_lock(fleet: World, source: Instance) -> None:
    """From now on the server has the variable; the last update before the lock is of MyISAM."""
    administration.set_variables(source, **{VARIABLE: True})
    source[Clients].writes = False
    commit.finish_all(fleet, source)
    clients.write(fleet, source, GroupKind.NON_TRANSACTIONAL)
    at_lock: list[tuple[str, int]] = []

    def note_header(_: World, instance: Instance) -> bool:
        if instance is source and not at_lock:
            fleet.clock.schedule(fleet.now, source, look)
        return True

    def look() -> None:
        at_lock.append(source[Innodb].trx_sys)
        source[Clients].writes = True

    fleet.bus.connect(HEADER_FLUSH, note_header)
    _run(fleet, source, _SAFE, partial(_show_fresh_header, at_lock))


def _show_fresh_header(
    at_lock: list[tuple[str, int]], fleet: World, source: Instance, backup: Backup
) -> None:
    header, locked = text_of(backup.coordinates), text_of(backup.tables_locked_at)
    if backup.coordinates_from != HEADER:
        return
    fleet.show(
        "other utilities decide by it",
        source,
        f"{VARIABLE} is YES: the utility left LOCK BINLOG FOR BACKUP out",
    )
    if at_lock == [backup.tables_locked_at]:
        fleet.show(
            "fix 2: with the table lock",
            source,
            f"the table lock was taken at {locked}, after a change of a MyISAM table, and the "
            f"header said so at once; in the end it says {header}",
        )
    if backup.redo_ended_at > backup.tables_locked_at:
        fleet.show(
            "LTFB lets InnoDB go on",
            source,
            f"the log grew from {locked} to {text_of(backup.redo_ended_at)} under the table lock",
        )
        fleet.show("goal", source, f"{header} from the header; nobody waited to commit")


# Case 2


def _back_up_replica_without_binlog_lock(fleet: World, replica: Instance) -> None:
    """The variable does not help here."""
    administration.set_variables(replica, **{VARIABLE: True})
    _run(fleet, replica, _SLAVE_INFO_LOCKLESS, _show_old_position)


def _show_old_position(fleet: World, replica: Instance, backup: Backup) -> None:
    (channel,) = replica[ChannelMap].channels.values()
    if backup.applied_since:
        fleet.show(
            "not a goal",
            replica,
            f"SHOW SLAVE STATUS said {text_of(backup.replica_positions[''])} without the binlog "
            f"lock; the applier executed on before the redo copy ended, now it is at "
            f"{text_of(channel[Applier].executed)}",
        )


def _back_up_replica(fleet: World, replica: Instance) -> None:
    (channel,) = replica[ChannelMap].channels.values()
    seen: list[tuple[str, int]] = []

    def note_position() -> None:
        if replica[BackupLocks].holders[BINLOG]:
            seen.append(channel[Receiver].read)

    # The lock is taken at some moment of these: the first and the last reading show it.
    for step in range(60):
        fleet.clock.schedule(fleet.now + step * 10_000, replica, note_position)
    _run(fleet, replica, _SLAVE_INFO, partial(_show_frozen_positions, seen))


def _show_frozen_positions(
    seen: list[tuple[str, int]], fleet: World, replica: Instance, backup: Backup
) -> None:
    position = text_of(backup.replica_positions[""])
    waited = f"threads of replication that waited: {backup.waiting[BINLOG]}"
    if len(set(seen)) == 1 and backup.waiting[BINLOG]:
        fleet.show(
            "LBFB freezes the read position",
            replica,
            f"read {text_of(seen[0])} at {len(seen)} moments under the binlog lock; {waited}",
        )
    if not backup.applied_since and backup.waiting[BINLOG]:
        fleet.show(
            "LBFB freezes the executed position",
            replica,
            f"executed {position} when SHOW SLAVE STATUS was read and when the redo copy ended",
        )
        fleet.show("case #2", replica, f"{position} of the source is where the copied data end")


# Case 3


def _send_snapshot_without_binlog_lock(fleet: World, source: Instance) -> None:
    """The server is a node now; clients write much while it copies its log file."""
    source[GaleraNode] = GaleraNode()
    for after in _WRITES_US:
        fleet.schedule(fleet.now + after, source, _write_to_innodb, source)
    _run(fleet, source, _LOCKLESS, _show_grown_file)


def _write_to_innodb(fleet: World, source: Instance) -> None:
    clients.write(fleet, source)


def _show_grown_file(fleet: World, source: Instance, backup: Backup) -> None:
    copy = backup.binlog_copy
    assert copy is not None
    end = (copy.file.name, copy.position)
    if end != backup.coordinates:
        fleet.show(
            "not a goal",
            source,
            f"the copied data end at {text_of(backup.coordinates)}, the copied log file at "
            f"{text_of(end)}: a joiner would believe that it has what lies between",
        )


def _send_snapshot(fleet: World, source: Instance) -> None:
    _run(fleet, source, _SAFE, _show_copied_file)


def _show_copied_file(fleet: World, source: Instance, backup: Backup) -> None:
    copy = backup.binlog_copy
    assert copy is not None
    assert backup.gtids is not None
    believed = copy.joiner_gtid_executed()
    believed.update(source[GtidState].purged)
    if believed == backup.gtids:
        fleet.show(
            "case #3",
            source,
            f"the copy of {copy.file.name} ends at {copy.position}: a joiner reads "
            f"{believed.text()}, which is what its data hold",
        )
    source.remove(GaleraNode)


_FREEZE = "backup_locks_freeze_scope"
_MATCH = "backup_coordinates_match_data"
_REPLICA_MATCH = "backup_replica_coordinates_match_data"
_FILE_MATCH = "backup_binlog_copy_matches_data"
_STEPS = "backup_lock_steps_complete"

SCENARIO = DesignScenario(
    name="backup",
    design="Percona Server",
    title="Backup-safe binlog information",
    options={
        "topology": "pair",
        "profile": "mysql-8.0",
        "duration_ms": 8_000,
        "collection_interval_ms": 1_000,
        "writes_per_second": 20.0,
        "acts": False,
    },
    arrange=_arrange,
    claims=(
        Claim(
            "LOCK TABLES FOR BACKUP",
            "Non-transactional changes and DDL wait for the table lock.",
            (_FREEZE, "backup_lock_protocol"),
        ),
        Claim("LTFB lets InnoDB go on", "InnoDB's commits do not.", (_FREEZE,)),
        Claim("LOCK BINLOG FOR BACKUP", "Commits wait for the binlog lock.", (_FREEZE,)),
        Claim("LBFB freezes the read position", "The receiver waits as well.", (_FREEZE,)),
        Claim("LBFB freezes the executed position", "So does the applier.", (_FREEZE,)),
        Claim(
            "case #1", "Under both locks SHOW MASTER STATUS agrees with the copied data.", (_MATCH,)
        ),
        Claim(
            "case #2",
            "Under both locks SHOW SLAVE STATUS agrees with the copied data.",
            (_REPLICA_MATCH,),
        ),
        Claim(
            "case #3",
            "Under both locks the last log file of a node agrees with its data.",
            (_FILE_MATCH,),
        ),
        Claim(
            "finishing the redo copy", "Commits wait until the copy of the redo ends.", (_FREEZE,)
        ),
        Claim(
            "goal",
            "In case 1 the header's coordinates agree without the binlog lock.",
            (_MATCH,),
        ),
        Claim(
            "not a goal",
            "In cases 2 and 3 a backup without the binlog lock goes wrong.",
            (_REPLICA_MATCH, _FILE_MATCH, _STEPS),
        ),
        Claim(
            "stale after a non-transactional update",
            "Without the variable the header is older than what other engines changed.",
            (_MATCH,),
        ),
        Claim("fix 2: with the table lock", "With it the table lock writes the header.", (_MATCH,)),
        Claim(
            "other utilities decide by it",
            "The utility asks for the variable before it leaves the lock out.",
            (_MATCH,),
        ),
    ),
    expected=(
        Expected(
            _SOURCE,
            _MATCH,
            "a header that other engines do not update names an older position than the data",
        ),
        Expected(
            _REPLICA,
            _REPLICA_MATCH,
            "without the binlog lock the applier goes on until the redo copy ends",
        ),
        Expected(
            _SOURCE, _FILE_MATCH, "without the binlog lock the log file grows while it is copied"
        ),
        Expected(_SOURCE, _STEPS, "in case 3, and where the header is stale, the lock is needed"),
        Expected(_REPLICA, _STEPS, "in case 2 the lock is needed"),
    ),
)
