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
    MYISAM,
    InfoRepositories,
)
from tallystick.producers.simulator.scenarios.design_scenario import Claim, DesignScenario, Expected
from tallystick.producers.simulator.server import lifecycle, receiver
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import Applier, ChannelMap, Receiver, RelayLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.replication_info.relay_log_info import Coordinates
    from tallystick.producers.simulator.server.channels import Channel

_INNODB, _MYISAM, _FILE = "replica-a1", "replica-a2", "replica-a3"
_SECOND = 1_000_000
_LOOK_US = 40_000


def _arrange(fleet: World) -> None:
    """Say when what happens; between the acts the source is written to."""
    innodb, myisam, file = (fleet.instances[name] for name in (_INNODB, _MYISAM, _FILE))
    plan: tuple[tuple[float, Callable[..., None], tuple[Any, ...]], ...] = (
        (0.4, _show_rows, (innodb,)),
        (0.5, _restart_with_myisam, (myisam,)),
        (0.5, _restart_with_file, (file,)),
        (1.4, _show_engines, (innodb, myisam)),
        (1.4, _show_file, (file,)),
        (2.0, _crash, (innodb, CrashPoint.BETWEEN_COMMIT_AND_POSITION, False)),
        (2.0, _crash, (myisam, CrashPoint.BETWEEN_COMMIT_AND_POSITION, False)),
        (2.0, _crash, (file, CrashPoint.BEHIND_POSITION, True)),
        (4.0, _stop_receiver, (innodb,)),
        (4.5, _leave_file_behind, (innodb,)),
        (5.4, _show_refusal, (innodb,)),
        (6.4, _show_return, (innodb,)),
        (8.5, _compare, (innodb, myisam, file)),
    )
    for at, act, args in plan:
        fleet.schedule(fleet.start_ts + int(at * _SECOND), None, act, *args)


def _show_rows(fleet: World, instance: Instance) -> None:
    channel = _channel(instance)
    connection = channel[MasterInfo].connection
    fleet.show(
        "table slave_master_info",
        instance,
        f"one row of {len(master_info.COLUMNS)} columns for channel {channel.name!r}: "
        f"{connection['User_name']} at {connection['Host']}:{connection['Port']}, heartbeat "
        f"{connection['Heartbeat']} s, TLS {connection['Enabled_ssl']}",
    )
    fleet.show(
        "table slave_relay_log_info",
        instance,
        f"one row of {len(relay_log_info.COLUMNS)} columns: "
        f"{_text(channel[RelayLogInfo].stored())}",
    )


def _restart_with_myisam(fleet: World, instance: Instance) -> None:
    instance.variables["sync_relay_log_info"] = 1
    acts.restart_with(fleet, instance, Repository.TABLE, MYISAM)


def _restart_with_file(fleet: World, instance: Instance) -> None:
    channel = _channel(instance)
    acts.restart_with(fleet, instance, Repository.FILE)
    row = channel[RelayLogInfo].stored()
    fleet.schedule(fleet.now + _LOOK_US, None, _show_migration, channel, row)


def _show_migration(fleet: World, channel: Channel, row: Coordinates | None) -> None:
    """As soon as the server is back."""
    if not channel.replica.is_running:
        fleet.schedule(fleet.now + _LOOK_US, None, _show_migration, channel, row)
        return
    file = channel.replica[InfoRepositories].files["relay-log.info"]
    rows = channel.replica[InfoRepositories].tables["slave_relay_log_info"].rows
    fleet.show(
        "REQ-6 T,!F FILE",
        channel.replica,
        f"the row said {_text(row)}; at the start relay-log.info was written with "
        f"{len(file.lines)} lines, and {len(rows)} rows are left",
    )


def _show_engines(fleet: World, innodb: Instance, myisam: Instance) -> None:
    for instance in (innodb, myisam):
        table = instance[InfoRepositories].tables["slave_relay_log_info"]
        fleet.show(
            "REQ-1",
            instance,
            f"slave_relay_log_info is a table of {table.engine}: transactional "
            f"{'yes' if table.is_transactional else 'no'}",
        )


