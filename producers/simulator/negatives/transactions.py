"""Transactions whose GTIDs come late, twice or in another form."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.negatives.acts import SECOND_US, near, sources, watch_persisters
from tallystick.producers.simulator.negatives.administration import CrashSource
from tallystick.producers.simulator.negatives.negative import Negative
from tallystick.producers.simulator.server import clients
from tallystick.producers.simulator.server.clients import Clients
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group
    from tallystick.producers.simulator.kernel.world import World


class GtidPersister(CrashSource):
    """Every journal records what its GTID persister does; a source crashes meanwhile."""

    name = "gtid_persister"
    text = "mysql.gtid_executed lacks what gtid_executed has, after a crash undo headers fill it"
    options: ClassVar = {"topology": "pair", "writes_per_second": 15.0}

    def arrange(self, fleet: World) -> None:
        watch_persisters(fleet)
        super().arrange(fleet)


class FlushFailure(Negative):
    """A group gets its GNO and fails to be flushed while the next one is logged."""

    name = "flush_failure"
    text = "a GNO given back after a failed flush is assigned to a later group"

    def arrange(self, fleet: World) -> None:
        for source in sources(fleet):
            near(fleet, 0.5, source, _fail_flush, source)


class Xa(Negative):
    """XA PREPARE, other groups, XA COMMIT."""

    name = "xa"
    text = "a prepared XA transaction and its commit are two groups with two GTIDs"

    def arrange(self, fleet: World) -> None:
        for source in sources(fleet):
            for share in (0.2, 0.5, 0.8):
                near(fleet, share, source, _prepare_xa, source)


class Compressed(Negative):
    """binlog_transaction_compression=ON."""

    name = "compressed"
    text = "one TRANSACTION_PAYLOAD is a whole body"

    def arrange(self, fleet: World) -> None:
        fleet.pace.kinds = (GroupKind.COMPRESSED,)


def _fail_flush(fleet: World, instance: Instance) -> None:
    if not instance.is_running or instance[GtidState].mode != "ON":
        return
    sid = instance[GtidState].automatic_sid
    given_back = instance[GtidState].logged.next_free(sid, instance[GtidState].gno_block)
    instance[GtidState].logged.add(sid, given_back)
    clients.write(fleet, instance)
    instance[GtidState].logged.discard(sid, given_back)
    clients.write(fleet, instance)


def _prepare_xa(fleet: World, instance: Instance) -> None:
    if not instance.is_running or not instance[Clients].writes:
        return  # after a failover clients are elsewhere
    logged = clients.write(fleet, instance, GroupKind.XA_PREPARE)
    if logged is not None:
        near(fleet, 0.15, None, end_xa, logged.group, GroupKind.XA_COMMIT, since=fleet.now)


def end_xa(fleet: World, prepared: Group, kind: GroupKind) -> None:
    """XA COMMIT or XA ROLLBACK by a client: where clients write now, on a server that has it."""
    for instance in fleet.instances.values():
        has_it = (
            instance.is_running
            and instance[Clients].writes
            and prepared in instance[CommitQueue].prepared_xa
        )
        if has_it and fleet.now >= instance.blocked_until:
            clients.write(fleet, instance, kind, xa_of=prepared)
            return
    if fleet.now < fleet.load_ends_at:
        fleet.schedule(fleet.now + SECOND_US // 10, None, end_xa, prepared, kind)
