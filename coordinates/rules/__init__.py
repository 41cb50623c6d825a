"""The rules: predicates with names, and the prose that says what they claim and why.

Importing this package registers all of them in `RULES`.
"""

from tallystick.coordinates.rules import (
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
from tallystick.coordinates.rules.registry import RULES, Rule, Scope, register

__all__ = [
    "RULES",
    "Rule",
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
