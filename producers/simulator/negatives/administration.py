"""What administrators and accidents do to servers: modes, sets, resets, restarts and crashes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.kernel.world import BOOT
from tallystick.producers.simulator.negatives.acts import (
    SECOND_US,
    channels,
    foreign_uuid,
    is_reset_harmless,
    near,
    replicas,
    sources,
    time_at,
)
from tallystick.producers.simulator.negatives.negative import Negative
from tallystick.producers.simulator.server import administration, clients, commit, lifecycle
from tallystick.producers.simulator.server.channels import ChannelMap, Receiver
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World


class BinlogOff(Negative):
    """Restart with --skip-log-bin, and again with a binary log."""

    name = "binlog_off"
    text = (
        "a replica without a binary log: no file keys, purged equals executed; then it logs again"
    )
    options: ClassVar = {"topology": "pair"}

    def arrange(self, fleet: World) -> None:
        for replica in replicas(fleet):
            if not replica[ChannelMap].subscribers:
                near(fleet, 0.2, replica, lifecycle.restart_without_log, replica)
                near(fleet, 0.8, replica, lifecycle.restart_with_log, replica)


class GtidModeOff(Negative):
    """No server has GTIDs."""

    name = "gtid_mode_off"
    text = "the position moves, gtid_executed stands still: all groups are anonymous"
    options: ClassVar = {"gtid_mode": "OFF", "auto_position": False}


class GtidModePermissive(Negative):
    """ON, ON_PERMISSIVE, OFF_PERMISSIVE with anonymous groups, and back; step by step."""

    name = "gtid_mode_permissive"
    text = "the fleet goes online to anonymous groups and back"
    options: ClassVar = {"auto_position": False, "topology": "pair"}

    def arrange(self, fleet: World) -> None:
        steps = ("ON_PERMISSIVE", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")
        near(fleet, 0.2, None, _set_gtid_mode, steps)


class GtidPurged(Negative):
    """Every instance is given the same transactions of a server that is gone."""

    name = "gtid_purged"
    # A server that is restored from an older image lacks what its source counts as purged.
    excludes: ClassVar = frozenset({"recovery_on_new_server", "recovery_from_replica"})
    text = "gtid_executed and gtid_purged grow without any event"

    def arrange(self, fleet: World) -> None:
        added = GtidIntervals.of((foreign_uuid(fleet), 1, fleet.rng.randrange(1, 500)))
        near(fleet, 0.5, None, _assign_everywhere, added)


class InjectedEmptyGroup(Negative):
    """SET gtid_next to a GTID of a server that is gone; BEGIN; COMMIT."""

    name = "injected_empty_group"
    text = "an empty group under the GTID of a server that is gone counts as executed"

    def arrange(self, fleet: World) -> None:
        uuid = foreign_uuid(fleet)
        for gno, source in enumerate(sources(fleet), 1):
            near(fleet, 0.5, source, clients.commit_empty, source, uuid, gno)


class HoleFilledOnEveryServer(Negative):
    """An empty transaction under one GTID of a server that is gone, on each server by itself."""

    name = "hole_filled_on_every_server"
    text = "one GTID has an origin on each server: it is empty everywhere, so the data agree"

    def arrange(self, fleet: World) -> None:
        near(fleet, 0.4, None, _fill_hole, foreign_uuid(fleet))


class SkippedNumbers(Negative):
    """SET gtid_next to a number of the server's own that is not the next one; BEGIN; COMMIT."""

    name = "skipped_numbers"
    text = (
        "a client skips numbers of its server: they are neither logged nor executed, or come later"
    )

    def arrange(self, fleet: World) -> None:
        for source in sources(fleet):
            for share, ahead in ((0.2, 3), (0.6, 100)):
                near(fleet, share, source, _skip_numbers, source, ahead)


class ResetBinaryLogs(Negative):
    """RESET MASTER where nobody replicates from."""

    name = "reset_binary_logs"
    text = "RESET MASTER: file 000001, nothing executed, the same GNOs again"
    options: ClassVar = {"topology": "single"}

    def arrange(self, fleet: World) -> None:
        for source in sources(fleet):
            near(fleet, 0.5, source, _reset_when_running, source)


