"""Traps of online backups: freezes that are right, though they look as if something went wrong."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator import administration
from tallystick.producers.simulator.model import GroupKind
from tallystick.producers.simulator.online_backup import backup_protocol, backup_synchronization
from tallystick.producers.simulator.online_backup.engine_locking import ENGINES, Engine
from tallystick.producers.simulator.trap import Trap

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.model import Instance

_SECOND_US: Final = 1_000_000
_LONG_US: Final = 60 * _SECOND_US
_CLUSTER_US: Final = 40_000
"""Period in which other members of a cluster change tables of NDB."""


def _engines(**waits_us: tuple[int, ...]) -> tuple[Engine, ...]:
    """The engines, of which some wait for somebody in their first rounds."""
    return tuple(
        Engine(engine.name, engine.prelock_us, waits_us.get(engine.name, ())) for engine in ENGINES
    )


def close_zone(fleet: Fleet) -> None:
    """Validity points while others log; then one with engine locks, of which a round times out."""
    for source in _sources(fleet):
        backup_synchronization.install(fleet, source)
        for share in (0.3, 0.5):
            _at(fleet, share, source, backup_protocol.begin, source)
        slow = _engines(binlog=(3 * _SECOND_US,))
        _at(fleet, 0.7, source, backup_protocol.begin, source, slow)


def bail_out(fleet: Fleet) -> None:
    """One engine is never locked in time, another commits by itself while the zone is closed."""
    never = _engines(myisam=(_SECOND_US,) * 2, innodb=(_LONG_US,) * 2)
    for source in _sources(fleet):
        backup_synchronization.install(fleet, source)
        _at(fleet, 0.1, source, backup_protocol.begin, source, never, rounds_max=2)
        for moment in range(fleet.start_ts, fleet.load_ends_at, _CLUSTER_US):
            fleet.clock.schedule(moment, source, _commit_in_cluster, source)


def close_zone_of_replicas(fleet: Fleet) -> None:
    """Appliers wait in front of the zone, and stop at a DDL; they go on behind the backup."""
    for replica in fleet.instances.values():
        if replica.channels:
            backup_synchronization.install(fleet, replica)
            _at(fleet, 0.3, replica, _back_up_replica, replica)
            source = next(iter(replica.channels.values())).source
            _at(fleet, 0.3, source, _write_ddl, source)
            _at(fleet, 0.8, replica, backup_protocol.begin, replica, ENGINES)


def crash_in_zone(fleet: Fleet) -> None:
    """Servers crash while their zone is closed: tickets and waiting sessions are gone with them."""
    for instance in fleet.instances.values():
        backup_synchronization.install(fleet, instance)
        slow = _engines(ndb=(3 * _SECOND_US,))
        _at(fleet, 0.4, instance, backup_protocol.begin, instance, slow)
        _at(fleet, 0.55, instance, administration.crash, instance)
        _at(fleet, 0.9, instance, backup_protocol.begin, instance)


# What happens when the moment has come


def _back_up_replica(fleet: Fleet, replica: Instance) -> None:
    backup_protocol.begin(
        fleet, replica, ENGINES, at_end=lambda _: administration.restart_appliers(fleet, replica)
    )


def _write_ddl(fleet: Fleet, source: Instance) -> None:
    if source.is_running:
        fleet.write(source, GroupKind.DDL)


def _commit_in_cluster(instance: Instance) -> None:
    """Another member of the cluster commits; neither zone nor server knows, only the engine."""
    backup = instance.backup
    if instance.is_running and (backup is None or "ndb" not in backup.locks.locked):
        body = {"engine": "ndb", "type": "dml", "binlogged": False}
        instance.journal.fact(RecordType.STATEMENT, body)


# Moments and places


def _at(
    fleet: Fleet,
    share: float,
    instance: Instance,
    act: Callable[..., Any],
    *args: object,
    **options: object,
) -> None:
    """Schedule an act when a share of the load's time has passed."""
    moment = fleet.start_ts + int(share * (fleet.load_ends_at - fleet.start_ts))
    fleet.schedule(moment, instance, partial(act, **options), *args)


def _sources(fleet: Fleet) -> list[Instance]:
    return [instance for instance in fleet.instances.values() if instance.writes]


TRAPS: Final = (
    Trap(
        "commit_zone",
        "T37",
        "groups that take no part are logged during the validity point of a closed zone",
        {"writes_per_second": 20.0},
        close_zone,
    ),
    Trap(
        "backup_bails_out",
        "T37",
        "commits wait two seconds, twice, for a backup that never comes about; NDB commits on",
        {"writes_per_second": 20.0},
        bail_out,
    ),
    Trap(
        "replica_zone",
        "T37",
        "a replica's appliers wait for a backup, or stop at a DDL with an error",
        {"writes_per_second": 20.0, "topology": "pair"},
        close_zone_of_replicas,
    ),
    Trap(
        "crash_in_zone",
        "T16",
        "a server crashes inside its closed zone: no ticket is dropped, the zone is never opened",
        {"writes_per_second": 20.0},
        crash_in_zone,
    ),
)
