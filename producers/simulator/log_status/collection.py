"""One instance's answer to a collection: what is read beside log_status, the locks, the row.

The statements are read at separate moments in the order that errs to the safe side; log_status
itself is one moment, under the locks of ``log_status_query``. Within the answer nothing else
happens on the instance between the first lock and the end of the record.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.clone.clone_status import CloneStatus
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.kernel.bus import Change, Notice
from tallystick.producers.simulator.log_status.log_status_query import LogStatus, LogStatusQuery
from tallystick.producers.simulator.replication_info import master_info, relay_log_info, worker_info
from tallystick.producers.simulator.replication_info.master_info import MasterInfo
from tallystick.producers.simulator.replication_info.rpl_info_table_access import InfoRepositories
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import Applier, ChannelMap, Receiver, RelayLog
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

ANSWERED: Notice[[Instance, dict[str, Any]]] = Notice(
    "a log_status record is to be written; of a row, while its session holds all locks"
)
ROW: Change[[World, Instance, dict[str, Any] | None], dict[str, Any] | None] = Change(
    "the whole body of a log_status record; None: it is not written"
)

LATENCY_US = (300, 6_000)
RANK_US = 20_000
"""Sources are asked this much later than their replicas."""
_STATEMENT_US = (100, 900)

ER_TABLEACCESS_DENIED = 1142
ER_SPECIFIC_ACCESS_DENIED = 1227


def request(fleet: World, collection_id: str, requested_at: int) -> None:
    """Ask every instance: replicas first, their sources last, each with its own latency."""
    for instance in fleet.instances.values():
        delay = _source_rank(instance) * RANK_US + fleet.rng.randrange(*LATENCY_US)
        fleet.schedule(
            fleet.now + delay, instance, _read_tables, instance, collection_id, requested_at
        )


def _source_rank(instance: Instance) -> int:
    """0 for a replica that nobody reads from, else one more than its highest replica."""
    ranks: dict[str, int] = {}

    def rank(of: Instance) -> int:
        if of.instance_id not in ranks:
            ranks[of.instance_id] = 0
            below = [rank(c.replica) for c in of[ChannelMap].subscribers if c.is_configured]
            ranks[of.instance_id] = 1 + max(below) if below else 0
        return ranks[of.instance_id]

    return rank(instance)


def _read_tables(fleet: World, instance: Instance, collection_id: str, requested_at: int) -> None:
    if instance[LogStatus].is_collecting:
        again = fleet.now + _STATEMENT_US[1]
        fleet.schedule(again, instance, _read_tables, instance, collection_id, requested_at)
        return
    instance[LogStatus].is_collecting = True
    body: dict[str, Any] = {"collection_id": collection_id, "requested_at": requested_at}
    if not instance.is_running:
        body["error"] = {"unreachable": True}
        _write(fleet, instance, body)
        return
    body["received_at"] = instance.journal.shown(fleet.now)
    body["gtid_executed_first"] = instance[GtidState].executed.server_text()
    body["gtid_executed_table"] = instance[GtidState].table.text()
    body["slave_master_info"] = _master_info_rows(instance)
    body["slave_relay_log_info"] = _relay_log_info_rows(instance)
    worker_rows = worker_info.shown_rows(instance)
    if worker_rows:
        body["slave_worker_info"] = worker_rows
    _then(fleet, instance, _read_binary_logs, body)


def _read_binary_logs(fleet: World, instance: Instance, body: dict[str, Any]) -> None:
    if instance[BinaryLog].is_open:
        body["binary_logs"] = _binary_logs(instance)
    _then(fleet, instance, _read_status, body)


def _read_status(fleet: World, instance: Instance, body: dict[str, Any]) -> None:
    body["gtid_purged"] = instance[GtidState].purged.server_text()
    if instance[BinaryLog].is_open:
        body["binary_logs_again"] = _binary_logs(instance)
    body["replica_status"] = [_replica_status_row(c) for c in instance[ChannelMap].configured]
    step = partial(_read_log_status, beginnings=_beginnings(instance))
    _then(fleet, instance, step, body)


def _then(fleet: World, instance: Instance, step: Any, body: dict[str, Any]) -> None:
    fleet.schedule(
        fleet.now + fleet.rng.randrange(*_STATEMENT_US), instance, _go_on, instance, step, body
    )


def _go_on(fleet: World, instance: Instance, step: Any, body: dict[str, Any]) -> None:
    if not instance.is_running:
        _write_error(fleet, instance, body, {"unreachable": True})
        return
    step(fleet, instance, body)


def _beginnings(instance: Instance) -> list[tuple[str, int]]:
    """Which channels there are, and how often each one's relay log was begun anew."""
    return [(c.name, c[RelayLog].beginnings) for c in instance[ChannelMap].configured]


