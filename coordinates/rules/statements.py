"""What an operator runs to see a contradiction on his own servers: statements that rules share.

They are written in the names of MySQL 8.2 and later, and shown in those of the server's version,
where it is known. Lines of ``mysqlbinlog`` are for the directory of the logs, but
for those that read groups by their GTIDs: these ask the server, with the account of the client's
option file. All show the server as it is now: what has come since is not missing any more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.rules.registry import Statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.rules.outcomes import Broken
    from tallystick.coordinates.rules.registry import Rule

_HERE: Final = "{instance}"
_MYSQLBINLOG: Final = "mysqlbinlog -v --base64-output=DECODE-ROWS"
_LINES: Final = 40


_RENAMED: Final = tuple(
    (since, re.compile(name), before)
    for since, name, before in (
        ((8, 2, 0), r"\bRESET BINARY LOGS AND GTIDS\b", "RESET MASTER"),
        ((8, 0, 26), r"\blog_replica_updates\b", "log_slave_updates"),
        ((8, 0, 26), r"(?<!')\breplica_preserve_commit_order\b", "slave_preserve_commit_order"),
        ((8, 0, 23), r"\bCHANGE REPLICATION SOURCE\b", "CHANGE MASTER"),
        ((8, 0, 23), r"\bSOURCE_(?=[A-Z])", "MASTER_"),
        ((8, 0, 22), r"\b(START|STOP|RESET|SHOW) REPLICA\b", r"\1 SLAVE"),
        (
            (8, 0, 11),
            r"SELECT LOCAL, REPLICATION, STORAGE_ENGINES FROM performance_schema\.log_status;",
            "SHOW MASTER STATUS;",
        ),
        (
            (8, 0, 11),
            r"SELECT STORAGE_ENGINES->>.* FROM performance_schema\.log_status;",
            "SHOW ENGINE INNODB STATUS;",
        ),
        ((8, 0, 1), r"\bbinlog_expire_logs_seconds\b", "expire_logs_days"),
        ((8, 0, 1), r"\bAPPLYING_TRANSACTION\b", "LAST_SEEN_TRANSACTION"),
    )
)
"""Since which version something is there under its name, and what stands for it before."""
_numbers = re.compile(r"(\d+)\.(\d+)\.(\d+)").match


def in_names_of(version: str | None, text: str) -> str:
    """A template as a server of a version knows it; the text itself where that is not known."""
    found = _numbers(version or "")
    if found is not None:
        numbers = tuple(map(int, found.groups()))
        for since, name, before in _RENAMED:
            if numbers < since:
                text = name.sub(before, text)
    return text


def with_versions(
    rule: Rule, broken: Broken, versions: Mapping[str, str | None]
) -> Mapping[str, Any]:
    """The data of a finding, with the versions by instance that call something by another name."""
    case = rule.cases[broken.case]
    texts = [case.remedy or rule.remedy, *(one.text for one in (*rule.verify, *case.cure))]
    older = {
        instance_id: version
        for instance_id, version in versions.items()
        if any(in_names_of(version, text) != text for text in texts)
    }
    return {**broken.data, "versions": older} if older else broken.data


def sql(text: str, on: str = _HERE) -> Statement:
    """A statement, by default for the finding's instance."""
    return Statement(on, text)


# Sets of GTIDs, by the value of a finding that has them


def not_executed(value: str = "witness", on: str = _HERE) -> Statement:
    """Which GTIDs the server has not executed."""
    return sql(
        f"SELECT GTID_SUBTRACT({{{value}:gtids_sql}}, @@GLOBAL.gtid_executed) AS not_executed;", on
    )


def not_purged(value: str = "witness", on: str = _HERE) -> Statement:
    """Which GTIDs do not count as purged."""
    return sql(
        f"SELECT GTID_SUBTRACT({{{value}:gtids_sql}}, @@GLOBAL.gtid_purged) AS not_purged;", on
    )


