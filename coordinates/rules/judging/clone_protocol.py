"""Judging the steps of clones on one instance (invariants 62, 72, 73 and 74, WL#9211)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import QueryVerb
from tallystick.coordinates.rules.clone import (
    CLONE_BLOCKS_XA,
    CLONE_COMMITS_ORDERED,
    CLONE_PROTOCOL,
    FAILED_CLONE_NOT_RESUMED,
)
from tallystick.coordinates.rules.judging.step_judge import StepJudge
from tallystick.coordinates.values.binlog import EventType, parse_log_file_name
from tallystick.coordinates.values.errors import CoordinateError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.events.journal import Block

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
_DOCUMENT = "WL#9211"
_XA_VERBS = {
    QueryVerb.XA_COMMIT: "XA COMMIT",
    QueryVerb.XA_ROLLBACK: "XA ROLLBACK",
}
_STARTS = frozenset({"start_receiver", "start_applier"})
OWN_DATA = "LOCAL INSTANCE"
"""Column DESTINATION of a clone that replaces the recipient's data; else it names a directory."""


@dataclass(eq=False)
class CloneProtocol(StepJudge):
    """A clone as its donor or its recipient plays it.

    Attributes:
        blocks_xa: Whether the donor holds external XA back at the end of a clone.
    """

    _stage: int | None = None
    _blocked_at: int | None = None
    blocks_xa: bool = False
    _is_ordered: bool = False
    _page: tuple[str, int, int] | None = None
    """Base name, file number and position of the last commit while the order is forced."""
    _replaces_data: bool = False
    """Whether the clone is known to replace the recipient's own data."""
    _data_dropped: bool = False
    """Whether a clone has dropped data, and none has completed since."""
    _is_failed: bool = False

    def clone(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``clone`` record."""
        step = body.get("step")
        at = f"clone {step} at {ts}"
        if body.get("role") == "donor":
            self._donor_stepped(body, at, ts)
        elif body.get("role") == "recipient":
            self._recipient_stepped(body)
        if step == "begin":
            self._stage = -1
            self._blocked_at = None
        if step in ("begin", "version"):
            donor, recipient = body.get("donor_version"), body.get("recipient_version")
            failed = body.get("error") is not None
            if donor and recipient and donor != recipient and not failed and step == "version":
                self.report(
                    CLONE_PROTOCOL,
                    at,
                    f"A clone of version {donor} went on to a recipient of version {recipient}.",
                    f"donor {donor}, recipient {recipient}",
                    "ER_CLONE_DONOR_VERSION (3864)",
                    _DOCUMENT,
                )
        elif step == "stage":
            self._enter_stage(str(body.get("stage", "")).upper(), at)
        elif step == "donor_blocked":
            self._blocked_at = ts
        elif step == "donor_released" and self._blocked_at is not None:
            spent = ts - self._blocked_at
            self._blocked_at = None
            if spent >= DONOR_BLOCKED_US_MAX:
                self.report(
                    CLONE_PROTOCOL,
                    at,
                    f"The clone blocked the donor's commits for {spent / 1e6:.2f} s.",
                    f"{spent} µs",
                    f"less than {DONOR_BLOCKED_US_MAX} µs",
                    _DOCUMENT,
                )
        elif step == "end":
            self._stage = None

    def _enter_stage(self, name: str, at: str) -> None:
        if self._stage is None or name not in STAGES:
            return
        place = STAGES.index(name)
        if place < self._stage:
            self.report(
                CLONE_PROTOCOL,
                at,
                f"The clone entered stage {name} after {STAGES[self._stage]}.",
                name,
                "stages in the order of clone_progress",
                _DOCUMENT,
            )
        self._stage = place

    # The donor

    def _donor_stepped(self, body: Mapping[str, Any], at: str, ts: int) -> None:
        step = body.get("step")
        if step in ("prepared_awaited", "begin", "end", "order_released"):
            # Groups that were prepared before the order was forced may still pass each other.
            self._is_ordered = step == "prepared_awaited"
            self._page = None
        if step in ("commit", "position_read") and self._is_ordered:
            self._page_written(body, at)
        if step == "donor_blocked":
            self.blocks_xa = body.get("blocks") == "xa"
        elif step in ("begin", "donor_released", "end"):
            self.blocks_xa = False

    def _page_written(self, body: Mapping[str, Any], at: str) -> None:
        position = body.get("binlog_position")
        try:
            base_name, number = parse_log_file_name(str(body.get("binlog_file", "")))
        except CoordinateError:
            return
        if not isinstance(position, int):
            return
        before, now = self._page, (base_name, number, position)
        if before is not None and before[0] == base_name and now < before:
            self.report(
                CLONE_COMMITS_ORDERED,
                at,
                f"While the clone forced the commit order, the TRX_SYS page fell from"
                f" file {before[1]}, position {before[2]} to file {number}, position {position}.",
                f"{body['binlog_file']}:{position}",
                f"not before file {before[1]}, position {before[2]}",
                _DOCUMENT,
            )
        self._page = now

    def logged(self, block: Block, index: int) -> None:
        """Take a binary log event of a donor that blocks external XA."""
        columns = block.columns
        verb = int(columns["query"][index])
        if int(columns["type"][index]) == EventType.XA_PREPARE:
            what = "XA PREPARE"
        elif verb in _XA_VERBS:
            what = _XA_VERBS[QueryVerb(verb)]
        else:
            return
        file = int(columns["file"][index])
        at = f"{block.files[file] if file >= 0 else ''}:{int(columns['start'][index])}"
        self.report(
            CLONE_BLOCKS_XA,
            at,
            f"{what} was logged at {at} while the end of a clone blocked external XA.",
            f"{what} at {at}",
            "no external XA statement before donor_released",
            _DOCUMENT,
        )

    # The recipient

    def _recipient_stepped(self, body: Mapping[str, Any]) -> None:
        step = body.get("step")
        if step == "begin":
            self._is_failed = False
            self._replaces_data = body.get("destination") == OWN_DATA
        elif step == "stage":
            stage = str(body.get("stage", "")).upper()
            if stage in STAGES[: STAGES.index("RESTART")]:
                self._data_dropped = self._replaces_data
        elif step == "recovered" or (step == "end" and body.get("error") is None):
            self._data_dropped = False
        elif step == "end":
            self._is_failed = True

    def channel_administered(self, channel: str, action: str, ts: int) -> None:
        """Take one ``channel`` record."""
        if action not in _STARTS or not (self._is_failed and self._data_dropped):
            return
        self.report(
            FAILED_CLONE_NOT_RESUMED,
            f"{action} of channel {channel!r} at {ts}",
            f"{action} of channel {channel!r}: a clone that failed has dropped the data here, and"
            " none has completed since.",
            f"{action} at {ts}",
            "a clone that completes, or restored data",
            _DOCUMENT,
        )

    def started(self, data_lineage: str | None) -> None:
        """The server has started: with it a clone of its own data has ended or completed."""
        if data_lineage is not None:
            self._data_dropped = self._is_failed = False
        elif (
            self._data_dropped and self._stage is not None and self._stage < STAGES.index("RESTART")
        ):
            self._is_failed = True

    def interrupted(self, *, records_lost: bool) -> None:
        """A restart ends a donor's clone; lost records may hide a stage."""
        self._blocked_at = None
        self.blocks_xa = self._is_ordered = False
        self._page = None
        if records_lost:
            self._stage = None
            self._data_dropped = self._is_failed = self._replaces_data = False
