"""Faults of receivers and appliers, and of where a row says that they are."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.faults import cures
from tallystick.producers.simulator.faults.channels import (
    ChannelFault,
    ChannelRowFault,
    channels,
    clog_appliers,
    clog_receivers,
    coordinate,
    leaf_channels,
    relay_file,
    unread_groups,
    waiting_groups,
)
from tallystick.producers.simulator.faults.fault import ActFault, BaseHistory, FaultGroup
from tallystick.producers.simulator.faults.logs import gtid_of
from tallystick.producers.simulator.faults.row import Row, server_text
from tallystick.producers.simulator.server import (
    administration,
    applier,
    commit,
    receiver,
    relay_log,
)
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import (
    Applier,
    ChannelMap,
    QueuedFraming,
    QueuedGroup,
    Receiver,
    RelayLog,
)
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import LoggedGroup
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.binary_log import BinlogFile
    from tallystick.producers.simulator.server.channels import Channel

_SETTLED_US: Final = 50_000
_BEYOND: Final = 10_000
_RETRY_US: Final = 100


class ReceiverSkipsGroup(ChannelFault):
    """The receiver passes over a group whenever it meets it."""

    number = 42
    name = "receiver_skips_group"
    text = "one group of the source is never queued and never executed"
    must_fire = frozenset({"relay_mirrors_source"})
    heals = False
    bears_acts = False

    def __init__(self) -> None:
        super().__init__()
        self._skipped = GtidSet.EMPTY
        self._channel: Channel | None = None

    def on_queue(self, fleet: World, channel: Channel, logged: LoggedGroup) -> bool:
        """Skip the first group that comes after another in one relay file."""
        if self.injected:
            is_here = channel.replica.instance_id == self.injected_in
            return not (is_here and gtid_of(logged) <= self._skipped)
        if not self.is_due(fleet) or not _is_followable(channel, logged):
            return True
        self.mark(fleet, channel.replica)
        self._skipped, self._channel = gtid_of(logged), channel
        return False

    def cure(self, fleet: World) -> None:
        """Let the channel ask again for what is not executed; the receiver is another now."""
        self._skipped = GtidSet.EMPTY
        assert self._channel is not None
        cures.fetch_again(fleet, self._channel)


class FirstGroupSkipped(ActFault):
    """After RESET REPLICA the receiver passes over the first group whenever it meets it."""

    number = 195
    name = "receiver_skips_first_group"
    text = "the first group that a replica lacks is not queued after RESET REPLICA"
    must_fire = frozenset({"relay_mirrors_source"})
    group = FaultGroup.CHANNEL
    base = BaseHistory.SINGLE_CHANNEL
    heals = False
    bears_acts = False

    def __init__(self) -> None:
        super().__init__()
        self._channel: Channel | None = None
        self._skipped: LoggedGroup | None = None

    def act(self, fleet: World) -> bool:
        """Reset a channel that asks by GTID set, and start it again."""
        for channel in leaf_channels(fleet):
            if channel.auto_position and channel[Receiver].is_connected:
                administration.reset_replica(fleet, channel)
                administration.start_replication(fleet, channel)
                self._channel = channel
                return True
        return False

    def on_queue(self, fleet: World, channel: Channel, logged: LoggedGroup) -> bool:
        """Skip it."""
        if channel is self._channel and not self.injected:
            self.mark(fleet, channel.replica)
            self._skipped = logged
        return logged is not self._skipped or channel is not self._channel


class GivenUpGroupSkipped(FirstGroupSkipped):
    """RESET REPLICA gives up groups that wait for the applier; the first does not come again."""

    number = 225
    name = "receiver_skips_given_up_group"
    text = "a group that RESET REPLICA gave up before it was executed is not queued again"

    def act(self, fleet: World) -> bool:
        """Stop the applier, and reset the channel as soon as a whole group waits for it."""
        for channel in leaf_channels(fleet):
            if channel.auto_position and channel[Receiver].is_connected:
                applier.stop(fleet, channel)
                return bool(waiting_groups(channel)) and super().act(fleet)
        return False


class OldGroupRequeued(ChannelFault):
    """An executed group is written into the relay log again; the applier passes over it."""

    number = 43
    name = "receiver_requeues_old_group"
    text = "an older group is queued again without a reconnect"
    must_fire = frozenset({"relay_mirrors_source", "relay_source_pos_monotone"})
    heals = False

    def on_queue(self, fleet: World, channel: Channel, logged: LoggedGroup) -> bool:
        """Write it before the next group, once there are two groups to go back over."""
        if not self.is_due(fleet) or not _is_followable(channel, logged):
            return True
        file = channel[RelayLog].files[-1]
        groups = [
            queued for queued in file.groups if queued.source_file == channel[Receiver].read[0]
        ]
        if len(groups) < 2 or not groups[-2].is_applied:
            return True
        self.mark(fleet, channel.replica)
        old = groups[-2]
        again = QueuedGroup(old.logged, old.source_file, file, file.end)
        relay_log.write_group_events(channel, again, len(old.logged.group.body) + 1)
        channel.pending.append(QueuedFraming(file, file.end, None))
        receiver.flush_position(fleet, channel, len(old.logged.group.body) + 1)
        return True


class ChannelLeftOut(ChannelRowFault):
    """A collector, or the server, loses a channel of the row."""

    number = 224
    name = "channel_left_out_of_row"
    text = "a row lacks a channel that SHOW REPLICA STATUS has before and after it"
    must_fire = frozenset({"collection_steps_complete", "configured_channels_listed"})

    def tamper_channel(self, row: Row, before: Row, channel: Channel) -> bool:
        entry = row.channel(channel)
        if entry is None or row.status(channel) is None:
            return False
        row.channels.remove(entry)
        return True


class RelayPositionBeyondFile(ChannelRowFault):
    """The flushed relay position is past the end of its file."""

    number = 44
    name = "relay_position_beyond_file"
    text = "the flushed relay position is past the end of its file for one row"
    must_fire = frozenset({"relay_position_on_written_boundary"})

    def tamper_channel(self, row: Row, before: Row, channel: Channel) -> bool:
        shown = row.channel(channel)
        file = relay_file(channel, shown["relay_log_file"]) if shown else None
        if shown is None or file is None:
            return False
        shown["relay_log_position"] = file.end + _BEYOND
        return True


class RelayLogEndReported(ChannelRowFault):
    """The relay coordinate is the end of the relay log, not of what the receiver has flushed.

    From when the fault is due each event is stored; during a collection, which keeps the receiver
    from flushing, it writes a group.
    """

    number = 134
    name = "relay_log_end_reported"
    text = "a row has the relay log's end, where a group is written and not yet flushed"
    must_fire = frozenset({"relay_position_matches_master_info"})
    bears_acts = False

    def on_fleet(self, fleet: World) -> None:
        """Nothing arrives before the row that shows it."""
        for channel in channels(fleet):
            fleet.clock.schedule(fleet.fault_at, None, self._store_each_event, fleet, channel)
        clog_receivers(self, fleet)

    def _store_each_event(self, fleet: World, channel: Channel) -> None:
        if not channel[Receiver].is_connected or channel.partial_group is not None:
            later = fleet.now + _RETRY_US
            fleet.clock.schedule(later, None, self._store_each_event, fleet, channel)
            return
        administration.set_variables(channel.replica, sync_source_info=1)
        receiver.persist_position(fleet, channel, "sync")

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        return any(
            self._report_end(fleet, row, channel)
            for channel in row.instance[ChannelMap].channels.values()
        )

    def _report_end(self, fleet: World, row: Row, channel: Channel) -> bool:
        shown, unread = row.channel(channel), next(unread_groups(channel), None)
        is_stored = channel.replica.variables["sync_source_info"] == 1
        if shown is None or unread is None or not is_stored or not channel[Receiver].is_connected:
            return False
        file, logged = unread
        if (file.number, logged) != (
            channel[Receiver].cursor_file,
            next(iter(file.entries[channel[Receiver].cursor_entry :]), None),
        ):
            return False
        relay_log_file = channel[RelayLog].files[-1]
        queued = QueuedGroup(logged, file.name, relay_log_file, relay_log_file.end)
        relay_log_file.groups.append(queued)
        channel.pending.append(queued)
        count = len(logged.group.body) + 1
        relay_log.write_group_events(channel, queued, count)
        channel[Receiver].read = (file.name, logged.end)
        channel[Receiver].cursor_entry += 1
        if logged.group.sid is not None:
            channel[Receiver].retrieved.add(logged.group.sid, logged.group.gno)
        shown["relay_log_file"], shown["relay_log_position"] = relay_log.end(channel)
        fleet.clock.schedule(
            fleet.now + 1, channel.replica, receiver.flush_position, fleet, channel, count
        )
        return True


class RelayPositionRegressed(ChannelRowFault):
    """The flushed relay position falls while the applier is stopped."""

    number = 45
    name = "relay_position_regressed"
    text = "the flushed relay position falls to an older event's end for one row"
    must_fire = frozenset({"channel_positions_monotone"})

    def on_fleet(self, fleet: World) -> None:
        """Stop the appliers; each starts again at its own next row."""
        for channel in channels(fleet):
            fleet.schedule(fleet.fault_at, channel.replica, self._stop_applier, channel)

    def _stop_applier(self, fleet: World, channel: Channel) -> None:
        if not self.injected:
            applier.stop(fleet, channel)

    def mark(self, fleet: World, instance: Instance) -> None:
        """Let the appliers go on."""
        super().mark(fleet, instance)
        for channel in channels(fleet):
            fleet.schedule(fleet.now + 1, channel.replica, applier.start, channel)

    def tamper_channel(self, row: Row, before: Row, channel: Channel) -> bool:
        shown, earlier = row.channel(channel), before.channel(channel)
        if shown is None or earlier is None or channel[Applier].is_running:
            return False
        applied, flushed = coordinate(*channel[Applier].applied), _flushed(earlier)
        between = [
            (file, end)
            for file in channel[RelayLog].files
            for end in file.event_ends
            if applied <= (file.number, end) < flushed
        ]
        if not between:
            return False
        file, end = between[-1]
        shown["relay_log_file"] = file.name
        shown["relay_log_position"] = end
        return True


class AppliedAheadOfFlushed(ChannelRowFault):
    """The flushed relay position is where the last applied group begins, and has not fallen.

    A relay log that rotates often may hold no more than this group since the row before.
    """

    number = 46
    name = "applied_ahead_of_flushed"
    text = "the applied relay position is a group beyond the flushed one"
    must_fire = frozenset({"applied_within_flushed"})

    def tamper_channel(self, row: Row, before: Row, channel: Channel) -> bool:
        shown, earlier = row.channel(channel), before.channel(channel)
        status = row.status(channel)
        file = relay_file(channel, status["Relay_Log_File"]) if status is not None else None
        if shown is None or earlier is None or status is None or file is None:
            return False
        applied = [group for group in file.groups if group.end <= status["Relay_Log_Pos"]]
        if not applied or shown["relay_log_file"] != file.name:
            return False
        start = applied[-1].start
        if coordinate(file.name, start) < _flushed(earlier):
            return False
        shown["relay_log_position"] = start
        return True


class ReceiverFlushFails(ChannelFault):
    """A receiver's flushes fail, and it goes on: F_c stays where it was (WL#9452, Step-1 (a))."""

    number = 260
    name = "receiver_flush_fails"
    text = "flushes of a receiver fail, so that the applier leaves the flushed position"
    must_fire = frozenset({"applied_within_flushed"})

    def __init__(self) -> None:
        super().__init__()
        self._channel: Channel | None = None

    def on_flush(self, fleet: World, channel: Channel) -> bool:
        """From when the fault is due none succeeds of the first channel that tries."""
        if self.is_due(fleet) and channel[Applier].is_running:
            self.mark(fleet, channel.replica)
            self._channel = channel
        return channel is not self._channel


