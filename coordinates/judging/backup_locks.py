"""Judging Percona's backup locks (invariants 58 and 59)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinates.binlog import LogCoordinates
from coordinates.invariants.backup_locks import (
    BACKUP_LOCKS_FREEZE_SCOPE,
    TRX_SYS_COORDS_FRESH_UNDER_LOCK,
)
from coordinates.judging.step_judge import StepJudge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinates.judging.judgement import Judgement
    from coordinates.log_status import ServerState
    from coordinates.reporter import Reporter


_TRANSACTIONAL = frozenset({"innodb", "rocksdb", "ndb"})


class BackupLockProtocol(StepJudge):
    """The backup locks of one instance, and what may not move under them."""

    def __init__(self, reporter: Reporter) -> None:
        super().__init__(reporter)
        self._locks: dict[str, str | None] = {}
        """Lock to the binary log coordinate at its taking, as text, None unknown."""

    def step(self, body: Mapping[str, Any], position: LogCoordinates | None) -> None:
        """Take one ``backup_lock`` record; ``position``: end of the binary log in the journal."""
        lock = str(body.get("lock"))
        if body.get("step") == "lock":
            self._locks[lock] = None if position is None else str(position)
        else:
            self._locks.pop(lock, None)

    def statement(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``statement`` record: a change the binary log does not show."""
        engine = str(body.get("engine", "")).lower()
        self.changed(
            engine not in _TRANSACTIONAL and body.get("type", "dml") == "dml",
            body.get("type") == "ddl",
            f"a {engine} {body.get('type', 'dml')}",
            f"statement at {ts}",
        )

    def changed(self, is_non_transactional: bool, is_ddl: bool, what: str, at: str) -> None:
        """Data changed: under the tables lock only transactional DML may go on."""
        if "tables" in self._locks and (is_non_transactional or is_ddl):
            self.report(
                BACKUP_LOCKS_FREEZE_SCOPE,
                at,
                f"Under LOCK TABLES FOR BACKUP {what} was executed.",
                what,
                "no non-transactional change and no DDL",
                "LOCK TABLES FOR BACKUP",
            )

    @property
    def freezes_coordinates(self) -> bool:
        """Whether LOCK BINLOG FOR BACKUP is held."""
        return "binlog" in self._locks

    @property
    def freezes_tables(self) -> bool:
        """Whether LOCK TABLES FOR BACKUP is held."""
        return "tables" in self._locks

    def coordinates_moved(self, what: str, at: str) -> None:
        """P, Rd or Ex moved: not under the binlog lock."""
        if self.freezes_coordinates:
            self.report(
                BACKUP_LOCKS_FREEZE_SCOPE,
                at,
                f"Under LOCK BINLOG FOR BACKUP {what}.",
                what,
                "frozen coordinates",
                "LOCK BINLOG FOR BACKUP",
            )

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
        name, _, offset = locked_at.rpartition(":")
        locked = LogCoordinates.of_file(name, int(offset))
        # InnoDB commits go on under the lock and move the header further.
        if header.base_name == locked.base_name and header >= locked:
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

    def interrupted(self) -> None:
        """The server ended and its locks are gone, or they are not known any more."""
        self._locks = {}

    def dump(self) -> dict[str, Any]:
        """For the state bytes."""
        return {"locks": self._locks}

    def load(self, document: Mapping[str, Any]) -> None:
        """Inverse of ``dump``."""
        self._locks = dict(document["locks"])
