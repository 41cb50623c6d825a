"""A replica whose binary log was reset: its data have what its GTID set does not count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.audit.comparison import ReplicaExecuted
from tallystick.coordinates.rules.between import adds_to
from tallystick.coordinates.rules.executed_set import executed_monotone
from tallystick.coordinates.rules.families import Lack
from tallystick.coordinates.rules.outcomes import HOLDS, Undecided, Waiting
from tallystick.coordinates.rules.registry import reason
from tallystick.coordinates.rules.replicated_gtids import (
    RESET_EVERYWHERE_US,
    SOURCE_EXECUTED_UNKNOWN,
)
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.rules.between import Against, Compared

EXECUTED_BEFORE_RESET = reason(
    "executed_before_reset",
    "RESET BINARY LOGS AND GTIDS took {gtids:gtids} out of what it counts as executed, and that SET"
    " gtid_purged named {gtids:it|them} is not known: the source sends {gtids:it|them} again, and"
    " whether the data still had the changes, and have them twice now, is not known",
    Lack.LINEAGE,
)


@adds_to(executed_monotone, ReplicaExecuted, doubts=(EXECUTED_BEFORE_RESET,))
def counted_again_after_reset(row: ReplicaExecuted, against: Against) -> Compared:
    """What the source has under these numbers is what the replica had executed before.

    It stays so: executed twice, a change may be there twice until other data replace these. Not so
    of a source that was reset as well: it gives the numbers out again.
    """
    ts, again = row.at.ts, GtidSet.EMPTY
    for source in against.sources if row.uncounted else ():
        state = source.states.knowing(ts)
        if state is None:
            return Waiting(SOURCE_EXECUTED_UNKNOWN)
        since, earlier_us = state.lineage_ts, RESET_EVERYWHERE_US + against.uncertain_us
        for reset_ts, gtids in row.uncounted:
            if since is None or since < reset_ts - earlier_us:
                again = again | (gtids & state.logged)
    return Undecided(EXECUTED_BEFORE_RESET, gtids=again) if again else HOLDS
