"""A small part of the checks, which `ContinuityStreams.java` has as well.

What an engine itself costs shows best where the work is small. Each event begins where the one
before it in its log ended, in a new file at 4; and what a row calls executed was logged before. The
state is small and is kept after every message.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from benchmarks.others.checks import END, result_of

Intervals = list[list[int]]
FIRST = 4
"""Where the first event of a file begins."""


class Continuity:
    """The small checks of one instance, one message at a time; used as `Checks` is."""

    waiting = 0
    """Nothing waits for a whole block."""

    def __init__(
        self, instance_id: str, saved: bytes | None = None, waiting: Iterable[bytes | str] = ()
    ) -> None:
        self._instance_id = instance_id
        self._begun = time.monotonic()
        self.next_sequence = 0
        self._logs: dict[str, list[Any]] = {}
        self._logged: dict[str, Intervals] = {}
        self._findings: list[str] = []
        self._checks: Counter[str] = Counter()
        if saved is not None:
            self._begun, self.next_sequence, self._logs, self._logged, self._findings, checks = (
                json.loads(saved)
            )
            self._checks.update(checks)
        for value in waiting:
            self.take(value)

    def saved(self) -> bytes:
        """The state after the last message."""
        values = (self._begun, self.next_sequence, self._logs, self._logged, self._findings,
                  self._checks)  # fmt: skip
        return json.dumps(values).encode()

    def take(self, value: bytes | str) -> bytes | None:
        """Read the next message.

        Returns:
            The result, where it was the last one.
        """
        record = json.loads(value)
        kind = record["kind"]
        if kind == END:
            return result_of(
                self._instance_id, self.next_sequence, self._findings, self._checks, self._begun
            )
        self.next_sequence += 1
        if kind in ("binlog", "relay"):
            self._follow(kind, record)
        elif kind == "log_status":
            executed = record["row"]["LOCAL"]["gtid_executed"]
            is_logged = all(
                any(low <= first and last <= high for low, high in self._logged.get(sid, ()))
                for sid, first, last in intervals_of(executed)
            )
            self._note("executed_is_logged", record["collection_id"], is_logged)
        return None

    def _follow(self, kind: str, record: dict[str, Any]) -> None:
        log = f"{kind} {record.get('channel', '')}"
        file, start = record["file"], record["start"]
        known = self._logs.get(log)
        if known is not None:
            expected = known[1] if known[0] == file else FIRST
            self._note("position_continues", f"{file}:{start}", start == expected)
        self._logs[log] = [file, start + record["length"]]
        if kind == "binlog":
            if "gtid" in record:
                sid, _, gno = record["gtid"].rpartition(":")
                add(self._logged.setdefault(sid, []), int(gno), int(gno))
            elif record["type"] == "PREVIOUS_GTIDS":
                for sid, first, last in intervals_of(record["gtid_set"]):
                    add(self._logged.setdefault(sid, []), first, last)

    def _note(self, rule: str, at: str, holds: bool) -> None:
        self._checks[f"{rule} {'holds' if holds else 'broken'}"] += 1
        if not holds:
            self._findings.append(f"{rule} {at}")


def intervals_of(text: str) -> list[tuple[str, int, int]]:
    """The intervals of a GTID set."""
    found = []
    for part in filter(None, text.replace("\n", "").replace(" ", "").split(",")):
        sid, *intervals = part.split(":")
        for interval in intervals:
            first, _, last = interval.partition("-")
            found.append((sid, int(first), int(last or first)))
    return found


def add(intervals: Intervals, first: int, last: int) -> None:
    """Put an interval into ascending ones that do not touch."""
    if intervals and intervals[-1][1] == first - 1:
        intervals[-1][1] = last
        return
    merged: Intervals = []
    for low, high in sorted([*intervals, [first, last]]):
        if merged and low <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], high)
        else:
            merged.append([low, high])
    intervals[:] = merged
