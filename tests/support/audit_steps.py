"""Steps of the auditor without Spark: logs in memory, the audits of an instance and of a bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tallystick.coordinates.audit.instance import AuditOutput
from tallystick.coordinates.events._message_headers import headers_of_json
from tallystick.streaming.audit_log import AuditLog, Entry
from tallystick.streaming.bucket import Bucket, Judging, Numbers
from tallystick.streaming.instance_step import BlockRow, JournalKey, KeyResult
from tallystick.streaming.schema import SEGMENTS


class MemoryStore:
    """As the state store: what is done in a step, with what was there before.

    It has no more segments than the store has lists.
    """

    def __init__(self, entries: Iterable[tuple[int, Entry]] = ()) -> None:
        self.segments: dict[int, list[Entry]] = {number: [] for number in range(SEGMENTS)}
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


class MemoryFleetStore:
    """The same for the clusters' log."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries = list(entries)

    def read(self) -> list[Entry]:
        return list(self.entries)

    def append(self, entries: list[Entry]) -> None:
        self.entries += entries

    def clear(self) -> None:
        self.entries = []


class BucketState(NamedTuple):
    """A bucket's logs, as they are between two steps."""

    numbers: Numbers | None = None
    audits: tuple[tuple[int, Entry], ...] = ()
    fleets: tuple[Entry, ...] = ()

    def bucket(self, judging: Judging) -> Bucket:
        """What a process finds that holds nothing."""
        return Bucket(judging, self.audits, self.fleets, self.numbers)


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
    messages = list(rows)
    headers = [dict(headers_of_json(row.headers or "[]")) for row in messages[:1]]
    cluster = next((of.get("cluster", b"") for of in headers), b"")
    key = JournalKey(cluster.decode(), instance_id)
    result = log.step({key: messages}, store)[key]
    entries = tuple(store.read())
    return State(log.next_number, entries) if entries else None, result


def ends_of(state: State) -> list[AuditOutput]:
    """What the audits of a log decide where the history ends."""
    return [output for outputs in state.log().finish().values() for output in outputs]
