"""Tier 3: do the rows of one instance agree with each other over time? Registry entries.

What is remembered between rows is `coordinates.audit.baselines`'s business, the judging that of
`coordinates.judging`.
"""

from __future__ import annotations

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.registry import Case, Rule, register

SNAPSHOT_POSITION_MONOTONE = register(
    Rule(
        number=41,
        name="snapshot_position_monotone",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "From row to row of one binary log lineage the binary log coordinate, by file number"
            " and then position, never falls."
        ),
        why=(
            "Under LOCK_log a file only grows and only the next higher number is opened. Only RESET"
            " BINARY LOGS AND GTIDS, a clone or a restore begins anew, and each of them begins a"
            " new lineage."
        ),
        undecided_when=(
            "the row has no readable coordinate, no row of this lineage was accepted before, or the"
            " base name of the binary log changed"
        ),
        sources=("WL#9452, F-2.1 and F-3", "MySQL manual: The Binary Log"),
        remedy=(
            "Check for an old row published again or two servers under one name. If the server"
            " itself went back, it was reset or restored without telling: rebuild or re-point its"
            " replicas."
        ),
    )
)

EXECUTED_MONOTONE = register(
    Rule(
        number=42,
        name="executed_monotone",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "What was executed at one row is executed at every later row of the same binary log"
            " lineage, across restarts and crashes too."
        ),
        why=(
            "gtid_executed only gains GTIDs, and after a crash it is put together again from the"
            " recovered binary log, mysql.gtid_executed and the undo logs. With sync_binlog other"
            " than 1 a power failure can lose commits that others have already seen."
        ),
        undecided_when=(
            "gtid_executed is not readable, or no row of this lineage was accepted before"
        ),
        sources=(
            "WL#9211, F-7",
            "MySQL manual: ER_SOURCE_FATAL_ERROR_READING_BINLOG (1236), sync_binlog",
        ),
        remedy=(
            "If the server crashed, keep clients off it and compare it with its replicas, which may"
            " have the lost transactions; rebuild the side that is wrong. Set sync_binlog=1 and"
            " innodb_flush_log_at_trx_commit=1."
        ),
    )
)

PURGED_MONOTONE = register(
    Rule(
        number=43,
        name="purged_monotone",
        tier=3,
        scope="T",
        severity=Severity.ERROR,
        claim=(
            "gtid_purged never loses a GTID, unless the binary log was reset or switched on or off"
            " at a restart."
        ),
        why=(
            "Files that were purged do not come back, and SET gtid_purged must keep what is purged."
            " A restart computes the set anew from the oldest file, which changes it only if"
            " binary logging itself changed."
        ),
        undecided_when=(
            "gtid_purged was not read or is not readable, or there is no accepted value of this"
            " lineage to compare with"
        ),
        sources=("MySQL manual: gtid_purged",),
        remedy=(
            "See whether old binary log files were copied back into the directory or the index was"
            " edited; take them out while the server is stopped, and check the replicas that"
            " connected meanwhile."
        ),
    )
)

LOGGED_EVENTUALLY_EXECUTED = register(
    Rule(
        number=44,
        name="logged_eventually_executed",
        tier=3,
        scope="T",
        severity=Severity.ERROR,
        claim=(
            "A group that is in the binary log at one row is executed at the first row that is 10"
            " seconds or more younger."
        ),
        why=(
            "A logged group has only the sync and the commit stage before it, which take"
            " milliseconds. A group that stays in the log without being executed is sent to"
            " replicas although the server itself does not count it."
        ),
        undecided_when=(
            "no row is old enough yet, gtid_executed is not readable, or what was logged up to the"
            " coordinates is not known, or nothing logged behind the missing groups is executed"
            " either: then commits wait, as on a source whose semi-synchronous replica is silent"
        ),
        sources=("WL#9452, F-2.2", "Percona Server issue PS-7873", "server bug 102175"),
        remedy=(
            "Look for sessions that wait in commit (semi-synchronous acknowledgement, a full disk,"
            " Waiting for handler commit). If none does, search the group's changes in the data and"
            " compare with the replicas."
        ),
    )
)

EXECUTED_GROWTH_EXPLAINED = register(
    Rule(
        number=45,
        name="executed_growth_explained",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "Each GTID that is new in gtid_executed was received in a relay log, written by the"
            " server itself, assigned to gtid_purged or handed out by its replication group."
        ),
        why=(
            "There is no other way in: appliers take groups from relay logs only, clients write"
            " under the server's own UUID or a GTID_NEXT that its binary log shows. A GTID that"
            " nothing brought stands for changes that nobody made here, and stops them from ever"
            " coming."
        ),
        undecided_when=(
            "server_uuid is not known, the relay logs of a channel were not seen completely (a gap,"
            " observation began later), a channel brings groups without a GTID, to which the"
            " replica may assign any UUID, or there is no accepted row to compare with"
        ),
        sources=("WL#2775, REQ-5", "WL#9211, F-1"),
        remedy=(
            "Find out who ran SET gtid_purged or GTID_NEXT. If nobody did, compare the data with"
            " the source: the replica counts a transaction as done that it lacks, and must be"
            " rebuilt if it does."
        ),
    )
)

