"""The GTIDs of a replica and of its sources: received, executed, purged."""

from __future__ import annotations

from itertools import chain, takewhile
from typing import TYPE_CHECKING

from tallystick.coordinates.audit.comparison import ChannelRow, ReplicaExecuted
from tallystick.coordinates.audit.timeline_file import PositionKind
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.between import (
    AMBIGUOUS,
    LOG_UNKNOWN_THEN,
    NOT_REACHED,
    STILL_BROKEN,
    Against,
    Compared,
    between,
    first_of,
    groups_after,
    is_older_than_lineage,
    wait_or_give_up,
)
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, Undecided, Waiting
from tallystick.coordinates.rules.registry import Case, reason
from tallystick.coordinates.rules.source_coordinates import REPLICA_SET_UNKNOWN, kind_at
from tallystick.coordinates.rules.statements import (
    BINARY_LOGS,
    RECEIVED,
    REPLICA_STATUS,
    fetched,
    groups,
    not_executed,
    not_purged,
)
from tallystick.coordinates.values.binlog import format_log_file_name, parse_log_file_name
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallystick.coordinates.audit.instance_timeline import InstanceTimeline
    from tallystick.coordinates.audit.timeline_snapshot import Snapshot

_READ = (PositionKind.GROUP_END, PositionKind.OUTSIDE, PositionKind.EVENT_END)
"""What is where a receiver has read up to."""
RESET_EVERYWHERE_US = 5_000_000
"""So long it may take to reset a source and then its replicas."""

RETRIEVED_UNKNOWN = reason("retrieved_unknown", "Retrieved_Gtid_Set is not known", Lack.VALUE)
SOURCE_UUID_UNKNOWN = reason(
    "source_uuid_unknown", "the source's server_uuid is not known", Lack.SERVER
)
SOURCE_JUST_RESET = reason(
    "source_just_reset",
    "the source began a new binary log and logged none of the retrieved GTIDs",
    Lack.LINEAGE,
)
MAY_ASSIGN_GTIDS = reason(
    "source_logs_anonymous",
    "the source logs anonymous groups, to which the replica may have assigned GTIDs",
    Lack.SETTING,
)
OF_FORMER_SOURCE = reason(
    "executed_of_former_source",
    "GTIDs of {servers:list} were executed before the journal began: a channel that was gone by"
    " then may have brought them",
    Lack.SERVER,
)
SOURCE_EXECUTED_UNKNOWN = reason(
    "source_executed_unknown",
    "not everything that the source has executed is known",
    Lack.SOURCE_LATER,
)
ASSIGNED_THEN_FORGOTTEN = reason(
    "assigned_then_forgotten",
    "SET gtid_purged gave the replica GTIDs of its source, and which of them the source had given"
    " out by then is not remembered any more",
    Lack.MEMORY,
)
UPSTREAM_EXECUTED_UNKNOWN = reason(
    "upstream_executed_unknown",
    "not everything that the source's sources have executed is known",
    Lack.SOURCE_LATER,
)
SOURCE_PURGED_UNKNOWN = reason(
    "source_purged_unknown", "gtid_purged of the source is not known", Lack.SOURCE_LATER
)
PURGED_SHOWN_LATER = reason(
    "source_purged_shown_later",
    "what the source had purged when the replica's row was read is not known: only a later row of"
    " the source shows its gtid_purged, with GTIDs that the replica lacks",
    Lack.SOURCE_LATER,
)
PURGED_TAKEN_BACK = reason(
    "source_purged_taken_back",
    "the source's journal broke off (a gap, a crash, RESET) before a row showed its gtid_purged",
    Lack.JOURNAL,
)
SOURCE_LOG_ENDED = reason(
    "source_log_ended",
    "the source's binary log began anew at about the time of the replica's row: what was purged"
    " before may not have been needed any more",
    Lack.LINEAGE,
)
PURGED_UNDER_WAY = reason(
    "source_purged_under_way",
    "the receiver is connected, and its source has purged {missing:gtids}: what it has sent and the"
    " replica has not written yet may be under way",
    Lack.NEXT_ROW,
)
FILE_UNDER_WAY = reason(
    "source_file_under_way",
    "the receiver is connected, and its source has purged the file that it reads: what it has sent"
    " and the replica has not written yet may be under way",
    Lack.NEXT_ROW,
)
FILES_NOT_SHOWN = reason(
    "source_files_not_shown",
    "no row of the source has come since that would show how far its purge went, which stops at a"
    " file that is in use",
    Lack.SOURCE_LATER,
)
PURGED_NOT_SHOWN = reason(
    "source_purged_not_shown",
    "the source's gtid_purged of that time is not known: no row of it shows one, or what its row"
    " shows is contradicted",
    Lack.SOURCE_LATER,
)

