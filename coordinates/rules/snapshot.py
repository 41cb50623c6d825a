"""Tier 2: does a log_status row's binary log half agree with the journal at its place?

Registry entries; the judging is done by `coordinates.judging`, one module a subject.
"""

from __future__ import annotations

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.registry import Rule, register

SNAPSHOT_POSITION_WITHIN_FILE = register(
    Rule(
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
    Rule(
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

COMMIT_LAG_BOUNDED = register(
    Rule(
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
    Rule(
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
    Rule(
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
    Rule(
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
            " replicas groups that are gone, one too large refuses them groups that are there. Its"
            " own GTIDs come through its log: one that counts as purged while the log still has"
            " older ones was lost from the log, as by a power cut with sync_binlog other than 1."
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
