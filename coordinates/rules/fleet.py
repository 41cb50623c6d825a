"""Invariants across instances: their registry entries.

The facts they are judged on, and when, are `coordinates.audit.fleet`'s business.
"""

from __future__ import annotations

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.registry import Rule, reason, register

SOURCE_UNKNOWN = reason("source_unknown", "the source of the channel is not known")

RELAY_MIRRORS_SOURCE = register(
    Rule(
        number=19,
        name="relay_mirrors_source",
        tier=1,
        scope="X",
        severity=Severity.CRITICAL,
        claim=(
            "The groups that a receiver queues from one file of its source are groups of that file,"
            " in the file's order; a group that it leaves out between two connects was executed"
            " before by the replica, is filtered, or is the replica's own."
        ),
        why=(
            "The dump thread sends a binary log in its own order and skips only groups that the"
            " replica named in its GTID set when it connected; the receiver copies what it gets and"
            " drops only events of ignored server ids, and of its own, which come back in a ring"
            " maybe before they are executed. A skipped group that the replica never"
            " executed is lost; one queued again without a new connection is executed twice where"
            " GTIDs do not stop it."
        ),
        undecided_when=(
            "the source is not observed, its journal has a gap or has not reached the groups in"
            " question, or its events of that file are no longer remembered"
        ),
        sources=(
            "WL#9452, F-3",
            "MySQL manual: Replication Source Connection with GTID Auto-Positioning",
            "Flink CDC issue FLINK-37065",
        ),
        remedy=(
            "Stop the applier before it passes the group that differs, compare the relay log with"
            " the source's binary log around the named position, and fetch the relay log anew"
            " (RESET REPLICA with auto-positioning) or rebuild the replica."
        ),
    )
)

CLONE_COORDINATES_EQUAL_DONOR = register(
    Rule(
        number=60,
        name="clone_coordinates_equal_donor",
        tier=3,
        scope="X",
        severity=Severity.CRITICAL,
        claim=(
            "clone_status of the recipient names one state of the donor: a position that ends a"
            " group of the donor's binary log, and exactly the GTIDs logged up to it."
        ),
        why=(
            "Clone takes data, position and GTID set at one point at which commits are forced into"
            " the order of the binary log. If the position and the set differ, a replica set up"
            " from the clone repeats or loses the groups between them."
        ),
        undecided_when=(
            "the donor is not observed, its binary log around the position is not known without a"
            " gap or no longer remembered, or clone_status is incomplete"
        ),
        sources=("WL#9211, F-1.1, F-1.2 and F-6", "MySQL manual: The clone_status Table"),
        remedy=(
            "Do not replicate from the named coordinates. With GTIDs use auto-positioning after"
            " comparing gtid_executed with the donor; otherwise clone again."
        ),
    )
)

CLONE_RESUME_EXACT = register(
    Rule(
        number=61,
        name="clone_resume_exact",
        tier=3,
        scope="X",
        severity=Severity.CRITICAL,
        claim=(
            "The first group that a clone receives from its donor is the first group of the donor"
            " behind the cloned position that the clone does not have."
        ),
        why=(
            "The cloned coordinates are the complement of the cloned data: what lies before is"
            " inside, what lies behind is missing. A later first group is a hole in the data; if"
            " the donor has purged it, it answers error 1236 and nothing is received."
        ),
        undecided_when=(
            "the donor is not observed, its binary log between the cloned position and the first"
            " group received is not known without a gap, or clone_status is incomplete"
        ),
        sources=("WL#9211, F-2 to F-5", "MySQL manual: Cloning for Replication"),
        remedy="Stop replication on the clone and clone again; the hole cannot be filled from it.",
    )
)

SERVER_UUID_UNIQUE = register(
    Rule(
        number=65,
        name="server_uuid_unique",
        tier=4,
        scope="X",
        severity=Severity.CRITICAL,
        claim="No two instances report one server_uuid, nor two of one topology one server_id.",
        why=(
            "server_uuid is made at the first start of a data directory and names the origin of"
            " GTIDs; server_id stops events from circling. Copies of either make two origins look"
            " like one: dump connections of equal uuids end each other, GTIDs are given out twice,"
            " and events with the own server_id are dropped by the receiver."
        ),
        undecided_when="an instance has not reported its server_uuid or server_id",
        sources=("WL#9452, F-1.2.1", "MySQL manual: server_uuid, server_id"),
        remedy=(
            "Stop one of the two, remove auto.cnf from its data directory (or set another"
            " server_id) and start it again; look for GTIDs that both have given out."
        ),
    )
)

