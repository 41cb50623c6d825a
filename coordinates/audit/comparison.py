"""Comparisons that wait for another instance's journal, and the answers that end the waiting."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallystick.coordinates.audit.journal_position import Place
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallystick.coordinates.audit.instance_timeline import InstanceTimeline
    from tallystick.coordinates.audit.topology import Fleet
    from tallystick.coordinates.rules.registry import Rule

IntArray = npt.NDArray[np.int64]
Coordinates = tuple[str, int]
"""(file name, position) as a server prints them."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A broken rule, as far as the rule knows it; fields as in `Finding`."""

    rule: Rule
    at: str
    sentence: str
    observed: str
    observed_in: str
    expected: str
    expected_in: str
    witness: str


@dataclass(frozen=True, slots=True)
class Undecided:
    """The evidence does not suffice, and never will."""

    reason: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The evidence does not suffice yet."""

    reason: str


Answer = list[Problem] | Undecided | Waiting
"""No problem: the invariant holds."""


@dataclass(frozen=True, slots=True)
class ChannelSaid:
    """What one log_status row of a replica said of a channel."""

    instance_id: str
    place: Place
    server_id: int | None
    retrieved: GtidSet | None
    has: GtidSet | None
    """Executed or retrieved by the replica, None not known."""
    read: Coordinates | None
    executed: Coordinates | None
    auto_position: bool
    coordinates_ts: int | None
    """Since when the coordinates are of the present source, None not known."""
    retrieved_ts: int | None
    """Since when the retrieved set grows from nothing, None not known."""
    gtid_executed: GtidSet | None = None
    """Of the replica; None not known, or the channel leaves out groups of its source."""
    is_relay_seen: bool = False
    """Whether groups of the channel's relay log were seen."""
    is_filtered: bool = False


@dataclass(frozen=True, slots=True)
class ReplicaExecuted:
    """What one log_status row of a replica said it has executed, but for what an operator set."""

    instance_id: str
    place: Place
    executed: GtidSet
    server_uuid: str | None
    group_uuid: str | None
    retrieved: GtidSet | None = None
    """By all channels, None not known."""


@dataclass(frozen=True, slots=True, eq=False)
class QueuedRun:
    """Groups queued one after the other from one file of the source.

    Attributes:
        base_name, file_number: The source's file; base name None: not known.
        ends: Position of the source behind each group, -1 not known.
        sids: Table that `sid` refers to; there -1 is an anonymous group.
        sid, gno: GTID of each group.
        connects: The receiver connected before the first of them.
        begins: The channel began anew before the first of them.
    """

    base_name: str | None
    file_number: int
    ends: IntArray
    sids: tuple[str, ...]
    sid: npt.NDArray[np.int32]
    gno: IntArray
    connects: bool
    begins: bool

    def gtids(self, which: npt.NDArray[Any]) -> GtidSet:
        """The GTIDs of some of the groups."""
        which = which & (self.sid >= 0)
        return GtidSet.from_groups(self.sids, self.sid[which], self.gno[which])


@dataclass(frozen=True, slots=True)
class GroupsQueued:
    """What a channel has queued since the log_status row before."""

    place: Place
    since_ts: int
    """Time of that row: none of the groups was queued before it."""
    runs: tuple[QueuedRun, ...]
    executed: tuple[GtidSet, ...]
    """Everything the replica is known to have executed or received, in parts."""
    is_row: bool
    """Whether a row ends it, so that `executed` holds what the journal may have missed."""
    is_filtered: bool
    server_uuid: str | None = None
    """The replica's own."""

    @property
    def group_count(self) -> int:
        """How many groups."""
        return sum(len(run.ends) for run in self.runs)


@dataclass(frozen=True, slots=True)
class CloneMade:
    """What clone_status of a recipient says, and the first group that it received afterwards."""

    place: Place
    clone_ts: int
    coordinates: Coordinates
    executed: GtidSet
    first_queued: tuple[str, int, int, str] | None
    """Source base name, file number, position behind the group, GTID ("" anonymous)."""


@dataclass(frozen=True, slots=True)
class RecoveryMade:
    """A recovery that has ended, as the restored server told it.

    Attributes:
        restored: The bodies of its records, by step: ``restore``, ``replay``, ``replayed``.
        replayed: GTIDs of the groups that it logged meanwhile, "" anonymous; None: not all known.
        before: GTIDs of the groups that it logged between ``restore`` and ``replay``.
        is_ordered: Whether groups must be logged in the order of the log that is replayed.
    """

    place: Place
    restored: dict[str, dict[str, Any]]
    replayed: tuple[str, ...] | None
    before: tuple[str, ...]
    is_ordered: bool

    @property
    def backup_id(self) -> str:
        """Which image."""
        return str(self.restored["restore"]["backup_id"])

    @property
    def image_of(self) -> str:
        """The instance that the image was taken of."""
        return str(self.restored["restore"]["peer"])

    @property
    def source(self) -> str:
        """The instance whose binary log was replayed."""
        return str(self.restored["replay"]["peer"])

    @property
    def end(self) -> Coordinates:
        """Where in that log the replay ended."""
        told = self.restored["replayed"]
        return told["to_file"], told["to_position"]

    def gtids(self, step: str, key: str = "gtid_executed") -> GtidSet | None:
        """A set of a record, None not told."""
        text = self.restored[step].get(key)
        return None if text is None else GtidSet.parse(text)


Comparison = ChannelSaid | ReplicaExecuted | GroupsQueued | CloneMade | RecoveryMade


@dataclass(slots=True)
class Memory:
    """What a rule remembers of earlier comparisons of the same instance, channel and sources."""

    reported: GtidSet = GtidSet.EMPTY
    """GTIDs that have been reported."""
    told: set[str] = field(default_factory=set)
    """Places and reasons that have been told."""
    lineage: int = -1
    """Binlog lineage of the source that the positions below are of."""
    last: tuple[int, int] | None = None
    """Source file number and position behind the last group queued since the last connect."""
    high: tuple[int, int] | None = None
    """The highest one since the channel began."""

    def forget_positions(self) -> None:
        """Positions are of a log that is not known any more."""
        self.lineage = -1
        self.last = self.high = None

    def copy(self) -> Memory:
        """A memory of its own with the same content."""
        return replace(self, told=set(self.told))


@dataclass(frozen=True, slots=True)
class Case:
    """What a rule gets beside a comparison: the sources' journals, its own memory, the fleet."""

    sources: Sequence[InstanceTimeline]
    memory: Memory
    fleet: Fleet

    @property
    def source(self) -> InstanceTimeline:
        """The source, when there is but one."""
        return self.sources[0]


def brief(gtids: GtidSet, how_many: int = 10) -> str:
    """The first GTIDs of a set as a witness."""
    count = gtids.count()
    first = str(gtids.first(how_many))
    return first if count <= how_many else f"{first}, … ({count} GTIDs)"
