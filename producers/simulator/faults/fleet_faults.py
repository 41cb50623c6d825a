"""Faults F17 and F57 to F63: what servers really do to each other's history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator import administration, binary_log, receiver
from tallystick.producers.simulator.faults.channel_faults import queue_phantom
from tallystick.producers.simulator.faults.injector import (
    Injector,
    Row,
    groups_between,
    gtid_of,
    is_pure_source,
)
from tallystick.producers.simulator.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.model import GroupKind, LoggedGroup
from tallystick.producers.simulator.topology import InstancePlan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.model import Channel, Instance

_RETRY_US: Final = 50_000
_FAR: Final = 1_000_000
"""Distance of a GNO that no server will reach."""
_XA_KINDS: Final = (GroupKind.XA_PREPARE, GroupKind.XA_COMMIT)


class PurgedNotAdvanced(Injector):
    """F17: PURGE removes files and leaves gtid_purged as it is, until a row has shown it."""

    _FILES: Final = 2

    def __init__(self) -> None:
        super().__init__()
        self._instance: Instance | None = None
        self._owed: GtidIntervals | None = None

    def on_fleet(self, fleet: Fleet) -> None:
        """Begin when the fault is due."""
        fleet.clock.schedule(fleet.fault_at, None, self._rotate, fleet, self._FILES)

    def _rotate(self, fleet: Fleet, times: int) -> None:
        instance = next(i for i in fleet.instances.values() if not i.subscribers)
        if not instance.is_running or not instance.binlog.active.groups():
            fleet.clock.schedule(fleet.now + _RETRY_US, None, self._rotate, fleet, times)
            return
        administration.flush_binary_logs(fleet, instance)
        act = self._rotate if times > 1 else self._purge
        rest = (times - 1,) if times > 1 else (instance,)
        fleet.clock.schedule(fleet.now + 2 * _RETRY_US, instance, act, fleet, *rest)

    def _purge(self, fleet: Fleet, instance: Instance) -> None:
        self._instance = instance
        binary_log.purge(fleet, instance, instance.binlog.active.number)

    def on_purge(self, fleet: Fleet, instance: Instance, purged: GtidIntervals) -> bool:
        """Keep what gtid_purged should be."""
        if instance is not self._instance or purged == instance.purged:
            return True
        if self.injected and self._owed is None:
            return True
        if not self.injected:
            self.mark(fleet, instance)
        self._owed = purged
        return False

    def on_row(
        self, fleet: Fleet, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Once a row has shown it, gtid_purged is as it should be."""
        if self._owed is not None and instance is self._instance and "row" in body:
            oldest = instance.binlog.files[0].name
            lists = [body.get("binary_logs", []), body.get("binary_logs_again", [])]
            if all(files and files[0]["name"] == oldest for files in lists):
                instance.purged.update(self._owed)
                self._owed = None
        return body


