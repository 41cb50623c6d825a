"""The public Python API: what a program imports to audit a history in memory (docs/python_api.md).

Names outside this module may change with any release.
"""

from __future__ import annotations

from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.events.json_lines import JsonLinesError, blocks_from_lines
from tallystick.coordinates.results import Finding, Observation, Severity, Verdict
from tallystick.coordinates.rules.explanation import Explanation, explain
from tallystick.coordinates.values.errors import AuditError, GtidSetParseError
from tallystick.coordinates.values.gtid import Gtid, GtidSet

__all__ = [
    "AuditError",
    "AuditResult",
    "Explanation",
    "Finding",
    "Gtid",
    "GtidSet",
    "GtidSetParseError",
    "JsonLinesError",
    "Observation",
    "Severity",
    "Verdict",
    "audit_history",
    "blocks_from_lines",
    "explain",
]
