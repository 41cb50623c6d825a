"""Which rights reading a server takes, what each is for, and which of them an account has.

An account is asked by what it can do, not by SHOW GRANTS: roles, partial revokes and rights on
columns then need no reading of ours. Every probe reads nothing, or what a collection reads too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallystick.producers.mysql.statements import Refused, Session

if TYPE_CHECKING:
    from tallystick.producers.mysql.dialect import Dialect

ACCOUNT_DEFAULT = "'tallystick'@'%'"
LOG_STATUS_TABLE = "performance_schema.log_status"
_LOG_STATUS_ROW = f"SELECT SERVER_UUID FROM {LOG_STATUS_TABLE}"  # noqa: S608  no value in it
CLONE_PLUGIN = (
    "SELECT PLUGIN_NAME FROM information_schema.PLUGINS"
    " WHERE PLUGIN_NAME = 'clone' AND PLUGIN_STATUS = 'ACTIVE'"
)
_CLONE_TABLES = ("clone_status", "clone_progress")


@dataclass(frozen=True, slots=True)
class Right:
    """One right.

    Attributes:
        privilege: As GRANT has it: ``BACKUP_ADMIN``, ``SELECT (`Channel_name`)``.
        on: The level: ``*.*`` or a table.
        purpose: What is read with it.
        probe: A statement that is refused without it.
        is_required: Nothing is audited without it; without the others some checks are UNDECIDED.
        is_of_row: It is required for the row of log_status alone: without it logs can be read.
    """

    privilege: str
    on: str
    purpose: str
    probe: str
    is_required: bool = False
    is_of_row: bool = False

    @property
    def name(self) -> str:
        """The right for people, without the columns."""
        privilege = self.privilege.partition(" (")[0]
        return privilege if self.on == "*.*" else f"{privilege} on {self.on}"

    def grant(self, account: str = ACCOUNT_DEFAULT) -> str:
        """The statement that grants it."""
        return f"GRANT {self.privilege} ON {self.on} TO {account};"


@dataclass(frozen=True, slots=True)
class RightHeld:
    """Whether an account has a right.

    Attributes:
        right: The right.
        is_held: None: that is not known, because another right is missing or the probe failed.
        reason: Why not, as the server reports it.
    """

    right: Right
    is_held: bool | None
    reason: str = ""


def rights_of(dialect: Dialect, *, with_clone: bool = False) -> tuple[Right, ...]:
    """All rights that are of use on a server of a version.

    Args:
        dialect: Of the server.
        with_clone: Whether the server has the clone plugin: without it there are no tables of it.
    """

    def table(name: str, columns: Sequence[str], purpose: str) -> Right:
        # By columns: the password of the replication account is beside them.
        chosen = ", ".join(f"`{column}`" for column in columns)
        probe = f"SELECT {chosen} FROM mysql.{name} LIMIT 0"  # noqa: S608  names of ours
        return Right(f"SELECT ({chosen})", f"mysql.{name}", purpose, probe)

    def whole(name: str, purpose: str, *, is_of_row: bool = False) -> Right:
        probe = f"SELECT 1 FROM {name} LIMIT 0"  # noqa: S608  names of ours
        return Right("SELECT", name, purpose, probe, is_of_row, is_of_row)

    schema = "performance_schema"
    return (
        Right("REPLICATION SLAVE", "*.*", "the binary log, as a replica reads it",
              dialect.show_replicas, is_required=True),
        Right("REPLICATION CLIENT", "*.*", "replica status and the list of binary logs",
              dialect.show_binary_log_status, is_required=True),
        whole(LOG_STATUS_TABLE, "the row that a collection is about", is_of_row=True),
        Right("BACKUP_ADMIN", "*.*", "the server returns that row to nobody without it",
              _LOG_STATUS_ROW, is_required=True, is_of_row=True),
        Right("XA_RECOVER_ADMIN", "*.*", "whether there are prepared XA transactions",
              "XA RECOVER"),
        whole("mysql.gtid_executed", "GTIDs that the server has stored"),
        table("slave_master_info", dialect.master_info_columns, "stored positions of receivers"),
        table("slave_relay_log_info", dialect.relay_log_info_columns,
              "stored positions of appliers"),
        table("slave_worker_info", dialect.worker_info_columns,
              "stored positions of applier workers"),
        whole(f"{schema}.replication_connection_status", "what receivers report"),
        whole(f"{schema}.replication_applier_status_by_worker", "what workers report"),
        *(whole(f"{schema}.{name}", "where a clone came from and how far it got")
          for name in _CLONE_TABLES if with_clone),
    )  # fmt: skip


def probe_rights(session: Session) -> list[RightHeld]:
    """Ask a server which of the rights this session's account has.

    Raises:
        MysqlError: The server cannot be asked.
    """
    session.ensure()
    held: list[RightHeld] = []
    for right in rights_of(session.dialect, with_clone=has_clone_plugin(session)):
        if right.probe == _LOG_STATUS_ROW and not held[-1].is_held:
            held.append(RightHeld(right, None, f"not known without {held[-1].right.name}"))
            continue
        rows = session.ask(right.probe)
        if not isinstance(rows, Refused):
            held.append(RightHeld(right, is_held=True))
        else:
            is_denied = rows.code in _DENIED
            held.append(RightHeld(right, False if is_denied else None, rows.message))
    return held


_DENIED = frozenset({1044, 1045, 1142, 1143, 1227, 1370, 1401})
"""Denied: schema, account, table, column, a named privilege, routine, XA RECOVER."""


def has_clone_plugin(session: Session) -> bool:
    """Whether the server has the tables of the clone plugin."""
    rows = session.ask(CLONE_PLUGIN)
    return not isinstance(rows, Refused) and bool(rows)


def account_of(session: Session) -> str:
    """The account that the server took us for, as GRANT writes it."""
    rows = session.ask("SELECT CURRENT_USER() AS account")
    if isinstance(rows, Refused) or not rows:
        return ACCOUNT_DEFAULT
    user, _, host = str(rows[0]["account"]).rpartition("@")
    return f"{_quoted(user)}@{_quoted(host)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
