"""Judging the clones of one instance (invariant 62, WL#9211)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinates.invariants.clone import CLONE_PROTOCOL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinates.invariants._registry import Invariant
    from coordinates.reporter import Reporter

STAGES = (
    "DROP DATA",
    "FILE COPY",
    "PAGE COPY",
    "REDO COPY",
    "FILE SYNC",
    "RESTART",
    "RECOVERY",
)
DONOR_BLOCKED_US_MAX = 1_000_000


class CloneProtocol:
    """Stages of a clone as donor or recipient."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._stage: int | None = None
        self._blocked_at: int | None = None

    def clone(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``clone`` record."""
        step = body.get("step")
        at = f"clone {step} at {ts}"
        if step == "begin":
            self._stage = -1
            self._blocked_at = None
        if step in ("begin", "version"):
            donor, recipient = body.get("donor_version"), body.get("recipient_version")
            failed = body.get("error") is not None
            if donor and recipient and donor != recipient and not failed and step == "version":
                self._report(
                    CLONE_PROTOCOL,
                    at,
                    f"A clone of version {donor} went on to a recipient of version {recipient}.",
                    f"donor {donor}, recipient {recipient}",
                    "ER_CLONE_DONOR_VERSION (3864)",
                )
        elif step == "stage":
            self._enter_stage(str(body.get("stage", "")).upper(), at)
        elif step == "donor_blocked":
            self._blocked_at = ts
        elif step == "donor_released" and self._blocked_at is not None:
            spent = ts - self._blocked_at
            self._blocked_at = None
            if spent >= DONOR_BLOCKED_US_MAX:
                self._report(
                    CLONE_PROTOCOL,
                    at,
                    f"The clone blocked the donor's commits for {spent / 1e6:.2f} s.",
                    f"{spent} µs",
                    f"less than {DONOR_BLOCKED_US_MAX} µs",
                )
        elif step == "end":
            self._stage = None

    def _enter_stage(self, name: str, at: str) -> None:
        if self._stage is None or name not in STAGES:
            return
        place = STAGES.index(name)
        if place < self._stage:
            self._report(
                CLONE_PROTOCOL,
                at,
                f"The clone entered stage {name} after {STAGES[self._stage]}.",
                name,
                "stages in the order of clone_progress",
            )
        self._stage = place

    def _report(
        self, rule: Invariant, at: str, sentence: str, observed: str, expected: str
    ) -> None:
        self._reporter.broken(
            rule,
            at=at,
            sentence=sentence,
            observed=observed,
            observed_in="journal",
            expected=expected,
            expected_in="WL#9211",
            witness=observed,
        )

    def interrupted(self, *, records_lost: bool) -> None:
        """A restart ends a donor's clone; lost records may hide a stage."""
        self._blocked_at = None
        if records_lost:
            self._stage = None

    def dump(self) -> dict[str, Any]:
        """For the state bytes."""
        return {"stage": self._stage, "blocked_at": self._blocked_at}

    def load(self, document: Mapping[str, Any]) -> None:
        """Inverse of ``dump``."""
        self._stage = document["stage"]
        self._blocked_at = document["blocked_at"]
