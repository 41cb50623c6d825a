"""Tier 3: does an online backup take every step of WL#3576 up to and after its validity point?

The steps come from `zone`, `engine_lock`, `backup_lock` and `backup` records (docs/journal.md);
what they do is judged in `critical_zone`, `online_backup` and `backup_images`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.results import ObservationCode, Severity
from tallystick.coordinates.rules.families import Family
from tallystick.coordinates.rules.protocol_steps import (
    BACKUPS_OVERLAP,
    INSTANCE_LOCK_IN_DOUBT,
    UNDECIDED_WHEN,
    Forgotten,
    Unended,
    Wait,
    begin_run,
    note_begin_unseen,
    report_missing,
    step_missing,
)
from tallystick.coordinates.rules.registry import RULES, Rule, register
from tallystick.coordinates.rules.statements import INSTANCE_LOCK
from tallystick.coordinates.state_codec import COLLABORATOR, reset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tallystick.coordinates.audit.reporter import Reporter
    from tallystick.coordinates.rules.backup_locks import BackupLockProtocol
    from tallystick.coordinates.rules.outcomes import Reason

ZONE_STEPS_COMPLETE = register(
    Rule(
        number=122,
        name="zone_steps_complete",
        tier=3,
        scope="T",
        family=Family.COMMIT_ZONE,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "Before a validity point the closed zone was waited for, and who had written the"
            " binary log inside it had committed and unlocked the tables; when the backup has"
            " ended the zone is open again."
        ),
        why=(
            "Closing only keeps others out: until those inside have gone through the whole"
            " critical sequence the binary log may have what the data do not show. A zone that"
            " stays closed stops every change."
        ),
        undecided_when=UNDECIDED_WHEN
        + "; of a zone of which no wait was ever recorded none is demanded",
        sources=("WL#3576, Solution with a critical zone and Critical Zone API",),
        remedy=(
            "Discard the backup and take it again. If changes hang, end the backup's session: the"
            " zone opens with it."
        ),
        cases=step_missing("WL#3576, Solution with a critical zone"),
    )
)

ENGINE_LOCK_STEPS_COMPLETE = register(
    Rule(
        number=123,
        name="engine_lock_steps_complete",
        tier=3,
        scope="T",
        family=Family.COMMIT_ZONE,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "At a validity point every engine is locked that the backup has prelocked, locked or"
            " copied, and none was prelocked after the lock of another; after a time-out, and"
            " before the next round, the bail-out and the end of the backup, all are unlocked."
        ),
        why=(
            "The validity point is one instant of all engines: one that is not locked goes on"
            " while the others are held. Engines that stay locked stall the server between rounds,"
            " and while another one is prelocked, which may take long."
        ),
        undecided_when=UNDECIDED_WHEN
        + "; of a backup that records no engine lock none is demanded",
        sources=("WL#3576, mail of 2006-10-30",),
        remedy=(
            "Discard the backup: its tables are of different moments. Take it again with all"
            " engines locked, or without the tables of that engine."
        ),
        cases=step_missing("WL#3576, engine locking"),
    )
)

METADATA_LOCK_STEPS_COMPLETE = register(
    Rule(
        number=124,
        name="metadata_lock_steps_complete",
        tier=3,
        scope="T",
        family=Family.COMMIT_ZONE,
        severity=Severity.CRITICAL,
        heals="never",
        claim="At the validity point of a backup metadata operations are blocked.",
        why=(
            "Metadata operations do not enter the critical zone; they are to be blocked during the"
            " whole backup, by the instance lock. Without it a DDL comes between the copy of a"
            " table and that of its definition."
        ),
        undecided_when=UNDECIDED_WHEN
        + "; of a backup that records neither engine locks nor tickets and tables it is not"
        " demanded; the lock that was held may have been that of a backup that has failed",
        sources=("WL#3576, When the zone should be entered",),
        remedy="Discard the backup and take it again under LOCK INSTANCE FOR BACKUP.",
        verify=(INSTANCE_LOCK,),
        cases=step_missing("WL#3576, When the zone should be entered"),
    )
)

_UNDER_LOCKS: Final = "backup_lock_steps_complete"
"""A backup is one under backup locks, or at a validity point: which, its begin shows."""
_INSTANCE: Final = "instance lock"
_SEQUENCE: Final = ("commit", "unlock_tables")
"""What follows write_binlog before the ticket is dropped."""
_THREADS_MAX: Final = 1_024
_BACKUPS_MAX: Final = 64


@dataclass(slots=True)
class _Backup:
    """A backup that has begun and not ended.

    Attributes:
        since: When it began.
        has_session: Whether it is one under backup locks, of which others name that it goes on.
        is_alone: Whether no other went on at any moment of it: the steps are its own.
        locked: Engines that were locked at a validity point since, None: there was none.
    """

    since: int
    has_session: bool
    is_alone: bool
    locked: list[str] | None = None


@dataclass(slots=True)
class _Zone:
    """One zone since it was last open.

    Attributes:
        taken: Its steps, empty while it is open.
        closed_at: When it was closed last.
        has_tickets, has_waited: Whether tickets of it, and waits for them, are recorded.
        names_tables: Whether it was closed for tables that are backed up.
        is_of_backup: Whether it is known to be a backup's: it has no name, was closed for tables
            that are backed up, or has had a validity point.
        inside: Ticket to the steps of its critical sequence, once that has begun.
        unfinished: Threads that dropped their tickets too early to what they left out.
    """

    taken: list[str] = field(default_factory=list)
    closed_at: int = 0
    has_tickets: bool = False
    has_waited: bool = False
    names_tables: bool = False
    is_of_backup: bool = False
    inside: dict[str, list[str]] = field(default_factory=dict)
    unfinished: dict[str, list[str]] = field(default_factory=dict)


@dataclass(eq=False)
class OnlineBackupSteps:
    """The steps of one instance's online backups."""

    _reporter: Reporter = field(metadata=COLLABORATOR)
    _backup_locks: BackupLockProtocol = field(metadata=COLLABORATOR)
    _knows_locks: bool = False
    """Whether every metadata lock that is held was seen to be taken."""
    _backups: dict[str, _Backup] = field(default_factory=dict)
    """Those that have begun and not ended, by their ids."""
    _under_locks: list[str] = field(default_factory=list)
    """Those of which an image made under backup locks was recorded."""
    _zones: dict[str, _Zone] = field(default_factory=dict)
    _engines: list[str] = field(default_factory=list)
    """Those that the backup has prelocked or locked."""
    _locked: list[str] = field(default_factory=list)
    _knows_locked: bool = False
    """Whether every engine that is locked was seen to be."""
    _locked_at: int = 0
    """When the first of them was locked."""
    _has_timed_out: bool = False
    """Whether an engine was not locked in time, and another round has not begun."""
    _at_validity_point: list[str] | None = None
    """Engines that were locked at the last validity point of this round, None: there was none."""
    _knows_at_validity_point: bool = False
    """Whether every engine that was locked at it was seen to be."""
    forgotten: Forgotten = field(default_factory=Forgotten)
    forgotten_backups: Forgotten = field(default_factory=Forgotten)

    # The zone

    def zone(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``zone`` record."""
        step, name = body["step"], body.get("zone", "")
        zone = self._zones.setdefault(name, _Zone())
        if step == "close":
            zone.taken, zone.closed_at = [step], ts
            zone.names_tables = "tables" in body
            zone.is_of_backup |= zone.names_tables or not name
        elif step == "open":
            zone.taken = []
        elif step == "wait" and zone.taken:
            zone.has_waited = True
            zone.taken.append(step)
        elif step == "validity_point":
            self._validity_point(zone, f"validity point at {ts}")
            self.forgotten.ended(name)
        elif step == "enter":
            zone.has_tickets = True
        elif step == "drop":
            self._drop(zone, name, str(body.get("ticket")))
        elif step in ("write_binlog", *_SEQUENCE):
            _execute(zone, step, body)

    def _drop(self, zone: _Zone, name: str, ticket: str) -> None:
        thread, *steps = zone.inside.pop(ticket, [""])
        left_out = [step for step in _SEQUENCE if step not in steps]
        if "write_binlog" in steps and left_out:
            while len(zone.unfinished) >= _THREADS_MAX:
                forgotten = next(iter(zone.unfinished))
                del zone.unfinished[forgotten]
                self.forgotten.drop(
                    self._reporter,
                    ZONE_STEPS_COMPLETE,
                    what="threads that left the zone too early",
                    kept=_THREADS_MAX,
                    at=f"thread {forgotten}",
                    names=[name],
                )
            zone.unfinished[thread] = left_out

    def _validity_point(self, zone: _Zone, at: str) -> None:
        is_unwaited = zone.has_waited and zone.taken and "wait" not in zone.taken
        zone.is_of_backup = True
        missing = ["wait"] if is_unwaited else []
        for thread, steps in zone.unfinished.items():
            missing += [f"{step} of thread {thread}" for step in steps]
        zone.unfinished.clear()
        self._report(ZONE_STEPS_COMPLETE, "validity_point", missing, at)
        is_recorded = self._engines or (zone.has_tickets and zone.names_tables)
        if is_recorded and (self._knows_locks or self._backups):
            locks = self._backup_locks
            is_held = locks.holder("instance") is not None or bool(locks.forgotten)
            if not is_held and locks.may_hold_instance_lock:
                self._leave_undecided(METADATA_LOCK_STEPS_COMPLETE, INSTANCE_LOCK_IN_DOUBT, at)
            else:
                unlocked = [] if is_held else [_INSTANCE]
                self._report(METADATA_LOCK_STEPS_COMPLETE, "validity_point", unlocked, at)
        self._demand_locked(self._engines, self._locked, "validity_point", at)
        self._at_validity_point = list(self._locked)
        self._knows_at_validity_point = self._knows_locked
        for backup in self._backups.values():
            backup.locked = [*(backup.locked or ()), *self._locked]
        if self._locked and not self._knows_locked:
            note_begin_unseen(
                self._reporter,
                ENGINE_LOCK_STEPS_COMPLETE,
                what="a round of engine locking",
                step="validity point",
                at=at,
            )

    # Engines

    def engine_lock(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``engine_lock`` record."""
        step, engine = body["step"], body.get("engine", "").lower()
        at = f"engine locks at {ts}"
        goes_on = self._has_timed_out and step in ("lock", "done")
        if goes_on:
            self._report_engines(step, ["unlock_all"] if self._locked else ["retry"], at)
        elif step in ("begin", "retry", "abort") and self._locked:
            self._report(ENGINE_LOCK_STEPS_COMPLETE, step, ["unlock_all"], at)
            self._locked = []
        elif step == "prelock" and self._locked:
            lock = f"lock of {self._locked[-1]}"
            self._report(ENGINE_LOCK_STEPS_COMPLETE, lock, [f"prelock of {engine}"], at)
        is_between_rounds = self._has_timed_out and step in ("prelock", "unlock_all")
        self._has_timed_out = step == "timeout" or is_between_rounds
        if step in ("prelock", "lock"):
            if not self._locked:
                self._locked_at = ts
            self._note_engine(engine, is_locked=step == "lock")
        elif step == "done" and not goes_on:
            self._demand_locked(self._engines, self._locked, step, at)
        elif step == "unlock_all":
            self._locked = []
            if self._at_validity_point is not None:
                self._engines = []
        elif step == "abort":
            self._engines = []
        if step in ("begin", "retry"):
            self._at_validity_point = None
        self._knows_locked |= step in ("begin", "retry", "unlock_all", "abort")

    def _note_engine(self, engine: str, *, is_locked: bool) -> None:
        if engine not in self._engines:
            self._engines.append(engine)
        if is_locked and engine not in self._locked:
            self._locked.append(engine)

    def _demand_locked(self, engines: Iterable[str], locked: list[str], step: str, at: str) -> None:
        missing = [engine for engine in engines if engine not in locked]
        locked += missing
        self._report_engines(step, [f"lock of {engine}" for engine in missing], at)

    def _report_engines(self, step: str, missing: list[str], at: str) -> None:
        """Report what was left out, unless it may be of another backup."""
        mixed = next((name for name, one in self._backups.items() if not one.is_alone), None)
        if mixed is None:
            self._report(ENGINE_LOCK_STEPS_COMPLETE, step, missing, at)
        elif missing:
            values = {"backup": mixed, "step": step}
            self._leave_undecided(ENGINE_LOCK_STEPS_COMPLETE, BACKUPS_OVERLAP, at, **values)

    # The backup

    def backup(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``backup`` record of a backup at a validity point."""
        step, backup_id = body.get("step"), str(body.get("backup_id"))
        if step == "begin":
            self._begin(backup_id, ts, has_session="session" in body)
        elif step == "image":
            backup = self._backups.get(backup_id)
            locked = self._at_validity_point if self._knows_at_validity_point else None
            if backup is not None and not backup.is_alone:
                locked = backup.locked
            if locked:
                tables = body.get("tables") or ()
                engines = dict.fromkeys(table.get("engine", "").lower() for table in tables)
                at = f"image {backup_id}"
                self._demand_locked(filter(None, engines), locked, "image", at)
        elif step == "end":
            may_be_known = bool(self.forgotten_backups)
            self.forgotten_backups.ended(backup_id)
            is_known = self._backups.pop(backup_id, None) is not None
            if is_known or "error" in body:
                self._end(backup_id, is_broken_off="error" in body)
            elif not (may_be_known or backup_id in self._under_locks):
                note_begin_unseen(
                    self._reporter,
                    ZONE_STEPS_COMPLETE,
                    ENGINE_LOCK_STEPS_COMPLETE,
                    METADATA_LOCK_STEPS_COMPLETE,
                    RULES[_UNDER_LOCKS],
                    what=f"backup {backup_id}",
                    step=step,
                    at=f"end of backup {backup_id}",
                )

    def image_under_locks(self, backup_id: str) -> None:
        """Take an image made under backup locks: it may be recorded without the backup's begin."""
        self._under_locks = [*self._under_locks[1 - _BACKUPS_MAX :], backup_id]

    def _begin(self, backup_id: str, ts: int, *, has_session: bool) -> None:
        is_alone = not (self._backups or self.forgotten_backups)
        if is_alone:
            self._engines = list(self._locked)
            self._at_validity_point, self._has_timed_out = None, False
        for other in self._backups.values():
            other.is_alone = False
        backup = _Backup(ts, has_session, is_alone)
        forgotten = begin_run(self._backups, backup_id, backup, _BACKUPS_MAX)
        if forgotten is not None:
            self.forgotten_backups.drop(
                self._reporter,
                ZONE_STEPS_COMPLETE,
                ENGINE_LOCK_STEPS_COMPLETE,
                what="backups",
                kept=_BACKUPS_MAX,
                at=f"backup {forgotten}",
                names=[forgotten],
            )

    def _end(self, backup_id: str, *, is_broken_off: bool) -> None:
        """What is closed or locked since another backup goes on may be that one's."""
        since = min((backup.since for backup in self._backups.values()), default=None)
        at, subject = f"end of backup {backup_id}", f"Backup {backup_id}"
        if not is_broken_off:
            closed = [
                zone
                for zone in self._zones.values()
                if zone.taken and zone.is_of_backup and (since is None or zone.closed_at < since)
            ]
            self._report(ZONE_STEPS_COMPLETE, "end", ["open"] if closed else [], at, subject)
            for zone in closed:
                zone.taken = []
        if since is None or is_broken_off or self._locked_at < since:
            unlock = ["unlock_all"] if self._locked and not is_broken_off else []
            self._report(ENGINE_LOCK_STEPS_COMPLETE, "end", unlock, at, subject)
            self._locked, self._has_timed_out = [], False

    def _report(
        self, rule: Rule, step: str, missing: list[str], at: str, subject: str = ""
    ) -> None:
        if not subject:
            name, *others = self._backups or ("",)
            subject = f"Backup {name}" if name and not others else "The backup"
        report_missing(self._reporter, rule, subject=subject, step=step, missing=missing, at=at)

    def _leave_undecided(self, rule: Rule, why: Reason, at: str, **values: str) -> None:
        if rule.name not in self._reporter.disabled:
            self._reporter.note(
                ObservationCode.COMPARISON_UNDECIDED,
                why,
                at=at,
                rules=(rule,),
                is_undecided=True,
                **values,
            )

    def unended(self) -> Iterator[Unended]:
        """The backups that go on, the zones that are closed, and the engines that are locked."""
        for name, backup in self._backups.items():
            if not backup.has_session:
                yield Unended(ZONE_STEPS_COMPLETE, f"backup {name}", backup.since)
        for name, zone in self._zones.items():
            if zone.taken and zone.is_of_backup:
                what = f"the closing of zone {name}" if name else "the closing of the commit zone"
                yield Unended(ZONE_STEPS_COMPLETE, what, zone.closed_at, stops=Wait.COMMITS)
        if self._locked:
            what = f"the lock of {', '.join(self._locked)}"
            yield Unended(ENGINE_LOCK_STEPS_COMPLETE, what, self._locked_at, stops=Wait.COMMITS)

    def interrupted(self) -> None:
        """The server ended and its locks are gone."""
        reset(self)
        self._knows_locks = self._knows_locked = True


def _execute(zone: _Zone, step: str, body: Mapping[str, Any]) -> None:
    """A step of a critical sequence; one without a ticket ends what a dropped one left open."""
    thread = str(body.get("thread"))
    if "ticket" in body and thread not in zone.unfinished:
        ticket = str(body["ticket"])
        if step == "write_binlog" and ticket not in zone.inside:
            zone.inside[ticket] = [thread]
        if ticket in zone.inside:
            zone.inside[ticket].append(step)
    elif thread in zone.unfinished:
        zone.unfinished[thread] = [one for one in zone.unfinished[thread] if one != step]
        if not zone.unfinished[thread]:
            del zone.unfinished[thread]
