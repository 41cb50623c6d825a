"""What all injectors share: when a fault is due, whether it was injected, and log_status rows.

An injector changes one account of the history and leaves every other one as it is; it waits for a
moment at which that is possible.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.values.binlog import EventType, parse_log_file_name
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.hooks import FaultHooks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.model import BinlogFile, Channel, Instance, LoggedGroup

Coordinate = tuple[int, int]
"""A file number and an offset: ordered as the log is."""


class Injector(FaultHooks):
    """A fault that waits for its moment.

    Attributes:
        injected: Whether the history shows the fault.
        injected_in: The instance that shows it, empty before.
        injected_at: When, microseconds of virtual time; -1 before.
    """

    name: str = ""
    """In the catalogue; set by ``make_injector``."""

    def __init__(self) -> None:
        self.injected = False
        self.injected_in = ""
        self.injected_at = -1

    def is_due(self, fleet: Fleet) -> bool:
        """Tell whether the fault is still to be injected and its time has come."""
        return not self.injected and fleet.now >= fleet.fault_at

    def mark(self, fleet: Fleet, instance: Instance) -> None:
        """Note that the history shows the fault from now on."""
        self.injected = True
        self.injected_in = instance.instance_id
        self.injected_at = fleet.now
        fleet.note_injection(self.name, instance)


@dataclass(slots=True)
class Row:
    """The body of a log_status record that holds a row, with the instance that gives it."""

    instance: Instance
    body: dict[str, Any]
    lineage: int

    @classmethod
    def of(cls, instance: Instance, body: dict[str, Any]) -> Row | None:
        """The row of a body; None where the collection brought none."""
        return cls(instance, body, instance.binlog.lineage) if "row" in body else None

    def copy(self) -> Row:
        """A row that may be changed."""
        return Row(self.instance, copy.deepcopy(self.body), self.lineage)

    @property
    def local(self) -> dict[str, Any]:
        """Column LOCAL."""
        return self.body["row"]["LOCAL"]  # type: ignore[no-any-return]

    @property
    def innodb(self) -> dict[str, Any]:
        """InnoDB's part of column STORAGE_ENGINES."""
        return self.body["row"]["STORAGE_ENGINES"]["InnoDB"]  # type: ignore[no-any-return]

    @property
    def channels(self) -> list[dict[str, Any]]:
        """The channels of column REPLICATION."""
        return self.body["row"]["REPLICATION"]["channels"]  # type: ignore[no-any-return]

    @property
    def has_position(self) -> bool:
        """Whether binary logging is on."""
        return "binary_log_position" in self.local

    @property
    def position(self) -> Coordinate:
        """P."""
        _, number = parse_log_file_name(self.local["binary_log_file"])
        return number, self.local["binary_log_position"]

    def move_position(self, file: BinlogFile, position: int) -> None:
        """Let the row show another P."""
        self.local["binary_log_file"] = file.name
        self.local["binary_log_position"] = position

    @property
    def executed(self) -> GtidSet:
        """X."""
        return GtidSet.parse(self.local["gtid_executed"])

    @property
    def purged(self) -> GtidSet:
        """U."""
        return GtidSet.parse(self.body.get("gtid_purged", ""))

    def take_from_executed(self, missing: GtidSet) -> None:
        """Let X lack GTIDs, and with it what was read of X beside the row."""
        self.local["gtid_executed"] = server_text(self.executed - missing)
        for name in ("gtid_executed_first", "gtid_executed_table"):
            if name in self.body:
                self.body[name] = server_text(GtidSet.parse(self.body[name]) - missing)

    def names(self) -> dict[str, Any]:
        """What tells one collection from another."""
        keys = ("collection_id", "requested_at")
        return {key: self.body[key] for key in keys if key in self.body}

    def hold_checkpoint(self, before: Row) -> None:
        """Let no checkpoint have been written since ``before``."""
        checkpoint = before.innodb["LSN_checkpoint"]
        self.innodb["LSN_checkpoint"] = checkpoint
        if "innodb" in self.body:
            self.body["innodb"]["checkpoint"] = checkpoint

    def channel(self, channel: Channel) -> dict[str, Any] | None:
        """The row's object of a channel."""
        return _of_channel(self.channels, "channel_name", channel.name)

    def status(self, channel: Channel) -> dict[str, Any] | None:
        """The channel's row of SHOW REPLICA STATUS."""
        return _of_channel(self.body.get("replica_status", []), "Channel_Name", channel.name)

    def info(self, table: str, channel: Channel) -> dict[str, Any] | None:
        """The channel's row of an info table."""
        return _of_channel(self.body.get(table, []), "Channel_name", channel.name)