def groups(value: str = "witness", on: str = _HERE) -> Statement:
    """The groups of GTIDs in all binary log files that are kept."""
    return Statement(
        on,
        f"mysql -rNBe 'SHOW BINARY LOGS' | cut -f 1 | tr '\\n' '\\0' | xargs -0 {_MYSQLBINLOG}"
        f" --read-from-remote-server --include-gtids={{{value}:gtids_sh}}",
    )


def fetched(on: str) -> tuple[Statement, ...]:
    """A server fetches the witness from the finding's instance, by a channel, removed then."""
    channel = "FOR CHANNEL 'fetch';"
    return (
        sql(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '<host of the replica>', SOURCE_PORT ="
            " <port>, SOURCE_USER = '<user>', SOURCE_PASSWORD = '<password>', SOURCE_SSL = 1,"
            f" SOURCE_AUTO_POSITION = 1 {channel}",
            on,
        ),
        sql(f"START REPLICA {channel}", on),
        sql("SELECT WAIT_FOR_EXECUTED_GTID_SET({witness:gtids_sql});", on),
        sql(f"STOP REPLICA {channel}", on),
        sql(f"RESET REPLICA ALL {channel}", on),
    )


# Coordinates: one value "file:position", or a file and a position


def events_from(value: str) -> Statement:
    """The events of a log file from a coordinate on."""
    return Statement(
        _HERE,
        f"{_MYSQLBINLOG} --start-position={{{value}:position}} {{{value}:file}} | head -n {_LINES}",
    )


def events_until(value: str) -> Statement:
    """The events of a log file before a coordinate."""
    return Statement(
        _HERE,
        f"{_MYSQLBINLOG} --stop-position={{{value}:position}} {{{value}:file}} | tail -n {_LINES}",
    )


def file_from(file: str, position: str, on: str = _HERE) -> Statement:
    """The events of a log file from a position on."""
    return Statement(
        on,
        f"{_MYSQLBINLOG} --start-position={{{position}:d}} {{{file}:sh}} | head -n {_LINES}",
    )


def file_until(file: str, position: str, on: str = _HERE) -> Statement:
    """The events of a log file before a position."""
    return Statement(
        on,
        f"{_MYSQLBINLOG} --stop-position={{{position}:d}} {{{file}:sh}} | tail -n {_LINES}",
    )


EVENTS_THERE: Final = events_from("at")
BINARY_LOGS: Final = sql("SHOW BINARY LOGS;")
GTID_SETS: Final = sql("SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged, @@GLOBAL.gtid_owned;")
GTID_TABLE: Final = sql(
    "SELECT source_uuid, interval_start, interval_end FROM mysql.gtid_executed ORDER BY 1, 2;"
)
LOG_STATUS: Final = sql(
    "SELECT LOCAL, REPLICATION, STORAGE_ENGINES FROM performance_schema.log_status;"
)
LOG_STATUS_OF_ROW: Final = LOG_STATUS._replace(needs=("collection",))
"""Where one rule is about rows and about events."""


# Channels

