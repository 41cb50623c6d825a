"""performance_schema.clone_status and clone_progress of a recipient (WL#9211, User Interface).

A server has at most one row of clone_status, that of its last clone, and one row of clone_progress
for each stage of it. Both are files of the data directory, so a restart reads them back; a clone
that was cut off by a crash is found as Failed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any

STAGES = ("DROP DATA", "FILE COPY", "PAGE COPY", "REDO COPY", "FILE SYNC", "RESTART", "RECOVERY")
"""In the order of clone_progress."""

ER_QUERY_INTERRUPTED = 1317
ER_CLONE_DONOR = 3862
ER_CLONE_PROTOCOL = 3863
ER_CLONE_DONOR_VERSION = 3864
ER_CLONE_IN_PROGRESS = 3874
ER_CLONE_DISALLOWED = 3875

DESTINATION = "LOCAL INSTANCE"
"""What a clone replaces that names no directory: the recipient's own data."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class State(str, Enum):
    """Column STATE of both tables."""

    NOT_STARTED = "Not Started"
    IN_PROGRESS = "In Progress"
    COMPLETED = "Completed"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class CloneError:
    """Why a clone failed or was refused."""

    number: int
    message: str


@dataclass(slots=True)
class Stage:
    """One row of clone_progress; times in microseconds, 0 for none."""

    state: State = State.NOT_STARTED
    begin_ts: int = 0
    end_ts: int = 0


@dataclass(slots=True)
class CloneStatus:
    """The last clone of a recipient, as both tables show it; times in microseconds, 0 for none."""

    source: str
    pid: int
    begin_ts: int
    end_ts: int = 0
    state: State = State.NOT_STARTED
    error: CloneError = CloneError(0, "")
    binlog_file: str = ""
    binlog_position: int = 0
    gtid_executed: str = ""
    stages: dict[str, Stage] = field(default_factory=lambda: {name: Stage() for name in STAGES})

    def enter(self, name: str, ts: int) -> None:
        """A stage begins, and with it the one before has been completed."""
        self.state = State.IN_PROGRESS
        self._leave(ts, State.COMPLETED)
        stage = self.stages[name]
        stage.state, stage.begin_ts = State.IN_PROGRESS, stage.begin_ts or ts

    def complete(self, ts: int) -> None:
        """The recovery of the cloned data has ended."""
        self._leave(ts, State.COMPLETED)
        self.state, self.end_ts, self.pid = State.COMPLETED, ts, 0

    def fail(self, ts: int, error: CloneError) -> None:
        """The clone ends with an error; it has no coordinates."""
        self._leave(ts, State.FAILED)
        self.state, self.end_ts, self.pid, self.error = State.FAILED, ts, 0, error

    def _leave(self, ts: int, state: State) -> None:
        for stage in self.stages.values():
            if stage.state is State.IN_PROGRESS:
                stage.state, stage.end_ts = state, ts

    def row(self) -> dict[str, Any]:
        """The row of clone_status."""
        return {
            "ID": 1,
            "PID": self.pid,
            "STATE": self.state.value,
            "BEGIN_TIME": _timestamp(self.begin_ts),
            "END_TIME": _timestamp(self.end_ts),
            "SOURCE": self.source,
            "DESTINATION": DESTINATION,
            "ERROR_NO": self.error.number,
            "ERROR_MESSAGE": self.error.message,
            "BINLOG_FILE": self.binlog_file,
            "BINLOG_POSITION": self.binlog_position,
            "GTID_EXECUTED": self.gtid_executed,
        }

    def progress(self) -> list[dict[str, Any]]:
        """The rows of clone_progress."""
        return [
            {
                "ID": 1,
                "STAGE": name,
                "STATE": stage.state.value,
                "BEGIN_TIME": _timestamp(stage.begin_ts),
                "END_TIME": _timestamp(stage.end_ts),
            }
            for name, stage in self.stages.items()
        ]


def _timestamp(ts: int) -> str | None:
    """TIMESTAMP(3) as a server prints it in UTC; NULL for none."""
    if not ts:
        return None
    moment = _EPOCH + timedelta(microseconds=ts)
    return moment.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
