"""Observations of what leaves the whole run undecided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.results import Observation, ObservationCode

if TYPE_CHECKING:
    from tallystick.coordinates.rules.outcomes import Reason


def doubt(code: ObservationCode, at: str, reason: Reason, **data: str | int) -> Observation:
    """What leaves the run undecided and is about no single instance.

    Args:
        code: From the closed list.
        at: Where it is.
        reason: Its text, which names values of ``data``.
        data: What the text names.
    """
    return Observation.of_no_record(code, at, reason.code, data)
