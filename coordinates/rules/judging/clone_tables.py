"""Judging clone_status and clone_progress of a recipient (invariant 71, WL#9211).

Rows are taken in the order of the journal, so that a row is held against the steps in front of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.rules.clone import CLONE_STATUS_AGREES
from tallystick.coordinates.rules.judging.clone_protocol import STAGES
from tallystick.coordinates.rules.judging.step_judge import StepJudge
from tallystick.coordinates.state_codec import reset
from tallystick.coordinates.values.errors import GtidSetParseError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_TABLES = "clone_status and clone_progress"
_STATES = frozenset({"not started", "in progress", "completed", "failed"})
_COPIED = STAGES[: STAGES.index("RESTART")]
"""Stages of every clone; one into another directory has no RESTART and no RECOVERY."""


@dataclass(eq=False)
class CloneTables(StepJudge):
    """The last clone of an instance as its steps tell, and as its two tables do."""

    _outcome: str | None = None
    """``running``, ``completed`` or ``failed``; None: not known."""
    _outcome_ts: int = -1
    _error: int | None = None
    _stage: str = ""
    _recovered: tuple[str, int, str] | None = None
    """Binary log file, position and GTID set that recovery read."""

    def step(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``clone`` record."""
        if body.get("role") != "recipient":
            return
        step, error = body.get("step"), body.get("error")
        if step == "begin":
            self.forget()
            self._outcome, self._outcome_ts = "running", ts
        elif step == "stage":
            self._stage = str(body.get("stage", "")).upper()
        elif step == "recovered":
            values = tuple(
                body.get(name) for name in ("binlog_file", "binlog_position", "gtid_executed")
            )
            file, position, gtids = values
            if isinstance(file, str) and isinstance(position, int) and isinstance(gtids, str):
                self._recovered = (file, position, gtids)
        elif step == "end" and self._outcome == "running":
            self._outcome = "completed" if error is None else "failed"
            self._outcome_ts = ts
            self._error = error if isinstance(error, int) else None

    def started(self, data_lineage: str | None, ts: int) -> None:
        """The server has started: a clone that was still copying has failed."""
        if data_lineage == "restored":
            self.forget()
        elif data_lineage is None and self._outcome == "running":
            is_copying = self._stage in _COPIED
            self._outcome = "failed" if is_copying else None
            self._outcome_ts = ts

    def row(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``log_status`` record."""
        status = body.get("clone_status")
        if not isinstance(status, dict):
            return
        values = {str(key).lower(): value for key, value in status.items()}
        state = str(values.get("state", "")).lower()
        at = f"clone_status in collection {body.get('collection_id')}"
        if state not in _STATES:
            return
        self._judge_row(values, state, at)
        progress = body.get("clone_progress")
        if isinstance(progress, list):
            self._judge_progress(state, progress, at)
        asked = body.get("requested_at")
        if self._outcome_ts < (asked if isinstance(asked, int) else ts):
            self._judge_against_steps(values, state, at)

    def _judge_row(self, values: Mapping[str, Any], state: str, at: str) -> None:
        error, message = values.get("error_no"), values.get("error_message")
        if state == "completed" and isinstance(error, int) and error:
            self._disagree(at, f"STATE is Completed and ERROR_NO {error} ({message}).",
                           f"Completed, error {error}", "Completed, error 0")  # fmt: skip
        if state == "failed" and error == 0:
            self._disagree(at, "STATE is Failed and ERROR_NO 0.", "Failed, error 0",
                           "Failed and the number of the error")  # fmt: skip

    def _judge_progress(self, state: str, rows: Iterable[Any], at: str) -> None:
        states: dict[str, str] = {}
        for row in rows:
            if not isinstance(row, dict):
                return
            values = {str(key).lower(): str(value) for key, value in row.items()}
            states[values.get("stage", "").upper()] = values.get("state", "").lower()
        if not _STATES.issuperset(states.values()):
            return
        listed = [(stage, states[stage]) for stage in STAGES if stage in states]
        for (before, earlier), (stage, later) in pairwise(listed):
            if earlier != "completed" and later != "not started":
                self._disagree(
                    at,
                    f"Stage {stage} is {later} while {before}, which comes first, is {earlier}.",
                    f"{before} {earlier}, {stage} {later}",
                    f"{before} completed, or {stage} not started",
                )
                return
        open_stage = next((s for s, was in listed if was != "completed" and s in _COPIED), None)
        if state == "completed" and open_stage is not None:
            self._disagree(
                at,
                f"STATE is Completed while stage {open_stage} is {states[open_stage]}.",
                f"Completed, {open_stage} {states[open_stage]}",
                "every stage of the copy completed",
            )

    def _judge_against_steps(self, values: Mapping[str, Any], state: str, at: str) -> None:
        if self._outcome not in ("completed", "failed"):
            return
        if state != self._outcome:
            self._disagree(
                at,
                f"STATE is {values['state']}, but the clone has {self._outcome}.",
                str(values["state"]),
                self._outcome,
            )
            return
        error = values.get("error_no")
        is_told = self._error is not None and isinstance(error, int)
        if state == "failed" and is_told and error != self._error:
            self._disagree(
                at,
                f"ERROR_NO is {error}, but the clone failed with {self._error}.",
                f"error {error}",
                f"error {self._error}",
            )
        if state == "completed":
            self._judge_coordinates(values, at)

    def _judge_coordinates(self, values: Mapping[str, Any], at: str) -> None:
        file, position = values.get("binlog_file"), values.get("binlog_position")
        if self._recovered is None or not isinstance(position, int):
            return
        read_file, read_position, read_gtids = self._recovered
        if (file, position) != (read_file, read_position):
            self._disagree(
                at,
                f"BINLOG_FILE and BINLOG_POSITION are {file}:{position}, but recovery read"
                f" {read_file}:{read_position} from the TRX_SYS page.",
                f"{file}:{position}",
                f"{read_file}:{read_position}",
            )
        try:
            told = GtidSet.parse(str(values.get("gtid_executed", "")))
            read = GtidSet.parse(read_gtids)
        except GtidSetParseError:
            return
        if values.get("gtid_executed") is not None and told != read:
            self._disagree(
                at,
                "GTID_EXECUTED is not the set that recovery found in the table and undo logs.",
                f"{told - read} more, {read - told} less",
                str(read),
            )

    def _disagree(self, at: str, sentence: str, observed: str, expected: str) -> None:
        self._reporter.prose(
            CLONE_STATUS_AGREES,
            at=at,
            sentence=sentence,
            observed=observed,
            observed_in=_TABLES,
            expected=expected,
            expected_in="the clone's steps in the journal, and WL#9211",
            witness=observed,
        )

    def forget(self) -> None:
        """What the last clone came to is not known."""
        reset(self)
