"""Servers that nothing connects with the rest of their cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tallystick.coordinates.audit.comparison import MemberRow
from tallystick.coordinates.audit.topology import describe_source, instance_key
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.between import (
    NOT_REACHED,
    STILL_BROKEN,
    Against,
    Compared,
    adds_to,
    between,
    first_of,
)
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.group_order import left_out_in_group
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, Undecided, Waiting
from tallystick.coordinates.rules.registry import Case, reason
from tallystick.coordinates.rules.statements import GTID_SETS, groups
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.audit.instance_timeline import InstanceTimeline
    from tallystick.coordinates.audit.timeline_snapshot import Snapshot
    from tallystick.coordinates.audit.topology import Fleet

    Member = tuple[InstanceTimeline, Snapshot]

MEMBER_UNKNOWN = reason(
    "member_unknown", "not everything that instance {member} has executed is known", Lack.SERVER
)
MEMBER_SOURCE_UNSEEN = reason(
    "member_source_unseen",
    "instance {member} replicates from {source}, which is not observed and may replicate from here",
    Lack.SERVER,
)
CLUSTER_UNKNOWN = reason(
    "cluster_unknown",
    "it has executed {gtids:gtids}, which {members:instance|instances} {members:list} of the same"
    " history {members:has|have} not, and lacks what {members:that one has|they have}; whether all"
    " are of one cluster is not declared (cluster)",
    Lack.SERVER,
)
REST_MAY_LAG = reason(
    "rest_may_lag",
    "nobody replicates from it, though {members:instance|instances} {members:list} of its cluster"
    " {members:lacks|lack} {gtids:gtids}: whether it was demoted or"
    " {members:that one was|they were} detached is not known: {members:that one has|they have}"
    " nothing that it lacks",
    Lack.SERVER,
)

ONLY_IN_MEMBER = reason(
    "only_in_member",
    "it has executed {gtids:gtids} under its own server_uuid, which no other member of its group"
    " has ({members:list}): whether {members:that one is|they are} still to fetch {gtids:it|them},"
    " or it was written to outside the group, is not known",
    Lack.SERVER,
)

WRITES_APART = reason(
    "writes_apart",
    "it writes groups without GTIDs, has no channel and no replica, while"
    " {members:instance|instances} {members:list} of its cluster, or once connected with it,"
    " {members:writes|write} some, too: whether each has what the other wrote is not known",
    Lack.SERVER,
)


_OUTSIDE_GROUP = (
    "Keep clients off the server: it was written to outside the group, which will not let it join"
    " again with transactions that the others do not have. Look up the groups in its binary log,"
    " repeat on the group what shall be kept, and make the server anew by a clone or a backup of"
    " another member."
)


@between(
    MemberRow,
    number=145,
    tier=4,
    family=Family.ERRANT,
    severity=Severity.CRITICAL,
    heals="held",
    claim=(
        "An instance without a channel, from which nobody replicates, has executed nothing that"
        " the rest of its cluster lacks while they have gone on without it; of a member of a"
        " replication group, no GTID of its own server_uuid that the other members lack, and no"
        " transaction of the group without those that come before it in the binary log of another"
        " member."
    ),
    why=(
        "Nothing that it has executed will ever reach the others, and nothing of theirs will reach"
        " it. So ends a failover that lost transactions, or whose old source still accepts writes:"
        " they are nowhere but on the server that was replaced. A server that was detached in"
        " order has what all others have, or is after them. A member of a running group numbers"
        " under the group's name; under its own it was written to outside the group. All members"
        " apply what others have made in one order, in which nothing is passed over: the numbers"
        " themselves may have holes, as each member gives them out of blocks of its own."
    ),
    undecided_when=(
        "no cluster is declared, here or for the others of the same history; not everything is"
        " known that they have executed; one of them replicates from a server that is not observed;"
        " or they replicate among themselves and have nothing that it lacks; or it writes groups"
        " without GTIDs, and others that are not connected with it do, too; or a member alone has"
        " GTIDs of its own, and neither lacks some of the group nor has logged any after them that"
        " the others have. It holds where nobody"
        " has any transaction that was made here, and against another cluster. What a member has"
        " passed over of its group is undecided until a later row shows that it has gone on, and"
        " holds where fewer than three members are observed: what a member has made itself it may"
        " log before or after others"
    ),
    sources=(
        "MySQL manual: Switching Sources During Failover",
        "MySQL manual: RESET REPLICA ALL",
        "MySQL manual: Group Replication, Transactions and Failover; Distributed Recovery",
    ),
    remedy=(
        "Keep clients off the server. Look up the groups in its binary log. If their changes shall"
        " be kept, let the source of the cluster fetch them by a channel from this server with"
        " SOURCE_AUTO_POSITION=1 that is removed afterwards, and attach this server to it; if not,"
        " rebuild this server from the cluster and attach it. If it is no member of the cluster any"
        " more, give it another cluster name."
    ),
    verify=(groups(), GTID_SETS),
    cases={
        "only_here": Case(
            "The instance has no channel and nobody replicates from it, but it has executed"
            " {witness:gtids}, which no other member of cluster {cluster} has ({members:list}).",
            "{witness:gtids}",
            "gtid_executed of {instance}",
            "at least {witness:this GTID|these GTIDs}; {members:it has|they have} {theirs:gtids},"
            " which this server lacks",
            "what {members:list} {members:has|have} executed, logged or purged at that time or"
            " later",
        ),
        "only_in_member": Case(
            "The member of replication group {group} has executed {witness:gtids}, which no other"
            " member has ({members:list}), and lacks {theirs:gtids} of the group.",
            "{witness:gtids}",
            "gtid_executed of {instance}",
            "at least {witness:this GTID|these GTIDs}; {members:it has|they have} {theirs:gtids},"
            " which this server lacks",
            "what {members:list} {members:has|have} executed, logged or purged at that time or"
            " later",
            remedy=_OUTSIDE_GROUP,
        ),
        "passed_in_group": Case(
            "The member of replication group {group} has executed {witness:gtids}, which no other"
            " member has ({members:list}), though {members:it has|they have} executed {later:gtids}"
            " of the group, which this server has logged after {witness:it|them}.",
            "{witness:gtids}",
            "gtid_executed of {instance}",
            "{witness:gtids} before {later:gtids}",
            "what {members:list} {members:has|have} executed, logged or purged at that time or"
            " later",
            remedy=_OUTSIDE_GROUP,
        ),
        "left_out_in_group": Case(
            "The member of replication group {group} has not executed {witness:gtids}, though it"
            " goes on: it has executed {later:gtids}, which {later:comes|come} after"
            " {witness:it|them} in the binary log of {members:list}.",
            "{later:gtids} without {witness:gtids}",
            "gtid_executed of {instance}, at two rows",
            "{witness:gtids} before {later:it|them}",
            "binary log of {members:list}",
            remedy=(
                "Take the server out of the group (STOP GROUP_REPLICATION) and make it anew by a"
                " clone or a backup of another member: its data lack what it has passed over, and"
                " it may fail at what rests on that."
            ),
        ),
    },
)
def isolated_within_cluster(row: MemberRow, against: Against) -> Compared:
    """Of a group's member both what it has passed over and what it has alone are asked for."""
    left_out = _left_out(row, against)
    return _alone(row, against) if left_out is HOLDS else left_out


