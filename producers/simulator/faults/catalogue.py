"""The faults of the catalogue, as data: what is changed, and what that breaks.

The names of broken invariants are texts here: a producer does not know the auditor. How a fault is
injected stands beside it in the modules of this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallystick.producers.simulator.faults.fault import BaseHistory, FaultGroup, declare

if TYPE_CHECKING:
    from tallystick.producers.simulator.faults.fault import Fault

_CORE: Final = frozenset(
    (1, 3, 4, 6, 7, *range(9, 15), 16, 17, 20, 21, 23, *range(27, 31), 32, 33, *range(35, 38), 41,
     42, *range(44, 55), 57, 58, 60, 61, 62, 66, 69, 72, 73, 77)
)  # fmt: skip


_LAST_OF_GROUP: Final = {
    24: FaultGroup.SNAPSHOT,
    41: FaultGroup.STREAM,
    56: FaultGroup.CHANNEL,
    63: FaultGroup.FLEET,
    77: FaultGroup.PROTOCOL,
}


def _fault(number: int, name: str, injection: str, *must_fire: str, **more: Any) -> Fault:
    group = next(group for last, group in _LAST_OF_GROUP.items() if number <= last)
    is_core = number in _CORE
    return declare(number, group, name, injection, *must_fire, is_core=is_core, **more)


CATALOGUE: Final = (
    _fault(
        1, "gtid_text_corrupted",
        "one character of gtid_executed is replaced so that no server could read it",
        "gtid_text_wellformed",
    ),
    _fault(
        2, "gtid_text_unmerged",
        "gtid_executed prints one interval as two that touch",
        "gtid_text_canonical",
    ),
    _fault(
        3, "snapshot_key_dropped",
        "a row has the binary log's file name and no position",
        "log_status_row_complete",
    ),
    _fault(
        4, "channel_row_doubled",
        "a row lists one channel twice, once in capitals",
        "channel_rows_unique",
        base=BaseHistory.REPLICA,
    ),
    _fault(
        5, "snapshot_silently_empty",
        "a collection brings no row and no error",
        "snapshot_never_silently_empty",
    ),
    _fault(
        6, "position_beyond_file",
        "the row's position is 10 000 bytes past the end of its file",
        "snapshot_position_within_file",
    ),
    _fault(
        7, "position_inside_group",
        "the row's position is the end of a table map inside the newest group",
        "snapshot_position_on_group_boundary",
    ),
    _fault(
        8, "position_inside_event",
        "the row's position is 7 bytes into an event of the newest group",
        "snapshot_position_on_group_boundary",
    ),
    _fault(
        9, "executed_ahead_of_position",
        "gtid_executed holds a logged group that ends after the row's position",
        "executed_within_logged",
    ),
    _fault(
        10, "position_regressed",
        "the row's position is an older group end than the row before showed",
        "executed_within_logged", "snapshot_position_monotone",
    ),
    _fault(
        11, "commit_lag_excess",
        "gtid_executed trails the position by more groups than can be in flight",
        "commit_lag_bounded",
    ),
    _fault(
        12, "executed_hole_transient",
        "a GTID in the middle is missing from one row's gtid_executed, though commits are ordered",
        "commit_lag_is_suffix",
    ),
    _fault(
        13, "executed_hole_permanent",
        "one logged GTID never enters gtid_executed",
        "commit_lag_is_suffix", "logged_eventually_executed",
        heals=False,
        bears_acts=False,
    ),
    _fault(
        14, "executed_shrunk",
        "gtid_executed loses its last GTID for one row",
        "executed_monotone",
    ),
    _fault(
        15, "stale_snapshot_republished",
        "an instance without channels answers one collection with the row of an older one",
        "executed_monotone", "lsn_monotone", "snapshot_position_monotone",
    ),
    _fault(
        16, "purged_outside_executed",
        "gtid_purged holds a GTID that is not in gtid_executed",
        "purged_matches_oldest_file", "purged_within_executed",
    ),
    _fault(
        17, "purged_not_advanced",
        "binary log files are purged and gtid_purged stays as it was for one row",
        "purged_matches_oldest_file",
    ),
    _fault(
        18, "purged_shrunk",
        "gtid_purged loses its newest GTID for one row",
        "purged_matches_oldest_file", "purged_monotone",
    ),
    _fault(
        19, "owned_and_executed",
        "one GTID is in gtid_owned and in gtid_executed",
        "owned_disjoint_from_executed",
    ),
    _fault(
        20, "lsn_regressed",
        "the row's LSN is lower than the row before showed, above the checkpoint",
        "lsn_monotone",
    ),
    _fault(
        21, "lsn_frozen",
        "the row repeats the LSN of the row before although transactions were committed between",
        "lsn_grows_with_commits",
    ),
    _fault(
        22, "lsn_in_block_trailer",
        "the row's LSN lies in the trailer of a redo block",
        "lsn_block_offset",
    ),
    _fault(
        23, "checkpoint_beyond_lsn",
        "the row's checkpoint is beyond its LSN",
        "lsn_order",
    ),
    _fault(
        24, "checkpoint_stalled",
        "the checkpoint stays behind by more than the redo log can hold",
        "checkpoint_age_within_capacity",
    ),
    _fault(
        25, "format_event_missing",
        "the event at offset 4 of a new binary log file is of another type",
        "binlog_file_framing",
    ),
    _fault(
        26, "rotate_written_twice",
        "a binary log file ends with two ROTATE events that name one next file",
        "binlog_file_framing",
    ),
    _fault(
        27, "group_lost_from_stream",
        "the events of one group never reach the binary log's journal",
        "log_events_contiguous",
        heals=False,
    ),
    _fault(
        28, "relay_group_lost_from_stream",
        "the events of one group never reach the relay log's journal",
        "log_events_contiguous",
        heals=False,
        base=BaseHistory.REPLICA,
    ),
    _fault(
        29, "offset_truncated_to_32_bits",
        "after 4 GiB of one binary log file an event's start is reported modulo 2^32",
        "log_events_contiguous",
    ),
    _fault(
        30, "conflicting_redelivery",
        "one event of the binary log is delivered again with another content",
        "log_redelivery_identical",
    ),
    _fault(
        31, "log_pos_field_wrong",
        "the header field log_pos of one event is off by the size of a header",
        "binlog_log_pos_field_agrees",
    ),
    _fault(
        32, "rotate_skips_number",
        "a binary log file rotates to the number after the next, and that one follows",
        "binlog_files_form_range", "binlog_rotate_successor",
        heals=False,
    ),
    _fault(
        33, "group_split_by_rotate",
        "a binary log file ends inside a group, whose rest opens the next file",
        "binlog_group_wellformed",
        heals=False,
        base=BaseHistory.REPLICA,
    ),
    _fault(
        34, "transaction_length_wrong",
        "the transaction_length of one GTID event is one too many",
        "transaction_length_agrees",
    ),
    _fault(
        35, "sequence_number_jump",
        "a sequence number is left out, bytes are not",
        "sequence_numbers_valid",
        heals=False,
    ),
    _fault(
        36, "gtid_logged_twice",
        "one GTID opens two groups of one binary log",
        "gtid_logged_once",
        heals=False,
    ),
    _fault(
        37, "previous_gtids_stale",
        "a new file's PREVIOUS_GTIDS lacks the last group of the file before",
        "previous_gtids_continuity",
    ),
    _fault(
        38, "own_gno_skipped",
        "a source leaves out one GNO for good",
        "own_gno_dense",
        heals=False,
    ),
    _fault(
        39, "anonymous_in_gtid_mode_on",
        "one anonymous group is logged under gtid_mode=ON",
        "gtid_mode_respected",
        heals=False,
    ),
    _fault(
        40, "middle_file_missing",
        "a file in the middle of the binary logs vanishes from the index",
        "binlog_files_form_range",
    ),
    _fault(
        41, "restart_appends_to_old_file",
        "after a start the server goes on in the file that it closed",
        "binlog_files_form_range",
        heals=False,
    ),
    _fault(
        42, "receiver_skips_group",
        "one group of the source is never queued and never executed",
        "relay_mirrors_source",
        heals=False,
        bears_acts=False,
    ),
    _fault(
        43, "receiver_requeues_old_group",
        "an older group is queued again without a reconnect",
        "relay_mirrors_source", "relay_source_pos_monotone",
        heals=False,
    ),
    _fault(
        44, "relay_position_beyond_file",
        "the flushed relay position is past the end of its file for one row",
        "relay_position_on_written_boundary",
    ),
    _fault(
        45, "relay_position_regressed",
        "the flushed relay position falls to an older event's end for one row",
        "channel_positions_monotone",
    ),
    _fault(
        46, "applied_ahead_of_flushed",
        "the applied relay position is three groups beyond the flushed one",
        "applied_within_flushed",
    ),
    _fault(
        47, "exec_beyond_read",
        "the applied source position is a group end beyond the read position",
        "exec_source_pos_within_read",
    ),
    _fault(
        48, "relay_pos_saved_as_exec_pos",
        "the applied source position holds a relay log's offset",
        "source_coordinate_valid",
    ),
    _fault(
        49, "applied_gtid_missing",
        "the applied relay position passes a group whose GTID was neither executed nor logged",
        "applied_relay_gtids_executed",
    ),
    _fault(
        50, "retrieved_inflated",
        "Retrieved_Gtid_Set names a GTID of the source that was not received yet",
        "retrieved_matches_relay",
    ),
    _fault(
        51, "executed_without_receipt",
        "a replica executes and logs a group of the source that no relay log held",
        "executed_growth_explained",
    ),
    _fault(
        52, "master_info_ahead",
        "the stored read position is one group after the last event of the relay log",
        "master_info_not_ahead_of_relay",
    ),
    _fault(
        53, "relay_info_torn",
        "a write to slave_relay_log_info pairs the new relay position with the old source position",
        "relay_info_coordinates_paired",
    ),
    _fault(
        54, "relay_info_not_updated",
        "a transaction commits and slave_relay_log_info still names the group before",
        "relay_info_updated_with_commit",
    ),
    _fault(
        55, "master_info_not_flushed_on_stop",
        "the receiver stops and slave_master_info is not written",
        "master_info_flush_points",
    ),
    _fault(
        56, "both_repositories_filled",
        "at a start file and table both hold replication info, and the start succeeds",
        "info_repository_unambiguous",
    ),
    _fault(
        57, "source_loses_commits_at_crash",
        "a power cut takes three groups from a source's logs that its replica has received",
        "executed_monotone", "received_within_source_logged", "source_coordinate_valid",
        heals=False,
    ),
    _fault(
        58, "gno_reused_after_reset",
        "a source is reset and numbers its new groups as the old ones, which a replica keeps",
        "gtid_origin_agreement", "received_within_source_logged",
        heals=False,
        bears_acts=False,
    ),
    _fault(
        59, "phantom_group_received",
        "a relay log holds a group that its source never logged",
        "received_within_source_logged", "relay_mirrors_source",
        heals=False,
        bears_acts=False,
    ),
    _fault(
        60, "errant_write",
        "a client writes on a replica",
        "no_errant_gtids",
        heals=False,
    ),
    _fault(
        61, "source_purged_too_early",
        "a source purges a binary log file that its replica still needs",
        "purged_not_needed",
        heals=False,
    ),
    _fault(
        62, "server_uuid_copied",
        "an idle twin reports the server_uuid of another instance",
        "server_uuid_unique",
        heals=False,
        base=BaseHistory.SERVER,
    ),
    _fault(
        63, "recovery_drops_gtid",
        "after a power cut the last recovered group is missing from the first gtid_executed",
        "recovered_gtids_complete",
        base=BaseHistory.SERVER,
    ),
    _fault(
        64, "lock_order_inverted",
        "a collection locks the engine's log before the binary log",
        "collection_lock_order",
    ),
    _fault(
        65, "lock_leaked_on_error",
        "a collection that fails leaves the channel map locked",
        "collection_unlock_complete",
    ),
    _fault(
        66, "commit_during_collection",
        "a group is logged while a collection holds every lock",
        "no_progress_while_locked",
    ),
    _fault(
        67, "collection_too_slow",
        "a collection holds its locks for three seconds",
        "collection_within_budget",
    ),
    _fault(
        68, "zone_entered_while_closed",
        "a commit zone lets a transaction in after the validity point, before it opens",
        "zone_entry_protocol",
    ),
    _fault(
        69, "vp_before_zone_empty",
        "the validity point is taken while a transaction is still inside the commit zone",
        "vp_only_in_empty_closed_zone",
    ),
    _fault(
        70, "engine_lock_overtime",
        "locking the engines takes three seconds and the backup goes on",
        "engine_lock_budget",
    ),
    _fault(
        71, "unlogged_nontrx_write_under_lock",
        "a MyISAM table changes, unlogged, under LOCK TABLES FOR BACKUP",
        "backup_locks_freeze_scope",
    ),
    _fault(
        72, "innodb_header_stale_under_lock",
        "under LOCK TABLES FOR BACKUP the InnoDB header names an older group's coordinates",
        "trx_sys_coords_fresh_under_lock",
    ),
    _fault(
        73, "clone_position_shifted",
        "a clone reports a position one group before its GTID set",
        "clone_coordinates_equal_donor",
        heals=False,
        base=BaseHistory.SINGLE_CHANNEL,
    ),
    _fault(
        74, "clone_resume_gap",
        "the first group that a clone receives is one too late",
        "clone_resume_exact",
        heals=False,
        base=BaseHistory.SINGLE_CHANNEL,
        bears_acts=False,
    ),
    _fault(
        75, "clone_blocks_donor",
        "a clone blocks the donor's commits for two seconds",
        "clone_protocol",
        base=BaseHistory.SINGLE_CHANNEL,
    ),
    _fault(
        76, "gtid_table_ahead",
        "mysql.gtid_executed holds a GTID that is neither executed, owned nor prepared",
        "gtid_table_within_executed",
    ),
    _fault(
        77, "purge_overtakes_persister",
        "undo is purged up to a transaction whose GTID is not stored yet",
        "purge_waits_for_gtid_persist",
    ),
)  # fmt: skip
"""The faults of the catalogue, in its order."""