RECEIVED_WITHIN_SOURCE_LOGGED = register(
    Rule(
        number=66,
        name="received_within_source_logged",
        tier=4,
        scope="X",
        severity=Severity.CRITICAL,
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
    )
)

NO_ERRANT_GTIDS = register(
    Rule(
        number=67,
        name="no_errant_gtids",
        tier=4,
        scope="X",
        severity=Severity.ERROR,
        claim=(
            "Everything that a replica has executed is known to one of its sources, but for what"
            " it has retrieved of their own GTIDs, those that SET gtid_purged is told to have given"
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
            " ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS gives GTIDs of the replica's own"
        ),
        sources=(
            "Vitess issue 17254",
            "MySQL manual: Restrictions on Replication with GTIDs; super_read_only",
        ),
        remedy=(
            "Look up the group in the replica's binary log. If its change is unwanted, rebuild the"
            " replica; if harmless, commit an empty transaction under its GTID on the source, which"
            " gtid_origin_agreement then names as what it is. Set super_read_only on replicas."
        ),
    )
)

GTID_ORIGIN_AGREEMENT = register(
    Rule(
        number=68,
        name="gtid_origin_agreement",
        tier=4,
        scope="X",
        severity=Severity.CRITICAL,
        claim=(
            "All logs of the fleet that hold a GTID agree on the server_id and the commit time of"
            " its origin."
        ),
        why=(
            "Both are written once, by the server where the transaction was first committed, and"
            " copied unchanged through every relay log and binary log. If they differ, two"
            " transactions carry one GTID, and every replica has executed only one of them."
        ),
        undecided_when=(
            "only one log with the GTID was observed, the fields are not known, or the origins are"
            " no longer remembered"
        ),
        sources=(
            "MySQL manual: original_commit_timestamp; GTID Format and Storage",
            "MySQL manual: ER_SOURCE_FATAL_ERROR_READING_BINLOG (1236), sync_binlog",
        ),
        remedy=(
            "Treat the data of the named servers as different: compare the two groups and rebuild"
            " all servers that executed the wrong one."
        ),
    )
)

SOURCE_COORDINATE_VALID = register(
    Rule(
        number=69,
        name="source_coordinate_valid",
        tier=4,
        scope="X",
        severity=Severity.CRITICAL,
        claim=(
            "The source coordinates of a channel are places that exist in the source's binary log:"
            " the read position ends an event, the executed position ends a group, or an event of"
            " a group that the receiver ignores."
        ),
        why=(
            "Receiver and applier take their positions from the ends of the source's events. A"
            " position between them, or behind the end of the file, belongs to another log, was"
            " counted wrong, or points to what the source lost in a crash; a replica or backup that"
            " starts there fails or reads rubbish. What a receiver ignores by server id, in a ring"
            " the replica's own groups, it drops event by event, and the applier follows."
        ),
        undecided_when=(
            "the source is not observed, its journal has a gap in that file or has not reached the"
            " time of the row, its events there are no longer remembered, or the coordinates belong"
            " to a binary log lineage of the source that has ended"
        ),
        sources=("WL#2775, Relay_log_info", "Percona XtraBackup issue PXB-1737"),
        remedy=(
            "Do not start a replica or a backup from these coordinates; use GTID auto-positioning,"
            " or take the end of the last group before the position after comparing the data."
        ),
    )
)

PURGED_NOT_NEEDED = register(
    Rule(
        number=70,
        name="purged_not_needed",
        tier=4,
        scope="X",
        severity=Severity.ERROR,
        claim=(
            "Everything that a source has purged, but for what SET gtid_purged gave it, has been"
            " executed or retrieved by each of its replicas that use auto-positioning."
        ),
        why=(
            "On connecting a replica asks for all that it lacks; if the source has purged any of it"
            " the receiver stops with error 1236 and only a copy of the data helps."
        ),
        undecided_when=(
            "the source is not observed, gtid_purged or the channel's retrieved set is not known,"
            " no row of the source comes before the replica's and what the next one shows goes"
            " beyond the replica, or the channel does not use auto-positioning"
        ),
        sources=("WL#9211, note to F-2", "Flink CDC issue 1944", "MySQL manual: gtid_purged"),
        remedy=(
            "Clone or restore the replica from a server that has the data; keep binary logs longer"
            " (binlog_expire_logs_seconds) than the longest lag of a replica."
        ),
    )
)
