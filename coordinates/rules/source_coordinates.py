"""The source coordinates of a channel, in the source's own binary log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tallystick.coordinates.audit.comparison import ChannelPut, ChannelRow, ImageChannel
from tallystick.coordinates.audit.observer_clock import TOLERANCE_US
from tallystick.coordinates.audit.timeline_file import PositionKind
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.between import (
    LOG_UNKNOWN_THEN,
    NO_BINLOG_FILE,
    NOT_REACHED,
    OTHER_BASE_NAME,
    TOO_FAR_BEHIND,
    Against,
    Compared,
    adds_to,
    between,
    first_of,
    forgotten,
    may_be_of_ended_log,
)
from tallystick.coordinates.rules.channel import FORMER_SOURCE, applied_relay_gtids_executed
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, Undecided, Waiting
from tallystick.coordinates.rules.registry import Case, reason
from tallystick.coordinates.rules.statements import REPLICA_STATUS, file_until
from tallystick.coordinates.values.binlog import (
    FIRST_POSITION,
    format_log_file_name,
    parse_log_file_name,
)
from tallystick.coordinates.values.errors import CoordinateError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    import numpy.typing as npt

    from tallystick.coordinates.audit.comparison import Coordinates
    from tallystick.coordinates.audit.instance_timeline import InstanceTimeline
    from tallystick.coordinates.audit.packed_events import GtidRuns
    from tallystick.coordinates.audit.timeline_snapshot import Snapshot

SOURCE_BINLOG_UNKNOWN = reason(
    "source_binlog_unknown", "the source's binary log is not known", Lack.BINARY_LOG
)
COORDINATES_OF_ENDED_LOG = reason(
    "coordinates_of_ended_log",
    "the coordinates may belong to a binary log of the source that has ended",
    Lack.LINEAGE,
)
SOURCE_JOURNAL_GAP = reason("source_journal_gap", "the source's journal has a gap", Lack.JOURNAL)
SOURCE_FILE_FORGOTTEN = reason(
    "source_file_forgotten", "{file} of the source is not remembered", Lack.MEMORY
)
SOURCE_POSITION_UNKNOWN = reason(
    "source_position_unknown",
    "{file}:{position} was not observed or is not remembered",
    Lack.MEMORY,
)

REPLICA_SET_UNKNOWN = reason(
    "replica_set_unknown",
    "not everything that the replica has executed or retrieved is known",
    Lack.SOURCE_LATER,
)

PASSED_UNLOGGED = reason(
    "passed_unlogged",
    "the replica does not log what it applies; it has passed {missing:gtids} in the log of {source}"
    " and not executed {missing:it|them}",
    Lack.SETTING,
)

PASSED_MAYBE = reason(
    "passed_maybe",
    "the replica has not executed {missing:gtids}, which {missing:is|are} before its position in"
    " the log of {source}, and whether the position is in that log is not known",
    Lack.NEXT_ROW,
)

BEGUN_AFTER = reason(
    "begun_after",
    "the replica replicates by position, and its gtid_executed does not count {missing:gtids},"
    " which {source} has logged before the rest of it: whether the replica's data have"
    " {missing:it|them} is not shown",
    Lack.SETTING,
)

OWN_MAY_COMMIT = reason(
    "own_may_commit",
    "gtid_executed lacks {missing:gtids} of the server's own, which {source} has logged: whether"
    " {missing:it is|they are} in its own binary log, and in commit, is not known",
    Lack.BINARY_LOG,
)
LEFT_BEHIND = reason(
    "groups_left_behind",
    "the replica status was not read, or does not say how far the applier is, and {missing:gtids},"
    " which {source} has logged before others that the replica has executed,"
    " {missing:is|are} not executed",
    Lack.VALUE,
)
PROGRESS_UNKNOWN = reason(
    "applier_progress_unknown",
    "the replica status was not read, or does not say how far the applier is, and the groups of"
    " {source} that have no GTIDs do not show it",
    Lack.VALUE,
)

PUT_AMONG_ANONYMOUS = reason(
    "put_among_anonymous",
    "the channel was put to {file}:{position} of {source}, and groups there have no GTIDs: whether"
    " the replica has all that come before, and none that comes after, is not shown",
    Lack.SETTING,
)

RESET_AMONG_ANONYMOUS = reason(
    "reset_among_anonymous",
    "RESET REPLICA made the channel begin where the log of {source} does, and groups up to"
    " {file}:{position}, which it had executed, have no GTIDs: they are executed again, unless the"
    " replica's data were put back meanwhile",
    Lack.SETTING,
)

_READ = "The replica has read up to {file}:{position} of instance {source}; that is "
_EXECUTED = "The replica has executed up to {file}:{position} of instance {source}; that is "
_SIDES = {
    "read": (
        "{file}:{position}",
        "read source coordinates of the channel",
        "the end of an event",
        "binary log of instance {source}",
    ),
    "executed": (
        "{file}:{position}",
        "executed source coordinates of the channel",
        "the end of a group",
        "binary log of instance {source}",
    ),
}
_INSIDE_EVENT = "no end of an event."
_BEYOND = "past the end of the file."


@between(
    ChannelRow,
    number=69,
    tier=4,
    family=Family.CHANNEL_POSITIONS,
    severity=Severity.CRITICAL,
    heals="held",
    claim=(
        "The source coordinates of a channel are positions that exist in the source's binary log:"
        " the read position ends an event, the executed position ends a group, or an event of"
        " a group that the receiver ignores, or has by GTID set."
    ),
    why=(
        "Receiver and applier take their positions from the ends of the source's events. A"
        " position between them, or past the end of the file, belongs to another log, was"
        " counted wrong, or points to what the source lost in a crash; a replica or backup that"
        " starts there fails or reads rubbish. What a receiver ignores by server id, in a ring"
        " the replica's own groups, it drops event by event, and the applier follows. What a"
        " replica has that asks by GTID set, its source passes, and heartbeats name where it is."
    ),
    undecided_when=(
        "the source is not observed, its journal has a gap in that file or has not reached the"
        " time of the row, its events there are no longer remembered, or the coordinates belong"
        " to a binary log lineage of the source that has ended, or may still belong to another"
        " source that the channel had before, or are within a group, by GTID set, and what the"
        " replica has executed is not known"
    ),
    sources=("WL#2775, Relay_log_info", "Percona XtraBackup issue PXB-1737"),
    remedy=(
        "Do not start a replica or a backup from these coordinates; use GTID auto-positioning,"
        " or take the end of the last group before the position after comparing the data."
    ),
    verify=(REPLICA_STATUS, file_until("file", "position", "{source}")),
    cases={
        "read_inside_event": Case(_READ + _INSIDE_EVENT, *_SIDES["read"]),
        "read_beyond_end": Case(_READ + _BEYOND, *_SIDES["read"]),
        "executed_inside_event": Case(_EXECUTED + _INSIDE_EVENT, *_SIDES["executed"]),
        "executed_beyond_end": Case(_EXECUTED + _BEYOND, *_SIDES["executed"]),
        "executed_inside_group": Case(
            _EXECUTED + "the end of an event inside a group.", *_SIDES["executed"]
        ),
    },
)
def source_coordinate_valid(row: ChannelRow, against: Against) -> Compared:
    """The source coordinates of a channel are positions of the source's binary log."""
    source = against.source
    state = source.states.first_since(row.at.ts)
    if state is None:
        return Waiting(NOT_REACHED)
    found, unknown = wrong_coordinates(row, against, state)
    if unknown is not None and not against.fresh(found):
        return unknown
    return against.report_at(found)


