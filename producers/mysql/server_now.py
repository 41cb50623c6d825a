"""What a tail must know of a server before it follows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.producers.mysql.channel_watch import read_coordinates
from tallystick.producers.mysql.clone_shown import NOT_SHOWN, CloneShown
from tallystick.producers.mysql.connection import connect_for_stream, dialect_of, mysql_error
from tallystick.producers.mysql.tail_options import steady_clock_us

if TYPE_CHECKING:
    from pymysql.connections import Connection

    from tallystick.coordinates.values.binlog import LogCoordinates
    from tallystick.producers.mysql.server_watch import Collects
    from tallystick.producers.mysql.settings import ServerSettings


@dataclass(slots=True)
class ServerNow:
    """A server as it is when its stream is opened.

    Attributes:
        start_body: Body of a ``start`` record.
        gtid_table: ``mysql.gtid_executed`` as a set text, None if it may not be read.
        boot_s: When its present boot began, seconds of its clock, some two seconds sure.
        recovers_relay_log: ``relay_log_recovery``.
        logs: The binary log files, oldest first, with their sizes.
        channels: Bodies of ``change_source`` records, as it describes its channels.
        channel_changes: How many statements may have let a relay log begin anew since its start,
            counted before that.
        relay_files: In which relay log file each channel's applier is.
        read: How far each receiver that runs has read its source.
        is_boot_unreported: Whether its present boot is not in the journal yet.
        clone: What it shows of the clone that its data came with.
        asked_us: Before it was asked for that, microseconds.
    """

    start_body: dict[str, Any]
    gtid_table: str | None
    boot_s: float
    recovers_relay_log: bool
    logs: dict[str, int] = field(default_factory=dict)
    channels: list[dict[str, Any]] = field(default_factory=list)
    channel_changes: int | None = None
    relay_files: dict[str, str] = field(default_factory=dict)
    read: dict[str, LogCoordinates] = field(default_factory=dict)
    is_boot_unreported: bool = False
    clone: CloneShown = NOT_SHOWN
    asked_us: int = 0

    @property
    def has_binlog(self) -> bool:
        """Whether it writes a binary log."""
        return bool(self.logs)


def learn_server(
    settings: ServerSettings, collector: Collects
) -> tuple[ServerNow, Connection[Any]]:
    """Ask a server what it is; the connection is left for its stream.

    Raises:
        OtherServerError: The address leads to more than one server.
        MysqlError: It cannot be asked.
    """
    start_body = collector.start_body()
    table = collector.gtid_table()
    asked_us = steady_clock_us()
    clone = collector.clone()
    changes = collector.channel_changes()
    channels = collector.channels()
    connection = connect_for_stream(settings, str(start_body["server_uuid"]))
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT UNIX_TIMESTAMP(NOW(6)), @@GLOBAL.relay_log_recovery")
            now_s, recovers = cursor.fetchone() or (0, 0)
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Uptime'")
            uptime_s = int((cursor.fetchone() or ("", 0))[1])
            logs: dict[str, int] = {}
            if start_body.get("variables", {}).get("log_bin"):
                cursor.execute("SHOW BINARY LOGS")
                logs = {str(row[0]): int(row[1]) for row in cursor.fetchall()}
            dialect = dialect_of(connection)
            cursor.execute(dialect.show_replica_status)
            names = [dialect.column(column[0]) for column in cursor.description or ()]
            status = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    except Exception as error:  # noqa: BLE001  what a stranger sends may raise anything
        connection.close()
        raise mysql_error(error, settings, "cannot ask for its binary logs") from None
    server = ServerNow(
        start_body,
        table,
        boot_s=float(now_s) - uptime_s,
        recovers_relay_log=str(recovers) in ("1", "ON"),
        logs=logs,
        channels=channels,
        channel_changes=changes,
        relay_files={
            str(row["Channel_Name"]).lower(): str(row["Relay_Log_File"])
            for row in status
            if row.get("Relay_Log_File")
        },
        read=read_coordinates(status),
        clone=clone,
        asked_us=asked_us,
    )
    return server, connection
