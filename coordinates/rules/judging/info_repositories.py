"""Judging what a start reads from the replication info repositories (invariants 37 and 82)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.rules.judging.step_judge import StepJudge
from tallystick.coordinates.rules.replication_info import (
    INFO_REPOSITORY_READ_BACK,
    INFO_REPOSITORY_UNAMBIGUOUS,
)
from tallystick.coordinates.values.binlog import LogCoordinates
from tallystick.coordinates.values.errors import CoordinateError

if TYPE_CHECKING:
    from collections.abc import Mapping


_COLUMNS = {
    "slave_master_info": ("Master_log_name", "Master_log_pos"),
    "slave_relay_log_info": (
        "Relay_log_name",
        "Relay_log_pos",
        "Master_log_name",
        "Master_log_pos",
    ),
}
_WRITES_MAX = 256
_FORGETTING = frozenset({"reset", "reset_all"})

Values = list[Any]
"""The coordinates of one write, in the order of ``_COLUMNS``."""


@dataclass(eq=False)
class InfoRepositories(StepJudge):
    """What was written to each repository since the last write that nothing can take back."""

    _writes: dict[tuple[str, str], list[Values]] = field(default_factory=dict)
    """The last durable write of (table, channel), then those a power cut may take back."""

    def written(self, body: Mapping[str, Any]) -> None:
        """Take one ``info_write`` record."""
        key = str(body.get("table")), str(body.get("channel", "")).lower()
        values = _values(key[0], body.get("row"))
        if values is None:
            self._writes.pop(key, None)
            return
        writes = self._writes.get(key)
        if body.get("durable", True) or writes is None:
            # What a file held before the first write seen is not known, if that may be lost.
            self._writes[key] = [values]
            if not body.get("durable", True):
                del self._writes[key]
            return
        writes.append(values)
        if len(writes) > _WRITES_MAX:
            del self._writes[key]

    def administered(self, channel: str, action: str | None) -> None:
        """RESET REPLICA empties the repositories."""
        if action in _FORGETTING:
            self._writes = {key: w for key, w in self._writes.items() if key[1] != channel}

    def started(self, found: Mapping[str, Any], ts: int, *, crashed: bool) -> None:
        """Judge what a start found in one repository of one channel."""
        table, channel = str(found.get("repository")), str(found.get("channel", "")).lower()
        if found.get("file") and found.get("table") and found.get("started"):
            self._ambiguous(table, channel, ts)
        values = _values(table, found.get("row")) if found.get("started") else None
        writes = self._writes.pop((table, channel), None)
        if values is None:
            return
        self._writes[table, channel] = [values]
        if writes is None or _may_read(values, writes, crashed=crashed):
            return
        self._reporter.prose(
            INFO_REPOSITORY_READ_BACK,
            at=f"{table} at start {ts}",
            channel=channel,
            sentence=f"At the start {table} says {_text(values)}, but what was last written to it "
            f"is {_text(writes[-1])}: replication goes on at a place where it was not.",
            observed=_text(values),
            observed_in=f"{table}, read by the start",
            expected=f"at least {_text(writes[0])}" if crashed else _text(writes[-1]),
            expected_in="writes to the repository before",
            witness=f"{_text(values)} instead of {_text(writes[-1])}",
        )

    def _ambiguous(self, table: str, channel: str, ts: int) -> None:
        self._reporter.prose(
            INFO_REPOSITORY_UNAMBIGUOUS,
            at=f"{table} at start {ts}",
            channel=channel,
            sentence=f"At the start both the file and the table of {table} held data, and "
            "replication started all the same.",
            observed="file and table hold data, replication started",
            observed_in="start of the server",
            expected="an error that refuses the start of replication",
            expected_in="WL#2775, REQ-6",
            witness=table,
        )

    def forget(self) -> None:
        """Records are missing, or the data is another: nothing written before is known."""
        self._writes = {}


def _values(table: str, row: Any) -> Values | None:
    """The coordinates of a row; None where some are missing."""
    if not isinstance(row, dict) or table not in _COLUMNS:
        return None
    values = [row.get(name) for name in _COLUMNS[table]]
    return None if any(value is None for value in values) else values


def _may_read(values: Values, writes: list[Values], *, crashed: bool) -> bool:
    """Whether a start may find these values.

    A clean stop leaves the last write. A crash may take back what was not durable, and recovery
    may commit a prepared transaction, with a row whose write nobody told.
    """
    if values == writes[-1]:
        return True
    return crashed and (values in writes or _is_beyond(values, writes[-1]))


def _is_beyond(values: Values, last: Values) -> bool:
    """Whether every coordinate is at or behind the last one, file by file."""
    for at in range(0, len(values), 2):
        here, there = _place(values[at : at + 2]), _place(last[at : at + 2])
        if here is None or there is None or here.base_name != there.base_name or here < there:
            return False
    return True


def _place(pair: Values) -> LogCoordinates | None:
    try:
        return LogCoordinates.of_file(str(pair[0]).removeprefix("./"), int(pair[1]))
    except (CoordinateError, ValueError):
        return None


def _text(values: Values) -> str:
    return " with ".join(f"{values[i]}:{values[i + 1]}" for i in range(0, len(values), 2))