CHANNEL_POSITIONS_MONOTONE = register(
    Rule(
        number=46,
        name="channel_positions_monotone",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "In one channel lineage neither the flushed relay coordinate nor the executed source"
            " coordinate ever falls."
        ),
        why=(
            "The relay log only grows, and the receiver flushes its end; the applier moves its"
            " coordinate forward with each commit. Only RESET REPLICA, CHANGE REPLICATION SOURCE,"
            " relay log recovery and a clone begin anew. The read coordinate is left out, as"
            " auto-positioning may step back."
        ),
        undecided_when=(
            "a coordinate is not readable, the channel has no relay log, no row of this channel"
            " lineage was accepted before, or the base name changed (another source's files)"
        ),
        sources=("WL#9452, F-2.5", "WL#2775, REQ-3"),
        remedy=(
            "Check for an old row published again. If the channel itself went back, it was set up"
            " anew behind the audit's back; without GTIDs stop it and look for groups applied"
            " twice."
        ),
    )
)

LSN_MONOTONE = register(
    Rule(
        number=47,
        name="lsn_monotone",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "Current, checkpoint and flushed LSN never fall in one data lineage, across restarts"
            " and crashes too."
        ),
        why=(
            "The LSN counts all redo since the data directory was made; recovery goes on behind"
            " what it found. If it falls, redo that pages already rely on is gone, or the data"
            " directory is another one."
        ),
        undecided_when=(
            "the row has no readable LSN, or no row of this data lineage was accepted before; after"
            " a clone or a restore that the journal tells, comparison begins anew. After a crash"
            " only what was flushed, or else the checkpoint, bounds the LSN: redo in memory is gone"
        ),
        sources=("WL#9452, F-1.2.4", "MySQL manual: Redo Log; InnoDB Recovery"),
        remedy=(
            "Check for an old row published again or two servers under one name. If it is true,"
            " look into the error log for pages whose LSN is in the future, and rebuild the server"
            " from a backup."
        ),
    )
)

LSN_GROWS_WITH_COMMITS = register(
    Rule(
        number=48,
        name="lsn_grows_with_commits",
        tier=3,
        scope="T",
        severity=Severity.ERROR,
        claim=("If an InnoDB transaction was committed between two rows, their LSNs differ."),
        why=(
            "A group that ends in XID changed InnoDB pages, and its commit alone writes redo."
            " Groups without InnoDB changes (non-transactional, empty) end otherwise and are not"
            " counted."
        ),
        undecided_when=(
            "the row has no readable LSN, there is no accepted row before it, or the LSN stands"
            " still and the executed set of one of the two rows was not accepted or another engine"
            " (MyRocks) keeps logs of its own"
        ),
        sources=("WL#9211, Design Summary: Clone GTID", "MySQL manual: Redo Log"),
        remedy=(
            "Look for a collector or cache that repeats an old STORAGE_ENGINES part; a physical"
            " backup that stops at this LSN lacks committed transactions."
        ),
    )
)

BINLOG_FILES_FORM_RANGE = register(
    Rule(
        number=49,
        name="binlog_files_form_range",
        tier=3,
        scope="T",
        severity=Severity.ERROR,
        claim=(
            "The binary log files kept are numbered without a hole; a purge removes only the"
            " oldest and never the active one; a start opens the next number."
        ),
        why=(
            "The server alone names files, one higher each time, and removes them from the old end"
            " of its index. It never appends to a file of an earlier boot. A missing number is a"
            " missing piece of history. A file that is listed and not there has length 0."
        ),
        undecided_when=(
            "neither the list of binary logs nor the files' events were observed, or they changed"
            " inside a gap of the journal"
        ),
        sources=(
            "MySQL manual: The Binary Log; PURGE BINARY LOGS Statement",
            "measured on MySQL 8.0.31",
        ),
        remedy=(
            "Find out who removed or renamed a file in the file system. Put it back if it still"
            " exists; otherwise no backup or replica can be brought past it: take a new full"
            " backup."
        ),
        cases={
            "file_number_skipped": Case(
                "Binary log file number {number} follows number {previous}.",
                "{number}",
                "number of the file that was opened",
                "{expected}",
                "number after the previous file",
            ),
            "old_file_continued": Case(
                (
                    "After a start the binary log goes on in the old file {file}; a start opens"
                    " the next one."
                ),
                "{at}",
                "first event after the start",
                "file number {expected}",
                "every start opens a file",
            ),
            "active_file_purged": Case(
                "The purge to {to_file} removed the active file {file}.",
                "{to_file}",
                "oldest file after the purge",
                "at most {file}",
                "file being written",
            ),
        },
    )
)

RECOVERED_GTIDS_COMPLETE = register(
    Rule(
        number=50,
        name="recovered_gtids_complete",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "The first row after a start has executed all that the recovered binary log, the table"
            " mysql.gtid_executed and the undo logs hold."
        ),
        why=(
            "Startup unites the three before any client or replication thread runs: the binary log"
            " tells what was logged, undo headers carry the GTIDs of InnoDB commits not yet in the"
            " table. Nothing is in flight then, so no lag is allowed."
        ),
        undecided_when=(
            "the start did not tell the recovered end or the sets found, the recovered files have a"
            " gap in the journal, or gtid_executed of the first row is not readable"
        ),
        sources=("WL#9211, F-7", "MySQL manual: GTID Format and Storage"),
        remedy=(
            "Do not let the server rejoin as a replica or serve as a source: it would fetch or give"
            " out the GTID again. Check the group's changes in the data and rebuild from a healthy"
            " server."
        ),
    )
)