_RECEIVED = (
    "{retrieved:gtids}",
    "Retrieved_Gtid_Set, GTIDs of the source",
    "a subset of {logged:gtids}",
    "binary log of instance {source}, and its SET gtid_purged",
)


@between(
    ChannelRow,
    number=66,
    tier=4,
    family=Family.TWO_HISTORIES,
    severity=Severity.CRITICAL,
    heals="held",
    claim=(
        "Of the source's own GTIDs a channel has retrieved only those that the source has"
        " logged in its present binary log lineage, for the same transactions."
    ),
    why=(
        "A group reaches a replica only through the source's binary log, and the source never"
        " takes one back, unless it lost the end of its log in a crash (sync_binlog other than"
        " 1) or gave its numbers out again after RESET BINARY LOGS AND GTIDS. Then replica and"
        " source have other data under one GTID, or the replica is ahead of its source."
    ),
    undecided_when=(
        "the source is not observed, or its journal is not known without a gap up to the"
        " replica's row; or the source began a new lineage less than 5 seconds ago and has not"
        " logged anything under the retrieved GTIDs: its replicas may be about to be reset"
    ),
    sources=(
        "WL#9452, F-3",
        "MySQL manual: ER_SOURCE_FATAL_ERROR_READING_BINLOG (1236), sync_binlog",
    ),
    remedy=(
        "Keep the replica that has more as evidence, find what the extra groups changed, and"
        " rebuild the side that is wrong; set sync_binlog=1 and"
        " innodb_flush_log_at_trx_commit=1 on sources."
    ),
    verify=(groups(on="{source}"), RECEIVED),
    cases={
        "not_in_source_log": Case(
            "The replica has retrieved {witness:gtids} from instance {source}, whose binary log"
            " does not hold {witness:it|them}.",
            *_RECEIVED,
        ),
        "other_transaction": Case(
            "The replica has retrieved {witness:gtids} from instance {source}, whose binary log has"
            " given {witness:it to another transaction|them to other transactions}.",
            *_RECEIVED,
            heals="data",
        ),
    },
)
def received_within_source_logged(row: ChannelRow, against: Against) -> Compared:
    """What was retrieved of the source's own GTIDs, the source has logged."""
    source, ts = against.source, row.at.ts
    if row.retrieved is None:
        return Undecided(RETRIEVED_UNKNOWN)
    states = source.states.since(ts)
    state = next((s for s in states if s.is_complete and s.shows_executed), None)
    if state is None:
        return wait_or_give_up(source, ts)
    server_uuid = source.uuid_at(ts)
    if server_uuid is None:
        return Undecided(SOURCE_UUID_UNKNOWN)
    if against.fleet.is_ambiguous(source, ts):
        return Undecided(AMBIGUOUS)
    own = row.retrieved.restrict(server_uuid)
    # After RESET the numbers begin again: a number that both have may mean two transactions.
    origins = against.fleet.origins
    disputed = own & origins.differing(row.instance_id, ts, source.instance_id, state.ts)
    if disputed and row.server_id is not None:
        # The replica's own transaction of that number was not retrieved from the source.
        disputed = disputed - origins.made_by(row.instance_id, disputed, ts, row.server_id)
    missing = (own - state.logged - state.declared) | disputed
    if not missing:
        return HOLDS
    if against.may_be_of_another_log(state, ts):
        return Undecided(LOG_UNKNOWN_THEN)
    is_older = is_older_than_lineage(row.retrieved_ts, state)
    if is_older and not disputed and own.isdisjoint(state.logged) and _is_young(state, against, ts):
        return Undecided(SOURCE_JUST_RESET)
    fresh = missing - against.memory.reported
    if not fresh:
        return STILL_BROKEN
    return against.report(
        fresh,
        Broken(
            "other_transaction" if fresh <= disputed else "not_in_source_log",
            witness=fresh,
            at=first_of(fresh),
            source=source.instance_id,
            retrieved=own,
            logged=(state.logged | state.declared).restrict(server_uuid),
        ),
    )


