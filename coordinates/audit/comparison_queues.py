"""The queues in which comparisons wait, one for each rule, instance, channel and set of sources.

In a queue the order is that of the instance's journal, so that a rule which remembers what it has
reported gives the same answers whenever the sources' journals arrive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tallystick.coordinates.audit.comparison import Comparison, GroupsQueued, Memory
from tallystick.coordinates.rules.comparing.judges import (
    judge_coordinates,
    judge_executed,
    judge_purged,
    judge_received,
    judge_server_id,
)
from tallystick.coordinates.rules.comparing.mirror import (
    judge_clone_coordinates,
    judge_clone_resume,
    judge_mirror,
)
from tallystick.coordinates.rules.comparing.recovery import (
    judge_data,
    judge_replay,
    judge_stop_point,
)
from tallystick.coordinates.rules.fleet import (
    CLONE_COORDINATES_EQUAL_DONOR,
    CLONE_RESUME_EXACT,
    NO_ERRANT_GTIDS,
    PURGED_NOT_NEEDED,
    RECEIVED_WITHIN_SOURCE_LOGGED,
    RELAY_MIRRORS_SOURCE,
    SERVER_UUID_UNIQUE,
    SOURCE_COORDINATE_VALID,
)
from tallystick.coordinates.rules.point_in_time_recovery import (
    RECOVERED_DATA_EQUAL_SOURCE,
    RECOVERY_REACHES_STOP_POINT,
    REPLAY_CONTINUES_IMAGE,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.coordinates.rules.registry import Rule

WAITING_MAX = 128
GROUPS_MAX = 2**18
"""Comparisons, and queued groups in them, that wait in one queue; then the oldest is undecided."""


class Kind(NamedTuple):
    """A rule, and what judges by it."""

    rule: Rule
    judge: Callable[..., Any]


KINDS: dict[str, Kind] = {
    "mirror": Kind(RELAY_MIRRORS_SOURCE, judge_mirror),
    "clone": Kind(CLONE_COORDINATES_EQUAL_DONOR, judge_clone_coordinates),
    "resume": Kind(CLONE_RESUME_EXACT, judge_clone_resume),
    "server_id": Kind(SERVER_UUID_UNIQUE, judge_server_id),
    "received": Kind(RECEIVED_WITHIN_SOURCE_LOGGED, judge_received),
    "executed": Kind(NO_ERRANT_GTIDS, judge_executed),
    "coordinates": Kind(SOURCE_COORDINATE_VALID, judge_coordinates),
    "replay": Kind(REPLAY_CONTINUES_IMAGE, judge_replay),
    "stop_point": Kind(RECOVERY_REACHES_STOP_POINT, judge_stop_point),
    "data": Kind(RECOVERED_DATA_EQUAL_SOURCE, judge_data),
    "purged": Kind(PURGED_NOT_NEEDED, judge_purged),
}


class QueueKey(NamedTuple):
    """Whom a queue is about."""

    kind: str
    instance_id: str
    channel: str | None
    sources: tuple[str, ...]


@dataclass(slots=True)
class Queue:
    """Comparisons that wait, oldest first."""

    items: list[Comparison] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)
    told: set[str] = field(default_factory=set)
    """Reasons for being undecided that have been told."""
    is_fresh: bool = False
    """Whether something was added since the queue was looked at."""

    def surplus(self) -> int:
        """How many of the oldest comparisons there is no room for."""
        groups = 0
        for kept, item in enumerate(reversed(self.items)):
            groups += item.group_count if isinstance(item, GroupsQueued) else 0
            if kept >= WAITING_MAX or groups > GROUPS_MAX:
                return len(self.items) - max(kept, 1)
        return 0
