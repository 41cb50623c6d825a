"""Tier 2: does one log_status row agree with the journal at its place? Registry entries.

The judging is done by `coordinates.judging`, one module a subject. One module holds all of these
entries, long as it is: they are one catalogue of one row's halves.
"""

from __future__ import annotations

from coordinates.invariants._registry import Invariant, register
from coordinates.verdict import Severity

# The binary log coordinate and the GTID sets

SNAPSHOT_POSITION_WITHIN_FILE = register(
    Invariant(
        number=20,
        name="snapshot_position_within_file",
        tier=2,
        scope="S",
        severity=Severity.CRITICAL,
        claim=(
            "The binary log coordinate of a row lies within the named file: at 4 or behind it, and"
            " not beyond the last event written when the row was taken."
        ),
        why=(
            "The collection holds LOCK_log, under which alone the binary log grows, and reports the"
            " position up to which the flush stage has written. What lies beyond is not there to"
            " be copied."
        ),
        undecided_when=(
            "the row has no readable coordinate, the journal shows no file of that base name, has"
            " not reached the row's place or has a gap before it, or no longer remembers the file"
        ),
        sources=(
            "WL#9452, High Level Specification: binary log coordinates",
            "MySQL manual: The log_status Table",
        ),
        remedy=(
            "Discard a backup that was cut by this row and collect again. If it comes back, compare"
            " SHOW BINARY LOGS with the files' sizes and check that row and journal come from one"
            " server."
        ),
    )
)

SNAPSHOT_POSITION_ON_GROUP_BOUNDARY = register(
    Invariant(
        number=21,
        name="snapshot_position_on_group_boundary",
        tier=2,
        scope="S",
        severity=Severity.CRITICAL,
        claim=(
            "The binary log coordinate of a row is the end of a group, of the file's header events"
            " or of its ROTATE or STOP; never inside."
        ),
        why=(
            "The flush stage copies whole groups and publishes the position after them, all under"
            " the LOCK_log that the collection takes. Servers before 8.0.42 can break this (server"
            " bug 32442772); a log cut inside a group ends torn."
        ),
        undecided_when=(
            "the coordinate is not readable or not within the file, the journal has a gap there,"
            " the group around the place was not seen whole, or the events around it are no longer"
            " remembered"
        ),
        sources=("WL#9452, F-3", "server bug 32442772"),
        remedy=(
            "Do not start a replica at this position: take the end of the last group before it and"
            " let GTIDs skip what was applied. Upgrade a server older than 8.0.42."
        ),
    )
)

EXECUTED_WITHIN_LOGGED = register(
    Invariant(
        number=22,
        name="executed_within_logged",
        tier=2,
        scope="S",
        severity=Severity.CRITICAL,
        claim=(
            "Every executed GTID is either logged at or before the row's binary log coordinate or"
            " counts as purged."
        ),
        why=(
            "A group is written and the position moved in the flush stage; its GTID enters"
            " gtid_executed later, in the commit stage. The collection stops both, so the set can"
            " trail the position but never lead it. A set that leads makes a restored server skip"
            " groups that it lacks."
        ),
        undecided_when=(
            "set or coordinate is not readable, what was logged up to the coordinate is not known"
            " (a gap, before the first PREVIOUS_GTIDS), or gtid_purged was not read and the excess"
            " may be older than the audit. Without log_replica_updates only GTIDs of the server's"
            " own UUID are judged"
        ),
        sources=("WL#9452, F-2.1 and F-2.2", "MySQL manual: gtid_executed, gtid_purged"),
        remedy=(
            "Do not take position and set of this row as one point. Look for the named GTID in the"
            " binary log behind the position; if it is in no file, compare the server's data with"
            " its replicas."
        ),
    )
)

COMMIT_LAG_BOUNDED = register(
    Invariant(
        number=23,
        name="commit_lag_bounded",
        tier=2,
        scope="S",
        severity=Severity.ERROR,
        claim=(
            "At most as many logged groups are missing from gtid_executed as sessions and applier"
            " workers can be committing at once."
        ),
        why=(
            "Between the flush stage, which logs a group, and the commit stage, which executes it,"
            " each session has one group under way. More missing groups than sessions are not in"
            " flight: they are lost, or the set is an old one."
        ),
        undecided_when=(
            "gtid_executed is not readable, what was logged up to the coordinate is not known, or"
            " more are missing than a server's default bound and neither max_connections nor"
            " commit_lag_max was told"
        ),
        sources=(
            "WL#9452, F-2.2",
            "Percona Server issue PS-7873",
            "server bugs 102175 and 112331",
        ),
        remedy=(
            "Collect again. If the same GTIDs stay missing, compare the binary log with the data;"
            " if only the number is high, tell the audit the true max_connections or commit_lag_max"
            " of the server."
        ),
    )
)

