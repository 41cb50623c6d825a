"""A log_status row that may be changed, and the faults that change one."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.values.binlog import parse_log_file_name
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.faults.fault import Fault, FaultGroup
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.server.binary_log import BinaryLog

if TYPE_CHECKING:
    from tallystick.producers.simulator.faults.logs import Coordinate
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import LoggedGroup
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.binary_log import BinlogFile
    from tallystick.producers.simulator.server.channels import Channel


@dataclass(slots=True)
class Row:
    """The body of a log_status record that holds a row, with the instance that gives it."""

    instance: Instance
    body: dict[str, Any]
    lineage: int

    @classmethod
    def of(cls, instance: Instance, body: dict[str, Any]) -> Row | None:
        """The row of a body; None where the collection brought none."""
        return cls(instance, body, instance[BinaryLog].lineage) if "row" in body else None

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
        """The position in the binary log."""
        _, number = parse_log_file_name(self.local["binary_log_file"])
        return number, self.local["binary_log_position"]

    def move_position(self, file: BinlogFile, position: int) -> None:
        """Let the row show another position in the binary log."""
        self.local["binary_log_file"] = file.name
        self.local["binary_log_position"] = position

    @property
    def executed(self) -> GtidSet:
        """gtid_executed."""
        return GtidSet.parse(self.local["gtid_executed"])

    @property
    def purged(self) -> GtidSet:
        """gtid_purged."""
        return GtidSet.parse(self.body.get("gtid_purged", ""))

    def take_from_executed(self, missing: GtidSet) -> None:
        """Let gtid_executed lack GTIDs, and what was read beside the row too."""
        self.local["gtid_executed"] = server_text(self.executed - missing)
        for name in ("gtid_executed_first", "gtid_executed_table"):
            if name in self.body:
                self.body[name] = server_text(GtidSet.parse(self.body[name]) - missing)
        for status in self.body.get("replica_status", ()):
            left = GtidSet.parse(status["Executed_Gtid_Set"]) - missing
            status["Executed_Gtid_Set"] = server_text(left)

    def names(self) -> dict[str, Any]:
        """What identifies the collection."""
        keys = ("collection_id", "requested_at")
        return {key: self.body[key] for key in keys if key in self.body}

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


class RowFault(Fault):
    """Tampers with one log_status row; the next one is true again.

    Attributes:
        holds_checkpoint: Whether the fault needs InnoDB to write no checkpoint from when it is due
            until it is injected: so the last LSN stays above the checkpoint.
        holds_files: Whether it needs that no binary log file is purged meanwhile.
    """

    group = FaultGroup.SNAPSHOT
    holds_checkpoint = False
    holds_files = False

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[str, Row] = {}

    def on_fleet(self, fleet: World) -> None:
        """From when it is due something that the fault needs may be held."""
        if self.holds_checkpoint or self.holds_files:
            fleet.clock.schedule(fleet.fault_at, None, self._hold, fleet)

    def _hold(self, fleet: World) -> None:
        for instance in fleet.instances.values():
            instance[Innodb].checkpoint_is_held = self.holds_checkpoint and not self.injected
            instance[BinaryLog].files_are_held = self.holds_files and not self.injected

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        """Change ``row`` in place, if the moment allows it; ``before`` is the row before it."""
        raise NotImplementedError

    def on_row(
        self, fleet: World, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Tamper with the first row that allows it."""
        row = Row.of(instance, body)
        if row is None:
            return body
        before = self._before.get(instance.instance_id)
        if before is None or before.lineage != row.lineage or not self.is_due(fleet):
            self._before[instance.instance_id] = row
            return body
        self._before[instance.instance_id] = row
        changed = row.copy()
        if not self.tamper(fleet, changed, before):
            return row.body
        self.mark(fleet, instance)
        self._hold(fleet)
        return changed.body


def server_text(gtids: GtidSet) -> str:
    """A set as a server prints it: a newline after each comma."""
    return str(gtids).replace(",", ",\n")


def newest_group(row: Row) -> tuple[BinlogFile, LoggedGroup] | None:
    """The group that ends exactly at the row's position."""
    number, position = row.position
    file = row.instance[BinaryLog].file_of_number(number)
    for logged in reversed(file.groups() if file is not None else []):
        if file is not None and logged.end == position:
            return file, logged
    return None
