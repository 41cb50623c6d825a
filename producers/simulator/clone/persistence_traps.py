"""Traps of GTID persistence (WL#9211): legal histories in which a GTID seems to be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tallystick.producers.simulator import administration, trap_acts
from tallystick.producers.simulator.clone.gtid_persistence import CrashPoint
from tallystick.producers.simulator.clone.gtid_persister import TRANSACTIONS_MAX
from tallystick.producers.simulator.model import GroupKind
from tallystick.producers.simulator.trap import Trap

if TYPE_CHECKING:
    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.model import Instance

_MS: Final = 1_000
_ADMINISTRATION_MS: Final = 1_500
_IN_RECOVERY: Final = (CrashPoint.RECOVERY_WRITE, CrashPoint.RECOVERY_NUMBER)


def _watch(fleet: Fleet) -> None:
    for instance in fleet.instances.values():
        instance.tells_gtid_persister = True


def burst(fleet: Fleet) -> None:
    """1100 transactions at once: the persister does not wait for its second."""
    _watch(fleet)
    source = next(i for i in fleet.instances.values() if i.writes)
    fleet.schedule(fleet.start_ts + 500 * _MS, source, _commit_many, source)


def _commit_many(fleet: Fleet, instance: Instance) -> None:
    for _ in range(TRANSACTIONS_MAX + 76):
        fleet.write(instance, GroupKind.COMPRESSED)


def crash_at_each_step(fleet: Fleet) -> None:
    """Every instance crashes before a step of its own, one after the other."""
    _watch(fleet)
    first = fleet.scenario.seed
    points = tuple(CrashPoint)
    for place, instance in enumerate(fleet.instances.values()):
        point = points[(first + place) % len(points)]
        moment = fleet.start_ts + (700 + 1_400 * place) * _MS
        fleet.schedule(moment, instance, _crash_at, instance, point)


def _crash_at(fleet: Fleet, instance: Instance, point: CrashPoint) -> None:
    instance.crash_at = point
    if point in _IN_RECOVERY:
        administration.crash(fleet, instance)


def reset_during_a_write(fleet: Fleet) -> None:
    """RESET comes when lists have been switched and the table is not written."""
    _watch(fleet)
    for instance in fleet.instances.values():
        fleet.schedule(
            fleet.start_ts + _ADMINISTRATION_MS * _MS, instance, _reset_in_a_write, instance
        )


def _reset_in_a_write(fleet: Fleet, instance: Instance) -> None:
    if not instance.persister.is_writing:
        fleet.schedule(fleet.now + _MS, instance, _reset_in_a_write, instance)
        return
    administration.reset_binary_logs(fleet, instance)


def xa_over_a_crash(fleet: Fleet) -> None:
    """XA PREPARE, a crash, XA COMMIT or XA ROLLBACK, another crash; beside it ONE PHASE."""
    _watch(fleet)
    source = next(i for i in fleet.instances.values() if i.writes)
    for ms in (400, 600):
        fleet.schedule(fleet.start_ts + ms * _MS, source, _prepare, source)
    fleet.schedule(fleet.start_ts + 500 * _MS, source, _commit_in_one_phase, source)
    for ms in (900, 2_600):
        fleet.schedule(fleet.start_ts + ms * _MS, source, administration.crash, source)


def _prepare(fleet: Fleet, instance: Instance) -> None:
    if not instance.is_running or not instance.writes:
        return
    logged = fleet.write(instance, GroupKind.XA_PREPARE)
    if logged is not None:
        kind = fleet.rng.choice((GroupKind.XA_COMMIT, GroupKind.XA_ROLLBACK))
        moment = fleet.start_ts + fleet.rng.randrange(1_700, 2_500) * _MS
        fleet.schedule(moment, None, trap_acts.end_xa, logged.group, kind)


def _commit_in_one_phase(fleet: Fleet, instance: Instance) -> None:
    if instance.is_running and instance.writes:
        fleet.write(instance, GroupKind.XA_ONE_PHASE)


def crash_without_binary_log(fleet: Fleet) -> None:
    """A replica without a binary log crashes: table and undo logs alone know what it executed."""
    _watch(fleet)
    replica = next(i for i in fleet.instances.values() if i.channels and not i.subscribers)
    fleet.schedule(fleet.start_ts + 600 * _MS, replica, _stop_logging, replica)
    fleet.schedule(fleet.start_ts + 2_000 * _MS, replica, administration.crash, replica)
    fleet.schedule(fleet.start_ts + 3_000 * _MS, replica, _log_again, replica)


def _stop_logging(fleet: Fleet, replica: Instance) -> None:
    if not replica.is_running:
        fleet.schedule(fleet.now + 50 * _MS, replica, _stop_logging, replica)
        return
    administration.shut_down(fleet, replica)
    replica.log_bin = replica.variables["log_bin"] = False
    replica.purged = replica.executed.copy()


def _log_again(fleet: Fleet, replica: Instance) -> None:
    if not replica.is_running:
        fleet.schedule(fleet.now + 50 * _MS, replica, _log_again, replica)
        return
    administration.shut_down(fleet, replica)
    replica.log_bin = replica.variables["log_bin"] = True
    replica.purged = replica.binlog.files[0].previous_gtids.copy()
    replica.purged.update(replica.table_only)


TRAPS: Final[tuple[Trap, ...]] = (
    Trap(
        "persister_burst",
        "T10",
        "1100 transactions at once: the persister writes before its second is over",
        {"topology": "single", "duration_ms": 2_000, "acts": False, "max_binlog_size": 1 << 20},
        burst,
    ),
    Trap(
        "persister_crash",
        "T10",
        "servers crash before each step of GTID persistence, recovery's own steps included",
        {"topology": "pair", "profile": "mysql-8.0", "writes_per_second": 15.0},
        crash_at_each_step,
    ),
    Trap(
        "persister_reset",
        "T14",
        "RESET empties the table while the persister writes into it",
        {"topology": "single", "writes_per_second": 15.0},
        reset_during_a_write,
    ),
    Trap(
        "persister_xa",
        "T39",
        "a prepared XA transaction outlives a crash, its end outlives another",
        {"topology": "pair", "writes_per_second": 10.0},
        xa_over_a_crash,
    ),
    Trap(
        "persister_without_binlog",
        "T11",
        "a replica without a binary log crashes, and undo logs hold what its table lacks",
        {"topology": "pair", "writes_per_second": 15.0},
        crash_without_binary_log,
    ),
)
"""The traps, as data."""
