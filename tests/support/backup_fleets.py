"""Small fleets for tests of backup locks, and how to look into them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.assemble import Fleet
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap
from tallystick.producers.simulator.server.clients import Clients
from tests.support.simulated_journal import Record, bodies_of, records

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import GroupKind

MILLISECOND = 1_000


def quiet_fleet(topology: str = "pair", **options: object) -> Fleet:
    """A fleet without load of its own."""
    return Fleet(Scenario(seed=3, topology=topology, acts=False, writes_per_second=1e-6, **options))


def server(fleet: Fleet) -> Instance:
    """The source."""
    return next(i for i in fleet.instances.values() if i[Clients].writes)


def replica(fleet: Fleet) -> Instance:
    """The replica."""
    return next(i for i in fleet.instances.values() if i[ChannelMap].channels)


def pass_time(fleet: Fleet, milliseconds: int) -> None:
    """Let virtual time pass."""
    fleet.run(fleet.now + milliseconds * MILLISECOND)


def logged(instance: Instance) -> list[GroupKind]:
    """The kinds of the groups in the binary log."""
    return [g.group.kind for file in instance[BinaryLog].files for g in file.groups()]


def journal(instance: Instance) -> list[Record]:
    """What has been written since the last call."""
    return records(instance.journal.build())


def lock_steps(instance: Instance) -> list[str]:
    """Locks and unlocks since the last call."""
    reported = bodies_of(journal(instance), RecordType.BACKUP_LOCK)
    return [f"{body['step']} {body['lock']}" for body in reported]
