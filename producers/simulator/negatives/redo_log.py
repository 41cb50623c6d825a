"""InnoDB's redo log in surroundings that look like trouble."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.innodb import redo_log
from tallystick.producers.simulator.innodb.redo_log import FLUSH_POLICY, Innodb
from tallystick.producers.simulator.negatives.acts import SECOND_US, near, sources
from tallystick.producers.simulator.negatives.negative import Negative
from tallystick.producers.simulator.server import administration, lifecycle

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

_SMALL = 8 * 2**20
_SAMPLE_US = SECOND_US // 4


class RedoFlushedLater(Negative):
    """innodb_flush_log_at_trx_commit = 2, then 0."""

    name = "redo_flushed_later"
    text = "commits return before their redo is flushed, later before it is written: so it is set"

    def arrange(self, fleet: World) -> None:
        for source in sources(fleet):
            near(fleet, 0.2, source, _set, source, {FLUSH_POLICY: 2})
            near(fleet, 0.6, source, _set, source, {FLUSH_POLICY: 0})


class RedoLostInPowerCut(Negative):
    """The machine crashes when redo is written that is not flushed."""

    name = "redo_lost_in_power_cut"
    text = "the redo log goes on before the written LSN: what was not flushed is gone"

    def arrange(self, fleet: World) -> None:
        source = fleet.rng.choice(sources(fleet))
        near(fleet, 0.5, source, _cut_power, source)


class RedoDisabled(Negative):
    """ALTER INSTANCE DISABLE INNODB REDO_LOG for a while, as for a load."""

    name = "redo_disabled"
    text = "transactions are committed while the LSN stands still: the redo log is disabled"

    def arrange(self, fleet: World) -> None:
        for source in sources(fleet):
            near(fleet, 0.3, source, _set, source, {redo_log.ENABLED: False})
            near(fleet, 0.9, source, _set, source, {redo_log.ENABLED: True})


class RedoResized(Negative):
    """The capacity is set to less than lies between checkpoint and LSN."""

    name = "redo_resized"
    text = "redo since the checkpoint is more than the new capacity until the resize has ended"

    def arrange(self, fleet: World) -> None:
        source = fleet.rng.choice(sources(fleet))
        near(fleet, 0.5, source, _shrink, source)


class RedoSampled(Negative):
    """Status variables are sampled beside the events, at moments of their own."""

    name = "redo_sampled"
    text = "samples of the redo log's status variables are of other moments than its events"

    def arrange(self, fleet: World) -> None:
        for instance in fleet.instances.values():
            fleet.schedule(fleet.now + _SAMPLE_US, instance, _sample, instance)


def _set(_fleet: World, instance: Instance, variables: dict[str, int | bool]) -> None:
    if instance.is_running:
        administration.set_variables(instance, **variables)


def _cut_power(fleet: World, instance: Instance) -> None:
    if instance.is_running:
        redo_log.add_redo(instance, 5_000)
        redo_log.write_full_blocks(instance)
        lifecycle.crash(fleet, instance, power_cut=True)


def _shrink(_fleet: World, instance: Instance) -> None:
    if instance.is_running:
        redo_log.add_redo(instance, _SMALL)
        redo_log.flush_redo(instance)
        administration.set_variables(instance, innodb_redo_log_capacity=_SMALL)
        redo_log.add_redo(instance, 5_000)
        redo_log.flush_redo(instance)
        redo_log.write_checkpoint(instance)


def _sample(fleet: World, instance: Instance) -> None:
    if fleet.now > fleet.load_ends_at:
        return
    if instance.is_running:
        innodb = instance[Innodb]
        names = {"current": innodb.lsn, "flushed": innodb.flushed, "checkpoint": innodb.checkpoint}
        instance.journal.record(RecordType.REDO_STATUS, names)
    fleet.schedule(fleet.now + _SAMPLE_US, instance, _sample, instance)
