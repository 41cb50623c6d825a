"""The invariants: predicates with names, and the prose that says what they claim and why.

Importing this package registers all of them in `INVARIANTS`.
"""

from tallystick.coordinates.invariants import (
    backup_locks,
    channel,
    clone,
    collection,
    fleet,
    gtid_persistence,
    history,
    innodb,
    log_stream,
    online_backup,
    point_in_time_recovery,
    readable,
    replication_info,
    snapshot,
)
from tallystick.coordinates.invariants._registry import INVARIANTS, Invariant, Scope, register

__all__ = [
    "INVARIANTS",
    "Invariant",
    "Scope",
    "backup_locks",
    "channel",
    "clone",
    "collection",
    "fleet",
    "gtid_persistence",
    "history",
    "innodb",
    "log_stream",
    "online_backup",
    "point_in_time_recovery",
    "readable",
    "register",
    "replication_info",
    "snapshot",
]
