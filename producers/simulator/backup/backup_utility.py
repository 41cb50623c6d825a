"""A backup utility in the manner of XtraBackup, and the decision which locks it takes.

It copies InnoDB's files and redo while the server works, the other tables under LOCK TABLES FOR
BACKUP, finishes the copy of the redo and unlocks. The coordinates of the backup are those that the
InnoDB header of the copy holds, or what the server says under LOCK BINLOG FOR BACKUP; whether the
header may be trusted says ``have_backup_safe_binlog_info``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.backup import backup_locks, galera_node
from tallystick.producers.simulator.backup.galera_node import GaleraNode
from tallystick.producers.simulator.backup.lock_state import BINLOG, TABLES, BackupLocks
from tallystick.producers.simulator.innodb import header, redo_log
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import Applier, ChannelMap
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.backup.galera_node import BinlogCopy
    from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

_COPY_INNODB_US = (60_000, 160_000)
_COPY_TABLES_US = (80_000, 300_000)
_FINISH_REDO_US = (15_000, 60_000)
_RETRY_US = 50_000
_FIRST_SESSION = 70

HEADER = "innodb_header"
SOURCE_STATUS = "source_status"


@dataclass(frozen=True, slots=True)
class Options:
    """What an operator asks of the utility.

    Attributes:
        slave_info: The position on the source is wanted too (``--slave-info``).
        lock_binlog: Whether to take the binlog lock; None: the utility decides.
        coordinates_from: ``innodb_header`` or ``source_status``; None: the utility decides.
        finish_redo_us: How long the rest of the redo takes; None: a usual time.
        unlocks: What is unlocked, in which order.
    """

    slave_info: bool = False
    lock_binlog: bool | None = None
    coordinates_from: str | None = None
    finish_redo_us: int | None = None
    unlocks: tuple[str, ...] = (BINLOG, TABLES)


DEFAULTS = Options()
"""A backup without wishes."""


def needs_binlog_lock(instance: Instance, *, slave_info: bool) -> bool:
    """Whether LOCK BINLOG FOR BACKUP cannot be avoided.

    It can in case 1 on a server with the variable. Where commits are not ordered, the header's
    position does not say that all groups before it are in the copy (WL#9211 has the same reason).
    """
    is_case_2 = slave_info
    is_case_3 = sends_log_file(instance)
    return (
        is_case_2
        or is_case_3
        or not header.is_backup_safe(instance)
        or not _commits_are_ordered(instance)
    )


def sends_log_file(instance: Instance) -> bool:
    """Whether a snapshot has to take the last binary log file along: that of a node with GTIDs."""
    return instance.get(GaleraNode) is not None and instance[GtidState].mode == "ON"


def _commits_are_ordered(instance: Instance) -> bool:
    variables = instance.variables
    return bool(
        variables["binlog_order_commits"]
        and (
            variables["replica_parallel_workers"] <= 1 or variables["replica_preserve_commit_order"]
        )
    )


@dataclass(slots=True, eq=False)
class Backup:
    """What has been copied, and what the backup says of it.

    Attributes:
        coordinates: Of the server's binary log.
        coordinates_from: Where they were read.
        replica_positions: By channel, the position in the source's log up to which it has executed.
        binlog_copy: The last binary log file, of a node.
        lsn: Up to where redo was copied.
        gtids: Of the groups whose changes the copy holds.
        applied_since: Whether a channel executed on between the reading of its position and the
            end of the redo copy.
        tables_locked_at: End of the binary log when the table lock was taken.
        redo_ended_at: End of the binary log when the copy of the redo ended.
        waiting: How many statements and threads waited for each lock before it was released.
    """

    coordinates: tuple[str, int] = ("", 0)
    coordinates_from: str = SOURCE_STATUS
    replica_positions: dict[str, tuple[str, int]] = field(default_factory=dict)
    binlog_copy: BinlogCopy | None = None
    lsn: int = 0
    gtids: GtidIntervals | None = None
    applied_since: bool = False
    tables_locked_at: tuple[str, int] = ("", 0)
    redo_ended_at: tuple[str, int] = ("", 0)
    waiting: dict[str, int] = field(default_factory=dict)


class BackupUtility:
    """One run of the utility on one server.

    Args:
        fleet: The fleet.
        instance: The server.
        options: What is asked of it.
        finished: Called with the backup when all is done.
    """

    def __init__(
        self,
        fleet: World,
        instance: Instance,
        options: Options = DEFAULTS,
        finished: Callable[[Backup], None] | None = None,
    ) -> None:
        self._fleet = fleet
        self._instance = instance
        self._options = options
        self._finished = finished
        instance[BackupLocks].backups_begun += 1
        self._session = _FIRST_SESSION + instance[BackupLocks].backups_begun
        self.backup_id = f"{instance.instance_id}-backup-{instance[BackupLocks].backups_begun}"
        self._rng = Random(f"backup {fleet.scenario.seed} {self.backup_id}")
        self._is_connected = False
        self._copy_began_at = 0
        self._locks_binlog = True
        self._sends_log_file = False
        self.backup = Backup()

    def begin(self) -> None:
        """Connect, and copy the files of InnoDB while its redo is copied beside."""
        instance = self._instance
        if not instance.is_running or not instance[BinaryLog].is_open:
            self._fleet.clock.schedule(self._fleet.now + _RETRY_US, instance, self.begin)
            return
        self._decide()
        self._is_connected = True
        instance[BackupLocks].sessions[self._session] = self._connection_lost
        self._record("begin")
        self._then(_COPY_INNODB_US, self.lock_tables)

    def _decide(self) -> None:
        """Which locks to take, and whom to believe: other utilities decide by the variable too."""
        wanted = self._options.lock_binlog
        needed = needs_binlog_lock(self._instance, slave_info=self._options.slave_info)
        self._locks_binlog = needed if wanted is None else wanted
        self._sends_log_file = sends_log_file(self._instance)
        usual = SOURCE_STATUS if self._locks_binlog else HEADER
        self.backup.coordinates_from = self._options.coordinates_from or usual

    def lock_tables(self) -> None:
        """LOCK TABLES FOR BACKUP."""
        backup_locks.lock_tables(
            self._fleet, self._instance, self._session, self._if_connected(self.copy_tables)
        )

    def copy_tables(self) -> None:
        """Nobody changes a table of another engine, or a definition: copy them."""
        self.backup.tables_locked_at = self._instance[BinaryLog].position
        after = self.lock_binlog if self._locks_binlog else self.read_coordinates
        self._then(_COPY_TABLES_US, after)

    def lock_binlog(self) -> None:
        """LOCK BINLOG FOR BACKUP."""
        backup_locks.lock_binlog(
            self._fleet, self._instance, self._session, self._if_connected(self.read_coordinates)
        )

    def read_coordinates(self) -> None:
        """SHOW MASTER STATUS, SHOW SLAVE STATUS; the copy of a node's last log file begins."""
        instance, backup = self._instance, self.backup
        if backup.coordinates_from == SOURCE_STATUS:
            backup.coordinates = instance[BinaryLog].position
        if self._options.slave_info:
            backup.replica_positions = self._positions()
        self._copy_began_at = instance[BinaryLog].active.end
        asked = self._options.finish_redo_us
        spread = _FINISH_REDO_US if asked is None else (asked, asked + 1)
        self._then(spread, self.finish_redo)

    def finish_redo(self) -> None:
        """The copy of the redo ends here: what has been committed up to now is in the backup."""
        instance, backup = self._instance, self.backup
        redo_log.flush_redo(instance)
        backup.lsn = instance[Innodb].flushed
        backup.redo_ended_at = instance[BinaryLog].position
        backup.gtids = self._copied_gtids()
        backup.applied_since = backup.replica_positions != self._positions()
        if backup.coordinates_from == HEADER:
            backup.coordinates = instance[Innodb].trx_sys
        if self._sends_log_file:
            self._then(_FINISH_REDO_US, self.copy_last_binlog_file)
        else:
            self.unlock()

    def copy_last_binlog_file(self) -> None:
        """Case 3: the last file of the binary log goes into the snapshot."""
        self.backup.binlog_copy = galera_node.copy_last_file(
            self._instance, self._copy_began_at, self._rng
        )
        self.unlock()

    def unlock(self) -> None:
        """UNLOCK BINLOG, UNLOCK TABLES; the backup is complete."""
        fleet, instance = self._fleet, self._instance
        waiting = instance[BackupLocks].waiting
        self.backup.waiting = {lock: len(those) for lock, those in waiting.items()}
        statements = {BINLOG: backup_locks.unlock_binlog, TABLES: backup_locks.unlock_tables}
        for lock in self._options.unlocks:
            statements[lock](fleet, instance, self._session)
        self._record("image", **self.backup_info())
        self._record("end")
        instance[BackupLocks].sessions.pop(self._session, None)
        self._is_connected = False
        backup_locks.end_session(fleet, instance, self._session)
        if self._finished is not None:
            self._finished(self.backup)

    def backup_info(self) -> dict[str, Any]:
        """What the backup says of itself, as the journal has it."""
        backup = self.backup
        body: dict[str, Any] = {
            "binlog_file": backup.coordinates[0],
            "binlog_position": backup.coordinates[1],
            "coordinates_from": backup.coordinates_from,
            "lsn": backup.lsn,
        }
        if self._options.slave_info:
            body["channels"] = [
                {"channel": name, "exec_source_log_file": file, "exec_source_log_pos": position}
                for name, (file, position) in backup.replica_positions.items()
            ]
        if backup.binlog_copy is not None:
            body["binlog_copy"] = {
                "file": backup.binlog_copy.file.name,
                "position": backup.binlog_copy.position,
            }
        if backup.gtids is not None:
            body["gtid_executed"] = backup.gtids.text()
        return body

    # What the copy holds

    def _copied_gtids(self) -> GtidIntervals | None:
        """The groups whose changes are in the copy; None where groups have no GTID.

        A group without changes after the last InnoDB commit left nothing in the copy.
        """
        instance = self._instance
        if instance[GtidState].mode != "ON":
            return None
        copied = instance[GtidState].executed.copy()
        if BINLOG in self._held():
            return copied
        for file in reversed(instance[BinaryLog].files):
            for logged in reversed(file.groups()):
                group = logged.group
                is_copied = group.sid is not None and (group.sid, group.gno) in copied
                if (file.name, logged.end) <= self.backup.tables_locked_at:
                    return copied
                if is_copied and group.kind is not GroupKind.EMPTY:
                    return copied
                if is_copied and group.sid is not None:
                    copied.discard(group.sid, group.gno)
        return copied

    def _positions(self) -> dict[str, tuple[str, int]]:
        """Relay_Master_Log_File and Exec_Master_Log_Pos of each channel."""
        return {
            channel.name: channel[Applier].executed
            for channel in self._instance[ChannelMap].configured
            if channel[Applier].executed[0]
        }

    def _held(self) -> list[str]:
        locks = self._instance[BackupLocks]
        return [lock for lock, holders in locks.holders.items() if self._session in holders]

    # The session

    def _then(self, spread: tuple[int, int], step: Callable[[], None]) -> None:
        moment = self._fleet.now + self._rng.randrange(*spread)
        self._fleet.clock.schedule(moment, self._instance, self._if_connected(step))

    def _if_connected(self, step: Callable[[], None]) -> Callable[[], None]:
        def go_on() -> None:
            if self._is_connected:
                step()

        return go_on

    def _connection_lost(self) -> None:
        """The server ended the session: there is no backup."""
        self._is_connected = False
        if self._instance.is_running:
            self._record("end", error="Lost connection to MySQL server during query")

    def _record(self, step: str, **fields: Any) -> None:
        self._instance.journal.record(
            RecordType.BACKUP,
            {"step": step, "backup_id": self.backup_id, "session": self._session, **fields},
        )
