"""Judging how a backup locks the engines (invariant 57: WL#3576, mail of 2006-10-30)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinates.invariants.online_backup import ENGINE_LOCK_BUDGET
from coordinates.judging.step_judge import StepJudge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinates.reporter import Reporter


ENGINE_BUDGET_US = 2_000_000
RETRY_PAUSE_US = 10_000_000


class EngineLockProtocol(StepJudge):
    """The rounds in which a backup locks the engines of one instance."""

    def __init__(self, reporter: Reporter) -> None:
        super().__init__(reporter)
        self._round_began: int | None = None
        self._gave_up_at: int | None = None
        self._is_done = False

    def step(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``engine_lock`` record."""
        step = body.get("step")
        at = f"engine locks at {ts}"
        if step in ("begin", "retry"):
            is_retry = step == "retry" or (body.get("round") or 0) > 1
            if is_retry and self._gave_up_at is not None and ts - self._gave_up_at < RETRY_PAUSE_US:
                pause = ts - self._gave_up_at
                self._report_engines(
                    at,
                    f"Engine locking was retried {pause / 1e6:.1f} s after it gave up.",
                    f"{pause} µs",
                    f"at least {RETRY_PAUSE_US} µs",
                )
            self._gave_up_at = None
            self._round_began = ts
        if step in ("lock", "done") and self._round_began is not None:
            spent = ts - self._round_began
            if spent > ENGINE_BUDGET_US:
                engine = body.get("engine", "the last engine")
                self._report_engines(
                    at,
                    f"Engine locking went on with {engine} after {spent / 1e6:.1f} s.",
                    f"{spent} µs",
                    f"at most {ENGINE_BUDGET_US} µs for all engines",
                )
                self._round_began = None
        if step == "done":
            self._is_done = True
        elif step in ("unlock_all", "abort"):
            self._gave_up_at = None if self._is_done else ts
            self._round_began = None
            self._is_done = False

    def _report_engines(self, at: str, sentence: str, observed: str, expected: str) -> None:
        self.report(ENGINE_LOCK_BUDGET, at, sentence, observed, expected, "WL#3576, engine locking")

    def interrupted(self) -> None:
        """The server ended and its locks are gone, or records were lost."""
        self._round_began = None
        self._gave_up_at = None
        self._is_done = False

    def dump(self) -> dict[str, Any]:
        """For the state bytes."""
        return {
            "round_began": self._round_began,
            "gave_up_at": self._gave_up_at,
            "engines_done": self._is_done,
        }

    def load(self, document: Mapping[str, Any]) -> None:
        """Inverse of ``dump``."""
        self._round_began = document["round_began"]
        self._gave_up_at = document["gave_up_at"]
        self._is_done = document.get("engines_done", False)
