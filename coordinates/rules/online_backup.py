"""Tier 3: does an online backup (WL#3576) lock engines and metadata as it says?

The steps come from `engine_lock`, `backup_lock` and `statement` records (docs/journal.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.engines import TRANSACTIONAL
from tallystick.coordinates.rules.families import Family
from tallystick.coordinates.rules.outcomes import Broken
from tallystick.coordinates.rules.protocol_steps import Forgotten, note_begin_unseen
from tallystick.coordinates.rules.registry import Case, Rule, register
from tallystick.coordinates.rules.statements import EVENTS_THERE, INSTANCE_LOCK, SESSION
from tallystick.coordinates.state_codec import COLLABORATOR, reset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.reporter import Reporter

ENGINE_LOCK_BUDGET = register(
    Rule(
        number=57,
        name="engine_lock_budget",
        tier=3,
        scope="T",
        family=Family.COMMIT_ZONE,
        severity=Severity.ERROR,
        heals="never",
        claim=(
            "All engines together are locked within one time-out, 2 seconds if none is reported,"
            " and each is given what is left of it; otherwise all are released, 10 seconds or more"
            " pass before the next round, and after the last round that is allowed nothing follows."
        ),
        why=(
            "Locked engines stall the whole server while the next one is still waited for. Each"
            " engine gets only what is left of the common budget, and a failed round lets everybody"
            " work before it is repeated. A backup that has bailed out holds nothing any more."
        ),
        undecided_when=(
            "the rounds' steps, their begin among them, or their times were not observed, or the"
            " journal has a gap among them; what an engine was given, and how many rounds are"
            " allowed, is judged only if it is reported"
        ),
        sources=("WL#3576, mail of 2006-10-30",),
        remedy=(
            "Look at which engine was slow (a huge transaction, a full disk, a slow flush) and run"
            " the backup at a quieter time; end a backup that holds its locks beyond the budget."
        ),
        cases={
            "retry_after_abort": Case(
                "Engine locking was retried after the backup had bailed out.",
                "{witness}",
                "journal",
                "no step after abort",
                "WL#3576, engine locking",
            ),
            "retry_too_early": Case(
                "Engine locking was retried {pause:seconds} after it gave up.",
                "{pause:seconds}",
                "journal",
                "at least {pause_min:seconds}",
                "WL#3576, engine locking",
            ),
            "too_many_rounds": Case(
                (
                    "Round {round} of engine locking began, though the backup bails out after"
                    " {rounds_max}."
                ),
                "round {round}",
                "journal",
                "abort after round {rounds_max}",
                "WL#3576, engine locking",
            ),
            "lock_after_abort": Case(
                "Engine locking went on with {engine} after the backup had bailed out.",
                "{step} {engine}",
                "journal",
                "no step after abort",
                "WL#3576, engine locking",
            ),
            "lock_overtime": Case(
                "Engine locking went on with {engine} after {spent:seconds}.",
                "{spent:seconds}",
                "journal",
                "at most {budget:seconds} for all engines",
                "WL#3576, engine locking",
            ),
            "timeout_too_long": Case(
                (
                    "{engine} was given {timeout:seconds} when {left:seconds} were left for all"
                    " engines."
                ),
                "{timeout:seconds}",
                "journal",
                "at most {left:seconds}",
                "WL#3576, engine locking",
            ),
        },
    )
)

LOCKED_ENGINES_STAND_STILL = register(
    Rule(
        number=80,
        name="locked_engines_stand_still",
        tier=3,
        scope="T",
        family=Family.COMMIT_ZONE,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "From the moment an engine is locked for a backup until all are unlocked nothing that"
            " others see changes in it; where the binary log is one of the engines, no event is"
            " written to it."
        ),
        why=(
            "The validity point is one instant of all engines. Commits through the server are"
            " held back by the zone; engines that commit by themselves, as NDB for the other"
            " members of its cluster, and those without transactions stand still by their own lock"
            " alone."
        ),
        undecided_when=(
            "locking or unlocking was not observed, the journal has a gap in between, or changes"
            " that the binary log does not show are not reported by the observer. What a"
            " transactional engine does before a commit is not seen by others and not judged"
        ),
        sources=(
            "WL#3576, mail of 2006-10-30",
            "WL#3576, Solution with a critical zone",
        ),
        remedy=(
            "Discard the backup: its engines show different moments. Take it again without writes"
            " of the other members, and look at the engine whose lock did not hold."
        ),
        verify=(EVENTS_THERE, INSTANCE_LOCK),
        cases={
            "locked_binlog_grew": Case(
                "While a backup had locked the binary log, it grew.",
                "{witness}",
                "journal",
                "nothing until all engines are unlocked",
                "lock of {engine}",
            ),
            "locked_table_changed": Case(
                "While a backup had locked {engine}, a table of {engine} changed.",
                "{witness}",
                "journal",
                "nothing until all engines are unlocked",
                "lock of {engine}",
            ),
        },
    )
)

NO_METADATA_CHANGE_DURING_BACKUP = register(
    Rule(
        number=81,
        name="no_metadata_change_during_backup",
        tier=3,
        scope="T",
        family=Family.COMMIT_ZONE,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "While a backup holds the instance lock, from its begin to its end, no DDL is executed."
        ),
        why=(
            "Metadata operations do not pass the critical zone, because they are blocked during"
            " the whole backup: clients wait, and the applier of a replica stops with an error."
        ),
        undecided_when=(
            "locking or unlocking was not observed, the journal has a gap in between, or a backup"
            " has failed that may have had the lock. Of DDL that the observer does not report"
            " nothing is claimed: a statement in the binary log alone may be one that the lock lets"
            " pass, as ANALYZE TABLE, or one on a temporary table"
        ),
        sources=("WL#3576, When the zone should be entered",),
        remedy=(
            "Discard the backup: its tables and their definitions may be of different moments."
            " Look for what executed the DDL past the lock."
        ),
        verify=(INSTANCE_LOCK, SESSION),
        cases={
            "ddl_under_instance_lock": Case(
                (
                    "While session {session} held the instance lock of a backup, a DDL of {engine}"
                    " was executed."
                ),
                "DDL, {engine}",
                "journal",
                "no DDL from begin to end of the backup",
                "backup_lock instance",
            ),
        },
    )
)

ENGINE_BUDGET_US = 2_000_000
RETRY_PAUSE_US = 10_000_000
_HANDED_ON_TOLERANCE_US = 50_000
"""How late an observer's clock may be compared with the server's between two steps."""
BINARY_LOG = "binlog"
_ENGINES_MAX = 64


@dataclass(eq=False)
class EngineLockProtocol:
    """The rounds in which a backup locks the engines of one instance."""

    _reporter: Reporter = field(metadata=COLLABORATOR)
    _has_begun: bool = False
    """Whether the present round was recorded from its begin, or has been noted as one that was
    not."""
    _round_began: int | None = None
    """Its time, while the round is timed."""
    _gave_up_at: int | None = None
    _budget: int = ENGINE_BUDGET_US
    _last_locked: int | None = None
    """When the round began or its last engine was locked: the time left is counted from it."""
    _is_done: bool = False
    _has_aborted: bool = False
    _locked: list[str] = field(default_factory=list)
    forgotten: Forgotten = field(default_factory=Forgotten)

    def step(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``engine_lock`` record."""
        step = body.get("step")
        at = f"engine locks at {ts}"
        if step in ("begin", "retry"):
            self._begin(body, ts, at)
        elif step in ("lock", "timeout", "done"):
            self._go_on(str(step), body, ts, at)
        elif step in ("unlock_all", "abort"):
            if step == "abort" or (self._has_begun and not self._is_done):
                self._gave_up_at = ts
            self._has_aborted |= step == "abort"
            self._locked, self.forgotten = [], Forgotten()
            self._round_began, self._has_begun = None, False

    def time_anew(self) -> None:
        """How long ago the round began, or gave up, is not known: it is not timed."""
        self._round_began = self._gave_up_at = None

    def _begin(self, body: Mapping[str, Any], ts: int, at: str) -> None:
        number, limit = body.get("round"), body.get("rounds_max")
        is_retry = body.get("step") == "retry" or (number or 0) > 1
        pause = None if self._gave_up_at is None else ts - self._gave_up_at
        if is_retry and self._has_aborted:
            self._report_budget(Broken("retry_after_abort", witness="retry", at=at))
        elif is_retry and pause is not None and pause < RETRY_PAUSE_US:
            broken = Broken(
                "retry_too_early",
                witness=f"{pause / 1e6:.3f} s",
                at=at,
                pause=pause,
                pause_min=RETRY_PAUSE_US,
            )
            self._report_budget(broken, pause - RETRY_PAUSE_US)
        elif number is not None and limit is not None and number > limit:
            witness = f"round {number}"
            self._report_budget(
                Broken("too_many_rounds", witness=witness, at=at, round=number, rounds_max=limit)
            )
        reset(self)
        self._round_began = self._last_locked = ts
        self._has_begun = True
        self._budget = body.get("timeout") or ENGINE_BUDGET_US

    def _go_on(self, step: str, body: Mapping[str, Any], ts: int, at: str) -> None:
        engine = body.get("engine", "the last engine")
        if step != "timeout" and self._has_aborted:
            witness = f"{step} {engine}"
            self._report_budget(
                Broken("lock_after_abort", witness=witness, at=at, step=step, engine=engine)
            )
            self._has_aborted = False
        elif not self._has_begun:
            what = "a round of engine locking"
            note_begin_unseen(self._reporter, ENGINE_LOCK_BUDGET, what=what, step=step, at=at)
        self._has_begun = True
        if self._round_began is not None:
            self._judge_time(step, engine, body.get("timeout"), ts, at)
        if step == "lock":
            self._last_locked = ts
            self._note_locked(engine.lower())
        elif step == "done":
            self._is_done = True

    def _note_locked(self, engine: str) -> None:
        if engine in self._locked:
            return
        self._locked.append(engine)
        if len(self._locked) > _ENGINES_MAX:
            self.forgotten.drop(
                self._reporter,
                LOCKED_ENGINES_STAND_STILL,
                what="locked engines",
                kept=_ENGINES_MAX,
                at=f"engine {self._locked.pop(0)}",
            )

    def _judge_time(self, step: str, engine: str, timeout: int | None, ts: int, at: str) -> None:
        assert self._round_began is not None
        spent = ts - self._round_began
        before = (self._last_locked or self._round_began) - self._round_began
        left = max(0, self._budget - before)
        if step != "timeout" and spent > self._budget:
            self._report_budget(
                Broken(
                    "lock_overtime",
                    witness=f"{spent / 1e6:.3f} s",
                    at=at,
                    engine=engine,
                    spent=spent,
                    budget=self._budget,
                ),
                spent - self._budget,
            )
            self._round_began = None
        elif timeout is not None and timeout > left + _HANDED_ON_TOLERANCE_US:
            self._report_budget(
                Broken(
                    "timeout_too_long",
                    witness=f"{timeout / 1e6:.3f} s",
                    at=at,
                    engine=engine,
                    timeout=timeout,
                    left=left,
                ),
                timeout - left - _HANDED_ON_TOLERANCE_US,
            )

    def _report_budget(self, broken: Broken, excess_us: int | None = None) -> None:
        self._reporter.broken(ENGINE_LOCK_BUDGET, broken, excess_us=excess_us)

    # Data freeze

    @property
    def freezes_binlog(self) -> bool:
        """Whether the binary log is one of the engines that are locked."""
        return BINARY_LOG in self._locked

    def binlog_grew(self, at: str) -> None:
        """An event was written to the binary log, which is locked."""
        self._report_change("locked_binlog_grew", at, "the binary log grew", BINARY_LOG)

    def statement(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``statement`` record: a change that the binary log does not show."""
        engine = body["engine"].lower()
        if engine in self._locked and engine not in TRANSACTIONAL:
            witness = f"a table of {engine} changed"
            self._report_change("locked_table_changed", f"statement at {ts}", witness, engine)

    def _report_change(self, case: str, at: str, witness: str, engine: str) -> None:
        broken = Broken(case, witness=witness, at=at, engine=engine)
        self._reporter.broken(LOCKED_ENGINES_STAND_STILL, broken)
        self._locked.remove(engine)

    def interrupted(self) -> None:
        """The server ended and its locks are gone, or records were lost."""
        reset(self)


def judge_metadata_change(
    reporter: Reporter, body: Mapping[str, Any], ts: int, holder: str | None
) -> None:
    """Judge one ``statement`` record; ``holder``: a session that has the instance lock."""
    if body["type"] != "ddl" or holder is None:
        return
    engine = body["engine"]
    reporter.broken(
        NO_METADATA_CHANGE_DURING_BACKUP,
        Broken(
            "ddl_under_instance_lock",
            witness=f"DDL, {engine}",
            at=f"statement at {ts}",
            session=holder or "unknown",
            engine=engine,
        ),
    )