_WRONG = {
    PositionKind.INSIDE_EVENT: "inside_event",
    PositionKind.BEYOND: "beyond_end",
    PositionKind.EVENT_END: "inside_group",
}


def wrong_coordinates(
    row: ChannelRow | ImageChannel, against: Against, state: Snapshot
) -> tuple[list[Broken], Undecided | None]:
    """What is wrong with the coordinates, and why others are not known."""
    found: list[Broken] = []
    unknown = None
    for name, coordinates in (("read", row.read), ("executed", row.executed)):
        if coordinates is None or not coordinates[0] or coordinates[1] == 0:
            continue
        kind = kind_at(against.source, state, coordinates, since=row.coordinates_ts)
        if isinstance(kind, Undecided):
            unknown = unknown or kind
        elif name == "executed" and name in row.former:
            # Also where they look right: what is before them is not known to be executed.
            unknown = unknown or Undecided(FORMER_SOURCE)
        elif _is_wrong(kind, name) and not _is_left_out(kind, row, against, state):
            if _may_be_former(name, row) or _may_be_kept(name, row, against, state):
                unknown = unknown or Undecided(FORMER_SOURCE)
                continue
            if kind is PositionKind.EVENT_END and _asks_by_unknown_set(row):
                unknown = unknown or Undecided(REPLICA_SET_UNKNOWN)
                continue
            if against.may_be_of_another_log(state, row.at.ts):
                unknown = unknown or Undecided(LOG_UNKNOWN_THEN)
                continue
            file, position = coordinates
            found.append(
                Broken(
                    f"{name}_{_WRONG[kind]}",
                    witness=f"{file}:{position}",
                    at=f"{name} {file}:{position}",
                    file=file,
                    position=position,
                    source=against.source.instance_id,
                )
            )
    if row.read == row.executed and len(found) > 1:
        del found[0]  # who has executed up to there has read it: one breach, not two
    return found, unknown


