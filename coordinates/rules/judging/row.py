"""How a value may fall against the row before."""

from __future__ import annotations

from typing import Any

from tallystick.coordinates.rules.columns import same_family

__all__ = ["FIRST_POSITION", "UNREADABLE", "note_fall", "same_family"]

UNREADABLE = "the row's value is missing or could not be read"
FIRST_POSITION = 4
"""Where the first event of every log file starts."""


def note_fall(fallen: dict[str, Any], name: str, value: Any, previous: Any) -> bool:
    """Remember a value that fell, until one is accepted again; returns whether it fell."""
    if previous is None or previous <= value:
        fallen.pop(name, None)
        return False
    if name in fallen and fallen[name] <= value:
        del fallen[name]
        return False
    fallen[name] = value
    return True
