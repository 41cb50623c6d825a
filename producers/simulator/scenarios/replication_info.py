"""System tables for master.info and relay_log.info (WL#2775), shown: where replicas go on.

Three replicas of one source, by file and position and without GTIDs, so that what is stored
decides: one keeps its positions in InnoDB tables, one in MyISAM tables, one in files. Each crashes.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.replication_info import acts, master_info, relay_log_info
from tallystick.producers.simulator.replication_info.crash_points import CrashPlan, CrashPoint
from tallystick.producers.simulator.replication_info.master_info import MasterInfo
from tallystick.producers.simulator.replication_info.relay_log_info import RelayLogInfo
from tallystick.producers.simulator.replication_info.rpl_info_handler import Repository
from tallystick.producers.simulator.replication_info.rpl_info_table_access import (
    INNODB,
    MYISAM,
    InfoRepositories,
)
from tallystick.producers.simulator.scenarios.design_scenario import (
    Claim,
    DesignScenario,
    Expected,
    text_of,
)
from tallystick.producers.simulator.scenarios.start_cells import StartCells
from tallystick.producers.simulator.server import administration, lifecycle, receiver
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import Applier, ChannelMap, Receiver, RelayLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.replication_info.relay_log_info import Coordinates
    from tallystick.producers.simulator.replication_info.rpl_info_fields import Columns
    from tallystick.producers.simulator.server.channels import Channel

_INNODB, _MYISAM, _FILE = "replica-a1", "replica-a2", "replica-a3"
_SECOND = 1_000_000
_LOOK_US = 40_000


def _arrange(fleet: World) -> None:
    """Say when what happens; between the acts the source is written to."""
    innodb, myisam, file = (fleet.instances[name] for name in (_INNODB, _MYISAM, _FILE))
    StartCells(fleet)
    # The document's default: nothing but the moments that it names writes the receiver's row.
    administration.set_variables(innodb, sync_source_info=0)
    plan: tuple[tuple[float, Callable[..., None], tuple[Any, ...]], ...] = (
        (0.4, _show_rows, (innodb,)),
        (0.5, _restart_with_myisam, (myisam,)),
        (0.5, acts.restart_with, (file, Repository.FILE)),
        (1.4, _show_engines, (innodb, myisam)),
        (1.4, _show_file, (file,)),
        (2.0, _crash, (innodb, CrashPoint.BETWEEN_COMMIT_AND_POSITION, False)),
        (2.0, _crash, (myisam, CrashPoint.BETWEEN_COMMIT_AND_POSITION, False)),
        (2.0, _crash, (file, CrashPoint.BEHIND_POSITION, True)),
        (4.0, _stop_receiver, (innodb,)),
        (4.5, _leave_behind, (innodb, Repository.FILE)),
        (4.5, _leave_behind, (file, Repository.TABLE)),
        (4.5, acts.restart_with, (myisam, Repository.FILE)),
        (5.4, _remove, (innodb, Repository.FILE)),
        (5.4, _remove, (file, Repository.TABLE)),
        (5.4, acts.restart_with, (myisam, Repository.TABLE)),
        (6.6, _begin_anew, (innodb,)),
        (6.6, _begin_anew, (file,)),
        (10.0, _compare, (innodb, myisam, file)),
    )
    for at, act, args in plan:
        fleet.schedule(fleet.start_ts + int(at * _SECOND), None, act, *args)


def _show_rows(fleet: World, instance: Instance) -> None:
    """What the tables hold: read from them, not from what the threads know."""
    channel = _channel(instance)
    (master,) = instance[InfoRepositories].tables[master_info.TABLE].rows.values()
    (relay,) = instance[InfoRepositories].tables[relay_log_info.TABLE].rows.values()
    position = master["Master_log_name"], master["Master_log_pos"]
    if tuple(master) == _names(master_info.COLUMNS) and position[0] == channel[Receiver].read[0]:
        fleet.show(
            "table slave_master_info",
            instance,
            f"one row of {len(master)} columns for channel {channel.name!r}: read {_at(*position)},"
            f" {master['User_name']} at {master['Host']}:{master['Port']}, heartbeat "
            f"{master['Heartbeat']} s, TLS {master['Enabled_ssl']}",
        )
    if tuple(relay) == _names(relay_log_info.COLUMNS):
        _show_relay_log_info(fleet, channel, len(relay))


def _show_relay_log_info(fleet: World, channel: Channel, columns: int) -> None:
    """Once it is where the applier is: what no XID ends leaves the row until the next commit."""
    stored = channel[RelayLogInfo].stored()
    if stored != channel[Applier].group_end:
        fleet.schedule(fleet.now + _LOOK_US, None, _show_relay_log_info, channel, columns)
        return
    fleet.show(
        "table slave_relay_log_info",
        channel.replica,
        f"one row of {columns} columns, where the applier is: {_text(stored)}",
    )


def _names(columns: Columns) -> tuple[str, ...]:
    return tuple(name for name, _ in columns)


def _restart_with_myisam(fleet: World, instance: Instance) -> None:
    instance.variables["sync_relay_log_info"] = 1
    acts.restart_with(fleet, instance, Repository.TABLE, MYISAM)


def _show_engines(fleet: World, innodb: Instance, myisam: Instance) -> None:
    for instance, engine in ((innodb, INNODB), (myisam, MYISAM)):
        (channel,) = instance[ChannelMap].channels.values()
        table = instance[InfoRepositories].tables[relay_log_info.TABLE]
        is_transactional = channel[RelayLogInfo].handler.is_transactional
        if table.engine == engine and is_transactional is (engine == INNODB):
            fleet.show(
                "REQ-1",
                instance,
                f"{table.name} is a table of {engine}, which is "
                f"{'' if is_transactional else 'not '}transactional; the applier goes on: "
                f"{_text(channel[RelayLogInfo].stored())}",
            )


def _show_file(fleet: World, instance: Instance) -> None:
    lines = instance[InfoRepositories].files["relay-log.info"].lines
    relay_name, relay_pos, name, position = _channel(instance)[Applier].group_end
    if lines[1:5] == [f"./{relay_name}", str(relay_pos), name, str(position)]:
        fleet.show(
            "option relay_log_info_repository",
            instance,
            f"FILE: line 1 is {lines[0]}, lines 2 to 5 are {', '.join(lines[1:5])}, where the "
            "applier is",
        )


def _crash(fleet: World, instance: Instance, point: CrashPoint, power_cut: bool) -> None:
    plan = CrashPlan(point, passes=4, power_cut=power_cut, kinds=(GroupKind.INNODB,))
    acts.crash_at(fleet, instance, plan)
    fleet.schedule(fleet.now + _LOOK_US, None, _show_what_is_left, instance, power_cut)


def _show_what_is_left(fleet: World, instance: Instance, power_cut: bool) -> None:
    """While the server is down: what is stored, against what is committed."""
    if instance.is_running:
        fleet.schedule(fleet.now + _LOOK_US, None, _show_what_is_left, instance, power_cut)
        return
    channel = _channel(instance)
    coordinates = channel[RelayLogInfo].stored()
    assert coordinates is not None
    last = instance[BinaryLog].active.groups()[-1].group
    committed = _end_of(channel, last)
    is_stored = committed == _at(*coordinates[2:])
    if channel[RelayLogInfo].handler.is_transactional:
        if is_stored:
            fleet.show(
                "REQ-5 transactional repository",
                instance,
                f"died after a commit: the source's transactions are committed up to {committed},"
                f" and the row says {_text(coordinates)}",
            )
        number = channel[RelayLog].files[-1].number
        fleet.schedule(fleet.now + _LOOK_US, None, _show_recovery, channel, coordinates, number)
    elif is_stored:
        return
    elif power_cut:
        fleet.show(
            "REQ-3 file against table",
            instance,
            f"the power failed: transactions are committed up to {committed}, the synced lines of "
            f"relay-log.info say {_text(coordinates)}",
        )
    else:
        fleet.show(
            "REQ-5 other repository",
            instance,
            f"died between a commit and its position: committed up to {committed}, the row of "
            f"MyISAM says {_text(coordinates)}",
        )


def _show_recovery(fleet: World, channel: Channel, coordinates: Coordinates, number: int) -> None:
    if not channel[Receiver].is_connected:
        fleet.schedule(fleet.now + _LOOK_US, None, _show_recovery, channel, coordinates, number)
        return
    first = channel[RelayLog].files[0]
    if first.number <= number:
        return
    fleet.show(
        "REQ-4",
        channel.replica,
        f"relay_log_recovery: the relay log begins anew with {first.name}, the source is asked "
        f"from {_at(*coordinates[2:])} on",
    )


def _stop_receiver(fleet: World, instance: Instance) -> None:
    channel = _channel(instance)
    before = channel[MasterInfo].stored()
    receiver.stop(fleet, channel)
    stored, read = channel[MasterInfo].stored(), channel[Receiver].read
    if before != stored == read:
        fleet.show(
            "REQ-3 (iii)",
            instance,
            f"the row said {_at(*before)}; the receiver stopped at {_at(*read)}, and the row says "
            f"{_at(*stored)}",
        )
    fleet.schedule(fleet.now + _SECOND // 10, instance, receiver.start, channel)


def _leave_behind(fleet: World, instance: Instance, repository: Repository) -> None:
    acts.leave_behind(fleet, _channel(instance), repository)
    lifecycle.shut_down(fleet, instance)


def _remove(fleet: World, instance: Instance, repository: Repository) -> None:
    acts.remove(fleet, _channel(instance), repository)


def _begin_anew(fleet: World, instance: Instance) -> None:
    """RESET REPLICA leaves no relay log info; a start creates it; then CHANGE SOURCE."""
    channel = _channel(instance)
    administration.stop_replication(fleet, channel)
    position = channel[Applier].executed
    administration.reset_replica(fleet, channel)
    lifecycle.shut_down(fleet, instance)
    fleet.schedule(fleet.now + _SECOND, instance, _go_on, channel, position)


def _go_on(fleet: World, channel: Channel, position: tuple[str, int]) -> None:
    administration.change_source(fleet, channel, channel.source, position=position)
    administration.start_replication(fleet, channel)


def _compare(fleet: World, *replicas: Instance) -> None:
    """At the end: how often each replica executed the source's transactions of InnoDB."""
    for instance in replicas:
        source = _channel(instance).source
        counts = Counter(id(group) for group in _transactions(instance))
        all_of_source = _transactions(source)
        again = sum(count - 1 for count in counts.values())
        missing = sum(id(group) not in counts for group in all_of_source)
        if not missing and bool(again) is (instance.instance_id != _INNODB):
            fleet.show(
                "motivation 2",
                instance,
                f"of {len(all_of_source)} transactions of the source {again} were executed again, "
                "none is missing",
            )


