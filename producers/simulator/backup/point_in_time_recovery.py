"""Point-in-time recovery: restore an image, then replay the binary log up to a stop point.

The replay begins exactly where the image ends and executes the groups as an applier would: with
their GTIDs, their server ids and their commit times. What the server has already is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.binlog import MAGIC_LENGTH, parse_log_file_name
from tallystick.producers.simulator.backup import backup_locks
from tallystick.producers.simulator.backup.backup_protocol import Backup
from tallystick.producers.simulator.backup.backup_synchronization import BackupSynchronization
from tallystick.producers.simulator.backup.outer_locks import OuterLocks
from tallystick.producers.simulator.backup.tables import TableData
from tallystick.producers.simulator.innodb import gtid_persistence, redo_log
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.kernel.bus import Change, Notice
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.kernel.topology import InstancePlan, server_uuids
from tallystick.producers.simulator.kernel.world import WENT_DOWN
from tallystick.producers.simulator.server import administration, binary_log, commit, lifecycle
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap
from tallystick.producers.simulator.server.clients import Clients
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState
from tallystick.producers.simulator.server.locks import MAY_EXECUTE, MAY_MOVE, MAY_WRITE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallystick.producers.simulator.backup.backup_image import Image
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group, LoggedGroup
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.binary_log import BinlogFile

RESTORED: Notice[[World, Instance]] = Notice(
    "an image was restored; the server has its sets and data"
)
REPLAY: Change[[World, Instance, list[Group]], list[Group]] = Change(
    "the groups that a point-in-time recovery is about to execute, in order"
)

_RESTORE_US = 40_000
"""A server is down while its data directory is replaced."""
_GROUP_US = (200, 1_200)

Coordinates = tuple[str, int]


@dataclass(frozen=True, slots=True)
class StopPoint:
    """Where a replay ends: the first of these that is reached; without any, the end of the log.

    Attributes:
        position: Binary log coordinate: nothing that ends after it.
        before_ts: Microseconds: nothing that was committed at that time or later.
        gtid: ``uuid:gno``: this group is the last one.
    """

    position: Coordinates | None = None
    before_ts: int | None = None
    gtid: str | None = None

    def is_behind(self, file: BinlogFile, logged: LoggedGroup) -> bool:
        """Whether a group lies beyond the stop point."""
        if self.position is not None:
            _, number = parse_log_file_name(self.position[0])
            if (file.number, logged.end) > (number, self.position[1]):
                return True
        ts = logged.group.original_commit_timestamp
        return self.before_ts is not None and ts >= self.before_ts

    def is_last(self, group: Group) -> bool:
        """Whether a group is the last one."""
        return self.gtid is not None and f"{group.sid}:{group.gno}" == self.gtid

    def fields(self) -> dict[str, Any]:
        """As the journal has it."""
        fields: dict[str, Any] = {}
        if self.position is not None:
            fields["stop_file"], fields["stop_position"] = self.position
        if self.before_ts is not None:
            fields["stop_time"] = self.before_ts
        if self.gtid is not None:
            fields["stop_gtid"] = self.gtid
        return fields


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a point-in-time recovery has done.

    Attributes:
        server: The server that was restored.
        image: What it was restored from.
        source: Whose binary log was replayed.
        start: Where in it the replay began.
        end: Where in it the replay ended.
        group_count: How many groups were executed.
    """

    server: Instance
    image: Image
    source: Instance
    start: Coordinates
    end: Coordinates
    group_count: int


def add_server(fleet: World, like: Instance) -> Instance:
    """A new, empty server of the version and the settings of another one."""
    number = len(fleet.instances) + 1
    plan = InstancePlan(f"restored-{number}")
    server = fleet.add_instance(
        plan, number, next(server_uuids(fleet.rng, 1)), like[BinaryLog].base_name
    )
    server.version = like.version
    administration.set_variables(server, **like.variables)
    server[Clients].writes = False
    return server


def recover(
    fleet: World,
    image: Image,
    server: Instance,
    stop: StopPoint,
    when_done: Callable[[Recovery], None] = lambda _: None,
    *,
    source: Instance | None = None,
) -> None:
    """Restore an image onto a server and replay; arguments as of ``replay``."""

    def go_on() -> None:
        replay(fleet, image, server, stop, when_done, source=source)

    restore(fleet, image, server, go_on)


def restore(
    fleet: World, image: Image, server: Instance, when_up: Callable[[], None] = lambda: None
) -> None:
    """Replace the data of a server by those of an image; it comes up with histories of its own.

    Nobody replicates from the server, and its channels are given up.
    """
    backup_locks.end_all(fleet, server)
    server.remove(OuterLocks)
    commit.finish_all(fleet, server)
    for channel in server[ChannelMap].configured:
        administration.reset_replica(fleet, channel, everything=True)
    server.is_running = False
    server[CommitQueue].generation += 1
    server.journal.record(RecordType.STOP, {"clean": True})
    fleet.bus.emit(WENT_DOWN, fleet, server)
    fleet.schedule(fleet.now + _RESTORE_US, None, _come_up, image, server, when_up)


