"""An alert: what is sent about an incident, as one flat document.

docs/alert.schema.json describes it; ``SCHEMA_VERSION`` rises when a key is renamed or removed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.rules.topic_messages import utc

if TYPE_CHECKING:
    from tallystick.coordinates.results import Acknowledgement, IncidentChange
    from tallystick.coordinates.rules.topic_messages import Origin

SCHEMA_VERSION = 1
FIRING, RESOLVED = "firing", "resolved"
ACKNOWLEDGED = "acknowledged"
"""A status, and a kind that only sinks get which keep the state of an alert."""
GROWN, TEST = "grown", "test"
_WITNESS_MAX = 2_000

Alert = Mapping[str, Any]
"""The document of an alert."""


def now_us() -> int:
    """This machine's time, microseconds since 1970."""
    return time.time_ns() // 1_000


def alert_of(change: IncidentChange, origin: Origin) -> Alert:
    """The alert of a change of an incident; the change's id is its own."""
    from tallystick.coordinates.results import IncidentState
    from tallystick.coordinates.rules.explanation import explain, shorten_gtids, to_run

    one = change.incident
    texts = explain(one.finding)
    if not one.is_open:
        status = RESOLVED
    else:
        status = FIRING if one.state is IncidentState.OPEN else ACKNOWLEDGED
    return {
        "schema_version": SCHEMA_VERSION,
        "alert_id": change.change_id,
        "kind": change.kind.value,
        "status": status,
        "incident_id": one.incident_id,
        "rule": one.rule,
        "severity": one.severity.value,
        "instance": one.instance_id,
        "channel": one.channel,
        "sentence": texts.sentence,
        "remedy": texts.remedy,
        "verify": to_run(texts.verify),
        "cure": to_run(texts.cure),
        "count": one.count,
        "witness": shorten_gtids(one.witness)[:_WITNESS_MAX],
        "opened_at": utc(one.opened_ts),
        "last_seen_at": utc(one.last_seen_ts),
        "closed_at": None if one.closed_ts is None else utc(one.closed_ts),
        "acknowledgement": acknowledgement_of(one.acknowledgement),
        **origin.values(one.instance_id, f"incident-{one.incident_id}"),
    }


def acknowledgement_of(one: Acknowledgement | None) -> dict[str, str | None] | None:
    """Who knows of an incident, as alerts have it; None: nobody."""
    if one is None:
        return None
    until = None if one.until_ts is None else utc(one.until_ts)
    return {"by": one.by, "why": one.why, "at": utc(one.ts), "until": until}


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
        "cure": [],
        "count": 1,
        "witness": "",
        "opened_at": utc(at),
        "last_seen_at": utc(at),
        "closed_at": None,
        "acknowledgement": None,
        "detected_at": utc(at),
        "link": page_url,
    }
