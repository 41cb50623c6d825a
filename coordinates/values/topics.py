"""What the topics are called where nobody names another prefix."""

from __future__ import annotations

FLEET = "tallystick"
"""The prefix of the others."""
JOURNAL_TOPIC = "tallystick.journal"
COLLECT_TOPIC = "tallystick.collect"
FINDINGS_TOPIC = "tallystick.findings"
INCIDENTS_TOPIC = "tallystick.incidents"
CONTROL_TOPIC = "tallystick.control"
DEAD_LETTER_TOPIC = "tallystick.deadletter"