def _may_be_former(name: str, row: ChannelRow | ImageChannel) -> bool:
    """Whether coordinates may be of a source that the channel had before.

    Relay log recovery has the receiver go on from what is executed, whose source that ever was.
    """
    if name in row.former:
        return True
    is_executed = row.may_execute_former or "executed" in row.former
    return is_executed and (name == "executed" or row.read == row.executed)


def _may_be_kept(
    name: str, row: ChannelRow | ImageChannel, against: Against, state: Snapshot
) -> bool:
    """Whether the position alone may be of this source, beside a file name that the applier keeps.

    A relay log that was read would have said so (``AppliedFileNames``). By GTID set alone a
    receiver may stop within a group and go on with another source.
    """
    if name != "executed" or isinstance(row, ImageChannel) or row.queued:
        return False
    if row.executed is None or row.read is None or not row.auto_position:
        return False
    there = row.read[0], row.executed[1]
    return kind_at(against.source, state, there, since=row.coordinates_ts) is PositionKind.GROUP_END


def _is_wrong(kind: PositionKind, name: str) -> bool:
    if kind is PositionKind.EVENT_END:
        return name == "executed"
    return kind is PositionKind.BEYOND or kind is PositionKind.INSIDE_EVENT


def _is_left_out(
    kind: PositionKind, row: ChannelRow | ImageChannel, against: Against, state: Snapshot
) -> bool:
    """Whether an applier may be inside a group because its receiver does not take it.

    Events of ignored server ids, in a ring the replica's own, are dropped one by one, and the
    applier moves on with each.
    """
    return kind is PositionKind.EVENT_END and (
        row.ignores_servers
        or against.fleet.is_upstream(row.instance_id, against.source, row.at.ts)
        or _may_be_passed(row, against.source, state)
    )


def _may_be_passed(
    row: ChannelRow | ImageChannel, source: InstanceTimeline, state: Snapshot
) -> bool:
    """Whether the executed position is inside a group that the replica may have.

    Asked by GTID set, a source passes such a group, and its heartbeats name where it is in it; the
    receiver writes them into the relay log, and the applier moves on with each. Nothing may be
    started there by position, so it is wrong in an image.
    """
    if isinstance(row, ImageChannel) or not row.auto_position or row.gtid_executed is None:
        return False
    assert row.executed is not None
    file, _ = source.file_at(state, parse_log_file_name(row.executed[0])[1])
    assert file is not None
    number = file.count_groups(row.executed[1])
    _, (sid,), gno = file.groups(number, number + 1)
    if sid < 0:
        return False  # a group without a GTID
    # That set was read after the position.
    return bool(row.gtid_executed.contains_ranges(source.sids[sid], gno, gno).all())