def _alone(row: MemberRow, against: Against) -> Compared:
    """Others have transactions that were made here, and both have gone on without the other.

    Whoever may replicate from it has until the deadline to show it.
    """
    fleet, ts = against.fleet, row.at.ts
    if row.is_attached or not row.own:
        return HOLDS
    if _is_followed(row, fleet):
        return HOLDS
    if not against.is_overdue:
        return Waiting(NOT_REACHED)
    if row.group_uuid is not None:
        return _within_group(row, against, row.group_uuid)
    for other in fleet.all(but=row.instance_id) if row.cluster is not None else ():
        if other.cluster == row.cluster and other.states.knowing(ts) is None:
            return Waiting(MEMBER_UNKNOWN, member=other.instance_id)
    rest = row.executed - row.assigned
    known: list[Member] = []
    for other in fleet.executing(row.executed, row.instance_id):
        state = other.states.knowing(ts) if _may_be_of(row.cluster, other) else None
        if state is not None and not row.own.isdisjoint(state.known):
            known.append((other, state))
        if state is not None:
            rest = rest - state.known
    if not rest:
        return HOLDS
    same = [one for one in known if row.cluster is not None and one[0].cluster == row.cluster]
    return _against_members(row, against, rest, same or known, is_declared=bool(same))


def _is_followed(row: MemberRow, fleet: Fleet) -> bool:
    """Whether another instance is known to replicate from it at the row or right after it."""
    ts = row.at.ts
    names = fleet.keys_of(row.instance_id, ts)
    naming = [o for o in fleet.naming(names, row.instance_id) if _may_be_of(row.cluster, o)]
    for other in (one for one in naming if one.known_ts >= ts):
        reached = other.states.first_since(ts)
        if reached and not names.isdisjoint((*reached.sources, *other.sources_at(ts))):
            return True
    return False


