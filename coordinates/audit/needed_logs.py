"""What the audit must remember of sources' binary logs, because replicas still need it.

A replica names positions from the one that it has executed on. What all known replicas of a source
have passed is forgotten but for the newest events, which replicas that come anew may need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tallystick.coordinates.audit.comparison import ChannelRow, GroupsQueued
from tallystick.coordinates.rules.between import may_be_of_ended_log
from tallystick.coordinates.values.binlog import parse_log_file_name
from tallystick.coordinates.values.errors import CoordinateError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tallystick.coordinates.audit.comparison import Coordinates, QueuedRun
    from tallystick.coordinates.audit.comparison_queues import Queue, QueueKey
    from tallystick.coordinates.audit.instance_timeline import InstanceTimeline, LogPosition
    from tallystick.coordinates.audit.packed_events import IntArray
    from tallystick.coordinates.audit.replica import Run
    from tallystick.coordinates.audit.replica_comparisons import Member
    from tallystick.coordinates.audit.topology import Fleet

SOURCE_BYTES_MAX = 2**26
"""What may be remembered of one source for replicas that are behind: some 25 million events."""
FLEET_BYTES_MAX = 2**28
"""The same of all sources together, in equal shares: the fleet's state is written at each step."""


def forget_what_all_have_passed(
    members: Mapping[str, Member], fleet: Fleet, queues: Mapping[QueueKey, Queue]
) -> None:
    """Forget the oldest events of each instance that no replica needs, or that take too much."""
    long = {name: m.timeline for name, m in members.items() if m.timeline.has_more_than_newest()}
    if not long:
        return
    needed: dict[str, LogPosition] = {}
    for named in _named(members, queues):
        for source in fleet.find(named.source, named.ts):
            position = _position(source, named) if source.instance_id in long else None
            if position is not None:
                needed[source.instance_id] = min(position, needed.get(source.instance_id, position))
    kept = [name for name, timeline in long.items() if timeline.forget_oldest(needed.get(name))]
    for name in kept:
        bytes_max = min(SOURCE_BYTES_MAX, FLEET_BYTES_MAX // len(kept))
        long[name].forget_oldest(needed[name], bytes_max)


class Named(NamedTuple):
    """A position of a source that a replica has named, or the group that ends there.

    Attributes:
        source: The source's key.
        ts: When.
        since_ts: Since when such positions are of the present source, None not known.
    """

    source: str
    ts: int
    since_ts: int | None
    base_name: str
    file_number: int
    position: int


def _position(source: InstanceTimeline, named: Named) -> LogPosition | None:
    """Where that is in the source's log; None if it is of another one."""
    state = source.states.first_since(named.ts)
    if state is None:
        return source.lineage, named.file_number, named.position
    if named.base_name != state.base_name or may_be_of_ended_log(named.since_ts, state):
        return None
    return state.lineage, named.file_number, named.position


def _named(members: Mapping[str, Member], queues: Mapping[QueueKey, Queue]) -> Iterator[Named]:
    """What is to be compared, and what may follow is not before it."""
    for member in members.values():
        for to in member.replica.needs():
            yield from _coordinates(to.key, to.ts, to.coordinates, to.coordinates_ts)
        for channel in member.replica.channels.values():
            if channel.runs and channel.key is not None:
                first = channel.runs[0]
                yield from _groups(channel.key, member.timeline.known_ts, first, first.ends[0])
    for key, queue in queues.items():
        for item in queue.items:
            for source in key.sources:
                if isinstance(item, ChannelRow) and item.executed is not None:
                    yield from _coordinates(source, item.at.ts, item.executed, item.coordinates_ts)
                elif isinstance(item, GroupsQueued):
                    first_run = item.runs[0]
                    yield from _groups(source, item.at.ts, first_run, first_run.ends)
                    if queue.memory.high is not None and first_run.base_name is not None:
                        at = first_run.base_name, *queue.memory.high
                        yield Named(source, item.at.ts, item.at.ts, *at)


def _coordinates(
    source: str, ts: int, coordinates: Coordinates, since_ts: int | None
) -> Iterator[Named]:
    try:
        base_name, number = parse_log_file_name(coordinates[0])
    except CoordinateError:
        return
    yield Named(source, ts, since_ts, base_name, number, coordinates[1])


def _groups(source: str, ts: int, run: Run | QueuedRun, ends: IntArray) -> Iterator[Named]:
    """The first group of a run; its file and its end may be unknown: None, -1."""
    if run.base_name is not None:
        yield Named(source, ts, ts, run.base_name, run.file_number, max(int(ends[0]), 0))