def _read_log_status(
    fleet: World, instance: Instance, body: dict[str, Any], beginnings: list[tuple[str, int]]
) -> None:
    denied = _denial(instance)
    if denied is not None:
        _write_error(fleet, instance, body, denied)
        return
    LogStatusQuery(
        fleet,
        instance,
        body["collection_id"],
        on_row=lambda row: _write_with_row(fleet, instance, body, row, beginnings),
        on_error=lambda error: _write_error(fleet, instance, body, error),
    ).begin()


def query(fleet: World, instance: Instance, collection_id: str) -> None:
    """Another client session reads the table, and nothing beside it."""
    body: dict[str, Any] = {"collection_id": collection_id, "requested_at": fleet.now}
    denied = _denial(instance)
    if denied is not None:
        _publish(fleet, instance, {**body, "error": denied})
        return
    LogStatusQuery(
        fleet,
        instance,
        collection_id,
        on_row=lambda row: _publish(fleet, instance, {**body, "row": row}),
        on_error=lambda error: _publish(fleet, instance, {**body, "error": error}),
    ).begin()


def _write_with_row(
    fleet: World,
    instance: Instance,
    body: dict[str, Any],
    row: dict[str, Any],
    beginnings: list[tuple[str, int]],
) -> None:
    body["row"] = row
    if beginnings:
        body["channels_went_on"] = _beginnings(instance) == beginnings
    body["gtid_owned"] = _gtid_owned(instance)
    body["prepared_xa"] = ",".join(
        f"{group.sid}:{group.gno}"
        for group in instance[CommitQueue].prepared_xa
        if group.sid is not None
    )
    innodb = instance[Innodb]
    body["innodb"] = {
        "current": innodb.lsn,
        "written": innodb.written,
        "flushed": innodb.flushed,
        "checkpoint": innodb.checkpoint,
    }
    body["trx_sys"] = {
        "binary_log_file": innodb.trx_sys[0],
        "binary_log_position": innodb.trx_sys[1],
    }
    status = instance.get(CloneStatus)
    if status is not None:
        body["clone_status"] = status.row()
        body["clone_progress"] = status.progress()
    _write(fleet, instance, body)


def _write_error(
    fleet: World, instance: Instance, body: dict[str, Any], error: dict[str, Any]
) -> None:
    answer = {key: body[key] for key in ("collection_id", "requested_at")}
    _write(fleet, instance, {**answer, "error": error})


def _write(fleet: World, instance: Instance, body: dict[str, Any]) -> None:
    instance[LogStatus].is_collecting = False
    _publish(fleet, instance, body)


def _publish(fleet: World, instance: Instance, body: dict[str, Any]) -> None:
    changed = fleet.bus.emit(ROW, fleet, instance, body)
    if changed is not None:
        fleet.bus.emit(ANSWERED, instance, changed)
        instance.journal.record(RecordType.LOG_STATUS, changed)


def _denial(instance: Instance) -> dict[str, Any] | None:
    if instance[LogStatus].privileges == "no_select":
        return {
            "code": ER_TABLEACCESS_DENIED,
            "message": "SELECT command denied to user 'audit'@'localhost' for table 'log_status'",
        }
    if instance[LogStatus].privileges == "no_backup_admin":
        return {
            "code": ER_SPECIFIC_ACCESS_DENIED,
            "message": "Access denied; you need (at least one of) the BACKUP_ADMIN privilege(s) "
            "for this operation",
        }
    return None


