"""Progress of the queries, for whoever shows or scrapes it."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from tallystick.streaming.watch import Watcher

COUNTERS = (
    "blocks",
    "records",
    "journal_bytes",
    "findings",
    "observations",
    "cuts",
    "dead_letters",
    "dead_letters_lost",
    "states_unreadable",
    "collections_requested",
    "collections_closed",
    "collections_late",
    "micro_batches",
    "outages",
)
GAUGES = (
    "collections_open",
    "lag_blocks_max",
    "lag_blocks_sum",
    "micro_batch_ms",
    "state_instances",
    "state_memory_bytes",
    "fleet_state_bytes",
    "is_waiting",
)


class Metrics:
    """Counters since the start of this process and gauges of its last micro-batch.

    Args:
        report: Called with all of them after every change; must be quick. What it raises is
            dropped: showing numbers is no reason to stop the audit.
        watchers: Take what is more than a number; the same holds for them.
    """

    def __init__(
        self,
        report: Callable[[Mapping[str, float]], None] | None = None,
        watchers: Sequence[Watcher] = (),
    ) -> None:
        self._report = report
        self._watchers = tuple(watchers)
        self._lock = threading.Lock()
        self._values: dict[str, float] = dict.fromkeys((*COUNTERS, *GAUGES), 0)

    def count(self, **amounts: float) -> None:
        """Add to counters."""
        with self._lock:
            for name, amount in amounts.items():
                self._values[name] += amount
        self._send_report()

    def set(self, **values: float) -> None:
        """Set gauges."""
        with self._lock:
            for name, value in values.items():
                if name not in self._values:
                    raise KeyError(name)
                self._values[name] = value
        self._send_report()

    def notify(self, call: Callable[[Watcher], None]) -> None:
        """Call each watcher."""
        for watcher in self._watchers:
            with contextlib.suppress(Exception):
                call(watcher)

    def snapshot(self) -> dict[str, float]:
        """All values now."""
        with self._lock:
            return dict(self._values)

    def _send_report(self) -> None:
        if self._report is not None:
            with contextlib.suppress(Exception):
                self._report(self.snapshot())


class ProgressListener(StreamingQueryListener):
    """Turns Spark's progress events into metrics.

    Spark drops events of a slow listener, so it computes a few numbers and returns; and it never
    raises.

    Args:
        metrics: Receives the numbers.
        auditor_name: Name of the auditor query.
        collector_name: Name of the collector query.
        journal_topic: The auditor reads other topics, too.
    """

    def __init__(
        self, metrics: Metrics, *, auditor_name: str, collector_name: str, journal_topic: str
    ) -> None:
        self._journal_topic = journal_topic
        self._metrics = metrics
        self._auditor_name = auditor_name
        self._collector_name = collector_name
        self._auditor_id = ""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  Spark's names
        """Later events name the query by its id alone."""
        if event.name == self._auditor_name:
            self._auditor_id = str(event.id)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Count one micro-batch."""
        with contextlib.suppress(Exception):
            progress = event.progress
            if progress.name == self._collector_name:
                self._metrics.count(collections_requested=progress.numInputRows)
            elif progress.name == self._auditor_name:
                self._metrics.set(**auditor_gauges(progress, self._journal_topic))
                lag = lag_blocks(progress, self._journal_topic)
                seconds = float(progress.batchDuration) / 1000
                self._metrics.notify(lambda watcher: watcher.progressed(lag, seconds))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """The auditor query has asked Kafka, and there was nothing to read."""
        if str(event.id) == self._auditor_id:
            self._metrics.notify(lambda watcher: watcher.progressed(None, None))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Nothing to count."""


def auditor_gauges(progress: Any, journal_topic: str) -> dict[str, float]:
    """Gauges of one progress report of the auditor query."""
    gauges: dict[str, float] = {"micro_batch_ms": float(progress.batchDuration)}
    for operator in progress.stateOperators:
        gauges["state_instances"] = float(operator.numRowsTotal)
        gauges["state_memory_bytes"] = float(operator.memoryUsedBytes)
    for source in progress.sources:
        # The query commits no offsets to Kafka, so this is the only report of the lag.
        is_journal = journal_topic in json.loads(source.endOffset or "{}")
        if is_journal and "maxOffsetsBehindLatest" in source.metrics:
            behind_max = float(source.metrics["maxOffsetsBehindLatest"])
            gauges["lag_blocks_max"] = behind_max
            partitions = len(_end_offsets(source))
            average = float(source.metrics["avgOffsetsBehindLatest"])
            gauges["lag_blocks_sum"] = round(average * partitions)
    return gauges


def lag_blocks(progress: Any, journal_topic: str) -> dict[int, int] | None:
    """Blocks of the journal topic that are not read yet, by partition; None: not reported."""
    for source in progress.sources:
        ends = _offsets(source.endOffset).get(journal_topic)
        latest = _offsets(source.latestOffset).get(journal_topic)
        if ends is not None and latest is not None:
            return {int(p): max(0, offset - ends.get(p, 0)) for p, offset in latest.items()}
    return None


def _offsets(text: str | None) -> dict[str, dict[str, int]]:
    """Offsets by topic and partition; none of a source that reports none (Spark: ``None``)."""
    try:
        offsets: dict[str, dict[str, int]] | None = json.loads(text or "null")
    except ValueError:
        return {}
    return offsets or {}


def _end_offsets(source: Any) -> dict[str, Any]:
    offsets: dict[str, dict[str, Any]] = json.loads(source.endOffset)
    return {f"{t}-{p}": o for t, partitions in offsets.items() for p, o in partitions.items()}
