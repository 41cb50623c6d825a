"""Whose evidence makes a step raise that takes that of many instances: the others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.results import Observation, ObservationCode
from tallystick.coordinates.rules.observations import EVIDENCE_REFUSED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def culprits(names: Sequence[str], fails: Callable[[Sequence[str]], str]) -> dict[str, str]:
    """The instances whose evidence raises by itself, and what it raises.

    With k of n instances among them, it takes about ``2 * k * log2(n)`` steps.

    Args:
        names: Instances whose evidence raises if it is taken together.
        fails: Takes the evidence of some instances, from the state before, and returns what was
            raised; empty if nothing was.

    Returns:
        By instance. All of them, if it is only together that they raise.
    """
    reason = fails(names)
    if not reason:
        return {}
    middle = len(names) // 2
    found = {}
    if middle:
        found = culprits(names[:middle], fails) | culprits(names[middle:], fails)
    return found or dict.fromkeys(names, reason)


def evidence_refused(culprits: Mapping[str, str], at: str) -> list[Observation]:
    """What is reported of each of them; ``at`` is the step."""
    return [
        Observation(
            code=ObservationCode.BLOCK_UNREADABLE,
            instance_id=name,
            channel=None,
            at=at,
            reason=EVIDENCE_REFUSED.code,
            data={"error": reason},
            rules=(),
            is_undecided=True,
            collection_id=None,
            epoch=0,
            sequence=0,
            ts=0,
        )
        for name, reason in culprits.items()
    ]
