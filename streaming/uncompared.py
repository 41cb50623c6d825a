"""Comparisons between instances that wait, and of which none has been made yet.

A comparison waits for the journals of others, in a fleet that goes on for a moment. One that has
never been made, or could not be made the last time, is no evidence while it waits: collections that
are closed meanwhile are undecided.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.coordinates.results import SubjectCheck, gravest
from tallystick.coordinates.rules.observations import COMPARISON_WAITS
from tallystick.coordinates.state_codec import Bytes, encode, restore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tallystick.coordinates.results import Check


@dataclass(eq=False)
class WaitingComparisons:
    """What waits in all clusters, as the driver knows it.

    Attributes:
        of: By cluster and bucket, as of its last step.
        is_shown: It left the newest collection that was closed undecided.
    """

    of: dict[tuple[str, int], list[SubjectCheck]] = field(default_factory=dict)
    is_shown: bool = False

    def absorb(self, changed: Mapping[tuple[str, int], list[SubjectCheck]]) -> None:
        """Take what clusters have told."""
        self.of = {name: of for name, of in {**self.of, **changed}.items() if of}

    def retire(self, instance_id: str) -> None:
        """Nothing is compared with the instance any more."""
        for key, waiting in self.of.items():
            self.of[key] = [one for one in waiting if one.instance_id != instance_id]

    def added_to(
        self, checks: Iterable[SubjectCheck], collection_id: str, ts: int
    ) -> list[SubjectCheck]:
        """The checks of a collection that is closed, and of what waits meanwhile."""
        now = [
            one._replace(collection_id=collection_id, ts=ts)
            for waiting in self.of.values()
            for one in waiting
        ]
        self.is_shown = bool(now)
        return gravest([*checks, *now])

    def end(self) -> None:
        """Nothing waits any longer."""
        self.of = {}

    def to_bytes(self) -> bytes:
        """The state."""
        return encode(WaitingComparisons, self)

    def restore(self, data: Bytes) -> None:
        """Go on from the state that ``to_bytes`` gave.

        Raises:
            StateVersionError: Another version of tallystick has written the bytes.
            StateDamagedError: They are cut short, or have changed.
        """
        restore(self, data, "the comparisons that wait")


def is_waiting(check: Check) -> bool:
    """Whether a check is of a comparison that has not been made yet."""
    return check.reason == COMPARISON_WAITS.code