def _transactions(instance: Instance) -> list[Group]:
    return [
        logged.group
        for file in instance[BinaryLog].files
        for logged in file.groups()
        if logged.group.kind is GroupKind.INNODB
    ]


def _end_of(channel: Channel, group: Group) -> str:
    """Where a group ends in the source's binary log."""
    for file in reversed(channel.source[BinaryLog].files):
        for logged in file.groups():
            if logged.group is group:
                return _at(file.name, logged.end)
    return "coordinates that were purged"


def _channel(instance: Instance) -> Channel:
    return instance[ChannelMap].channels[""]


def _text(coordinates: Coordinates | None) -> str:
    if coordinates is None:
        return "nothing"
    return f"{_at(*coordinates[:2])} = {_at(*coordinates[2:])}"


def _at(file: str, position: int) -> str:
    return text_of((file, position))


_READ = "info_repository_read_back"
_CELLS = (
    ("!T,F TABLE", "The table is filled from the file, which is deleted.", _READ),
    ("!T,F FILE", "The file is read.", _READ),
    ("T,F TABLE", "Both have data: an error, and replication does not start."),
    ("T,F FILE", "The same, whatever the option."),
    ("!T,!F TABLE", "Without data a fresh row is filled in."),
    ("!T,!F FILE", "Without data a fresh file is created."),
    ("T,!F TABLE", "The table is read.", _READ),
    ("T,!F FILE", "The file is written from the table, which is emptied.", _READ),
)
"""Cells of REQ-6, what a start does in them, and what else audits that."""

