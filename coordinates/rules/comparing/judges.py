"""The rules that compare a replica with its sources.

Each takes what the replica said and a `Case`, and answers with problems, `Waiting` or `Undecided`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tallystick.coordinates.audit.comparison import Problem, Undecided, Waiting, brief
from tallystick.coordinates.audit.timeline_file import FIRST_POSITION, PlaceKind
from tallystick.coordinates.rules.channel import applied_relay_gtids_executed
from tallystick.coordinates.rules.fleet import (
    NO_ERRANT_GTIDS,
    PURGED_NOT_NEEDED,
    RECEIVED_WITHIN_SOURCE_LOGGED,
    SERVER_UUID_UNIQUE,
    SOURCE_COORDINATE_VALID,
)
from tallystick.coordinates.values.binlog import format_log_file_name, parse_log_file_name
from tallystick.coordinates.values.errors import CoordinateError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.audit.comparison import (
        Answer,
        Case,
        ChannelSaid,
        Coordinates,
        ReplicaExecuted,
    )
    from tallystick.coordinates.audit.instance_timeline import InstanceTimeline
    from tallystick.coordinates.audit.timeline_snapshot import Snapshot

RESET_EVERYWHERE_US = 5_000_000
"""So long it may take to reset a source and then its replicas."""
ASSIGNED = "the source logs anonymous groups, to which the replica may have assigned GTIDs"
AMBIGUOUS = "another instance reports the same server_uuid as the source"
NOT_REACHED = "the source's journal is not known up to the row"
TAKEN_BACK = "the source's journal has a gap or began anew right behind the row"


def wait_or_give_up(source: InstanceTimeline, ts: int) -> Waiting | Undecided:
    """When no state of the source answers: whether one still may."""
    return Undecided(TAKEN_BACK) if source.was_lost_before_answer(ts) else Waiting(NOT_REACHED)


def judge_received(said: ChannelSaid, case: Case) -> Answer:
    """Rule 66: what was retrieved of the source's own GTIDs, the source has logged."""
    source, ts = case.source, said.place.ts
    if said.retrieved is None:
        return Undecided("Retrieved_Gtid_Set is not known")
    states = source.states.since(ts)
    state = next((s for s in states if s.is_complete and (s.is_told or s.row_ts is not None)), None)
    if state is None:
        return wait_or_give_up(source, ts)
    server_uuid = source.uuid_at(ts)
    if server_uuid is None:
        return Undecided("the source's server_uuid is not known")
    if case.fleet.is_ambiguous(source, ts):
        return Undecided(AMBIGUOUS)
    own = said.retrieved.restrict(server_uuid)
    # After RESET the numbers begin again: a number that both have may mean two transactions.
    origins = case.fleet.origins
    disputed = own & origins.differing(said.instance_id, ts, source.instance_id, state.ts)
    if disputed and said.server_id is not None:
        # The replica's own transaction of that number was not retrieved from the source.
        disputed = disputed - origins.made_by(said.instance_id, disputed, ts, said.server_id)
    missing = (own - state.logged - state.declared) | disputed
    if not missing:
        return []
    is_older = _is_older_than_lineage(said.retrieved_ts, state)
    if is_older and not disputed and own.isdisjoint(state.logged) and _is_young(state, ts):
        return Undecided("the source began a new binary log and logged none of the retrieved GTIDs")
    fresh = missing - case.memory.reported
    if not fresh:
        return []
    case.memory.reported = case.memory.reported | fresh
    logged = state.logged.restrict(server_uuid)
    is_other = fresh <= disputed
    return [
        Problem(
            RECEIVED_WITHIN_SOURCE_LOGGED,
            at=brief(fresh, 1),
            sentence=f"The replica has retrieved {brief(fresh, 3)} from instance "
            f"{source.instance_id}, whose binary log "
            + ("has given it to another transaction." if is_other else "does not hold it."),
            observed=brief(own),
            observed_in="Retrieved_Gtid_Set, GTIDs of the source",
            expected=f"a subset of {brief(logged)}",
            expected_in=f"binary log of instance {source.instance_id}",
            witness=brief(fresh),
        )
    ]


def _is_young(state: Snapshot, ts: int) -> bool:
    """Whether the source began its lineage just now: its replicas may be about to follow."""
    return state.lineage_ts is not None and ts - state.lineage_ts < RESET_EVERYWHERE_US


def _is_older_than_lineage(since: int | None, state: Snapshot) -> bool:
    """Whether what a channel holds may be of a binlog lineage that the source has ended."""
    return state.lineage_ts is not None and (since is None or since <= state.lineage_ts)


