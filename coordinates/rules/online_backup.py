"""Tier 3: does an online backup (WL#3576) freeze the server as it says? Registry entries.

The steps come from `zone`, `engine_lock`, `backup_lock` and `statement` records (docs/journal.md).
"""

from __future__ import annotations

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.registry import Rule, register

ZONE_ENTRY_PROTOCOL = register(
    Rule(
        number=55,
        name="zone_entry_protocol",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "No session enters a closed commit zone, each ticket is dropped exactly once, and the"
            " zone is opened only after it was closed."
        ),
        why=(
            "Entering takes a shared lock that the ticket holds, closing the exclusive one: who"
            " comes later waits until the zone opens. A session that slips in logs and commits in"
            " the middle of the validity point."
        ),
        undecided_when=(
            "the zone's steps were not observed from an open zone on, or the journal has a gap"
            " among them"
        ),
        sources=("WL#3576, Critical Zone API",),
        remedy=(
            "Discard the backup whose validity point lies in this closing: its data and its binary"
            " log position may differ. Take it again, without concurrent writes if it comes back."
        ),
    )
)

VP_ONLY_IN_EMPTY_CLOSED_ZONE = register(
    Rule(
        number=56,
        name="vp_only_in_empty_closed_zone",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "A validity point and its binary log position are taken only while the commit zone is"
            " closed and no session is inside."
        ),
        why=(
            "A ticket covers writing the binary log, commit and unlocking of tables. Once the zone"
            " is closed and the last ticket dropped, no change is logged without being visible, or"
            " visible without being logged, so position and data agree."
        ),
        undecided_when=(
            "the closing or the tickets before it were not observed, or the journal has a gap"
            " before the validity point"
        ),
        sources=("WL#3576, Solution with a critical zone",),
        remedy=(
            "Do not start a replica or a point-in-time recovery at the stored position of this"
            " backup; take the backup again."
        ),
    )
)

ENGINE_LOCK_BUDGET = register(
    Rule(
        number=57,
        name="engine_lock_budget",
        tier=3,
        scope="T",
        severity=Severity.ERROR,
        claim=(
            "All engines together are locked within one time-out, 2 seconds if no other is told,"
            " and each is given what is left of it; otherwise all are released, 10 seconds or more"
            " pass before the next round, and after the last round that is allowed nothing follows."
        ),
        why=(
            "Locked engines stall the whole server while the next one is still waited for. Each"
            " engine gets only what is left of the common budget, and a failed round lets everybody"
            " work before it is repeated. A backup that has bailed out holds nothing any more."
        ),
        undecided_when=(
            "the rounds' steps or their times were not observed, or the journal has a gap among"
            " them; what an engine was given, and how many rounds are allowed, is judged only if"
            " it is told"
        ),
        sources=("WL#3576, mail of 2006-10-30",),
        remedy=(
            "Look at which engine was slow (a huge transaction, a full disk, a slow flush) and run"
            " the backup at a quieter time; end a backup that holds its locks beyond the budget."
        ),
    )
)

CRITICAL_SEQUENCE_IN_ZONE = register(
    Rule(
        number=79,
        name="critical_sequence_in_zone",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "Who executes the critical sequence (write the binary log, commit, unlock the tables)"
            " holds a ticket of the zone during all of it, in this order, or changes no table that"
            " is backed up."
        ),
        why=(
            "Each thread decides while it locks its tables whether it will enter: always when no"
            " backup synchronises, else if it changes a table that is backed up. The closed, empty"
            " zone then proves that nobody is between logging a change and making it visible;"
            " unlocking is what does so for engines without transactions. What others log"
            " meanwhile is of tables that the backup leaves out."
        ),
        undecided_when=(
            "the steps of the sequence were not observed, tickets or the closing of the zone were"
            " not, or the tables of the thread or of the backup are not told"
        ),
        sources=(
            "WL#3576, Solution with a critical zone",
            "WL#3576, Optimization of the zone",
        ),
        remedy=(
            "Discard the backup whose validity point lies in this closing: it may hold a change"
            " that its binary log position does not, or the other way round. Look at what executed"
            " the change: an applier, a plugin or a statement that does not enter the zone."
        ),
    )
)

LOCKED_ENGINES_STAND_STILL = register(
    Rule(
        number=80,
        name="locked_engines_stand_still",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "From the moment an engine is locked for a backup until all are unlocked nothing that"
            " others see changes in it; where the binary log is one of the engines, no event is"
            " written to it."
        ),
        why=(
            "The validity point is one instant of all engines. Commits through the server are"
            " held back by the zone; engines that commit by themselves, as NDB for the other"
            " members of its cluster, and those without transactions stand still by their own lock"
            " alone."
        ),
        undecided_when=(
            "locking or unlocking was not observed, the journal has a gap in between, or changes"
            " that the binary log does not show are not reported by the observer. What a"
            " transactional engine does before a commit is not seen by others and not judged"
        ),
        sources=(
            "WL#3576, mail of 2006-10-30",
            "WL#3576, Solution with a critical zone",
        ),
        remedy=(
            "Discard the backup: its engines show different moments. Take it again without writes"
            " of the other members, and look at the engine whose lock did not hold."
        ),
    )
)

NO_METADATA_CHANGE_DURING_BACKUP = register(
    Rule(
        number=81,
        name="no_metadata_change_during_backup",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "While a backup holds the instance lock, from its begin to its end, no DDL is executed."
        ),
        why=(
            "Metadata operations do not pass the critical zone, because they are blocked during"
            " the whole backup: clients wait, and the applier of a replica stops with an error."
        ),
        undecided_when=(
            "locking or unlocking was not observed, the journal has a gap in between, or DDL is"
            " not reported by the observer: a statement in the binary log alone may be one that"
            " the lock lets pass, as of a temporary table"
        ),
        sources=("WL#3576, When the zone should be entered",),
        remedy=(
            "Discard the backup: its tables and their definitions may be of different moments."
            " Look for what executed the DDL past the lock."
        ),
    )
)
