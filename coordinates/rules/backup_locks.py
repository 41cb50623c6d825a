"""Tier 3: the order in which sessions take and release Percona's backup locks.

What the locks freeze is in `backup_lock_freeze`, what a backup reports in `backup_coordinates`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.backup_lock_freeze import BACKUP_LOCKS_FREEZE_SCOPE
from tallystick.coordinates.rules.families import Family
from tallystick.coordinates.rules.online_backup import NO_METADATA_CHANGE_DURING_BACKUP
from tallystick.coordinates.rules.outcomes import Broken
from tallystick.coordinates.rules.protocol_steps import Forgotten, Unended, Wait
from tallystick.coordinates.rules.registry import Case, Rule, register
from tallystick.coordinates.rules.statements import BACKUP_LOCKS, SESSION
from tallystick.coordinates.state_codec import COLLABORATOR, reset
from tallystick.coordinates.values.binlog import LogCoordinates
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from tallystick.coordinates.audit.baselines import Baselines
    from tallystick.coordinates.audit.reporter import Reporter
    from tallystick.coordinates.rules.backup_lock_freeze import BackupLockFreeze

HEADER = "innodb_header"
LOG_STATUS = "log_status"
STATUS = "source_status"
"""Where the coordinates of an image are from."""

BACKUP_LOCK_PROTOCOL = register(
    Rule(
        number=75,
        name="backup_lock_protocol",
        tier=3,
        scope="T",
        family=Family.BACKUP_LOCKS,
        severity=Severity.ERROR,
        heals="never",
        claim=(
            "A session takes LOCK TABLES FOR BACKUP before LOCK BINLOG FOR BACKUP, releases them in"
            " reverse, and holds none of them, nor LOCK INSTANCE FOR BACKUP or FLUSH TABLES WITH"
            " READ LOCK, when its backup has ended."
        ),
        why=(
            "A non-transactional change holds its table while it waits to log itself: who holds the"
            " binlog lock and then asks for the table lock waits for it, and it waits for the"
            " binlog lock. With the table lock released first such a change becomes visible that"
            " no coordinate holds. What a backup leaves locked stops the server's work."
        ),
        undecided_when=(
            "the steps of the session were not observed, or the server ended it: then it releases"
            " its locks itself. A session that never reports its end may hold them as long as it"
            " needs"
        ),
        sources=("Percona backup-safe binlog information, whiteboard: case 1",),
        remedy=(
            "End the session that holds the lock (KILL), take the backup again with the locks in"
            " order, and see that the utility unlocks on every way out."
        ),
        verify=(SESSION, BACKUP_LOCKS),
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

_SESSIONS_MAX = 64


_STOPS = {"binlog": Wait.COMMITS, "global_read": Wait.COMMITS_FOR_LONG}
"""What waits for a lock, where commits do."""


def _statement(lock: str) -> str:
    """What takes a lock."""
    is_global = lock == "global_read"
    return "FLUSH TABLES WITH READ LOCK" if is_global else f"LOCK {lock.upper()} FOR BACKUP"


@dataclass(slots=True)
class LockSession:
    """A session that holds backup locks, or held them for a backup that has not ended yet."""

    held: dict[str, int] = field(default_factory=dict)
    """Locks in the order of their taking, with its time."""
    tables_at: LogCoordinates | None = None
    """End of the binary log when it got the table lock, None unknown."""
    executed: GtidSet = GtidSet.EMPTY
    """gtid_executed of the last accepted row before the table lock."""


@dataclass(eq=False)
class BackupLockProtocol:
    """The sessions of one instance that hold backup locks."""

    _reporter: Reporter = field(metadata=COLLABORATOR)
    _backup_lock_freeze: BackupLockFreeze = field(metadata=COLLABORATOR)
    _sessions: dict[str, LockSession] = field(default_factory=dict)
    _in_doubt: list[str] = field(default_factory=list)
    """Sessions that had the instance lock when a backup failed that may have been theirs."""
    forgotten: Forgotten = field(default_factory=Forgotten)

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
        lock, name = body["lock"], str(body.get("session", ""))
        if body["step"] == "lock":
            self._locked(lock, name, position, baselines, ts)
            self._backup_lock_freeze.take(lock, position, ts)
        else:
            self._unlocked(lock, name, ts)

    def _locked(
        self,
        lock: str,
        name: str,
        position: LogCoordinates | None,
        baselines: Baselines,
        ts: int,
    ) -> None:
        session = self._sessions.get(name)
        if session is None:
            if len(self._sessions) >= _SESSIONS_MAX:
                self._forget_one()
            session = self._sessions[name] = LockSession()
        if lock == "tables" and lock not in session.held:
            if "binlog" in session.held:
                self._report_order("table_lock_second", "binlog lock, then table lock", name, ts)
            session.tables_at = position
            session.executed = baselines.executed or GtidSet.EMPTY
        session.held.setdefault(lock, ts)

    def unended(self) -> Iterator[Unended]:
        """The locks that are held."""
        for name, session in self._sessions.items():
            for lock, since in session.held.items():
                what = f"{_statement(lock)} of session {name or 'unknown'}"
                yield Unended(BACKUP_LOCK_PROTOCOL, what, since, _STOPS.get(lock, Wait.NOTHING))

    def _forget_one(self) -> None:
        # One that holds nothing has nothing to release; its image is undecided without its lock.
        idle = next((name for name, one in self._sessions.items() if not one.held), None)
        name = next(iter(self._sessions)) if idle is None else idle
        held = self._sessions.pop(name).held
        if held:
            self.forgotten.drop(
                self._reporter,
                BACKUP_LOCK_PROTOCOL,
                BACKUP_LOCKS_FREEZE_SCOPE,
                NO_METADATA_CHANGE_DURING_BACKUP,
                what="sessions with backup locks",
                kept=_SESSIONS_MAX,
                at=f"backup locks of session {name or 'unknown'}",
                names=[f"{lock} {name}" for lock in held],
            )

    def _unlocked(self, lock: str, name: str, ts: int) -> None:
        self.forgotten.ended(f"{lock} {name}")
        if lock == "instance" and name in self._in_doubt:
            self._in_doubt.remove(name)
        session = self._sessions.get(name)
        if session is not None and lock in session.held:
            del session.held[lock]
            if lock == "tables" and "binlog" in session.held:
                witness = "UNLOCK TABLES, then UNLOCK BINLOG"
                self._report_order("table_lock_released_first", witness, name, ts)
        else:
            # A lock without a session may be any session's.
            for other, known in self._sessions.items():
                if not (name and other):
                    known.held.pop(lock, None)
        self._settle(lock)

    def _report_order(self, case: str, witness: str, name: str, ts: int) -> None:
        session = name or "unknown"
        at = f"backup locks of session {session} at {ts}"
        broken = Broken(case, witness=witness, at=at, session=session)
        self._reporter.broken(BACKUP_LOCK_PROTOCOL, broken)

    def _settle(self, lock: str) -> None:
        if not any(lock in session.held for session in self._sessions.values()):
            self._backup_lock_freeze.taken.pop(lock, None)

    def backup_ended(
        self, name: str, backup_id: str, *, failed: bool, others: Collection[str]
    ) -> None:
        """The utility has ended: what it held is released, by itself or with its session.

        Args:
            name: The session, "" not known.
            backup_id: The backup.
            failed: Whether there is no backup.
            others: The sessions of other backups that go on; the locks of these may be theirs.
        """
        if name in others:
            return
        session = self._sessions.pop(name, None)
        if failed:
            # What it held went with its session, and no unlock need tell so.
            self._doubt("", self._sessions.pop("", None) if name else session)
            any_other = [] if name else [one for one in self._sessions if one not in others]
            for other in any_other:
                self._doubt(other, self._sessions.pop(other))
        elif session is not None and session.held:
            held = [_statement(lock) for lock in session.held]
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
        for lock in list(self._backup_lock_freeze.taken):
            self._settle(lock)

    def _doubt(self, name: str, session: LockSession | None) -> None:
        if session is not None and "instance" in session.held:
            others = [other for other in self._in_doubt if other != name]
            self._in_doubt = [*others[1 - _SESSIONS_MAX :], name]

    def log_began_anew(self) -> None:
        """RESET: where locks were taken is a coordinate of another log."""
        self._backup_lock_freeze.log_began_anew()
        for session in self._sessions.values():
            session.tables_at = None

    def holder(self, lock: str) -> str | None:
        """A session that is known to hold a lock, "" where it has no name, None: there is none."""
        return next((name for name, one in self._sessions.items() if lock in one.held), None)

    @property
    def may_hold_instance_lock(self) -> bool:
        """Whether a lock that a failed backup may have had may be another session's, and held."""
        return bool(self._in_doubt)

    def session(self, name: str) -> LockSession | None:
        """What is known of a session whose backup has not ended."""
        return self._sessions.get(name)

    def interrupted(self) -> None:
        """The server ended and its locks are gone, or they are not known any more."""
        reset(self)
        self._backup_lock_freeze.interrupted()
