"""Online backups (WL#3576): freezes that are right, though they look as if something went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.backup import backup_protocol, backup_synchronization
from tallystick.producers.simulator.backup.backup_protocol import Backup
from tallystick.producers.simulator.backup.engine_locking import ENGINES, Engine
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.negatives.acts import SECOND_US, at, sources
from tallystick.producers.simulator.negatives.negative import Negative
from tallystick.producers.simulator.server import administration, clients, lifecycle
from tallystick.producers.simulator.server.channels import ChannelMap

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

_LONG_US: Final = 60 * SECOND_US
_CLUSTER_US: Final = 40_000
"""Period in which other members of a cluster change tables of NDB."""


class CommitZone(Negative):
    """Validity points while others log; then one with engine locks, of which a round times out."""

    name = "commit_zone"
    text = "groups that take no part are logged during the validity point of a closed zone"
    options: ClassVar = {"writes_per_second": 20.0}

    def arrange(self, fleet: World) -> None:
        for source in sources(fleet):
            backup_synchronization.install(fleet, source)
            for share in (0.3, 0.5):
                at(fleet, share, source, backup_protocol.begin, source)
            slow = _engines(binlog=(3 * SECOND_US,))
            at(fleet, 0.7, source, backup_protocol.begin, source, slow)


class BackupBailsOut(Negative):
    """One engine is never locked in time, another commits by itself while the zone is closed."""

    name = "backup_bails_out"
    text = "commits wait two seconds, twice, for a backup that never comes about; NDB commits on"
    options: ClassVar = {"writes_per_second": 20.0}

    def arrange(self, fleet: World) -> None:
        never = _engines(myisam=(SECOND_US,) * 2, innodb=(_LONG_US,) * 2)
        for source in sources(fleet):
            backup_synchronization.install(fleet, source)
            at(fleet, 0.1, source, backup_protocol.begin, source, never, rounds_max=2)
            for moment in range(fleet.start_ts, fleet.load_ends_at, _CLUSTER_US):
                fleet.clock.schedule(moment, source, _commit_in_cluster, source)


class ReplicaZone(Negative):
    """Appliers wait in front of the zone, and stop at a DDL; they go on after the backup."""

    name = "replica_zone"
    text = "a replica's appliers wait for a backup, or stop at a DDL with an error"
    options: ClassVar = {"writes_per_second": 20.0, "topology": "pair"}

    def arrange(self, fleet: World) -> None:
        for replica in fleet.instances.values():
            if replica[ChannelMap].channels:
                backup_synchronization.install(fleet, replica)
                at(fleet, 0.3, replica, _back_up_replica, replica)
                source = next(iter(replica[ChannelMap].channels.values())).source
                at(fleet, 0.3, source, _write_ddl, source)
                at(fleet, 0.8, replica, backup_protocol.begin, replica, ENGINES)


class CrashInZone(Negative):
    """Servers crash while their zone is closed: tickets and waiting sessions are gone with them."""

    name = "crash_in_zone"
    text = "a server crashes inside its closed zone: no ticket is dropped, the zone is never opened"
    options: ClassVar = {"writes_per_second": 20.0}

    def arrange(self, fleet: World) -> None:
        for instance in fleet.instances.values():
            backup_synchronization.install(fleet, instance)
            slow = _engines(ndb=(3 * SECOND_US,))
            at(fleet, 0.4, instance, backup_protocol.begin, instance, slow)
            at(fleet, 0.55, instance, lifecycle.crash, instance)
            at(fleet, 0.9, instance, backup_protocol.begin, instance)


def _engines(**waits_us: tuple[int, ...]) -> tuple[Engine, ...]:
    """The engines, of which some wait for somebody in their first rounds."""
    return tuple(
        Engine(engine.name, engine.prelock_us, waits_us.get(engine.name, ())) for engine in ENGINES
    )


def _back_up_replica(fleet: World, replica: Instance) -> None:
    backup_protocol.begin(
        fleet, replica, ENGINES, at_end=lambda _: administration.restart_appliers(fleet, replica)
    )


def _write_ddl(fleet: World, source: Instance) -> None:
    if source.is_running:
        clients.write(fleet, source, GroupKind.DDL)


def _commit_in_cluster(instance: Instance) -> None:
    """Another member of the cluster commits; neither zone nor server knows, only the engine."""
    backup = instance.get(Backup)
    if instance.is_running and (backup is None or "ndb" not in backup.locks.locked):
        body = {"engine": "ndb", "type": "dml", "binlogged": False}
        instance.journal.record(RecordType.STATEMENT, body)
