"""All rules: importing this module registers every family."""

from tallystick.coordinates.rules import (
    backup_coordinates,
    backup_locks,
    channel,
    clone,
    collection,
    critical_zone,
    fleet,
    gtid_persistence,
    history,
    innodb,
    log_stream,
    logged_groups,
    online_backup,
    point_in_time_recovery,
    readable,
    replication_info,
    snapshot,
)
from tallystick.coordinates.rules.registry import REASONS, RULES

__all__ = [
    "REASONS",
    "RULES",
    "backup_coordinates",
    "backup_locks",
    "channel",
    "clone",
    "collection",
    "critical_zone",
    "fleet",
    "gtid_persistence",
    "history",
    "innodb",
    "log_stream",
    "logged_groups",
    "online_backup",
    "point_in_time_recovery",
    "readable",
    "replication_info",
    "snapshot",
]
