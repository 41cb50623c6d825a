"""How a server of a version is asked: statements, variables and columns under one vocabulary.

The manual's terms changed between 8.0.22 (SHOW REPLICA STATUS), 8.0.26 (variables), 8.2 (SHOW
BINARY LOG STATUS), 8.3 (tags in GTIDs) and 8.4 (the old terms are gone). What is read is recorded
in today's terms whatever the server's are. Nothing here talks to a server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tallystick.producers.mysql.errors import UnsupportedServerError

if TYPE_CHECKING:
    from collections.abc import Iterable

Version = tuple[int, int, int]

LOG_STATUS_SINCE: Version = (8, 0, 11)
"""performance_schema.log_status and BACKUP_ADMIN are in every release of 8.0, which began here."""

_OTHERS = {
    "mariadb": "MariaDB",
    "tidb": "TiDB",
    "vitess": "Vitess",
    "oceanbase": "OceanBase",
    "proxysql": "ProxySQL",
}
_NUMBERS = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,5})(?!\d)").match
_SHOWN_MAX = 60
_ASKED_FOR = "expected MySQL or Percona Server 8.0, 8.4 or later"

VARIABLES = (
    "gtid_mode",
    "log_bin",
    "binlog_error_action",
    "binlog_order_commits",
    "max_connections",
    "server_id",
    "log_replica_updates",
    "replica_preserve_commit_order",
    "replica_parallel_workers",
    "sync_source_info",
    "innodb_redo_log_capacity",
    "innodb_flush_log_at_trx_commit",
)
"""Global variables of the journal's ``start``."""

_OLD_VARIABLES: dict[str, tuple[Version, str]] = {
    "log_replica_updates": ((8, 0, 26), "@@GLOBAL.log_slave_updates"),
    "replica_preserve_commit_order": ((8, 0, 26), "@@GLOBAL.slave_preserve_commit_order"),
    "replica_parallel_workers": ((8, 0, 26), "@@GLOBAL.slave_parallel_workers"),
    "sync_source_info": ((8, 0, 26), "@@GLOBAL.sync_master_info"),
    "innodb_redo_log_capacity": (
        (8, 0, 30),
        "@@GLOBAL.innodb_log_file_size * @@GLOBAL.innodb_log_files_in_group",
    ),
}
"""Of those that had another name: the version that has today's, and what there was before it."""

_STATUS_COLUMNS = (
    "Replica_IO_Running",
    "Replica_SQL_Running",
    "Source_Log_File",
    "Read_Source_Log_Pos",
    "Relay_Log_File",
    "Relay_Log_Pos",
    "Relay_Source_Log_File",
    "Exec_Source_Log_Pos",
    "Source_Host",
    "Source_Port",
    "Source_Server_Id",
    "Source_UUID",
    "Last_IO_Errno",
    "Last_IO_Error",
    "Last_IO_Error_Timestamp",
    "Last_SQL_Errno",
    "Last_SQL_Error",
    "Last_SQL_Error_Timestamp",
    "Retrieved_Gtid_Set",
    "Auto_Position",
    "Replicate_Ignore_Server_Ids",
    "Channel_Name",
)
_FILTER_COLUMNS = (
    "Replicate_Do_DB",
    "Replicate_Ignore_DB",
    "Replicate_Do_Table",
    "Replicate_Ignore_Table",
    "Replicate_Wild_Do_Table",
    "Replicate_Wild_Ignore_Table",
    "Replicate_Rewrite_DB",
)


