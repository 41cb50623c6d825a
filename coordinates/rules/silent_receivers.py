"""Tier 4: does a receiver that is connected receive what its source logs?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tallystick.coordinates.audit.comparison import ChannelRow
from tallystick.coordinates.audit.timeline_file import PositionKind
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
from tallystick.coordinates.rules.source_coordinates import SOURCE_BINLOG_UNKNOWN, kind_at
from tallystick.coordinates.rules.statements import RECEIVED, REPLICA_STATUS
from tallystick.coordinates.values.binlog import format_log_file_name, parse_log_file_name
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.audit.comparison import Coordinates
    from tallystick.coordinates.audit.instance_timeline import InstanceTimeline
    from tallystick.coordinates.audit.timeline_snapshot import Snapshot

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
        "the source is not observed, or its journal is not known up to the replica's row, or"
        " not remembered as of then, or what is in it where a channel by position has read to."
        " It holds for a receiver that LOCK BINLOG FOR BACKUP holds back, as far as"
        " `backup_lock` shows that, for one whose applier has not executed all that was"
        " received, as it may wait for space (relay_log_space_limit), for one that ignores"
        " servers by their ids, and for GTIDs that a source gives out again after RESET BINARY"
        " LOGS AND GTIDS"
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
        "silent_without_gtids": Case(
            "The receiver is connected and has received nothing in the {waited:seconds} since"
            " instance {source} has had groups without GTIDs after {file}:{position}.",
            "nothing after {file}:{position}",
            "relay log of the channel",
            "groups up to {end}",
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
    now = Standstill(row.read, row.relay, row.received_count, state.lineage, state.logged)
    still = against.memory.standstill
    if still is None or not still.goes_on(now):
        return against.remember(HOLDS, standstill=now, reported=GtidSet.EMPTY)
    # With what its logs have shown the row would be an old one.
    owed = (still.owed or state.logged - still.logged) - row.has - row.seen
    owed_ts = (still.owed_ts or state.ts) if owed else 0
    unread = _has_unread(row, source, state)
    unread_ts = (still.unread_ts or state.ts) if unread is True else 0
    still = replace(still, owed=owed, owed_ts=owed_ts, unread_ts=unread_ts)
    since = [moment for moment in (owed_ts, unread_ts) if moment]
    waited = ts - against.uncertain_us - min(since, default=ts)
    if waited < SILENT_US_MAX or not _has_applied_all(row):
        answer = unread if isinstance(unread, Undecided) else HOLDS
        return against.remember(answer, standstill=still)
    file, position = row.read
    shown = {"source": source.instance_id, "file": file, "position": position, "waited": waited}
    at = f"{file}:{position}"
    if owed_ts != min(since):
        if still.is_reported:
            return against.remember(STILL_BROKEN, standstill=still)
        end = "{}:{}".format(*_end(state))
        broken = Broken("silent_without_gtids", witness=end, at=at, end=end, **shown)
        return against.remember(broken, standstill=replace(still, is_reported=True))
    if owed <= against.memory.reported:
        return against.remember(STILL_BROKEN, standstill=still)
    broken = Broken("silent", witness=owed, at=at, owed=owed, **shown)
    return against.remember(broken, standstill=still, reported=owed)


def _has_applied_all(row: ChannelRow) -> bool:
    sets = row.retrieved, row.gtid_executed
    return sets[0] is not None and sets[1] is not None and sets[0] <= sets[1]


def _end(state: Snapshot) -> Coordinates:
    return format_log_file_name(state.base_name or "", state.file_number), state.end


def _has_unread(row: ChannelRow, source: InstanceTimeline, state: Snapshot) -> bool | Undecided:
    """Whether groups without GTIDs follow what was read, all of which is executed."""
    if row.auto_position or row.read is None or row.executed != row.read or row.former:
        return False
    if state.base_name is None:
        return Undecided(SOURCE_BINLOG_UNKNOWN)
    if row.read == _end(state):
        return False
    kind = kind_at(source, state, row.read, since=row.at.ts)
    if kind not in (PositionKind.GROUP_END, PositionKind.OUTSIDE):
        return kind if isinstance(kind, Undecided) else False
    read = parse_log_file_name(row.read[0])[1], row.read[1]
    known = source.runs_until(state, read)
    logged = source.runs_until(state, (state.file_number, state.end))
    return int(logged.length[logged.sid < 0].sum()) > int(known.length[known.sid < 0].sum())
