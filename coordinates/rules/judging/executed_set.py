"""Judging a row's gtid_executed: within the log, growing, explained, recovered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.rules.history import (
    EXECUTED_GROWTH_EXPLAINED,
    EXECUTED_MONOTONE,
    RECOVERED_GTIDS_COMPLETE,
)
from tallystick.coordinates.rules.judging.row import UNREADABLE, falls
from tallystick.coordinates.rules.snapshot import (
    EXECUTED_WITHIN_LOGGED,
    OWNED_DISJOINT_FROM_EXECUTED,
)
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.rules.judging.row import Row


def judge_executed(row: Row, logged: GtidSet | None) -> GtidSet | None:
    """Judge X against L(P), U, O and the row before; returns L(P) - X, None unknown."""
    state, history, judgement = row.state, row.baselines, row.judgement
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
    history.unseen_channel_left = False
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
    state, history, judgement = row.state, row.baselines, row.judgement
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
    state, history, judgement, server = row.state, row.baselines, row.judgement, row.server
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
    if unseen or history.unseen_channel_left or server.server_uuid is None:
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


def judge_recovered(row: Row) -> None:
    """The first row of a boot holds everything that recovery found."""
    state, history, judgement = row.state, row.baselines, row.judgement
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