def _is_young(state: Snapshot, against: Against, ts: int) -> bool:
    """Whether the source began its lineage just now: its replicas may be about to follow."""
    if state.lineage_ts is None:
        return False
    return ts - against.uncertain_us - state.lineage_ts < RESET_EVERYWHERE_US


@between(
    ReplicaExecuted,
    number=67,
    tier=4,
    family=Family.ERRANT,
    severity=Severity.ERROR,
    heals="held",
    claim=(
        "Everything that a replica has executed is known to one of its sources, but for what"
        " it has retrieved of their own GTIDs, those that SET gtid_purged is known to have given"
        " it, and those of a channel that is gone."
    ),
    why=(
        "A replica gets GTIDs from its sources only; another one is a write made on the"
        " replica. It stays unseen until the replica becomes a source: then its groups flow to"
        " all others, or have been purged and stop them with error 1236. A number of the source"
        " that it has not given out yet, or gives out again after a RESET, will be taken for"
        " executed when it comes: 5 seconds after its binary log began anew, a source knows of"
        " its own GTIDs those that it has since."
    ),
    undecided_when=(
        "a source of the replica is not observed, its journal is not known without a gap up to"
        " the replica's row, or it logs anonymous groups, to which a channel with"
        " ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS gives GTIDs of the replica's own; or the GTIDs"
        " are of a server of which its sources have none, and were executed before the replica's"
        " journal began: a channel that was gone by then may have brought them. It has, where that"
        " server is observed and knows them; or SET gtid_purged gave it GTIDs of a source, and what"
        " that had given out by then is not remembered"
    ),
    sources=(
        "Vitess issue 17254",
        "MySQL manual: Restrictions on Replication with GTIDs; super_read_only",
    ),
    remedy=(
        "Look up the group in the replica's binary log. If all servers shall have its change, let"
        " the source fetch this very group, by a channel from the replica with"
        " SOURCE_AUTO_POSITION=1 that is removed afterwards; if not, rebuild the replica. An empty"
        " transaction under the GTID on the source ends this incident, and heals only where the"
        " replica's own one is empty as well: else the data still differ, which"
        " gtid_origin_agreement reports until the replica is rebuilt or somebody acknowledges it."
        " Set super_read_only on replicas."
    ),
    verify=(groups(), not_executed(on="{sources:list}")),
    cases={
        "not_of_source": Case(
            "The replica has executed {witness:gtids}, which its source {sources:list} has neither"
            " executed nor logged.",
            "{witness:gtids}",
            "gtid_executed of the replica, without GTIDs of its sources",
            "at least {witness:this GTID|these GTIDs}",
            "what {sources:list} has executed, logged or purged at that time or later",
            cure=fetched(on="{sources:list}"),
        ),
        "not_of_sources": Case(
            "The replica has executed {witness:gtids}, which its sources {sources:list} have"
            " neither executed nor logged.",
            "{witness:gtids}",
            "gtid_executed of the replica, without GTIDs of its sources",
            "at least {witness:this GTID|these GTIDs}",
            "what {sources:list} have executed, logged or purged at that time or later",
            remedy=(
                "Look up the group in the replica's binary log. A source that fetched it from here"
                " would fetch all that the other sources have sent as well: rebuild the replica"
                " from a backup or another replica of the same sources. Set super_read_only on"
                " replicas."
            ),
        ),
        "assigned_ahead": Case(
            "SET gtid_purged gave the replica {witness:gtids}, which {sources:its source|its"
            " sources} {sources:list} {sources:has|have} not given out yet: what comes under"
            " {witness:this number|these numbers} it will leave out.",
            "{witness:gtids}",
            "what SET gtid_purged gave the replica",
            "at least {witness:this GTID|these GTIDs}",
            "what {sources:list} {sources:has|have} executed, logged or purged at that time or"
            " later",
            remedy=(
                "The replica takes for executed what it will never apply: rebuild it by a clone or"
                " a restore. As long as the source has not given the numbers out, RESET BINARY LOGS"
                " AND GTIDS and SET gtid_purged with what the replica's data have is a cure as"
                " well; then acknowledge the incident."
            ),
            heals="data",
        ),
    },
)
def no_errant_gtids(row: ReplicaExecuted, against: Against) -> Compared:
    """What a replica has executed, one of its sources knows."""
    ts = row.at.ts
    assigned = _assigned_of_sources(row, against)
    rest = row.executed | assigned
    may_assign = is_of_another_log = False
    for source in against.sources:
        if against.fleet.is_ambiguous(source, ts):
            return Undecided(AMBIGUOUS)
        state = source.states.knowing(ts)
        if state is None:
            return Waiting(SOURCE_EXECUTED_UNKNOWN)
        for server_uuid in source.uuids_until(state.ts):
            rest = _without_retrieved(rest, row, server_uuid)
        if source.group_uuid is not None:
            rest = rest.without_uuid(source.group_uuid)
        rest = rest - state.logged - (state.beyond - _given_up(source, state, against, ts))
        if not rest:
            # What it had still to give out then, it may have given out since.
            is_later = assigned and any(one.states.has_forgotten(ts) for one in against.sources)
            return Undecided(ASSIGNED_THEN_FORGOTTEN) if is_later else HOLDS
        is_of_another_log |= against.may_be_of_another_log(state, ts)
        may_assign = may_assign or source.logs_anonymous(state)
    if row.group_uuid is not None:
        rest = rest.without_uuid(row.group_uuid)
    rest = _without_own_in_ring(rest, row, against)
    fresh = _without_upstreams(rest - against.memory.reported, row, against)
    if isinstance(fresh, Waiting):
        return fresh
    if not fresh:
        reported = _without_upstreams(rest & against.memory.reported, row, against)
        return STILL_BROKEN if isinstance(reported, Waiting) or reported else HOLDS
    if may_assign:
        return Undecided(MAY_ASSIGN_GTIDS)
    if is_of_another_log or _is_older_than_an_upstream(row, against):
        return Undecided(LOG_UNKNOWN_THEN)
    return _report_errant(fresh, rest & against.memory.reported, row, against)


