"""GTID persistence (WL#9211): legal histories in which a GTID seems to be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from tallystick.producers.simulator.innodb.gtid_persistence import CrashPoint, GtidPersistence
from tallystick.producers.simulator.innodb.gtid_persister import TRANSACTIONS_MAX
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.negatives.acts import (
    MS_US,
    after_ms,
    is_reset_harmless,
    sources,
    watch_persisters,
)
from tallystick.producers.simulator.negatives.negative import Negative
from tallystick.producers.simulator.negatives.transactions import end_xa
from tallystick.producers.simulator.server import administration, clients, lifecycle
from tallystick.producers.simulator.server.channels import ChannelMap
from tallystick.producers.simulator.server.clients import Clients

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

_RESET_MS: Final = 1_500
_IN_RECOVERY: Final = (CrashPoint.RECOVERY_WRITE, CrashPoint.RECOVERY_NUMBER)


class PersisterBurst(Negative):
    """1100 transactions at once: the persister does not wait for its second."""

    name = "persister_burst"
    text = "1100 transactions at once: the persister writes before its second is over"
    options: ClassVar = {
        "topology": "single",
        "duration_ms": 2_000,
        "acts": False,
        "max_binlog_size": 1 << 20,
    }

    def arrange(self, fleet: World) -> None:
        watch_persisters(fleet)
        source = sources(fleet)[0]
        after_ms(fleet, 500, source, _commit_many, source)


class PersisterCrash(Negative):
    """Every instance crashes before a step of its own, one after the other."""

    name = "persister_crash"
    text = "servers crash before each step of GTID persistence, recovery's own steps included"
    options: ClassVar = {"topology": "pair", "profile": "mysql-8.0", "writes_per_second": 15.0}

    def arrange(self, fleet: World) -> None:
        watch_persisters(fleet)
        first = fleet.scenario.seed
        points = tuple(CrashPoint)
        for number, instance in enumerate(fleet.instances.values()):
            point = points[(first + number) % len(points)]
            after_ms(fleet, 700 + 1_400 * number, instance, _crash_at, instance, point)


class PersisterReset(Negative):
    """RESET comes when lists have been switched and the table is not written."""

    name = "persister_reset"
    text = "RESET empties the table while the persister writes into it"
    options: ClassVar = {"topology": "single", "writes_per_second": 15.0}

    def arrange(self, fleet: World) -> None:
        watch_persisters(fleet)
        for instance in fleet.instances.values():
            after_ms(fleet, _RESET_MS, instance, _reset_in_a_write, instance)


class PersisterXa(Negative):
    """XA PREPARE, a crash, XA COMMIT or XA ROLLBACK, another crash; beside it ONE PHASE."""

    name = "persister_xa"
    text = "a prepared XA transaction outlives a crash, its end outlives another"
    options: ClassVar = {"topology": "pair", "writes_per_second": 10.0}

    def arrange(self, fleet: World) -> None:
        watch_persisters(fleet)
        source = sources(fleet)[0]
        for ms in (400, 600):
            after_ms(fleet, ms, source, _prepare, source)
        after_ms(fleet, 500, source, _commit_in_one_phase, source)
        for ms in (900, 2_600):
            after_ms(fleet, ms, source, lifecycle.crash, source)


class PersisterWithoutBinlog(Negative):
    """A replica without a binary log crashes: table and undo logs alone know what it executed."""

    name = "persister_without_binlog"
    text = "a replica without a binary log crashes, and undo logs hold what its table lacks"
    options: ClassVar = {"topology": "pair", "writes_per_second": 15.0}

    def arrange(self, fleet: World) -> None:
        watch_persisters(fleet)
        replica = next(
            i
            for i in fleet.instances.values()
            if i[ChannelMap].channels and not i[ChannelMap].subscribers
        )
        after_ms(fleet, 600, replica, _stop_logging, replica)
        after_ms(fleet, 2_000, replica, lifecycle.crash, replica)
        after_ms(fleet, 3_000, replica, _log_again, replica)


def _commit_many(fleet: World, instance: Instance) -> None:
    if not instance.is_running:
        fleet.schedule(fleet.now + 100 * MS_US, instance, _commit_many, instance)
        return
    for _ in range(TRANSACTIONS_MAX + 76):
        clients.write(fleet, instance, GroupKind.COMPRESSED)


def _crash_at(fleet: World, instance: Instance, point: CrashPoint) -> None:
    instance[GtidPersistence].crash_at = point
    if point in _IN_RECOVERY:
        lifecycle.crash(fleet, instance)


def _reset_in_a_write(fleet: World, instance: Instance) -> None:
    if not (instance[GtidPersistence].persister.is_writing and is_reset_harmless(instance)):
        if fleet.now < fleet.load_ends_at:
            fleet.schedule(fleet.now + MS_US, instance, _reset_in_a_write, instance)
        return
    administration.reset_binary_logs(fleet, instance)


def _prepare(fleet: World, instance: Instance) -> None:
    if not instance.is_running or not instance[Clients].writes:
        return
    logged = clients.write(fleet, instance, GroupKind.XA_PREPARE)
    if logged is not None:
        kind = fleet.rng.choice((GroupKind.XA_COMMIT, GroupKind.XA_ROLLBACK))
        after_ms(fleet, fleet.rng.randrange(1_700, 2_500), None, end_xa, logged.group, kind)


def _commit_in_one_phase(fleet: World, instance: Instance) -> None:
    if instance.is_running and instance[Clients].writes:
        clients.write(fleet, instance, GroupKind.XA_ONE_PHASE)


def _stop_logging(fleet: World, replica: Instance) -> None:
    if not replica.is_running:
        fleet.schedule(fleet.now + 50 * MS_US, replica, _stop_logging, replica)
        return
    lifecycle.restart_without_log(fleet, replica)


def _log_again(fleet: World, replica: Instance) -> None:
    if not replica.is_running:
        fleet.schedule(fleet.now + 50 * MS_US, replica, _log_again, replica)
        return
    lifecycle.restart_with_log(fleet, replica)
