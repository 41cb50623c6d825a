"""Tier 3: does an online backup (WL#3576) freeze the server as it says? Registry entries.

The steps come from `zone` and `engine_lock` records (docs/journal.md).
"""

from __future__ import annotations

from coordinates.invariants._registry import Invariant, register
from coordinates.verdict import Severity

ZONE_ENTRY_PROTOCOL = register(
    Invariant(
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
    Invariant(
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
    Invariant(
        number=57,
        name="engine_lock_budget",
        tier=3,
        scope="T",
        severity=Severity.ERROR,
        claim=(
            "All engines together are locked within 2 seconds; otherwise all are released, 10"
            " seconds or more pass before the next try, and after some tries the backup is given"
            " up."
        ),
        why=(
            "Locked engines stall the whole server while the next one is still waited for. Each"
            " engine gets only what is left of the common budget, and a failed round lets everybody"
            " work before it is repeated."
        ),
        undecided_when=(
            "the rounds' steps or their times were not observed, or the journal has a gap among"
            " them"
        ),
        sources=("WL#3576, mail of 2006-10-30",),
        remedy=(
            "Look at which engine was slow (a huge transaction, a full disk, a slow flush) and run"
            " the backup at a quieter time; end a backup that holds its locks beyond the budget."
        ),
    )
)
