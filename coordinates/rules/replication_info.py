"""Invariants of the replication info repositories (WL#2775)."""

from __future__ import annotations

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.registry import Rule, register

MASTER_INFO_NOT_AHEAD_OF_RELAY = register(
    Rule(
        number=33,
        name="master_info_not_ahead_of_relay",
        tier=2,
        scope="S",
        severity=Severity.CRITICAL,
        claim=(
            "The source coordinate stored for the receiver is not beyond the source position of the"
            " last event in the relay log."
        ),
        why=(
            "The receiver writes the event first and stores the position after it, so a crash"
            " between the two repeats events. The other order would lose them: the receiver would"
            " go on behind an event that no relay log holds."
        ),
        undecided_when=(
            "the repository (slave_master_info) was not read, the channel is gtid_only, the end of"
            " the relay log is not known (not observed, a gap, no source file named in it), or the"
            " receiver may have passed groups that it need not queue"
        ),
        sources=("WL#9452, Step-1", "WL#2775, REQ-3"),
        remedy=(
            "Do not start the receiver from the stored position. Begin at the executed position"
            " (relay_log_recovery=ON) or use auto-positioning."
        ),
    )
)


RELAY_INFO_COORDINATES_PAIRED = register(
    Rule(
        number=34,
        name="relay_info_coordinates_paired",
        tier=2,
        scope="S",
        severity=Severity.ERROR,
        claim=(
            "The two halves of a relay log info row, relay position and source position, denote one"
            " and the same event, or the source position lies behind it among events that the"
            " receiver ignores."
        ),
        why=(
            "Both are set under Relay_log_info::data_lock when a group is done and stored by one"
            " write. Within one relay file and one source file they differ by a constant, so that"
            " a torn pair shows. Whoever restores by one half and skips by the other repeats or"
            " loses groups. Ignored events, in a ring the replica's own, leave nothing in the relay"
            " log and move the source position up to the next event that is there."
        ),
        undecided_when=(
            "the repository was not read, the channel is gtid_only or fresh, or the relay events at"
            " the row's place were not observed or are no longer remembered"
        ),
        sources=("WL#2775, REQ-5", "Percona XtraBackup issue PXB-1737"),
        remedy=(
            "Trust gtid_executed instead of the row. Without GTIDs find the relay position's event"
            " with SHOW RELAYLOG EVENTS and take the source position from it."
        ),
    )
)


RELAY_INFO_UPDATED_WITH_COMMIT = register(
    Rule(
        number=35,
        name="relay_info_updated_with_commit",
        tier=2,
        scope="S",
        severity=Severity.CRITICAL,
        claim=(
            "A transactional relay log info repository names the end of the last transaction that"
            " the applier committed; not an earlier one and not a later one."
        ),
        why=(
            "The applier updates the row inside the transaction that it applies, so data and"
            " position commit or vanish together, also in a crash. An older row repeats"
            " transactions after a restart, a newer one loses them. MySQL 8.0 does not write the"
            " row for groups that no InnoDB commit ends (MyISAM, ANALYZE, FLUSH, XA): behind them"
            " it may stay, and an atomic DDL writes it before the applied coordinate moves."
        ),
        undecided_when=(
            "the repository was not read or is not transactional, the channel is gtid_only, or the"
            " applied coordinate is not known. Several workers store positions at checkpoints only:"
            " then only a row beyond the applied coordinate, or behind that of an earlier row, is a"
            " breach"
        ),
        sources=("WL#2775, REQ-5", "MySQL manual: Replication Metadata Repositories"),
        remedy=(
            "Check that mysql.slave_relay_log_info is InnoDB. Before a restart of the replica"
            " compare the row with gtid_executed, and set relay_log_recovery=ON with"
            " auto-positioning."
        ),
    )
)


MASTER_INFO_FLUSH_POINTS = register(
    Rule(
        number=36,
        name="master_info_flush_points",
        tier=2,
        scope="T",
        severity=Severity.WARNING,
        claim=(
            "While the receiver is stopped, the stored source coordinate is the one it had read"
            " when it stopped."
        ),
        why=(
            "A stop forces the receiver's positions into the repository. The other flush points of"
            " the design leave no moment at which both can be read at rest, and FLUSH RELAY LOGS"
            " does not write the row on 8.0.31, so only the stop is judged."
        ),
        undecided_when=(
            "the repository was not read, no stop of the receiver was observed since the channel"
            " began or it came while the answer was read, the read coordinate is not known, or the"
            " channel is gtid_only"
        ),
        sources=("WL#2775, REQ-3", "MySQL manual: sync_source_info"),
        remedy=(
            "Look into the error log for failed writes of the repository (a full disk, a lock on"
            " mysql.slave_master_info). Backups should use the row of log_status, not this table."
        ),
    )
)
