"""Judging how a backup locks the engines (invariants 57 and 80: WL#3576, mail of 2006-10-30)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.rules.judging.step_judge import StepJudge
from tallystick.coordinates.rules.online_backup import (
    ENGINE_LOCK_BUDGET,
    LOCKED_ENGINES_STAND_STILL,
)
from tallystick.coordinates.state_codec import reset

if TYPE_CHECKING:
    from collections.abc import Mapping


ENGINE_BUDGET_US = 2_000_000
RETRY_PAUSE_US = 10_000_000
_HANDED_ON_TOLERANCE_US = 50_000
"""What an observer's clock may lie behind the server's between two steps."""
BINARY_LOG = "binlog"
_TRANSACTIONAL = frozenset({"innodb", "rocksdb"})
"""Engines in which a statement changes nothing that others see before it commits."""
_ENGINES_MAX = 64


@dataclass(eq=False)
class EngineLockProtocol(StepJudge):
    """The rounds in which a backup locks the engines of one instance."""

    _round_began: int | None = None
    _gave_up_at: int | None = None
    _budget: int = ENGINE_BUDGET_US
    _last_locked: int | None = None
    """When the round began or its last engine was locked: the time left is counted from it."""
    _is_done: bool = False
    _has_aborted: bool = False
    _locked: list[str] = field(default_factory=list)

    def step(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``engine_lock`` record."""
        step = body.get("step")
        at = f"engine locks at {ts}"
        if step in ("begin", "retry"):
            self._begin(body, ts, at)
        elif step in ("lock", "timeout", "done"):
            self._lock(str(step), body, ts, at)
        elif step in ("unlock_all", "abort"):
            self._locked = []
            self._round_began = None
            if step == "abort":
                self._has_aborted = True
                self._gave_up_at = ts
            elif not self._is_done:
                self._gave_up_at = ts

    def _begin(self, body: Mapping[str, Any], ts: int, at: str) -> None:
        number, limit = body.get("round"), body.get("rounds_max")
        is_retry = body.get("step") == "retry" or (number or 0) > 1
        pause = None if self._gave_up_at is None else ts - self._gave_up_at
        if is_retry and self._has_aborted:
            self._report_budget(
                at,
                "Engine locking was retried after the backup had bailed out.",
                "retry",
                "no step after abort",
            )
        elif is_retry and pause is not None and pause < RETRY_PAUSE_US:
            self._report_budget(
                at,
                f"Engine locking was retried {pause / 1e6:.1f} s after it gave up.",
                f"{pause} µs",
                f"at least {RETRY_PAUSE_US} µs",
            )
        elif number is not None and limit is not None and number > limit:
            self._report_budget(
                at,
                f"Round {number} of engine locking began, though the backup bails out after "
                f"{limit}.",
                f"round {number}",
                f"abort after round {limit}",
            )
        reset(self)
        self._round_began = self._last_locked = ts
        self._budget = body.get("timeout") or ENGINE_BUDGET_US

    def _lock(self, step: str, body: Mapping[str, Any], ts: int, at: str) -> None:
        engine = str(body.get("engine", "the last engine"))
        if step != "timeout" and self._has_aborted:
            self._report_budget(
                at,
                f"Engine locking went on with {engine} after the backup had bailed out.",
                f"{step} {engine}",
                "no step after abort",
            )
            self._has_aborted = False
        if self._round_began is not None:
            self._judge_time(step, engine, body.get("timeout"), ts, at)
        if step == "lock":
            self._last_locked = ts
            self._locked = [*self._locked, engine.lower()][-_ENGINES_MAX:]
        elif step == "done":
            self._is_done = True

    def _judge_time(self, step: str, engine: str, timeout: int | None, ts: int, at: str) -> None:
        assert self._round_began is not None
        spent = ts - self._round_began
        before = (self._last_locked or self._round_began) - self._round_began
        left = max(0, self._budget - before)
        if step != "timeout" and spent > self._budget:
            self._report_budget(
                at,
                f"Engine locking went on with {engine} after {spent / 1e6:.1f} s.",
                f"{spent} µs",
                f"at most {self._budget} µs for all engines",
            )
            self._round_began = None
        elif timeout is not None and timeout > left + _HANDED_ON_TOLERANCE_US:
            self._report_budget(
                at,
                f"{engine} was given {timeout / 1e6:.3f} s when {left / 1e6:.3f} s were left for "
                "all engines.",
                f"{timeout} µs",
                f"at most {left} µs",
            )

    def _report_budget(self, at: str, sentence: str, observed: str, expected: str) -> None:
        self.report(ENGINE_LOCK_BUDGET, at, sentence, observed, expected, "WL#3576, engine locking")

    # Data freeze

    @property
    def freezes_binlog(self) -> bool:
        """Whether the binary log is one of the engines that are locked."""
        return BINARY_LOG in self._locked

    def binlog_grew(self, at: str) -> None:
        """An event was written to the binary log."""
        if self.freezes_binlog:
            self._report_change(at, "the binary log grew", BINARY_LOG)

    def statement(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``statement`` record: a change that the binary log does not show."""
        engine = str(body.get("engine", "")).lower()
        if engine in self._locked and engine not in _TRANSACTIONAL:
            self._report_change(f"statement at {ts}", f"a table of {engine} changed", engine)

    def _report_change(self, at: str, what: str, engine: str) -> None:
        self.report(
            LOCKED_ENGINES_STAND_STILL,
            at,
            f"While a backup had locked {engine}, {what}.",
            what,
            "nothing until all engines are unlocked",
            f"lock of {engine}",
        )
        self._locked.remove(engine)

    def interrupted(self) -> None:
        """The server ended and its locks are gone, or records were lost."""
        reset(self)