COMMIT_LAG_IS_SUFFIX = register(
    Invariant(
        number=24,
        name="commit_lag_is_suffix",
        tier=2,
        scope="S",
        severity=Severity.WARNING,
        claim=(
            "While commits are ordered, the logged groups that gtid_executed lacks are the last"
            " ones of the binary log, without an executed one among them."
        ),
        why=(
            "With binlog_order_commits the leader of the commit stage commits its queue in the"
            " order of the flush stage, and replica_preserve_commit_order makes appliers queue in"
            " the source's order. A group executed before an earlier one jumped the queue, or the"
            " earlier one is lost."
        ),
        undecided_when=(
            "what was logged up to the coordinate is not known, or more groups are in flight than"
            " the audit remembers. Nothing is claimed while either option is off"
        ),
        sources=("WL#9211, Design Summary", "measured on MySQL 8.0.31"),
        remedy=(
            "Watch the next row: if it holds the GTID, the row was torn and its set must not be"
            " used beside its position; if not, treat it as a logged group that was never"
            " executed."
        ),
    )
)

PURGED_WITHIN_EXECUTED = register(
    Invariant(
        number=25,
        name="purged_within_executed",
        tier=2,
        scope="S",
        severity=Severity.CRITICAL,
        claim="Every purged GTID is executed.",
        why=(
            "GTIDs become purged when the file that holds them is removed, long after their commit,"
            " or by SET gtid_purged, which adds them to gtid_executed under the same lock. A"
            " purged GTID that is not executed can neither be applied nor be sent any more."
        ),
        undecided_when=(
            "gtid_purged was not read or is not readable, or gtid_executed is not readable"
        ),
        sources=("MySQL manual: gtid_purged",),
        remedy=(
            "Compare the server with one that has the transaction; if its changes are missing,"
            " rebuild the server from a backup or a clone rather than correct the set."
        ),
    )
)

PURGED_MATCHES_OLDEST_FILE = register(
    Invariant(
        number=26,
        name="purged_matches_oldest_file",
        tier=2,
        scope="S",
        severity=Severity.ERROR,
        claim=(
            "gtid_purged is the PREVIOUS_GTIDS of the oldest file kept, and GTIDs that never were"
            " in a file."
        ),
        why=(
            "After a purge the server reads the oldest file's PREVIOUS_GTIDS and makes it the"
            " purged set; only GTIDs that came without a log are added. A set too small promises"
            " replicas groups that are gone, one too large refuses them groups that are there."
        ),
        undecided_when=(
            "gtid_purged was not read, SHOW BINARY LOGS before and after it differ, a purge may lie"
            " between the readings (the list was read once, or a purge lies between two rows"
            " without lists), or the PREVIOUS_GTIDS of the oldest file was not observed"
        ),
        sources=("MySQL manual: gtid_purged", "MySQL manual: PURGE BINARY LOGS Statement"),
        remedy=(
            "Purge with PURGE BINARY LOGS, never with rm. If files were removed by hand, restart"
            " the server with a right index so that it computes the set anew, and check which"
            " replicas still need the lost files."
        ),
    )
)

OWNED_DISJOINT_FROM_EXECUTED = register(
    Invariant(
        number=27,
        name="owned_disjoint_from_executed",
        tier=2,
        scope="S",
        severity=Severity.ERROR,
        claim="No GTID is owned by a session and executed at the same time.",
        why=(
            "A commit puts the GTID into gtid_executed and takes it from gtid_owned under one lock,"
            " and an executed GTID cannot be owned again. An owned set read after the row can"
            " therefore hold nothing of the row's executed set."
        ),
        undecided_when=(
            "gtid_owned was not read, or gtid_executed is not readable. Read before the row instead"
            " of after it, gtid_owned overlaps on healthy servers and must be left out"
        ),
        sources=("MySQL manual: gtid_owned; GTID Life Cycle", "measured on MySQL 8.0.31"),
        remedy=(
            "Find the owning session (the number behind # is its thread) and KILL it, which rolls"
            " it back and gives the GTID free. If no such session exists, restart the server at the"
            " next opportunity."
        ),
    )
)

# Receiver and applier