def _report_errant(
    fresh: GtidSet, reported: GtidSet, row: ReplicaExecuted, against: Against
) -> Compared:
    """Of what no source knows, that which no channel can have brought before the journal began."""
    former = _of_former_sources(fresh, row, against)
    fresh = fresh - former
    if not fresh:
        unknown = _without_their_servers(former, row, against)
        if isinstance(unknown, Waiting):
            return unknown
        return _leave_former(unknown, reported, row, against)
    names = sorted(source.instance_id for source in against.sources)
    made_here = "not_of_source" if len(names) == 1 else "not_of_sources"
    found = tuple(
        Broken(
            case, witness=gtids, at=f"{first_of(gtids)} against {', '.join(names)}", sources=names
        )
        for case, gtids in (
            (made_here, fresh - row.assigned),
            ("assigned_ahead", fresh & row.assigned),
        )
        if gtids
    )
    return against.remember(found, reported=against.memory.reported | fresh)


def _leave_former(
    former: GtidSet, reported: GtidSet, row: ReplicaExecuted, against: Against
) -> Compared:
    """What came before the journal began is in doubt, but for what has been found beside it."""
    still = _without_upstreams(reported, row, against)
    if isinstance(still, Waiting) or still:
        return STILL_BROKEN
    return Undecided(OF_FORMER_SOURCE, servers=former.uuids()) if former else HOLDS


def _without_their_servers(
    former: GtidSet, row: ReplicaExecuted, against: Against
) -> GtidSet | Waiting:
    """GTIDs that the server has which numbered them were not made on the replica."""
    ts = row.at.ts
    for server in against.fleet.numbering(former.uuids(), ts):
        if server.instance_id == row.instance_id:
            continue
        state = server.states.knowing(ts)
        if state is not None:
            own = server.uuids_until(ts)
            has = state.logged | state.beyond
            former = former - GtidSet(chain.from_iterable(has.restrict(one) for one in own))
        elif not against.is_overdue:
            return Waiting(SOURCE_EXECUTED_UNKNOWN)
    return former


