"""Tier 3: what may not change while a backup holds Percona's backup locks, or the global read lock.

The locks come from `backup_locks`, the changes from `statement` records and from the logs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import QueryVerb
from tallystick.coordinates.events.log_events import CLASS_ROWS, EventClass
from tallystick.coordinates.logs.log_groups import STEP_AFTER_OPENER, STEP_IN_BODY, GroupStep
from tallystick.coordinates.results import ObservationCode, Severity
from tallystick.coordinates.rules.engines import PASSES_TABLE_LOCK
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import Broken
from tallystick.coordinates.rules.registry import Case, Rule, reason, register
from tallystick.coordinates.rules.statements import BACKUP_LOCKS, EVENTS_THERE
from tallystick.coordinates.state_codec import COLLABORATOR, reset
from tallystick.coordinates.values.binlog import EventType, LogCoordinates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.reporter import Reporter
    from tallystick.coordinates.events.journal import Block
    from tallystick.coordinates.events.log_status import ServerState

STATEMENT_MAY_BE_DDL = reason(
    "statement_may_be_ddl",
    "a statement was logged under LOCK TABLES FOR BACKUP, and its group does not show whether it is"
    " DDL or one that the lock lets pass, as of a temporary table",
    Lack.BACKUP,
)

BACKUP_LOCKS_FREEZE_SCOPE = register(
    Rule(
        number=58,
        name="backup_locks_freeze_scope",
        tier=3,
        scope="T",
        family=Family.BACKUP_LOCKS,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "Under LOCK TABLES FOR BACKUP no non-transactional change or DDL happens, but for"
            " changes of Blackhole and Federated tables; under LOCK BINLOG FOR BACKUP the binary"
            " log, read and executed coordinates stand still; under FLUSH TABLES WITH READ LOCK no"
            " change of rows is logged."
        ),
        why=(
            "Non-transactional writes and DDL take the table lock in conflict with the first, and"
            " everything that moves one of the three coordinates takes that of the second. InnoDB"
            " goes on under the first; its redo brings the copy up to date. Blackhole and Federated"
            " tables have no content here. In the binary log a group of rows that ends in COMMIT is"
            " a non-transactional change. FLUSH TABLES WITH READ LOCK waits for who is committing,"
            " and lets nobody else begin to."
        ),
        undecided_when=(
            "locking or unlocking was not observed, the journal has a gap in between, or statements"
            " that bypass the binary log, or their engines, are not reported by the observer. So it"
            " is where a group of one statement was logged, which may be DDL or not. A row of SHOW"
            " REPLICA STATUS counts only if its collection was requested under the lock; of a"
            " compressed group nobody knows what it changes"
        ),
        sources=(
            "Percona backup-safe binlog information, whiteboard: cases 1 and 2",
            "Percona Server manual: Backup locks",
            "MySQL manual: FLUSH TABLES WITH READ LOCK",
        ),
        remedy=(
            "If a group in the log changed Blackhole or Federated tables alone, acknowledge it."
            " Else discard the backup and take it again. Look for writes that bypass the lock"
            " (plugins, direct changes of files, sql_log_bin=0 on non-transactional tables); move"
            " such tables to InnoDB."
        ),
        verify=(EVENTS_THERE, BACKUP_LOCKS),
        cases={
            "statement_under_table_lock": Case(
                "Under LOCK TABLES FOR BACKUP a {engine} {kind} was executed.",
                "{witness}",
                "journal",
                "no non-transactional change and no DDL",
                "LOCK TABLES FOR BACKUP",
            ),
            "nontransactional_group_under_table_lock": Case(
                "Under LOCK TABLES FOR BACKUP a non-transactional change was logged.",
                "{witness}",
                "journal",
                "no non-transactional change and no DDL",
                "LOCK TABLES FOR BACKUP",
            ),
            "rows_under_global_read_lock": Case(
                "Under FLUSH TABLES WITH READ LOCK a change of rows was logged.",
                "{witness}",
                "journal",
                "no change",
                "FLUSH TABLES WITH READ LOCK",
            ),
            "binlog_grew_under_binlog_lock": Case(
                "Under LOCK BINLOG FOR BACKUP the binary log grew.",
                "{witness}",
                "journal",
                "frozen coordinates",
                "LOCK BINLOG FOR BACKUP",
            ),
            "received_under_binlog_lock": Case(
                "Under LOCK BINLOG FOR BACKUP the receiver of channel {name!r} read on.",
                "{witness}",
                "journal",
                "frozen coordinates",
                "LOCK BINLOG FOR BACKUP",
            ),
            "executed_under_binlog_lock": Case(
                "Under LOCK BINLOG FOR BACKUP the applier of channel {name!r} executed on.",
                "{witness}",
                "journal",
                "frozen coordinates",
                "LOCK BINLOG FOR BACKUP",
            ),
            "positions_moved_under_binlog_lock": Case(
                (
                    "Under LOCK BINLOG FOR BACKUP the positions of channel {name!r} moved from"
                    " {previous} to {positions}."
                ),
                "{witness}",
                "journal",
                "frozen coordinates",
                "LOCK BINLOG FOR BACKUP",
            ),
        },
    )
)

_ROWS = frozenset(
    {
        EventType.WRITE_ROWS,
        EventType.UPDATE_ROWS,
        EventType.DELETE_ROWS,
        EventType.PARTIAL_UPDATE_ROWS,
    }
)
_APPLIED = frozenset({"xid", "query", "statement"})
"""Reasons of writes to slave_relay_log_info that follow an executed group."""


_OF_GROUPS = frozenset({"tables", "global_read"})
"""Locks under which it matters what a group changes."""


@dataclass(slots=True)
class _Group:
    """A group of the binary log that opened under the table lock or the global read lock."""

    at: str
    is_body: bool = False
    """Whether its body has begun."""
    has_rows: bool = False


@dataclass(eq=False)
class BackupLockFreeze:
    """The backup locks that some session of an instance holds, and what may not change under them.

    Attributes:
        taken: Lock to the end of the binary log when a session took it last, None unknown.
        held_receivers: Whether receivers were held back at the last row, or between it and the one
            before.
    """

    _reporter: Reporter = field(metadata=COLLABORATOR)
    taken: dict[str, LogCoordinates | None] = field(default_factory=dict)
    held_receivers: bool = False
    _holds_receivers: bool = False
    """Whether they were held back since the last row."""
    _moved: list[str] = field(default_factory=list)
    """What was reported to have moved under the binlog lock that is held."""
    _binlog_since: int | None = None
    _positions: dict[str, str] = field(default_factory=dict)
    """The positions of each channel in rows read wholly under the binlog lock."""
    _group: _Group | None = None

    # The locks

    def take(self, lock: str, position: LogCoordinates | None, ts: int) -> None:
        """A session takes a lock; the first one begins its time."""
        if lock in self.taken:
            # Each LOCK TABLES FOR BACKUP writes its coordinates into the InnoDB header.
            self.taken[lock] = position or self.taken[lock]
            return
        self.taken[lock] = position
        if lock in _OF_GROUPS:
            self._group = None
        elif lock == "binlog":
            self._binlog_since = ts
            self._holds_receivers = True
            self._moved = []
            self._positions = {}

    def log_began_anew(self) -> None:
        """RESET: where locks were taken is a coordinate of another log."""
        self.taken = dict.fromkeys(self.taken)

    def interrupted(self) -> None:
        """The server ended and its locks are gone, or they are not known any more."""
        reset(self)

    # Changes under the table lock

    def statement(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``statement`` record: a change the binary log does not show."""
        engine, kind = body["engine"].lower(), body["type"]
        if kind == "ddl" or engine not in PASSES_TABLE_LOCK:
            witness, at = f"a {engine} {kind}", f"statement at {ts}"
            self._changed("statement_under_table_lock", witness, at, engine=engine, kind=kind)

    def _doubt_statement(self, at: str) -> None:
        rule = BACKUP_LOCKS_FREEZE_SCOPE
        if self.freezes_tables and rule.name not in self._reporter.disabled:
            self._reporter.note(
                ObservationCode.BACKUP_UNDECIDED,
                STATEMENT_MAY_BE_DDL,
                at=at,
                rules=(rule,),
                is_undecided=True,
            )

    def _changed(
        self, case: str, witness: str, at: str, lock: str = "tables", **values: str
    ) -> None:
        """What a lock does not let pass: DDL, or a change that is not transactional, or any."""
        if lock in self.taken:
            broken = Broken(case, witness=witness, at=at, **values)
            self._reporter.broken(BACKUP_LOCKS_FREEZE_SCOPE, broken)

    # Logs under the locks

    @property
    def is_held(self) -> bool:
        """Whether a lock is held under which the logs may not change."""
        return "binlog" in self.taken or not _OF_GROUPS.isdisjoint(self.taken)

    def logged(self, block: Block, index: int) -> None:
        """An event of the binary log while a lock is held."""
        if "binlog" in self.taken:
            what = "the binary log grew"
            self._coordinate_moved("binlog_grew_under_binlog_lock", what, _start(block, index))
        if _OF_GROUPS.isdisjoint(self.taken):
            return
        event_type, verb = int(block.columns["type"][index]), int(block.columns["query"][index])
        if CLASS_ROWS[event_type][verb] == EventClass.OPENER:
            self._group = _Group(_start(block, index))
        elif self._group is not None:
            self._read_group_event(self._group, event_type, verb)

    def _read_group_event(self, group: _Group, event_type: int, verb: int) -> None:
        event_class = CLASS_ROWS[event_type][verb]
        step = (STEP_IN_BODY if group.is_body else STEP_AFTER_OPENER)[event_class]
        if step is GroupStep.BEGINS_BODY:
            group.is_body = True
        elif step is GroupStep.GOES_ON:
            group.has_rows |= event_type in _ROWS
        else:
            self._group = None
            if step is GroupStep.ENDS and group.has_rows:
                what, lock = "a change of rows", "global_read"
                self._changed("rows_under_global_read_lock", what, group.at, lock)
            if step is GroupStep.ENDS and event_type == EventType.QUERY:
                self._ended(group, verb)

    def _ended(self, group: _Group, verb: int) -> None:
        """A group ended with a statement: COMMIT is not that of a transactional engine."""
        if not group.is_body and verb == QueryVerb.STATEMENT:
            self._doubt_statement(group.at)
        elif group.is_body and verb == QueryVerb.COMMIT and group.has_rows:
            what = "a non-transactional change"
            self._changed("nontransactional_group_under_table_lock", what, group.at)

    def received(self, block: Block, index: int, channel: str) -> None:
        """An event of a relay log: where a group opens, the source wrote it and Rd moves."""
        event_class = CLASS_ROWS[int(block.columns["type"][index])][0]
        if "binlog" in self.taken and event_class == EventClass.OPENER:
            what = f"the receiver of channel {channel!r} read on"
            at = _start(block, index)
            self._coordinate_moved("received_under_binlog_lock", what, at, name=channel)

    def info_written(self, body: Mapping[str, Any], ts: int) -> None:
        """A write to slave_relay_log_info that follows an executed group moves Ex."""
        is_executed = body["reason"] in _APPLIED and body["table"] != "slave_master_info"
        if "binlog" in self.taken and is_executed:
            channel = body["channel"]
            what = f"the applier of channel {channel!r} executed on"
            at = f"{body['table']} of {channel!r} at {ts}"
            self._coordinate_moved("executed_under_binlog_lock", what, at, name=channel)

    def _coordinate_moved(self, case: str, what: str, at: str, **values: str) -> None:
        """P, Rd or Ex moved under the binlog lock; reported once while it is held."""
        if what in self._moved:
            return
        self._moved.append(what)
        broken = Broken(case, witness=what, at=at, **values)
        self._reporter.broken(BACKUP_LOCKS_FREEZE_SCOPE, broken)

    # Rows

    @property
    def freezes_tables(self) -> bool:
        """Whether the table lock is held."""
        return "tables" in self.taken

    @property
    def tables_locked_at(self) -> LogCoordinates | None:
        """End of the binary log when the table lock was taken last, None if that is not known."""
        return self.taken.get("tables")

    def row(self, state: ServerState, requested_at: int | None, collection_id: str) -> None:
        """Compare Rd and Ex of rows whose every statement ran under the binlog lock."""
        self.held_receivers, self._holds_receivers = self._holds_receivers, "binlog" in self.taken
        since = self._binlog_since
        if "binlog" not in self.taken or since is None or requested_at is None:
            return
        if requested_at < since:
            return  # SHOW REPLICA STATUS may have been read before the lock
        for name, channel in sorted(state.channels.items()):
            if channel.read is None or channel.executed is None:
                continue
            positions = f"read {channel.read}, executed {channel.executed}"
            previous = self._positions.setdefault(name, positions)
            if positions != previous:
                self._coordinate_moved(
                    "positions_moved_under_binlog_lock",
                    f"the positions of channel {name!r} moved from {previous} to {positions}",
                    f"{collection_id} {name}",
                    name=name,
                    previous=previous,
                    positions=positions,
                )


def _start(block: Block, index: int) -> str:
    file = int(block.columns["file"][index])
    return f"{block.files[file] if file >= 0 else ''}:{int(block.columns['start'][index])}"