@adds_to(isolated_within_cluster, MemberRow, doubts=(WRITES_APART,))
def writes_apart(row: MemberRow, against: Against) -> Compared:
    """Who has a group without a GTID no set shows: two servers write some, and nothing joins them.

    Whoever was only being attached is so by the deadline.
    """
    fleet, ts = against.fleet, row.at.ts
    if row.is_attached or not row.writes_anonymous or _is_followed(row, fleet):
        return HOLDS
    if not against.is_overdue:
        return Waiting(NOT_REACHED)
    names = fleet.keys_of(row.instance_id, ts)
    [mine] = fleet.find(instance_key(row.instance_id), ts)
    naming = fleet.naming(names, row.instance_id)
    if mine.sources or any(not names.isdisjoint(one.sources) for one in naming):
        return HOLDS
    apart = {
        one.instance_id
        for one in (*naming, *_sources_ever(mine, fleet, ts), *_of_cluster(row, fleet))
        if one is not mine and one.writes_anonymous and _may_be_of(row.cluster, one)
    }
    return Undecided(WRITES_APART, members=sorted(apart)) if apart else HOLDS


def _sources_ever(timeline: InstanceTimeline, fleet: Fleet, ts: int) -> list[InstanceTimeline]:
    """The instances that an instance has named as its source, whatever their uuid is now."""
    known = [one for key in timeline.named for one in fleet.find(key, ts)]
    return known + fleet.numbering([key[2:] for key in timeline.named], ts)


def _of_cluster(row: MemberRow, fleet: Fleet) -> list[InstanceTimeline]:
    """The others of the cluster that is declared; without one nobody is known to be of it."""
    others = fleet.all(but=row.instance_id) if row.cluster is not None else []
    return [one for one in others if one.cluster == row.cluster]


def _left_out(row: MemberRow, against: Against) -> Compared:
    """What a member has passed over; of one without a hole nothing is to be waited for."""
    if row.group_uuid is None or len(list(row.executed.restrict(row.group_uuid))) < 2:
        return HOLDS
    return left_out_in_group(row, against, row.group_uuid)


