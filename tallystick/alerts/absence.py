"""Alerts of instances of which nothing is known: no rule is broken, nobody knows whether one is.

The incident of such an alert begins with the first request that was left unanswered, or answered
without a row, by the job's clock. No finding belongs to it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from tallystick.alerts.alert import (
    ACKNOWLEDGED,
    FIRING,
    RESOLVED,
    SCHEMA_VERSION,
    Alert,
    acknowledgement_of,
)
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.explanation import moment
from tallystick.coordinates.rules.topic_messages import Origin, utc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallystick.streaming.answers import Absence


class _Text(NamedTuple):
    """What alerts of a rule have; ``problem`` is a template."""

    lacks: str
    problem: str
    remedy: str


_RETIRE = "; if the instance is gone for good, retire it (tallystick retire)."
_TEXTS = {
    "instance_silent": _Text(
        "answer",
        "does not answer requests for collections",
        f"Start what writes its journal (tallystick tail), or the server{_RETIRE}",
    ),
    "instance_unreadable": _Text(
        "row",
        "cannot be read, its observer says ({})",
        f"Start the server, or correct what the error names{_RETIRE}",
    ),
    "messages_unreadable": _Text(
        "",
        "The journal's topic has more messages that cannot be read than unreadable_max in ten"
        " minutes. One of them: {}",
        "Read the dead letters: their headers have the reason and the place in the journal's topic."
        " Stop whoever writes what is no journal, and let nobody else write there (ACLs).",
    ),
}
RULES = tuple(_TEXTS)
"""Those of ``streaming.answers.Absence``, which need not be installed here."""


def changes(before: Alert | None, after: Absence | None, origin: Origin) -> Iterator[Alert]:
    """The alerts of what has become of an absence.

    Args:
        before: Its newest alert; None: it was there.
        after: As it is now; None: the instance is there, or need not be.
        origin: What alerts have of the fleet.
    """
    if before is not None and (after is None or after.incident_id != before["incident_id"]):
        at = utc(origin.detected_us)
        yield _next(before, "resolved", RESOLVED, origin) | {"closed_at": at}
        before = None
    if after is None:
        return
    if before is None:
        before = _began(after, origin)
        yield before
    known = acknowledgement_of(after.acknowledgement)
    if known != before["acknowledgement"]:
        kind, status = ("reopened", FIRING) if known is None else (ACKNOWLEDGED, ACKNOWLEDGED)
        yield _next(before, kind, status, origin) | {"acknowledgement": known}


def _began(one: Absence, origin: Origin) -> dict[str, object]:
    lacks, problem, remedy = _TEXTS[one.rule]
    since = utc(one.since_us)
    last = "never" if one.last_ts is None else moment(one.last_ts)
    sentence = problem.format(one.problem)
    if lacks:
        sentence = f"{one.instance_id} {sentence}: UNDECIDED. Its last {lacks}: {last}."
    return {
        "schema_version": SCHEMA_VERSION,
        "alert_id": _hash(f"{one.incident_id} opened"),
        "kind": "opened",
        "status": FIRING,
        "incident_id": one.incident_id,
        "rule": one.rule,
        "severity": Severity.ERROR.value,
        "instance": one.instance_id,
        "channel": None,
        "sentence": sentence,
        "remedy": remedy,
        "verify": [],
        "cure": [],
        "count": 1,
        "witness": f"no {lacks} since {since}" if lacks else one.problem,
        "opened_at": since,
        "last_seen_at": utc(origin.detected_us),
        "closed_at": None,
        "acknowledgement": None,
        **origin.values(one.instance_id, "incidents"),
    }


def _next(alert: Alert, kind: str, status: str, origin: Origin) -> dict[str, object]:
    """A later alert of the same absence."""
    at = utc(origin.detected_us)
    return {
        **alert,
        "alert_id": _hash(f"{alert['incident_id']} {kind} {at}"),
        "kind": kind,
        "status": status,
        "detected_at": at,
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
