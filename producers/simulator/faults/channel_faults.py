"""Faults F42 to F51: what a replication channel holds, and where it says it is."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.events.journal import QueryVerb, Stream
from tallystick.coordinates.values.binlog import EventType, log_pos_field, parse_log_file_name
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator import administration, applier, commit, receiver, relay_log
from tallystick.producers.simulator.faults.injector import (
    Injector,
    Row,
    RowFault,
    gtid_of,
    server_text,
)
from tallystick.producers.simulator.model import GroupKind, LoggedGroup, QueuedFraming, QueuedGroup
from tallystick.producers.simulator.workload import make_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.model import BinlogFile, Channel, Instance, RelayFile

_RETRY_US: Final = 100
_SETTLED_US: Final = 50_000
_BEYOND: Final = 10_000


class ReceiverSkipsGroup(Injector):
    """F42: the receiver passes over a group whenever it meets it."""

    def __init__(self) -> None:
        super().__init__()
        self._skipped = GtidSet.EMPTY

    def on_queue(self, fleet: Fleet, channel: Channel, logged: LoggedGroup) -> bool:
        """Skip the first group that comes behind another in one relay file."""
        if self.injected:
            is_here = channel.replica.instance_id == self.injected_in
            return not (is_here and gtid_of(logged) <= self._skipped)
        if not self.is_due(fleet) or not _is_followable(channel, logged):
            return True
        self.mark(fleet, channel.replica)
        self._skipped = gtid_of(logged)
        return False


class OldGroupRequeued(Injector):
    """F43: an executed group is written into the relay log again; the applier passes over it."""

    def on_queue(self, fleet: Fleet, channel: Channel, logged: LoggedGroup) -> bool:
        """Write it before the next group, once there are two groups to go back behind."""
        if not self.is_due(fleet) or not _is_followable(channel, logged):
            return True
        file = channel.relay_files[-1]
        groups = [queued for queued in file.groups if queued.source_file == channel.read[0]]
        if len(groups) < 2 or not groups[-2].is_applied:
            return True
        self.mark(fleet, channel.replica)
        old = groups[-2]
        again = QueuedGroup(old.logged, old.source_file, file, file.end)
        relay_log.write_group_events(channel, again, len(old.logged.group.body) + 1)
        channel.pending.append(QueuedFraming(file, file.end, None))
        receiver.flush_position(fleet, channel)
        return True


class ChannelRowFault(RowFault):
    """Tampers with what one row says of one channel."""

    def tamper_channel(self, row: Row, before: Row, channel: Channel) -> bool:
        """Change what ``row`` says of ``channel``, if the moment allows it."""
        raise NotImplementedError

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Tamper with the first channel that allows it."""
        return any(
            channel.receiver_runs
            and channel.is_connected
            and self.tamper_channel(row, before, channel)
            for channel in row.instance.channels.values()
        )


class RelayPositionBeyondFile(ChannelRowFault):
    """F44: F_c past the end of its file."""

    def tamper_channel(self, row: Row, before: Row, channel: Channel) -> bool:
        """Move F_c on."""
        shown = row.channel(channel)
        file = relay_file(channel, shown["relay_log_file"]) if shown else None
        if shown is None or file is None:
            return False
        shown["relay_log_position"] = file.end + _BEYOND
        return True


