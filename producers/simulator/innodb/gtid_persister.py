"""The GTID persister (WL#9211, class Clone_persist_gtid): GTIDs go from memory into the table.

Committed transactions add their GTIDs to the active list. The background thread switches lists,
writes the one that was active, and only then moves the oldest unpersisted number on. What drives it
through virtual time is ``gtid_persistence``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals

if TYPE_CHECKING:
    from tallystick.producers.simulator.innodb.gtid_info import GtidDesc
    from tallystick.producers.simulator.innodb.rollback_segments import TrxSys

PERIOD_US = 1_000_000
TRANSACTIONS_MAX = 1_024
"""The thread writes each period or after so many transactions, whichever is earlier."""


@dataclass(slots=True, eq=False)
class GtidPersister:
    """The persister's memory; a crash loses it.

    Attributes:
        active: GTIDs added since the last switch.
        flushing: GTIDs that are being written; empty when no write is under way.
        collected: The oldest number that was still active at the switch; 0 with no write under way.
        oldest_trx_no: The copy that purge asks for: all GTIDs below it are in the table.
        round: Rises with each switch and each end of a write.
        wakes_at: When the thread will look again; 0 when nothing waits for it.
    """

    active: list[GtidDesc] = field(default_factory=list)
    flushing: list[GtidDesc] = field(default_factory=list)
    collected: int = 0
    oldest_trx_no: int = 0
    round: int = 0
    wakes_at: int = 0

    @property
    def is_writing(self) -> bool:
        """Whether lists were switched and the number has not followed yet."""
        return bool(self.collected)

    def add(self, trx_sys: TrxSys, desc: GtidDesc) -> None:
        """Add the GTID of a transaction whose undo log is durable (I-3)."""
        assert trx_sys.mutex.is_held, "GTIDs are added under trx_sys_mutex"
        self.active.append(desc)

    def switch(self, trx_sys: TrxSys) -> None:
        """Switch lists, and collect the oldest number whose GTID is not in the list yet."""
        assert not self.is_writing, "the list before is not written yet"
        with trx_sys.mutex:
            self.flushing, self.active = self.active, self.flushing
            self.collected = trx_sys.oldest_active()
        self.round += 1

    def flush_list(self) -> GtidIntervals:
        """What the next write brings into the table."""
        gtids = GtidIntervals()
        for desc in self.flushing:
            gtids.add(*desc.gtid())
        return gtids

    def update_oldest_trx_no(self, trx_sys: TrxSys) -> int:
        """The list is in the table: move on the number in the TRX_SYS page, then the copy."""
        trx_sys.trx_num_gtid = max(trx_sys.trx_num_gtid, self.collected)
        self.oldest_trx_no = trx_sys.trx_num_gtid
        self.flushing = []
        self.collected = 0
        self.round += 1
        return self.oldest_trx_no

    def get_oldest_trx_no(self) -> int:
        """Oldest number whose GTID may not be in the table: purge stays below it (I-4)."""
        return self.oldest_trx_no

    def holds(self, desc: GtidDesc) -> bool:
        """Tell whether a GTID waits here to be written."""
        return desc in self.active or desc in self.flushing
