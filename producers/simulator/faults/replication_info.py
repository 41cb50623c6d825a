"""Faults of replication info (WL#2775): a start that goes on at another position than it should."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.faults.channels import (
    coordinate,
    leaf_channels,
    waiting_groups,
)
from tallystick.producers.simulator.faults.fault import ActFault, BaseHistory, Fault, FaultGroup
from tallystick.producers.simulator.faults.journal import JournalFault
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.replication_info import acts, recovery
from tallystick.producers.simulator.replication_info.crash_points import CrashPlan, CrashPoint
from tallystick.producers.simulator.replication_info.relay_log_info import RelayLogInfo
from tallystick.producers.simulator.replication_info.rpl_info_handler import Repository
from tallystick.producers.simulator.replication_info.rpl_info_table_access import MYISAM
from tallystick.producers.simulator.server import administration, applier, lifecycle
from tallystick.producers.simulator.server.channels import QueuedGroup, Receiver, RelayLog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel


class _OldPositionRead(JournalFault):
    """A start reads its relay log info as an earlier write left it."""

    group = FaultGroup.CHANNEL
    base = BaseHistory.SINGLE_CHANNEL

    def __init__(self) -> None:
        super().__init__()
        self._writes: dict[str, list[Mapping[str, Any]]] = {}

    def on_fleet(self, fleet: World) -> None:
        """End a replica when the fault is due."""
        super().on_fleet(fleet)
        for channel in leaf_channels(fleet)[:1]:
            fleet.schedule(fleet.fault_at, None, self.end, channel.replica)

    def end(self, fleet: World, instance: Instance) -> None:
        """How the replica goes down."""
        raise NotImplementedError

    def on_server_record(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Remember what is written; change what a start reads."""
        if record_type is RecordType.INFO_WRITE and body["table"] == "slave_relay_log_info":
            self._writes.setdefault(instance_id, []).append(body["row"])
        if record_type is not RecordType.START or not self.is_due_in(instance_id):
            return body
        repositories = [dict(found) for found in body.get("repositories") or ()]
        for found in repositories:
            older = self._older(instance_id, found)
            if older is not None:
                found["row"] = older
                self.mark_in(instance_id)
                return {**body, "repositories": repositories}
        return body

    def _older(self, instance_id: str, found: Mapping[str, Any]) -> dict[str, Any] | None:
        if found["repository"] != "slave_relay_log_info" or "row" not in found:
            return None
        writes = self._writes.get(instance_id, [])
        # Recovery may have committed a row after the last write that was recorded.
        for row in reversed(writes):
            if row["Master_log_name"] and _source_position(row) < _source_position(writes[-1]):
                return {name: row[name] for name in found["row"]}
        return None


def _source_position(row: Mapping[str, Any]) -> tuple[int, int]:
    return coordinate(row["Master_log_name"], row["Master_log_pos"])


class MigrationLosesPosition(_OldPositionRead):
    """The position in the new file is not the one that the table had."""

    number = 113
    name = "migration_loses_position"
    text = "a start moves relay log info from the table to a file and reads an older position there"
    must_fire = frozenset({"info_repository_read_back"})

    def end(self, fleet: World, instance: Instance) -> None:
        """A clean restart with the other option."""
        acts.restart_with(fleet, instance, Repository.FILE)


class StaleRowAfterCrash(_OldPositionRead):
    """A committed row is gone after a crash."""

    number = 114
    name = "stale_row_after_crash"
    text = "a start after a crash reads an older position from an InnoDB table than was committed"
    must_fire = frozenset({"info_repository_read_back"})

    def end(self, fleet: World, instance: Instance) -> None:
        """A crash."""
        lifecycle.crash(fleet, instance, torn=False)


class _CrashByPosition(Fault):
    """A fleet without GTIDs, and a crash of a replica at a step."""

    group = FaultGroup.CHANNEL
    base = BaseHistory.SINGLE_CHANNEL
    heals = False
    bears_acts = False
    point: CrashPoint

    def __init__(self) -> None:
        super().__init__()
        self._channel: Channel | None = None

    def on_variables(self, instance_id: str, variables: dict[str, Any]) -> None:
        """No GTIDs: positions alone say what is executed."""
        variables["gtid_mode"] = "OFF"
        variables["relay_log_recovery"] = True

    def on_fleet(self, fleet: World) -> None:
        """Wait for a transaction of InnoDB when the fault is due."""
        for channel in leaf_channels(fleet)[:1]:
            self._channel = channel
            plan = CrashPlan(self.point, passes=1, kinds=(GroupKind.INNODB,))
            fleet.schedule(fleet.fault_at, channel.replica, acts.crash_at, channel.replica, plan)

    def on_stop(self, fleet: World, instance: Instance, crashed: bool) -> None:
        """The replica is gone."""
        if self._channel is not None and instance is self._channel.replica and crashed:
            self.mark(fleet, instance)


