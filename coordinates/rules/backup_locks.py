"""Tier 3: do Percona's backup locks keep their promises? Registry entries.

The steps come from `backup_lock` and `statement` records, what a backup says of itself from
`backup` records (docs/journal.md).
"""

from __future__ import annotations

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.registry import Rule, register

BACKUP_LOCKS_FREEZE_SCOPE = register(
    Rule(
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
            " goes on under the first; its redo brings the copy up to date. In the binary log a"
            " group of rows that ends in COMMIT is a non-transactional change, and a group of one"
            " statement is DDL."
        ),
        undecided_when=(
            "locking or unlocking was not observed, the journal has a gap in between, or statements"
            " that bypass the binary log are not reported by the observer. A row of SHOW REPLICA"
            " STATUS counts only if its collection was requested under the lock; of a compressed"
            " group nobody knows what it changes"
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
    Rule(
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

BACKUP_LOCK_PROTOCOL = register(
    Rule(
        number=75,
        name="backup_lock_protocol",
        tier=3,
        scope="T",
        severity=Severity.ERROR,
        claim=(
            "A session takes LOCK TABLES FOR BACKUP before LOCK BINLOG FOR BACKUP, releases them in"
            " reverse, and holds neither when its backup has ended."
        ),
        why=(
            "A non-transactional change holds its table while it waits to log itself: who holds the"
            " binlog lock and then asks for the table lock waits for it, and it waits for the"
            " binlog lock. With the table lock released first such a change becomes visible that"
            " no coordinate holds. What a backup leaves locked stops the server's work."
        ),
        undecided_when=(
            "the steps of the session were not observed, or the server ended it: then it releases"
            " its locks itself. A session that never tells its end may hold them as long as it"
            " needs"
        ),
        sources=("Percona backup-safe binlog information, whiteboard: case 1",),
        remedy=(
            "End the session that holds the lock (KILL), take the backup again with the locks in"
            " order, and see that the utility unlocks on every way out."
        ),
    )
)

BACKUP_COORDINATES_MATCH_DATA = register(
    Rule(
        number=76,
        name="backup_coordinates_match_data",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "The binary log coordinates that a backup reports are the end of a group, and the data"
            " it copied hold the groups up to there and none from behind it."
        ),
        why=(
            "Redo is finished, and the coordinates are read, while no commit happens: under LOCK"
            " BINLOG FOR BACKUP; or both come out of the same redo: each InnoDB commit writes its"
            " coordinates into the InnoDB header, and LOCK TABLES FOR BACKUP those of what InnoDB"
            " did not commit. A group without changes leaves no trace in the data."
        ),
        undecided_when=(
            "the backup does not tell the GTIDs of its data (gtid_mode OFF), the groups up to the"
            " place are not known, or the place is older than the events remembered"
        ),
        sources=("Percona backup-safe binlog information, whiteboard: case 1",),
        remedy=(
            "Do not start a replica or a point-in-time recovery at these coordinates. Take the"
            " backup again with LOCK BINLOG FOR BACKUP, or on a server with"
            " have_backup_safe_binlog_info."
        ),
    )
)

BACKUP_REPLICA_COORDINATES_MATCH_DATA = register(
    Rule(
        number=77,
        name="backup_replica_coordinates_match_data",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "The position on its source that a replica's backup reports is the one that the copied"
            " data have reached: they hold what the channel brought up to it, and nothing from"
            " behind it."
        ),
        why=(
            "SHOW REPLICA STATUS is read, and redo is finished, under LOCK BINLOG FOR BACKUP, which"
            " stops receiver and appliers as well. The InnoDB header says nothing of it."
        ),
        undecided_when=(
            "the backup does not tell the GTIDs of its data, or the relay log was not observed. On"
            " a multi-threaded replica the position is a low-water mark: what lies behind it is not"
            " judged; neither is what another channel may have brought"
        ),
        sources=("Percona backup-safe binlog information, whiteboard: case 2",),
        remedy=(
            "Do not start replication of the restored copy at this position: groups would be"
            " repeated or lost. Take the backup again with LOCK BINLOG FOR BACKUP, or let the copy"
            " replicate by GTID."
        ),
    )
)

BACKUP_BINLOG_COPY_MATCHES_DATA = register(
    Rule(
        number=78,
        name="backup_binlog_copy_matches_data",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "The binary log file that a snapshot of a Galera node takes along ends with a whole"
            " group, and with the last group that the copied data hold."
        ),
        why=(
            "A joiner reads from that file which GTIDs its data hold. Under LOCK BINLOG FOR BACKUP"
            " the file does not grow between the end of the redo copy and the end of its own copy."
        ),
        undecided_when=(
            "the backup does not tell the GTIDs of its data, or the end of the copy is older than"
            " the events remembered"
        ),
        sources=("Percona backup-safe binlog information, whiteboard: case 3",),
        remedy=(
            "Throw the joiner's data away and let it take a new snapshot, made with LOCK BINLOG FOR"
            " BACKUP; else it will skip groups that it does not hold."
        ),
    )
)
