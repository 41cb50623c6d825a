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
