"""What faults ask of binary logs: groups, their GTIDs and ends, files that end in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.values.binlog import EventType
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.kernel.scenario import UnfitFleetError
from tallystick.producers.simulator.server import administration
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import LoggedGroup
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.binary_log import BinlogFile

Coordinate = tuple[int, int]
"""A file number and an offset: ordered as the log is."""


def gtid_of(logged: LoggedGroup) -> GtidSet:
    """The group's GTID as a set; empty for an anonymous group."""
    group = logged.group
    return GtidSet.EMPTY if group.sid is None else GtidSet([(group.sid, group.gno, group.gno)])


def union(groups: list[LoggedGroup]) -> GtidSet:
    """The GTIDs of groups."""
    return GtidSet(
        (logged.group.sid, logged.group.gno, logged.group.gno)
        for logged in groups
        if logged.group.sid is not None
    )


def groups_between(
    instance: Instance, low: Coordinate, high: Coordinate
) -> list[tuple[BinlogFile, LoggedGroup]]:
    """The retained groups that end after ``low`` and at or before ``high``, in log order."""
    return [
        (file, logged)
        for file in instance[BinaryLog].files
        if low[0] <= file.number <= high[0]
        for logged in file.groups()
        if low < (file.number, logged.end) <= high
    ]


def event_ends(logged: LoggedGroup) -> Iterator[tuple[int, int]]:
    """The group's events after the GTID event: type and end."""
    for event_type, _, start, length, _ in logged.events():
        yield event_type, start + length


def is_pure_source(instance: Instance) -> bool:
    """Whether all GTIDs of the instance are its own: it replicates from nobody."""
    return (
        not instance[ChannelMap].channels
        and instance[BinaryLog].is_open
        and instance[GtidState].mode == "ON"
    )


def server_that(fleet: World, fits: Callable[[Instance], bool], what: str) -> Instance:
    """The first server of which something holds.

    Raises:
        UnfitFleetError: There is none; the message has ``what`` was looked for.
    """
    found = next(filter(fits, fleet.instances.values()), None)
    if found is None:
        raise UnfitFleetError(f"the fault needs {what}, and the fleet has none")
    return found


def pure_source(fleet: World) -> Instance:
    """The first server whose GTIDs are all its own.

    Raises:
        UnfitFleetError: There is none.
    """
    what = "a server with a binary log and gtid_mode=ON that replicates from nobody"
    return server_that(fleet, is_pure_source, what)


def first_replica(fleet: World) -> Instance:
    """The first server that has a source.

    Raises:
        UnfitFleetError: There is none.
    """
    return server_that(fleet, lambda i: bool(i[ChannelMap].configured), "a replica")


def ends_in_xid(logged: LoggedGroup) -> bool:
    """Whether the group commits an InnoDB transaction."""
    return logged.group.body[-1][0] == EventType.XID


def rotate_when_due(fleet: World, instances: Iterable[Instance], delay_us: int = 0) -> None:
    """FLUSH BINARY LOGS as soon as the fault is due."""
    for instance in instances:
        fleet.schedule(
            fleet.fault_at + delay_us, instance, administration.flush_binary_logs, instance
        )