def _come_up(fleet: World, image: Image, server: Instance, when_up: Callable[[], None]) -> None:
    server[BinaryLog].files = []
    server[BinaryLog].lineage += 1
    server[BinaryLog].rotation_is_due = False
    server[GtidState].begin_with(image.executed)
    server[TableData] = image.data.copy()
    server[Innodb] = redo_log.fresh(fleet.rng)
    server[Innodb].transactions = image.transactions.copy()
    gtid_persistence.forget_memory(server)
    server[CommitQueue].prepared_xa = server[Innodb].transactions.prepared()
    # A replay must not wait for another backup's validity point.
    server.remove(BackupSynchronization)
    server.remove(Backup)
    fleet.bus.emit(RESTORED, fleet, server)
    server.is_running = True
    server.journal.record(
        RecordType.START, {**lifecycle.start_body(fleet, server), "data_lineage": "restored"}
    )
    if server[BinaryLog].is_open:
        binary_log.open_file(fleet, server, 1, GtidIntervals())
    _record(
        server,
        step="restore",
        peer=image.instance.instance_id,
        **{
            **image.summary(),
            "gtid_executed": server[GtidState].executed.text(),
            "tables": server[TableData].checksums(),
        },
    )
    when_up()


def replay(
    fleet: World,
    image: Image,
    server: Instance,
    stop: StopPoint,
    when_done: Callable[[Recovery], None],
    *,
    source: Instance | None = None,
) -> None:
    """Execute what the binary log holds after the image, up to the stop point.

    Args:
        fleet: The fleet.
        image: What the server has been restored from.
        server: The server.
        stop: Where the replay ends.
        when_done: Gets the recovery.
        source: Whose binary log; None: that of the server that was backed up. Of another one, a
            source of that server, the replay begins at the executed position of the image.
    """
    source = image.instance if source is None else source
    start = _start(image, source)
    found = list(_groups(source, _lineage(image, source), start, stop))
    end = stop.position or (found[-1][:2] if found else start)
    _record(
        server,
        step="replay",
        backup_id=image.backup_id,
        peer=source.instance_id,
        from_file=start[0],
        from_position=start[1],
        **stop.fields(),
    )
    groups = fleet.bus.emit(REPLAY, fleet, server, [group for *_, group in found])
    _allow_gtid_next(server, groups)
    recovery = Recovery(server, image, source, start, end, len(groups))
    _execute_next(fleet, recovery, groups, 0, when_done)


def _allow_gtid_next(server: Instance, groups: list[Group]) -> None:
    """Each group is replayed as it was logged, so the server's mode has to let both kinds in."""
    if server[GtidState].mode == "ON" and any(group.is_anonymous for group in groups):
        administration.set_variables(server, gtid_mode="ON_PERMISSIVE")
    elif server[GtidState].mode == "OFF" and any(not group.is_anonymous for group in groups):
        administration.set_variables(server, gtid_mode="OFF_PERMISSIVE")


def _start(image: Image, source: Instance) -> Coordinates:
    """Where the image is in the binary log of a server."""
    if source is image.instance:
        assert image.position is not None
        return image.position
    for channel in image.channels:
        if channel["source_instance"] == source.instance_id and channel["exec_source_log_file"]:
            return channel["exec_source_log_file"], channel["exec_source_log_pos"]
    first = _archive(source)[0][1]
    return first.name, MAGIC_LENGTH


def _lineage(image: Image, source: Instance) -> int:
    return image.binlog_lineage if source is image.instance else source[BinaryLog].lineage


def _archive(source: Instance) -> list[tuple[int, BinlogFile]]:
    archive = source[BinaryLog].archive
    assert archive is not None
    return archive


def _groups(
    source: Instance, lineage: int, start: Coordinates, stop: StopPoint
) -> Iterator[tuple[str, int, Group]]:
    """Where each group between the two positions ends, and the group."""
    _, first = parse_log_file_name(start[0])
    for of_lineage, file in _archive(source):
        if of_lineage != lineage or file.number < first:
            continue
        for logged in file.groups():
            if file.number == first and logged.start < start[1]:
                continue
            if stop.is_behind(file, logged):
                return
            yield file.name, logged.end, logged.group
            if stop.is_last(logged.group):
                return


def _execute_next(
    fleet: World,
    recovery: Recovery,
    groups: list[Group],
    index: int,
    when_done: Callable[[Recovery], None],
) -> None:
    server = recovery.server
    while index < len(groups) and _has(server, groups[index]):
        index += 1
    if index == len(groups):
        commit.finish_all(fleet, server)
        _record(
            server,
            step="replayed",
            backup_id=recovery.image.backup_id,
            peer=recovery.source.instance_id,
            to_file=recovery.end[0],
            to_position=recovery.end[1],
            gtid_executed=server[GtidState].executed.text(),
            tables=server[TableData].checksums(),
        )
        when_done(recovery)
        return
    later = partial(_execute_next, fleet, recovery, groups, index, when_done)
    kind = groups[index].kind
    if not (
        fleet.bus.emit(MAY_WRITE, server, kind, later)
        and fleet.bus.emit(MAY_EXECUTE, server, kind, later)
        and fleet.bus.emit(MAY_MOVE, server, later)
    ):
        return
    # As `mysqlbinlog | mysql` has it: the earlier GTID and commit time, another server_id.
    commit.commit(fleet, server, replace(groups[index], server_id=server.server_id))
    pace = fleet.rng.randrange(*_GROUP_US)
    fleet.schedule(
        fleet.now + pace,
        server,
        partial(
            _execute_next, recovery=recovery, groups=groups, index=index + 1, when_done=when_done
        ),
    )


def _has(server: Instance, group: Group) -> bool:
    return group.sid is not None and (group.sid, group.gno) in server[GtidState].logged


def _record(server: Instance, **body: Any) -> None:
    server.journal.record(RecordType.BACKUP, body)
