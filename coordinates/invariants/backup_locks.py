"""Tier 3: do Percona's backup locks keep their promises? Registry entries.

The steps come from `backup_lock` and `statement` records (docs/journal.md).
"""

from __future__ import annotations

from coordinates.invariants._registry import Invariant, register
from coordinates.verdict import Severity

BACKUP_LOCKS_FREEZE_SCOPE = register(
    Invariant(
        number=58,
        name="backup_locks_freeze_scope",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "Under LOCK TABLES FOR BACKUP no non-transactional change or DDL happens; under LOCK"
            " BINLOG FOR BACKUP the binary log, read and executed coordinates stand still."
        ),
        why=(
            "Non-transactional writes and DDL take the table lock in conflict with the first, and"
            " everything that moves one of the three coordinates takes that of the second. InnoDB"
            " goes on under the first; its redo brings the copy up to date."
        ),
        undecided_when=(
            "locking or unlocking was not observed, the journal has a gap in between, or statements"
            " that bypass the binary log are not reported by the observer"
        ),
        sources=("Percona backup-safe binlog information, whiteboard: cases 1 and 2",),
        remedy=(
            "Discard the backup and take it again. Look for writes that bypass the lock (plugins,"
            " direct changes of files, sql_log_bin=0 on non-transactional tables); move such tables"
            " to InnoDB."
        ),
    )
)

TRX_SYS_COORDS_FRESH_UNDER_LOCK = register(
    Invariant(
        number=59,
        name="trx_sys_coords_fresh_under_lock",
        tier=3,
        scope="S",
        severity=Severity.CRITICAL,
        claim=(
            "On a server with have_backup_safe_binlog_info the InnoDB system header is, while LOCK"
            " TABLES FOR BACKUP is held, not behind the binary log coordinate of the time of the"
            " lock."
        ),
        why=(
            "InnoDB alone stores the coordinate at its own commits, so a non-transactional write"
            " leaves it stale. Such a server writes and redo-logs the current coordinate as part"
            " of the lock; InnoDB commits under the lock move it on. Elsewhere, and in MySQL 8.0"
            " unless a clone runs, a stale header is normal."
        ),
        undecided_when=(
            "the header was not read under the lock, the lock was not observed, or the coordinate"
            " at lock time is not known. Nothing is claimed of a server without the variable"
        ),
        sources=("Percona backup-safe binlog information, whiteboard",),
        remedy=(
            "Do not start a replica from coordinates that the backup read out of InnoDB: take the"
            " backup again with LOCK BINLOG FOR BACKUP, or use GTIDs."
        ),
    )
)
