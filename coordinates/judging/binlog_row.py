"""Judging a row's binary log coordinate and GTID sets (invariants 15, 20-27, 41-45, 49, 50, 63)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coordinates.binlog import format_log_file_name, parse_log_file_name
from coordinates.event_window import END, FILE, GNO, MARK, SID, Mark
from coordinates.gtid import GtidSet
from coordinates.history import SETTLE_US, UNSETTLED_MAX
from coordinates.invariants.clone import GTID_TABLE_WITHIN_EXECUTED
from coordinates.invariants.history import (
    BINLOG_FILES_FORM_RANGE,
    EXECUTED_GROWTH_EXPLAINED,
    EXECUTED_MONOTONE,
    LOGGED_EVENTUALLY_EXECUTED,
    PURGED_MONOTONE,
    RECOVERED_GTIDS_COMPLETE,
    SNAPSHOT_POSITION_MONOTONE,
)
from coordinates.invariants.log_stream import PREVIOUS_GTIDS_CONTINUITY
from coordinates.invariants.snapshot import (
    COMMIT_LAG_BOUNDED,
    COMMIT_LAG_IS_SUFFIX,
    EXECUTED_WITHIN_LOGGED,
    OWNED_DISJOINT_FROM_EXECUTED,
    PURGED_MATCHES_OLDEST_FILE,
    PURGED_WITHIN_EXECUTED,
    SNAPSHOT_POSITION_ON_GROUP_BOUNDARY,
    SNAPSHOT_POSITION_WITHIN_FILE,
)
from coordinates.judging.row import falls
from coordinates.verdict import ObservationCode

if TYPE_CHECKING:
    from coordinates.binlog import LogCoordinates
    from coordinates.judging.row import Row

FIRST_POSITION = 4
UNREADABLE = "the row's value is missing or could not be read"
NO_JOURNAL = "no event of this log was seen"


class BinlogView(NamedTuple):
    """What the journal shows at a row's coordinate, for the cut.

    ``logged``: L(P), None unknown. ``boundary``: the last group or header end at or before P.
    ``lag``: how many of L(P) the row's executed set lacks, None unknown.
    """

    logged: GtidSet | None
    boundary: tuple[str, int] | None
    lag: int | None


def judge_binlog_row(row: Row) -> BinlogView:
    """Judge everything a row says of the binary log and the GTID sets."""
    logged = _judge_position(row)
    boundary = None if _place_is_undecided(row) else _boundary(row)
    missing = _judge_executed(row, logged)
    _judge_recovered(row)
    _judge_lag(row, logged, missing)
    _judge_purged(row)
    _judge_file_list(row)
    _judge_table(row)
    _accept(row)
    return BinlogView(logged, boundary, None if missing is None else missing.count())


# The coordinate


def _judge_position(row: Row) -> GtidSet | None:
    """Judge P; returns L(P), None when the journal cannot tell."""
    state, binlog, judgement = row.state, row.binlog, row.judgement
    rules = (SNAPSHOT_POSITION_WITHIN_FILE, SNAPSHOT_POSITION_ON_GROUP_BOUNDARY)
    position = state.position
    if position is None:
        if state.has_binlog is False:
            return GtidSet.EMPTY
        for rule in (*rules, SNAPSHOT_POSITION_MONOTONE):
            judgement.undecided(rule, UNREADABLE)
        return None
    reason = None
    if binlog.base_name is None:
        reason = NO_JOURNAL
    elif binlog.base_name != position.base_name:
        reason = f"the journal shows files of {binlog.base_name!r}"
    elif binlog.end < 0:
        reason = "part of the journal is missing before the row"
    elif binlog.offsets_doubtful:
        reason = "the offsets of the file are in doubt after a break"
    if reason is not None:
        for rule in rules:
            judgement.undecided(rule, reason)
    else:
        _judge_place(row, position)
    _judge_position_monotone(row, position)
    return None if reason is not None else binlog.logged_at(position.file_number, position.position)


def _judge_place(row: Row, position: LogCoordinates) -> None:
    binlog, judgement = row.binlog, row.judgement
    number, offset = position.file_number, position.position
    rows = binlog.window.rows()
    ends = rows[rows[:, FILE] == number][:, END]
    if number == binlog.file_number:
        end: int | None = binlog.end
    elif number > binlog.file_number:
        end = -1
    else:
        end = int(ends[-1]) if len(ends) else None
    if (end is not None and offset > end) or offset < FIRST_POSITION:
        judgement.broken(
            SNAPSHOT_POSITION_WITHIN_FILE,
            sentence=f"The row says {position}, but that file "
            + (f"ends at {end}." if end is not None and end >= 0 else "does not exist yet."),
            observed=position,
            observed_in="log_status, binary_log_file and binary_log_position",
            expected=f"at most {format_log_file_name(binlog.base_name or '', number)}:{end}"
            if end is not None and end >= 0
            else f"at most {binlog.file_name}:{binlog.end}",
            expected_in="binary log",
            witness=position,
        )
        judgement.undecided(SNAPSHOT_POSITION_ON_GROUP_BOUNDARY, "the place is not in the file")
        return
    if end is None:
        reason = "the place is older than the events remembered"
        judgement.undecided(SNAPSHOT_POSITION_WITHIN_FILE, reason)
        judgement.undecided(SNAPSHOT_POSITION_ON_GROUP_BOUNDARY, reason)
        return
    judgement.holds(SNAPSHOT_POSITION_WITHIN_FILE)
    found = binlog.window.find_end(number, offset)
    window = binlog.window
    if found is None and (not window.covers(number, offset) or window.begins_at(number, offset)):
        judgement.undecided(
            SNAPSHOT_POSITION_ON_GROUP_BOUNDARY, "the place is older than the events remembered"
        )
        return
    mark = Mark(int(rows[found, MARK])) if found is not None else None
    if mark in (Mark.GROUP, Mark.HEADER, Mark.FILE):
        judgement.holds(SNAPSHOT_POSITION_ON_GROUP_BOUNDARY)
        return
    if mark is Mark.UNKNOWN:
        judgement.undecided(
            SNAPSHOT_POSITION_ON_GROUP_BOUNDARY, "the group around the place was not seen whole"
        )
        return
    before = _boundary(row)
    judgement.broken(
        SNAPSHOT_POSITION_ON_GROUP_BOUNDARY,
        sentence=f"The row says {position}, which lies inside "
        + ("an event." if mark is None else "a group."),
        observed=position,
        observed_in="log_status, binary_log_file and binary_log_position",
        expected="the end of a group" if before is None else f"{before[0]}:{before[1]}",
        expected_in="last group end before it in the binary log",
        witness=position,
    )


def _place_is_undecided(row: Row) -> bool:
    """Whether the journal cannot tell what ends at or before P."""
    undecided = row.judgement.undecided_reasons(None)
    return SNAPSHOT_POSITION_WITHIN_FILE.name in undecided or (
        SNAPSHOT_POSITION_ON_GROUP_BOUNDARY.name in undecided
        and not row.judgement.is_broken(SNAPSHOT_POSITION_WITHIN_FILE)
    )


def _boundary(row: Row) -> tuple[str, int] | None:
    position, binlog = row.state.position, row.binlog
    if position is None or position.base_name != binlog.base_name:
        return None
    rows = binlog.window.rows()
    ends = rows[np.isin(rows[:, MARK], (Mark.GROUP, Mark.HEADER, Mark.FILE))]
    earlier = ends[
        (ends[:, FILE] < position.file_number)
        | ((ends[:, FILE] == position.file_number) & (ends[:, END] <= position.position))
    ]
    if not len(earlier):
        return None
    return format_log_file_name(position.base_name, int(earlier[-1, FILE])), int(earlier[-1, END])


def _judge_position_monotone(row: Row, position: LogCoordinates) -> None:
    history, judgement = row.history, row.judgement
    before = history.position
    if before is not None and before.base_name != position.base_name:
        before = None
    if falls(history.fallen, "position", position, before):
        judgement.broken(
            SNAPSHOT_POSITION_MONOTONE,
            sentence=f"The binary log coordinate fell from {before} to {position}.",
            observed=position,
            observed_in="log_status of this collection",
            expected=f"at least {before}",
            expected_in="last accepted log_status",
            witness=position,
        )
    else:
        judgement.holds(SNAPSHOT_POSITION_MONOTONE)


# Executed


def _judge_executed(row: Row, logged: GtidSet | None) -> GtidSet | None:
    """Judge X against L(P), U, O and the row before; returns L(P) - X, None unknown."""
    state, history, judgement = row.state, row.history, row.judgement
    executed = state.executed
    if executed is None:
        for rule in (
            EXECUTED_WITHIN_LOGGED,
            OWNED_DISJOINT_FROM_EXECUTED,
            EXECUTED_MONOTONE,
            EXECUTED_GROWTH_EXPLAINED,
        ):
            judgement.undecided(rule, UNREADABLE)
        return None
    _judge_within_logged(row, executed, logged)
    if state.owned is None:
        judgement.undecided(OWNED_DISJOINT_FROM_EXECUTED, "gtid_owned was not read")
    elif state.owned.isdisjoint(executed):
        judgement.holds(OWNED_DISJOINT_FROM_EXECUTED)
    else:
        both = state.owned & executed
        judgement.broken(
            OWNED_DISJOINT_FROM_EXECUTED,
            sentence=f"{both.first(3)} is owned by a session and executed at the same time.",
            observed=state.owned,
            observed_in="@@gtid_owned",
            expected=f"nothing of {executed}",
            expected_in="gtid_executed of log_status",
            witness=both.first(10),
        )
    before = history.executed
    _judge_growth(row, executed, before)
    if falls(history.fallen, "executed", executed, before) and before is not None:
        lost = before - executed
        judgement.broken(
            EXECUTED_MONOTONE,
            at=str(lost.first(3)),
            sentence=f"{lost.first(3)} was executed at an earlier row and is not any more.",
            observed=executed,
            observed_in="gtid_executed of this collection",
            expected=before,
            expected_in="gtid_executed of the last accepted row",
            witness=lost.first(10),
        )
    else:
        judgement.holds(EXECUTED_MONOTONE)
    return None if logged is None else logged - executed


def _judge_within_logged(row: Row, executed: GtidSet, logged: GtidSet | None) -> None:
    state, history, judgement = row.state, row.history, row.judgement
    if not row.server.log_bin or (state.has_binlog is False):
        judgement.holds(EXECUTED_WITHIN_LOGGED)
        return
    if logged is None:
        judgement.undecided(
            EXECUTED_WITHIN_LOGGED, "what was logged up to the coordinate is unknown"
        )
        return
    excess = executed - logged - (state.purged or GtidSet.EMPTY) - history.assigned
    if not row.server.logs_everything:
        own = row.server.server_uuid
        excess = excess.restrict(own) if own is not None else GtidSet.EMPTY
    if excess and state.purged is None:
        # Without gtid_purged an excess may be table-only; growth since an accepted row is not.
        fresh = excess - history.executed if history.executed is not None else GtidSet.EMPTY
        if not fresh:
            judgement.undecided(EXECUTED_WITHIN_LOGGED, "gtid_purged was not read")
            return
        excess = fresh
    if not excess:
        judgement.holds(EXECUTED_WITHIN_LOGGED)
        return
    judgement.broken(
        EXECUTED_WITHIN_LOGGED,
        sentence=f"{excess.first(3)} is executed, but neither logged up to {state.position} nor "
        "purged.",
        observed=executed,
        observed_in="gtid_executed of log_status",
        expected=logged,
        expected_in=f"binary log up to {state.position}",
        witness=excess.first(10),
    )


def _judge_growth(row: Row, executed: GtidSet, before: GtidSet | None) -> None:
    state, history, judgement, server = row.state, row.history, row.judgement, row.server
    if before is None or executed <= before:
        judgement.holds(EXECUTED_GROWTH_EXPLAINED)
        return
    grown = executed - before - history.unexplained
    if server.server_uuid is not None:
        grown = grown.without_uuid(server.server_uuid)
    if server.group_uuid is not None:
        grown = grown.without_uuid(server.group_uuid)
    grown = grown - history.assigned - row.binlog.local.freeze()
    if state.purged is not None:
        grown = grown - (state.purged - row.binlog.grouped.freeze())
    for relay in row.relays.values():
        grown = grown - relay.received_ever.freeze()
    if not grown:
        judgement.holds(EXECUTED_GROWTH_EXPLAINED)
        return
    unseen = [
        name
        for name in state.channels
        if name not in row.relays
        or row.relays[name].base_name is None
        or not row.relays[name].received_is_complete
    ]
    if any(relay.has_anonymous for relay in row.relays.values()):
        judgement.undecided(
            EXECUTED_GROWTH_EXPLAINED,
            "a channel brings groups without a GTID, to which the replica may assign any UUID",
        )
        return
    if unseen or server.server_uuid is None:
        judgement.undecided(
            EXECUTED_GROWTH_EXPLAINED, "the relay logs of all channels were not seen completely"
        )
        return
    history.unexplained = history.unexplained | grown
    judgement.broken(
        EXECUTED_GROWTH_EXPLAINED,
        at=str(grown.first(3)),
        sentence=f"{grown.first(3)} became executed, but no relay log held it and nothing here "
        "wrote it.",
        observed=grown,
        observed_in="gtid_executed of this row without that of the last accepted row",
        expected="received, written here, or assigned to gtid_purged",
        expected_in="relay logs, server_uuid, gtid_purged",
        witness=grown.first(10),
    )


def _judge_recovered(row: Row) -> None:
    """The first row of a boot holds everything that recovery found."""
    state, history, judgement = row.state, row.history, row.judgement
    history.late_recovered = GtidSet.EMPTY
    if history.must_recover is None:
        return
    if state.executed is None:
        judgement.undecided(RECOVERED_GTIDS_COMPLETE, UNREADABLE)
        return
    lost = history.must_recover - state.executed
    history.must_recover = None
    if not lost:
        judgement.holds(RECOVERED_GTIDS_COMPLETE)
        return
    history.late_recovered = lost
    judgement.broken(
        RECOVERED_GTIDS_COMPLETE,
        at=str(lost.first(3)),
        sentence=f"The first row after the start lacks {lost.first(3)}, which recovery had found.",
        observed=state.executed,
        observed_in="gtid_executed of the first row of the boot",
        expected=lost,
        expected_in="recovered binary log files, mysql.gtid_executed, undo logs",
        witness=lost.first(10),
    )


# The lag between the binary log and the executed set


def _judge_lag(row: Row, logged: GtidSet | None, missing: GtidSet | None) -> None:
    history, judgement, server = row.history, row.judgement, row.server
    rules = (COMMIT_LAG_BOUNDED, COMMIT_LAG_IS_SUFFIX, LOGGED_EVENTUALLY_EXECUTED)
    executed = row.state.executed
    if logged is None or missing is None or executed is None:
        for rule in rules:
            judgement.undecided(rule, "what was logged up to the coordinate is unknown")
        return
    history.known_holes = history.known_holes - executed
    waiting = missing - history.known_holes
    if waiting.count() <= server.commit_lag_max:
        judgement.holds(COMMIT_LAG_BOUNDED)
    elif not server.knows_commit_lag_max:
        judgement.undecided(
            COMMIT_LAG_BOUNDED, "neither max_connections nor commit_lag_max of the server is known"
        )
    else:
        judgement.broken(
            COMMIT_LAG_BOUNDED,
            sentence=f"{waiting.count()} logged GTIDs are not executed; at most "
            f"{server.commit_lag_max} can be in flight.",
            observed=waiting.count(),
            observed_in="GTIDs of the binary log up to the coordinate, not in gtid_executed",
            expected=f"at most {server.commit_lag_max}",
            expected_in="max_connections and applier workers, or commit_lag_max",
            witness=waiting.first(10),
        )
    _judge_suffix(row, waiting - history.late_recovered)
    _judge_settled(row, missing)
    if missing and not server.is_atomic:
        judgement.reporter.note(
            ObservationCode.LOG_STATUS_TEAR,
            f"gtid_executed trails the coordinate {row.state.position} by {missing.count()} "
            f"({missing.first(3)}): use position or set of this row, not both as one point "
            "(server bugs 102175, 112331)",
            at=row.collection_id,
            collection_id=row.collection_id,
        )


def _judge_suffix(row: Row, waiting: GtidSet) -> None:
    judgement, position = row.judgement, row.state.position
    if not waiting or not row.server.commits_are_ordered or position is None:
        judgement.holds(COMMIT_LAG_IS_SUFFIX)
        return
    groups = row.binlog.groups_up_to(position.file_number, position.position)
    is_waiting = np.zeros(len(groups), dtype=bool)
    for number in np.unique(groups[:, SID]).tolist():
        of_sid = groups[:, SID] == number
        is_waiting[of_sid] = waiting.contains_gnos(row.binlog.sids[number], groups[of_sid][:, GNO])
    count = int(is_waiting.sum())
    if is_waiting[len(groups) - count :].all() and count == waiting.count():
        judgement.holds(COMMIT_LAG_IS_SUFFIX)
        return
    if is_waiting.all():
        judgement.undecided(COMMIT_LAG_IS_SUFFIX, "more groups are in flight than are remembered")
        return
    # Everything missing that lies before the last executed group is a hole.
    last_executed = int(np.flatnonzero(~is_waiting)[-1])
    tail = groups[last_executed + 1 :]
    holes = waiting - GtidSet.from_groups(row.binlog.sids, tail[:, SID], tail[:, GNO])
    row.history.known_holes = row.history.known_holes | holes
    executed_row = groups[last_executed]
    executed = f"{row.binlog.sids[int(executed_row[SID])]}:{int(executed_row[GNO])}"
    judgement.broken(
        COMMIT_LAG_IS_SUFFIX,
        at=str(holes.first(3)),
        sentence=f"{holes.first(3)} is logged before {executed}, which is executed, but is not "
        "executed itself, though commits are ordered.",
        observed=row.state.executed,
        observed_in="gtid_executed of log_status",
        expected=f"{holes.first(3)} before {executed}",
        expected_in="order of the binary log",
        witness=holes.first(10),
    )


def _judge_settled(row: Row, missing: GtidSet) -> None:
    history, judgement = row.history, row.judgement
    due = [gtids for ts, gtids in history.unsettled if row.ts - ts >= SETTLE_US]
    history.unsettled = [(ts, g) for ts, g in history.unsettled if row.ts - ts < SETTLE_US]
    lost = GtidSet.EMPTY
    for gtids in due:
        lost = lost | (gtids & missing)
    lost = lost - history.lost
    in_flight = lost & _behind_last_executed(row)
    lost = lost - in_flight
    if lost:
        history.lost = history.lost | lost
        judgement.broken(
            LOGGED_EVENTUALLY_EXECUTED,
            at=str(lost.first(3)),
            sentence=f"{lost.first(3)} was logged more than {SETTLE_US // 1_000_000} s ago and is "
            "still not executed.",
            observed=row.state.executed,
            observed_in="gtid_executed of log_status",
            expected=lost,
            expected_in="binary log at an earlier row",
            witness=lost.first(10),
        )
    elif in_flight:
        judgement.undecided(
            LOGGED_EVENTUALLY_EXECUTED,
            "commits stand still behind the last executed group (a source that waits for a "
            "semi-synchronous replica, a stalled disk)",
        )
    elif missing:
        judgement.undecided(LOGGED_EVENTUALLY_EXECUTED, "logged groups still have time to settle")
    else:
        judgement.holds(LOGGED_EVENTUALLY_EXECUTED)
    pending = missing - history.lost
    if pending and len(history.unsettled) < UNSETTLED_MAX:
        history.unsettled.append((row.ts, pending))


def _behind_last_executed(row: Row) -> GtidSet:
    """The remembered groups up to P behind the last one that is executed."""
    position, executed, binlog = row.state.position, row.state.executed, row.binlog
    if position is None or executed is None:
        return GtidSet.EMPTY
    groups = binlog.groups_up_to(position.file_number, position.position)
    is_executed = np.zeros(len(groups), dtype=bool)
    for number in np.unique(groups[:, SID]).tolist():
        of_sid = groups[:, SID] == number
        is_executed[of_sid] = executed.contains_gnos(binlog.sids[number], groups[of_sid][:, GNO])
    done = np.flatnonzero(is_executed)
    tail = groups[int(done[-1]) + 1 :] if len(done) else groups
    return GtidSet.from_groups(binlog.sids, tail[:, SID], tail[:, GNO])


# Purged


def _judge_purged(row: Row) -> None:
    state, history, judgement = row.state, row.history, row.judgement
    purged = state.purged
    rules = (PURGED_WITHIN_EXECUTED, PURGED_MATCHES_OLDEST_FILE, PURGED_MONOTONE)
    if purged is None:
        for rule in rules:
            judgement.undecided(rule, "gtid_purged was not read, or could not be read")
        return
    _judge_table_only(row, purged)
    if state.executed is None:
        judgement.undecided(PURGED_WITHIN_EXECUTED, UNREADABLE)
    elif purged <= state.executed:
        judgement.holds(PURGED_WITHIN_EXECUTED)
    else:
        excess = purged - state.executed
        judgement.broken(
            PURGED_WITHIN_EXECUTED,
            sentence=f"{excess.first(3)} is purged, but was never executed.",
            observed=purged,
            observed_in="@@gtid_purged",
            expected=f"within {state.executed}",
            expected_in="gtid_executed of log_status",
            witness=excess.first(10),
        )
    before, history.had_binlog = history.had_binlog, state.has_binlog
    if history.log_bin_changed or (before is not None and before != state.has_binlog):
        history.purged = None
        history.log_bin_changed = False
    if falls(history.fallen, "purged", purged, history.purged) and history.purged is not None:
        lost = history.purged - purged
        judgement.broken(
            PURGED_MONOTONE,
            at=str(lost.first(3)),
            sentence=f"{lost.first(3)} was purged at an earlier row and is not any more.",
            observed=purged,
            observed_in="@@gtid_purged of this collection",
            expected=history.purged,
            expected_in="@@gtid_purged of the last accepted row",
            witness=lost.first(10),
        )
    else:
        judgement.holds(PURGED_MONOTONE)
    _judge_oldest_file(row, purged)


def _judge_table_only(row: Row, purged: GtidSet) -> None:
    table_only = row.binlog.table_only
    row.binlog.table_only = GtidSet.EMPTY
    unexplained = table_only - purged
    if unexplained:
        row.judgement.broken(
            PREVIOUS_GTIDS_CONTINUITY,
            at=str(unexplained.first(3)),
            sentence=f"A Previous_gtids holds {unexplained.first(3)}, which no file before logged "
            "and which is not purged.",
            observed=table_only,
            observed_in="PREVIOUS_GTIDS without the groups of the files before",
            expected=f"within {purged}",
            expected_in="@@gtid_purged",
            witness=unexplained.first(10),
        )


def _judge_oldest_file(row: Row, purged: GtidSet) -> None:
    state, binlog, judgement = row.state, row.binlog, row.judgement
    rule = PURGED_MATCHES_OLDEST_FILE
    if state.has_binlog is False:
        judgement.holds(rule)
        return
    if state.binary_logs_changed:
        judgement.undecided(rule, "the list of binary logs changed while it was read")
        return
    oldest = binlog.oldest_file
    if state.binary_logs:
        oldest = parse_log_file_name(state.binary_logs[0][0])[1]
    previous = None if oldest is None else binlog.previous.get(oldest)
    if previous is None or oldest is None:
        judgement.undecided(rule, "the PREVIOUS_GTIDS of the oldest file was not seen")
        return
    absent = previous - purged
    extra = purged - previous
    wrong = extra & binlog.grouped.freeze()
    if state.executed is not None:
        wrong = wrong | (extra - state.executed)
    before, row.history.oldest_file = row.history.oldest_file, oldest
    if not absent and not wrong:
        judgement.holds(rule)
        return
    if not state.binary_logs_confirmed and (state.binary_logs or oldest != before):
        judgement.undecided(
            rule, "a purge may lie between the readings: the list of binary logs was not read twice"
        )
        return
    name = format_log_file_name(binlog.base_name or "", oldest)
    judgement.broken(
        rule,
        sentence=f"The oldest file kept, {name}, begins after {absent.first(3)}, which is not "
        "purged."
        if absent
        else f"{wrong.first(3)} counts as purged, but is still in a file kept or never was "
        "executed.",
        observed=purged,
        observed_in="@@gtid_purged",
        expected=previous,
        expected_in=f"Previous_gtids of {name}",
        witness=(absent or wrong).first(10),
    )


def _judge_file_list(row: Row) -> None:
    logs = row.state.binary_logs
    if logs is None:
        row.judgement.undecided(BINLOG_FILES_FORM_RANGE, "the list of binary logs was not read")
        return
    names = [parse_log_file_name(name) for name, _ in logs]
    for (base_before, before), (base_name, number) in pairwise(names):
        if (base_before, before + 1) == (base_name, number):
            continue
        absent = format_log_file_name(base_before, before + 1)
        row.judgement.broken(
            BINLOG_FILES_FORM_RANGE,
            at=absent,
            sentence=f"The list of binary logs goes from number {before} to {number}.",
            observed=f"{logs[0][0]} … {logs[-1][0]} without {absent}",
            observed_in="SHOW BINARY LOGS",
            expected=absent,
            expected_in="one range of numbers",
            witness=absent,
        )
        return
    row.judgement.holds(BINLOG_FILES_FORM_RANGE)


def _judge_table(row: Row) -> None:
    state, judgement = row.state, row.judgement
    if state.gtid_table is None or state.executed is None:
        judgement.undecided(GTID_TABLE_WITHIN_EXECUTED, "mysql.gtid_executed was not read")
        return
    excess = state.gtid_table - state.executed
    if excess and (state.owned is None or state.prepared_xa is None):
        judgement.undecided(
            GTID_TABLE_WITHIN_EXECUTED, "gtid_owned or the prepared XA transactions were not read"
        )
        return
    excess = excess - (state.owned or GtidSet.EMPTY) - (state.prepared_xa or GtidSet.EMPTY)
    if not excess:
        judgement.holds(GTID_TABLE_WITHIN_EXECUTED)
        return
    judgement.broken(
        GTID_TABLE_WITHIN_EXECUTED,
        sentence=f"mysql.gtid_executed holds {excess.first(3)}, which is neither executed nor "
        "owned nor prepared.",
        observed=state.gtid_table,
        observed_in="mysql.gtid_executed",
        expected=state.executed,
        expected_in="gtid_executed, gtid_owned and prepared XA",
        witness=excess.first(10),
    )


# Baselines

_POSITION_RULES = (
    SNAPSHOT_POSITION_WITHIN_FILE,
    SNAPSHOT_POSITION_ON_GROUP_BOUNDARY,
    SNAPSHOT_POSITION_MONOTONE,
)
_EXECUTED_RULES = (
    EXECUTED_WITHIN_LOGGED,
    COMMIT_LAG_BOUNDED,
    COMMIT_LAG_IS_SUFFIX,
    OWNED_DISJOINT_FROM_EXECUTED,
    EXECUTED_MONOTONE,
    EXECUTED_GROWTH_EXPLAINED,
    RECOVERED_GTIDS_COMPLETE,
)
_PURGED_RULES = (PURGED_WITHIN_EXECUTED, PURGED_MATCHES_OLDEST_FILE, PURGED_MONOTONE)


def _receives_own(row: Row) -> bool:
    """Whether GTIDs of the own UUID come through a channel: then their order is not ours."""
    own = row.server.server_uuid
    return own is not None and any(
        relay.received_ever.freeze().restrict(own) for relay in row.relays.values()
    )


def _accept(row: Row) -> None:
    """Values that failed no tier become baselines; the others are withheld from tier 4 (R1)."""
    state, history, judgement = row.state, row.history, row.judgement
    if judgement.is_broken(*_POSITION_RULES):
        state.position = None
    elif state.position is not None:
        history.position = state.position
    if state.executed is not None and not judgement.is_broken(*_EXECUTED_RULES):
        if state.owned is not None and not _receives_own(row):
            used = state.executed | state.owned | (state.purged or GtidSet.EMPTY)
            row.binlog.watch_density(used, state.owned)
        history.grown = None if history.executed is None else (history.executed, state.executed)
        history.executed = state.executed
    else:
        history.grown = None
        if not judgement.is_broken(*(r for r in _EXECUTED_RULES if r is not EXECUTED_MONOTONE)):
            state.fallen = state.executed
        state.executed = None
    if judgement.is_broken(*_PURGED_RULES):
        state.purged = None
    elif state.purged is not None:
        history.purged = state.purged
        history.assigned = GtidSet.EMPTY
