"""What the page shows of a run's tables, read again only when a commit was made."""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from typing import TYPE_CHECKING, final

from tallystick.runs.tables import read_run, tables_of
from tallystick.streaming.table_reader import collection_time, times_written

if TYPE_CHECKING:
    from pathlib import Path

    from tallystick.runs.result import RunResult
    from tallystick.settings import Settings

_ROWS_MAX = 2_000
"""Rows read in detail: fewer collections of a large fleet."""
_REST = 2
"""Times that a reading took, until the next one: the tables of a year take seconds."""
_GAPS_MAX = 30


@dataclass(frozen=True, slots=True)
class Seen:
    """A result as the tables had it at some moment.

    Attributes:
        result: As ``tallystick report`` reads it.
        version: Another one means that something was committed.
        newest_at: When the newest collection was written, seconds since 1970; None: there is none.
        stale_after_s: Its age from which nothing is known of now.
    """

    result: RunResult
    version: str
    newest_at: float | None
    stale_after_s: float

    def age_s(self, now: float) -> float | None:
        """How long ago the newest collection was written."""
        return None if self.newest_at is None else max(0.0, now - self.newest_at)

    def is_stale(self, now: float) -> bool:
        """Whether nothing is known of now."""
        age = self.age_s(now)
        return age is None or age > self.stale_after_s


@final
class Follower:
    """Reads a run's tables for whoever asks; one reading at a time.

    Args:
        directory: The run's own.
        settings: How many collections are read, and how often there is one at the most.

    Raises:
        MisuseError: It has no tables.
        MissingExtraError: What reads them is not installed.
    """

    def __init__(self, directory: Path, settings: Settings) -> None:
        self._directory = directory
        self._tables = tables_of(directory, "tallystick serve")
        self._settings = settings
        self._lock = threading.Lock()
        self._seen: Seen | None = None
        self._not_before = 0.0
        self._earlier: tuple[str, str, Seen] | None = None

    @property
    def directory(self) -> Path:
        """The run's own."""
        return self._directory

    def now(self) -> Seen:
        """The newest state.

        Raises:
            TableError: The tables are of another version of tallystick.
        """
        with self._lock:
            version = self._version()
            begun = time.monotonic()
            seen = self._seen
            if seen is None or (seen.version != version and begun >= self._not_before):
                seen = self._seen = self._read(version, None)
                self._not_before = time.monotonic() + _REST * (time.monotonic() - begun)
            return seen

    def at(self, *, ts: int | None = None, collection_id: str | None = None) -> Seen | None:
        """The state as of a time in microseconds, or as of a collection; None: there is none."""
        with self._lock:
            version, asked = self._version(), repr((ts, collection_id))
            if self._earlier is not None and self._earlier[:2] == (version, asked):
                return self._earlier[2]
            if collection_id is not None:
                ts = collection_time(self._tables, collection_id)
            if ts is None:
                return None
            seen = self._read(version, ts)
            self._earlier = version, asked, seen
            return seen

    def _version(self) -> str:
        """Of all tables: a commit is a new file in a table's log."""
        logs = sorted(self._tables.glob("*/_delta_log"))
        return "-".join(f"{log.stat().st_mtime_ns:x}" for log in logs)

    def _read(self, version: str, upto: int | None) -> Seen:
        known = self._read_newest(2, upto) if self._seen is None else self._seen.result
        count = max(2, _ROWS_MAX // max(1, len(known.newest_cuts)))
        result = self._read_newest(min(self._settings.report_collections, count), upto)
        times = times_written(self._tables)[-_GAPS_MAX:]
        gaps = [later - earlier for earlier, later in pairwise(times)]
        # A backlog is read without pauses: what comes after it is no slower than it should be.
        limit = self._settings.stale_after_s(statistics.median(gaps or [0.0]))
        return Seen(result, version, times[-1] if times else None, limit)

    def _read_newest(self, collections: int, upto: int | None) -> RunResult:
        return read_run(
            self._directory,
            command="serve",
            title=str(self._directory),
            begun_at=datetime.now(timezone.utc),
            collections=collections,
            upto=upto,
        )
