"""Faults of what servers do to each other's history: losses, resets, errant writes, purges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.events.journal import QueryVerb, Stream
from tallystick.coordinates.values.binlog import EventType, log_pos_field
from tallystick.producers.simulator.faults import cures
from tallystick.producers.simulator.faults.channels import leaf_channels, unread_groups
from tallystick.producers.simulator.faults.fault import ActFault, BaseHistory, Fault, FaultGroup
from tallystick.producers.simulator.faults.logs import groups_between, gtid_of, is_pure_source
from tallystick.producers.simulator.faults.row import Row
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.kernel.topology import InstancePlan
from tallystick.producers.simulator.kernel.transactions import GroupKind, LoggedGroup
from tallystick.producers.simulator.server import (
    administration,
    applier,
    binary_log,
    clients,
    lifecycle,
    receiver,
)
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import (
    ChannelMap,
    QueuedGroup,
    Receiver,
    RelayLog,
)
from tallystick.producers.simulator.server.clients import Clients
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState
from tallystick.producers.simulator.server.workload import make_group

if TYPE_CHECKING:
    from tallystick.coordinates.values.gtid import GtidSet
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

_RETRY_US: Final = 50_000
_AT_ONCE_US: Final = 1_000
"""How long after one transaction another is committed by hand at the earliest."""
_FAR: Final = 1_000_000
"""Distance of a GNO that no server will reach."""
_AHEAD: Final = 12
"""So many groups are more than a second of load: the source's journal shows that it had not."""
_LOST_MAX: Final = 3
"""Groups that a power cut takes."""
_WITH_UNDO: Final = (GroupKind.INNODB, GroupKind.COMPRESSED)
_XA_KINDS: Final = (GroupKind.XA_PREPARE, GroupKind.XA_COMMIT)


class FleetFault(Fault):
    """Servers really do it, and their journals record it."""

    group = FaultGroup.FLEET
    base = BaseHistory.REPLICA


