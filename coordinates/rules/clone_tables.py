"""Tier 3: do clone_status and clone_progress of a recipient show what the clone did (WL#9211)?

Rows are taken in the order of the journal, so that a row is compared with the steps before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import CLONE_STAGES
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.clone import lower_keys
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import Broken
from tallystick.coordinates.rules.protocol_steps import note_undecided
from tallystick.coordinates.rules.registry import Case, Rule, reason, register
from tallystick.coordinates.rules.statements import CLONE_PROGRESS, CLONE_STATUS
from tallystick.coordinates.state_codec import COLLABORATOR, reset
from tallystick.coordinates.values.errors import GtidSetParseError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tallystick.coordinates.audit.reporter import Reporter

RECOVERED_UNREAD = reason(
    "clone_recovered_unread",
    "the coordinates (binlog_file, binlog_position) that recovery of the clone has read are not"
    " known",
    Lack.BACKUP,
)

CLONE_STATUS_AGREES = register(
    Rule(
        number=71,
        name="clone_status_agrees",
        tier=3,
        scope="T",
        family=Family.CLONE,
        severity=Severity.ERROR,
        heals="data",
        claim=(
            "clone_status and clone_progress agree with each other and with the clone that the"
            " journal reports: Completed or Failed as it ended, an error number where it failed"
            " and nowhere else, no stage in front of one that is not completed, and the"
            " coordinates that recovery read from the TRX_SYS page and the GTID table."
        ),
        why=(
            "The state is all that an administrator looks at before replication starts from the"
            " coordinates beside it. A clone that failed has dropped the recipient's data and has"
            " no coordinates; recovery alone knows those of a clone that completed."
        ),
        undecided_when=(
            "clone_status was not read, its columns are not readable, the end of the clone was not"
            " observed, or not what recovery has read, or the clone ended while the row was read"
        ),
        sources=(
            "WL#9211, US-1 step-3, F-1.2 and Clone PHY binary log position",
            "MySQL manual: The clone_status Table; The clone_progress Table",
        ),
        remedy=(
            "Look into the recipient's error log for how the clone ended. Do not start replication"
            " from the coordinates; clone again if the clone failed."
        ),
        verify=(CLONE_STATUS, CLONE_PROGRESS),
        cases={
            "completed_with_error": Case(
                "STATE is Completed and ERROR_NO {error} ({message}).",
                "Completed, error {error}",
                "clone_status and clone_progress",
                "Completed, error 0",
                "the clone's steps in the journal, and WL#9211",
            ),
            "failed_without_error": Case(
                "STATE is Failed and ERROR_NO 0.",
                "Failed, error 0",
                "clone_status and clone_progress",
                "Failed and the number of the error",
                "the clone's steps in the journal, and WL#9211",
            ),
            "stage_before_its_turn": Case(
                "Stage {stage} is {state} while {first}, which comes first, is {first_state}.",
                "{first} {first_state}, {stage} {state}",
                "clone_status and clone_progress",
                "{first} completed, or {stage} not started",
                "the clone's steps in the journal, and WL#9211",
            ),
            "completed_with_open_stage": Case(
                "STATE is Completed while stage {stage} is {state}.",
                "Completed, {stage} {state}",
                "clone_status and clone_progress",
                "every stage of the copy completed",
                "the clone's steps in the journal, and WL#9211",
            ),
            "state_differs": Case(
                "STATE is {state}, but the clone has {outcome}.",
                "{state}",
                "clone_status and clone_progress",
                "{outcome}",
                "the clone's steps in the journal, and WL#9211",
            ),
            "error_differs": Case(
                "ERROR_NO is {error}, but the clone failed with {expected}.",
                "error {error}",
                "clone_status and clone_progress",
                "error {expected}",
                "the clone's steps in the journal, and WL#9211",
            ),
            "clone_coordinates_differ": Case(
                (
                    "BINLOG_FILE and BINLOG_POSITION are {coordinates}, but recovery read"
                    " {recovered} from the TRX_SYS page."
                ),
                "{coordinates}",
                "clone_status and clone_progress",
                "{recovered}",
                "the clone's steps in the journal, and WL#9211",
            ),
            "clone_gtids_differ": Case(
                "GTID_EXECUTED is not the set that recovery found in the table and undo logs.",
                "{more:gtids} more, {less:gtids} less",
                "clone_status and clone_progress",
                "{recovered:gtids}",
                "the clone's steps in the journal, and WL#9211",
            ),
        },
    )
)

_STATES = frozenset({"not started", "in progress", "completed", "failed"})
_COPIED = CLONE_STAGES[: CLONE_STAGES.index("RESTART")]
"""Stages of every clone; one into another directory has no RESTART and no RECOVERY."""


@dataclass(eq=False)
class CloneTables:
    """The last clone of an instance: its steps, and what its two tables show."""

    _reporter: Reporter = field(metadata=COLLABORATOR)
    _outcome: str | None = None
    """``running``, ``completed`` or ``failed``; None: not known."""
    _outcome_ts: int = -1
    _error: int | None = None
    _stage: str = ""
    _recovered: tuple[str | None, int | None, str] | None = None
    """Binary log file, position and GTID set that recovery read."""

    def step(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``clone`` record."""
        if body.get("role") != "recipient":
            return
        step, error = body["step"], body.get("error")
        if step == "begin":
            self.forget()
            self._outcome, self._outcome_ts = "running", ts
        elif step == "stage":
            self._stage = body.get("stage", "")
        elif step == "recovered":
            file, position = body.get("binlog_file"), body.get("binlog_position")
            self._recovered = (file, position, body["gtid_executed"])
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
        values = lower_keys(status)
        state = str(values.get("state", "")).lower()
        at = f"clone_status in collection {body.get('collection_id')}"
        if state not in _STATES:
            return
        self._judge_row(values, state, at)
        progress = body.get("clone_progress")
        if isinstance(progress, list):
            self._judge_progress(state, progress, at)
        asked = body["asked_at"]
        if self._outcome_ts < (asked if isinstance(asked, int) else ts):
            self._judge_against_steps(values, state, at)

    def _judge_row(self, values: Mapping[str, Any], state: str, at: str) -> None:
        error, message = values.get("error_no"), values.get("error_message") or "no ERROR_MESSAGE"
        if state == "completed" and isinstance(error, int) and error:
            witness = f"Completed, error {error}"
            self._disagree("completed_with_error", at, witness, error=error, message=message)
        if state == "failed" and error == 0:
            self._disagree("failed_without_error", at, "Failed, error 0")

    def _judge_progress(self, state: str, rows: Iterable[Any], at: str) -> None:
        states: dict[str, str] = {}
        for row in rows:
            if not isinstance(row, dict):
                return
            values = {str(key).lower(): str(value) for key, value in row.items()}
            states[values.get("stage", "").upper()] = values.get("state", "").lower()
        if not _STATES.issuperset(states.values()):
            return
        listed = [(stage, states[stage]) for stage in CLONE_STAGES if stage in states]
        for (before, earlier), (stage, later) in pairwise(listed):
            if earlier != "completed" and later != "not started":
                self._disagree(
                    "stage_before_its_turn",
                    at,
                    f"{before} {earlier}, {stage} {later}",
                    stage=stage,
                    state=later,
                    first=before,
                    first_state=earlier,
                )
                return
        open_stage = next((s for s, was in listed if was != "completed" and s in _COPIED), None)
        if state == "completed" and open_stage is not None:
            state = states[open_stage]
            witness = f"Completed, {open_stage} {state}"
            self._disagree("completed_with_open_stage", at, witness, stage=open_stage, state=state)

    def _judge_against_steps(self, values: Mapping[str, Any], state: str, at: str) -> None:
        if self._outcome not in ("completed", "failed"):
            return
        if state != self._outcome:
            witness = str(values["state"])
            self._disagree("state_differs", at, witness, state=witness, outcome=self._outcome)
            return
        error = values.get("error_no")
        has_both = self._error is not None and isinstance(error, int)
        if state == "failed" and has_both and error != self._error:
            self._disagree("error_differs", at, f"error {error}", error=error, expected=self._error)
        if state == "completed":
            self._judge_coordinates(values, at)

    def _judge_coordinates(self, values: Mapping[str, Any], at: str) -> None:
        file, position = values.get("binlog_file"), values.get("binlog_position")
        if self._recovered is None or not isinstance(position, int):
            return
        read_file, read_position, read_gtids = self._recovered
        if read_file is None or read_position is None:
            self._recovered = None
            note_undecided(self._reporter, [CLONE_STATUS_AGREES], RECOVERED_UNREAD, at)
        elif (file, position) != (read_file, read_position):
            self._disagree(
                "clone_coordinates_differ",
                at,
                f"{file}:{position}",
                coordinates=f"{file}:{position}",
                recovered=f"{read_file}:{read_position}",
            )
        try:
            shown = GtidSet.parse(str(values.get("gtid_executed", "")))
            read = GtidSet.parse(read_gtids)
        except GtidSetParseError:
            return
        if values.get("gtid_executed") is not None and shown != read:
            more, less = shown - read, read - shown
            self._disagree(
                "clone_gtids_differ",
                at,
                f"{more} more, {less} less",
                more=more,
                less=less,
                recovered=read,
            )

    def _disagree(self, case: str, at: str, witness: str, **values: object) -> None:
        broken = Broken(case, witness=witness, at=at, **values)
        self._reporter.broken(CLONE_STATUS_AGREES, broken)

    def forget(self) -> None:
        """What the last clone came to is not known."""
        reset(self)
