"""The queues in which evidence waits, one for each rule, instance, channel and set of sources.

In a queue the order is that of the instance's journal, so that a rule which remembers what it has
reported gives the same answers whenever the sources' journals arrive.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import NamedTuple

from tallystick.coordinates.audit.comparison import Evidence, GroupsQueued
from tallystick.coordinates.rules.between import Memory
from tallystick.coordinates.rules.outcomes import Undecided, Waiting

WAITING_MAX = 128
GROUPS_MAX = 2**18
"""Comparisons, and queued groups in them, that wait in one queue; then the oldest is undecided."""


class QueueKey(NamedTuple):
    """Whom a queue is about: the predicate by its name in COMPARISONS, and what it compares."""

    comparison: str
    instance_id: str
    channel: str | None
    sources: tuple[str, ...]


@dataclass(slots=True)
class Queue:
    """Evidence that waits, oldest first."""

    items: list[Evidence] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)
    reasons: set[str] = field(default_factory=set)
    """Reasons for being undecided that have been reported."""
    is_fresh: bool = False
    """Whether something was added since the queue was last settled."""

    def surplus(self) -> int:
        """How many of the oldest comparisons there is no room for."""
        groups = 0
        for kept, item in enumerate(reversed(self.items)):
            groups += item.group_count if isinstance(item, GroupsQueued) else 0
            if kept >= WAITING_MAX or groups > GROUPS_MAX:
                return len(self.items) - max(kept, 1)
        return 0

    def is_reported(self, answer: Undecided | Waiting) -> bool:
        """Whether an answer's reason has been reported, with these values; from now on it has."""
        key = json.dumps([answer.reason.code, answer.data], sort_keys=True)
        if key in self.reasons:
            return True
        self.reasons.add(key)
        return False