RELAY_POSITION_ON_WRITTEN_BOUNDARY = register(
    Invariant(
        number=28,
        name="relay_position_on_written_boundary",
        tier=2,
        scope="S",
        severity=Severity.CRITICAL,
        claim=(
            "The relay coordinate of a channel is the end of an event that is written in a relay"
            " log file that exists; a channel without relay logs shows an empty name and 0."
        ),
        why=(
            "The receiver appends whole events and takes over the end of the relay log only after"
            " the write, when it flushes its positions under Master_info::data_lock, which the"
            " collection holds. It may end inside a group, but not inside an event or beyond the"
            " file."
        ),
        undecided_when=(
            "the coordinate is not readable, the relay log was not observed or has a gap there, the"
            " events around the place are no longer remembered, or the channel shows no relay log"
            " though no RESET REPLICA was observed"
        ),
        sources=(
            "WL#9452, F-1.2.3",
            "WL#9452, Step-1: Master_info::flushed_relay_log_info",
        ),
        remedy=(
            "Do not copy the relay log up to this place: collect again, or restore without relay"
            " logs (relay_log_recovery=ON or auto-positioning) and let the replica fetch them"
            " anew."
        ),
    )
)

APPLIED_WITHIN_FLUSHED = register(
    Invariant(
        number=29,
        name="applied_within_flushed",
        tier=2,
        scope="S",
        severity=Severity.WARNING,
        claim=(
            "The applier is not ahead of the receiver: the groups before the applied relay"
            " coordinate end before the flushed one, except for one event just being queued."
        ),
        why=(
            "The applier reads only what the receiver has written, and the receiver flushes its"
            " positions after each event that it writes. The replica status is read before the"
            " row, so the flushed coordinate can only have grown since. A rotation of an idle"
            " relay log puts header events between them, but no group."
        ),
        undecided_when=(
            "the replica status was not read, one of the coordinates is not readable or belongs to"
            " an earlier lineage, or the relay log between the two is not known without a gap"
        ),
        sources=("WL#9452, Step-1: Master_info::flushed_relay_log_info",),
        remedy=(
            "A backup by this row would apply groups that its relay log lacks: collect again, and"
            " start the restored replica by auto-positioning. If it comes back, restart the"
            " receiver."
        ),
    )
)

EXEC_SOURCE_POS_WITHIN_READ = register(
    Invariant(
        number=30,
        name="exec_source_pos_within_read",
        tier=2,
        scope="S",
        severity=Severity.CRITICAL,
        claim=("The executed source coordinate of a channel is not beyond the one that was read."),
        why=(
            "An event is read from the source, written to the relay log and only then applied; both"
            " coordinates name places in the source's files and come from one row of SHOW REPLICA"
            " STATUS. Beyond the read position nothing can have been applied."
        ),
        undecided_when=(
            "one of the two was not read, their base names differ (after a failover, old groups are"
            " still being applied), the channel is gtid_only and keeps no positions, or the relay"
            " log was not observed and the channel may ask by GTID set: a new connection begins"
            " further back than what is applied"
        ),
        sources=("WL#2775, Master_info and Relay_log_info",),
        remedy=(
            "Do not use the positions to move or restore the replica. Compare gtid_executed with"
            " the source's and point the channel anew with SOURCE_AUTO_POSITION=1."
        ),
    )
)

APPLIED_RELAY_GTIDS_EXECUTED = register(
    Invariant(
        number=31,
        name="applied_relay_gtids_executed",
        tier=2,
        scope="S",
        severity=Severity.CRITICAL,
        claim="Every group that the applier has passed in the relay log is executed.",
        why=(
            "The applied coordinate moves with the commit of a group, or when a group is skipped"
            " because it was executed before; a filtered group is committed empty under its GTID."
            " A passed group that is not executed is a change that the replica never made."
        ),
        undecided_when=(
            "the replica status was not read, gtid_executed or the applied coordinate is not"
            " readable, or the relay log up to the coordinate was not observed. The last groups"
            " before it may still be in commit; the next row decides on them"
        ),
        sources=("WL#2775, REQ-5", "MySQL manual: GTID Life Cycle"),
        remedy=(
            "Stop the channel and RESET REPLICA: without its relay log a channel with"
            " auto-positioning asks again for every GTID that is not executed. If the source has"
            " purged it, rebuild the replica."
        ),
    )
)