class GroupRepeatedAfterCrash(_CrashByPosition):
    """A crash between the commit and the write of its position."""

    number = 115
    name = "group_repeated_after_crash"
    text = "positions are in a MyISAM table, and a crash falls between a commit and its position"
    must_fire = frozenset({"applied_exactly_once"})
    point = CrashPoint.BETWEEN_COMMIT_AND_POSITION

    def on_fleet(self, fleet: World) -> None:
        """Keep positions in MyISAM, written after every transaction."""
        super().on_fleet(fleet)
        if self._channel is not None:
            replica = self._channel.replica
            acts.alter_engine(replica, MYISAM)
            variables = {"sync_relay_log_info": 1, "relay_log_info_transactional": False}
            administration.set_variables(replica, **variables)


class RelayLogsKeptAfterCrash(_CrashByPosition):
    """A crash after relay events that the master info does not know, without relay_log_recovery."""

    number = 205
    name = "relay_logs_kept_after_crash"
    text = "the receiver goes on from an older position in relay logs that were kept over a crash"
    must_fire = frozenset({"applied_exactly_once"})
    point = CrashPoint.BEHIND_POSITION

    def on_variables(self, instance_id: str, variables: dict[str, Any]) -> None:
        """The position of the receiver is stored seldom."""
        super().on_variables(instance_id, variables)
        variables.update(relay_log_recovery=False, sync_source_info=10_000)


class GroupLeftOutAfterCrash(_CrashByPosition):
    """A crash before the commit, that does not roll the position back."""

    number = 116
    name = "group_left_out_after_crash"
    text = "a crash rolls a transaction back and leaves its position in the repository"
    must_fire = frozenset({"applied_exactly_once"})
    point = CrashPoint.BETWEEN_EXECUTION_AND_BINARY_LOG

    def on_stop(self, fleet: World, instance: Instance, crashed: bool) -> None:
        """Store the position of the transaction that is gone."""
        super().on_stop(fleet, instance, crashed)
        channel = self._channel
        if channel is None or not crashed or self.injected_in != instance.instance_id:
            return
        waiting = (item for item in channel.pending if isinstance(item, QueuedGroup))
        for group in islice(waiting, 1):
            position = (group.relay_file.name, group.end, group.source_file, group.logged.end)
            channel[RelayLogInfo].store(channel, position)


class RelayLogCutWhileDown(ActFault):
    """A relay log file is shorter after a restart than before it; the applier had not come there.

    Its threads stay stopped until a collection has read that: auto-positioning fetches it again.
    """

    number = 210
    name = "relay_log_cut_while_down"
    text = "the last group of a relay log is gone after a clean restart, and was not executed"
    must_fire = frozenset({"retrieved_matches_relay"})
    group = FaultGroup.CHANNEL
    base = BaseHistory.SINGLE_CHANNEL
    bears_acts = False

    def __init__(self) -> None:
        super().__init__()
        self._channel: Channel | None = None

    def act(self, fleet: World) -> bool:
        """Stop the applier, and the server as soon as a whole group waits for it."""
        channel = next(iter(leaf_channels(fleet)), None)
        if channel is None or not channel.replica.is_running or not channel[Receiver].is_connected:
            return False
        applier.stop(fleet, channel)
        if channel.partial_group is not None or not waiting_groups(channel):
            return False
        self._channel = channel
        # In the configuration file: the start goes on in the relay logs that are there.
        channel.replica.variables["relay_log_recovery"] = False
        lifecycle.shut_down(fleet, channel.replica)
        return True

    def on_stop(self, fleet: World, instance: Instance, crashed: bool) -> None:
        """Cut the file while the server is down."""
        channel = self._channel
        if channel is None or instance is not channel.replica or self.injected:
            return
        recovery.truncate(channel[RelayLog].files[-1], waiting_groups(channel)[-1].start)
        channel.starts_at_boot = False
        self.mark(fleet, instance)

    def on_row(
        self, fleet: World, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Once a row that was asked for afterwards shows it, replication goes on."""
        channel = self._channel
        is_later = "row" in body and body["requested_at"] > self.injected_at
        if self.injected and channel is not None and instance is channel.replica and is_later:
            self._channel = None
            later = fleet.now + 1
            fleet.schedule(later, instance, administration.start_replication, channel)
        return body