def _asks_by_unknown_set(row: ChannelRow | ImageChannel) -> bool:
    """Whether a channel asks by GTID set, and what the replica has executed is not known."""
    return isinstance(row, ChannelRow) and row.auto_position and row.gtid_executed is None


def kind_at(
    source: InstanceTimeline, state: Snapshot, coordinates: Coordinates, *, since: int | None
) -> PositionKind | Undecided:
    """What is at coordinates of a source as of a state, or why that is not known."""
    file_name, position = coordinates
    try:
        base_name, number = parse_log_file_name(file_name)
    except CoordinateError:
        return Undecided(NO_BINLOG_FILE, file=file_name)
    if state.base_name is None:
        return Undecided(SOURCE_BINLOG_UNKNOWN)
    if base_name != state.base_name:
        return Undecided(OTHER_BASE_NAME, base_name=state.base_name, other=base_name)
    if may_be_of_ended_log(since, state):
        return Undecided(COORDINATES_OF_ENDED_LOG)
    if number > state.file_number:
        last, _ = source.file_at(state, state.file_number)
        following = state.file_number + 1 if last is None else last.following
        if position == FIRST_POSITION and number == following:
            return PositionKind.OUTSIDE
        return PositionKind.BEYOND if state.is_complete else Undecided(SOURCE_JOURNAL_GAP)
    file, _ = source.file_at(state, number)
    where = number, position
    if file is None:
        unknown = Undecided(SOURCE_FILE_FORGOTTEN, file=format_log_file_name(base_name, number))
        return forgotten(source, state, where, unknown)
    limit = state.end if number == state.file_number else max(file.end, position)
    kind = file.kind_at(position, limit)
    if kind is PositionKind.UNKNOWN:
        unknown = Undecided(SOURCE_POSITION_UNKNOWN, file=file_name, position=position)
        return forgotten(source, state, where, unknown)
    if kind is PositionKind.BEYOND and not state.is_complete:
        return Undecided(SOURCE_JOURNAL_GAP)
    return kind


@adds_to(
    applied_relay_gtids_executed,
    ChannelRow,
    doubts=(PASSED_UNLOGGED, BEGUN_AFTER, OWN_MAY_COMMIT, TOO_FAR_BEHIND, PASSED_MAYBE),
)
def passed_groups_executed(row: ChannelRow, against: Against) -> Compared:
    """What is before the executed position in the source's log is executed.

    The last group there may still be committing. What is before the groups that it has executed
    may be in the backup from which it began by position; what is after one of them is left out. Of
    auto-positioning relay_mirrors_source reports that, from where the relay log is seen. The
    replica's own groups its receiver ignores: it has them in its binary log, or has lost them.
    """
    source, executed = against.source, row.gtid_executed
    state = source.states.first_since(row.at.ts)
    if state is None:
        return Waiting(NOT_REACHED)
    wrong, unknown = wrong_coordinates(row, against, state)
    if unknown is not None:
        return unknown
    if against.fresh(wrong):
        # Coordinates that are wrong are reported alone, at the first row that has them.
        reported = against.memory.reported_at.union(str(broken.at) for broken in wrong)
        return against.remember(HOLDS, reported_at=reported)
    if executed is None or row.executed is None or not row.executed[0] or not row.executed[1]:
        return HOLDS
    file, position = row.executed
    where = parse_log_file_name(file)[1], position
    runs = source.runs_until(state, where)
    if _are_in(runs.without_last(), source.sids, executed):
        return _unless_given_up(where, state, against)
    own = against.fleet.uuid_of(row.instance_id, row.at.ts)
    omitted, before, lost = _lacking(
        row, executed, runs, source.sids, own, is_compared=_is_compared(row, state)
    )
    in_doubt = lost if row.own_pending is None else GtidSet.EMPTY
    lost = lost - in_doubt
    omitted = omitted | lost
    fresh = omitted - against.memory.reported
    if not fresh and (omitted or not (before or in_doubt)):
        return against.nothing_new(omitted)
    missing = fresh | before | in_doubt
    if row.may_execute_former or against.may_be_of_another_log(state, row.at.ts):
        return Undecided(PASSED_MAYBE, missing=missing, source=source.instance_id)
    if not row.logs_everything:
        # Its gtid_executed is also known to lag behind the position.
        return Undecided(PASSED_UNLOGGED, missing=missing, source=source.instance_id)
    if not fresh and in_doubt:
        return Undecided(OWN_MAY_COMMIT, missing=in_doubt, source=source.instance_id)
    if not fresh:
        return Undecided(BEGUN_AFTER, missing=before, source=source.instance_id)
    return against.report(
        fresh,
        Broken(
            "own_lost" if fresh <= lost else "passed_in_source_log",
            witness=fresh,
            at=first_of(fresh),
            source=source.instance_id,
            executed=executed,
            file=file,
            position=position,
        ),
    )