RETRIEVED_MATCHES_RELAY = register(
    Invariant(
        number=32,
        name="retrieved_matches_relay",
        tier=2,
        scope="S",
        severity=Severity.ERROR,
        claim=(
            "Retrieved_Gtid_Set is exactly what the relay logs show: PREVIOUS_GTIDS of the oldest"
            " file kept and the complete groups behind it."
        ),
        why=(
            "The receiver adds a GTID when it has queued the group's last event, and at start the"
            " set is rebuilt from these same files. A reconnecting receiver asks the source for"
            " what is in neither this set nor gtid_executed: too large a set loses groups."
        ),
        undecided_when=(
            "the replica status was not read, the relay logs were not observed from the oldest"
            " kept file on, or a gap lies among them"
        ),
        sources=("MySQL manual: SHOW REPLICA STATUS Statement; The Relay Log",),
        remedy=(
            "Compare the set with the relay log (SHOW RELAYLOG EVENTS). Then stop the channel and"
            " RESET REPLICA: it keeps the configuration, and with auto-positioning all that is not"
            " executed is fetched anew."
        ),
    )
)

MASTER_INFO_NOT_AHEAD_OF_RELAY = register(
    Invariant(
        number=33,
        name="master_info_not_ahead_of_relay",
        tier=2,
        scope="S",
        severity=Severity.CRITICAL,
        claim=(
            "The source coordinate stored for the receiver is not beyond the source position of the"
            " last event in the relay log."
        ),
        why=(
            "The receiver writes the event first and stores the position after it, so a crash"
            " between the two repeats events. The other order would lose them: the receiver would"
            " go on behind an event that no relay log holds."
        ),
        undecided_when=(
            "the repository (slave_master_info) was not read, the channel is gtid_only, the end of"
            " the relay log is not known (not observed, a gap, no source file named in it), or the"
            " receiver may have passed groups that it need not queue"
        ),
        sources=("WL#9452, Step-1", "WL#2775, REQ-3"),
        remedy=(
            "Do not start the receiver from the stored position. Begin at the executed position"
            " (relay_log_recovery=ON) or use auto-positioning."
        ),
    )
)

RELAY_INFO_COORDINATES_PAIRED = register(
    Invariant(
        number=34,
        name="relay_info_coordinates_paired",
        tier=2,
        scope="S",
        severity=Severity.ERROR,
        claim=(
            "The two halves of a relay log info row, relay position and source position, denote one"
            " and the same event."
        ),
        why=(
            "Both are set under Relay_log_info::data_lock when a group is done and stored by one"
            " write. Within one relay file and one source file they differ by a constant, so that"
            " a torn pair shows. Whoever restores by one half and skips by the other repeats or"
            " loses groups."
        ),
        undecided_when=(
            "the repository was not read, the channel is gtid_only or fresh, or the relay events at"
            " the row's place were not observed or are no longer remembered"
        ),
        sources=("WL#2775, REQ-5", "Percona XtraBackup issue PXB-1737"),
        remedy=(
            "Trust gtid_executed instead of the row. Without GTIDs find the relay position's event"
            " with SHOW RELAYLOG EVENTS and take the source position from it."
        ),
    )
)

RELAY_INFO_UPDATED_WITH_COMMIT = register(
    Invariant(
        number=35,
        name="relay_info_updated_with_commit",
        tier=2,
        scope="S",
        severity=Severity.CRITICAL,
        claim=(
            "A transactional relay log info repository names the end of the last transaction that"
            " the applier committed; not an earlier one and not a later one."
        ),
        why=(
            "The applier updates the row inside the transaction that it applies, so data and"
            " position commit or vanish together, also in a crash. An older row repeats"
            " transactions after a restart, a newer one loses them. MySQL 8.0 does not write the"
            " row for groups that no InnoDB commit ends (MyISAM, ANALYZE, FLUSH, XA): behind them"
            " it may stay, and an atomic DDL writes it before the applied coordinate moves."
        ),
        undecided_when=(
            "the repository was not read or is not transactional, the channel is gtid_only, or the"
            " applied coordinate is not known. Several workers store positions at checkpoints only:"
            " then only a row beyond the applied coordinate, or behind that of an earlier row, is a"
            " breach"
        ),
        sources=("WL#2775, REQ-5", "MySQL manual: Replication Metadata Repositories"),
        remedy=(
            "Check that mysql.slave_relay_log_info is InnoDB. Before a restart of the replica"
            " compare the row with gtid_executed, and set relay_log_recovery=ON with"
            " auto-positioning."
        ),
    )
)

