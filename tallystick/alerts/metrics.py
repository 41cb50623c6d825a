"""Numbers of the alerts for a Prometheus scrape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tallystick.alerts.service import Alerts
from tallystick.runs.metric_families import ALERT_FAMILIES, Series, metric_of


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
        numbers = list(self._alerts.numbers())
        values: dict[str, Series] = {
            "alerts_queued": {(one.label,): one.queued for one in numbers},
            "alert_sink_up": {(one.label,): one.is_up for one in numbers},
            "alerts_sent": {(one.label,): one.sent for one in numbers},
            "alerts_failed": {(one.label,): one.failed for one in numbers},
            "alerts_refused": {(one.label,): one.dropped for one in numbers},
            "alerts_dropped": {(): self._alerts.lost},
        }
        for family in ALERT_FAMILIES:
            yield metric_of(family, values[family.name])