def _unless_given_up(where: tuple[int, int], state: Snapshot, against: Against) -> Compared:
    """All remembered groups before a position are executed: is anything since the last row gone?"""
    memory = against.memory
    number, position = memory.high if memory.lineage == state.lineage and memory.high else (0, 0)
    is_gone = against.source.is_given_up(state.lineage, number, position + 1)
    gone = Undecided(TOO_FAR_BEHIND, source=against.source.instance_id)
    return against.remember(gone if is_gone else HOLDS, lineage=state.lineage, high=where)


@adds_to(applied_relay_gtids_executed, ChannelRow, doubts=(LEFT_BEHIND, PROGRESS_UNKNOWN))
def groups_left_behind(row: ChannelRow, against: Against) -> Compared:
    """What is in the source's log before a group that the replica has executed.

    It counts where the status does not show how far the applier is. Workers that commit in any
    order leave such groups behind for a while; one that was left out stays.
    """
    source, executed = against.source, row.gtid_executed
    if row.shows_progress or executed is None:
        return HOLDS
    state = source.states.first_since(row.at.ts)
    if state is None:
        return Waiting(NOT_REACHED)
    runs = source.runs_until(state, (state.file_number, state.end))
    if (runs.sid < 0).any():
        return Undecided(PROGRESS_UNKNOWN, source=source.instance_id)
    if _are_in(runs, source.sids, executed):
        return HOLDS
    sid, gno = runs.groups()
    is_done = _are_done(sid, gno, source.sids, executed)
    missing = np.flatnonzero(~is_done[: is_done.nonzero()[0].max(initial=0)])
    gtids = GtidSet.from_groups(source.sids, sid[missing], gno[missing])
    own = against.fleet.uuid_of(row.instance_id, row.at.ts)
    gtids = gtids if own is None else gtids.without_uuid(own)
    if not gtids:
        return HOLDS
    if against.may_be_of_another_log(state, row.at.ts):
        return Undecided(LOG_UNKNOWN_THEN)
    return Undecided(LEFT_BEHIND, missing=gtids, source=source.instance_id)


@adds_to(
    applied_relay_gtids_executed, ChannelPut, doubts=(PUT_AMONG_ANONYMOUS, RESET_AMONG_ANONYMOUS)
)
def put_where_it_was(put: ChannelPut, against: Against) -> Compared:
    """A channel goes on where its replica's data are, which without GTIDs only records show."""
    source = against.source
    state = source.states.first_since(put.at.ts)
    if state is None:
        return Waiting(NOT_REACHED)
    if put.coordinates is not None:
        if (source.instance_id, put.coordinates) in put.data_at:
            return HOLDS
        kind = kind_at(source, state, put.coordinates, since=put.at.ts)
        if isinstance(kind, Undecided):
            return kind
    name = source.instance_id
    if put.executed is not None:
        kind = kind_at(source, state, put.executed, since=put.executed_ts)
        # Else it is of a log that is gone, and the channel begins in another one.
        if not isinstance(kind, Undecided) and _has_anonymous(source, state, put.executed):
            file, position = put.coordinates or put.executed
            why = RESET_AMONG_ANONYMOUS if put.coordinates is None else PUT_AMONG_ANONYMOUS
            return Undecided(why, file=file, position=position, source=name)
    if put.coordinates is None or not _has_anonymous(source, state, put.coordinates):
        return HOLDS
    file, position = put.coordinates
    return Undecided(PUT_AMONG_ANONYMOUS, file=file, position=position, source=name)


