"""Every metric of the job: name, kind, labels and text, as docs/metrics.md has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Series = Mapping[tuple[str, ...], float]
"""Values of one metric, by those of its labels."""
PREFIX = "tallystick_"
SERIES_MAX = 1_000
"""So many series of one metric are shown; those beyond share one, with ``OTHER`` as instance."""
OTHER = "other"
LABEL_LENGTH_MAX = 200


class Family(NamedTuple):
    """One metric.

    Attributes:
        name: Without the prefix, and without the ``_total`` of a counter.
        kind: What Prometheus takes it as.
        text: What it counts or measures.
        labels: Their names.
        fold: How series beyond ``SERIES_MAX`` are put together.
        buckets: Upper bounds of a histogram, seconds.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    text: str
    labels: tuple[str, ...] = ()
    fold: Literal["sum", "min", "max"] = "sum"
    buckets: tuple[float, ...] = ()

    @property
    def shown(self) -> str:
        """The name of its samples; those of a histogram end with ``_bucket`` and so on."""
        return PREFIX + self.name + ("_total" if self.kind == "counter" else "")


LATENCY_BUCKETS = (0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)
DURATION_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)

FAMILIES = (
    Family("build_info", "gauge", "1; the labels are the versions that run", ("version", "python")),
    Family("verdict_now", "gauge", "1 for the verdict of what is open now, 0 for the others",
           ("verdict",)),
    Family("verdict_period", "gauge", "1 for the verdict of everything seen, 0 for the others",
           ("verdict",)),
    Family("open_incidents", "gauge", "incidents that are open and that nobody has acknowledged",
           ("rule", "instance", "severity")),
    Family("acknowledged_incidents", "gauge", "incidents that go on and are acknowledged",
           ("rule", "instance", "severity")),
    Family("last_answer_timestamp_seconds", "gauge",
           "when the job read an instance's last answer, by its own clock", ("instance",), "min"),
    Family("unanswered_requests", "gauge",
           "requests for a collection that an instance has left unanswered since its last answer",
           ("instance",), "max"),
    Family("last_collection_timestamp_seconds", "gauge",
           "when a collection was last closed, by the job's clock"),
    Family("last_progress_timestamp_seconds", "gauge",
           "when the query last came to the end of a micro-batch or of an empty poll"),
    Family("collections", "counter",
           "collections that were closed; late are answers after the deadline", ("outcome",)),
    Family("validations", "counter", "validated collections", ("verdict",)),
    Family("collections_open", "gauge", "collections that wait for answers, or to be compared"),
    Family("collections_requested", "counter", "requests that the job has made"),
    Family("findings", "counter", "findings", ("rule",)),
    Family("detection_latency_seconds", "histogram",
           "from the time of a finding's evidence, by its observer's clock, to its delivery",
           ("evidence",), buckets=LATENCY_BUCKETS),
    Family("lag_blocks", "gauge", "blocks of the journal topic that are not read yet",
           ("partition",)),
    Family("blocks", "counter", "blocks read"),
    Family("records", "counter", "journal records audited"),
    Family("journal_bytes", "counter", "bytes of the blocks read, as they are in Kafka"),
    Family("cuts", "counter", "rows of the cut table"),
    Family("observations", "counter", "observations"),
    Family("dead_letters", "counter", "messages that could not be read"),
    Family("dead_letters_lost", "counter",
           "messages that could not be read, nor written to the dead letters"),
    Family("states_unreadable", "counter", "saved states that could not be read"),
    Family("micro_batches", "counter", "micro-batches delivered"),
    Family("outages", "counter", "times that the job had to wait for the broker, or lost a worker"),
    Family("is_waiting", "gauge", "1 while the job waits for the broker"),
    Family("micro_batch_duration_seconds", "histogram", "what a micro-batch took",
           buckets=DURATION_BUCKETS),
    Family("state_instances", "gauge", "instances that the job knows"),
    Family("state_memory_bytes", "gauge", "memory of the state store, as Spark reports it"),
    Family("fleet_state_bytes", "gauge",
           "what is saved of comparisons between instances, in the buckets that had messages since"
           " the start, and of the driver"),
    Family("folded_series", "gauge",
           "series of a metric that share one, as there are too many of them", ("metric",)),
)  # fmt: skip

ALERT_FAMILIES = (
    Family("alerts_queued", "gauge", "alerts that wait for a sink", ("sink",)),
    Family("alert_sink_up", "gauge", "1 unless a sink's last attempt failed", ("sink",)),
    Family("alerts_sent", "counter", "alerts that a sink has taken", ("sink",)),
    Family("alerts_failed", "counter", "attempts that a sink did not take", ("sink",)),
    Family("alerts_refused", "counter", "alerts that were given up for a sink", ("sink",)),
    Family("alerts_dropped", "counter", "alerts that found no room in the queue"),
)
"""Those of ``alerts.metrics``."""


def metric_of(family: Family, series: Series) -> Metric:
    """A counter or gauge as a scrape has it; values by those of the labels."""
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = kind(PREFIX + family.name, family.text, labels=family.labels)
    for labels, value in series.items():
        metric.add_metric(labels, value)
    return metric
