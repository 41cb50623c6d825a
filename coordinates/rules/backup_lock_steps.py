"""Tier 3: does a backup under locks take the locks that its coordinates need?

The steps come from `backup` and `backup_lock` records (docs/journal.md); the order of the locks is
judged in `backup_locks`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.results import ObservationCode, Severity
from tallystick.coordinates.rules.backup_locks import HEADER, LOG_STATUS, STATUS
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import Broken
from tallystick.coordinates.rules.protocol_steps import (
    UNDECIDED_WHEN,
    Unended,
    begin_run,
    note_forgotten,
    report_missing,
    step_missing,
)
from tallystick.coordinates.rules.registry import Case, Rule, reason, register
from tallystick.coordinates.rules.statements import BACKUP_LOCKS
from tallystick.coordinates.state_codec import COLLABORATOR
from tallystick.coordinates.values.binlog import LogCoordinates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tallystick.coordinates.audit.reporter import Reporter
    from tallystick.coordinates.rules.outcomes import Reason

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
            "The session of a backup has taken LOCK TABLES FOR BACKUP or LOCK INSTANCE FOR BACKUP,"
            " and LOCK BINLOG FOR BACKUP unless its coordinates are those of log_status, or of the"
            " InnoDB header of a server with have_backup_safe_binlog_info, without a position on a"
            " source and without a copy of the binary log; or FLUSH TABLES WITH READ LOCK in place"
            " of both; and the coordinates were read before the first of them, and what SHOW MASTER"
            " STATUS says before the second, was released."
        ),
        why=(
            "Without the first a table that is not transactional, or a definition, changes while"
            " it is copied. Without the second a commit comes between the reading of a coordinate"
            " and the end of the redo copy; only the header's coordinate is part of the redo, and"
            " only log_status has the coordinates of one moment with the LSN up to which redo is"
            " copied. FLUSH TABLES WITH READ LOCK stops all of these changes."
        ),
        undecided_when=(
            f"{UNDECIDED_WHEN}. Of a server from 8.0 on, known by LOCK INSTANCE FOR BACKUP or"
            " log_status, which has no LOCK BINLOG FOR BACKUP, where a lock is missing, or was"
            " released before the coordinates were read, and the binary log grew meanwhile, or does"
            " not have all that is executed"
        ),
        sources=(
            "Percona backup-safe binlog information, whiteboard: cases 1 to 3",
            "MySQL manual: LOCK INSTANCE FOR BACKUP; FLUSH TABLES WITH READ LOCK; log_status",
        ),
        remedy=(
            "Do not start a replica or a point-in-time recovery at these coordinates: take the"
            " backup again with both locks, or under FLUSH TABLES WITH READ LOCK; from 8.0 on,"
            " which has no LOCK BINLOG FOR BACKUP, with LOCK INSTANCE FOR BACKUP at the coordinates"
            " of performance_schema.log_status."
        ),
        verify=(BACKUP_LOCKS,),
        cases={
            **step_missing("Percona backup-safe binlog information, cases 1 to 3"),
            "read_after_release": Case(
                "Backup {backup} reports {position}, and the binary log ended at {locked} as long"
                " as its session held a lock that stops {changes}: that was released by then.",
                "{position}",
                "backup {backup}",
                "{locked}",
                "journal, end of the binary log under the lock",
            ),
        },
    )
)

IMAGE_NOT_RECORDED = reason(
    "image_not_recorded",
    "backup {backup} has ended without an error, and the journal has no image of it: whether its"
    " coordinates and the locks that they need are right is not judged",
    Lack.BACKUP,
)

NOT_STOPPED = reason(
    "backup_not_stopped",
    "backup {backup} held no lock that stops {changes:list} until its coordinates were read, and"
    " the binary log grew meanwhile, or is not known to have all that was executed: whether its"
    " data are of the moment of its coordinates is not known",
    Lack.BACKUP,
)

_TABLES: Final = "tables"
_BINLOG: Final = "binlog"
_STANDS_FOR: Final = {"instance": (_TABLES,), "global_read": (_TABLES, _BINLOG)}
"""MySQL's own locks, and those of Percona that they stand for."""
_STOP_COMMITS: Final = (_BINLOG, "global_read")
_STOP_DEFINITIONS: Final = (_TABLES, "instance", "global_read")
_STOPS: Final = {_TABLES: "changes of definitions", _BINLOG: "commits"}
_BACKUPS_MAX: Final = 64