def _has_anonymous(source: InstanceTimeline, state: Snapshot, upto: Coordinates) -> bool:
    """Whether groups before a position have no GTIDs."""
    file, position = upto
    runs = source.runs_until(state, (parse_log_file_name(file)[1], position))
    return bool((runs.sid < 0).any())


def _is_compared(row: ChannelRow, state: Snapshot) -> bool:
    """Whether other rules compare what came before all that was seen to be queued.

    They do not where the source's log may be known since a later time only: its clock may be
    another one.
    """
    since = row.compared_ts
    return since is not None and since > state.log_since_ts + TOLERANCE_US


def _lacking(
    row: ChannelRow,
    executed: GtidSet,
    runs: GtidRuns,
    sids: list[str],
    own: str | None,
    *,
    is_compared: bool,
) -> tuple[GtidSet, GtidSet, GtidSet]:
    """What of the runs before its position a replica lacks, whose own UUID is ``own``.

    ``is_compared``: other rules have compared what came before all that was seen to be queued.

    Returns:
        What it has received, or left out. Then what is before all that it has executed, where it
        replicates by position. Then what is its own, and not waiting in its binary log for commit.
    """
    sid, gno = runs.groups()
    is_done = _are_done(sid, gno, sids, executed)
    received = row.retrieved if row.retrieved is not None else GtidSet.EMPTY
    done, at = np.flatnonzero(is_done & (sid >= 0)), np.flatnonzero(~is_done[:-1])
    first = done[0] if len(done) else len(sid)
    omitted = before = GtidSet.EMPTY
    if len(done) and not (row.auto_position and row.queued and is_compared):
        inside = at[(at > first) & ((at < done[-1]) | (not row.auto_position))]
        if row.auto_position and row.queued:
            seen = np.flatnonzero(_are_done(sid, gno, sids, row.queued) & (sid >= 0))
            inside = inside[inside < (seen[0] if len(seen) else len(sid))]
        omitted = GtidSet.from_groups(sids, sid[inside], gno[inside]) - received
    if not row.auto_position:
        early = at[at < first]
        before = GtidSet.from_groups(sids, sid[early], gno[early]) - received
    lacking = GtidSet.from_groups(sids, sid[at], gno[at])
    omitted, lost = omitted | (lacking & received), GtidSet.EMPTY
    if own is not None:
        # In a ring they come back, maybe before they are executed.
        pending = row.own_pending or GtidSet.EMPTY
        lost, before = (lacking - before).restrict(own) - pending, before - pending
        omitted = omitted.without_uuid(own)
    return omitted, before, lost


def _are_done(
    sid: npt.NDArray[np.int32], gno: npt.NDArray[np.int64], sids: list[str], executed: GtidSet
) -> npt.NDArray[np.bool_]:
    """Which groups are executed; of anonymous ones that is not known, and counts as done."""
    is_done = np.ones(len(sid), dtype=np.bool_)
    for index in _numbers(sid):
        which = sid == index
        is_done[which] = executed.contains_gnos(sids[index], gno[which])
    return is_done


def _are_in(runs: GtidRuns, sids: list[str], gtids: GtidSet) -> bool:
    """Whether all GTIDs are in a set."""
    sid, first, last = runs.sid, runs.gno, runs.gno + runs.length - 1
    return all(
        gtids.contains_ranges(sids[index], first[sid == index], last[sid == index]).all()
        for index in _numbers(sid)
    )


def _numbers(column: npt.NDArray[np.int32]) -> list[int]:
    """The numbers in a column, each once; -1 left out."""
    return [*map(int, np.flatnonzero(np.bincount(column[column >= 0])))]
