"""Numbers of the alerts for a Prometheus scrape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tallystick.alerts.service import Alerts


@final
class AlertMetrics(Collector):
    """Serves them by sink.

    Args:
        alerts: Of the run.
    """

    def __init__(self, alerts: Alerts) -> None:
        self._alerts = alerts

    def collect(self) -> Iterator[Metric]:
        """Answer a scrape."""
        label = ["sink"]
        queued = GaugeMetricFamily("tallystick_alerts_queued", "alerts that wait now", labels=label)
        up = GaugeMetricFamily(
            "tallystick_alert_sink_up", "whether a sink took the last alert", labels=label
        )
        sent = CounterMetricFamily("tallystick_alerts_sent", "alerts taken by a sink", labels=label)
        failed = CounterMetricFamily(
            "tallystick_alerts_failed", "attempts that a sink did not take", labels=label
        )
        refused = CounterMetricFamily(
            "tallystick_alerts_refused", "alerts that were given up for a sink", labels=label
        )
        for one in self._alerts.numbers():
            of = [one.label]
            queued.add_metric(of, one.queued)
            up.add_metric(of, one.is_up)
            sent.add_metric(of, one.sent)
            failed.add_metric(of, one.failed)
            refused.add_metric(of, one.dropped)
        yield from (queued, up, sent, failed, refused)
        dropped = CounterMetricFamily("tallystick_alerts_dropped", "alerts that found no room")
        dropped.add_metric([], self._alerts.lost)
        yield dropped
