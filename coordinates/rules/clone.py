"""Tier 3: clone, and how InnoDB keeps GTIDs. Registry entries of what one instance shows alone.

What needs donor and recipient together is in `coordinates.rules.clone_coordinates`.
"""

from __future__ import annotations

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.registry import Rule, register

CLONE_PROTOCOL = register(
    Rule(
        number=62,
        name="clone_protocol",
        tier=3,
        scope="T",
        severity=Severity.ERROR,
        claim=(
            "Donor and recipient of a clone have the same version, the stages follow in order, and"
            " the donor's commits are blocked for less than a second."
        ),
        why=(
            "The recipient starts from the donor's files as they are, so the server refuses"
            " another version (error 3864). Commits run on during the copy; only at the end,"
            " while unordered prepared groups finish and external XA waits, is the donor held."
        ),
        undecided_when=(
            "a version, a stage, or the begin or end of the donor's wait was not observed, or the"
            " journal has a gap among them"
        ),
        sources=(
            "WL#9211, NF-1 and Upgrade/Downgrade",
            "MySQL manual: Cloning Remote Data; The clone_progress Table",
        ),
        remedy=(
            "If the clone did not end as Completed in clone_status, clone again. After a long wait"
            " look for external XA transactions and huge commits on the donor, and clone from a"
            " replica next time."
        ),
    )
)

GTID_TABLE_WITHIN_EXECUTED = register(
    Rule(
        number=63,
        name="gtid_table_within_executed",
        tier=3,
        scope="S",
        severity=Severity.CRITICAL,
        claim=(
            "Every GTID in the table mysql.gtid_executed is executed, logged, owned by a session"
            " that is committing it, or that of a prepared XA transaction."
        ),
        why=(
            "The table is filled from transactions that InnoDB has committed or prepared, and read"
            " before the row, so it trails gtid_executed. A GTID only in the table would count as"
            " executed after the next start, and its transaction would never come."
        ),
        undecided_when=(
            "the table was not read or is not readable, gtid_executed is not readable, or an"
            " excess could be owned or prepared and gtid_owned or the prepared XA transactions"
            " were not read, or gtid_executed began anew (RESET) while the answer was read"
        ),
        sources=("WL#9211, F-7", "MySQL manual: mysql.gtid_executed Table"),
        remedy=(
            "Before the server is restarted, find out whether the transaction's changes are in the"
            " data. If they are not, rebuild the server: never edit the table."
        ),
    )
)

PURGE_WAITS_FOR_GTID_PERSIST = register(
    Rule(
        number=64,
        name="purge_waits_for_gtid_persist",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "Undo purge never passes the oldest transaction whose GTID is not in the table yet,"
            " and the number stored in the TRX_SYS page never passes it either and never falls."
        ),
        why=(
            "Between commit and the persister's next write, about a second, a GTID is durable only"
            " in the undo log header. Purge asks the persister for its limit, and recovery reads"
            " undo only from the stored number on: beyond the limit a crash loses GTIDs."
        ),
        undecided_when=(
            "the persister's steps were not observed from its last write on, or the journal has a"
            " gap among them"
        ),
        sources=("WL#9211, Key design points 2 to 4",),
        remedy=(
            "Nothing is lost before a crash: let the persister catch up (FLUSH BINARY LOGS stores"
            " all logged GTIDs in the table), compare the table with gtid_executed, and report the"
            " server's version."
        ),
    )
)

CLONE_STATUS_AGREES = register(
    Rule(
        number=71,
        name="clone_status_agrees",
        tier=3,
        scope="T",
        severity=Severity.ERROR,
        claim=(
            "clone_status and clone_progress agree with each other and with the clone that the"
            " journal tells of: Completed or Failed as it ended, an error number where it failed"
            " and nowhere else, no stage in front of one that is not completed, and the"
            " coordinates that recovery read from the TRX_SYS page and the GTID table."
        ),
        why=(
            "The state is all that an administrator looks at before replication starts from the"
            " coordinates beside it. A clone that failed has dropped the recipient's data and has"
            " no coordinates; recovery alone knows those of a clone that completed."
        ),
        undecided_when=(
            "clone_status was not read, its columns are not readable, the end of the clone was not"
            " observed, or the clone ended while the row was read"
        ),
        sources=(
            "WL#9211, US-1 step-3, F-1.2 and Clone PHY binary log position",
            "MySQL manual: The clone_status Table; The clone_progress Table",
        ),
        remedy=(
            "Look into the recipient's error log for how the clone ended. Do not start replication"
            " from the coordinates; clone again if the clone failed."
        ),
    )
)

CLONE_COMMITS_ORDERED = register(
    Rule(
        number=72,
        name="clone_commits_ordered",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "Once a clone has forced the commit order and awaited what was prepared before, and"
            " until it releases the order, the binary log coordinates in the donor's TRX_SYS page"
            " never fall."
        ),
        why=(
            "One position stands for the cloned data only if everything logged before it is"
            " committed and nothing behind it. Each commit writes its own place into the page, so"
            " a fall shows a group that committed behind a later one: at that moment the page"
            " named data that were not there."
        ),
        undecided_when=(
            "the donor's steps or its commits while the order was forced were not observed, or"
            " binary logging is off"
        ),
        sources=("WL#9211, Clone PHY binary log position",),
        remedy=(
            "Treat the clone's position as wrong: clone again, and set binlog_order_commits=ON and"
            " replica_preserve_commit_order=ON on the donor until the server is corrected."
        ),
    )
)

CLONE_BLOCKS_XA = register(
    Rule(
        number=73,
        name="clone_blocks_xa",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "While the end of a clone blocks external XA, the donor logs no XA PREPARE, XA COMMIT"
            " or XA ROLLBACK."
        ),
        why=(
            "The setting binlog_order_commits does not order XA statements: they are logged and"
            " counted as executed before InnoDB has done them. A GTID saved in between would tell"
            " the recipient of a transaction that its data do not have."
        ),
        undecided_when="the begin or end of the block was not observed",
        sources=("WL#9211, Clone PHY binary log position",),
        remedy=(
            "Compare the XA transaction's rows on donor and recipient before the recipient is"
            " used; clone again if they differ."
        ),
    )
)

FAILED_CLONE_NOT_RESUMED = register(
    Rule(
        number=74,
        name="failed_clone_not_resumed",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "After a clone that failed once it had begun to drop the recipient's data, replication"
            " does not start there before another clone has completed or the data were restored."
        ),
        why=(
            "DROP DATA comes first, and gtid_executed stays as it was until the restart. A replica"
            " that goes on from there receives only what is new: all that it had executed before"
            " is gone from its tables, and no set or position shows it."
        ),
        undecided_when=(
            "the stages or the end of the clone were not observed, or it is not told that the"
            " clone replaces the recipient's own data (DESTINATION LOCAL INSTANCE)"
        ),
        sources=(
            "WL#9211, Failure Model Specification",
            "MySQL manual: Cloning Remote Data",
        ),
        remedy=(
            "Stop replication on the recipient at once, issue the clone again, and look into"
            " clone_status before replication is started."
        ),
    )
)