def _of_channel(rows: list[dict[str, Any]], key: str, name: str) -> dict[str, Any] | None:
    return next((row for row in rows if row.get(key) == name), None)


class RowFault(Injector):
    """Tampers with one log_status row; the next one is true again.

    Attributes:
        holds_checkpoint: Whether the fault needs InnoDB to write no checkpoint from when it is due
            until it is injected: so the last LSN stays above the checkpoint.
    """

    holds_checkpoint = False

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[str, Row] = {}

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Change ``row`` in place, if the moment allows it; ``before`` is the row before it."""
        raise NotImplementedError

    def on_row(
        self, fleet: Fleet, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Tamper with the first row that allows it."""
        row = Row.of(instance, body)
        if row is None:
            return body
        before = self._before.get(instance.instance_id)
        if before is None or before.lineage != row.lineage or not self.is_due(fleet):
            self._before[instance.instance_id] = row
            return body
        if self.holds_checkpoint:
            row = row.copy()
            row.hold_checkpoint(before)
        self._before[instance.instance_id] = row
        changed = row.copy()
        if not self.tamper(fleet, changed, before):
            return row.body
        self.mark(fleet, instance)
        return changed.body


def server_text(gtids: GtidSet) -> str:
    """A set as a server prints it: a newline after each comma."""
    return str(gtids).replace(",", ",\n")


def gtid_of(logged: LoggedGroup) -> GtidSet:
    """The group's GTID as a set; empty for an anonymous group."""
    group = logged.group
    return GtidSet.EMPTY if group.sid is None else GtidSet([(group.sid, group.gno, group.gno)])


def union(groups: list[LoggedGroup]) -> GtidSet:
    """The GTIDs of groups."""
    return GtidSet(
        (logged.group.sid, logged.group.gno, logged.group.gno)
        for logged in groups
        if logged.group.sid is not None
    )


def groups_between(
    instance: Instance, low: Coordinate, high: Coordinate
) -> list[tuple[BinlogFile, LoggedGroup]]:
    """The retained groups that end after ``low`` and at or before ``high``, in log order."""
    return [
        (file, logged)
        for file in instance.binlog.files
        if low[0] <= file.number <= high[0]
        for logged in file.groups()
        if low < (file.number, logged.end) <= high
    ]


def newest_group(row: Row) -> tuple[BinlogFile, LoggedGroup] | None:
    """The group that ends exactly at the row's position."""
    number, position = row.position
    file = row.instance.binlog.file_of_number(number)
    for logged in reversed(file.groups() if file is not None else []):
        if file is not None and logged.end == position:
            return file, logged
    return None


def event_ends(logged: LoggedGroup) -> Iterator[tuple[int, int]]:
    """The group's events after the GTID event: type and end."""
    for event_type, _, start, length, _ in logged.events():
        yield event_type, start + length


def is_pure_source(instance: Instance) -> bool:
    """Tell whether all GTIDs of the instance are its own: it replicates from nobody."""
    return not instance.channels and instance.log_bin and instance.gtid_mode == "ON"


def ends_in_xid(logged: LoggedGroup) -> bool:
    """Tell whether the group commits an InnoDB transaction."""
    return logged.group.body[-1][0] == EventType.XID
