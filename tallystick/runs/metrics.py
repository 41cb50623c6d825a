"""The job's numbers for a Prometheus scrape."""

from __future__ import annotations

import math
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, final

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tallystick import __version__
from tallystick.coordinates.results import IncidentState, Verdict
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.runs.metric_families import (
    FAMILIES,
    LABEL_LENGTH_MAX,
    OTHER,
    PREFIX,
    SERIES_MAX,
    Family,
    Series,
    metric_of,
)

if TYPE_CHECKING:
    from tallystick.streaming.rounds import Round
    from tallystick.streaming.watch import StepReport

OUTCOMES = ("complete", "incomplete", "late")
EVIDENCE = ("log", "row")
FOLDS: Mapping[str, Callable[[float, float], float]] = {
    "sum": lambda a, b: a + b,
    "min": min,
    "max": max,
}


@final
class JobMetrics(Collector):
    """Serves the newest numbers of the job, in a registry of its own.

    Args:
        stale_after_s: So long after the newest collection was closed nothing is known of now.
        clock: Monotonic seconds.

    Attributes:
        registry: What a scrape reads.
    """

    def __init__(
        self, stale_after_s: float = math.inf, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stale_after_s = stale_after_s
        self._clock = clock
        self._closed_at = clock()
        self._lock = threading.Lock()
        self._series: dict[str, Series] = {
            "build_info": {(__version__, platform.python_version()): 1},
            # A counter that is there before it grows: the first finding is an increase, too.
            "findings": {(rule,): 0 for rule in RULES},
            "collections": {(outcome,): 0 for outcome in OUTCOMES},
            "validations": {(verdict.value,): 0 for verdict in Verdict},
        }
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        self._histograms = {
            one.name: Histogram(
                PREFIX + one.name,
                one.text,
                one.labels,
                buckets=one.buckets,
                registry=self.registry,
            )
            for one in FAMILIES
            if one.kind == "histogram"
        }
        for evidence in EVIDENCE:
            self._histograms["detection_latency_seconds"].labels(evidence)

    def serve_also(self, other: Collector) -> None:
        """Answer scrapes with the numbers of somebody else, too."""
        self.registry.register(other)

    def take(self, values: Mapping[str, float]) -> None:
        """Remember the newest plain numbers; those that are no metric by themselves are not."""
        plain = {one.name for one in FAMILIES if not one.labels}
        with self._lock:
            self._series |= {name: {(): value} for name, value in values.items() if name in plain}

    def started(self) -> None:
        """Nothing to count."""

    def waits(self, sentence: str | None) -> None:
        """The job counts it by itself."""

    def ended(self) -> None:
        """Nothing to count."""

    def progressed(self, lag_blocks: Mapping[int, int] | None, duration_s: float | None) -> None:
        """A micro-batch, or a poll that found nothing."""
        with self._lock:
            self._series["last_progress_timestamp_seconds"] = {(): time.time()}
            if lag_blocks is not None:
                self._series["lag_blocks"] = {(str(p),): lag for p, lag in lag_blocks.items()}
        if duration_s is not None:
            self._histograms["micro_batch_duration_seconds"].observe(duration_s)

    def stepped(self, report: StepReport) -> None:
        """What a micro-batch brought."""
        latency = self._histograms["detection_latency_seconds"]
        for finding in report.findings:
            evidence = "log" if finding.collection_id is None else "row"
            seconds = (report.delivered_us - finding.ts) / 1_000_000
            # An observer's clock that is ahead makes it negative.
            latency.labels(evidence).observe(max(0.0, seconds))
        members = report.members.items()
        with self._lock:
            self._count("findings", (one.rule for one in report.findings))
            self._count("collections", (_outcome(one) for one in report.rounds))
            self._count("validations", (one.value for one in report.validations))
            self._series |= {
                "verdict_now": _verdict(report.verdict_now),
                "verdict_period": _verdict(report.verdict_period),
                "open_incidents": _incidents(report, IncidentState.OPEN),
                "acknowledged_incidents": _incidents(report, IncidentState.ACKNOWLEDGED),
                "last_answer_timestamp_seconds": {
                    (name,): one.answered_us / 1_000_000
                    for name, one in members
                    if one.answered_us is not None
                },
                "unanswered_requests": {(name,): one.unanswered for name, one in members},
            }
            if any(not one.is_late for one in report.rounds):
                closed_s = report.delivered_us / 1_000_000
                self._series["last_collection_timestamp_seconds"] = {(): closed_s}
                self._closed_at = self._clock()

    def collect(self) -> Iterator[Metric]:
        """Answer a scrape."""
        with self._lock:
            shown = dict(self._series)
            is_stale = self._clock() - self._closed_at > self._stale_after_s
        # What is open goes on to be broken; that nothing is, nobody has seen since.
        if is_stale and shown.get("verdict_now") == _verdict(Verdict.CONSISTENT):
            shown["verdict_now"] = _verdict(Verdict.UNDECIDED)
        folded: dict[tuple[str, ...], float] = {}
        for one in FAMILIES:
            if one.kind != "histogram" and one.name != "folded_series":
                series, beyond = _folded(one, shown.get(one.name, {}))
                if beyond:
                    folded[one.shown,] = beyond
                yield metric_of(one, series)
        yield metric_of(FAMILIES[-1], folded)

    def _count(self, name: str, seen: Iterable[str]) -> None:
        totals = dict(self._series[name])
        for label in seen:
            totals[label,] = totals.get((label,), 0) + 1
        self._series[name] = totals


def _folded(family: Family, series: Series) -> tuple[Series, int]:
    """At most ``SERIES_MAX`` series and those that all others share, and how many these are."""
    if not family.labels:
        return series, 0
    fold = FOLDS[family.fold]
    shared = family.labels.index("instance") if "instance" in family.labels else -1
    kept: dict[tuple[str, ...], float] = {}
    beyond = 0
    for labels, value in sorted(series.items()):
        key = [label[:LABEL_LENGTH_MAX] for label in labels]
        if len(kept) >= SERIES_MAX and tuple(key) not in kept:
            key[shared] = OTHER
            beyond += 1
        name = tuple(key)
        kept[name] = fold(kept[name], value) if name in kept else value
    return kept, beyond


def _verdict(verdict: Verdict) -> Series:
    return {(one.value,): float(one is verdict) for one in Verdict}


def _incidents(report: StepReport, state: IncidentState) -> Series:
    counts: dict[tuple[str, ...], float] = {}
    for one in report.incidents:
        if one.state is state:
            key = one.rule, one.instance_id, one.severity.value
            counts[key] = counts.get(key, 0) + 1
    return counts


def _outcome(closed: Round) -> str:
    if closed.is_late:
        return "late"
    return "incomplete" if closed.missing else "complete"