REPLICA_STATUS: Final = sql("SHOW REPLICA STATUS FOR CHANNEL {channel:sql};")
RECEIVED: Final = sql(
    "SELECT SERVICE_STATE, RECEIVED_TRANSACTION_SET, LAST_ERROR_NUMBER, LAST_ERROR_MESSAGE,"
    " LAST_ERROR_TIMESTAMP FROM performance_schema.replication_connection_status"
    " WHERE CHANNEL_NAME = {channel:sql};"
)
RECEIVED_OF_ALL: Final = sql(
    "SELECT CHANNEL_NAME, RECEIVED_TRANSACTION_SET"
    " FROM performance_schema.replication_connection_status;"
)
APPLIERS: Final = sql(
    "SELECT WORKER_ID, SERVICE_STATE, APPLYING_TRANSACTION, LAST_ERROR_NUMBER, LAST_ERROR_MESSAGE,"
    " LAST_ERROR_TIMESTAMP FROM performance_schema.replication_applier_status_by_worker"
    " WHERE CHANNEL_NAME = {channel:sql};"
)
RECEIVER_STORED: Final = sql(
    "SELECT Master_log_name, Master_log_pos FROM mysql.slave_master_info"
    " WHERE Channel_name = {channel:sql};"
)
APPLIER_STORED: Final = sql(
    "SELECT Relay_log_name, Relay_log_pos, Master_log_name, Master_log_pos"
    " FROM mysql.slave_relay_log_info WHERE Channel_name = {channel:sql};"
)
WORKERS_STORED: Final = sql(
    "SELECT Id, Relay_log_name, Relay_log_pos, Master_log_name, Master_log_pos,"
    " Checkpoint_relay_log_name, Checkpoint_relay_log_pos FROM mysql.slave_worker_info"
    " WHERE Channel_name = {channel:sql};"
)
CHANNELS_STORED: Final = sql(
    "SELECT 'slave_master_info' AS info, Channel_name FROM mysql.slave_master_info"
    " UNION ALL SELECT 'slave_relay_log_info', Channel_name FROM mysql.slave_relay_log_info;"
)


# InnoDB and its redo log

INNODB_STATUS: Final = sql("SHOW ENGINE INNODB STATUS;")
LSNS: Final = sql(
    "SELECT STORAGE_ENGINES->>'$.InnoDB.LSN' AS lsn,"
    " STORAGE_ENGINES->>'$.InnoDB.LSN_checkpoint' AS lsn_checkpoint"
    " FROM performance_schema.log_status;"
)
REDO_CAPACITY: Final = sql(
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_redo_log_capacity',"
    " 'innodb_log_file_size', 'innodb_log_files_in_group');"
)
DURABILITY: Final = sql("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit, @@GLOBAL.sync_binlog;")


# Clones, backups, collections

CLONE_STATUS: Final = sql(
    "SELECT STATE, ERROR_NO, ERROR_MESSAGE, BINLOG_FILE, BINLOG_POSITION, GTID_EXECUTED"
    " FROM performance_schema.clone_status;"
)
CLONE_PROGRESS: Final = sql(
    "SELECT STAGE, STATE, BEGIN_TIME, END_TIME FROM performance_schema.clone_progress;"
)
COMMIT_ORDER: Final = sql(
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('binlog_order_commits',"
    " 'replica_preserve_commit_order', 'slave_preserve_commit_order');"
)
BACKUP_LOCKS: Final = sql("SHOW GLOBAL VARIABLES LIKE 'have\\_backup%';")
INSTANCE_LOCK: Final = sql(
    "SELECT OBJECT_TYPE, LOCK_TYPE, LOCK_STATUS, OWNER_THREAD_ID"
    " FROM performance_schema.metadata_locks WHERE OBJECT_TYPE = 'BACKUP LOCK';"
)
SESSION: Final = sql(
    "SELECT PROCESSLIST_COMMAND, PROCESSLIST_TIME, PROCESSLIST_STATE, PROCESSLIST_INFO"
    " FROM performance_schema.threads WHERE PROCESSLIST_ID = {session:sql};"
)
COLLECTORS: Final = sql(
    "SELECT PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_TIME, PROCESSLIST_STATE"
    " FROM performance_schema.threads WHERE PROCESSLIST_INFO LIKE '%log\\_status%';"
)


# Servers

_IDENTITY: Final = "SELECT @@GLOBAL.server_uuid, @@GLOBAL.server_id, @@GLOBAL.hostname;"
IDENTITY: Final = sql(_IDENTITY)
IDENTITY_OF_OTHER: Final = sql(_IDENTITY, "{other}")


WITHOUT_STATEMENT: Final = {
    "zone_entry_protocol",
    "vp_only_in_empty_closed_zone",
    "engine_lock_budget",
    "critical_sequence_in_zone",
    "zone_steps_complete",
    "engine_lock_steps_complete",
}
"""Rules about WL#3576's commit zone and engine locks, which no table and no variable show."""