MASTER_INFO_FLUSH_POINTS = register(
    Invariant(
        number=36,
        name="master_info_flush_points",
        tier=2,
        scope="T",
        severity=Severity.WARNING,
        claim=(
            "While the receiver is stopped, the stored source coordinate is the one it had read"
            " when it stopped."
        ),
        why=(
            "A stop forces the receiver's positions into the repository. The other flush points of"
            " the design leave no moment at which both can be read at rest, and FLUSH RELAY LOGS"
            " does not write the row on 8.0.31, so only the stop is judged."
        ),
        undecided_when=(
            "the repository was not read, no stop of the receiver was observed since the channel"
            " began, the read coordinate is not known, or the channel is gtid_only"
        ),
        sources=("WL#2775, REQ-3", "MySQL manual: sync_source_info"),
        remedy=(
            "Look into the error log for failed writes of the repository (a full disk, a lock on"
            " mysql.slave_master_info). Backups should use the row of log_status, not this table."
        ),
    )
)

INFO_REPOSITORY_UNAMBIGUOUS = register(
    Invariant(
        number=37,
        name="info_repository_unambiguous",
        tier=2,
        scope="S",
        severity=Severity.ERROR,
        claim=("Replication does not come up while both a file and a table hold its positions."),
        why=(
            "When the kind of repository is changed, the server moves the positions at start and"
            " empties the old place. With two filled ones it cannot know which is newer, and"
            " refuses rather than begin at an arbitrary one."
        ),
        undecided_when=(
            "the start did not report where positions were found, or whether replication came up"
        ),
        sources=("WL#2775, REQ-6",),
        remedy=(
            "Stop the server, compare both with the relay log and gtid_executed, put the older one"
            " away, and start with the table as the repository."
        ),
    )
)

# InnoDB

LSN_ORDER = register(
    Invariant(
        number=38,
        name="lsn_order",
        tier=2,
        scope="S",
        severity=Severity.CRITICAL,
        claim=(
            "Of one reading, the checkpoint LSN is at least 8192 and not above the flushed LSN,"
            " that not above the written one, and that not above the current one."
        ),
        why=(
            "Redo is first reserved, then written, then flushed, and a checkpoint passes only pages"
            " whose redo is flushed. log_status reads current and checkpoint with the redo log"
            " stopped. The log of a new data directory begins at 8192."
        ),
        undecided_when=(
            "the row has no InnoDB part; flushed and written LSN are compared only when one"
            " statement told them. LSNs of different statements are never compared here"
        ),
        sources=("WL#9452, F-1.2.4", "MySQL manual: Redo Log"),
        remedy=(
            "Do not stop a redo copy at this LSN. Compare with SHOW ENGINE INNODB STATUS: if it is"
            " right there, mend the collector; if not, take a logical backup at once and look for"
            " a damaged redo log."
        ),
    )
)

LSN_BLOCK_OFFSET = register(
    Invariant(
        number=39,
        name="lsn_block_offset",
        tier=2,
        scope="S",
        severity=Severity.ERROR,
        claim=(
            "Current and checkpoint LSN lie in the data part of a redo block: their remainder by"
            " 512 is from 12 to 507."
        ),
        why=(
            "The LSN counts headers (12 bytes) and trailers (4 bytes) of the 512-byte blocks too,"
            " but records only fill what is between; a full block moves the LSN on behind the next"
            " header. Another remainder is a number that InnoDB never had."
        ),
        undecided_when="the row has no InnoDB part, or a number in it is not readable",
        sources=("MySQL source documentation: InnoDB redo log, format of redo log blocks",),
        remedy=(
            "Find what rounded or computed the LSN on the way (a collector, a conversion to a"
            " floating-point number) and discard backups that were cut at it."
        ),
    )
)

CHECKPOINT_AGE_WITHIN_CAPACITY = register(
    Invariant(
        number=40,
        name="checkpoint_age_within_capacity",
        tier=2,
        scope="S",
        severity=Severity.WARNING,
        claim="The redo between checkpoint and current LSN is less than the redo log's capacity.",
        why=(
            "Redo since the checkpoint is what recovery needs, and the files are reused in a"
            " circle. Before the age reaches the capacity InnoDB flushes pages by force and makes"
            " sessions wait, so that needed redo is never overwritten."
        ),
        undecided_when=(
            "innodb_redo_log_capacity is not known, or the row lacks a readable current or"
            " checkpoint LSN"
        ),
        sources=("MySQL manual: Redo Log; innodb_redo_log_capacity",),
        remedy=(
            "Check that the told capacity is the server's. Then enlarge innodb_redo_log_capacity"
            " and look for slow page flushing (innodb_io_capacity, a slow disk, an error in the"
            " log)."
        ),
    )
)
