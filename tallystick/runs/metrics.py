"""The job's numbers for a Prometheus scrape, on 127.0.0.1 only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tallystick.errors import MisuseError

HOST = "127.0.0.1"
PREFIX = "tallystick_"


@final
class JobMetrics(Collector):
    """Serves the newest numbers of the job.

    Args:
        counters: Names of the numbers that only grow; the others are gauges.
    """

    def __init__(self, counters: tuple[str, ...]) -> None:
        self._counters = frozenset(counters)
        self._values: Mapping[str, float] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def take(self, values: Mapping[str, float]) -> None:
        """Remember the newest numbers."""
        self._values = values

    def collect(self) -> Iterator[Metric]:
        """Answer a scrape."""
        for name, value in sorted(self._values.items()):
            text = name.replace("_", " ")
            if name in self._counters:
                counter = CounterMetricFamily(PREFIX + name, f"{text} since the start")
                counter.add_metric([], value)
                yield counter
            else:
                gauge = GaugeMetricFamily(PREFIX + name, f"{text} now")
                gauge.add_metric([], value)
                yield gauge

    def serve_also(self, other: Collector) -> None:
        """Answer scrapes with the numbers of somebody else, too."""
        self._registry.register(other)

    def serve(self, port: int) -> None:
        """Listen for scrapes, in a thread that ends with the process.

        Raises:
            MisuseError: The port cannot be listened on.
        """
        try:
            start_http_server(port, addr=HOST, registry=self._registry)
        except OSError as error:
            raise MisuseError(
                f"--metrics-port: {HOST}:{port} cannot be listened on: {error.strerror}"
            ) from error
