"""Tier 3: does a backup with backup locks take the locks that its coordinates need?

The steps come from `backup` and `backup_lock` records (docs/journal.md); the order of the locks is
judged in `backup_locks`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.backup_coordinates import HEADER
from tallystick.coordinates.rules.families import Family
from tallystick.coordinates.rules.protocol_steps import (
    UNDECIDED_WHEN,
    note_forgotten,
    report_missing,
    step_missing,
)
from tallystick.coordinates.rules.registry import Rule, register
from tallystick.coordinates.rules.statements import BACKUP_LOCKS
from tallystick.coordinates.state_codec import COLLABORATOR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.reporter import Reporter

BACKUP_LOCK_STEPS_COMPLETE = register(
    Rule(
        number=125,
        name="backup_lock_steps_complete",
        tier=3,
        scope="T",
        family=Family.BACKUP_LOCKS,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "The session of a backup has taken LOCK TABLES FOR BACKUP, and LOCK BINLOG FOR BACKUP"
            " unless its coordinates are those of the InnoDB header of a server with"
            " have_backup_safe_binlog_info, without a position on a source and without a copy of"
            " the binary log."
        ),
        why=(
            "Without the first a table that is not transactional, or a definition, changes while"
            " it is copied. Without the second a commit comes between the reading of a coordinate"
            " and the end of the redo copy; only the header's coordinate is part of the redo."
        ),
        undecided_when=UNDECIDED_WHEN,
        sources=("Percona backup-safe binlog information, whiteboard: cases 1 to 3",),
        remedy=(
            "Do not start a replica or a point-in-time recovery at these coordinates: take the"
            " backup again with both locks; from 8.0 on, which has no LOCK BINLOG FOR BACKUP, at"
            " the coordinates of performance_schema.log_status."
        ),
        verify=(BACKUP_LOCKS,),
        cases=step_missing("Percona backup-safe binlog information, cases 1 to 3"),
    )
)

_TABLES: Final = "tables"
_BINLOG: Final = "binlog"
_SESSIONS_MAX: Final = 64


@dataclass(eq=False)
class BackupLockSteps:
    """The locks that the sessions of one instance's backups have taken since they began."""

    _reporter: Reporter = field(metadata=COLLABORATOR)
    _taken: dict[str, list[str]] = field(default_factory=dict)
    """Session of a backup that has begun to its locks."""
    _has_forgotten: bool = False
    """Whether there were too many backups, which need not tell that they have ended."""

    def lock(self, body: Mapping[str, Any]) -> None:
        """Take one ``backup_lock`` record."""
        session = str(body.get("session"))
        if body.get("step") == "lock" and session in self._taken:
            self._taken[session].append(str(body.get("lock")))

    def backup(self, body: Mapping[str, Any], *, may_be_safe: bool) -> None:
        """Take one ``backup`` record.

        Args:
            body: The record.
            may_be_safe: Whether the server may have have_backup_safe_binlog_info.
        """
        if "session" not in body:
            return
        step, session = body.get("step"), str(body["session"])
        if step == "begin":
            while len(self._taken) >= _SESSIONS_MAX:
                del self._taken[next(iter(self._taken))]
                self._has_forgotten = True
            self._taken[session] = []
        elif step == "end":
            self._taken.pop(session, None)
        elif step == "image" and "coordinates_from" in body and session not in self._taken:
            if self._has_forgotten:
                note_forgotten(
                    self._reporter,
                    BACKUP_LOCK_STEPS_COMPLETE,
                    what="backups",
                    kept=_SESSIONS_MAX,
                    at=f"image {body.get('backup_id')}",
                )
        elif step == "image" and "coordinates_from" in body:
            header_suffices = (
                body["coordinates_from"] == HEADER
                and may_be_safe
                and not body.get("channels")
                and body.get("binlog_copy") is None
            )
            needed = (_TABLES,) if header_suffices else (_TABLES, _BINLOG)
            taken = self._taken[session]
            report_missing(
                self._reporter,
                BACKUP_LOCK_STEPS_COMPLETE,
                subject=f"Backup {body.get('backup_id')}",
                step="image",
                missing=[f"LOCK {lock.upper()} FOR BACKUP" for lock in needed if lock not in taken],
                at=f"image {body.get('backup_id')}",
            )

    def interrupted(self) -> None:
        """The server ended its sessions, or records were lost."""
        self._taken = {}
        self._has_forgotten = False
