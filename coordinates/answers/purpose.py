"""What an instance may be asked to be ready for."""

from __future__ import annotations

from enum import Enum

MAX_AGE_S = 120.0
"""How old evidence may be: two collections by the default of the setting collect_interval_s."""


class Purpose(str, Enum):
    """What is to be made now."""

    BACKUP = "backup"
    """A copy of it, by a backup tool."""
    CLONE = "clone"
    """A copy of it, by the clone plugin."""
    FAILOVER = "failover"
    """It becomes the source of its source's replicas."""
