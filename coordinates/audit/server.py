"""What an instance said about itself: identity, version, variables; the bounds that follow."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.log_status import Logging
from tallystick.coordinates.values._gtid_text import is_uuid
from tallystick.coordinates.values.errors import JournalError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

_OLD_NAMES = {
    "log_slave_updates": "log_replica_updates",
    "slave_preserve_commit_order": "replica_preserve_commit_order",
    "slave_parallel_workers": "replica_parallel_workers",
    "sync_master_info": "sync_source_info",
}
_TRUE = frozenset({"1", "ON", "TRUE", "YES"})
MAX_CONNECTIONS_DEFAULT = 151
WORKERS_DEFAULT = 4


@dataclass(eq=False)
class Server:
    """Identity and settings of one instance as of its last ``start`` or ``variables`` record.

    Before a ``start`` was read a setting that is not given is not known: what follows of it is then
    what forbids least.

    Attributes:
        start_cluster: The cluster that its last ``start`` names, None not known.
        journal_cluster: The cluster that the messages of its journal name; None: they name none.
        has_started: Whether a ``start`` was read.
        knows_log_bin: Whether ``log_bin`` is of the present boot: a start can change it alone.
    """

    server_uuid: str | None = None
    server_id: int | None = None
    version: str | None = None
    start_cluster: str | None = None
    journal_cluster: str | None = None
    profile: str = "mysql-8.0"
    variables: dict[str, Any] = field(default_factory=dict)
    has_started: bool = False
    knows_log_bin: bool = True

    @property
    def cluster(self) -> str | None:
        """The cluster that its producer counts it to, None not known."""
        return self.journal_cluster or self.start_cluster

    def started(self, body: Mapping[str, Any]) -> None:
        """Take over a ``start`` record.

        Raises:
            JournalError: A UUID is none; nothing was taken over then.
        """
        uuid = _uuid(body, "server_uuid")
        _check_uuids(body.get("variables", {}))
        self.server_uuid = uuid or self.server_uuid
        if isinstance(body.get("server_id"), int):
            self.server_id = body["server_id"]
        self.has_started = True
        self.version = body.get("version", self.version)
        self.start_cluster = body.get("cluster", self.start_cluster)
        self.profile = body.get("profile", self.profile)
        self.stopped()
        self.changed(body.get("variables", {}))

    def stopped(self) -> None:
        """What answers from here on was started with other settings, as far as is known."""
        self.knows_log_bin = False

    def started_unseen(self) -> None:
        """It has started, and with which settings is not in the journal."""
        self.server_id = self.version = None
        self.variables = {}
        self.has_started, self.knows_log_bin = False, True

    def changed(self, variables: Mapping[str, Any]) -> None:
        """Take over variables, by old or new name.

        Raises:
            JournalError: A UUID is none; nothing was taken over then.
        """
        _check_uuids(variables)
        for name, value in variables.items():
            self.variables[_OLD_NAMES.get(name, name)] = value
        self.knows_log_bin |= variables.get("log_bin") is not None
        if variables.get("server_uuid"):
            self.server_uuid = str(variables["server_uuid"])
        # Not what was recorded before: a start since may have brought another one.
        if isinstance(variables.get("server_id"), int):
            self.server_id = variables["server_id"]

    def _flag(self, name: str, *, default: bool) -> bool:
        value = self.variables.get(name)
        if isinstance(value, bool):
            return value
        return default if value is None else str(value).upper() in _TRUE

    def number(self, name: str) -> int | None:
        """An integer variable, None when it is not known."""
        value = self.variables.get(name)
        if isinstance(value, bool) or value is None:
            return None
        try:
            return int(value)
        except (TypeError, ValueError, OverflowError):
            return None

    @property
    def knows_tags(self) -> bool:
        """Whether GTIDs may carry tags: from 8.3 on; an unknown version may."""
        return _knows_tags(self.version or "")

    @property
    def is_atomic(self) -> bool:
        """Whether a log_status row is one instant of all logs, as WL#9452 promises."""
        return self.profile == "wl9452"

    @property
    def gtid_mode(self) -> str | None:
        """OFF, OFF_PERMISSIVE, ON_PERMISSIVE, ON; None when not known."""
        mode = self.variables.get("gtid_mode")
        return None if mode is None else str(mode).upper()

    @property
    def log_bin(self) -> bool:
        """Whether there is a binary log."""
        return self._flag("log_bin", default=True)

    @property
    def is_log_bin_off(self) -> bool:
        """Whether it is known to have no binary log, not only assumed."""
        return self.variables.get("log_bin") is not None and not self.log_bin

    def logging(self, *, is_seen: bool) -> Logging:
        """Whether it is known to write a binary log; ``is_seen``: the journal has one of it."""
        if self.is_log_bin_off:
            return Logging.NONE
        if self.variables.get("log_bin") is None or not self.knows_log_bin:
            return Logging.MAY_END if is_seen else Logging.NONE
        action = str(self.variables.get("binlog_error_action")).upper()
        return Logging.MAY_END if action == "IGNORE_ERROR" else Logging.ON

    @property
    def logs_everything(self) -> bool:
        """Whether every executed GTID is also logged."""
        return self.log_bin and self._flag("log_replica_updates", default=self.has_started)

    def must_have_logged(self, executed: GtidSet) -> GtidSet:
        """What of it was logged: all of it, or only groups of its own."""
        if self.logs_everything:
            return executed
        return GtidSet.EMPTY if self.server_uuid is None else executed.restrict(self.server_uuid)

    @property
    def workers(self) -> int:
        """Applier workers of a channel; 0: the coordinator applies by itself."""
        number = self.number("replica_parallel_workers")
        return WORKERS_DEFAULT if number is None else number

    @property
    def commits_are_ordered(self) -> bool:
        """Whether transactions become executed in the order of the binary log."""
        ordered_appliers = self.workers <= 1 or self._flag(
            "replica_preserve_commit_order", default=True
        )
        return self._flag("binlog_order_commits", default=self.has_started) and ordered_appliers

    @property
    def commit_lag_max(self) -> int:
        """K: how many groups can be in flight between the binary log and gtid_executed."""
        bound = self.number("commit_lag_max")
        if bound is not None:
            return bound
        connections = self.number("max_connections")
        return (MAX_CONNECTIONS_DEFAULT if connections is None else connections) + self.workers

    @property
    def knows_commit_lag_max(self) -> bool:
        """Whether K is the server's own, not made of the defaults of a server's settings."""
        return any(self.number(name) is not None for name in ("commit_lag_max", "max_connections"))

    @property
    def relay_log_info_is_transactional(self) -> bool:
        """Whether the relay log info repository commits with the transaction it describes."""
        return self._flag("relay_log_info_transactional", default=self.has_started)

    @property
    def group_uuid(self) -> str | None:
        """UUID whose GTIDs Group Replication hands out."""
        name = self.variables.get("group_replication_group_name")
        return str(name).lower() if name else None

    @property
    def redo_is_disabled(self) -> bool:
        """ALTER INSTANCE DISABLE INNODB REDO_LOG: changes write no redo, nothing is durable.

        So it may be while the settings are not known.
        """
        return not self._flag("innodb_redo_log_enabled", default=self.has_started)

    @property
    def commits_are_durable(self) -> bool:
        """Whether a crash takes back no commit of InnoDB, as far as the settings say."""
        policy = self.variables.get("innodb_flush_log_at_trx_commit", 1)
        return str(policy) == "1" and not self.redo_is_disabled

    @property
    def flushes_before_logging(self) -> bool:
        """Whether the redo log is known to be flushed before a group goes into the binary log."""
        policy = self.variables.get("innodb_flush_log_at_trx_commit")
        return policy is not None and self.commits_are_durable

    @property
    def is_backup_safe(self) -> bool:
        """have_backup_safe_binlog_info."""
        return self._flag("have_backup_safe_binlog_info", default=False)

    @property
    def may_be_backup_safe(self) -> bool:
        """Whether it may have that variable: nobody knows it of one whose start was not seen."""
        return self._flag("have_backup_safe_binlog_info", default=not self.has_started)


@lru_cache(maxsize=64)
def _knows_tags(version: str) -> bool:
    match = re.match(r"(\d+)\.(\d+)", version)
    return match is None or (int(match[1]), int(match[2])) >= (8, 3)


def _uuid(values: Mapping[str, Any], name: str) -> str | None:
    value = values.get(name)
    if value is None or value == "":
        return None
    if not is_uuid(value):
        raise JournalError(f"key {name!r}: expected a UUID, found {repr(value)[:80]}")
    return str(value)


def _check_uuids(variables: Mapping[str, Any]) -> None:
    for name in ("server_uuid", "group_replication_group_name"):
        _uuid(variables, name)
