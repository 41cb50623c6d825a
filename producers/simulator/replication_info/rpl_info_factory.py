"""Rpl_info_factory: assembles repositories, chooses one at a start, migrates what it finds (REQ-6).

Two options choose: master_info_repository and relay_log_info_repository. What another option left
is moved to where the present one wants it. Two repositories with data are an error: nobody can
say which is newer, and replication of the channel does not start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tallystick.producers.simulator.replication_info import (
    crash_points,
    master_info,
    relay_log_info,
    worker_info,
)
from tallystick.producers.simulator.replication_info.crash_points import CrashPoint
from tallystick.producers.simulator.replication_info.master_info import MasterInfo
from tallystick.producers.simulator.replication_info.relay_log_info import RelayLogInfo
from tallystick.producers.simulator.replication_info.rpl_info_fields import TornInfoError
from tallystick.producers.simulator.replication_info.rpl_info_file import InfoFile, RplInfoFile
from tallystick.producers.simulator.replication_info.rpl_info_handler import Repository
from tallystick.producers.simulator.replication_info.rpl_info_table import RplInfoTable
from tallystick.producers.simulator.replication_info.rpl_info_table_access import (
    InfoRepositories,
    system_table,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.replication_info.rpl_info_fields import (
        Columns,
        RplInfoFields,
    )
    from tallystick.producers.simulator.replication_info.rpl_info_handler import RplInfoHandler
    from tallystick.producers.simulator.server.channels import Channel

ER_REPLICA_INIT_REPOSITORY: Final = 1872
"""Replication cannot start: its repositories could not be initialised."""
_COORDINATES: Final = ("Relay_log_name", "Relay_log_pos", "Master_log_name", "Master_log_pos")


@dataclass(frozen=True, slots=True)
class _Kind:
    """One of the two infos of a channel.

    Attributes:
        table: The system table's name.
        columns: Its columns.
        option: The variable that chooses the repository.
        file: Beginning of the file's name.
    """

    table: str
    columns: Columns
    option: str
    file: str


MASTER: Final = _Kind(master_info.TABLE, master_info.COLUMNS, master_info.OPTION, "master")
RELAY: Final = _Kind(
    relay_log_info.TABLE, relay_log_info.COLUMNS, relay_log_info.OPTION, "relay-log"
)


def table_handler(channel: Channel, kind: _Kind) -> RplInfoTable:
    """The repository TABLE of a channel."""
    table = system_table(channel.replica, kind.table, kind.columns)
    return RplInfoTable(table, (channel.name,))


def file_handler(channel: Channel, kind: _Kind) -> RplInfoFile:
    """The repository FILE of a channel."""
    name = f"{kind.file}-{channel.name}.info" if channel.name else f"{kind.file}.info"
    files = channel.replica[InfoRepositories].files
    if name not in files:
        files[name] = InfoFile(name)
    return RplInfoFile(files[name], kind.columns)


def handler_of(channel: Channel, kind: _Kind, repository: Repository) -> RplInfoHandler:
    """One of both."""
    if repository is Repository.FILE:
        return file_handler(channel, kind)
    return table_handler(channel, kind)


def chosen_handler(channel: Channel, kind: _Kind) -> RplInfoHandler:
    """The repository that the option chooses."""
    return handler_of(channel, kind, Repository(channel.replica.variables[kind.option]))


def create(fleet: World, channel: Channel) -> None:
    """Assemble the infos of a new channel; nothing is stored yet."""
    connection = master_info.connection(fleet.scenario.seed, channel)
    channel[MasterInfo] = MasterInfo(chosen_handler(channel, MASTER), connection)
    channel[RelayLogInfo] = RelayLogInfo(chosen_handler(channel, RELAY))


def initialise(channel: Channel) -> list[dict[str, Any]]:
    """What a start does with the repositories of a channel: find, migrate or refuse, read.

    Returns:
        What the ``start`` record has of both.
    """
    found = [_find(channel, kind) for kind in (MASTER, RELAY)]
    if any(one["file"] and one["table"] for one in found):
        return _refuse(channel, found)
    fresh: tuple[Callable[[], RplInfoFields], ...] = (
        lambda: channel[MasterInfo].fields(channel),
        lambda: channel[RelayLogInfo].fields(channel, relay_log_info.fresh_coordinates(channel)),
    )
    try:
        handlers = [
            _migrate(channel, kind, make) for kind, make in zip((MASTER, RELAY), fresh, strict=True)
        ]
        channel[MasterInfo].handler, channel[RelayLogInfo].handler = handlers
        channel[MasterInfo].read_back(channel)
        channel[RelayLogInfo].read_back(channel)
    except TornInfoError:
        return _refuse(channel, found)
    channel.is_configured = True
    channel.init_error = 0
    worker_info.initialise(channel)
    return [{**one, **_found_in(handler)} for one, handler in zip(found, handlers, strict=True)]


def _refuse(channel: Channel, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    channel.is_configured = False
    channel.init_error = ER_REPLICA_INIT_REPOSITORY
    return [{**one, "started": False} for one in found]


def _found_in(handler: RplInfoHandler) -> dict[str, Any]:
    """What a start records of a repository that it has read."""
    fields = handler.init_info()
    values = {} if fields is None else fields.values
    row = {name: values[name] for name in _COORDINATES if name in values}
    found: dict[str, Any] = {"started": True, "row": row}
    if isinstance(handler, RplInfoTable):
        found["engine"] = handler.access.table.engine
    return found


def _find(channel: Channel, kind: _Kind) -> dict[str, Any]:
    return {
        "channel": channel.name,
        "repository": kind.table,
        "file": file_handler(channel, kind).check_info(),
        "table": table_handler(channel, kind).check_info(),
        "option": str(channel.replica.variables[kind.option]),
    }


def _migrate(channel: Channel, kind: _Kind, fresh: Callable[[], RplInfoFields]) -> RplInfoHandler:
    """The matrix of REQ-6, but for its errors; the repository that holds the data afterwards."""
    file, table = file_handler(channel, kind), table_handler(channel, kind)
    chosen = chosen_handler(channel, kind)
    other = table if chosen.kind is Repository.FILE else file
    if chosen.check_info():
        return chosen
    left_behind = other.init_info()
    fields = fresh() if left_behind is None else left_behind
    chosen.flush_info(fields, force=True, sync_period=0)
    chosen.end_info()
    if left_behind is not None:
        crash_points.reach(channel, CrashPoint.BETWEEN_FILL_AND_DELETE)
        other.reset_info()
    return chosen
