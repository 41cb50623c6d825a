"""What a producer has published, for a Prometheus scrape: whether it lives, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import time
from typing import TYPE_CHECKING, final

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tallystick.runs.metrics_listener import MetricsListener

if TYPE_CHECKING:
    from tallystick.producers.publisher import Delivery

PREFIX = "tallystick_producer_"
INSTANCES_MAX = 1_000
"""So many instances have series of their own; those beyond share one."""
OTHER = "other"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(slots=True)
class _Published:
    """What Kafka has acknowledged of one instance."""

    blocks: int = 0
    records: int = 0
    value_bytes: int = 0
    at_s: float = 0.0


@final
class ProducerMetrics(Collector):
    """Counts what Kafka acknowledges; in a registry of its own.

    Args:
        clock: Seconds since 1970.

    Attributes:
        registry: What a scrape reads.
        answers: How many requests for collections each instance has answered.
        outages: How often acknowledgements have stopped.
    """

    def __init__(self, clock: Callable[[], float] = time) -> None:
        self._clock = clock
        self._published: dict[str, _Published] = {}
        self.answers: Callable[[], Mapping[str, int]] = dict
        self.outages = 0
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self._latency = Histogram(
            f"{PREFIX}delivery_latency_seconds",
            "from handing a block to the client until Kafka's acknowledgement",
            buckets=BUCKETS,
            registry=self.registry,
        )

    def delivered(self, one: Delivery) -> None:
        """Kafka has acknowledged a block."""
        name = one.instance_id
        if name not in self._published and len(self._published) >= INSTANCES_MAX:
            name = OTHER
        seen = self._published.setdefault(name, _Published())
        seen.blocks += 1
        seen.records += one.count
        seen.value_bytes += one.value_bytes
        seen.at_s = self._clock()
        self._latency.observe(one.latency_s)

    def collect(self) -> Iterator[Metric]:
        """Answer a scrape."""
        published = dict(self._published)
        for name, text in (
            ("blocks", "blocks that Kafka has acknowledged"),
            ("records", "records in them, heartbeats among them"),
            ("value_bytes", "bytes in them, as blocks are encoded"),
        ):
            counter = CounterMetricFamily(PREFIX + name, text, labels=("instance",))
            for instance_id, seen in published.items():
                counter.add_metric((instance_id,), getattr(seen, name))
            yield counter
        at = GaugeMetricFamily(
            f"{PREFIX}last_delivery_timestamp_seconds",
            "when Kafka last acknowledged a block; an idle instance sends heartbeats",
            labels=("instance",),
        )
        for instance_id, seen in published.items():
            at.add_metric((instance_id,), seen.at_s)
        yield at
        answers = CounterMetricFamily(
            f"{PREFIX}answers", "requests for collections that were answered", labels=("instance",)
        )
        for instance_id, count in list(self.answers().items())[:INSTANCES_MAX]:
            answers.add_metric((instance_id,), count)
        yield answers
        yield CounterMetricFamily(
            f"{PREFIX}outages", "times that Kafka has acknowledged nothing for 5 s", self.outages
        )

    def serve(self, host: str, port: int) -> None:
        """Listen for scrapes, in a thread that ends with the process.

        Raises:
            MisuseError: The port cannot be listened on.
        """
        MetricsListener(host, port, self.registry)
