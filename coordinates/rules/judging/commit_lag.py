"""Judging what is logged and not executed yet: bounded, a suffix of the log, settled in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tallystick.coordinates.audit.baselines import SETTLE_US, UNSETTLED_MAX
from tallystick.coordinates.logs.event_window import GNO, SID
from tallystick.coordinates.results import ObservationCode
from tallystick.coordinates.rules import observations
from tallystick.coordinates.rules.history import (
    LOGGED_EVENTUALLY_EXECUTED,
)
from tallystick.coordinates.rules.snapshot import (
    COMMIT_LAG_BOUNDED,
    COMMIT_LAG_IS_SUFFIX,
)
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.audit.row_evidence import Row


def judge_lag(row: Row, logged: GtidSet | None, missing: GtidSet | None) -> None:
    """Judge L(P) - X, which ``missing`` is; None where the journal cannot tell."""
    history, judgement, server = row.baselines, row.judgement, row.server
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
            observations.ROW_TORN,
            at=row.collection_id,
            position=row.state.position,
            gtids=missing,
            count=missing.count(),
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
    row.baselines.known_holes = row.baselines.known_holes | holes
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
    history, judgement = row.baselines, row.judgement
    due = [gtids for ts, gtids in history.unsettled if row.ts - ts >= SETTLE_US]
    history.unsettled = [(ts, g) for ts, g in history.unsettled if row.ts - ts < SETTLE_US]
    lost = GtidSet.EMPTY
    for gtids in due:
        lost = lost | (gtids & missing)
    lost = lost - history.lost
    in_flight = lost & _behind_last_executed(row) if lost else GtidSet.EMPTY
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