class RestartSource(Negative):
    """A clean restart of a source."""

    name = "restart_source"
    text = "next file number, sequence numbers from 1, a jump of the LSN"

    def arrange(self, fleet: World) -> None:
        source = fleet.rng.choice(sources(fleet))
        near(fleet, 0.5, source, lifecycle.shut_down, source)


class RestartReplica(Negative):
    """A clean restart of a replica, relay logs kept."""

    name = "restart_replica"
    text = "a replica restarts; its channels are listed in another order"
    options: ClassVar = {"topology": "multi_source"}

    def arrange(self, fleet: World) -> None:
        fleet.bus.connect(BOOT, _recover_after_crash)
        for replica in replicas(fleet):
            near(fleet, 0.5, replica, lifecycle.shut_down, replica)


class CrashSource(Negative):
    """A source crashes while it writes a group."""

    name = "crash_source"
    text = "events beyond the recovered end vanish: a torn last group"

    def arrange(self, fleet: World) -> None:
        source = fleet.rng.choice(sources(fleet))
        near(fleet, 0.5, source, lifecycle.crash, source)


class CrashReplica(Negative):
    """A replica crashes while it writes a local group."""

    name = "crash_replica"
    text = "events of a replica beyond the recovered end vanish, its relay log begins anew"
    options: ClassVar = {"topology": "pair"}

    def arrange(self, fleet: World) -> None:
        for replica in replicas(fleet):
            near(fleet, 0.5, replica, lifecycle.crash, replica)


def _reset_when_running(fleet: World, instance: Instance) -> None:
    if instance.is_running and is_reset_harmless(instance):
        administration.reset_binary_logs(fleet, instance)
    elif fleet.now < fleet.load_ends_at:
        fleet.schedule(fleet.now + SECOND_US // 10, instance, _reset_when_running, instance)


def _assign_everywhere(fleet: World, added: GtidIntervals) -> None:
    """SET gtid_purged on all servers, replicas first, once all run: else one would lack it."""
    if all(_is_free(fleet, instance) for instance in fleet.instances.values()):
        for instance in reversed(fleet.instances.values()):
            administration.set_gtid_purged(fleet, instance, added)
    elif fleet.now < fleet.load_ends_at:
        fleet.schedule(fleet.now + SECOND_US // 10, None, _assign_everywhere, added)


def _is_free(fleet: World, instance: Instance) -> bool:
    is_cloned = instance[ChannelMap].awaits_clone
    return instance.is_running and fleet.now >= instance.blocked_until and not is_cloned


def _recover_after_crash(fleet: World, instance: Instance, crashed: bool) -> bool:
    """Relay logs are kept over a clean restart; by position a crash needs relay_log_recovery."""
    by_position = not fleet.scenario.auto_position
    instance.variables["relay_log_recovery"] = crashed and by_position
    return True


def _set_gtid_mode(fleet: World, steps: tuple[str, ...]) -> None:
    """Set the next mode everywhere, once all servers run and all channels have caught up."""
    instances = fleet.instances.values()
    is_quiet = all(_is_free(fleet, instance) for instance in instances)
    if not is_quiet or any(c.pending or c[Receiver].is_scheduled for c in channels(fleet)):
        fleet.schedule(fleet.now + SECOND_US // 100, None, _set_gtid_mode, steps)
        return
    for instance in instances:
        commit.finish_all(fleet, instance)
        administration.set_variables(instance, gtid_mode=steps[0])
    if steps[1:]:
        moment = time_at(fleet, 0.18, since=fleet.now)
        fleet.schedule(moment, None, _set_gtid_mode, steps[1:])


def _skip_numbers(fleet: World, instance: Instance, ahead: int) -> None:
    own = instance.server_uuid
    next_free = instance[GtidState].logged.next_free(own)
    clients.commit_empty(fleet, instance, own, next_free + ahead)


def _fill_hole(fleet: World, uuid: str) -> None:
    # Sources first: what a replica has executed, its source has. One that is held back sends it.
    writers = sources(fleet)
    if not writers or not all(one.is_running for one in writers):
        return  # in a switchover nobody writes
    for instance in writers:
        clients.commit_empty(fleet, instance, uuid, 1)
    if all((uuid, 1) in one[GtidState].logged for one in writers):
        for instance in fleet.instances.values():
            if instance not in writers:
                clients.commit_empty(fleet, instance, uuid, 1)