def _gtid_owned(instance: Instance) -> str:
    return ",\n".join(
        f"{pending.logged.group.sid}:{pending.logged.group.gno}#{60 + i}"
        for i, pending in enumerate(instance[CommitQueue].in_commit)
        if pending.logged.group.sid is not None
    )


def _binary_logs(instance: Instance) -> list[dict[str, Any]]:
    return [{"name": file.name, "size": file.end} for file in instance[BinaryLog].files]


def _master_info_rows(instance: Instance) -> list[dict[str, Any]]:
    """SELECT every column but the password: that never leaves the server."""
    table = instance[InfoRepositories].tables.get(master_info.TABLE)
    return [
        {name: value for name, value in row.items() if name != master_info.PASSWORD}
        for row in (table.rows.values() if table is not None else ())
    ]


def _relay_log_info_rows(instance: Instance) -> list[dict[str, Any]]:
    table = instance[InfoRepositories].tables.get(relay_log_info.TABLE)
    return [dict(row) for row in (table.rows.values() if table is not None else ())]


def _error_text(errno: int) -> str:
    return f"error {errno}" if errno else ""


_FILTERS = (
    *("Replicate_Do_DB", "Replicate_Ignore_DB", "Replicate_Do_Table", "Replicate_Ignore_Table"),
    *("Replicate_Wild_Do_Table", "Replicate_Wild_Ignore_Table", "Replicate_Rewrite_DB"),
)


def _replica_status_row(channel: Channel) -> dict[str, Any]:
    replica = channel.replica
    connection = channel[MasterInfo].connection
    io_running = "No"
    if channel[Receiver].is_running:
        io_running = "Yes" if channel[Receiver].is_connected else "Connecting"
    return {
        "Replica_IO_State": "Waiting for source to send event"
        if channel[Receiver].is_connected
        else "",
        "Source_Host": connection["Host"],
        "Source_User": connection["User_name"],
        "Source_Port": connection["Port"],
        "Connect_Retry": connection["Connect_retry"],
        "Source_Log_File": channel[Receiver].read[0],
        "Read_Source_Log_Pos": channel[Receiver].read[1],
        "Relay_Log_File": channel[Applier].applied[0],
        "Relay_Log_Pos": channel[Applier].applied[1],
        "Relay_Source_Log_File": channel[Applier].executed[0],
        "Exec_Source_Log_Pos": channel[Applier].executed[1],
        "Replica_IO_Running": io_running,
        "Replica_SQL_Running": "Yes" if channel[Applier].is_running else "No",
        "Source_SSL_Allowed": "Yes" if connection["Enabled_ssl"] else "No",
        "Source_SSL_CA_File": connection["Ssl_ca"],
        "Source_SSL_CA_Path": connection["Ssl_capath"],
        "Source_SSL_Cert": connection["Ssl_cert"],
        "Source_SSL_Cipher": connection["Ssl_cipher"],
        "Source_SSL_Key": connection["Ssl_key"],
        "Source_SSL_Verify_Server_Cert": "Yes" if connection["Ssl_verify_server_cert"] else "No",
        "Last_IO_Errno": channel[Receiver].io_errno,
        "Last_IO_Error": _error_text(channel[Receiver].io_errno),
        "Last_SQL_Errno": channel[Applier].sql_errno,
        "Last_SQL_Error": _error_text(channel[Applier].sql_errno),
        "Source_Server_Id": channel.source.server_id,
        "Source_UUID": channel.source.server_uuid,
        "Retrieved_Gtid_Set": channel[Receiver].retrieved.server_text(),
        "Executed_Gtid_Set": replica[GtidState].executed.server_text(),
        "Auto_Position": int(channel.auto_position),
        **dict.fromkeys(_FILTERS, ""),
        "Replicate_Ignore_DB": channel[Applier].ignored_db,
        "Replicate_Ignore_Server_Ids": ",".join(map(str, channel[Receiver].ignore_server_ids)),
        "Channel_Name": channel.name,
    }
