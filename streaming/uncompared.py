"""Comparisons between instances that wait, and of which none has been made yet.

A comparison waits for the journals of others, in a fleet that goes on for a moment. One that has
never been made, or could not be made the last time, is no evidence while it waits: collections that
are closed meanwhile are undecided.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.coordinates.audit.comparison_queues import QueueKey
from tallystick.coordinates.audit.journal_position import JournalPosition
from tallystick.coordinates.audit.topology import describe_source
from tallystick.coordinates.results import Check, Outcome, SubjectCheck, gravest
from tallystick.coordinates.rules.catalogue import COMPARISONS
from tallystick.coordinates.rules.observations import COMPARISON_WAITS
from tallystick.coordinates.state_codec import Bytes, encode, restore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tallystick.coordinates.audit.comparison_queues import Queue
    from tallystick.coordinates.audit.finding_collector import FleetOutput


@dataclass(eq=False)
class Uncompared:
    """What is known of the comparisons of one cluster, one for each of its queues.

    Attributes:
        made: Those of which the last that did not wait any longer was made.
        unmade: The others, each with the oldest row that waits; None: no row waits.
    """

    made: set[QueueKey] = field(default_factory=set)
    unmade: dict[QueueKey, JournalPosition | None] = field(default_factory=dict)

    def note(self, queues: Mapping[QueueKey, Queue], output: FleetOutput) -> None:
        """Take what a step has brought.

        Args:
            queues: As they are after it.
            output: What the step has decided.
        """
        undecided = {
            (one.check.rule, one.instance_id, one.channel)
            for one in output.checks
            if one.check.outcome is Outcome.UNDECIDED
        }
        made, unmade = set(), {}
        for key, queue in queues.items():
            comparison = COMPARISONS[key.comparison]
            if not comparison.leaves_undecided:
                continue
            is_given_up = (comparison.rule.name, key.instance_id, key.channel) in undecided
            is_made = key in self.made
            oldest = None
            if is_given_up or not is_made:
                rows = (one.at for one in queue.items if one.at.collection_id is not None)
                oldest = next(rows, None)
            if not (is_given_up or is_made):
                before = self.unmade.get(key)
                # What no step has shown as waiting was made within this one.
                is_made = before not in (None, oldest) if key in self.unmade else oldest is None
            if is_made and not is_given_up:
                made.add(key)
            else:
                unmade[key] = oldest
        self.made, self.unmade = made, unmade

    def waiting(self) -> list[SubjectCheck]:
        """The checks of what waits, of no collection yet."""
        found = []
        for key in sorted((k for k, oldest in self.unmade.items() if oldest is not None), key=str):
            others = ", ".join(map(describe_source, key.sources)) or "the other instances"
            name = COMPARISONS[key.comparison].rule.name
            check = Check(name, Outcome.UNDECIDED, COMPARISON_WAITS.code, {"others": others})
            found.append(SubjectCheck(key.instance_id, key.channel, "", 0, check))
        return gravest(found)

    def to_bytes(self) -> bytes:
        """The state."""
        return encode(Uncompared, self)

    def restore(self, data: Bytes) -> None:
        """Go on from the state that ``to_bytes`` gave.

        Raises:
            StateVersionError: Another version of tallystick has written the bytes.
            StateDamagedError: They are cut short, or have changed.
        """
        restore(self, data, "the log of comparisons")


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