def judge_executed(said: ReplicaExecuted, case: Case) -> Answer:
    """Rule 67: what a replica has executed, one of its sources knows."""
    ts = said.place.ts
    rest = said.executed
    may_assign = False
    for source in case.sources:
        if case.fleet.is_ambiguous(source, ts):
            return Undecided(AMBIGUOUS)
        state = source.states.knowing(ts)
        if state is None:
            return Waiting("not everything that the source has executed is known")
        for server_uuid in source.uuids_until(state.ts):
            rest = _without_retrieved(rest, said, server_uuid)
        if source.group_uuid is not None:
            rest = rest.without_uuid(source.group_uuid)
        rest = rest - state.logged - (state.beyond - _given_up(source, state, ts))
        if not rest:
            return []
        may_assign = may_assign or source.logs_anonymous(state)
    if said.group_uuid is not None:
        rest = rest.without_uuid(said.group_uuid)
    rest = _without_own_in_ring(rest, said, case)
    fresh = _without_upstreams(rest - case.memory.reported, said, case)
    if isinstance(fresh, Waiting):
        return fresh
    if not fresh:
        return []
    if may_assign:
        return Undecided(ASSIGNED)
    case.memory.reported = case.memory.reported | fresh
    names = ", ".join(sorted(source.instance_id for source in case.sources))
    sources = f"its source {names} has" if len(case.sources) == 1 else f"its sources {names} have"
    return [
        Problem(
            NO_ERRANT_GTIDS,
            at=f"{brief(fresh, 1)} against {names}",
            sentence=f"The replica has executed {brief(fresh, 3)}, which {sources} neither executed"
            " nor logged.",
            observed=brief(fresh),
            observed_in="gtid_executed of the replica, without GTIDs of its sources",
            expected="at least these GTIDs",
            expected_in=f"what {names} has executed, logged or purged at that time or later",
            witness=brief(fresh),
        )
    ]


def _given_up(source: InstanceTimeline, state: Snapshot, ts: int) -> GtidSet:
    """The source's own GTIDs that it knew until its binary log began anew, and knows no more.

    It gives these numbers out again, and who has them leaves out what comes under them. A row of
    the source behind `ts` says what SET gtid_purged brought back.
    """
    if state.lineage_ts is None or _is_young(state, ts):
        return GtidSet.EMPTY
    server_uuid = source.uuid_at(state.ts)
    told = next((s for s in source.states.since(ts) if s.is_complete and _has_row(s, ts)), None)
    if server_uuid is None or told is None:
        return GtidSet.EMPTY
    return told.beyond.restrict(server_uuid) - told.logged - told.declared


def _has_row(state: Snapshot, ts: int) -> bool:
    return state.row_ts is not None and state.row_ts >= ts


def _without_own_in_ring(rest: GtidSet, said: ReplicaExecuted, case: Case) -> GtidSet:
    """In a ring a replica's own writes are under way to its sources."""
    if not rest or said.server_uuid is None:
        return rest
    own, ts = rest.restrict(said.server_uuid), said.place.ts
    if own and any(case.fleet.is_upstream(said.instance_id, s, ts) for s in case.sources):
        return rest - own
    return rest


def _without_retrieved(rest: GtidSet, said: ReplicaExecuted, server_uuid: str) -> GtidSet:
    """What was retrieved of the source's own GTIDs is for invariant 66 to judge."""
    if said.retrieved is None:
        return rest.without_uuid(server_uuid)
    return rest - said.retrieved.restrict(server_uuid)


def _without_upstreams(rest: GtidSet, said: ReplicaExecuted, case: Case) -> GtidSet | Waiting:
    """A replica moved to a source that lags has what that source is still to receive."""
    ts = said.place.ts
    for upstream in case.fleet.upstreams(case.sources, ts) if rest else ():
        if upstream.instance_id == said.instance_id:
            continue
        state = upstream.states.knowing(ts)
        if state is None:
            return Waiting("not everything that the source's sources have executed is known")
        rest = rest - state.logged - state.beyond
    return rest


