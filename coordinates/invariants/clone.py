"""Tier 3: clone, and how InnoDB keeps GTIDs. Registry entries of what one instance shows alone.

What needs donor and recipient together is in `coordinates.invariants.fleet`.
"""

from __future__ import annotations

from coordinates.invariants._registry import Invariant, register
from coordinates.verdict import Severity

CLONE_PROTOCOL = register(
    Invariant(
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
    Invariant(
        number=63,
        name="gtid_table_within_executed",
        tier=3,
        scope="S",
        severity=Severity.CRITICAL,
        claim=(
            "Every GTID in the table mysql.gtid_executed is executed, owned by a session that is"
            " committing it, or that of a prepared XA transaction."
        ),
        why=(
            "The table is filled from transactions that InnoDB has committed or prepared, and read"
            " before the row, so it trails gtid_executed. A GTID only in the table would count as"
            " executed after the next start, and its transaction would never come."
        ),
        undecided_when=(
            "the table was not read or is not readable, gtid_executed is not readable, or an"
            " excess could be owned or prepared and gtid_owned or the prepared XA transactions"
            " were not read"
        ),
        sources=("WL#9211, F-7", "MySQL manual: mysql.gtid_executed Table"),
        remedy=(
            "Before the server is restarted, find out whether the transaction's changes are in the"
            " data. If they are not, rebuild the server: never edit the table."
        ),
    )
)

PURGE_WAITS_FOR_GTID_PERSIST = register(
    Invariant(
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
