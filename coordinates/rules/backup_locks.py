"""Tier 3: what Percona's backup locks freeze, and their order.

The steps come from `backup_lock` and `statement` records (docs/journal.md), the changes from the
logs. What a backup says of itself is in `backup_coordinates`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import FLAG_RELAY_LOG, QueryVerb
from tallystick.coordinates.events.log_events import CLASS_ROWS, EventClass
from tallystick.coordinates.logs.log_groups import STEP_AFTER_OPENER, STEP_IN_BODY, GroupStep
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.outcomes import Broken
from tallystick.coordinates.rules.registry import Case, Rule, register
from tallystick.coordinates.state_codec import COLLABORATOR, reset
from tallystick.coordinates.values.binlog import EventType, LogCoordinates
from tallystick.coordinates.values.errors import AuditError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.baselines import Baselines
    from tallystick.coordinates.audit.reporter import Reporter
    from tallystick.coordinates.events.journal import Block
    from tallystick.coordinates.events.log_status import ServerState

BACKUP_LOCKS_FREEZE_SCOPE = register(
    Rule(
        number=58,
        name="backup_locks_freeze_scope",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "Under LOCK TABLES FOR BACKUP no non-transactional change or DDL happens; under LOCK"
            " BINLOG FOR BACKUP the binary log, read and executed coordinates stand still."
        ),
        why=(
            "Non-transactional writes and DDL take the table lock in conflict with the first, and"
            " everything that moves one of the three coordinates takes that of the second. InnoDB"
            " goes on under the first; its redo brings the copy up to date. In the binary log a"
            " group of rows that ends in COMMIT is a non-transactional change, and a group of one"
            " statement is DDL."
        ),
        undecided_when=(
            "locking or unlocking was not observed, the journal has a gap in between, or statements"
            " that bypass the binary log are not reported by the observer. A row of SHOW REPLICA"
            " STATUS counts only if its collection was requested under the lock; of a compressed"
            " group nobody knows what it changes"
        ),
        sources=("Percona backup-safe binlog information, whiteboard: cases 1 and 2",),
        remedy=(
            "Discard the backup and take it again. Look for writes that bypass the lock (plugins,"
            " direct changes of files, sql_log_bin=0 on non-transactional tables); move such tables"
            " to InnoDB."
        ),
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
            "ddl_group_under_table_lock": Case(
                "Under LOCK TABLES FOR BACKUP a DDL statement was logged.",
                "{witness}",
                "journal",
                "no non-transactional change and no DDL",
                "LOCK TABLES FOR BACKUP",
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

BACKUP_LOCK_PROTOCOL = register(
    Rule(
        number=75,
        name="backup_lock_protocol",
        tier=3,
        scope="T",
        severity=Severity.ERROR,
        claim=(
            "A session takes LOCK TABLES FOR BACKUP before LOCK BINLOG FOR BACKUP, releases them in"
            " reverse, and holds neither when its backup has ended."
        ),
        why=(
            "A non-transactional change holds its table while it waits to log itself: who holds the"
            " binlog lock and then asks for the table lock waits for it, and it waits for the"
            " binlog lock. With the table lock released first such a change becomes visible that"
            " no coordinate holds. What a backup leaves locked stops the server's work."
        ),
        undecided_when=(
            "the steps of the session were not observed, or the server ended it: then it releases"
            " its locks itself. A session that never tells its end may hold them as long as it"
            " needs"
        ),
        sources=("Percona backup-safe binlog information, whiteboard: case 1",),
        remedy=(
            "End the session that holds the lock (KILL), take the backup again with the locks in"
            " order, and see that the utility unlocks on every way out."
        ),
        cases={
            "table_lock_second": Case(
                (
                    "Session {session} took LOCK TABLES FOR BACKUP while it held LOCK BINLOG FOR"
                    " BACKUP."
                ),
                "binlog lock, then table lock",
                "journal",
                "table lock, then binlog lock",
                "whiteboard: the binlog lock is taken under the table lock",
            ),
            "table_lock_released_first": Case(
                "Session {session} gave up LOCK TABLES FOR BACKUP before LOCK BINLOG FOR BACKUP.",
                "UNLOCK TABLES, then UNLOCK BINLOG",
                "journal",
                "UNLOCK BINLOG, then UNLOCK TABLES",
                "whiteboard: no coordinate without the table lock",
            ),
            "ended_with_locks": Case(
                "Backup {backup} ended while its session {session} held {held:list}.",
                "{held:list}",
                "journal",
                "no lock",
                "UNLOCK BINLOG and UNLOCK TABLES",
            ),
        },
    )
)

_TRANSACTIONAL = frozenset({"innodb", "rocksdb", "ndb"})
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
_SESSIONS_MAX = 64


@dataclass(slots=True)
class LockSession:
    """A session that holds backup locks, or held them for a backup that has not ended yet."""

    held: list[str] = field(default_factory=list)
    """Locks in the order of their taking."""
    tables_at: str | None = None
    """End of the binary log when it got the table lock, None unknown."""
    executed: GtidSet = GtidSet.EMPTY
    """gtid_executed of the last accepted row before the table lock."""


@dataclass(slots=True)
class _Group:
    """A group of the binary log that opened under the table lock."""

    at: str
    gtid: tuple[str, int] | None
    is_body: bool = False
    """Whether its body has begun."""
    has_rows: bool = False
    has_body: bool = False
    """Whether anything but BEGIN is in it."""


@dataclass(eq=False)
class BackupLockProtocol:
    """The backup locks of one instance, and what may not move under them.

    Attributes:
        empty_groups: GTIDs of groups without changes that were logged under the table lock: no
            storage engine holds a trace of them.
    """

    _reporter: Reporter = field(metadata=COLLABORATOR)
    _locks: dict[str, str | None] = field(default_factory=dict)
    """Lock to the binary log coordinate at its taking, as text, None unknown."""
    _sessions: dict[str, LockSession] = field(default_factory=dict)
    _moved: list[str] = field(default_factory=list)
    """What was reported to have moved under the binlog lock that is held."""
    _binlog_since: int | None = None
    _positions: dict[str, str] = field(default_factory=dict)
    """The positions of each channel in rows read wholly under the binlog lock."""
    _group: _Group | None = None
    empty_groups: GtidSet = GtidSet.EMPTY

    # Statements

    def step(
        self,
        body: Mapping[str, Any],
        ts: int,
        position: LogCoordinates | None,
        baselines: Baselines,
    ) -> None:
        """Take one ``backup_lock`` record.

        Args:
            body: The record.
            ts: Its time.
            position: End of the binary log in the journal.
            baselines: What accepted rows said.
        """
        lock, name = str(body.get("lock")), str(body.get("session", ""))
        at = f"backup locks of session {name or 'unknown'} at {ts}"
        if body.get("step") == "lock":
            taken_at = None if position is None else str(position)
            if lock == "binlog" and lock not in self._locks:
                self._binlog_since = ts
            self._locked(lock, name, taken_at, baselines, at)
        else:
            self._unlocked(lock, name, at)

    def _locked(
        self, lock: str, name: str, position: str | None, baselines: Baselines, at: str
    ) -> None:
        session = self._sessions.get(name)
        if session is None:
            if len(self._sessions) >= _SESSIONS_MAX:
                del self._sessions[next(iter(self._sessions))]
            session = self._sessions[name] = LockSession()
        if lock == "tables" and lock not in session.held:
            if "binlog" in session.held:
                self._report_order("table_lock_second", "binlog lock, then table lock", name, at)
            session.tables_at = position
            session.executed = baselines.executed or GtidSet.EMPTY
        if lock not in session.held:
            session.held.append(lock)
        if lock in self._locks:
            return
        self._locks[lock] = position
        if lock == "tables":
            self.empty_groups = GtidSet.EMPTY
            self._group = None
        elif lock == "binlog":
            self._moved = []
            self._positions = {}

    def _unlocked(self, lock: str, name: str, at: str) -> None:
        session = self._sessions.get(name)
        if session is not None and lock in session.held:
            session.held.remove(lock)
            if lock == "tables" and "binlog" in session.held:
                witness = "UNLOCK TABLES, then UNLOCK BINLOG"
                self._report_order("table_lock_released_first", witness, name, at)
        else:
            # A lock without a session may be any session's.
            for other, known in self._sessions.items():
                if lock in known.held and not (name and other):
                    known.held.remove(lock)
        self._settle(lock)

    def _report_order(self, case: str, witness: str, name: str, at: str) -> None:
        broken = Broken(case, witness=witness, at=at, session=name or "unknown")
        self._reporter.broken(BACKUP_LOCK_PROTOCOL, broken)

    def _settle(self, lock: str) -> None:
        if not any(lock in session.held for session in self._sessions.values()):
            self._locks.pop(lock, None)

    def backup_ended(self, name: str, backup_id: str, *, failed: bool) -> None:
        """The utility has ended: what it held is released, by itself or with its session."""
        session = self._sessions.pop(name, None)
        if session is None:
            return
        if session.held and not failed:
            held = [f"LOCK {lock.upper()} FOR BACKUP" for lock in session.held]
            broken = Broken(
                "ended_with_locks",
                witness=" and ".join(held),
                at=f"end of backup {backup_id}",
                backup=backup_id,
                session=name or "unknown",
                held=held,
            )
            self._reporter.broken(BACKUP_LOCK_PROTOCOL, broken)
            # It is still held; another unlock, or the end of the session, will come.
            self._sessions[name] = LockSession(held=session.held)
        for lock in list(self._locks):
            self._settle(lock)

    def log_began_anew(self) -> None:
        """RESET: where locks were taken is a coordinate of another log."""
        self._locks = dict.fromkeys(self._locks)
        for session in self._sessions.values():
            session.tables_at = None

    def session(self, name: str) -> LockSession | None:
        """What is known of a session whose backup has not ended."""
        return self._sessions.get(name)

    # Changes under the table lock

    def statement(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``statement`` record: a change the binary log does not show."""
        engine = str(body.get("engine", "")).lower()
        kind = body.get("type", "dml")
        if kind == "ddl" or engine not in _TRANSACTIONAL:
            self._changed(
                "statement_under_table_lock",
                f"a {engine} {kind}",
                f"statement at {ts}",
                engine=engine,
                kind=str(kind),
            )

    def _changed(self, case: str, witness: str, at: str, **values: str) -> None:
        """DDL, or a change that is not transactional: not under the table lock."""
        if "tables" in self._locks:
            broken = Broken(case, witness=witness, at=at, **values)
            self._reporter.broken(BACKUP_LOCKS_FREEZE_SCOPE, broken)

    # Logs under the locks

    @property
    def is_held(self) -> bool:
        """Whether a lock is held under which the logs may not change."""
        return "binlog" in self._locks or "tables" in self._locks

    def logged(self, block: Block, index: int) -> None:
        """An event of the binary log while a lock is held."""
        self._read_at(block, index)
        if "binlog" in self._locks:
            what = "the binary log grew"
            self._coordinate_moved("binlog_grew_under_binlog_lock", what, _start(block, index))
        if "tables" not in self._locks:
            return
        event_type, verb = int(block.columns["type"][index]), int(block.columns["query"][index])
        if CLASS_ROWS[event_type][verb] == EventClass.OPENER:
            sid = int(block.columns["sid"][index])
            gtid = (block.sids[sid], int(block.columns["gno"][index])) if sid >= 0 else None
            self._group = _Group(_start(block, index), gtid)
        elif self._group is not None:
            self._read_group_event(self._group, event_type, verb)

    def _read_at(self, block: Block, index: int) -> None:
        self._reporter.set_position(
            block.epoch, block.first_sequence + index, int(block.columns["ts"][index])
        )

    def _read_group_event(self, group: _Group, event_type: int, verb: int) -> None:
        event_class = CLASS_ROWS[event_type][verb]
        step = (STEP_IN_BODY if group.is_body else STEP_AFTER_OPENER)[event_class]
        if step is GroupStep.BEGINS_BODY:
            group.is_body = True
        elif step is GroupStep.GOES_ON:
            group.has_rows |= event_type in _ROWS
            group.has_body |= event_class != EventClass.PREAMBLE
        else:
            self._group = None
            if step is GroupStep.ENDS and event_type == EventType.QUERY:
                self._ended(group, verb)

    def _ended(self, group: _Group, verb: int) -> None:
        """A group ended with a statement: COMMIT is not that of a transactional engine."""
        if not group.is_body and verb == QueryVerb.STATEMENT:
            self._changed("ddl_group_under_table_lock", "a DDL statement", group.at)
        elif group.is_body and verb == QueryVerb.COMMIT:
            if group.has_rows:
                what = "a non-transactional change"
                self._changed("nontransactional_group_under_table_lock", what, group.at)
            if not group.has_body and group.gtid is not None:
                self._note_empty(*group.gtid)

    def _note_empty(self, sid: str, gno: int) -> None:
        try:
            self.empty_groups = self.empty_groups | GtidSet([(sid, gno, gno)])
        except AuditError:
            return  # no GTID: reported by tier 0

    def received(self, block: Block, index: int, channel: str) -> None:
        """An event of a relay log: one that the source wrote moves the position read."""
        is_own = int(block.columns["flags"][index]) & FLAG_RELAY_LOG
        event_class = CLASS_ROWS[int(block.columns["type"][index])][0]
        if "binlog" in self._locks and event_class == EventClass.OPENER and not is_own:
            self._read_at(block, index)
            what = f"the receiver of channel {channel!r} read on"
            at = _start(block, index)
            self._coordinate_moved("received_under_binlog_lock", what, at, name=channel)

    def info_written(self, body: Mapping[str, Any], ts: int) -> None:
        """A write to slave_relay_log_info that follows an executed group moves Ex."""
        if body.get("table") != "slave_master_info" and body.get("reason") in _APPLIED:
            channel = str(body.get("channel", ""))
            what = f"the applier of channel {channel!r} executed on"
            at = f"{body.get('table')} of {channel!r} at {ts}"
            self._coordinate_moved("executed_under_binlog_lock", what, at, name=channel)

    def _coordinate_moved(self, case: str, what: str, at: str, **values: str) -> None:
        """P, Rd or Ex moved: not under the binlog lock; reported once while it is held."""
        if "binlog" not in self._locks or what in self._moved:
            return
        self._moved.append(what)
        broken = Broken(case, witness=what, at=at, **values)
        self._reporter.broken(BACKUP_LOCKS_FREEZE_SCOPE, broken)

    # Rows

    @property
    def freezes_tables(self) -> bool:
        """Whether the table lock is held."""
        return "tables" in self._locks

    @property
    def tables_locked_at(self) -> LogCoordinates | None:
        """End of the binary log when the table lock was taken, None when that is not known."""
        at = self._locks.get("tables")
        return None if at is None else coordinates_of(at)

    def row(self, state: ServerState, requested_at: int | None, collection_id: str) -> None:
        """Compare Rd and Ex of rows whose every statement ran under the binlog lock."""
        since = self._binlog_since
        if "binlog" not in self._locks or since is None or requested_at is None:
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

    # State

    def interrupted(self) -> None:
        """The server ended and its locks are gone, or they are not known any more."""
        reset(self)


def coordinates_of(text: str) -> LogCoordinates:
    """Inverse of ``str`` of coordinates."""
    name, _, offset = text.rpartition(":")
    return LogCoordinates.of_file(name, int(offset))


def _start(block: Block, index: int) -> str:
    file = int(block.columns["file"][index])
    return f"{block.files[file] if file >= 0 else ''}:{int(block.columns['start'][index])}"