def _show_file(fleet: World, instance: Instance) -> None:
    lines = instance[InfoRepositories].files["relay-log.info"].lines
    fleet.show(
        "option relay_log_info_repository",
        instance,
        f"FILE: line 1 is {lines[0]}, lines 2 to 5 are {', '.join(lines[1:5])}",
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
    if channel[RelayLogInfo].handler.is_transactional:
        fleet.show(
            "REQ-5 transactional repository",
            instance,
            f"died after a commit: the source's transactions are committed up to {committed}, "
            f"and the row says {_text(coordinates)}",
        )
        fleet.schedule(fleet.now + _LOOK_US, None, _show_recovery, channel, coordinates)
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


def _show_recovery(fleet: World, channel: Channel, coordinates: Coordinates) -> None:
    if not channel[Receiver].is_connected:
        fleet.schedule(fleet.now + _LOOK_US, None, _show_recovery, channel, coordinates)
        return
    fleet.show(
        "REQ-4",
        channel.replica,
        f"relay_log_recovery: the relay log begins anew with {channel[RelayLog].files[0].name}, "
        f"the source is asked from {coordinates[2]}:{coordinates[3]} on",
    )


def _stop_receiver(fleet: World, instance: Instance) -> None:
    channel = _channel(instance)
    before = channel[MasterInfo].stored()
    receiver.stop(fleet, channel)
    stored, read = channel[MasterInfo].stored(), channel[Receiver].read
    fleet.show(
        "REQ-3 (iii)",
        instance,
        f"the row said {before[0]}:{before[1]}; the receiver stopped at {read[0]}:{read[1]}, and "
        f"the row says {stored[0]}:{stored[1]}",
    )
    fleet.schedule(fleet.now + _SECOND // 10, instance, receiver.start, channel)


def _leave_file_behind(fleet: World, instance: Instance) -> None:
    acts.leave_file_behind(fleet, _channel(instance))
    lifecycle.shut_down(fleet, instance)


def _show_refusal(fleet: World, instance: Instance) -> None:
    channel = _channel(instance)
    fleet.show(
        "REQ-6 T,F TABLE",
        instance,
        f"a row and a file of {len(instance[InfoRepositories].files['relay-log.info'].lines)} "
        f"lines: error {channel.init_error}, receiver {channel[Receiver].is_running}, "
        f"applier {channel[Applier].is_running}",
    )
    acts.remove_file(fleet, channel)


def _show_return(fleet: World, instance: Instance) -> None:
    channel = _channel(instance)
    fleet.show(
        "REQ-6 T,!F TABLE",
        instance,
        f"the file is gone: the table is read, receiver {channel[Receiver].is_running}, applier "
        f"{channel[Applier].is_running}, now at {_text(channel[RelayLogInfo].stored())}",
    )


def _compare(fleet: World, *replicas: Instance) -> None:
    """At the end: how often each replica executed the source's transactions of InnoDB."""
    for instance in replicas:
        source = _channel(instance).source
        counts = Counter(id(group) for group in _transactions(instance))
        all_of_source = _transactions(source)
        again = sum(count - 1 for count in counts.values())
        missing = sum(id(group) not in counts for group in all_of_source)
        fleet.show(
            "motivation 2",
            instance,
            f"of {len(all_of_source)} transactions of the source {again} were executed again, "
            f"{missing} are missing",
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
                return f"{file.name}:{logged.end}"
    return "coordinates that were purged"


def _channel(instance: Instance) -> Channel:
    return instance[ChannelMap].channels[""]


def _text(coordinates: Coordinates | None) -> str:
    if coordinates is None:
        return "nothing"
    return f"{coordinates[0]}:{coordinates[1]} = {coordinates[2]}:{coordinates[3]}"


SCENARIO = DesignScenario(
    name="repositories",
    design="WL#2775",
    title="System tables for master.info and relay_log.info",
    options={
        "topology": "star",
        "profile": "mysql-8.0",
        "gtid_mode": "OFF",
        "auto_position": False,
        "duration_ms": 7_000,
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
        Claim(
            "REQ-6 T,!F FILE",
            "With the other option a start moves the data to the file.",
            ("info_repository_unambiguous", "info_repository_read_back"),
        ),
        Claim(
            "REQ-6 T,F TABLE",
            "Two repositories with data are an error, and replication does not start.",
            ("info_repository_unambiguous",),
        ),
        Claim(
            "REQ-6 T,!F TABLE",
            "Once one is removed the table is read.",
            ("info_repository_read_back",),
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