def _assigned_of_sources(row: ReplicaExecuted, against: Against) -> GtidSet:
    """What SET gtid_purged gave the replica of its sources' own GTIDs.

    Of other servers an operator may know more. Of these what no source has is still to come, and
    the replica will skip it.
    """
    uuids = (source.uuid_at(row.at.ts) for source in against.sources)
    return GtidSet(chain.from_iterable(row.assigned.restrict(uuid) for uuid in uuids if uuid))


def _of_former_sources(gtids: GtidSet, row: ReplicaExecuted, against: Against) -> GtidSet:
    """What a channel that was gone before the replica's journal began may have brought.

    Neither its own GTIDs nor those of its sources and theirs: they would have come from themselves.
    Nor those of a server of which its sources have others: that was their source too, as before a
    failover in which they had not yet received all.
    """
    ts, found = row.at.ts, gtids & row.before
    uuids = [row.server_uuid]
    for origin in (*against.sources, *against.fleet.upstreams(against.sources, ts)):
        uuids += origin.uuids_until(ts)
    for source in against.sources:
        state = source.states.knowing(ts)
        if state is not None:
            uuids += (state.logged | state.beyond).uuids()
    for server_uuid in uuids:
        if server_uuid is not None:
            found = found.without_uuid(server_uuid)
    return found


def _given_up(source: InstanceTimeline, state: Snapshot, against: Against, ts: int) -> GtidSet:
    """The source's own GTIDs that it knew until its binary log began anew, and knows no more.

    It gives these numbers out again, and who has them leaves out what comes under them. A row of
    the source after `ts` says what SET gtid_purged brought back.
    """
    if state.lineage_ts is None or _is_young(state, against, ts):
        return GtidSet.EMPTY
    server_uuid = source.uuid_at(state.ts)
    shown = next((s for s in source.states.since(ts) if s.is_complete and _has_row(s, ts)), None)
    if server_uuid is None or shown is None:
        return GtidSet.EMPTY
    return shown.beyond.restrict(server_uuid) - shown.logged - shown.declared


def _has_row(state: Snapshot, ts: int) -> bool:
    return state.row_ts is not None and state.row_ts >= ts


def _without_own_in_ring(rest: GtidSet, row: ReplicaExecuted, against: Against) -> GtidSet:
    """In a ring a replica's own writes are under way to its sources."""
    if not rest or row.server_uuid is None:
        return rest
    own, ts = rest.restrict(row.server_uuid), row.at.ts
    if own and any(against.fleet.is_upstream(row.instance_id, s, ts) for s in against.sources):
        return rest - own
    return rest


def _without_retrieved(rest: GtidSet, row: ReplicaExecuted, server_uuid: str) -> GtidSet:
    """What was retrieved of the source's own GTIDs: received_within_source_logged judges that."""
    if row.retrieved is None:
        return rest.without_uuid(server_uuid)
    return rest - row.retrieved.restrict(server_uuid)


def _without_upstreams(rest: GtidSet, row: ReplicaExecuted, against: Against) -> GtidSet | Waiting:
    """A replica moved to a source that lags has what that source is still to receive."""
    ts = row.at.ts
    for upstream in against.fleet.upstreams(against.sources, ts) if rest else ():
        if upstream.instance_id == row.instance_id:
            continue
        state = upstream.states.knowing(ts)
        if state is None:
            return Waiting(UPSTREAM_EXECUTED_UNKNOWN)
        rest = rest - state.logged - state.beyond
    return rest


def _is_older_than_an_upstream(row: ReplicaExecuted, against: Against) -> bool:
    """Whether the binary log that one of the sources' sources had then is not known."""
    ts = row.at.ts
    upstreams = against.fleet.upstreams(against.sources, ts)
    states = (u.states.knowing(ts) for u in upstreams if u.instance_id != row.instance_id)
    return any(s is not None and against.may_be_of_another_log(s, ts) for s in states)


