"""Tiers 2 and 3: does a start read what was last written to the replication info repositories?

The writes come from `info_write` records, what a start finds from `start` records
(docs/journal.md; WL#2775).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.families import Family
from tallystick.coordinates.rules.outcomes import Broken
from tallystick.coordinates.rules.protocol_steps import note_forgotten
from tallystick.coordinates.rules.registry import Case, Rule, register
from tallystick.coordinates.rules.statements import APPLIER_STORED, RECEIVER_STORED
from tallystick.coordinates.state_codec import COLLABORATOR
from tallystick.coordinates.values.binlog import LogCoordinates
from tallystick.coordinates.values.errors import CoordinateError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.reporter import Reporter

INFO_REPOSITORY_UNAMBIGUOUS = register(
    Rule(
        number=37,
        name="info_repository_unambiguous",
        tier=2,
        scope="S",
        family=Family.INFO_TABLES,
        severity=Severity.ERROR,
        heals="data",
        claim=("Replication does not come up while both a file and a table hold its positions."),
        why=(
            "When the kind of repository is changed, the server moves the positions at start and"
            " empties the old one. With two filled ones it cannot know which is newer, and"
            " refuses rather than begin at an arbitrary one."
        ),
        undecided_when=(
            "the start did not report where positions were found, or whether replication came up"
        ),
        sources=("WL#2775, REQ-6",),
        remedy=(
            "Stop the server, compare both with the relay log and gtid_executed, put the older one"
            " away, and start with the table as the repository."
        ),
        verify=(RECEIVER_STORED, APPLIER_STORED),
        cases={
            "file_and_table": Case(
                (
                    "At the start both the file and the table of {table} held data, and"
                    " replication started all the same."
                ),
                "file and table hold data, replication started",
                "start of the server",
                "an error that refuses the start of replication",
                "WL#2775, REQ-6",
            ),
        },
    )
)

INFO_REPOSITORY_READ_BACK = register(
    Rule(
        number=82,
        name="info_repository_read_back",
        tier=3,
        scope="T",
        family=Family.INFO_TABLES,
        severity=Severity.CRITICAL,
        heals="data",
        claim=(
            "What a start reads from a replication info repository is what was last written there;"
            " after a crash, at least the last write that nothing could take back."
        ),
        why=(
            "A table of InnoDB keeps every committed write; a clean stop closes and syncs the"
            " others. A crash may take back what was only cached, and recovery may commit a"
            " prepared transaction together with its row. A migration between file and table"
            " copies the position as it is."
        ),
        undecided_when=(
            "the journal has no writes of the repository, records are missing after them, or the"
            " start did not report what it read"
        ),
        sources=("WL#2775, REQ-3, REQ-5 and REQ-6", "MySQL manual: sync_relay_log_info"),
        remedy=(
            "Stop replication before it goes on from the wrong position. Compare the position with"
            " gtid_executed and the replica's own binary log, and set it by CHANGE REPLICATION"
            " SOURCE; keep both repositories in InnoDB tables."
        ),
        verify=(RECEIVER_STORED, APPLIER_STORED),
        cases={
            "read_back_after_stop": Case(
                (
                    "At the start {table} has {found:list}, but what was last written to it is"
                    " {last:list}: replication goes on where it was not."
                ),
                "{found:list}",
                "{table}, read by the start",
                "{last:list}",
                "previous writes to the repository",
            ),
            "read_back_after_crash": Case(
                (
                    "At the start {table} has {found:list}, but what was last written to it is"
                    " {last:list}: replication goes on where it was not."
                ),
                "{found:list}",
                "{table}, read by the start",
                "at least {durable:list}",
                "previous writes to the repository",
            ),
        },
    )
)

_COLUMNS = {
    "slave_master_info": ("Master_log_name", "Master_log_pos"),
    "slave_relay_log_info": (
        "Relay_log_name",
        "Relay_log_pos",
        "Master_log_name",
        "Master_log_pos",
    ),
}
_WRITES_MAX = 256
_FORGETTING = frozenset({"reset", "reset_all"})

Values = list[Any]
"""The coordinates of one write, in the order of ``_COLUMNS``."""


@dataclass(eq=False)
class InfoRepositories:
    """What was written to each repository since the last write that nothing can take back."""

    _reporter: Reporter = field(metadata=COLLABORATOR)
    _writes: dict[tuple[str, str], list[Values]] = field(default_factory=dict)
    """The last durable write of (table, channel), then those a power cut may take back."""
    _forgotten: list[tuple[str, str]] = field(default_factory=list)
    """Those of which so many may be taken back that not all of them are remembered."""
    _recorded: list[tuple[str, str]] = field(default_factory=list)
    """Those of which a write was seen: of others what a start reads bounds no later one."""

    @property
    def has_writes(self) -> bool:
        """Whether a write was recorded."""
        return bool(self._recorded)

    def written(self, body: Mapping[str, Any]) -> None:
        """Take one ``info_write`` record."""
        key = body["table"], body["channel"]
        if key not in self._recorded:
            self._recorded.append(key)
        values = _values(key[0], body["row"])
        if values is None:
            self._writes.pop(key, None)
            return
        if body.get("durable", True):
            self._writes[key] = [values]
            if key in self._forgotten:
                self._forgotten.remove(key)
            return
        writes = self._writes.get(key)
        if writes is None:
            return  # what a file had before this write, which may be lost, is not known
        writes.append(values)
        if len(writes) > _WRITES_MAX:
            del writes[1]
            if key not in self._forgotten:
                self._forgotten.append(key)

    def administered(self, channel: str, action: str | None) -> None:
        """RESET REPLICA empties the repositories."""
        if action in _FORGETTING:
            self._writes = {key: w for key, w in self._writes.items() if key[1] != channel}
            self._forgotten = [key for key in self._forgotten if key[1] != channel]

    def started(self, found: Mapping[str, Any], ts: int, *, crashed: bool) -> None:
        """Judge what a start found in one repository of one channel."""
        table, channel = str(found.get("repository")), found.get("channel", "")
        if found.get("file") and found.get("table") and found.get("started"):
            broken = Broken(
                "file_and_table", witness=table, at=f"{table} at start {ts}", table=table
            )
            self._reporter.broken(INFO_REPOSITORY_UNAMBIGUOUS, broken, channel=channel)
        values = _values(table, found.get("row")) if found.get("started") else None
        writes = self._writes.pop((table, channel), None)
        is_forgotten = (table, channel) in self._forgotten
        if is_forgotten:
            self._forgotten.remove((table, channel))
        if values is None or (table, channel) not in self._recorded:
            return
        self._writes[table, channel] = [values]
        if writes is None or _may_read(values, writes, crashed=crashed):
            return
        if crashed and is_forgotten:
            note_forgotten(
                self._reporter,
                INFO_REPOSITORY_READ_BACK,
                what=f"writes of {table} that a crash may take back",
                kept=_WRITES_MAX,
                at=f"{table} at start {ts}",
            )
            return
        broken = Broken(
            "read_back_after_crash" if crashed else "read_back_after_stop",
            witness=f"{_text(values)} instead of {_text(writes[-1])}",
            at=f"{table} at start {ts}",
            table=table,
            found=_coordinates(values),
            last=_coordinates(writes[-1]),
            durable=_coordinates(writes[0]),
        )
        self._reporter.broken(INFO_REPOSITORY_READ_BACK, broken, channel=channel)

    def forget(self) -> None:
        """Records are missing, or the data is another: nothing written before is known."""
        self._writes, self._recorded, self._forgotten = {}, [], []


def stored_source(row: Any) -> LogCoordinates | None:
    """The source coordinates in a row of slave_master_info, None where it has none."""
    values = _values("slave_master_info", row)
    return None if values is None else _parsed(values)


def stored_pair(table: str, row: Any) -> tuple[LogCoordinates | None, LogCoordinates | None]:
    """The relay and the source coordinates in a row of an applier or of one of its workers."""
    relay_info = "slave_relay_log_info"
    values = None if table == "slave_master_info" else _values(relay_info, row)
    return (None, None) if values is None else (_parsed(values[:2]), _parsed(values[2:]))


def _values(table: str, row: Any) -> Values | None:
    """The coordinates of a row; None where some are missing."""
    if not isinstance(row, dict) or table not in _COLUMNS:
        return None
    values = [row.get(name) for name in _COLUMNS[table]]
    return None if None in values else values


def _may_read(values: Values, writes: list[Values], *, crashed: bool) -> bool:
    """Whether a start may find these values.

    A clean stop leaves the last write. A crash may take back what was not durable, and recovery
    may commit a prepared transaction, with a row whose write the journal does not have.
    """
    if values == writes[-1]:
        return True
    return crashed and (values in writes or _is_beyond(values, writes[-1]))


def _is_beyond(values: Values, last: Values) -> bool:
    """Whether every coordinate is at or after the last one, file by file."""
    for at in range(0, len(values), 2):
        here, there = _parsed(values[at : at + 2]), _parsed(last[at : at + 2])
        if here is None or there is None or here.base_name != there.base_name or here < there:
            return False
    return True


def _parsed(pair: Values) -> LogCoordinates | None:
    try:
        return LogCoordinates.of_file(str(pair[0]).removeprefix("./"), int(pair[1]))
    except (CoordinateError, TypeError, ValueError, OverflowError):
        return None


def _coordinates(values: Values) -> list[str]:
    return [f"{values[i]}:{values[i + 1]}" for i in range(0, len(values), 2)]


def _text(values: Values) -> str:
    return " with ".join(_coordinates(values))
