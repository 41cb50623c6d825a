"""What a reader of a log reports: events that no healthy server writes there. It knows no rule.

`coordinates.rules` has a case with the code of each kind, and a reason with that of each kind of
dropped events; the reporter makes findings and observations by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple


class AnomalyKind(str, Enum):
    """Everything that can be wrong with one log by itself."""

    GTID_UNREADABLE = "gtid_unreadable"
    PREVIOUS_GTIDS_UNREADABLE = "previous_gtids_unreadable"
    EVENT_AFTER_END_OF_FILE = "event_after_end_of_file"
    FIRST_EVENT_DIFFERS = "first_event_differs"
    SECOND_EVENT_DIFFERS = "second_event_differs"
    EVENTS_NOT_CONTIGUOUS = "events_not_contiguous"
    LOG_POS_DIFFERS = "log_pos_differs"
    REDELIVERY_DIFFERS = "redelivery_differs"
    ROTATE_DIFFERS = "rotate_differs"
    GROUP_INSIDE_GROUP = "group_inside_group"
    EVENT_OUTSIDE_GROUP = "event_outside_group"
    GROUP_WITHOUT_BEGIN = "group_without_begin"
    GROUP_BEGINS_TWICE = "group_begins_twice"
    FILE_ENDS_INSIDE_GROUP = "file_ends_inside_group"
    FORMAT_DESCRIPTION_INSIDE_GROUP = "format_description_inside_group"
    EVENTS_LOST = "events_lost"
    TRANSACTION_LENGTH_DIFFERS = "transaction_length_differs"
    SEQUENCE_NUMBER_DIFFERS = "sequence_number_differs"
    LAST_COMMITTED_OUT_OF_RANGE = "last_committed_out_of_range"
    GTID_LOGGED_TWICE = "gtid_logged_twice"
    PREVIOUS_GTIDS_LACK = "previous_gtids_lack"
    ROTATED_WHILE_COMMITTING = "rotated_while_committing"
    ANONYMOUS_GROUP_UNDER_ON = "anonymous_group_under_on"
    GTID_UNDER_OFF = "gtid_under_off"
    SOURCE_POSITION_FELL = "source_position_fell"
    FILE_NUMBER_SKIPPED = "file_number_skipped"
    OLD_FILE_CONTINUED = "old_file_continued"
    ACTIVE_FILE_PURGED = "active_file_purged"
    REDO_HOLE = "redo_hole"
    REDO_WRITE_FELL = "redo_write_fell"
    REDO_FLUSH_FELL = "redo_flush_fell"
    REDO_CHECKPOINT_FELL = "redo_checkpoint_fell"
    REDO_FLUSHED_UNWRITTEN = "redo_flushed_unwritten"
    REDO_CHECKPOINT_UNFLUSHED = "redo_checkpoint_unflushed"
    REDO_LSN_IN_FRAME = "redo_lsn_in_frame"
    REDO_BLOCK_HEADER_DIFFERS = "redo_block_header_differs"
    REDO_OVERWRITTEN = "redo_overwritten"
    REDO_LOST_AT_START = "redo_lost_at_start"
    COMMITS_LOST_AT_START = "commits_lost_at_start"
    COMMIT_NOT_DURABLE = "commit_not_durable"


class DroppedEvents(str, Enum):
    """Why events are dropped, or known to be missing, though nothing contradicts."""

    FILE_NAME_UNREADABLE = "file_name_unreadable"
    REDELIVERED_UNCHANGED = "redelivered_unchanged"
    REDELIVERED_FORGOTTEN = "redelivered_forgotten"
    REDELIVERED_LATE = "redelivered_late"
    FILE_LEFT_OPEN = "file_left_open"
    START_LEFT_OUT = "start_left_out"
    NUMBERS_LEFT_OUT = "numbers_left_out"
    LOG_BEGUN_UNRECORDED = "log_begun_unrecorded"


class Anomaly(NamedTuple):
    """One contradiction of a log with itself.

    Attributes:
        kind: Which one.
        at: Its coordinates.
        witness: The smallest thing that shows it.
        channel: Of a relay log; None: the binary log.
        data: Both sides of the contradiction.
    """

    kind: AnomalyKind
    at: str
    witness: object
    channel: str | None
    data: Mapping[str, Any]
