"""Purge of undo logs (WL#9211, key point 3 and I-6): it chooses by itself, after the persister."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tallystick.producers.simulator.innodb.gtid_persister import GtidPersister
    from tallystick.producers.simulator.innodb.rollback_segments import RollbackSegment, TrxSys


def oldest_read_view(trx_sys: TrxSys, persister: GtidPersister) -> int:
    """The number from which on nothing may be purged.

    It is that of the oldest open read view, else of the oldest transaction still active, lowered
    to the oldest transaction whose GTID is not in the table yet.
    """
    limit = min((trx_sys.oldest_active(), *trx_sys.read_views))
    return min(limit, persister.get_oldest_trx_no())


def trx_purge_choose_next_log(trx_sys: TrxSys, limit: int) -> RollbackSegment | None:
    """The rollback segment whose history begins with the oldest undo log below the limit (I-6)."""
    chosen, oldest = None, limit
    for segment in trx_sys.segments:
        if segment.history:
            number = segment.history[0].trx_no
            if number < oldest:
                chosen, oldest = segment, number
    return chosen


def purge(trx_sys: TrxSys, limit: int) -> int:
    """Remove all undo logs below the limit; how many they were."""
    removed = 0
    while (segment := trx_purge_choose_next_log(trx_sys, limit)) is not None:
        # All of them go: whether those of another segment do so in between, nobody sees.
        while segment.history and segment.history[0].trx_no < limit:
            segment.history.popleft()
            removed += 1
    return removed
