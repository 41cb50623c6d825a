"""One collection of a real server: its statements in the journal's order (docs/journal.md).

The order errs to the safe side: what only grows is read before what it must lie within. What an
account may not read, or a server does not have, is left out and listed under ``unread``; without
the row of log_status there is an error instead of everything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, final

from tallystick.producers.mysql.channel_watch import GROUP_REPLICATION, went_on
from tallystick.producers.mysql.clone_shown import CloneShown
from tallystick.producers.mysql.dialect import Dialect, lsns_of
from tallystick.producers.mysql.errors import MysqlError
from tallystick.producers.mysql.rights import RightHeld, account_of, has_clone_plugin, probe_rights
from tallystick.producers.mysql.settings import LOOPBACK
from tallystick.producers.mysql.statements import Refused, Row, Session

if TYPE_CHECKING:
    from tallystick.producers.mysql.settings import ServerSettings

LOG_STATUS = (
    "SELECT SERVER_UUID, `LOCAL`, `REPLICATION`, STORAGE_ENGINES FROM performance_schema.log_status"
)
ER_NO_SUCH_TABLE = 1146
ER_NO_BINARY_LOGGING = 1381
ER_UNABLE_TO_COLLECT_LOG_STATUS = 3722

_SWITCHES = (
    "log_bin",
    "log_replica_updates",
    "binlog_order_commits",
    "replica_preserve_commit_order",
)
_FILTER_SHOWN = 64
"""Characters of a filter that go into the journal."""
_JSON_COLUMNS = ("LOCAL", "REPLICATION", "STORAGE_ENGINES")
_column_in = re.compile(r"column '(\w{1,32})'").search
_without_account = re.compile(r"'[^']*@(?=[^'@\s]*')").sub
_integer = re.compile(r"[0-9]{1,19}").fullmatch
_COUNTERS = (
    "SHOW GLOBAL STATUS WHERE Variable_name IN"
    " ('Com_reset', 'Com_change_replication_source', 'Com_change_master')"
)
_CLONE = (
    "SELECT STATE, BEGIN_TIME, SOURCE, DESTINATION, @@GLOBAL.port AS port,"
    " CAST(UNIX_TIMESTAMP(BEGIN_TIME) AS CHAR) AS begun FROM performance_schema.clone_status"
)


@final
class Collector:
    """Reads one server for the journal: what it is, its channels, its log_status and the rest.

    Not for several threads: a second collection on a server may not begin before the first ended.

    Args:
        settings: The server; it is connected to when it is asked.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self._session = Session(settings)

    def close(self) -> None:
        """End the session."""
        self._session.close()

    # What the server is

    def start_body(self) -> dict[str, Any]:
        """The body of a ``start`` record, without what only a witness of the start can know.

        Raises:
            MysqlError: The server cannot be asked.
        """
        self._session.ensure()
        dialect = self._session.dialect
        (row,) = self._rows("SELECT @@GLOBAL.server_uuid AS server_uuid")
        variables = self.variables()
        cluster = self.settings.cluster
        return {
            **({} if cluster is None else {"cluster": cluster}),
            "server_uuid": str(row["server_uuid"]),
            "server_id": variables.pop("server_id"),
            "version": dialect.number,
            "variables": variables,
        }

    def variables(self) -> dict[str, Any]:
        """The journal's variables, under today's names.

        Raises:
            MysqlError: The server cannot be asked.
        """
        dialect = self._session.dialect
        (row,) = self._rows(dialect.select_variables)
        found: dict[str, Any] = {name: _plain(value) for name, value in row.items()}
        for name in _SWITCHES:
            found[name] = str(found[name]).upper() in {"1", "ON", "TRUE"}
        status = self._redo_log_status()
        # Made smaller while it runs, or set by the old variables: the server still uses more.
        resized = int(status.get("innodb_redo_log_capacity_resized") or 0)
        found["innodb_redo_log_capacity"] = max(resized, int(found["innodb_redo_log_capacity"]))
        found["innodb_redo_log_enabled"] = status.get("innodb_redo_log_enabled") != "OFF"
        group = self._setting("group_replication_group_name")
        if group:
            found["group_replication_group_name"] = group
        repository = self._repository_is_transactional(dialect)
        if repository is not None:
            found["relay_log_info_transactional"] = repository
        return found

    def channels(self) -> list[dict[str, Any]]:
        """Bodies of ``channel`` records, ``change_source``, as the server describes its channels.

        Raises:
            MysqlError: The server cannot be asked.
        """
        return [
            _change_source(row, self._session.dialect)
            | ({"source_instance": self.settings.name} if self._is_itself(row) else {})
            for row in self._replica_status()
            if row.get("Channel_Name") not in GROUP_REPLICATION
        ]

    def _is_itself(self, row: Row) -> bool:
        """Whether a channel's source is this server, by the address in its replication settings.

        Its receiver refuses that before it takes over the source's server_uuid.
        """
        if str(row.get("Source_Port")) != self._setting("port"):
            return False
        host = str(row.get("Source_Host", "")).lower()
        return host in LOOPBACK or host == self._setting("hostname").lower()

    def source_files(self) -> list[tuple[str, str]]:
        """In which binary log files of which sources this replica is: server_uuid and file.

        Raises:
            MysqlError: The server cannot be asked.
        """
        return [
            (str(row["Source_UUID"]), str(row[column]))
            for row in self._replica_status()
            for column in ("Source_Log_File", "Relay_Source_Log_File")
            if row.get("Source_UUID") and row.get(column)
        ]

    def _replica_status(self) -> list[dict[str, Any]]:
        """SHOW REPLICA STATUS; nothing where it may not be read."""
        rows = self._session.ask(self._session.dialect.show_replica_status)
        return [] if isinstance(rows, Refused) else [*map(self._in_current_terms, rows)]

    def binary_logs(self) -> dict[str, int]:
        """The binary log files, oldest first, with their sizes; none where there is no log.

        Raises:
            MysqlError: The server cannot be asked.
        """
        rows = self._session.ask("SHOW BINARY LOGS")
        if isinstance(rows, Refused):
            return {}
        return {str(row["Log_name"]): int(row["File_size"]) for row in rows}

    def gtid_table(self) -> str | None:
        """The rows of mysql.gtid_executed as a set text; None: they may not be read.

        Raises:
            MysqlError: The server cannot be asked.
        """
        columns = self._session.dialect.gtid_table_columns
        rows = self._session.ask(_select(columns, "mysql.gtid_executed"))
        return None if isinstance(rows, Refused) else _set_text(rows)

    def clone(self) -> CloneShown:
        """What is shown of the clone that the server's data came with.

        Raises:
            MysqlError: The server cannot be asked.
        """
        rows = self._session.ask(_CLONE)
        if isinstance(rows, Refused):
            return CloneShown(None if has_clone_plugin(self._session) else "")
        return CloneShown.of(rows[0]) if rows else CloneShown("")

    def channel_changes(self) -> int | None:
        """How many statements since its start may have let a relay log begin anew; None: unknown.

        Raises:
            MysqlError: The server cannot be asked.
        """
        rows = self._session.ask(_COUNTERS)
        if isinstance(rows, Refused):
            return None
        counted = dict(_names_and_values(rows))
        # Versions that know both names of a statement count it under both.
        names = ("com_change_replication_source", "com_change_master")
        return int(counted.get("com_reset", 0)) + max(int(counted.get(name, 0)) for name in names)

    def rights(self) -> list[RightHeld]:
        """Which of the rights that reading takes this account has, and what each is for.

        Raises:
            MysqlError: The server cannot be asked.
        """
        return probe_rights(self._session)

    def account(self) -> str:
        """The account that the server took us for, as GRANT writes it.

        Raises:
            MysqlError: The server cannot be asked.
        """
        return account_of(self._session)

    # A collection

    def collect(self, collection_id: str, requested_at: int) -> dict[str, Any]:
        """Answer a collection; whatever goes wrong is part of the answer.

        Args:
            collection_id: Of the request.
            requested_at: Microseconds of the observer's clock.

        Returns:
            The body of a ``log_status`` record.
        """
        answer: dict[str, Any] = {"collection_id": collection_id, "requested_at": requested_at}
        try:
            self._session.ensure()
            body = _Body(self._session)
            self._read_before_row(body)
            rows = self._session.ask(LOG_STATUS)
            if isinstance(rows, Refused):
                return {**answer, "error": _refusal(rows)}
            if len(rows) != 1:
                # No row and no error: the audit has a name for it.
                return answer
            body.answer["row"] = _row(rows[0])
            self._read_after_row(body)
        except MysqlError as error:
            return {**answer, "error": _failure(error)}
        return {**answer, **body.answer, **body.unread_part()}

    def _read_before_row(self, body: _Body) -> None:
        dialect = self._session.dialect
        body.value("gtid_executed_first", "SELECT @@GLOBAL.gtid_executed")
        rows = body.rows("gtid_executed_table", _select(dialect.gtid_table_columns,
                                                        "mysql.gtid_executed"))  # fmt: skip
        if rows is not None:
            body.answer["gtid_executed_table"] = _set_text(rows)
        for table, columns in (
            ("slave_master_info", dialect.master_info_columns),
            ("slave_relay_log_info", dialect.relay_log_info_columns),
            ("slave_worker_info", dialect.worker_info_columns),
        ):
            body.table(table, _select(columns, f"mysql.{table}"))
        self._read_purged(body)
        for table, columns in (
            ("replication_connection_status", dialect.connection_status_columns),
            ("replication_applier_status_by_worker", dialect.worker_status_columns),
        ):
            body.table(table, _select(columns, f"performance_schema.{table}"))
        status = body.rows("replica_status", dialect.show_replica_status)
        if status is not None:
            body.answer["replica_status"] = [
                _status(self._in_current_terms(row), dialect) for row in status
            ]

    def _read_purged(self, body: _Body) -> None:
        logs = body.rows("binary_logs", "SHOW BINARY LOGS")
        if logs is not None:
            body.answer["binary_logs"] = _binary_logs(logs)
        body.value("gtid_purged", "SELECT @@GLOBAL.gtid_purged")
        if logs is not None:
            again = body.rows("binary_logs_again", "SHOW BINARY LOGS")
            if again is not None:
                body.answer["binary_logs_again"] = _binary_logs(again)

    def _read_after_row(self, body: _Body) -> None:
        status = body.answer.get("replica_status")
        if status:
            again = self._replica_status()
            body.answer["channels_went_on"] = went_on(status, again)
        body.value("gtid_owned", "SELECT @@GLOBAL.gtid_owned")
        prepared = body.rows("prepared_xa", "XA RECOVER")
        if prepared is not None and not prepared:
            # Of those that there are the server shows no GTID.
            body.answer["prepared_xa"] = ""
        lsns = self._session.dialect.show_lsns
        if lsns is not None:
            body.lsns(lsns)
        # Without the plugin there is no such table, but who has no right to it hears of the right.
        clone = body.rows(
            "clone_status",
            _select(_CLONE_STATUS, "performance_schema.clone_status"),
            is_there=lambda: has_clone_plugin(self._session),
        )
        if clone:
            body.answer["clone_status"] = _with_plain_values(clone[0])
            body.table(
                "clone_progress", _select(_CLONE_PROGRESS, "performance_schema.clone_progress")
            )

    # Single things

    def _rows(self, statement: str) -> list[Row]:
        rows = self._session.ask(statement)
        if isinstance(rows, Refused) or not rows:
            message = (
                "no row" if not isinstance(rows, Refused) else f"error {rows.code}: {rows.message}"
            )
            raise MysqlError(f"server {self.settings.name!r}: {statement}: {message}")
        return rows

    def _setting(self, name: str) -> str:
        rows = self._session.ask(f"SHOW GLOBAL VARIABLES LIKE '{name}'")
        return "" if isinstance(rows, Refused) or not rows else str(rows[0].get("Value", ""))

    def _redo_log_status(self) -> dict[str, str]:
        rows = self._session.ask("SHOW GLOBAL STATUS LIKE 'Innodb\\_redo\\_log\\_%'")
        return {} if isinstance(rows, Refused) else dict(_names_and_values(rows))

    def _repository_is_transactional(self, dialect: Dialect) -> bool | None:
        """Whether relay log info is in an InnoDB table; None: that cannot be seen."""
        if (
            dialect.has_file_repositories
            and self._setting("relay_log_info_repository").upper() == "FILE"
        ):
            return False
        rows = self._session.ask(
            "SELECT ENGINE AS engine FROM information_schema.TABLES"
            " WHERE TABLE_SCHEMA = 'mysql' AND TABLE_NAME = 'slave_relay_log_info'"
        )
        if isinstance(rows, Refused) or not rows:
            return None
        return str(rows[0]["engine"]).upper() == "INNODB"

    def _in_current_terms(self, row: Row) -> Row:
        return {self._session.dialect.column(name): _plain(value) for name, value in row.items()}