def _within_group(row: MemberRow, against: Against, group_uuid: str) -> Compared:
    """What a member has written outside its group, which numbers by its name what is in it."""
    ts, has = row.at.ts, GtidSet.EMPTY
    others = [o for o in against.fleet.all(but=row.instance_id) if o.group_uuid == group_uuid]
    states = [(one.instance_id, one.states.knowing(ts)) for one in others]
    for _, state in states:
        has = has if state is None else has | state.known
    rest = row.own - has
    if not rest or not states:
        return HOLDS
    for name, state in states:
        if state is None:
            return Waiting(MEMBER_UNKNOWN, member=name)
        if against.may_be_of_another_log(state, ts):
            return Undecided(MEMBER_UNKNOWN, member=name)
    fresh = rest - against.memory.reported
    if not fresh:
        return STILL_BROKEN
    # Who makes the group has written before it, and the others fetch that before anything else.
    members, of_group = sorted(name for name, _ in states), has.restrict(group_uuid)
    theirs, later = of_group - row.executed, _logged_after(rest, of_group, row, against)
    if not theirs and not later:
        return Undecided(ONLY_IN_MEMBER, gtids=fresh, members=members)
    return against.report(
        fresh,
        Broken(
            "only_in_member" if theirs else "passed_in_group",
            witness=fresh,
            at=f"{first_of(fresh)} against {group_uuid}",
            group=group_uuid,
            members=members,
            theirs=theirs,
            later=later,
        ),
    )


def _logged_after(gtids: GtidSet, others: GtidSet, row: MemberRow, against: Against) -> GtidSet:
    """Which of others' GTIDs an instance has logged after the first one of its own."""
    [mine] = against.fleet.find(instance_key(row.instance_id), row.at.ts)
    state = mine.states.knowing(row.at.ts)
    if state is None or against.may_be_of_another_log(state, row.at.ts):
        return GtidSet.EMPTY
    sid, gno = mine.runs_until(state, (state.file_number, state.end)).groups()
    is_one = np.zeros(len(sid), dtype=np.bool_)
    for number, name in enumerate(mine.sids):
        which = sid == number
        is_one[which] = gtids.contains_gnos(name, gno[which])
    if not is_one.any():
        return GtidSet.EMPTY
    after = (np.arange(len(sid)) > is_one.argmax()) & (sid >= 0)
    return GtidSet.from_groups(mine.sids, sid[after], gno[after]) & others


def _against_members(
    row: MemberRow, against: Against, rest: GtidSet, members: list[Member], *, is_declared: bool
) -> Compared:
    """What only this instance has, against others that have a history in common with it."""
    if not members:
        return HOLDS
    fleet, ts = against.fleet, row.at.ts
    theirs = GtidSet.EMPTY
    for _, state in members:
        theirs = theirs | (state.known - row.executed)
    # Of a source that has nothing in common with it, it never had anything.
    inside = {one.instance_id for one, _ in members}
    for one in fleet.all():
        for server_uuid in () if one.instance_id in inside else one.uuids_until(ts):
            theirs = theirs.without_uuid(server_uuid)
    names = sorted(one.instance_id for one, _ in members)
    sources = [(one, key) for one, _ in members for key in one.sources_at(ts)]
    unseen = next((pair for pair in sources if not fleet.find(pair[1], ts)), None)
    if not theirs:
        lags = is_declared and bool(sources) and unseen is None
        return Undecided(REST_MAY_LAG, gtids=rest, members=names) if lags else HOLDS
    if unseen is not None:
        return Undecided(
            MEMBER_SOURCE_UNSEEN, member=unseen[0].instance_id, source=describe_source(unseen[1])
        )
    if not is_declared:
        return Undecided(CLUSTER_UNKNOWN, gtids=rest, members=names)
    fresh = rest - against.memory.reported
    if not fresh:
        return STILL_BROKEN
    for one, state in members:
        # What it had executed before a RESET that nobody saw is not known.
        if against.may_be_of_another_log(state, ts):
            return Undecided(MEMBER_UNKNOWN, member=one.instance_id)
    return against.report(
        fresh,
        Broken(
            "only_here",
            witness=fresh,
            at=f"{first_of(fresh)} against {row.cluster}",
            cluster=row.cluster,
            members=names,
            theirs=theirs,
        ),
    )


def _may_be_of(cluster: str | None, other: InstanceTimeline) -> bool:
    """Whether another instance is of a cluster, as far as anybody has declared it."""
    return None in (cluster, other.cluster) or cluster == other.cluster
