"""The invariants: predicates with names, and the prose that says what they claim and why.

Importing this package registers all of them in `INVARIANTS`.
"""

from coordinates.invariants import (
    backup_locks,
    clone,
    collection,
    fleet,
    history,
    log_stream,
    online_backup,
    readable,
    snapshot,
)
from coordinates.invariants._registry import INVARIANTS, Invariant, Scope, register

__all__ = [
    "INVARIANTS",
    "Invariant",
    "Scope",
    "backup_locks",
    "clone",
    "collection",
    "fleet",
    "history",
    "log_stream",
    "online_backup",
    "readable",
    "register",
    "snapshot",
]