@dataclass(slots=True)
class _Backup:
    """A backup that has begun.

    Attributes:
        session: That holds its locks.
        since: When it began.
        taken: The locks that the session held then or took later.
        log_end: End of the binary log then, None where it does not show all that is executed.
        locked_at: Where the binary log ended when the session last got a lock that stops commits.
        kept_until: Where it ended when the session last released one that stops changes of
            definitions.
        has_image: Whether its image was recorded.
    """

    session: str
    since: int
    taken: list[str]
    log_end: LogCoordinates | None
    locked_at: LogCoordinates | None = None
    kept_until: LogCoordinates | None = None
    has_image: bool = False


@dataclass(eq=False)
class BackupLockSteps:
    """The locks that the sessions of one instance's backups have, or had since they began."""

    _reporter: Reporter = field(metadata=COLLABORATOR)
    _begun: dict[str, _Backup] = field(default_factory=dict)
    """By the backup's id."""
    _has_forgotten: bool = False
    """Whether there were too many backups, which need not tell that they have ended."""

    def lock(self, body: Mapping[str, Any], log_end: LogCoordinates | None) -> None:
        """Take one ``backup_lock`` record; ``log_end``: the end of the binary log."""
        for backup in self._begun.values():
            if backup.session != str(body.get("session")):
                continue
            if body["step"] == "lock":
                backup.taken.append(body["lock"])
                if body["lock"] in _STOP_COMMITS:
                    backup.locked_at = log_end
            if body["lock"] in _STOP_DEFINITIONS:
                backup.kept_until = log_end if body["step"] == "unlock" else None

    def session_of(self, body: Mapping[str, Any]) -> str:
        """The session of a ``backup`` record, "" where neither it nor its begin names one."""
        begun = self._begun.get(body["backup_id"])
        return str(body.get("session", "" if begun is None else begun.session))

    def other_sessions(self, body: Mapping[str, Any]) -> set[str]:
        """The sessions of backups that go on beside that of a ``backup`` record."""
        backup_id = body["backup_id"]
        return {one.session for name, one in self._begun.items() if name != backup_id}

    def backup(
        self,
        body: Mapping[str, Any],
        ts: int,
        *,
        held: Sequence[str],
        may_be_safe: bool,
        log_end: LogCoordinates | None,
    ) -> None:
        """Take one ``backup`` record.

        Args:
            body: The record.
            ts: Its time.
            held: The locks that its session holds.
            may_be_safe: Whether the server may have have_backup_safe_binlog_info.
            log_end: End of the binary log, None where it does not show all that is executed.
        """
        step, backup_id = body.get("step"), str(body.get("backup_id"))
        if step == "image" and backup_id in self._begun:
            self._begun[backup_id].has_image = True
        if step == "begin" and "session" in body:
            backup = _Backup(str(body["session"]), ts, list(held), log_end)
            forgotten = begin_run(self._begun, backup_id, backup, _BACKUPS_MAX)
            self._has_forgotten |= forgotten is not None
        elif step == "end":
            ended = self._begun.pop(backup_id, None)
            if ended is not None and not ended.has_image and "error" not in body:
                self._note_undecided(
                    IMAGE_NOT_RECORDED, at=f"end of backup {backup_id}", backup=backup_id
                )
        elif step == "image" and "coordinates_from" in body:
            if backup_id in self._begun:
                backup = self._begun[backup_id]
                self._judge_image(body, backup, may_be_safe, log_end)
                self._judge_reading(body, backup, held)
            elif self._has_forgotten:
                note_forgotten(
                    self._reporter,
                    BACKUP_LOCK_STEPS_COMPLETE,
                    what="backups",
                    kept=_BACKUPS_MAX,
                    at=f"image {backup_id}",
                )

    def _judge_image(
        self,
        body: Mapping[str, Any],
        backup: _Backup,
        may_be_safe: bool,
        log_end: LogCoordinates | None,
    ) -> None:
        taken = set(backup.taken).union(*(_STANDS_FOR.get(lock, ()) for lock in backup.taken))
        is_of_log_status = body["coordinates_from"] == LOG_STATUS
        goes_without_binlog_lock = (
            (is_of_log_status or (body["coordinates_from"] == HEADER and may_be_safe))
            and not body.get("channels")
            and body.get("binlog_copy") is None
        )
        needed = (_TABLES,) if goes_without_binlog_lock else (_TABLES, _BINLOG)
        missing = [lock for lock in needed if lock not in taken]
        at = f"image {body['backup_id']}"
        if not is_of_log_status and "instance" not in taken:
            report_missing(
                self._reporter,
                BACKUP_LOCK_STEPS_COMPLETE,
                subject=f"Backup {body['backup_id']}",
                step="image",
                missing=[f"LOCK {lock.upper()} FOR BACKUP" for lock in missing],
                at=at,
            )
        elif missing and (log_end is None or log_end != backup.log_end):
            # Where nothing was logged, no commit came between, whatever could have.
            self._note_undecided(
                NOT_STOPPED,
                at=at,
                backup=body["backup_id"],
                changes=[_STOPS[lock] for lock in missing],
            )

    def _judge_reading(self, body: Mapping[str, Any], backup: _Backup, held: Sequence[str]) -> None:
        """Whether coordinates were read while the session held its locks."""
        file, position = body.get("binlog_file"), body.get("binlog_position")
        if file is None or position is None:
            return
        reported = LogCoordinates.of_file(file, position)
        locked, kept = backup.locked_at, backup.kept_until
        if (
            body["coordinates_from"] == STATUS
            and set(held).isdisjoint(_STOP_COMMITS)
            and locked is not None
            # FLUSH LOGS may have begun another file under the lock.
            and reported.file_name == locked.file_name
            and reported > locked
        ):
            self._released(body, reported, locked, _BINLOG)
        elif (
            set(held).isdisjoint(_STOP_DEFINITIONS)
            and kept is not None
            and reported.base_name == kept.base_name
            and reported > kept
        ):
            self._released(body, reported, kept, _TABLES)

    def _released(
        self, body: Mapping[str, Any], reported: LogCoordinates, locked: LogCoordinates, lock: str
    ) -> None:
        """The session had released a lock before its backup's coordinates were read."""
        backup, changes = body["backup_id"], _STOPS[lock]
        if lock == _TABLES and body["coordinates_from"] == LOG_STATUS:
            at = f"image {backup}"
            self._note_undecided(NOT_STOPPED, at=at, backup=backup, changes=[changes])
            return
        self._reporter.broken(
            BACKUP_LOCK_STEPS_COMPLETE,
            Broken(
                "read_after_release",
                witness=reported,
                backup=backup,
                position=reported,
                locked=locked,
                changes=changes,
            ),
            at=f"image {backup}",
        )

    def _note_undecided(self, why: Reason, at: str, **data: Any) -> None:
        if BACKUP_LOCK_STEPS_COMPLETE.name not in self._reporter.disabled:
            self._reporter.note(
                ObservationCode.BACKUP_UNDECIDED,
                why,
                at=at,
                rules=(BACKUP_LOCK_STEPS_COMPLETE,),
                is_undecided=True,
                **data,
            )

    def unended(self) -> Iterator[Unended]:
        """The backups that go on."""
        for name, backup in self._begun.items():
            yield Unended(BACKUP_LOCK_STEPS_COMPLETE, f"backup {name}", backup.since)

    def interrupted(self) -> None:
        """The server ended its sessions, or records were lost."""
        self._begun = {}
        self._has_forgotten = False