class SourceLosesCommits(FleetFault):
    """With sync_binlog=0 a power cut takes the last groups out of log and engine alike.

    Clients do not write there any more: new groups would take the lost GNOs again, another fault.
    """

    number = 57
    name = "source_loses_commits_at_crash"
    text = "a power cut takes the last groups of a source's log, which its replica has received"
    must_fire = frozenset(
        {
            "executed_monotone",
            "receiver_not_failed",
            "received_within_source_logged",
            "source_coordinate_valid",
        }
    )
    heals = False

    def __init__(self) -> None:
        super().__init__()
        self._victim: Instance | None = None

    def on_row(
        self, fleet: World, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Cut the power right after a row that shows the last groups, received by a replica."""
        row = Row.of(instance, body)
        if row is not None and self._is_moment(fleet, row):
            fleet.schedule(fleet.now, None, self._cut_power, row)
        return body

    def _is_moment(self, fleet: World, row: Row) -> bool:
        source = row.instance
        lost = self._last_groups(source)
        end = source[BinaryLog].position
        return (
            self.is_due(fleet)
            and is_pure_source(source)
            and source.is_running
            and not source[CommitQueue].in_commit
            and bool(lost)
            and all(gtid_of(logged) and gtid_of(logged) <= row.executed for logged in lost)
            and (row.local["binary_log_file"], row.local["binary_log_position"]) == end
            and any(
                c[Receiver].is_connected and c[Receiver].read == end
                for c in source[ChannelMap].subscribers
            )
        )

    def _last_groups(self, source: Instance) -> list[LoggedGroup]:
        return _last_groups(source)

    def _cut_power(self, fleet: World, row: Row) -> None:
        if self._is_moment(fleet, row):
            self._victim = row.instance
            self.mark(fleet, row.instance)
            row.instance[Clients].writes = False
            lifecycle.crash(fleet, row.instance, torn=False)

    def on_stop(self, fleet: World, instance: Instance, crashed: bool) -> None:
        """What was not synchronised is gone."""
        if instance is not self._victim or not crashed:
            return
        self._victim = None
        lost = self._last_groups(instance)
        for logged in lost:
            assert logged.group.sid is not None
            instance[GtidState].table.discard(logged.group.sid, logged.group.gno)
            instance[Innodb].transactions.lose(logged.group.sid, logged.group.gno)
        _tear_off(instance, lost)


class ReplicaLogLosesTail(FleetFault, ActFault):
    """With sync_binlog=0 a power cut takes the last groups out of a replica's log.

    InnoDB has flushed them, so the replica counts them as executed, and as purged.
    """

    number = 273
    name = "replica_log_tail_lost"
    text = "a power cut takes the last groups out of a replica's log, which its data have"
    must_fire = frozenset({"purged_matches_oldest_file"})
    heals = False

    def __init__(self) -> None:
        super().__init__()
        self._victim: Instance | None = None

    def act(self, fleet: World) -> bool:
        """Cut the power of a replica that nobody reads from."""
        for channel in leaf_channels(fleet):
            replica = channel.replica
            lost = _last_groups(replica) if replica[BinaryLog].is_open else []
            is_quiet = replica.is_running and not replica[CommitQueue].in_commit
            # Of others InnoDB has no GTID.
            are_kept = all(gtid_of(one) and one.group.kind in _WITH_UNDO for one in lost)
            if is_quiet and lost and are_kept:
                self._victim = replica
                self.mark(fleet, replica)
                lifecycle.crash(fleet, replica, torn=False)
                return True
        return False

    def on_stop(self, fleet: World, instance: Instance, crashed: bool) -> None:
        """What was not synchronised is gone."""
        if instance is self._victim and crashed:
            self._victim = None
            _tear_off(instance, _last_groups(instance))


class GnoReusedAfterReset(FleetFault):
    """RESET on a source that has replicas; what it did not write itself is given back.

    It comes while a replica is asked for its row: the source, asked a little later, is still far
    from having numbered as many groups again.
    """

    number = 58
    name = "gno_reused_after_reset"
    text = "a source is reset and numbers its new groups as the old ones, which a replica keeps"
    must_fire = frozenset({"gtid_origin_agreement", "received_within_source_logged"})
    heals = False
    bears_acts = False

    def on_collect_step(
        self, fleet: World, instance: Instance, collection_id: str, step: str, resource: str | None
    ) -> bool:
        """Reset the source of the replica that is asked."""
        if step == "enter" and self.is_due(fleet):
            for channel in instance[ChannelMap].channels.values():
                own = channel.source.server_uuid
                has_spread = all((own, gno) in channel[Receiver].retrieved for gno in (1, 2))
                if has_spread and is_pure_source(channel.source) and channel.source.is_running:
                    self._reset(fleet, channel.source)
                    break
        return True

    def cure(self, fleet: World) -> None:
        """Rebuild the replicas, which have other groups under the same GTIDs."""
        for channel in fleet.instances[self.injected_in][ChannelMap].subscribers:
            cures.rebuild(fleet, channel.replica.instance_id)

    def _reset(self, fleet: World, source: Instance) -> None:
        own = source.server_uuid
        foreign = GtidIntervals.of(*source[GtidState].executed.to_gtid_set().without_uuid(own))
        self.mark(fleet, source)
        administration.reset_binary_logs(fleet, source)
        if foreign:
            administration.set_gtid_purged(fleet, source, foreign)


class PhantomGroupReceived(FleetFault, ActFault):
    """An empty group under a GTID of the source that is far from all it ever wrote."""

    number = 59
    name = "phantom_group_received"
    text = "a relay log holds a group that its source never logged"
    must_fire = frozenset({"received_within_source_logged", "relay_mirrors_source"})
    heals = False
    bears_acts = False

    def act(self, fleet: World) -> bool:
        for channel in leaf_channels(fleet):
            uuid = channel.source.server_uuid
            gno = channel.source[GtidState].logged.next_free(uuid) + _FAR
            if channel[Receiver].is_connected and queue_phantom(fleet, channel, uuid, gno):
                self.mark(fleet, channel.replica)
                return True
        return False


class AssignedAheadOfSource(FleetFault, ActFault):
    """An operator guesses where the source is: the replica leaves that group out when it comes."""

    number = 263
    name = "assigned_ahead_of_source"
    text = "SET gtid_purged on a replica names a GTID that its source has still to give out"
    must_fire = frozenset({"no_errant_gtids"})
    heals = False
    bears_acts = False

    def act(self, fleet: World) -> bool:
        for channel in leaf_channels(fleet):
            uuid = channel.source.server_uuid
            gno = channel.source[GtidState].logged.next_free(uuid) + _AHEAD
            if channel[Receiver].is_connected and channel.source.is_running:
                self.mark(fleet, channel.replica)
                ahead = GtidIntervals.of((uuid, gno, gno))
                administration.set_gtid_purged(fleet, channel.replica, ahead)
                return True
        return False


class ErrantWrite(FleetFault, ActFault):
    """One transaction on a replica that nobody reads from."""

    number = 60
    name = "errant_write"
    text = "a client writes on a replica"
    must_fire = frozenset({"no_errant_gtids"})
    heals = False
    retry_us = _RETRY_US

    def act(self, fleet: World) -> bool:
        replica = next((c.replica for c in leaf_channels(fleet) if c.replica.is_running), None)
        if replica is None:
            return False
        clients.write(fleet, replica)
        self.mark(fleet, replica)
        return True

    def cure(self, fleet: World) -> None:
        """Let its source fetch the very group."""
        channel = next(c for c in leaf_channels(fleet) if c.replica.instance_id == self.injected_in)
        cures.fetch_from(fleet, channel.source, channel.replica)


class ErrantWriteHidden(FleetFault, ActFault):
    """A transaction on a replica, whose GTID an empty one on its source takes at once."""

    number = 221
    name = "errant_write_hidden"
    text = "an empty transaction on a source takes the GTID of a client's write on its replica"
    must_fire = frozenset({"gtid_origin_agreement"})
    heals = False
    bears_acts = False
    retry_us = _RETRY_US

    def act(self, fleet: World) -> bool:
        channel = next((c for c in leaf_channels(fleet) if c[Receiver].is_connected), None)
        top = None if channel is None else channel.source
        while top is not None and top[ChannelMap].configured:
            top = top[ChannelMap].configured[0].source
        if channel is None or top is None or not top.is_running:
            return False
        logged = clients.write(fleet, channel.replica)
        if logged is None or logged.group.sid is None:
            return False
        self.mark(fleet, channel.replica)
        gtid = logged.group.sid, logged.group.gno
        fleet.schedule(fleet.now + _AT_ONCE_US, None, clients.commit_empty, top, *gtid)
        return True


class GroupSkipped(FleetFault, ActFault):
    """An operator passes over a group of the source: an empty transaction takes its GTID."""

    number = 222
    name = "group_skipped_by_empty_transaction"
    text = "an empty transaction on a replica takes the GTID of a group that is under way to it"
    must_fire = frozenset({"gtid_origin_agreement"})
    heals = False
    bears_acts = False

    def act(self, fleet: World) -> bool:
        for channel in leaf_channels(fleet):
            unread = next(unread_groups(channel), None) if channel[Receiver].is_connected else None
            group = None if unread is None else unread[1].group
            if group is not None and group.sid is not None and group.kind is GroupKind.INNODB:
                clients.commit_empty(fleet, channel.replica, group.sid, group.gno)
                self.mark(fleet, channel.replica)
                return True
        return False


class SourcePurgedTooEarly(FleetFault, ActFault):
    """A source purges while one of its replicas does not receive."""

    number = 61
    name = "source_purged_too_early"
    text = "a source purges a binary log file that its replica still needs"
    must_fire = frozenset({"purged_not_needed"})
    heals = False
    retry_us = _RETRY_US

    def act(self, fleet: World) -> bool:
        """Stop a receiver."""
        channel = next((c for c in leaf_channels(fleet) if c[Receiver].is_connected), None)
        if channel is None:
            return False
        receiver.stop(fleet, channel)
        fleet.schedule(fleet.now + _RETRY_US, None, self._rotate, channel)
        return True

    def _rotate(self, fleet: World, channel: Channel) -> None:
        source = channel.source
        missed = (
            source[GtidState]
            .executed.minus(channel[Receiver].retrieved)
            .minus(channel.replica[GtidState].executed)
        )
        if not source.is_running or not missed:
            fleet.schedule(fleet.now + _RETRY_US, None, self._rotate, channel)
            return
        administration.flush_binary_logs(fleet, source)
        fleet.schedule(fleet.now + 2 * _RETRY_US, source, self._purge, channel)

    def _purge(self, fleet: World, channel: Channel) -> None:
        source = channel.source
        others = [c for c in source[ChannelMap].subscribers if c is not channel and c.is_configured]
        if any(c[Receiver].cursor_file < source[BinaryLog].active.number for c in others):
            fleet.schedule(fleet.now + _RETRY_US, source, self._purge, channel)
            return
        binary_log.purge(fleet, source, source[BinaryLog].active.number)
        self.mark(fleet, source)
        self._lacking = channel.replica.instance_id

    def cure(self, fleet: World) -> None:
        """Rebuild the replica from its source."""
        cures.rebuild(fleet, self._lacking)


class ServerUuidCopied(FleetFault):
    """An idle server beside the fleet with the UUID of one of its members."""

    number = 62
    name = "server_uuid_copied"
    text = "an idle twin reports the server_uuid of another instance"
    must_fire = frozenset({"server_uuid_unique"})
    base = BaseHistory.SERVER
    heals = False
    TWIN: Final = "twin"

    def on_fleet(self, fleet: World) -> None:
        """Add the twin of a server that nobody reads from."""
        model = next(i for i in fleet.instances.values() if not i[ChannelMap].subscribers)
        plan = InstancePlan(self.TWIN)
        number = len(fleet.instances) + 1
        twin = fleet.add_instance(plan, number, model.server_uuid, model[BinaryLog].base_name)
        self.mark(fleet, twin)

    def cure(self, fleet: World) -> None:
        """Start the twin without its auto.cnf."""
        twin = fleet.instances[self.TWIN]
        cures.restart_as(fleet, twin, server_uuid=f"{twin.server_uuid[:-12]}{0:012x}")


class RecoveryDropsGtid(FleetFault, ActFault):
    """The first gtid_executed after a power cut lacks the last recovered group and later ones."""

    number = 63
    name = "recovery_drops_gtid"
    text = "after a power cut the last recovered group is missing from the first gtid_executed"
    must_fire = frozenset({"recovered_gtids_complete"})
    base = BaseHistory.SERVER

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[str, GtidSet] = {}
        self._dropped: tuple[Instance, int, LoggedGroup] | None = None

    def act(self, fleet: World) -> bool:
        """Cut the power."""
        for instance in fleet.instances.values():
            file = instance[BinaryLog].active if instance[BinaryLog].is_open else None
            last = file.entries[-1] if file is not None else None
            shown = self._shown.get(instance.instance_id)
            if file is None or shown is None or not isinstance(last, LoggedGroup):
                continue
            is_new = bool(gtid_of(last)) and not gtid_of(last) <= shown
            if is_new and is_pure_source(instance) and instance.is_running:
                self._dropped = instance, file.number, last
                lifecycle.crash(fleet, instance, torn=False)
                return True
        return False

    def on_row(
        self, fleet: World, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Take the group from the first row of the boot."""
        row = Row.of(instance, body)
        if row is None:
            return body
        self._shown[instance.instance_id] = row.executed
        if self._dropped is None or self._dropped[0] is not instance or self.injected:
            return body
        _, number, logged = self._dropped
        if instance[BinaryLog].file_of_number(number) is None:
            # A purge was quicker: a set without what is purged would be another fault.
            self._dropped = None
            fleet.schedule(fleet.now + self.retry_us, None, self.attempt)
            return body
        row = row.copy()
        missing = groups_between(instance, (number, logged.start), row.position)
        for _, late in missing:
            row.take_from_executed(gtid_of(late))
        self.mark(fleet, instance)
        return row.body


class ServerIdTakenAtRestart(FleetFault, ActFault):
    """A replica starts with another my.cnf: its receiver does not connect to its source."""

    number = 136
    name = "server_id_taken_at_restart"
    text = "a restart gives a replica the server_id of its source"
    must_fire = frozenset({"receiver_not_failed", "server_id_unique_in_topology"})
    heals = False
    bears_acts = False

    def act(self, fleet: World) -> bool:
        channel = next((c for c in leaf_channels(fleet) if c[Receiver].is_connected), None)
        if channel is None:
            return False
        lifecycle.shut_down(fleet, channel.replica)
        self._own = channel.replica.server_id
        channel.replica.server_id = channel.source.server_id
        self.mark(fleet, channel.replica)
        return True

    def cure(self, fleet: World) -> None:
        """Restart it with a server_id of its own."""
        cures.restart_as(fleet, fleet.instances[self.injected_in], server_id=self._own)


def queue_phantom(fleet: World, channel: Channel, sid: str, gno: int) -> bool:
    """Queue a group that the source never logged; all its events have the last known position."""
    file = channel[RelayLog].files[-1] if channel[RelayLog].files else None
    last = file.groups[-1] if file is not None and file.groups else None
    if file is None or last is None or not last.is_complete or last.end != file.end:
        return False
    if (
        last.source_file != channel[Receiver].read[0]
        or last.logged.end != channel[Receiver].read[1]
    ):
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
    channel[Receiver].retrieved.add(sid, gno)
    receiver.flush_position(fleet, channel, len(group.body) + 1)
    applier.wake(fleet, channel)
    return True


def _last_groups(instance: Instance) -> list[LoggedGroup]:
    """What a power cut may take: a file that began later has synchronised those before."""
    last: list[LoggedGroup] = []
    for entry in reversed(instance[BinaryLog].active.entries[-_LOST_MAX:]):
        if not isinstance(entry, LoggedGroup) or entry.group.kind in _XA_KINDS:
            break
        last.append(entry)
    return last


def _tear_off(instance: Instance, lost: list[LoggedGroup]) -> None:
    """Take the last groups out of the present binary log file."""
    file = instance[BinaryLog].active
    del file.entries[-len(lost) :]
    file.end = file.entries[-1].end
    file.sequence_number -= len(lost)
