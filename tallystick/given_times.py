"""Times that people name."""

from __future__ import annotations

import re
from datetime import datetime, timezone


def utc_time(text: str) -> datetime:
    """Read a time of ISO 8601, or one that we print; without a zone it is UTC.

    Raises:
        ValueError: It is none.
    """
    # Python 3.10 knows no Z.
    at = datetime.fromisoformat(re.sub("(Z| UTC)$", "+00:00", text))
    return at if at.tzinfo is not None else at.replace(tzinfo=timezone.utc)
