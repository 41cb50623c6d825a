"""Groups of a source that a replica never received, because SET gtid_purged named them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.audit.comparison import ReplicaExecuted
from tallystick.coordinates.rules.between import NOT_REACHED, adds_to
from tallystick.coordinates.rules.families import Lack
from tallystick.coordinates.rules.outcomes import HOLDS, Undecided, Waiting
from tallystick.coordinates.rules.registry import reason
from tallystick.coordinates.rules.relay_mirror import relay_mirrors_source
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.rules.between import Against, Compared

SKIPPED_BY_GTID_PURGED = reason(
    "skipped_by_gtid_purged",
    "SET gtid_purged named {gtids:gtids} on a replica that had not received {gtids:it|them}:"
    " {source} has logged {gtids:it|them}, and whether the replica's data have what"
    " {gtids:it|they} changed is not known",
    Lack.SETTING,
)


@adds_to(relay_mirrors_source, ReplicaExecuted, doubts=(SKIPPED_BY_GTID_PURGED,))
def skipped_by_gtid_purged(row: ReplicaExecuted, against: Against) -> Compared:
    """A receiver leaves out what counts as executed; a data directory that is restored has it.

    MySQL manual: SET gtid_purged says so of data that were brought from elsewhere. Once the source
    was seen to have logged it, it is in doubt also where its groups are not remembered any more.
    """
    if not row.skipped:
        return HOLDS
    known = against.memory.suspected
    for source in against.sources:
        state = source.states.first_since(row.at.ts)
        if state is None:
            return Waiting(NOT_REACHED)
        sid, gno = source.runs_until(state, (state.file_number, state.end)).groups()
        logged = GtidSet.from_groups(source.sids, sid[sid >= 0], gno[sid >= 0])
        gtids = row.skipped & (logged | known)
        if gtids:
            doubt = Undecided(SKIPPED_BY_GTID_PURGED, gtids=gtids, source=source.instance_id)
            return against.remember(doubt, suspected=known | gtids)
    return HOLDS
