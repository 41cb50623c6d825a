"""What a row of log_status is for: logs copied up to its positions, and a server made of them.

WL#9452, High Level Specification: the binary log names which transactions there are up to P, the
redo log brings tables and repositories up to the LSN, the relay log of each channel is copied up to
F_c, beyond which the repository does not point. START REPLICA then goes on where the copy ends. The
binary log itself begins anew: its copy gives the GTIDs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.binlog import parse_log_file_name
from tallystick.producers.simulator.innodb import redo_log
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.kernel.world import BOOT
from tallystick.producers.simulator.replication_info import recovery
from tallystick.producers.simulator.replication_info.rpl_info_table_access import InfoRepositories
from tallystick.producers.simulator.server import administration, binary_log, lifecycle
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import (
    ChannelMap,
    QueuedGroup,
    RelayFile,
    RelayLog,
)
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.bus import Bus
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import LoggedGroup
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

Rows = dict[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class CopiedChannel:
    """What is copied of a channel.

    Attributes:
        channel: The channel.
        relay_files: Its relay log up to F_c.
        flushed: F_c.
    """

    channel: Channel
    relay_files: tuple[RelayFile, ...]
    flushed: tuple[str, int]

    @property
    def unapplied(self) -> int:
        """Groups in the copy that no applier had executed."""
        groups = (group for file in self.relay_files for group in file.groups)
        return sum(1 for group in groups if group.is_complete and not group.is_applied)


@dataclass(frozen=True, slots=True)
class LogCopy:
    """What was copied by one row.

    Attributes:
        executed: GTIDs of the binary log up to P, and of what came before it.
        redo: InnoDB's log up to the LSN.
        info_tables: Rows of the repositories, which are in InnoDB.
        channels: The channels.
    """

    executed: GtidIntervals
    redo: Innodb
    info_tables: dict[str, Rows]
    channels: tuple[CopiedChannel, ...]

    def position_read(self, channel: Channel) -> tuple[str, int]:
        """Where the copied repository says that the receiver is in the source's log."""
        row = self.info_tables["slave_master_info"][channel.name,]
        return row["Master_log_name"], row["Master_log_pos"]

    def boot(self, fleet: World, instance: Instance) -> None:
        """The first start over the copy."""
        instance[BinaryLog].files = []
        instance[BinaryLog].lineage += 1
        instance[GtidState].begin_with(self.executed)
        instance[Innodb] = replace(self.redo)
        redo_log.recover(instance, fleet.rng)
        for name, rows in self.info_tables.items():
            instance[InfoRepositories].tables[name].rows = _rows(rows)
        for copied in self.channels:
            recovery.lose_memory(copied.channel)
            copied.channel[RelayLog].files = _copies(copied.relay_files)
        # relay_log_recovery would throw away what has just been copied: off for this start alone.
        variables = instance.variables
        instance.variables = variables | {"relay_log_recovery": False}
        repositories = recovery.read_back(instance)
        body = lifecycle.start_body(fleet, instance, crashed=False, repositories=repositories)
        body["data_lineage"] = "restored"
        instance.is_running = True
        instance[BinaryLog].rotation_is_due = False
        instance.journal.record(RecordType.START, body)
        redo_log.started(instance)
        binary_log.open_file(fleet, instance, 1, GtidIntervals())
        for copied in self.channels:
            recovery.recover(fleet, copied.channel)
            administration.start_replication(fleet, copied.channel)
        instance.variables = variables


def can_be_cut(instance: Instance) -> bool:
    """Whether no relay log ends inside a group, where a receiver by position would go on."""
    return all(c.partial_group is None for c in instance[ChannelMap].channels.values())


def copy_logs(instance: Instance, row: dict[str, Any]) -> LogCopy:
    """Copy what the row names.

    Args:
        instance: The server that gave the row.
        row: The row; nothing has moved since it was read.
    """
    local = row["LOCAL"]
    flushed = {
        channel["channel_name"]: (channel["relay_log_file"], channel["relay_log_position"])
        for channel in row["REPLICATION"]["channels"]
    }
    redo = replace(instance[Innodb])
    redo.lsn = row["STORAGE_ENGINES"]["InnoDB"]["LSN"]
    redo.written = redo.flushed = redo.lsn
    return LogCopy(
        executed=_gtids_up_to(instance, local["binary_log_file"], local["binary_log_position"]),
        redo=redo,
        info_tables={
            name: _rows(table.rows) for name, table in instance[InfoRepositories].tables.items()
        },
        channels=tuple(
            CopiedChannel(channel, tuple(_relay_log_up_to(channel, *flushed[name])), flushed[name])
            for name, channel in instance[ChannelMap].channels.items()
            if name in flushed
        ),
    )


def restore(fleet: World, instance: Instance, copy: LogCopy) -> None:
    """Throw the server's data away; it starts again over the copy."""
    lifecycle.shut_down(fleet, instance)
    instance[LogCopy] = copy


def logged_since(source: Instance, position: tuple[str, int]) -> list[LoggedGroup]:
    """The groups of a source's binary log from a coordinate on."""
    _, number = parse_log_file_name(position[0])
    found: list[LoggedGroup] = []
    for file in source[BinaryLog].files:
        if file.number >= number:
            first = position[1] if file.number == number else 0
            found += [logged for logged in file.groups() if logged.start >= first]
    return found


def _gtids_up_to(instance: Instance, name: str, position: int) -> GtidIntervals:
    """GTIDs of the binary log up to P, and of the time before its oldest file."""
    last = next(file for file in instance[BinaryLog].files if file.name == name)
    gtids = instance[GtidState].table_only.copy()
    gtids.update(last.gtids(position))
    return gtids


def _relay_log_up_to(channel: Channel, name: str, position: int) -> list[RelayFile]:
    """Copies of the relay log files up to F_c."""
    _, number = parse_log_file_name(name)
    copies = _copies(tuple(file for file in channel[RelayLog].files if file.number <= number))
    recovery.truncate(copies[-1], position)
    return copies


def _copies(files: tuple[RelayFile, ...]) -> list[RelayFile]:
    copies = []
    for file in files:
        copy = RelayFile(file.base_name, file.number, file.previous_gtids.copy())
        copy.end, copy.event_ends = file.end, list(file.event_ends)
        copy.groups = [_group_in(copy, group) for group in file.groups]
        copy.framings = [replace(f, relay_file=copy) for f in file.framings]
        copies.append(copy)
    return copies


def _group_in(file: RelayFile, group: QueuedGroup) -> QueuedGroup:
    return replace(group, relay_file=file)


def _rows(rows: Rows) -> Rows:
    return {key: dict(row) for key, row in rows.items()}


def join(bus: Bus) -> None:
    """A server that was restored starts over the copy."""
    bus.connect(BOOT, _boot)


def _boot(fleet: World, instance: Instance, _crashed: bool) -> bool:
    copy = instance.get(LogCopy)
    if copy is None:
        return True
    instance.remove(LogCopy)
    copy.boot(fleet, instance)
    return False
