"""Tier 4: does a receiver that is connected receive what its source logs?"""

from __future__ import annotations

from dataclasses import replace

from tallystick.coordinates.audit.comparison import ChannelRow
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.between import (
    STILL_BROKEN,
    TOO_FAR_BEHIND,
    Against,
    Compared,
    Standstill,
    between,
    wait_or_give_up,
)
from tallystick.coordinates.rules.families import Family
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, Undecided
from tallystick.coordinates.rules.registry import Case
from tallystick.coordinates.rules.statements import RECEIVED, REPLICA_STATUS
from tallystick.coordinates.values.gtid import GtidSet

SILENT_US_MAX = 120_000_000
"""Twice the default of replica_net_timeout, after which a receiver that gets nothing, not even a
heartbeat, connects anew."""


@between(
    ChannelRow,
    number=151,
    tier=4,
    family=Family.THREADS,
    severity=Severity.ERROR,
    heals="held",
    claim=(
        "A receiver that is connected has received something two minutes after its source has"
        " logged what the replica lacks."
    ),
    why=(
        "A source sends each event as soon as it is logged, and the receiver writes it into the"
        " relay log at once. Where the relay log does not grow, the connection is dead and nobody"
        " has noticed: the replica shows Yes and no error."
    ),
    undecided_when=(
        "the source is not observed, or its journal is not known up to the replica's row, or not"
        " remembered as of then. It holds for a receiver that LOCK BINLOG FOR BACKUP holds back, as"
        " far as `backup_lock` shows that, for one whose applier has not executed all that was"
        " received, as it may wait for space (relay_log_space_limit), for a channel that leaves out"
        " groups, for groups without GTIDs, and for those that a source gives out again after RESET"
        " BINARY LOGS AND GTIDS"
    ),
    sources=("MySQL manual: replica_net_timeout; SOURCE_HEARTBEAT_PERIOD",),
    remedy=(
        "STOP REPLICA and START REPLICA for the channel: it connects anew, and shows an error if"
        " the source cannot send what it needs. Look for a full disk on the replica, and for"
        " something between the servers that drops packets; under Percona's LOCK BINLOG FOR BACKUP"
        " a receiver waits as well. Until then do not fail over to this replica."
    ),
    verify=(RECEIVED, REPLICA_STATUS),
    cases={
        "silent": Case(
            "The receiver is connected and has received nothing in the {waited:seconds} since"
            " instance {source} logged {owed:gtids}.",
            "nothing after {file}:{position}",
            "relay log of the channel",
            "{owed:gtids}",
            "binary log of instance {source}",
        ),
    },
)
def receiver_not_silent(row: ChannelRow, against: Against) -> Compared:
    """The relay log stays as it is, to the byte, while the source goes on."""
    source, ts = against.source, row.at.ts
    state = source.states.first_since(ts)
    if state is None:
        return wait_or_give_up(source, ts)
    if source.states.has_forgotten(ts):
        return Undecided(TOO_FAR_BEHIND, source=source.instance_id)
    is_receiving = row.is_connected and not row.is_held_back
    if not is_receiving or row.read is None or row.relay is None or row.has is None:
        return against.remember(HOLDS, standstill=None)
    now = Standstill(row.read, row.relay, state.lineage, state.logged)
    still = against.memory.standstill
    if still is None or not still.goes_on(now):
        return against.remember(HOLDS, standstill=now, reported=GtidSet.EMPTY)
    # With what its logs have shown the row would be an old one.
    owed = (still.owed or state.logged - still.logged) - row.has - row.seen
    owed_ts = still.owed_ts if still.owed else state.ts
    still = replace(still, owed=owed, owed_ts=owed_ts if owed else 0)
    waited = ts - against.uncertain_us - owed_ts
    if not owed or waited < SILENT_US_MAX or not _has_applied_all(row):
        return against.remember(HOLDS, standstill=still)
    if owed <= against.memory.reported:
        return against.remember(STILL_BROKEN, standstill=still)
    broken = Broken(
        "silent",
        witness=owed,
        at=f"{row.read[0]}:{row.read[1]}",
        waited=waited,
        owed=owed,
        source=source.instance_id,
        file=row.read[0],
        position=row.read[1],
    )
    return against.remember(broken, standstill=still, reported=owed)


def _has_applied_all(row: ChannelRow) -> bool:
    sets = row.retrieved, row.gtid_executed
    return sets[0] is not None and sets[1] is not None and sets[0] <= sets[1]
