"""Judging Percona's backup locks: what they freeze, the header, order and release (58, 59, 75)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import FLAG_RELAY_LOG, QueryVerb
from tallystick.coordinates.rules.backup_locks import (
    BACKUP_LOCK_PROTOCOL,
    BACKUP_LOCKS_FREEZE_SCOPE,
    TRX_SYS_COORDS_FRESH_UNDER_LOCK,
)
from tallystick.coordinates.rules.judging.step_judge import StepJudge
from tallystick.coordinates.state_codec import reset
from tallystick.coordinates.values.binlog import EventType, LogCoordinates
from tallystick.coordinates.values.errors import AuditError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.baselines import Baselines
    from tallystick.coordinates.events.journal import Block
    from tallystick.coordinates.events.log_status import ServerState
    from tallystick.coordinates.rules.judging.judgement import Judgement

_TRANSACTIONAL = frozenset({"innodb", "rocksdb", "ndb"})
_OPENERS = frozenset({EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED})
_ROWS = frozenset(
    {
        EventType.WRITE_ROWS,
        EventType.UPDATE_ROWS,
        EventType.DELETE_ROWS,
        EventType.PARTIAL_UPDATE_ROWS,
    }
)
_LAST = frozenset({EventType.XID, EventType.XA_PREPARE, EventType.TRANSACTION_PAYLOAD})
_PREAMBLE = frozenset({EventType.INTVAR, EventType.RAND, EventType.USER_VAR})
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
    """What the last accepted row before the table lock said to be executed."""


@dataclass(slots=True)
class _Group:
    """A group of the binary log that opened under the table lock."""

    at: str
    gtid: tuple[str, int] | None
    has_rows: bool = False
    has_body: bool = False
    """Whether anything but BEGIN stands in it."""
    events: int = 0


@dataclass(eq=False)
class BackupLockProtocol(StepJudge):
    """The backup locks of one instance, and what may not move under them.

    Attributes:
        empty_groups: GTIDs of groups without changes that were logged under the table lock: no
            storage engine holds a trace of them.
    """

    _locks: dict[str, str | None] = field(default_factory=dict)
    """Lock to the binary log coordinate at its taking, as text, None unknown."""
    _sessions: dict[str, LockSession] = field(default_factory=dict)
    _moved: list[str] = field(default_factory=list)
    """What was told to have moved under the binlog lock that is held."""
    _binlog_since: int | None = None
    _positions: dict[str, str] = field(default_factory=dict)
    """What rows read wholly under the binlog lock say of each channel."""
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
                self.report(
                    BACKUP_LOCK_PROTOCOL,
                    at,
                    f"Session {name or 'unknown'} took LOCK TABLES FOR BACKUP while it held LOCK "
                    "BINLOG FOR BACKUP.",
                    "binlog lock, then table lock",
                    "table lock, then binlog lock",
                    "whiteboard: the binlog lock is taken under the table lock",
                )
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
                self.report(
                    BACKUP_LOCK_PROTOCOL,
                    at,
                    f"Session {name or 'unknown'} gave up LOCK TABLES FOR BACKUP before LOCK "
                    "BINLOG FOR BACKUP.",
                    "UNLOCK TABLES, then UNLOCK BINLOG",
                    "UNLOCK BINLOG, then UNLOCK TABLES",
                    "whiteboard: no coordinate without the table lock",
                )
        else:
            # A lock whose session nobody told may be any session's, as in state of before.
            for other, known in self._sessions.items():
                if lock in known.held and not (name and other):
                    known.held.remove(lock)
        self._settle(lock)

    def _settle(self, lock: str) -> None:
        if not any(lock in session.held for session in self._sessions.values()):
            self._locks.pop(lock, None)

    def backup_ended(self, name: str, backup_id: str, *, failed: bool) -> None:
        """The utility has ended: what it held is released, by itself or with its session."""
        session = self._sessions.pop(name, None)
        if session is None:
            return
        if session.held and not failed:
            held = " and ".join(f"LOCK {lock.upper()} FOR BACKUP" for lock in session.held)
            self.report(
                BACKUP_LOCK_PROTOCOL,
                f"end of backup {backup_id}",
                f"Backup {backup_id} ended while its session {name or 'unknown'} held {held}.",
                held,
                "no lock",
                "UNLOCK BINLOG and UNLOCK TABLES",
            )
            # It is still held; another unlock, or the end of the session, will come.
            self._sessions[name] = LockSession(held=session.held)
        for lock in list(self._locks):
            self._settle(lock)

    def log_began_anew(self) -> None:
        """RESET: where locks were taken is a place of another log."""
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
            self._changed(f"a {engine} {kind}", f"statement at {ts}")

    def _changed(self, what: str, at: str) -> None:
        """DDL, or a change that is not transactional: not under the table lock."""
        if "tables" in self._locks:
            self.report(
                BACKUP_LOCKS_FREEZE_SCOPE,
                at,
                f"Under LOCK TABLES FOR BACKUP {what} was executed.",
                what,
                "no non-transactional change and no DDL",
                "LOCK TABLES FOR BACKUP",
            )

    # Logs under the locks

    @property
    def is_held(self) -> bool:
        """Whether a lock is held that logs are judged under."""
        return "binlog" in self._locks or "tables" in self._locks

    def logged(self, block: Block, index: int) -> None:
        """An event of the binary log while a lock is held."""
        self._look_at(block, index)
        if "binlog" in self._locks:
            self._coordinate_moved("the binary log grew", _place(block, index))
        if "tables" not in self._locks:
            return
        event_type = int(block.columns["type"][index])
        if event_type in _OPENERS:
            sid = int(block.columns["sid"][index])
            gtid = (block.sids[sid], int(block.columns["gno"][index])) if sid >= 0 else None
            self._group = _Group(_place(block, index), gtid)
        elif self._group is not None:
            self._read_body(self._group, event_type, int(block.columns["query"][index]))

    def _look_at(self, block: Block, index: int) -> None:
        self._reporter.look_at(
            block.epoch, block.first_sequence + index, int(block.columns["ts"][index])
        )

    def _read_body(self, group: _Group, event_type: int, verb: int) -> None:
        if event_type in _PREAMBLE:
            return
        group.events += 1
        if event_type in _ROWS:
            group.has_rows = group.has_body = True
        elif event_type != EventType.QUERY:
            group.has_body = True
            if event_type in _LAST:
                self._group = None
        elif verb == QueryVerb.COMMIT:
            self._group = None
            if group.has_rows:
                self._changed("a non-transactional change", group.at)
            if not group.has_body and group.gtid is not None:
                self._note_empty(*group.gtid)
        elif verb == QueryVerb.STATEMENT:
            group.has_body = True
            if group.events == 1:
                self._group = None
                self._changed("a DDL statement", group.at)
        elif verb != QueryVerb.BEGIN:
            group.has_body = True
            if verb not in {QueryVerb.XA_START, QueryVerb.XA_END}:
                self._group = None

    def _note_empty(self, sid: str, gno: int) -> None:
        try:
            self.empty_groups = self.empty_groups | GtidSet([(sid, gno, gno)])
        except AuditError:
            return  # no GTID: tier 0 has told

    def received(self, block: Block, index: int, channel: str) -> None:
        """An event of a relay log: one that the source wrote moves the position read."""
        is_own = int(block.columns["flags"][index]) & FLAG_RELAY_LOG
        if "binlog" in self._locks and int(block.columns["type"][index]) in _OPENERS and not is_own:
            self._look_at(block, index)
            what = f"the receiver of channel {channel!r} read on"
            self._coordinate_moved(what, _place(block, index))

    def info_written(self, body: Mapping[str, Any], ts: int) -> None:
        """A write to slave_relay_log_info that follows an executed group moves Ex."""
        if body.get("table") != "slave_master_info" and body.get("reason") in _APPLIED:
            channel = str(body.get("channel", ""))
            what = f"the applier of channel {channel!r} executed on"
            self._coordinate_moved(what, f"{body.get('table')} of {channel!r} at {ts}")

    def _coordinate_moved(self, what: str, at: str) -> None:
        """P, Rd or Ex moved: not under the binlog lock; told once while it is held."""
        if "binlog" not in self._locks or what in self._moved:
            return
        self._moved.append(what)
        self.report(
            BACKUP_LOCKS_FREEZE_SCOPE,
            at,
            f"Under LOCK BINLOG FOR BACKUP {what}.",
            what,
            "frozen coordinates",
            "LOCK BINLOG FOR BACKUP",
        )

    # Rows

    def judge_row(self, state: ServerState, is_backup_safe: bool, judgement: Judgement) -> None:
        """Judge the InnoDB header's coordinates of a row taken under the tables lock."""
        rule = TRX_SYS_COORDS_FRESH_UNDER_LOCK
        if not is_backup_safe or "tables" not in self._locks:
            return
        locked_at = self._locks["tables"]
        if locked_at is None or state.trx_sys is None:
            judgement.undecided(
                rule, "the coordinates of the InnoDB header or of the lock are unknown"
            )
            return
        header = state.trx_sys
        locked = coordinates_of(locked_at)
        if is_fresh(header, locked):
            judgement.holds(rule)
            return
        judgement.broken(
            rule,
            sentence=f"Under LOCK TABLES FOR BACKUP the InnoDB header says {header}, but the lock "
            f"was taken at {locked}.",
            observed=header,
            observed_in="TRX_SYS page",
            expected=f"at least {locked}",
            expected_in="binary log when the lock was taken",
            witness=header,
        )

    def judge_positions(
        self, state: ServerState, requested_at: int | None, collection_id: str
    ) -> None:
        """Judge Rd and Ex of rows whose every statement ran under the binlog lock."""
        since = self._binlog_since
        if "binlog" not in self._locks or since is None or requested_at is None:
            return
        if requested_at < since:
            return  # SHOW REPLICA STATUS may have been read before the lock
        for name, channel in sorted(state.channels.items()):
            if channel.read is None or channel.executed is None:
                continue
            said = f"read {channel.read}, executed {channel.executed}"
            before = self._positions.setdefault(name, said)
            if said != before:
                what = f"the positions of channel {name!r} moved from {before} to {said}"
                self._coordinate_moved(what, f"{collection_id} {name}")

    # State

    def interrupted(self) -> None:
        """The server ended and its locks are gone, or they are not known any more."""
        reset(self)


def coordinates_of(text: str) -> LogCoordinates:
    """Inverse of ``str`` of coordinates."""
    name, _, offset = text.rpartition(":")
    return LogCoordinates.of_file(name, int(offset))


def is_fresh(header: LogCoordinates, locked: LogCoordinates) -> bool:
    """Whether a header is not behind the lock; InnoDB commits move it further under the lock."""
    return header.base_name == locked.base_name and header >= locked


def _place(block: Block, index: int) -> str:
    file = int(block.columns["file"][index])
    return f"{block.files[file] if file >= 0 else ''}:{int(block.columns['start'][index])}"