def judge_purged(said: ChannelSaid, case: Case) -> Answer:
    """Rule 70: what the source has purged, the replica has."""
    source, ts = case.source, said.place.ts
    if not said.auto_position:
        return []
    if said.has is None:
        return Undecided("not everything that the replica has executed or retrieved is known")
    if next(source.states.since(ts), None) is None:
        return Waiting(NOT_REACHED)
    before = source.states.until(ts)
    if before is None or before.row_ts is None:
        return _judge_purged_by_next_row(said, case)
    if before.purged is None:
        return Undecided("gtid_purged of the source is not known")
    fresh = before.purged - source.assigned - said.has - case.memory.reported
    if not fresh:
        return []
    case.memory.reported = case.memory.reported | fresh
    return [
        Problem(
            PURGED_NOT_NEEDED,
            at=brief(fresh, 1),
            sentence=f"Instance {source.instance_id} has purged {brief(fresh, 3)}, which its"
            " replica has neither executed nor retrieved.",
            observed=brief(before.purged),
            observed_in=f"gtid_purged of instance {source.instance_id}",
            expected=f"a subset of {brief(said.has)}",
            expected_in="gtid_executed and Retrieved_Gtid_Set of the replica",
            witness=brief(fresh),
        )
    ]


def _judge_purged_by_next_row(said: ChannelSaid, case: Case) -> Answer:
    """No row told what was purged by then: no more than what the next row of the source shows."""
    source, ts = case.source, said.place.ts
    assert said.has is not None
    for state in source.states.since(ts):
        if state.row_ts is None or state.row_ts < ts:
            continue
        if state.purged is None:
            return Undecided("gtid_purged of the source is not known")
        if state.purged - source.assigned <= said.has:
            return []
        return Undecided("no row of the source before the replica's shows its gtid_purged")
    if source.was_lost_before_answer(ts):
        return Undecided("the source's journal broke off before a row showed its gtid_purged")
    return Waiting("no row of the source shows its gtid_purged")


def judge_server_id(said: ChannelSaid, case: Case) -> Answer:
    """Rule 65, second half: a replica, its source and whatever is above that differ in it."""
    source, ts = case.source, said.place.ts
    state = next(source.states.since(ts), None)
    if state is None:
        return Waiting(NOT_REACHED)
    if said.server_id is None or state.server_id is None:
        return Undecided("a server_id is not known")
    problems = []
    for timeline in (source, *case.fleet.upstreams([source], ts)):
        known = next(timeline.states.since(ts), None) or timeline.states.until(ts)
        at = f"server_id {said.server_id} of {timeline.instance_id}"
        if timeline.instance_id == said.instance_id or at in case.memory.told:
            continue
        if known is None or known.server_id != said.server_id:
            continue
        case.memory.told.add(at)
        problems.append(_same_server_id(said, source, timeline, at))
    return problems


def _same_server_id(
    said: ChannelSaid, source: InstanceTimeline, other: InstanceTimeline, at: str
) -> Problem:
    text = (
        f"The replica has the server_id {said.server_id} of its source, instance"
        f" {source.instance_id}."
        if other is source
        else f"The replica has the server_id {said.server_id} of instance {other.instance_id},"
        f" whose groups come to it through instance {source.instance_id}: it takes them for its own"
        " and leaves them out."
    )
    return Problem(
        SERVER_UUID_UNIQUE,
        at=at,
        sentence=text,
        observed=str(said.server_id),
        observed_in="server_id of the replica",
        expected=f"not {said.server_id}",
        expected_in=f"server_id of instance {other.instance_id}",
        witness=str(said.server_id),
    )


def judge_coordinates(said: ChannelSaid, case: Case) -> Answer:
    """Rule 69: the source coordinates of a channel are places of the source's binary log."""
    source = case.source
    state = next(source.states.since(said.place.ts), None)
    if state is None:
        return Waiting(NOT_REACHED)
    problems: list[Problem] = []
    reasons = []
    for name, coordinates in (("read", said.read), ("executed", said.executed)):
        if coordinates is None or not coordinates[0] or coordinates[1] == 0:
            continue
        kind = place_of(source, state, coordinates, since=said.coordinates_ts)
        if isinstance(kind, str):
            reasons.append(kind)
        elif _is_wrong(kind, name) and not _may_be_ignored(kind, said, case):
            at = f"{name} {coordinates[0]}:{coordinates[1]}"
            if at not in case.memory.told:
                case.memory.told.add(at)
                problems.append(_wrong_place(source, name, at, coordinates, kind))
    if reasons and not problems:
        return Undecided(reasons[0])
    if not problems and not reasons:
        problems += _passed(said, case, state)
    return problems


