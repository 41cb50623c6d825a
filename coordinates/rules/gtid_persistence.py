"""Tier 3: what InnoDB promises of the GTIDs that it keeps (WL#9211, F-7 and key points 1 to 4)."""

from __future__ import annotations

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.registry import Rule, register

UNDO_GTIDS_RECOVERED = register(
    Rule(
        number=89,
        name="undo_gtids_recovered",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "A start finds the GTID of every transaction that InnoDB had committed or prepared: in"
            " the table mysql.gtid_executed, or in an undo log header."
        ),
        why=(
            "The GTID goes into the undo log header with the commit, XA PREPARE included, and purge"
            " leaves the undo log alone until the persister has written the GTID into the table."
            " Recovery reads the headers before replication looks at GTIDs, whatever the binary"
            " log holds."
        ),
        undecided_when=(
            "commits in InnoDB were not observed, the start does not tell the table, or after a"
            " crash the GTIDs that it found in undo logs; what the crash took out of the binary"
            " log counts for nothing here"
        ),
        sources=("WL#9211, F-7 and Key design points 1 and 4",),
        remedy=(
            "With a binary log the server takes the GTID from there at the same start; without one,"
            " or on a replica that does not log, it is lost: compare with the source before the"
            " replica asks for the transaction again."
        ),
    )
)

GTID_PERSISTED_AFTER_COMMIT = register(
    Rule(
        number=90,
        name="gtid_persisted_after_commit",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "The GTID persister writes no GTID whose transaction was not committed or prepared in"
            " InnoDB before."
        ),
        why=(
            "A transaction adds its GTID to the persister only when its undo log is durable. Were"
            " the GTID in the table first, a crash in between would leave it there without its"
            " changes, and replication would never bring them."
        ),
        undecided_when=(
            "the persister's steps were not observed from a start on, or for two writes since the"
            " observation began"
        ),
        sources=("WL#9211, Key design point 1",),
        remedy=(
            "Before the server is restarted, find out whether the transaction's changes are in the"
            " data. If they are not, rebuild the server: never edit the table."
        ),
    )
)

GTID_PERSISTED_IN_TIME = register(
    Rule(
        number=91,
        name="gtid_persisted_in_time",
        tier=3,
        scope="T",
        severity=Severity.WARNING,
        claim=(
            "The GTID persister writes a GTID within a second of its commit or after 1024"
            " transactions, whichever is earlier; ten seconds are given to it here."
        ),
        why=(
            "Its thread wakes up by time and by number. While it does not, undo logs pile up"
            " because purge waits for it, and the next recovery has them all to read."
        ),
        undecided_when="the commit or the persister's next write was not observed",
        sources=("WL#9211, Key design points 2 and 3",),
        remedy=(
            "Look for what blocks the thread: a lock on mysql.gtid_executed, a full disk, a server"
            " that stands still. FLUSH BINARY LOGS stores all logged GTIDs meanwhile."
        ),
    )
)

GTID_TABLE_HAS_CLOSED_FILES = register(
    Rule(
        number=92,
        name="gtid_table_has_closed_files",
        tier=3,
        scope="S",
        severity=Severity.ERROR,
        claim=(
            "The table mysql.gtid_executed holds every executed GTID of the binary log files that"
            " were closed before it was read."
        ),
        why=(
            "A rotation saves what the persister has not: GTIDs of non-transactional and empty"
            " groups. It does so before the next file is opened, and a start does the same with the"
            " last file of the boot before."
        ),
        undecided_when=(
            "the table was not read, the row before named no file whose Previous_gtids are known,"
            " the collection was asked for before that row was taken, or the row is older than it"
        ),
        sources=(
            "WL#9211, Gtid_state::save_gtids_of_last_binlog_into_table()",
            "MySQL manual: mysql.gtid_executed Table",
        ),
        remedy=(
            "As long as the files are there a restart reads the GTIDs again. Before PURGE BINARY"
            " LOGS, rotate once more and compare table and gtid_executed."
        ),
    )
)
