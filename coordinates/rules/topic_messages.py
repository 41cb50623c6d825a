"""Messages of the topics of findings and of incidents: docs/findings.schema.json, incidents too.

``SCHEMA_VERSION`` is a header of each; it rises when a key is renamed or removed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from tallystick.coordinates.rules.explanation import change_document, finding_document

if TYPE_CHECKING:
    from tallystick.coordinates.results import Finding, IncidentChange

SCHEMA_VERSION = 1
SCHEMA_HEADER = "schema_version"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LATEST_US = (datetime(9999, 12, 31, tzinfo=timezone.utc) - _EPOCH) // timedelta(microseconds=1)


class Message(NamedTuple):
    """A message of a topic."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """What a message has beside what was found.

    Attributes:
        fleet: The prefix of the audit's topics.
        detected_us: When the audit found it, by its machine's clock, microseconds.
        page_url: Where the audit's page is; None: nowhere.
        clusters: The clusters of instances, where they are known.
    """

    fleet: str
    detected_us: int
    page_url: str | None = None
    clusters: Mapping[str, str] = field(default_factory=dict)

    def values(self, instance_id: str, anchor: str) -> dict[str, Any]:
        """The keys that messages have of it."""
        return {
            "fleet": self.fleet,
            "cluster": self.clusters.get(instance_id),
            "detected_at": utc(self.detected_us),
            "link": link_to(self.page_url, anchor),
        }


def utc(ts: int) -> str:
    """Microseconds since 1970 as ISO 8601; a time that no calendar has as the nearest one."""
    at = _EPOCH + timedelta(microseconds=min(max(ts, 0), _LATEST_US))
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def link_to(page_url: str | None, anchor: str) -> str | None:
    """Where the page shows something; None without a page."""
    return None if page_url is None else f"{page_url}#{anchor}"


def finding_message(finding: Finding, origin: Origin) -> Message:
    """The message of a finding, its key the ``finding_id``."""
    values = origin.values(finding.instance_id, f"finding-{finding.finding_id}")
    return _message(finding.finding_id, finding_document(finding) | values)


def incident_message(change: IncidentChange, origin: Origin) -> Message:
    """The message of a change of an incident, its key the ``incident_id``."""
    name = change.incident.incident_id
    values = origin.values(change.incident.instance_id, f"incident-{name}")
    return _message(name, change_document(change) | values)


def _message(key: str, document: Mapping[str, Any]) -> Message:
    value = json.dumps(document, separators=(",", ":")).encode()
    return Message(key.encode(), value, ((SCHEMA_HEADER, b"%d" % SCHEMA_VERSION),))
