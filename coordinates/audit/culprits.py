"""Whose evidence makes a step raise that takes that of many instances: the others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.audit.instance import failure_text
from tallystick.coordinates.results import Observation, ObservationCode
from tallystick.coordinates.rules.observations import EVIDENCE_REFUSED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence


def culprits(names: Collection[str], take: Callable[[Collection[str]], object]) -> dict[str, str]:
    """The instances whose evidence raises, and what it raises: without them nothing does.

    With k of n instances among them, it takes about ``2 * k * log2(n)`` steps.

    Args:
        names: Instances whose evidence raises if it is taken together.
        take: Takes the evidence of some instances, from the state before.

    Returns:
        By instance. Of some that raise only together all; and all, if the others still raise.
    """

    def raised(some: Collection[str]) -> str:
        try:
            take(some)
        except Exception as error:  # noqa: BLE001  whatever it is, the others go on
            return failure_text(error)
        return ""

    found = _culprits(sorted(names), raised)
    if reason := raised(set(names) - found.keys()):
        return dict.fromkeys(sorted(names), reason)
    return found


def _culprits(names: Sequence[str], raised: Callable[[Sequence[str]], str]) -> dict[str, str]:
    reason = raised(names)
    if not reason:
        return {}
    middle = len(names) // 2
    found = {}
    if middle:
        found = _culprits(names[:middle], raised) | _culprits(names[middle:], raised)
    return found or dict.fromkeys(names, reason)


def evidence_refused(culprits: Mapping[str, str], at: str) -> list[Observation]:
    """What is reported of each of them; ``at`` is the step."""
    return [
        Observation.of_no_record(
            ObservationCode.BLOCK_UNREADABLE,
            at,
            EVIDENCE_REFUSED.code,
            {"error": reason},
            instance_id=name,
        )
        for name, reason in culprits.items()
    ]
