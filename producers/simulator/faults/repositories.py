"""Faults of the tables and files in which a replica stores where its channels are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.faults.channels import (
    ChannelFault,
    ChannelRowFault,
    channels,
    clog_receivers,
    coordinate,
    relay_file,
    unread_groups,
)
from tallystick.producers.simulator.faults.fault import ActFault, BaseHistory, FaultGroup
from tallystick.producers.simulator.faults.journal import JournalFault
from tallystick.producers.simulator.faults.logs import ends_in_xid, gtid_of
from tallystick.producers.simulator.faults.row import Row
from tallystick.producers.simulator.replication_info.master_info import MasterInfo
from tallystick.producers.simulator.replication_info.relay_log_info import RelayLogInfo
from tallystick.producers.simulator.server import administration, lifecycle, receiver
from tallystick.producers.simulator.server.channels import Applier, ChannelMap, Receiver

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

_RelayInfo = tuple[str, int, str, int]
"""Relay file and position, source file and position: a row of slave_relay_log_info."""


class MasterInfoAhead(ChannelRowFault):
    """The stored read position is that of a group which was not received."""

    number = 52
    name = "master_info_ahead"
    text = "the stored read position is one group after the last event of the relay log"
    must_fire = frozenset({"master_info_not_ahead_of_relay"})

    def on_fleet(self, fleet: World) -> None:
        """Let the network be slow."""
        clog_receivers(self, fleet)

    def tamper_channel(self, row: Row, before: Row, channel: Channel) -> bool:
        stored = row.info("slave_master_info", channel)
        unread = next(unread_groups(channel), None)
        if stored is None or unread is None:
            return False
        file, logged = unread
        stored["Master_log_name"] = file.name
        stored["Master_log_pos"] = logged.end
        return True


class _RelayInfoFault(JournalFault):
    """Tampers with the writes to one row of slave_relay_log_info until a collection has read it.

    After such a write the replica commits nothing until then: the next one may be true.
    """

    group = FaultGroup.CHANNEL
    base = BaseHistory.REPLICA

    def __init__(self) -> None:
        super().__init__()
        self._true: dict[Channel, _RelayInfo] = {}
        self._torn: list[tuple[Channel, _RelayInfo, GtidSet]] = []

    def torn(self, old: _RelayInfo, new: _RelayInfo) -> _RelayInfo:
        """What the row holds after a write."""
        raise NotImplementedError

    def on_server_record(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Change what a transaction writes that follows another in both files."""
        is_write = record_type is RecordType.INFO_WRITE and body["table"] == "slave_relay_log_info"
        if self.fleet is None or not is_write:
            return body
        channel = self.fleet.instances[instance_id][ChannelMap].channels[body["channel"]]
        old, new = self._true.get(channel), channel[Applier].group_end
        self._true[channel] = new
        if old is None or not self.is_due_in(instance_id) or body["reason"] != "xid":
            return body
        is_next = (
            bool(old[0] and old[2])
            and coordinate(old[0], old[1]) < coordinate(new[0], new[1])
            and coordinate(old[2], old[3]) < coordinate(new[2], new[3])
        )
        file = relay_file(channel, new[0])
        group = next((g for g in reversed(file.groups) if g.end == new[1]), None) if file else None
        has_workers = channel.replica.variables["replica_parallel_workers"] > 1
        if not is_next or group is None or has_workers or not ends_in_xid(group.logged):
            return body
        torn = self.torn(old, new)
        channel[RelayLogInfo].store(channel, torn)
        self._torn.append((channel, torn, gtid_of(group.logged)))
        relay_name, relay_pos, source_name, source_pos = torn
        row = {
            **body["row"],
            "Relay_log_name": f"./{relay_name}",
            "Relay_log_pos": relay_pos,
            "Master_log_name": source_name,
            "Master_log_pos": source_pos,
        }
        return {**body, "row": row}

    def on_may_commit(self, instance: Instance, group: Group) -> bool:
        """Wait until it was read."""
        return self.injected or not any(
            channel.replica is instance and channel[RelayLogInfo].stored() == torn
            for channel, torn, _ in self._torn
        )

    def on_row(
        self, fleet: World, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Once it was read after the transaction's commit, writes are true again."""
        if self.injected or "row" not in body:
            return body
        executed = GtidSet.parse(body.get("gtid_executed_first", ""))
        for channel, (relay_name, relay_pos, _, source_pos), gtid in self._torn:
            stored = Row(instance, body, 0).info("slave_relay_log_info", channel)
            if channel.replica is not instance or stored is None or not gtid <= executed:
                continue
            shown = stored["Relay_log_name"], stored["Relay_log_pos"], stored["Master_log_pos"]
            if shown == (f"./{relay_name}", relay_pos, source_pos):
                self.mark(fleet, instance)
                break
        return body


class RelayInfoTorn(_RelayInfoFault):
    """The relay position is new, the source position old."""

    number = 53
    name = "relay_info_torn"
    text = (
        "a write to slave_relay_log_info pairs the new relay position with the old source position"
    )
    must_fire = frozenset({"relay_info_coordinates_paired"})

    def torn(self, old: _RelayInfo, new: _RelayInfo) -> _RelayInfo:
        """Mix both."""
        return new[0], new[1], old[2], old[3]


class RelayInfoNotUpdated(_RelayInfoFault):
    """Both positions are old."""

    number = 54
    name = "relay_info_not_updated"
    text = "a transaction commits and slave_relay_log_info still names the group before"
    must_fire = frozenset({"relay_info_updated_with_commit"})

    def torn(self, old: _RelayInfo, new: _RelayInfo) -> _RelayInfo:
        """Keep the old row."""
        return old


class MasterInfoNotFlushedOnStop(ChannelFault, ActFault):
    """STOP REPLICA IO_THREAD writes nothing; the receiver starts again after a collection."""

    number = 55
    name = "master_info_not_flushed_on_stop"
    text = "the receiver stops and slave_master_info is not written"
    must_fire = frozenset({"info_write_steps_complete", "master_info_flush_points"})
    # FLUSH RELAY LOGS before the row would write what the stop did not.
    bears_acts = False

    def __init__(self) -> None:
        super().__init__()
        self._channel: Channel | None = None
        self._stopped_at = 0

    def act(self, fleet: World) -> bool:
        """Stop a receiver."""
        for channel in channels(fleet):
            stored = channel[MasterInfo].stored()
            is_busy = channel[Receiver].is_connected and channel[Receiver].read != stored
            # The next count would write it, whatever the stop does.
            period = channel.replica.variables["sync_source_info"]
            if period == 1 and channel[Receiver].is_connected:
                administration.set_variables(channel.replica, sync_source_info=0)
            is_busy = is_busy and not 0 < period <= channel[MasterInfo].handler.sync_counter + 1
            if is_busy and channel[Receiver].read[0] == stored[0]:
                self._channel = channel
                self._stopped_at = fleet.now
                self.mark(fleet, channel.replica)
                receiver.stop(fleet, channel)
                return True
        return False

    def on_info_write(self, fleet: World, channel: Channel, table: str, reason: str) -> bool:
        """Leave out the write that the stop asks for."""
        is_it = channel is self._channel and reason == "receiver_stop"
        return not (is_it and table == "slave_master_info")

    def on_row(
        self, fleet: World, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Once a row that was asked for after the stop shows it, receive again."""
        channel = self._channel
        is_behind = "row" in body and body["requested_at"] > self._stopped_at
        if channel is not None and channel.replica is instance and is_behind:
            self._channel = None
            fleet.schedule(fleet.now + 1, instance, receiver.start, channel)
        return body


class BothRepositoriesFilled(JournalFault):
    """A start finds a file beside the table and succeeds."""

    number = 56
    name = "both_repositories_filled"
    text = "at a start file and table both hold replication info, and the start succeeds"
    must_fire = frozenset({"info_repository_unambiguous"})
    group = FaultGroup.CHANNEL
    base = BaseHistory.REPLICA

    def on_fleet(self, fleet: World) -> None:
        """Restart a replica when the fault is due."""
        super().on_fleet(fleet)
        for replica in [channel.replica for channel in channels(fleet)][:1]:
            fleet.schedule(fleet.fault_at, None, lifecycle.shut_down, replica)

    def on_server_record(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Let the start find a file."""
        repositories = body.get("repositories")
        is_start = record_type is RecordType.START and bool(repositories)
        if not is_start or not repositories or not self.is_due_in(instance_id):
            return body
        self.mark_in(instance_id)
        first = {**repositories[0], "file": True, "table": True, "started": True}
        return {**body, "repositories": [first, *repositories[1:]]}


class WorkerInfoTorn(ChannelRowFault):
    """A worker's row has the relay coordinates of its group with the source's of the one before."""

    number = 262
    name = "worker_info_torn"
    text = "what a worker has stored pairs the end of its group with the source's group before it"
    must_fire = frozenset({"worker_positions_end_groups"})

    def on_variables(self, instance_id: str, variables: dict[str, Any]) -> None:
        """Let several workers apply, in the source's order."""
        del instance_id
        variables["replica_parallel_workers"] = 4

    def tamper_channel(self, row: Row, before: Row, channel: Channel) -> bool:
        """Of a row that was written since the collection before."""
        for stored in row.body.get("slave_worker_info") or ():
            is_new = stored not in (before.body.get("slave_worker_info") or [stored])
            file = relay_file(channel, stored["Relay_log_name"].removeprefix("./"))
            if stored["Channel_name"] != channel.name or not is_new or file is None:
                continue
            earlier = [g for g in file.groups if g.end < stored["Relay_log_pos"]]
            if earlier and earlier[-1].source_file == stored["Master_log_name"]:
                stored["Master_log_pos"] = earlier[-1].logged.end
                return True
        return False
