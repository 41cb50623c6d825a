"""An alert: what somebody is told of an incident, as one flat document.

docs/alert.schema.json describes it; ``SCHEMA_VERSION`` rises when a key is renamed or removed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from tallystick.coordinates.results import IncidentChange

SCHEMA_VERSION = 1
FIRING, RESOLVED = "firing", "resolved"
ACKNOWLEDGED = "acknowledged"
"""A kind that only sinks get which keep the state of an alert; they know no such state."""
TEST = "test"
_WITNESS_MAX = 2_000
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LATEST_US = (datetime(9999, 12, 31, tzinfo=timezone.utc) - _EPOCH) // timedelta(microseconds=1)

Alert = Mapping[str, Any]
"""The document of an alert."""


def now_us() -> int:
    """This machine's time, microseconds since 1970."""
    return time.time_ns() // 1_000


def utc(ts: int) -> str:
    """Microseconds since 1970 as ISO 8601; a time that no calendar has as the nearest one."""
    at = _EPOCH + timedelta(microseconds=min(max(ts, 0), _LATEST_US))
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def link_to(page_url: str | None, incident_id: str) -> str | None:
    """Where the page shows an incident; None without a page."""
    return None if page_url is None else f"{page_url}#incident-{quote(incident_id)}"


def alert_of(
    change: IncidentChange,
    *,
    fleet: str,
    cluster: str | None,
    detected_us: int,
    page_url: str | None,
) -> Alert:
    """The alert of a change of an incident.

    Args:
        change: Its id is the alert's id.
        fleet: The prefix of the audit's topics.
        cluster: Of the instance; None where it is not known.
        detected_us: When the audit found it, by this machine's clock.
        page_url: Where the audit's page is.
    """
    from tallystick.coordinates.rules.explanation import explain, shorten_gtids

    one = change.incident
    texts = explain(one.finding)
    if not one.is_open:
        status = RESOLVED
    else:
        status = ACKNOWLEDGED if one.acknowledgement is not None else FIRING
    return {
        "schema_version": SCHEMA_VERSION,
        "alert_id": change.change_id,
        "kind": change.kind.value,
        "status": status,
        "incident_id": one.incident_id,
        "rule": one.rule,
        "severity": one.severity.value,
        "fleet": fleet,
        "cluster": cluster,
        "instance": one.instance_id,
        "channel": one.channel,
        "sentence": texts.sentence,
        "remedy": texts.remedy,
        "verify": [{"on": on, "statement": statement} for on, statement in texts.verify],
        "count": one.count,
        "witness": shorten_gtids(one.witness)[:_WITNESS_MAX],
        "opened_at": utc(one.opened_ts),
        "last_seen_at": utc(one.last_seen_ts),
        "closed_at": None if one.closed_ts is None else utc(one.closed_ts),
        "detected_at": utc(detected_us),
        "link": link_to(page_url, one.incident_id),
    }


def trial_alert(fleet: str, page_url: str | None) -> Alert:
    """An alert with which a sink is tried."""
    at = now_us()
    return {
        "schema_version": SCHEMA_VERSION,
        "alert_id": f"test-{at}",
        "kind": TEST,
        "status": FIRING,
        "incident_id": "test",
        "rule": "test",
        "severity": "warning",
        "fleet": fleet,
        "cluster": None,
        "instance": "test",
        "channel": None,
        "sentence": "This is a test of tallystick's alerts; no incident is open.",
        "remedy": "Nothing is to be done.",
        "verify": [],
        "count": 1,
        "witness": "",
        "opened_at": utc(at),
        "last_seen_at": utc(at),
        "closed_at": None,
        "detected_at": utc(at),
        "link": page_url,
    }