class SourceLosesCommits(Injector):
    """F57: with sync_binlog=0 a power cut takes the last groups out of log and engine alike.

    Clients do not write there any more: new groups would take the lost GNOs again, another fault.
    """

    _GROUPS: Final = 3

    def __init__(self) -> None:
        super().__init__()
        self._victim: Instance | None = None

    def on_row(
        self, fleet: Fleet, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Cut the power right behind a row that shows the last groups, received by a replica."""
        row = Row.of(instance, body)
        if row is not None and self._is_moment(fleet, row):
            fleet.clock.schedule(fleet.now, None, self._cut_power, fleet, row)
        return body

    def _is_moment(self, fleet: Fleet, row: Row) -> bool:
        source = row.instance
        entries = source.binlog.active.entries[-self._GROUPS :]
        lost = [e for e in entries if isinstance(e, LoggedGroup) and e.group.kind not in _XA_KINDS]
        end = source.binlog.position
        return (
            self.is_due(fleet)
            and is_pure_source(source)
            and source.is_running
            and not source.in_commit
            and len(lost) == self._GROUPS
            and all(gtid_of(logged) and gtid_of(logged) <= row.executed for logged in lost)
            and (row.local["binary_log_file"], row.local["binary_log_position"]) == end
            and any(c.is_connected and c.read == end for c in source.subscribers)
        )

    def _cut_power(self, fleet: Fleet, row: Row) -> None:
        if self._is_moment(fleet, row):
            self._victim = row.instance
            self.mark(fleet, row.instance)
            row.instance.writes = False
            administration.crash(fleet, row.instance, torn=False)

    def on_stop(self, fleet: Fleet, instance: Instance, crashed: bool) -> None:
        """What was not synchronised is gone."""
        if instance is not self._victim or not crashed:
            return
        self._victim = None
        file = instance.binlog.active
        for logged in file.entries[-self._GROUPS :]:
            assert isinstance(logged, LoggedGroup)
            assert logged.group.sid is not None
            instance.table.discard(logged.group.sid, logged.group.gno)
            instance.innodb.transactions.lose(logged.group.sid, logged.group.gno)
        del file.entries[-self._GROUPS :]
        file.end = file.entries[-1].end
        file.sequence_number -= self._GROUPS


class GnoReusedAfterReset(Injector):
    """F58: RESET on a source that has replicas; what it did not write itself is given back.

    It comes while a replica is asked for its row: the source, asked a little later, is still far
    from having numbered as many groups again.
    """

    def on_collect_step(
        self, fleet: Fleet, instance: Instance, collection_id: str, step: str, resource: str | None
    ) -> bool:
        """Reset the source of the replica that is asked."""
        if step == "enter" and self.is_due(fleet):
            for channel in instance.channels.values():
                own = channel.source.server_uuid
                has_spread = all((own, gno) in channel.retrieved for gno in (1, 2))
                if has_spread and is_pure_source(channel.source) and channel.source.is_running:
                    self._reset(fleet, channel.source)
                    break
        return True

    def _reset(self, fleet: Fleet, source: Instance) -> None:
        own = source.server_uuid
        foreign = GtidIntervals.of(*source.executed.to_gtid_set().without_uuid(own))
        self.mark(fleet, source)
        administration.reset_binary_logs(fleet, source)
        if foreign:
            administration.set_gtid_purged(fleet, source, foreign)


class PhantomGroupReceived(Injector):
    """F59: an empty group under a GTID of the source that is far from all it ever wrote."""

    def on_fleet(self, fleet: Fleet) -> None:
        """Queue it when the fault is due."""
        fleet.clock.schedule(fleet.fault_at, None, self._queue, fleet)

    def _queue(self, fleet: Fleet) -> None:
        for channel in _leaf_channels(fleet):
            uuid = channel.source.server_uuid
            gno = channel.source.logged.next_free(uuid) + _FAR
            if channel.is_connected and queue_phantom(fleet, channel, uuid, gno):
                self.mark(fleet, channel.replica)
                return
        fleet.clock.schedule(fleet.now + 1_000, None, self._queue, fleet)


class ErrantWrite(Injector):
    """F60: one transaction on a replica that nobody reads from."""

    def on_fleet(self, fleet: Fleet) -> None:
        """Write when the fault is due."""
        fleet.clock.schedule(fleet.fault_at, None, self._write, fleet)

    def _write(self, fleet: Fleet) -> None:
        replica = next((c.replica for c in _leaf_channels(fleet) if c.replica.is_running), None)
        if replica is None:
            fleet.clock.schedule(fleet.now + _RETRY_US, None, self._write, fleet)
            return
        fleet.write(replica)
        self.mark(fleet, replica)


class SourcePurgedTooEarly(Injector):
    """F61: a source purges while one of its replicas does not receive."""

    def on_fleet(self, fleet: Fleet) -> None:
        """Stop a receiver when the fault is due."""
        fleet.clock.schedule(fleet.fault_at, None, self._stop, fleet)

    def _stop(self, fleet: Fleet) -> None:
        channel = next((c for c in _leaf_channels(fleet) if c.is_connected), None)
        if channel is None:
            fleet.clock.schedule(fleet.now + _RETRY_US, None, self._stop, fleet)
            return
        receiver.stop(fleet, channel)
        fleet.clock.schedule(fleet.now + _RETRY_US, None, self._rotate, fleet, channel)

    def _rotate(self, fleet: Fleet, channel: Channel) -> None:
        source = channel.source
        missed = source.executed.minus(channel.retrieved).minus(channel.replica.executed)
        if not source.is_running or not missed:
            fleet.clock.schedule(fleet.now + _RETRY_US, None, self._rotate, fleet, channel)
            return
        administration.flush_binary_logs(fleet, source)
        fleet.clock.schedule(fleet.now + 2 * _RETRY_US, source, self._purge, fleet, channel)

    def _purge(self, fleet: Fleet, channel: Channel) -> None:
        source = channel.source
        others = [c for c in source.subscribers if c is not channel and c.is_configured]
        if any(c.cursor_file < source.binlog.active.number for c in others):
            fleet.clock.schedule(fleet.now + _RETRY_US, source, self._purge, fleet, channel)
            return
        binary_log.purge(fleet, source, source.binlog.active.number)
        self.mark(fleet, source)


class ServerUuidCopied(Injector):
    """F62: an idle server beside the fleet with the UUID of one of its members."""

    TWIN: Final = "twin"

    def on_fleet(self, fleet: Fleet) -> None:
        """Add the twin of a server that nobody reads from."""
        model = next(i for i in fleet.instances.values() if not i.subscribers)
        plan = InstancePlan(self.TWIN)
        number = len(fleet.instances) + 1
        twin = fleet.add_instance(plan, number, model.server_uuid, model.binlog.base_name)
        self.mark(fleet, twin)


class RecoveryDropsGtid(Injector):
    """F63: the first X after a power cut lacks the last recovered group and what follows it."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[str, GtidSet] = {}
        self._dropped: tuple[Instance, int, LoggedGroup] | None = None

    def on_fleet(self, fleet: Fleet) -> None:
        """Cut the power when the fault is due."""
        fleet.clock.schedule(fleet.fault_at, None, self._cut_power, fleet)

    def _cut_power(self, fleet: Fleet) -> None:
        for instance in fleet.instances.values():
            file = instance.binlog.active if instance.log_bin else None
            last = file.entries[-1] if file is not None else None
            shown = self._shown.get(instance.instance_id)
            if file is None or shown is None or not isinstance(last, LoggedGroup):
                continue
            is_new = bool(gtid_of(last)) and not gtid_of(last) <= shown
            if is_new and is_pure_source(instance) and instance.is_running:
                self._dropped = instance, file.number, last
                administration.crash(fleet, instance, torn=False)
                return
        fleet.clock.schedule(fleet.now + 1_000, None, self._cut_power, fleet)

    def on_row(
        self, fleet: Fleet, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Take the group from the first row of the boot."""
        row = Row.of(instance, body)
        if row is None:
            return body
        self._shown[instance.instance_id] = row.executed
        if self._dropped is None or self._dropped[0] is not instance or self.injected:
            return body
        _, number, logged = self._dropped
        if instance.binlog.file_of_number(number) is None:
            # A purge was quicker: a set without what is purged would be another fault.
            self._dropped = None
            fleet.clock.schedule(fleet.now + 1_000, None, self._cut_power, fleet)
            return body
        row = row.copy()
        missing = groups_between(instance, (number, logged.start), row.position)
        for _, late in missing:
            row.take_from_executed(gtid_of(late))
        self.mark(fleet, instance)
        return row.body


def _leaf_channels(fleet: Fleet) -> list[Channel]:
    """The channels of replicas that nobody reads from."""
    return [
        channel
        for instance in fleet.instances.values()
        if not instance.subscribers
        for channel in instance.channels.values()
        if channel.is_configured
    ]


FLEET_INJECTORS: Final[Mapping[str, Callable[[], Injector]]] = {
    "purged_not_advanced": PurgedNotAdvanced,
    "source_loses_commits_at_crash": SourceLosesCommits,
    "gno_reused_after_reset": GnoReusedAfterReset,
    "phantom_group_received": PhantomGroupReceived,
    "errant_write": ErrantWrite,
    "source_purged_too_early": SourcePurgedTooEarly,
    "server_uuid_copied": ServerUuidCopied,
    "recovery_drops_gtid": RecoveryDropsGtid,
}
