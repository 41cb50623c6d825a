"""Alerts in an Alertmanager, by its API v2.

An Alertmanager takes an alert for resolved when nobody repeats it, so what fires is sent again each
minute, valid for four (as Prometheus does).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, final

from tallystick.alerts.alert import FIRING, TEST, Alert, now_us
from tallystick.alerts.http import Endpoint, encoded
from tallystick.alerts.sinks import Context
from tallystick.coordinates.rules.topic_messages import utc

PATH = "/api/v2/alerts"
REPEAT_S = 60.0
_VALID_US = 4 * 60_000_000
_AT_ONCE = 500
_OF_ALERT = ("rule", "instance", "channel", "severity", "fleet", "cluster")


@final
class Alertmanager:
    """Posts alerts with labels that identify the incident; nothing of them changes in its life."""

    repeat_s = REPEAT_S

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def send(self, alerts: Sequence[Alert], attempt: int) -> None:
        """Post them."""
        rest, now = iter(alerts), now_us()
        while part := list(islice(rest, _AT_ONCE)):
            self._endpoint.post(encoded([posted(alert, now) for alert in part]), {})

    def close(self) -> None:
        """Nothing runs beside a POST, which has a time-out."""


def posted(alert: Alert, now: int) -> dict[str, Any]:
    """An alert as an Alertmanager takes it.

    Its times are held to this machine's clock: of an alert that ends in the future an Alertmanager
    would believe that it fires.

    Args:
        alert: Its document.
        now: Microseconds since 1970.
    """
    if alert["status"] == FIRING:
        ends_at = utc(now + (_VALID_US // 4 if alert["kind"] == TEST else _VALID_US))
    else:
        ends_at = min(alert["closed_at"] or utc(now), utc(now))
    labels = {name: alert[name] for name in _OF_ALERT if alert[name]}
    annotations = {
        "summary": alert["sentence"],
        "description": f"Found {alert['count']:,} times. Witness: {alert['witness']}",
        "remedy": alert["remedy"],
        "state": alert["kind"],
        "link": alert["link"],
    }
    return {
        "labels": {
            "alertname": "Tallystick" + alert["rule"].title().replace("_", ""),
            **labels,
            "incident": alert["incident_id"],
        },
        "annotations": {name: value for name, value in annotations.items() if value},
        "startsAt": min(alert["opened_at"], ends_at, utc(now)),
        "endsAt": ends_at,
        **({"generatorURL": alert["link"]} if alert["link"] else {}),
    }


def open_sink(target: str, _context: Context) -> Alertmanager:
    """Where the target is an Alertmanager's address, with its path prefix if it has one."""
    return Alertmanager(Endpoint(target.rstrip("/") + PATH, "--alert alertmanager"))