SCENARIO = DesignScenario(
    name="repositories",
    design="WL#2775",
    title="System tables for master.info and relay_log.info",
    options={
        "topology": "star",
        "profile": "mysql-8.0",
        "gtid_mode": "OFF",
        "auto_position": False,
        "duration_ms": 8_000,
        "collection_interval_ms": 1_000,
        "writes_per_second": 14.0,
        "max_binlog_size": 1 << 20,
        "acts": False,
    },
    arrange=_arrange,
    claims=(
        Claim(
            "motivation 2",
            "With the position in the transaction no crash falls between data and position.",
            ("applied_exactly_once", "source_coordinate_valid"),
        ),
        Claim(
            "REQ-1",
            "Any storage engine may hold the tables; whether it is transactional decides.",
            ("relay_info_updated_with_commit", "relay_info_coordinates_paired"),
        ),
        Claim(
            "table slave_master_info",
            "One row for each channel says where its receiver is and how it reaches the source.",
            ("channel_rows_unique", "master_info_not_ahead_of_relay"),
        ),
        Claim(
            "table slave_relay_log_info",
            "One row for each channel says where its applier is, in both logs.",
            ("relay_info_coordinates_paired",),
        ),
        Claim(
            "option relay_log_info_repository",
            "The same values are in the lines of a file, where the option says so.",
            ("info_repository_read_back",),
        ),
        Claim(
            "REQ-3 (iii)",
            "A stop of the receiver writes its position.",
            ("info_write_steps_complete",),
        ),
        Claim(
            "REQ-3 file against table",
            "A file is written at once and synced later: a power cut takes the rest back.",
            ("info_repository_read_back",),
        ),
        Claim(
            "REQ-4",
            "After a failure the relay logs are thrown away and fetched again.",
            ("relay_mirrors_source", "source_coordinate_valid"),
        ),
        Claim(
            "REQ-5 transactional repository",
            "The position commits with the data.",
            ("relay_info_updated_with_commit", "applied_exactly_once"),
        ),
        Claim(
            "REQ-5 other repository",
            "Another repository is written after the commit, so a crash in between repeats it.",
            ("applied_exactly_once",),
        ),
        *(
            Claim(f"REQ-6 {cell}", text, ("info_repository_unambiguous", *more))
            for cell, text, *more in _CELLS
        ),
    ),
    expected=(
        Expected(
            _MYISAM,
            "applied_exactly_once",
            "A MyISAM row is written after the commit: the crash between them repeats it (REQ-5).",
        ),
        Expected(
            _FILE,
            "applied_exactly_once",
            "The file was not synced since the relay log changed: all since then is repeated "
            "(REQ-3, REQ-5).",
        ),
    ),
)
