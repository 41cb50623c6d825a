"""Alerts of instances that do not answer: no rule is broken, but nobody knows whether one is.

The incident of such an alert begins with the first request that was left unanswered, by the job's
clock. It is known to alerts alone: no finding belongs to it, and it cannot be acknowledged.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tallystick.alerts.alert import FIRING, RESOLVED, SCHEMA_VERSION, Alert
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.explanation import moment
from tallystick.coordinates.rules.topic_messages import Origin, utc

if TYPE_CHECKING:
    from tallystick.streaming.answers import Member

RULE = "instance_silent"


def began(instance_id: str, member: Member, origin: Origin) -> Alert:
    """The alert of an instance that has become silent."""
    last = "It has never answered."
    if member.last_ts is not None:
        last = f"Its last answer: {moment(member.last_ts)}."
    name = _hash(f"{RULE} {origin.fleet} {instance_id} {member.since_us}")
    return {
        "schema_version": SCHEMA_VERSION,
        "alert_id": _hash(f"{name} opened"),
        "kind": "opened",
        "status": FIRING,
        "incident_id": name,
        "rule": RULE,
        "severity": Severity.ERROR.value,
        "instance": instance_id,
        "channel": None,
        "sentence": f"{instance_id} does not answer requests for collections: UNDECIDED. {last}",
        "remedy": "Start what writes its journal (tallystick tail), or the server; if the instance"
        " is gone for good, retire it (tallystick retire).",
        "verify": [],
        "count": 1,
        "witness": f"unanswered since {utc(member.since_us)}",
        "opened_at": utc(member.since_us),
        "last_seen_at": utc(origin.detected_us),
        "closed_at": None,
        **origin.values(instance_id, "incidents"),
    }


def ended(alert: Alert, origin: Origin) -> Alert:
    """The alert of an instance that answers again, or need not answer any more."""
    at = utc(origin.detected_us)
    return {
        **alert,
        "alert_id": _hash(f"{alert['incident_id']} resolved"),
        "kind": "resolved",
        "status": RESOLVED,
        "closed_at": at,
        "detected_at": at,
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]
