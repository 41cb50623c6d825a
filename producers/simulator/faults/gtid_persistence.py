"""Faults of GTID persistence (WL#9211): undo headers, persister, purge, recovery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from producers.simulator.clone.undo_log import has_gtid
from producers.simulator.faults.injector import Injector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from producers.simulator.clone.undo_log import UndoLogHeader
    from producers.simulator.engine import Fleet
    from producers.simulator.model import Instance


class _Watched(Injector):
    """Somebody begins to watch the persisters when the fault is due."""

    def on_fleet(self, fleet: Fleet) -> None:
        """Let the journals tell what persisters do."""
        for instance in fleet.instances.values():
            fleet.clock.schedule(
                fleet.fault_at, None, setattr, *(instance, "tells_gtid_persister", True)
            )


class PurgeOvertakesPersister(_Watched):
    """F77: purge once looks at read views alone."""

    def __init__(self) -> None:
        super().__init__()
        self._newest: dict[str, int] = {}

    def on_undo_durable(self, fleet: Fleet, instance: Instance, header: UndoLogHeader) -> None:
        """Remember the newest transaction that the journal tells of."""
        if self.is_due(fleet) and instance.tells_gtid_persister and has_gtid(header):
            self._newest[instance.instance_id] = header.trx_no

    def on_undo_purge(self, fleet: Fleet, instance: Instance, limit: int) -> int:
        """Let purge go as far as transactions have ended."""
        newest = self._newest.get(instance.instance_id, 0)
        is_free = not instance.persister.is_writing and not instance.innodb.transactions.read_views
        if self.is_due(fleet) and newest >= limit and is_free:
            self.mark(fleet, instance)
            return instance.innodb.transactions.oldest_active()
        return limit


GTID_PERSISTENCE_INJECTORS: Final[Mapping[str, Callable[[], Injector]]] = {
    "purge_overtakes_persister": PurgeOvertakesPersister,
}
