"""Progress of the queries, for whoever shows or scrapes it."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext
from pyspark.sql.streaming.listener import JStreamingQueryListener, StreamingQueryListener

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


class _ByJson(JStreamingQueryListener):
    """Takes a progress event as JSON, in one call of the JVM.

    pyspark reads each of its maps and lists until the JVM raises, and asks for the class of each of
    these exceptions, name by name, in all jars: a quarter of a processor second a micro-batch.
    """

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802
        """Hand on one event; of the kind that this listener alone has."""
        self.pylistener.progressed(json.loads(jevent.progress().json()))  # type: ignore[attr-defined]


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

    @property
    def _jlistener(self) -> Any:
        """What pyspark registers with the JVM, and asks for again to take it away."""
        if not hasattr(self, "_jlistenerobj"):
            jvm: Any = SparkContext._jvm  # noqa: SLF001
            self._jlistenerobj = jvm.PythonStreamingQueryListenerWrapper(_ByJson(self))
        return self._jlistenerobj

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  Spark's names
        """Later events name the query by its id alone."""
        if event.name == self._auditor_name:
            self._auditor_id = str(event.id)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Never called: see ``progressed``."""

    def progressed(self, progress: Mapping[str, Any]) -> None:
        """Count one micro-batch.

        Args:
            progress: Spark's report of it, as its JSON has it.
        """
        with contextlib.suppress(Exception):
            if progress["name"] == self._collector_name:
                self._metrics.count(collections_requested=progress["numInputRows"])
            elif progress["name"] == self._auditor_name:
                self._metrics.set(**auditor_gauges(progress, self._journal_topic))
                lag = lag_blocks(progress, self._journal_topic)
                seconds = float(progress["batchDuration"]) / 1000
                self._metrics.notify(lambda watcher: watcher.progressed(lag, seconds))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """The auditor query has asked Kafka, and there was nothing to read."""
        if str(event.id) == self._auditor_id:
            self._metrics.notify(lambda watcher: watcher.progressed(None, None))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Nothing to count."""


def auditor_gauges(progress: Mapping[str, Any], journal_topic: str) -> dict[str, float]:
    """Gauges of one progress report of the auditor query."""
    gauges: dict[str, float] = {"micro_batch_ms": float(progress["batchDuration"])}
    for operator in progress["stateOperators"]:
        gauges["state_memory_bytes"] = float(operator["memoryUsedBytes"])
    for source in progress["sources"]:
        # The query commits no offsets to Kafka, so this is the only report of the lag.
        partitions = _offsets(source, "endOffset").get(journal_topic)
        metrics = source.get("metrics", {})
        if partitions is not None and "maxOffsetsBehindLatest" in metrics:
            gauges["lag_blocks_max"] = float(metrics["maxOffsetsBehindLatest"])
            average = float(metrics["avgOffsetsBehindLatest"])
            gauges["lag_blocks_sum"] = round(average * len(partitions))
    return gauges


def lag_blocks(progress: Mapping[str, Any], journal_topic: str) -> dict[int, int] | None:
    """Blocks of the journal topic that are not read yet, by partition; None: not reported."""
    for source in progress["sources"]:
        ends = _offsets(source, "endOffset").get(journal_topic)
        latest = _offsets(source, "latestOffset").get(journal_topic)
        if ends is not None and latest is not None:
            return {int(p): max(0, offset - ends.get(p, 0)) for p, offset in latest.items()}
    return None


def _offsets(source: Mapping[str, Any], name: str) -> dict[str, dict[str, int]]:
    """Offsets by topic and partition; none of a source that reports none, or is not Kafka."""
    offsets = source.get(name)
    return offsets if isinstance(offsets, dict) else {}