def _passed(said: ChannelSaid, case: Case, state: Snapshot) -> list[Problem]:
    """Rule 31, by the source's log: what lies before the executed position is executed.

    The last group there may still be committing. What the replica never had before it began to
    replicate by position is no omission; what lies behind groups that it has executed is. Of
    auto-positioning invariant 19 tells that, where the relay log is seen.
    """
    source, executed = case.source, said.gtid_executed
    if executed is None or said.executed is None or not said.executed[0] or not said.executed[1]:
        return []
    number = parse_log_file_name(said.executed[0])[1]
    groups = source.groups_until(state, (number, said.executed[1]))
    sid, gno = groups.sid[:-1], groups.gno[:-1]
    is_done = np.ones(len(sid), dtype=np.bool_)
    for index in np.unique(sid[sid >= 0]).tolist():
        which = sid == index
        is_done[which] = executed.contains_gnos(source.sids[index], gno[which])
    if is_done.all():
        return []
    received = said.retrieved if said.retrieved is not None else GtidSet.EMPTY
    done, at = np.flatnonzero(is_done & (sid >= 0)), np.flatnonzero(~is_done)
    omitted = GtidSet.EMPTY
    if len(done) and not (said.auto_position and said.is_relay_seen):
        inside = at[(at > done[0]) & ((at < done[-1]) | (not said.auto_position))]
        omitted = GtidSet.from_groups(source.sids, sid[inside], gno[inside]) - received
    omitted = omitted | (GtidSet.from_groups(source.sids, sid[at], gno[at]) & received)
    own = case.fleet.uuid_of(said.instance_id, said.place.ts)
    if omitted and own is not None:
        # In a ring they come back, maybe before they are executed.
        omitted = omitted.without_uuid(own)
    fresh = omitted - case.memory.reported
    if not fresh:
        return []
    case.memory.reported = case.memory.reported | fresh
    text = f"{said.executed[0]}:{said.executed[1]}"
    return [
        Problem(
            applied_relay_gtids_executed,
            at=brief(fresh, 1),
            sentence=f"The applier has passed {brief(fresh, 3)}, which instance"
            f" {source.instance_id} logged before {text}, but the replica has not executed it.",
            observed=brief(executed),
            observed_in="gtid_executed of the replica",
            expected="everything before the executed position",
            expected_in=f"binary log of instance {source.instance_id} up to {text}",
            witness=brief(fresh),
        )
    ]


def _is_wrong(kind: PlaceKind, name: str) -> bool:
    wrong = {PlaceKind.BEYOND, PlaceKind.INSIDE_EVENT}
    return kind in wrong or (kind is PlaceKind.EVENT_END and name == "executed")


def _may_be_ignored(kind: PlaceKind, said: ChannelSaid, case: Case) -> bool:
    """Whether an applier may stand inside a group because its receiver ignores it.

    Events of ignored server ids, in a ring the replica's own, are dropped one by one, and the
    applier moves on with each.
    """
    return kind is PlaceKind.EVENT_END and (
        said.is_filtered or case.fleet.is_upstream(said.instance_id, case.source, said.place.ts)
    )


def _wrong_place(
    source: InstanceTimeline, name: str, at: str, coordinates: Coordinates, kind: PlaceKind
) -> Problem:
    text = f"{coordinates[0]}:{coordinates[1]}"
    return Problem(
        SOURCE_COORDINATE_VALID,
        at=at,
        sentence=f"The replica has {name} up to {text} of instance {source.instance_id}; that is"
        f" {kind.value}.",
        observed=text,
        observed_in=f"{name} source coordinates of the channel",
        expected="the end of an event" if name == "read" else "the end of a group",
        expected_in=f"binary log of instance {source.instance_id}",
        witness=text,
    )


def place_of(
    source: InstanceTimeline, state: Snapshot, coordinates: Coordinates, *, since: int | None
) -> PlaceKind | str:
    """What stands at coordinates of a source as of a state, or why that is not known."""
    try:
        base_name, number = parse_log_file_name(coordinates[0])
    except CoordinateError:
        return f"{coordinates[0]!r} is no binary log file"
    position = coordinates[1]
    if state.base_name is None:
        return "the source's binary log is not known"
    if base_name != state.base_name:
        return f"the source's binary log is called {state.base_name}, not {base_name}"
    if _is_older_than_lineage(since, state):
        return "the coordinates may belong to a binary log of the source that has ended"
    if number > state.file_number:
        if position == FIRST_POSITION and number == state.file_number + 1:
            return PlaceKind.OUTSIDE
        return PlaceKind.BEYOND if state.is_complete else "the source's journal has a gap"
    file, _ = source.file_at(state, number)
    if file is None:
        return f"{format_log_file_name(base_name, number)} of the source is not remembered"
    limit = state.end if number == state.file_number else max(file.end, position)
    kind = file.place(position, limit)
    if kind is PlaceKind.UNKNOWN:
        return f"{coordinates[0]}:{position} was not observed or is not remembered"
    if kind is PlaceKind.BEYOND and not state.is_complete:
        return "the source's journal has a gap"
    return kind