class ExecBeyondRead(ChannelRowFault):
    """The applied source position is the end of a group that the receiver has not read."""

    number = 47
    name = "exec_beyond_read"
    text = "the applied source position is a group end beyond the read position"
    must_fire = frozenset({"exec_source_pos_within_read"})

    def on_fleet(self, fleet: World) -> None:
        """Let the network be slow."""
        clog_receivers(self, fleet)

    def tamper_channel(self, row: Row, before: Row, channel: Channel) -> bool:
        status = row.status(channel)
        unread = next(unread_groups(channel), None)
        if status is None or unread is None:
            return False
        file, logged = unread
        status["Relay_Source_Log_File"] = file.name
        status["Exec_Source_Log_Pos"] = logged.end
        return True


class ExecBehindApplied(ChannelRowFault):
    """The applied source position is a group before the applied relay position."""

    number = 261
    name = "exec_behind_applied"
    text = "the applied source position is one group before the end that the relay position names"
    must_fire = frozenset({"applied_coordinates_paired"})

    def tamper_channel(self, row: Row, before: Row, channel: Channel) -> bool:
        status, earlier = row.status(channel), before.status(channel)
        if status is None or earlier is None:
            return False
        # Since the row before, so that the position does not fall.
        first = coordinate(earlier["Relay_Source_Log_File"], earlier["Exec_Source_Log_Pos"])
        executed = coordinate(status["Relay_Source_Log_File"], status["Exec_Source_Log_Pos"])
        ends = [
            (file.number, logged.end)
            for file in channel.source[BinaryLog].files
            for logged in file.groups()
            if first <= (file.number, logged.end) <= executed
        ]
        is_in_file = len(ends) > 1 and ends[-2][0] == executed[0] and ends[-1] == executed
        if is_in_file:
            status["Exec_Source_Log_Pos"] = ends[-2][1]
        return is_in_file