@between(
    ChannelRow,
    number=70,
    tier=4,
    family=Family.PURGED_TOO_EARLY,
    severity=Severity.ERROR,
    heals="held",
    claim=(
        "Everything that a source counts as purged, by SET gtid_purged too, has been executed or"
        " retrieved by each of its replicas that use auto-positioning; of one that does not, every"
        " group after the position that it has read is in a file that is kept."
    ),
    why=(
        "On connecting a replica asks for all that it lacks; if any of it is in the source's"
        " gtid_purged the receiver stops with error 1236, whether a file held it or not, and only a"
        " copy of the data helps. By position it asks for a file, and stops if that is gone."
    ),
    undecided_when=(
        "the source is not observed, gtid_purged or the channel's retrieved set is not known,"
        " no row of the source comes before the replica's and what the next one shows goes"
        " beyond the replica, or the source's binary log began anew about then; or, of a channel by"
        " position, no row of the source comes after it; or the receiver is connected: a purge"
        " spares the files that are still to be sent, not what is under way. It holds where a"
        " channel by position filters, or what the source logged after that position is not known"
    ),
    sources=("WL#9211, note to F-2", "Flink CDC issue 1944", "MySQL manual: gtid_purged"),
    remedy=(
        "Clone or restore the replica from a server that has the data. If the source logs what it"
        " applies, keep its binary logs longer (binlog_expire_logs_seconds) than the longest lag of"
        " a replica; with log_replica_updates=OFF it never has these groups in a file, however long"
        " it keeps them: switch that on, or let the replica follow the source's source. What SET"
        " gtid_purged gave the source, give the replica too, if its data have it."
    ),
    verify=(
        not_purged(on="{source}"),
        not_executed(),
        BINARY_LOGS._replace(on="{source}", needs=("oldest",)),
        REPLICA_STATUS._replace(needs=("oldest",)),
    ),
    cases={
        "purged_and_missing": Case(
            "Instance {source} counts {witness:gtids} as purged, which its replica has neither"
            " executed nor retrieved.",
            "{purged:gtids}",
            "gtid_purged of instance {source}",
            "a subset of {has:gtids}",
            "gtid_executed and Retrieved_Gtid_Set of the replica",
        ),
        "file_purged": Case(
            "The receiver goes on at {file}:{position} of instance {source}, which has purged the"
            " files before {oldest}, and groups after that position with them.",
            "{file}:{position}",
            "Source_Log_File and Read_Source_Log_Pos of the replica",
            "a file from {oldest} on",
            "binary log files of instance {source}",
        ),
    },
)
def purged_not_needed(row: ChannelRow, against: Against) -> Compared:
    """What the source has purged, the replica has."""
    source, ts = against.source, row.at.ts
    if row.has is None:
        return Undecided(REPLICA_SET_UNKNOWN) if row.auto_position else HOLDS
    if source.states.first_since(ts) is None:
        return Waiting(NOT_REACHED)
    before = source.states.until(ts - against.uncertain_us)
    if before is not None and _is_file_gone(row, source, before):
        return _judge_file(row, against, before)
    if before is None or before.row_ts is None or before.purged is None:
        return _purged_by_next_row(source, row)
    purged = before.purged if row.is_connected else _purged_since(before, row, source)
    if not isinstance(purged, GtidSet):
        return purged
    missing = _needed(purged - row.has, row, source, before)
    if missing and _ended(before, source.states.since(ts)):
        return Undecided(SOURCE_LOG_ENDED)
    sure = missing - (before.logged - before.declared) if row.is_connected else missing
    if missing and not sure:
        return Undecided(PURGED_UNDER_WAY, missing=missing)
    missing = sure
    fresh = missing - against.memory.reported
    if not fresh:
        return against.nothing_new(missing)
    return against.report(
        fresh,
        Broken(
            "purged_and_missing",
            witness=fresh,
            at=first_of(fresh),
            source=source.instance_id,
            purged=purged,
            has=row.has,
        ),
    )


def _judge_file(row: ChannelRow, against: Against, before: Snapshot) -> Compared:
    """Of a channel that asks by position for a file that a record says is purged."""
    source, ts = against.source, row.at.ts
    if _ended(before, source.states.since(ts)):
        return Undecided(SOURCE_LOG_ENDED)
    if row.is_connected:
        return Undecided(FILE_UNDER_WAY)
    shown = _shown(source, ts)
    if shown is None:
        return _not_shown(source, ts)
    if not _is_file_gone(row, source, shown):
        return HOLDS
    return against.report_at((_file_purged(row, source, shown),))


