"""Tier 3: does a collection inside the server keep its protocol? Registry entries.

The steps come from `collection` records (docs/journal.md), which a simulated or an instrumented
server writes; without them none of these is decided.
"""

from __future__ import annotations

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.registry import Rule, register

COLLECTION_LOCK_ORDER = register(
    Rule(
        number=51,
        name="collection_lock_order",
        tier=3,
        scope="T",
        severity=Severity.ERROR,
        claim=(
            "One collector at a time takes its locks in the fixed order: collector, channel map,"
            " plugins, channels, binary log, GTID state, storage engines."
        ),
        why=(
            "Committing sessions and channel threads take the same locks in the same direction, so"
            " nobody waits in a circle. The receiver writes a table after it takes its own lock,"
            " which is why channels come before the engines."
        ),
        undecided_when=(
            "the lock steps of the collection were not observed, or the journal has a gap among"
            " them"
        ),
        sources=("WL#9452, High Level Specification and Step-3",),
        remedy=(
            "Collect with one client until the server is mended. If sessions hang, end the"
            " collecting session first, and report the order of locks with the server's version."
        ),
    )
)

COLLECTION_UNLOCK_COMPLETE = register(
    Rule(
        number=52,
        name="collection_unlock_complete",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "Every lock that a collection takes is released, engines first and in reverse order,"
            " also when it ends with an error or its client has gone."
        ),
        why=(
            "The server walks its list of resources back on every way out, then releases the"
            " channel map and the collector's lock. One that stays stops commits or channel"
            " administration for good. LOCK_plugin is given back early, once the engines are"
            " listed."
        ),
        undecided_when=(
            "the steps of the collection were not observed to their end, or the journal has a gap"
            " among them; a boot that ends in between takes its locks with it"
        ),
        sources=("WL#9452, NF-1 and F-1.4",),
        remedy=(
            "Look in performance_schema.metadata_locks and the process list for who waits. A mutex"
            " that was left locked goes only with a restart of the server; stop collecting until"
            " it is patched."
        ),
    )
)

NO_PROGRESS_WHILE_LOCKED = register(
    Rule(
        number=53,
        name="no_progress_while_locked",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "Between the last lock and the first unlock of a collection nothing is logged or"
            " executed, no channel is changed and no receiver flushes its positions; the log of a"
            " locked engine stands still."
        ),
        why=(
            "Each of these acts needs a lock that the collection holds: LOCK_log, the lock of the"
            " GTID state, the channel map, Master_info::data_lock, and in InnoDB room in the log"
            " buffer. Relay events may still be written, but their positions wait. If one act goes"
            " on, the row is not one instant."
        ),
        undecided_when=(
            "the collection's last lock or first unlock was not observed, or the journal has a gap"
            " between them; an engine's log, when the steps do not tell its LSN"
        ),
        sources=("WL#9452, F-2.1 to F-2.5",),
        remedy=(
            "Discard the row and all that was cut by it. If it comes back, take backups under FLUSH"
            " TABLES WITH READ LOCK with the appliers stopped, and report the server's version."
        ),
    )
)

COLLECTION_WITHIN_BUDGET = register(
    Rule(
        number=54,
        name="collection_within_budget",
        tier=3,
        scope="T",
        severity=Severity.WARNING,
        claim=(
            "A collection leaves its state within its budget, one second unless configured"
            " otherwise, after it entered."
        ),
        why=(
            "While the locks are held every commit waits, so the server copies a few values from"
            " memory and lets go; healthy ones take well under a second. Long holding is mostly"
            " waiting for a huge group that is being written, with other locks already taken."
        ),
        undecided_when=(
            "entering or leaving was not observed, or their times are not known because of a gap"
        ),
        sources=("WL#9452, introduction", "WL#9211, NF-1"),
        remedy=(
            "Look for very large transactions, slow syncs of the binary log's disk and many"
            " channels; collect less often, or in quieter hours, until they are gone."
        ),
    )
)
