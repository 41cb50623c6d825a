"""Who a server is, and which transaction a GTID names: what no two may share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tallystick.coordinates.audit.comparison import ChannelRow
from tallystick.coordinates.results import Finding, Severity
from tallystick.coordinates.rules.between import (
    NOT_REACHED,
    STILL_BROKEN,
    Against,
    Compared,
    between,
)
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import HOLDS, Answer, Broken, Undecided, Waiting
from tallystick.coordinates.rules.registry import Case, reason, rule
from tallystick.coordinates.rules.statements import (
    IDENTITY,
    IDENTITY_OF_OTHER,
    RECEIVED,
    groups,
)

if TYPE_CHECKING:
    from tallystick.coordinates.values.gtid import GtidSet

SERVER_UUID_UNKNOWN = reason("server_uuid_unknown", "a server_uuid is not known", Lack.SERVER)
SERVER_ID_UNKNOWN = reason("server_id_unknown", "a server_id is not known", Lack.SERVER)
ORIGINS_FORGOTTEN = reason(
    "origins_forgotten",
    "tallystick does not remember what another log has under {gtids:gtids}: so much came since",
    Lack.MEMORY,
)
ORIGINS_NOT_REACHED = reason(
    "origins_not_reached",
    "{gtids:gtids} {gtids:is another transaction|are other transactions} in the logs of {other},"
    " and the journals of both are not known up to then: one of the logs may have begun anew",
    Lack.SOURCE_LATER,
)
WRITTEN_TWICE = reason(
    "gtid_written_twice",
    "{gtids:gtids} {gtids:was|were} written twice ({first}; {second}), and without"
    " original_commit_timestamp nothing shows whether that is one transaction or two",
    Lack.SETTING,
)
APPLIED_EMPTY = reason(
    "applied_empty",
    "the applier has logged {gtids:gtids} as {gtids:an empty transaction|empty transactions}, with"
    " a change in the relay log: the change was there already, or is left out"
    " (replica_skip_errors, replica_exec_mode=IDEMPOTENT, a temporary table, the BLACKHOLE engine,"
    " a filter that the journal does not name)",
    Lack.SETTING,
)
_SERVER_ID = (
    "{server_id}",
    "server_id of the replica",
    "not {server_id}",
    "server_id of instance {other}",
)


@between(
    ChannelRow,
    number=65,
    tier=4,
    family=Family.IDENTITY,
    severity=Severity.CRITICAL,
    heals="held",
    claim="No two instances report one server_uuid.",
    why=(
        "server_uuid is made at the first start of a data directory and names the origin of"
        " GTIDs. With a copy of it two origins look like one: dump connections of equal UUIDs end"
        " each other, and GTIDs are given out twice."
    ),
    undecided_when="an instance has not reported its server_uuid",
    sources=("WL#9452, F-1.2.1", "MySQL manual: server_uuid"),
    remedy=(
        "Stop one of the two, remove auto.cnf from its data directory and start it again; look"
        " for GTIDs that both have given out."
    ),
    verify=(IDENTITY, IDENTITY_OF_OTHER),
    cases={
        "same_server_uuid": Case(
            "Instances {other} and {instance} both report the server_uuid {server_uuid}.",
            "{server_uuid}",
            "instance {instance}",
            "another server_uuid",
            "beside instance {other}",
        ),
    },
)
def server_uuid_unique(row: ChannelRow, against: Against) -> Compared:
    """A replica and its source; two of one UUID are found as soon as both have reported it."""
    source, ts = against.source, row.at.ts
    if source.states.first_since(ts) is None:
        return Waiting(NOT_REACHED)
    if source.instance_id == row.instance_id:
        return HOLDS  # its channel is wrong: source_is_another_server
    mine, theirs = against.fleet.uuid_of(row.instance_id, ts), source.uuid_at(ts)
    if mine is None or theirs is None:
        return Undecided(SERVER_UUID_UNKNOWN)
    return STILL_BROKEN if mine == theirs else HOLDS


@between(
    ChannelRow,
    number=94,
    tier=4,
    family=Family.IDENTITY,
    severity=Severity.CRITICAL,
    heals="held",
    claim="A replica has another server_id than its source and all servers above that.",
    why=(
        "A receiver takes events with the server_id of its own server for its own ones that come"
        " back around a ring: it leaves them out, moves its position on and reports nothing."
        " Servers whose groups never reach each other may share a server_id."
    ),
    undecided_when="the replica or its source has not reported its server_id",
    sources=("MySQL manual: server_id, replicate_same_server_id",),
    remedy=(
        "Set another server_id on the replica and restart it. With auto-positioning its next"
        " connection asks for what was left out; by position, rebuild it."
    ),
    verify=(IDENTITY, IDENTITY_OF_OTHER),
    cases={
        "server_id_of_source": Case(
            "The replica has the server_id {server_id} of its source, instance {source}.",
            *_SERVER_ID,
        ),
        "server_id_of_upstream": Case(
            "The replica has the server_id {server_id} of instance {other}, whose groups come to it"
            " through instance {source}: it takes them for its own and leaves them out.",
            *_SERVER_ID,
        ),
    },
)
def server_id_unique_in_topology(row: ChannelRow, against: Against) -> Compared:
    """In a ring every server is above every other."""
    source, ts = against.source, row.at.ts
    state = source.states.first_since(ts)
    if state is None:
        return Waiting(NOT_REACHED)
    if row.server_id is None or state.server_id is None:
        return Undecided(SERVER_ID_UNKNOWN)
    above = {one.instance_id: one for one in (source, *against.fleet.upstreams([source], ts))}
    above.pop(row.instance_id, None)
    found = []
    for name, timeline in above.items():
        known = timeline.states.first_since(ts) or timeline.states.until(ts)
        if known is not None and known.server_id == row.server_id:
            found.append(
                Broken(
                    "server_id_of_source" if timeline is source else "server_id_of_upstream",
                    witness=row.server_id,
                    at=f"server_id {row.server_id} of {name}",
                    server_id=row.server_id,
                    source=source.instance_id,
                    other=name,
                )
            )
    return against.report_at(found)


@between(
    ChannelRow,
    number=144,
    tier=4,
    family=Family.IDENTITY,
    severity=Severity.ERROR,
    heals="held",
    claim="The source of a channel is another server.",
    why=(
        "A receiver that meets its own server_id or server_uuid at the source stops with an error:"
        " nothing comes, and what the channel was meant to bring is missing. With"
        " replicate_same_server_id the server reads its own log for ever."
    ),
    undecided_when="the channel's source is not known, or is not observed",
    sources=(
        "MySQL manual: ER_REPLICA_FATAL_ERROR (13117), replicate_same_server_id",
        "MySQL manual: CHANGE REPLICATION SOURCE TO",
    ),
    remedy=(
        "STOP REPLICA, then CHANGE REPLICATION SOURCE TO the host and port of the server that was"
        " meant, or RESET REPLICA ALL for the channel if none was."
    ),
    verify=(IDENTITY, RECEIVED),
    cases={
        "itself": Case(
            "The channel replicates from the server that it is on.",
            "instance {instance}",
            "source of channel {channel}",
            "another instance",
            "beside instance {instance}",
        ),
    },
)
def source_is_another_server(row: ChannelRow, against: Against) -> Compared:
    """By server_uuid, or by the address where the receiver never took one over."""
    is_itself = against.source.instance_id == row.instance_id
    found = Broken("itself", witness=row.instance_id, at="its own source")
    return against.report_at((found,) if is_itself else ())


def shared_server_uuid(server_uuid: str, other: str) -> Broken:
    """Two instances report one server_uuid at one time; ``other`` is the first of them."""
    return Broken(
        "same_server_uuid",
        witness=server_uuid,
        at=f"{server_uuid} of {other}",
        server_uuid=server_uuid,
        other=other,
    )


_HIDDEN = (
    "Look up the change: the GTID of an empty transaction is not fetched any more. Rebuild the"
    " server that lacks the change, or the one that alone has it; if the difference does not"
    " matter, acknowledge the incident."
)


class PlacedOrigin(NamedTuple):
    """Where the transaction of a GTID was first committed, and which log has it; None not known."""

    server_id: int
    commit_ts: int
    place: str | None


class Claims(NamedTuple):
    """What the logs of two instances say of one GTID; of one instance, its own logs.

    Attributes:
        instance_id: Whose row shows it.
        other: The other instance, the same one where its own logs contradict each other.
        gtids: All GTIDs of one UUID that they disagree about.
        sid, gno: The first of them, which the origins are of.
        mine, theirs: The origins that the logs of either give.
        is_hidden: Whether one of the two has a change under them, and the other an empty group.
        is_lost: Whether one of the two was taken out of the instance's binary log by a crash.
    """

    instance_id: str
    other: str
    gtids: GtidSet
    sid: str
    gno: int
    mine: list[PlacedOrigin]
    theirs: list[PlacedOrigin]
    is_hidden: bool = False
    is_lost: bool = False


@rule(
    scope="X",
    number=68,
    tier=4,
    family=Family.TWO_HISTORIES,
    severity=Severity.CRITICAL,
    heals="data",
    claim=(
        "All logs of the fleet that hold a GTID agree on the commit time of its origin, or have no"
        " change under it; so does a binary log over a crash that took a group out of it which a"
        " row had shown as executed."
    ),
    why=(
        "It is written once, by the server where the transaction was first committed, and copied"
        " unchanged through every relay log and binary log; mysqlbinlog sets it, too, where a log"
        " is executed again, though the server that executes it writes its own server_id then. If"
        " it differs, two transactions carry one GTID, and every replica has executed only one of"
        " them. One of"
        " the two may be empty: that is how an operator keeps a change from a server, or makes an"
        " errant GTID known to the others; the data differ by that change all the same. Where all"
        " of them are empty, as a hole that was filled on each server, the data are the same."
    ),
    undecided_when=(
        "only one log with the GTID was observed, the fields are not known, or not known of a GTID"
        " that was written twice, the origins are no longer remembered, the journals end before"
        " both are known up to the row that shows it, or a replica without filters has logged as"
        " empty what its relay log has a change under"
    ),
    sources=(
        "MySQL manual: original_commit_timestamp; GTID Format and Storage",
        "MySQL manual: ER_SOURCE_FATAL_ERROR_READING_BINLOG (1236), sync_binlog",
    ),
    remedy=(
        "Treat the data of the named servers as different: compare the two groups and rebuild"
        " all servers that executed the wrong one."
    ),
    verify=(groups("gtids"), groups("gtids", "{other}")),
    cases={
        "two_instances": Case(
            "{gtids:gtids} {gtids:is one transaction|are transactions} in the logs of instance"
            " {instance} and {gtids:another|others} in those of instance {other}.",
            "{mine:origins}",
            "logs of instance {instance}, {gtid}",
            "{theirs:origins}",
            "logs of instance {other}, {gtid}",
        ),
        "one_instance": Case(
            "{gtids:gtids} {gtids:is one transaction|are transactions} in one log of instance"
            " {instance} and {gtids:another|others} in another log of it.",
            "{mine:origins}",
            "logs of instance {instance}, {gtid}",
            "one origin",
            "every log that holds it",
        ),
        "given_out_again": Case(
            "{gtids:gtids} {gtids:was a transaction|were transactions} that a row of instance"
            " {instance} showed as executed; a crash has taken {gtids:it|them} out of its binary"
            " log, which holds {gtids:another|others} under {gtids:this GTID|these GTIDs} since.",
            "{mine:origins}",
            "binary log of instance {instance} before and after the crash, {gtid}",
            "one origin",
            "every log that holds it",
            remedy=(
                "Look for the lost transactions on replicas, in copies of the binary log and in"
                " backups, and make their changes again under new GTIDs. Rebuild every replica"
                " that has executed them: it leaves out the others. Set sync_binlog=1 and"
                " innodb_flush_log_at_trx_commit=1."
            ),
        ),
        "hidden_by_empty_group": Case(
            "{gtids:gtids} {gtids:is a change|are changes} in the logs of one of the instances"
            " {instance} and {other}, and {gtids:an empty transaction|empty transactions} in those"
            " of the other: their data differ by {gtids:it|them}.",
            "{mine:origins}",
            "logs of instance {instance}, {gtid}",
            "{theirs:origins}, or both of them empty",
            "logs of instance {other}, {gtid}",
            remedy=_HIDDEN,
        ),
        "hidden_in_own_logs": Case(
            "{gtids:gtids} {gtids:is a change|are changes} in one log of instance {instance}, and"
            " {gtids:an empty transaction|empty transactions} in another log of it: its data and"
            " those of its source differ by {gtids:it|them}.",
            "{mine:origins}",
            "logs of instance {instance}, {gtid}",
            "one origin, or both of them empty",
            "every log that holds it",
            remedy=_HIDDEN,
        ),
    },
)
def gtid_origin_agreement(claims: Claims) -> Answer:
    """The logs of two instances, or of one, give one GTID to one transaction."""
    if not claims.gtids:
        return HOLDS
    gtid = f"{claims.sid}:{claims.gno}"
    is_one = claims.instance_id == claims.other
    case = "hidden_in_own_logs" if is_one else "hidden_by_empty_group"
    if not claims.is_hidden:
        case = "one_instance" if is_one else "two_instances"
    where = "in its own logs"
    if claims.is_lost:
        case, where = "given_out_again", "before and after a crash"
    return Broken(
        case,
        witness=claims.gtids,
        at=f"{gtid} {where}" if is_one else f"{gtid} against {claims.other}",
        gtids=claims.gtids,
        gtid=gtid,
        source_uuid=claims.sid,
        other=claims.other,
        mine=_values(claims.mine, claims.theirs),
        theirs=_values(claims.theirs, claims.mine),
    )


def instances_of(finding: Finding) -> set[str]:
    """The instances that a finding is about: two logs that disagree accuse both."""
    is_pair = finding.rule == gtid_origin_agreement.name
    return {finding.instance_id, finding.data["other"]} if is_pair else {finding.instance_id}


def _values(origins: list[PlacedOrigin], others: list[PlacedOrigin]) -> list[dict[str, Any]]:
    """Those that the others have not, if there are such."""
    shared = {origin.commit_ts for origin in others}
    differing = [origin for origin in origins if origin.commit_ts not in shared]
    return [
        {
            "server_id": origin.server_id,
            "original_commit_timestamp": origin.commit_ts,
            "place": origin.place,
        }
        for origin in differing or origins
    ]
