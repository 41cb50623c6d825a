"""Steps of the auditor without Spark: a log in memory, and the audits of one instance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tallystick.coordinates.audit.instance import AuditOutput
from tallystick.streaming.audit_log import AuditLog, Entry
from tallystick.streaming.instance_step import BlockRow, KeyResult


class MemoryStore:
    """As the state store: what is done in a step, with what was there before."""

    def __init__(self, entries: Iterable[tuple[int, Entry]] = ()) -> None:
        self.segments: dict[int, list[Entry]] = defaultdict(list)
        for segment, entry in entries:
            self.segments[segment].append(entry)

    def read(self) -> Iterator[tuple[int, Entry]]:
        for segment, entries in self.segments.items():
            for entry in entries:
                yield segment, entry

    def append(self, segment: int, entries: list[Entry]) -> None:
        self.segments[segment] += entries

    def clear(self, segment: int) -> None:
        self.segments[segment] = []


class State(NamedTuple):
    """A log, as it is between two steps."""

    next_number: int
    entries: tuple[tuple[int, Entry], ...]

    def log(self) -> AuditLog:
        """What a process finds that holds nothing."""
        return AuditLog(frozenset(), self.entries, self.next_number)


def audit_rows(
    state: State | None, instance_id: str, rows: Iterable[BlockRow]
) -> tuple[State | None, KeyResult]:
    """One step of one instance by a process that holds nothing; the log after it."""
    store = MemoryStore(state.entries if state else ())
    log = state.log() if state else AuditLog()
    result = log.step({instance_id: list(rows)}, store)[instance_id]
    entries = tuple(store.read())
    return State(log.next_number, entries) if entries else None, result


def ends_of(state: State) -> list[AuditOutput]:
    """What the audits of a log decide where the history ends."""
    return [output for outputs in state.log().finish().values() for output in outputs]
