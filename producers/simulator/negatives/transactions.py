"""Transactions whose GTIDs come late, twice or in another form."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tallystick.producers.simulator.model import GroupKind
from tallystick.producers.simulator.negatives.acts import SECOND_US, near, sources, watch_persisters
from tallystick.producers.simulator.negatives.administration import CrashSource
from tallystick.producers.simulator.negatives.negative import Negative

if TYPE_CHECKING:
    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.model import Group, Instance


class GtidPersister(CrashSource):
    """Every journal records what its GTID persister does; a source crashes meanwhile."""

    name = "gtid_persister"
    text = "mysql.gtid_executed lacks what gtid_executed has, after a crash undo headers fill it"
    options: ClassVar = {"topology": "pair", "writes_per_second": 15.0}

    def arrange(self, fleet: Fleet) -> None:
        watch_persisters(fleet)
        super().arrange(fleet)


class FlushFailure(Negative):
    """A group gets its GNO and fails to be flushed while the next one is logged."""

    name = "flush_failure"
    text = "a GNO given back after a failed flush is assigned to a later group"

    def arrange(self, fleet: Fleet) -> None:
        for source in sources(fleet):
            near(fleet, 0.5, source, _fail_flush, source)


class Xa(Negative):
    """XA PREPARE, other groups, XA COMMIT."""

    name = "xa"
    text = "a prepared XA transaction and its commit are two groups with two GTIDs"

    def arrange(self, fleet: Fleet) -> None:
        for source in sources(fleet):
            for share in (0.2, 0.5, 0.8):
                near(fleet, share, source, _prepare_xa, source)


class Compressed(Negative):
    """binlog_transaction_compression=ON."""

    name = "compressed"
    text = "one TRANSACTION_PAYLOAD is a whole body"

    def arrange(self, fleet: Fleet) -> None:
        fleet.kinds = (GroupKind.COMPRESSED,)


def _fail_flush(fleet: Fleet, instance: Instance) -> None:
    if not instance.is_running or instance.gtid_mode != "ON":
        return
    sid = instance.automatic_sid
    given_back = instance.logged.next_free(sid, instance.gno_block)
    instance.logged.add(sid, given_back)
    fleet.write(instance)
    instance.logged.discard(sid, given_back)
    fleet.write(instance)


def _prepare_xa(fleet: Fleet, instance: Instance) -> None:
    if not instance.is_running or not instance.writes:
        return  # after a failover clients are elsewhere
    logged = fleet.write(instance, GroupKind.XA_PREPARE)
    if logged is not None:
        near(fleet, 0.15, None, end_xa, logged.group, GroupKind.XA_COMMIT, since=fleet.now)


def end_xa(fleet: Fleet, prepared: Group, kind: GroupKind) -> None:
    """XA COMMIT or XA ROLLBACK by a client: where clients write now, on a server that has it."""
    for instance in fleet.instances.values():
        has_it = instance.is_running and instance.writes and prepared in instance.prepared_xa
        if has_it and fleet.now >= instance.blocked_until:
            fleet.write(instance, kind, xa_of=prepared)
            return
    if fleet.now < fleet.load_ends_at:
        fleet.schedule(fleet.now + SECOND_US // 10, None, end_xa, prepared, kind)