class RelayPosSavedAsExecPos(ChannelRowFault):
    """The applied source position has the relay log's offset, until the true one has passed it."""

    number = 48
    name = "relay_pos_saved_as_exec_pos"
    text = "the applied source position holds a relay log's offset"
    must_fire = frozenset({"source_coordinate_valid", "applied_coordinates_paired"})

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[str, int] | None = None
        self._channel: Channel | None = None

    def on_fleet(self, fleet: World) -> None:
        """Let the appliers lag in new files, where both offsets count from one rotation."""
        for source in [i for i in fleet.instances.values() if i[ChannelMap].subscribers]:
            act = administration.flush_binary_logs
            fleet.schedule(fleet.fault_at, source, act, source)
        clog_appliers(self, fleet, after_us=_SETTLED_US)

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        return any(
            self._save_offset(fleet, row, channel)
            for channel in row.instance[ChannelMap].channels.values()
        )

    def _save_offset(self, fleet: World, row: Row, channel: Channel) -> bool:
        status = row.status(channel)
        if status is None or not channel[Receiver].is_connected:
            return False
        # SHOW REPLICA STATUS was read some moments before the row: its own values must fit.
        file_name, executed = status["Relay_Source_Log_File"], status["Exec_Source_Log_Pos"]
        read = coordinate(status["Source_Log_File"], status["Read_Source_Log_Pos"])
        offset = status["Relay_Log_Pos"]
        file = next((f for f in channel.source[BinaryLog].files if f.name == file_name), None)
        if file is None or not executed < offset or offset in _event_ends(file):
            # However long the applier waits here, the offset is right, or not beyond the true one.
            source = channel.source
            fleet.schedule(fleet.now + 1, source, administration.flush_binary_logs, source)
            fleet.schedule(fleet.now + _SETTLED_US, row.instance, _go_on, channel)
            return False
        following = next((q for q in channel.pending if isinstance(q, QueuedGroup)), None)
        if following is None or coordinate(file_name, offset) > read:
            return False
        # With nothing of that file after it, the receiver might have ignored what is up to there.
        is_followed = following.source_file == file_name and following.logged.start < offset
        if not is_followed or not _ends_at_group(channel, status):
            fleet.schedule(fleet.now + 1, row.instance, _go_on, channel)
            return False
        self._shown = file_name, offset
        self._channel = channel
        status["Exec_Source_Log_Pos"] = offset
        return True

    def on_row(
        self, fleet: World, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Keep the wrong position as long as the true one would seem to fall below it."""
        channel = self._channel
        row = Row.of(instance, body)
        if channel is None or self._shown is None or row is None or channel.replica is not instance:
            return super().on_row(fleet, instance, body)
        shown = coordinate(*self._shown)
        # A new connection may have brought the read position back before the wrong one.
        if shown <= coordinate(*channel[Applier].executed) or shown > coordinate(
            *channel[Receiver].read
        ):
            self._channel = None
            return body
        row = row.copy()
        status = row.status(channel)
        if status is not None:
            status["Exec_Source_Log_Pos"] = self._shown[1]
        return row.body


class AppliedGtidMissing(ChannelRowFault):
    """The applied relay position is after a group that is still to be executed."""

    number = 49
    name = "applied_gtid_missing"
    text = "the applied relay position passes a group whose GTID was neither executed nor logged"
    must_fire = frozenset({"applied_relay_gtids_executed"})

    def on_fleet(self, fleet: World) -> None:
        """Let the appliers lag."""
        clog_appliers(self, fleet)

    def tamper_channel(self, row: Row, before: Row, channel: Channel) -> bool:
        status = row.status(channel)
        queued = next((q for q in channel.pending if isinstance(q, QueuedGroup)), None)
        if status is None or queued is None or not queued.is_complete:
            return False
        group = queued.logged.group
        is_flushed = coordinate(queued.relay_file.name, queued.end) <= coordinate(
            *channel[Receiver].flushed
        )
        if (
            group.sid is None
            or (group.sid, group.gno) in channel.replica[GtidState].logged
            or not is_flushed
        ):
            return False
        status["Relay_Log_File"] = queued.relay_file.name
        status["Relay_Log_Pos"] = queued.end
        status["Relay_Source_Log_File"] = queued.source_file
        status["Exec_Source_Log_Pos"] = queued.logged.end
        return True


class RetrievedInflated(ChannelRowFault):
    """Retrieved_Gtid_Set holds the GTID that the source will send after the next one."""

    number = 50
    name = "retrieved_inflated"
    text = "Retrieved_Gtid_Set names a GTID of the source that was not received yet"
    must_fire = frozenset({"retrieved_matches_relay"})

    def on_fleet(self, fleet: World) -> None:
        """Let the network be slow."""
        clog_receivers(self, fleet)

    def tamper_channel(self, row: Row, before: Row, channel: Channel) -> bool:
        status = row.status(channel)
        if status is None:
            return False
        retrieved = GtidSet.parse(status["Retrieved_Gtid_Set"])
        unread = (gtid_of(logged) for _, logged in unread_groups(channel))
        unread = (gtid for gtid in unread if gtid and gtid.isdisjoint(retrieved))
        # The first of them may be arriving, or was when the connection broke: a part of it is in
        # the relay log, and a server may count it already.
        following = next(islice(unread, 1, None), None)
        if following is None:
            return False
        status["Retrieved_Gtid_Set"] = server_text(retrieved | following)
        return True


class ExecutedWithoutReceipt(ChannelFault):
    """A replica executes a group of its source that comes by no channel."""

    number = 51
    name = "executed_without_receipt"
    text = "a replica executes and logs a group of the source that no relay log held"
    must_fire = frozenset({"executed_growth_explained"})

    def on_queue(self, fleet: World, channel: Channel, logged: LoggedGroup) -> bool:
        """Execute the group on the spot; the source need not send it any more."""
        group = logged.group
        if not self.is_due(fleet) or group.sid is None or not _is_followable(channel, logged):
            return True
        if (group.sid, group.gno) in channel.replica[GtidState].logged:
            return True
        self.mark(fleet, channel.replica)
        commit.commit(fleet, channel.replica, group)
        return False


def _is_followable(channel: Channel, logged: LoggedGroup) -> bool:
    """Whether a group comes right after another, on a replica that nobody reads from."""
    file = channel[RelayLog].files[-1]
    last = file.groups[-1] if file.groups else None
    return (
        not channel.replica[ChannelMap].subscribers
        and logged.group.sid is not None
        and last is not None
        and last.is_complete
        and last.source_file == channel[Receiver].read[0]
        and last.logged.end == logged.start
    )


def _go_on(fleet: World, channel: Channel) -> None:
    channel[Applier].is_scheduled = False
    applier.wake(fleet, channel)


def _flushed(shown: dict[str, Any]) -> tuple[int, int]:
    return coordinate(shown["relay_log_file"], shown["relay_log_position"])


def _ends_at_group(channel: Channel, status: Mapping[str, Any]) -> bool:
    """Whether a group ends where the applier is in the relay log: at its head none does."""
    file = relay_file(channel, status["Relay_Log_File"])
    return file is not None and any(group.end == status["Relay_Log_Pos"] for group in file.groups)


def _event_ends(file: BinlogFile) -> set[int]:
    ends = {entry.end for entry in file.entries}
    for logged in file.groups():
        ends.add(logged.start + logged.gtid_length)
        ends.update(start + length for _, _, start, length, _ in logged.events())
    return ends
