"""Relay_log_info: what the applier of a channel knows, and how it is stored (REQ-5).

Up to where the relay log is executed, and the same position in the source's binary log: the 15
columns of slave_relay_log_info.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tallystick.coordinates.values.binlog import MAGIC_LENGTH, format_log_file_name
from tallystick.producers.simulator.replication_info.rpl_info_fields import (
    NUMBER_OF_LINES,
    RplInfoFields,
)
from tallystick.producers.simulator.replication_info.rpl_info_file import RplInfoFile
from tallystick.producers.simulator.server.channels import Applier, RelayLog

if TYPE_CHECKING:
    from tallystick.producers.simulator.replication_info.rpl_info_fields import Columns
    from tallystick.producers.simulator.replication_info.rpl_info_handler import (
        RplInfoHandler,
        Written,
    )
    from tallystick.producers.simulator.server.channels import Channel

TABLE: Final = "slave_relay_log_info"
OPTION: Final = "relay_log_info_repository"
COLUMNS: Final[Columns] = (
    (NUMBER_OF_LINES, int),
    ("Relay_log_name", str),
    ("Relay_log_pos", int),
    ("Master_log_name", str),
    ("Master_log_pos", int),
    ("Sql_delay", int),
    ("Number_of_workers", int),
    ("Id", int),
    ("Channel_name", str),
    ("Privilege_checks_username", str),
    ("Privilege_checks_hostname", str),
    ("Require_row_format", int),
    ("Require_table_primary_key_check", str),
    ("Assign_gtids_to_anonymous_transactions_type", str),
    ("Assign_gtids_to_anonymous_transactions_value", str),
)
_LINES_BEFORE_TEAR: Final = 3
"""Number_of_lines, Relay_log_name, Relay_log_pos."""
_LINES: Final = 14
"""What MySQL 8.0 writes as the first line: it does not count that line itself here."""

Coordinates = tuple[str, int, str, int]
"""Relay log file and position, source file and position."""


class RelayLogInfo:
    """What the applier keeps of a channel."""

    def __init__(self, handler: RplInfoHandler) -> None:
        self.handler = handler

    def fields(self, channel: Channel, coordinates: Coordinates) -> RplInfoFields:
        """What a write stores of coordinates."""
        relay_name, relay_pos, source_name, source_pos = coordinates
        return RplInfoFields(
            COLUMNS,
            {
                NUMBER_OF_LINES: _LINES,
                "Relay_log_name": f"./{relay_name}" if relay_name else "",
                "Relay_log_pos": relay_pos,
                "Master_log_name": source_name,
                "Master_log_pos": source_pos,
                "Sql_delay": 0,
                "Number_of_workers": channel.replica.variables["replica_parallel_workers"],
                "Id": channel.number,
                "Channel_name": channel.name,
                "Privilege_checks_username": None,
                "Privilege_checks_hostname": None,
                "Require_row_format": 0,
                "Require_table_primary_key_check": "STREAM",
                "Assign_gtids_to_anonymous_transactions_type": "OFF",
                "Assign_gtids_to_anonymous_transactions_value": "",
            },
        )

    def flush(self, channel: Channel, *, force: bool) -> Written | None:
        """flush_info(): store the coordinates after the last group.

        A transactional repository is written with every transaction, whatever
        sync_relay_log_info says.
        """
        period = int(channel.replica.variables.get("sync_relay_log_info", 0))
        return self.handler.flush_info(
            self.fields(channel, channel[Applier].group_end),
            force=force or self.handler.is_transactional,
            sync_period=period,
        )

    def tear(self, channel: Channel) -> None:
        """The server dies inside the write of a file: the source's coordinates are still old."""
        if isinstance(self.handler, RplInfoFile):
            self.handler.write_in_part(
                self.fields(channel, channel[Applier].group_end), _LINES_BEFORE_TEAR
            )

    def store(self, channel: Channel, coordinates: Coordinates) -> None:
        """Put coordinates into the repository as a transaction of the server does, durably."""
        self.handler.flush_info(self.fields(channel, coordinates), force=True, sync_period=0)

    def stored(self) -> Coordinates | None:
        """The coordinates in the repository; None without data.

        Raises:
            TornInfoError: A file cannot be read.
        """
        fields = self.handler.init_info()
        return None if fields is None else coordinates_of(fields)

    def read_back(self, channel: Channel) -> None:
        """init_info(): begin with what is stored.

        Raises:
            TornInfoError: A file cannot be read.
        """
        coordinates = self.stored() or fresh_coordinates(channel)
        channel[Applier].group_end = coordinates
        channel[Applier].applied = coordinates[:2]
        channel[Applier].executed = coordinates[2:]


def coordinates_of(fields: RplInfoFields) -> Coordinates:
    """The coordinates in a row or file."""
    values = fields.values
    return (
        values["Relay_log_name"].removeprefix("./"),
        values["Relay_log_pos"],
        values["Master_log_name"],
        values["Master_log_pos"],
    )


def fresh_coordinates(channel: Channel) -> Coordinates:
    """Where an applier begins that has executed nothing."""
    return format_log_file_name(channel[RelayLog].base_name, 1), MAGIC_LENGTH, "", 0
