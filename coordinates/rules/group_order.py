"""Transactions of a replication group that one of its members has passed over.

All members certify the group's transactions in one order, and the applier of each keeps to it in
what others have made (replica_preserve_commit_order, without which several workers are refused).
What a member makes itself it may log before or after that. So two members show the order by what
neither of them has made. Numbers show none: each member gives them out of blocks of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tallystick.coordinates.rules.between import (
    NOT_REACHED,
    STILL_BROKEN,
    Against,
    Compared,
    Remembered,
    first_of,
)
from tallystick.coordinates.rules.families import Lack
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, Undecided, Waiting
from tallystick.coordinates.rules.registry import reason
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.audit.comparison import MemberRow
    from tallystick.coordinates.audit.instance_timeline import InstanceTimeline
    from tallystick.coordinates.audit.timeline_snapshot import Snapshot
    from tallystick.coordinates.audit.topology import Fleet

    IntArray = npt.NDArray[np.int64]

LEFT_OUT = reason(
    "left_out_in_group",
    "it has not executed {gtids:gtids} of its group, but {later:gtids}, which {later:comes|come}"
    " after {gtids:it|them} in the binary log of {members:instance|instances} {members:list}:"
    " whether it goes on without {gtids:it|them} is still to come",
    Lack.NEXT_ROW,
)


class _PassedOver(NamedTuple):
    """What a member has not executed, and what it has of what comes after it; who shows that."""

    gtids: GtidSet
    later: GtidSet
    members: list[str]


def left_out_in_group(row: MemberRow, against: Against, group_uuid: str) -> Compared:
    """What a member lacks of its group at two rows, between which it has gone on.

    One that applies nothing meanwhile may only be late.
    """
    if not against.is_overdue:
        return Waiting(NOT_REACHED)
    memory, mine = against.memory, row.executed.restrict(group_uuid)
    now = _passed_over(row, against, group_uuid, mine)
    if not now.gtids:
        return HOLDS
    since = _passed_over(row, against, group_uuid, mine - memory.executed)
    shown = against.remember(STILL_BROKEN, suspected=now.gtids, executed=mine)
    fresh = (since.gtids & memory.suspected) - memory.reported
    if fresh:
        broken = Broken(
            "left_out_in_group",
            witness=fresh,
            at=f"{first_of(fresh)} of {group_uuid}",
            group=group_uuid,
            members=since.members,
            later=since.later,
        )
        memory = replace(shown.memory, reported=memory.reported | fresh)
        return Remembered(broken, memory)
    if not now.gtids.isdisjoint(memory.reported):
        return shown
    why = Undecided(LEFT_OUT, gtids=now.gtids, later=now.later, members=now.members)
    return shown._replace(answer=why)


def _passed_over(row: MemberRow, against: Against, group_uuid: str, passed: GtidSet) -> _PassedOver:
    """What a member lacks that comes before some of what it has, in the logs of all who have it.

    Args:
        row: Of the member.
        against: The others.
        group_uuid: Their group.
        passed: What of the group it has, as far as that counts.
    """
    ts, fleet = row.at.ts, against.fleet
    group = [one for one in fleet.all(but=row.instance_id) if one.group_uuid == group_uuid]
    found = late = later = GtidSet.EMPTY
    members = []
    for other in group:
        state = other.states.knowing(ts)
        if state is None or against.may_be_of_another_log(state, ts):
            continue
        makers = {one.server_id for one in group if one is not other} - {None, other.server_id}
        logged = state.logged.restrict(group_uuid)
        if logged <= row.executed:
            continue
        gnos = _in_order(other, state, group_uuid)
        has = row.executed.contains_gnos(group_uuid, gnos)
        foreign = _made_by(makers, fleet, other.instance_id, logged, state.ts)
        both = foreign & _made_by(makers, fleet, row.instance_id, passed & logged, ts)
        is_ahead = both.contains_gnos(group_uuid, gnos)
        late = late | GtidSet.from_gnos(group_uuid, gnos[_after_last(has) :])
        lacking = gnos[: _after_last(is_ahead)][~has[: _after_last(is_ahead)]]
        behind = foreign & GtidSet.from_gnos(group_uuid, lacking)
        if behind:
            first = int(np.isin(gnos, lacking).argmax())
            ahead = gnos[first:][is_ahead[first:]]
            found, later = found | behind, later | GtidSet.from_gnos(group_uuid, ahead)
            members.append(other.instance_id)
    return _PassedOver(found - late, later, sorted(members))


def _made_by(
    makers: set[int | None], fleet: Fleet, instance_id: str, gtids: GtidSet, ts: int
) -> GtidSet:
    """What an instance's logs claim for transactions of some servers."""
    found = GtidSet.EMPTY
    for maker in makers:
        if maker is not None:
            found = found | fleet.origins.made_by(instance_id, gtids, ts, maker)
    return found


def _in_order(member: InstanceTimeline, state: Snapshot, group_uuid: str) -> IntArray:
    """The numbers of the group's GTIDs in the order of a member's binary log."""
    sid, gno = member.runs_until(state, (state.file_number, state.end)).groups()
    number = member.sids.index(group_uuid) if group_uuid in member.sids else len(member.sids)
    found: IntArray = gno[sid == number]
    return found


def _after_last(which: npt.NDArray[np.bool_]) -> int:
    """The index after the last one that is true."""
    return len(which) - int(which[::-1].argmax()) if which.any() else 0
