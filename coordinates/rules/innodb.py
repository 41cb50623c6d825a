"""Invariants of the InnoDB redo log at one row."""

from __future__ import annotations

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.registry import Rule, register

LSN_ORDER = register(
    Rule(
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
            " right there, fix the collector; if not, take a logical backup at once and look for"
            " a damaged redo log."
        ),
    )
)


LSN_BLOCK_OFFSET = register(
    Rule(
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
        sources=(
            "WL#9452, F-1.2.4",
            "MySQL source documentation: InnoDB redo log, format of redo log blocks",
        ),
        remedy=(
            "Find what rounded or computed the LSN on the way (a collector, a conversion to a"
            " floating-point number) and discard backups that were cut at it."
        ),
    )
)


CHECKPOINT_AGE_WITHIN_CAPACITY = register(
    Rule(
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
        sources=(
            "WL#9452, High Level Specification: LSN_checkpoint",
            "MySQL manual: Redo Log; innodb_redo_log_capacity",
        ),
        remedy=(
            "Check that the told capacity is the server's. Then enlarge innodb_redo_log_capacity"
            " and look for slow page flushing (innodb_io_capacity, a slow disk, an error in the"
            " log)."
        ),
    )
)