_CLONE_STATUS = ("ID", "PID", "STATE", "BEGIN_TIME", "END_TIME", "SOURCE", "DESTINATION",
                 "ERROR_NO", "ERROR_MESSAGE", "BINLOG_FILE", "BINLOG_POSITION",
                 "GTID_EXECUTED")  # fmt: skip
_CLONE_PROGRESS = ("ID", "STAGE", "STATE", "BEGIN_TIME", "END_TIME", "THREADS", "ESTIMATE", "DATA",
                   "NETWORK", "DATA_SPEED", "NETWORK_SPEED")  # fmt: skip


@final
class _Body:
    """What is read beside the row, and what could not be read."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.answer: dict[str, Any] = {}
        self._unread: list[dict[str, Any]] = []

    def rows(
        self, part: str, statement: str, is_there: Callable[[], bool] = lambda: True
    ) -> list[Row] | None:
        """The rows of a statement; None, and reported, if the server refuses it."""
        rows = self._session.ask(statement)
        if not isinstance(rows, Refused):
            return rows
        # No clone plugin, no binary log: then there is nothing to read.
        if rows.code not in {ER_NO_SUCH_TABLE, ER_NO_BINARY_LOGGING} and is_there():
            self._unread.append({"part": part, "code": rows.code, "message": rows.message})
        return None

    def value(self, part: str, statement: str) -> None:
        """The one value of a statement."""
        rows = self.rows(part, statement)
        if rows:
            self.answer[part] = str(_plain(next(iter(rows[0].values()))))

    def table(self, part: str, statement: str) -> None:
        """The rows of a table as they are."""
        rows = self.rows(part, statement)
        if rows is not None:
            self.answer[part] = [_with_plain_values(row) for row in rows]

    def lsns(self, statement: str) -> None:
        """InnoDB's status variables of one statement."""
        found = lsns_of(_names_and_values(self.rows("innodb", statement) or ()))
        if found:
            self.answer["innodb"] = found

    def unread_part(self) -> dict[str, Any]:
        """What of the answer is missing, with the server's reason."""
        return {"unread": self._unread} if self._unread else {}