def _purged_since(
    before: Snapshot, row: ChannelRow, source: InstanceTimeline
) -> GtidSet | Compared:
    """What a row before a replica's shows as purged, with the files purged in between."""
    assert before.purged is not None
    assert row.has is not None
    recorded = source.before_file(before.lineage, before.oldest) - before.purged
    if not _needed(recorded - row.has, row, source, before):
        return before.purged
    shown = _shown(source, row.at.ts)
    if shown is None:
        return _not_shown(source, row.at.ts)
    if shown.oldest != before.oldest:
        return Undecided(PURGED_SHOWN_LATER)
    return before.purged | (recorded & (shown.purged or GtidSet.EMPTY))


def _needed(
    missing: GtidSet, row: ChannelRow, source: InstanceTimeline, state: Snapshot
) -> GtidSet:
    """What a channel still asks for of what its source has purged and the replica lacks."""
    if row.auto_position or not missing:
        return missing
    # Files are purged from the oldest on: the first group that is kept is after all others.
    behind = (gtid for _, gtid in _behind_read(row, source, state))
    needed = takewhile(lambda gtid: bool(gtid) and gtid in missing, behind)
    return GtidSet.parse(",".join(filter(None, needed)))


def _behind_read(
    row: ChannelRow, source: InstanceTimeline, state: Snapshot
) -> Iterator[tuple[tuple[int, int], str | None]]:
    """The groups that a channel asks for by position, as far as known."""
    if row.ignores_servers or not row.read or not row.read[0] or "read" in row.former:
        return iter(())
    if kind_at(source, state, row.read, since=row.coordinates_ts) not in _READ:
        return iter(())
    return groups_after(source, state, parse_log_file_name(row.read[0])[1], row.read[1])


def _is_file_gone(row: ChannelRow, source: InstanceTimeline, state: Snapshot) -> bool:
    """Whether a channel asks by position for a group without a GTID that is purged."""
    if row.auto_position or not state.oldest:
        return False
    (number, _), gtid = next(_behind_read(row, source, state), ((state.oldest, 0), None))
    return gtid == "" and number < state.oldest


def _shown(source: InstanceTimeline, ts: int) -> Snapshot | None:
    """The first row since then: a purge stops at a file in use, and this shows up to where it came.

    None: there is none.
    """
    return next((s for s in source.states.since(ts) if (s.row_ts or 0) >= ts), None)


def _not_shown(source: InstanceTimeline, ts: int) -> Compared:
    lost = source.was_lost_before_answer(ts)
    return Undecided(PURGED_TAKEN_BACK) if lost else Waiting(FILES_NOT_SHOWN)


def _file_purged(row: ChannelRow, source: InstanceTimeline, state: Snapshot) -> Broken:
    assert row.read is not None
    assert state.base_name is not None
    file, position = row.read
    return Broken(
        "file_purged",
        witness=f"{file}:{position}",
        at=f"read {file}:{position}",
        file=file,
        position=position,
        source=source.instance_id,
        oldest=format_log_file_name(state.base_name, state.oldest),
    )


def _ended(before: Snapshot, since: Iterator[Snapshot]) -> bool:
    """Whether the log of a state may not have been the source's any more when a row was read.

    What had been purged of it was then needed by nobody. A log that begins anew has no name yet in
    the state of when that is noticed.
    """
    after = next(since)
    return after.lineage != before.lineage or (before.base_name is not None and not after.base_name)


def _purged_by_next_row(source: InstanceTimeline, row: ChannelRow) -> Compared:
    """No row shows what was purged by then: no more than what the next row of the source shows."""
    ts, has = row.at.ts, row.has
    assert has is not None
    for state in source.states.since(ts):
        if state.row_ts is None or state.row_ts < ts:
            continue
        if state.purged is None:
            return Undecided(SOURCE_PURGED_UNKNOWN) if row.auto_position else HOLDS
        if not _needed(state.purged - has, row, source, state):
            return HOLDS
        return Undecided(PURGED_SHOWN_LATER)
    if source.was_lost_before_answer(ts):
        return Undecided(PURGED_TAKEN_BACK)
    return Waiting(PURGED_NOT_SHOWN)