class RelayPositionRegressed(ChannelRowFault):
    """F45: F_c falls while the applier is stopped."""

    def on_fleet(self, fleet: Fleet) -> None:
        """Stop the appliers; each starts again at its own next row."""
        for channel in channels(fleet):
            fleet.clock.schedule(
                fleet.fault_at, channel.replica, self._stop_applier, fleet, channel
            )

    def _stop_applier(self, fleet: Fleet, channel: Channel) -> None:
        if not self.injected:
            applier.stop(fleet, channel)

    def mark(self, fleet: Fleet, instance: Instance) -> None:
        """Let the appliers go on."""
        super().mark(fleet, instance)
        for channel in channels(fleet):
            fleet.clock.schedule(fleet.now + 1, channel.replica, applier.start, fleet, channel)

    def tamper_channel(self, row: Row, before: Row, channel: Channel) -> bool:
        """Show the end of an event between A_c and the F_c of the row before."""
        shown, earlier = row.channel(channel), before.channel(channel)
        if shown is None or earlier is None or channel.applier_runs:
            return False
        applied, flushed = coordinate(*channel.applied), _flushed(earlier)
        between = [
            (file, end)
            for file in channel.relay_files
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
    """F46: F_c is shown three groups before A_c, and not before the last F_c."""

    _GROUPS: Final = 3

    def tamper_channel(self, row: Row, before: Row, channel: Channel) -> bool:
        """Move F_c back to where the last three applied groups begin."""
        shown, earlier = row.channel(channel), before.channel(channel)
        status = row.status(channel)
        file = relay_file(channel, status["Relay_Log_File"]) if status is not None else None
        if shown is None or earlier is None or status is None or file is None:
            return False
        applied = [group for group in file.groups if group.end <= status["Relay_Log_Pos"]]
        if len(applied) < self._GROUPS or shown["relay_log_file"] != file.name:
            return False
        start = applied[-self._GROUPS].start
        if coordinate(file.name, start) < _flushed(earlier):
            return False
        shown["relay_log_position"] = start
        return True


class ExecBeyondRead(ChannelRowFault):
    """F47: Ex_c is the end of a group that the receiver has not read."""

    def on_fleet(self, fleet: Fleet) -> None:
        """Let the network be slow."""
        clog_receivers(self, fleet)

    def tamper_channel(self, row: Row, before: Row, channel: Channel) -> bool:
        """Move Ex_c to the end of the next group of the source."""
        status = row.status(channel)
        unread = next(unread_groups(channel), None)
        if status is None or unread is None:
            return False
        file, logged = unread
        status["Relay_Source_Log_File"] = file.name
        status["Exec_Source_Log_Pos"] = logged.end
        return True


class RelayPosSavedAsExecPos(ChannelRowFault):
    """F48: Ex_c with the offset of A_c, until the true one has passed it."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[str, int] | None = None
        self._channel: Channel | None = None

    def on_fleet(self, fleet: Fleet) -> None:
        """Let the appliers fall behind in new files, where both offsets count from one rotation."""
        for source in [i for i in fleet.instances.values() if i.subscribers]:
            act = administration.flush_binary_logs
            fleet.clock.schedule(fleet.fault_at, source, act, fleet, source)
        _clog_appliers(self, fleet, after_us=_SETTLED_US)

    def tamper_channel(self, row: Row, before: Row, channel: Channel) -> bool:
        """Show the relay log's offset where it is no event's end in the source's file."""
        status = row.status(channel)
        if status is None:
            return False
        # SHOW REPLICA STATUS was read some moments before the row: its own values must fit.
        file_name, executed = status["Relay_Source_Log_File"], status["Exec_Source_Log_Pos"]
        read = coordinate(status["Source_Log_File"], status["Read_Source_Log_Pos"])
        offset = status["Relay_Log_Pos"]
        file = next((f for f in channel.source.binlog.files if f.name == file_name), None)
        if file is None or not executed < offset or coordinate(file_name, offset) > read:
            return False
        ends = {end for logged in file.groups() for end in _event_ends(logged)}
        if offset in ends or offset in {e.end for e in file.entries}:
            return False
        self._shown = file_name, offset
        self._channel = channel
        status["Exec_Source_Log_Pos"] = offset
        return True

    def on_row(
        self, fleet: Fleet, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Keep the wrong position as long as the true one would seem to fall behind it."""
        channel = self._channel
        row = Row.of(instance, body)
        if channel is None or self._shown is None or row is None or channel.replica is not instance:
            return super().on_row(fleet, instance, body)
        shown = coordinate(*self._shown)
        # A new connection may have brought Rd_c, and Ex_c after it, back before the wrong place.
        if shown <= coordinate(*channel.executed) or shown > coordinate(*channel.read):
            self._channel = None
            return body
        row = row.copy()
        status = row.status(channel)
        if status is not None:
            status["Exec_Source_Log_Pos"] = self._shown[1]
        return row.body


class AppliedGtidMissing(ChannelRowFault):
    """F49: A_c behind a group that is still to be executed."""

    def on_fleet(self, fleet: Fleet) -> None:
        """Let the appliers fall behind."""
        _clog_appliers(self, fleet)

    def tamper_channel(self, row: Row, before: Row, channel: Channel) -> bool:
        """Move A_c to the end of the next group."""
        status = row.status(channel)
        queued = next((q for q in channel.pending if isinstance(q, QueuedGroup)), None)
        if status is None or queued is None or not queued.is_complete:
            return False
        group = queued.logged.group
        is_flushed = coordinate(queued.relay_file.name, queued.end) <= coordinate(*channel.flushed)
        if group.sid is None or (group.sid, group.gno) in channel.replica.logged or not is_flushed:
            return False
        status["Relay_Log_File"] = queued.relay_file.name
        status["Relay_Log_Pos"] = queued.end
        return True


class RetrievedInflated(ChannelRowFault):
    """F50: Ret_c holds the GTID that the source will send after the next one."""

    def on_fleet(self, fleet: Fleet) -> None:
        """Let the network be slow."""
        clog_receivers(self, fleet)

    def tamper_channel(self, row: Row, before: Row, channel: Channel) -> bool:
        """Add the GTID behind the next one of the source to Ret_c."""
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


class ExecutedWithoutReceipt(Injector):
    """F51: a replica executes a group of its source that comes by no channel."""

    def on_queue(self, fleet: Fleet, channel: Channel, logged: LoggedGroup) -> bool:
        """Execute the group on the spot; the source need not send it any more."""
        group = logged.group
        if not self.is_due(fleet) or group.sid is None or not _is_followable(channel, logged):
            return True
        if (group.sid, group.gno) in channel.replica.logged:
            return True
        self.mark(fleet, channel.replica)
        commit.commit(fleet, channel.replica, group)
        return False


def queue_phantom(fleet: Fleet, channel: Channel, sid: str, gno: int) -> bool:
    """Queue a group that the source never logged; all its events tell the last known position."""
    file = channel.relay_files[-1] if channel.relay_files else None
    last = file.groups[-1] if file is not None and file.groups else None
    if file is None or last is None or not last.is_complete or last.end != file.end:
        return False
    if last.source_file != channel.read[0] or last.logged.end != channel.read[1]:
        return False
    position = last.logged.end
    group = make_group(fleet.rng, GroupKind.EMPTY, channel.source.server_id, fleet.now)
    group.sid, group.gno = sid, gno
    gtid_length = last.logged.gtid_length
    length = gtid_length + group.body_length
    logged = LoggedGroup(
        group=group,
        start=position - length,
        gtid_length=gtid_length,
        end=position,
        last_committed=last.logged.sequence_number,
        sequence_number=last.logged.sequence_number + 1,
        gtid_checksum=fleet.rng.getrandbits(32),
        transaction_length=length,
    )
    queued = QueuedGroup(logged, last.source_file, file, file.end)
    events = [(int(EventType.GTID), int(QueryVerb.NONE), gtid_length, logged.gtid_checksum)]
    for index, (event_type, query, event_length, checksum) in enumerate([*events, *group.body]):
        is_first = index == 0
        channel.replica.journal.log_event(
            Stream.RELAY,
            event_type,
            channel=channel.name,
            file=file.name,
            start=file.end,
            length=event_length,
            ts=channel.replica.journal.moment(),
            log_pos=log_pos_field(position),
            server_id=group.server_id,
            checksum=checksum,
            query=QueryVerb(query),
            sid=sid if is_first else None,
            gno=gno if is_first else -1,
            last_committed=logged.last_committed if is_first else -1,
            sequence_number=logged.sequence_number if is_first else -1,
            transaction_length=length if is_first else -1,
            original_commit_timestamp=group.original_commit_timestamp if is_first else -1,
        )
        file.end += event_length
        file.event_ends.append(file.end)
    queued.end = file.end
    queued.events_received = len(group.body) + 1
    file.groups.append(queued)
    channel.pending.append(queued)
    channel.retrieved.add(sid, gno)
    receiver.flush_position(fleet, channel)
    applier.wake(fleet, channel)
    return True


def channels(fleet: Fleet) -> Iterator[Channel]:
    """All channels, in the order of instances."""
    for instance in fleet.instances.values():
        yield from instance.channels.values()


def _is_followable(channel: Channel, logged: LoggedGroup) -> bool:
    """Tell whether a group comes right behind another, on a replica that nobody reads from."""
    file = channel.relay_files[-1]
    last = file.groups[-1] if file.groups else None
    return (
        not channel.replica.subscribers
        and logged.group.sid is not None
        and last is not None
        and last.is_complete
        and last.source_file == channel.read[0]
        and last.logged.end == logged.start
    )


def relay_file(channel: Channel, name: str) -> RelayFile | None:
    """The retained relay log file of that name."""
    return next((file for file in channel.relay_files if file.name == name), None)


def coordinate(name: str, position: int) -> tuple[int, int]:
    """File and position as a value that is ordered as the log is."""
    return (parse_log_file_name(name)[1], position) if name else (0, position)


def _flushed(shown: dict[str, Any]) -> tuple[int, int]:
    return coordinate(shown["relay_log_file"], shown["relay_log_position"])


def _event_ends(logged: LoggedGroup) -> Iterator[int]:
    yield logged.start + logged.gtid_length
    for _, _, start, length, _ in logged.events():
        yield start + length


def unread_groups(channel: Channel) -> Iterator[tuple[BinlogFile, LoggedGroup]]:
    """The groups of the source behind Rd_c that the channel never received."""
    read = coordinate(*channel.read)
    for file in channel.source.binlog.files:
        if file.number >= read[0]:
            for logged in file.groups():
                group = logged.group
                is_new = group.sid is None or (group.sid, group.gno) not in channel.retrieved
                if (file.number, logged.start) >= read and is_new:
                    yield file, logged


def clog_receivers(fault: Injector, fleet: Fleet) -> None:
    """From when the fault is due until it is injected, nothing arrives from any source."""
    for channel in channels(fleet):
        fleet.clock.schedule(fleet.fault_at, None, _clog_receiver, fault, fleet, channel)


def _clog_receiver(fault: Injector, fleet: Fleet, channel: Channel) -> None:
    if fault.injected:
        channel.receive_is_scheduled = False
        receiver.wake(fleet, channel)
        return
    # A call that is under way clears the mark; it is set again soon.
    channel.receive_is_scheduled = True
    fleet.clock.schedule(fleet.now + 10 * _RETRY_US, None, _clog_receiver, fault, fleet, channel)


def _clog_appliers(fault: Injector, fleet: Fleet, after_us: int = 0) -> None:
    """From when the fault is due until it is injected, appliers wait as for a long transaction."""
    for channel in channels(fleet):
        fleet.clock.schedule(fleet.fault_at + after_us, None, _clog_applier, fault, fleet, channel)


def _clog_applier(fault: Injector, fleet: Fleet, channel: Channel) -> None:
    if fault.injected:
        channel.apply_is_scheduled = False
        applier.wake(fleet, channel)
        return
    channel.apply_is_scheduled = True
    fleet.clock.schedule(fleet.now + 10 * _RETRY_US, None, _clog_applier, fault, fleet, channel)


CHANNEL_INJECTORS: Final[Mapping[str, Callable[[], Injector]]] = {
    "receiver_skips_group": ReceiverSkipsGroup,
    "receiver_requeues_old_group": OldGroupRequeued,
    "relay_position_beyond_file": RelayPositionBeyondFile,
    "relay_position_regressed": RelayPositionRegressed,
    "applied_ahead_of_flushed": AppliedAheadOfFlushed,
    "exec_beyond_read": ExecBeyondRead,
    "relay_pos_saved_as_exec_pos": RelayPosSavedAsExecPos,
    "applied_gtid_missing": AppliedGtidMissing,
    "retrieved_inflated": RetrievedInflated,
    "executed_without_receipt": ExecutedWithoutReceipt,
}