def _select(columns: Sequence[str], table: str) -> str:
    return f"SELECT {', '.join(f'`{column}`' for column in columns)} FROM {table}"  # noqa: S608


def _plain(value: Any) -> Any:
    """A column's value as JSON has it."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def _with_plain_values(row: Mapping[str, Any]) -> Row:
    return {name: _plain(value) for name, value in row.items() if value is not None}


def _status(row: Row, dialect: Dialect) -> Row:
    """A row of SHOW REPLICA STATUS; a receiver's error names its account, which stays out.

    A filter may name thousands of tables: of it matters only that it is there.
    """
    status = {name: row[name] for name in dialect.status_columns if row.get(name) is not None}
    for name in dialect.filter_columns:
        if row.get(name) is not None:
            status[name] = str(row[name])[:_FILTER_SHOWN]
    if "Last_IO_Error" in status:
        status["Last_IO_Error"] = _without_account("'", str(status["Last_IO_Error"]))
    return status


def _row(row: Row) -> Row:
    """The row of log_status; what is no JSON stays text, for the audit to report."""
    read = _with_plain_values(row)
    for name in _JSON_COLUMNS:
        if isinstance(read.get(name), str):
            with suppress(ValueError, RecursionError):
                read[name] = json.loads(read[name])
    return read


def _binary_logs(rows: Iterable[Row]) -> list[Row]:
    return [
        {"name": str(row.get("Log_name")), "size": _plain(row.get("File_size"))} for row in rows
    ]


def _names_and_values(rows: Iterable[Row]) -> Iterable[tuple[str, str]]:
    for row in rows:
        name, value = (str(_plain(each)) for each in tuple(row.values())[:2])
        yield name.lower(), value


def _set_text(rows: Iterable[Row]) -> str:
    """Intervals as a set text; neighbours are joined, so that a table of many rows stays short."""
    joined: list[list[Any]] = []
    for sid, first, last in sorted(map(_interval, rows)):
        if joined and joined[-1][0] == sid and joined[-1][2] + 1 >= first:
            joined[-1][2] = max(joined[-1][2], last)
        else:
            joined.append([sid, first, last])
    return ",".join(f"{sid}:{first}-{last}" for sid, first, last in joined)


def _interval(row: Row) -> tuple[str, int, int]:
    tag = row.get("gtid_tag")
    sid = str(row["source_uuid"]) + (f":{tag}" if tag else "")
    return sid, int(row["interval_start"]), int(row["interval_end"])


def _change_source(row: Row, dialect: Dialect) -> dict[str, Any]:
    ignored = [
        int(part) for part in re.split(r"[,\s]+", str(row.get("Replicate_Ignore_Server_Ids") or ""))
        if _integer(part)
    ]  # fmt: skip
    body: dict[str, Any] = {
        "channel": str(row.get("Channel_Name") or ""),
        "action": "change_source",
        "auto_position": str(row.get("Auto_Position")) == "1",
    }
    if row.get("Source_UUID"):
        body["source_uuid"] = str(row["Source_UUID"])
    if ignored:
        body["ignore_server_ids"] = ignored
    if ignored or any(row.get(name) for name in dialect.filter_columns):
        body["filtered"] = True
    return body


def _refusal(refused: Refused) -> dict[str, Any]:
    error: dict[str, Any] = {"code": refused.code, "message": refused.message}
    if refused.is_timeout:
        error["timed_out"] = True
    column = _column_in(refused.message)
    if refused.code == ER_UNABLE_TO_COLLECT_LOG_STATUS and column is not None:
        error["column"] = column.group(1)
    return error


def _failure(error: MysqlError) -> dict[str, Any]:
    """A server that cannot be asked, or did not answer in time."""
    error_body: dict[str, Any] = {"message": str(error)}
    if error.code is not None:
        error_body["code"] = error.code
    error_body["timed_out" if error.is_timeout else "unreachable"] = True
    return error_body
