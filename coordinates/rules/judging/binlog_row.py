"""Judging a row's binary log coordinate and GTID sets (invariants 15, 20-27, 41-45, 49, 50, 63)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tallystick.coordinates.rules.executed_set import (
    executed_growth_explained,
    executed_monotone,
    executed_within_logged,
    owned_disjoint_from_executed,
    recovered_gtids_complete,
)
from tallystick.coordinates.rules.history import (
    PURGED_MONOTONE,
    SNAPSHOT_POSITION_MONOTONE,
)
from tallystick.coordinates.rules.judging.binlog_place import (
    boundary_before,
    judge_position,
    place_is_undecided,
)
from tallystick.coordinates.rules.judging.commit_lag import judge_lag
from tallystick.coordinates.rules.judging.executed_set import judge_executed
from tallystick.coordinates.rules.judging.purged_set import (
    judge_file_list,
    judge_gtid_table,
    judge_purged,
)
from tallystick.coordinates.rules.snapshot import (
    COMMIT_LAG_BOUNDED,
    COMMIT_LAG_IS_SUFFIX,
    PURGED_MATCHES_OLDEST_FILE,
    PURGED_WITHIN_EXECUTED,
    SNAPSHOT_POSITION_ON_GROUP_BOUNDARY,
    SNAPSHOT_POSITION_WITHIN_FILE,
)
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.audit.row_evidence import Row


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
    logged = judge_position(row)
    boundary = None if place_is_undecided(row) else boundary_before(row)
    missing = judge_executed(row, logged)
    judge_lag(row, logged, missing)
    judge_purged(row)
    judge_file_list(row)
    judge_gtid_table(row)
    _accept(row)
    return BinlogView(logged, boundary, None if missing is None else missing.count())


# Baselines

_POSITION_RULES = (
    SNAPSHOT_POSITION_WITHIN_FILE,
    SNAPSHOT_POSITION_ON_GROUP_BOUNDARY,
    SNAPSHOT_POSITION_MONOTONE,
)
_EXECUTED_RULES = (
    executed_within_logged,
    COMMIT_LAG_BOUNDED,
    COMMIT_LAG_IS_SUFFIX,
    owned_disjoint_from_executed,
    executed_monotone,
    executed_growth_explained,
    recovered_gtids_complete,
)
_PURGED_RULES = (PURGED_WITHIN_EXECUTED, PURGED_MATCHES_OLDEST_FILE, PURGED_MONOTONE)


def _receives_own(row: Row) -> bool:
    """Whether GTIDs of the own UUID come through a channel: then their order is not ours."""
    own = row.server.server_uuid
    received = [relay.received_ever.freeze() for relay in row.relays.values()]
    received += [c.retrieved for c in row.state.channels.values() if c.retrieved is not None]
    return own is not None and any(gtids.restrict(own) for gtids in received)


def _accept(row: Row) -> None:
    """Values that failed no tier become baselines; the others are withheld from tier 4 (R1)."""
    state, history, judgement = row.state, row.baselines, row.judgement
    if judgement.is_broken(*_POSITION_RULES):
        state.position = None
    elif state.position is not None:
        history.position = state.position
    if state.executed is not None and not judgement.is_broken(*_EXECUTED_RULES):
        if _receives_own(row):
            row.binlog.own_gnos.forget_left_out()
        elif state.owned is not None:
            used = state.executed | state.owned | (state.purged or GtidSet.EMPTY)
            row.binlog.watch_own_gnos(used, state.owned)
        history.grown = None if history.executed is None else (history.executed, state.executed)
        history.executed = state.executed
    else:
        history.grown = None
        if not judgement.is_broken(*(r for r in _EXECUTED_RULES if r is not executed_monotone)):
            state.fallen = state.executed
        state.executed = None
    if judgement.is_broken(*_PURGED_RULES):
        state.purged = None
    elif state.purged is not None:
        history.purged = state.purged
        history.assigned = GtidSet.EMPTY