@dataclass(frozen=True)
class Dialect:
    """Statements for one version.

    Attributes:
        version: Of the server: 8, 0, 31.
        version_text: ``@@version`` as the server returns it.
    """

    version: Version
    version_text: str

    @classmethod
    def of(cls, version_text: str, version_comment: str = "") -> Dialect:
        """The dialect of a server.

        Args:
            version_text: The version in the server's greeting, or ``@@version``.
            version_comment: ``@@version_comment``, which is known after the login only.

        Raises:
            UnsupportedServerError: It is another product, or too old.
        """
        shown = repr(version_text[:_SHOWN_MAX])
        banner = f"{version_text} {version_comment}".lower()
        for name, product in _OTHERS.items():
            if name in banner:
                raise UnsupportedServerError(
                    f"this server is {product} ({shown}), which has no"
                    f" performance_schema.log_status; {_ASKED_FOR}"
                )
        # MariaDB greets with 5.5.5- in front of its own version, and its name after it.
        numbers = _NUMBERS(version_text)
        if numbers is None:
            raise UnsupportedServerError(
                f"this server's version {shown} cannot be read; {_ASKED_FOR}"
            )
        major, minor, patch = map(int, numbers.groups())
        version = (major, minor, patch)
        if version < LOG_STATUS_SINCE:
            raise UnsupportedServerError(
                f"this server is MySQL {shown}, older than"
                f" {'.'.join(map(str, LOG_STATUS_SINCE))} and without"
                f" performance_schema.log_status; {_ASKED_FOR}"
            )
        return cls(version, version_text)

    @property
    def number(self) -> str:
        """The version alone: 8.0.31."""
        return ".".join(map(str, self.version))

    @property
    def has_new_terms(self) -> bool:
        """Whether statements use replica and source (8.0.22)."""
        return self.version >= (8, 0, 22)

    @property
    def has_tags(self) -> bool:
        """Whether GTIDs may carry tags (8.3)."""
        return self.version >= (8, 3, 0)

    @property
    def has_file_repositories(self) -> bool:
        """Whether replication info may lie in files (gone with 8.3)."""
        return self.version < (8, 3, 0)

    # Replication and binary log

    @property
    def show_replica_status(self) -> str:
        """One row per channel."""
        return "SHOW REPLICA STATUS" if self.has_new_terms else "SHOW SLAVE STATUS"

    @property
    def show_replicas(self) -> str:
        """Who has registered as a replica: it asks for REPLICATION SLAVE, as the dump does."""
        return "SHOW REPLICAS" if self.has_new_terms else "SHOW SLAVE HOSTS"

    @property
    def show_binary_log_status(self) -> str:
        """File, position and set of the binary log; not one instant."""
        return "SHOW BINARY LOG STATUS" if self.version >= (8, 2, 0) else "SHOW MASTER STATUS"

    def column(self, name: str) -> str:
        """A column of this server by the name that the journal has for it.

        Source_Log_File for Master_Log_File, Replica_IO_Running for Slave_IO_Running. Columns of
        tables (Master_log_name) keep their names in every version.
        """
        return name.replace("Master", "Source").replace("Slave", "Replica")

    @cached_property
    def status_columns(self) -> tuple[str, ...]:
        """Columns of SHOW REPLICA STATUS that go into the journal: no accounts."""
        return _STATUS_COLUMNS

    @cached_property
    def filter_columns(self) -> tuple[str, ...]:
        """Columns of SHOW REPLICA STATUS that show that something is filtered."""
        return _FILTER_COLUMNS

    # Tables

    @cached_property
    def master_info_columns(self) -> tuple[str, ...]:
        """Columns of mysql.slave_master_info that are read: neither account nor password."""
        columns = ["Channel_name", "Master_log_name", "Master_log_pos", "Uuid",
                   "Enabled_auto_position", "Ignored_server_ids"]  # fmt: skip
        if self.version >= (8, 0, 27):
            columns.append("Gtid_only")
        return tuple(columns)

    @cached_property
    def relay_log_info_columns(self) -> tuple[str, ...]:
        """Columns of mysql.slave_relay_log_info that are read."""
        return ("Channel_name", "Relay_log_name", "Relay_log_pos", "Master_log_name",
                "Master_log_pos", "Number_of_workers")  # fmt: skip

    @cached_property
    def worker_info_columns(self) -> tuple[str, ...]:
        """Columns of mysql.slave_worker_info that are read: coordinates, no group bitmap."""
        return ("Channel_name", "Id", "Relay_log_name", "Relay_log_pos", "Master_log_name",
                "Master_log_pos")  # fmt: skip

    @cached_property
    def gtid_table_columns(self) -> tuple[str, ...]:
        """Columns of mysql.gtid_executed: tags are a column of their own since 8.3."""
        tag = ("gtid_tag",) if self.has_tags else ()
        return ("source_uuid", *tag, "interval_start", "interval_end")

    @cached_property
    def connection_status_columns(self) -> tuple[str, ...]:
        """Columns of performance_schema.replication_connection_status that are read."""
        return ("CHANNEL_NAME", "SOURCE_UUID", "SERVICE_STATE", "RECEIVED_TRANSACTION_SET",
                "LAST_ERROR_NUMBER", "LAST_QUEUED_TRANSACTION",
                "QUEUEING_TRANSACTION")  # fmt: skip

    @cached_property
    def worker_status_columns(self) -> tuple[str, ...]:
        """Columns of performance_schema.replication_applier_status_by_worker that are read."""
        return ("CHANNEL_NAME", "WORKER_ID", "SERVICE_STATE", "LAST_ERROR_NUMBER",
                "LAST_ERROR_MESSAGE", "LAST_APPLIED_TRANSACTION",
                "APPLYING_TRANSACTION")  # fmt: skip

    # Variables

    @cached_property
    def select_variables(self) -> str:
        """One statement with every variable of the journal's ``start``, under today's name."""
        terms = []
        for name in VARIABLES:
            since, old = _OLD_VARIABLES.get(name, (LOG_STATUS_SINCE, ""))
            known = f"@@GLOBAL.{name}" if self.version >= since else old
            terms.append(f"{known} AS {name}")
        return "SELECT " + ", ".join(terms)

    # InnoDB

    @property
    def show_lsns(self) -> str | None:
        """InnoDB's LSNs by one statement, as rows of name and number (8.0.30).

        Before, only INNODB_METRICS had them: for PROCESS, if the counters are switched on, and
        with nothing that the row of log_status has not.
        """
        if self.version < (8, 0, 30):
            return None
        return "SHOW GLOBAL STATUS LIKE 'Innodb\\_redo\\_log\\_%lsn'"


LSN_NAMES = {
    "innodb_redo_log_current_lsn": "current",
    "innodb_redo_log_flushed_to_disk_lsn": "flushed",
    "innodb_redo_log_checkpoint_lsn": "checkpoint",
}


def lsns_of(status: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The LSNs of the journal in rows of SHOW GLOBAL STATUS, names in lower case."""
    return {
        LSN_NAMES[name]: int(value)
        for name, value in status
        if name in LSN_NAMES and value.isascii() and value.isdecimal()
    }


"""What the status variables are called in the journal, by their names in lower case."""
