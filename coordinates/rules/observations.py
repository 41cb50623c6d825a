"""Why something was noted that breaks no rule: the texts of observations.

Those of comparisons between instances, and of backups, are with their rules.
"""

from __future__ import annotations

from collections.abc import Mapping

from tallystick.coordinates.logs.anomaly import DroppedEvents
from tallystick.coordinates.results import ObservationCode
from tallystick.coordinates.rules.families import Lack
from tallystick.coordinates.rules.outcomes import Reason
from tallystick.coordinates.rules.registry import reason

# Transport

EPOCH_BEGAN = reason(
    "journal_epoch_began",
    "epoch {epoch} of its journal began after epoch {before}: another producer, or one that lost"
    " its state; what happened in between is unknown, and what was known is held against nothing",
    Lack.JOURNAL,
)
CLUSTER_CHANGED = reason(
    "journal_cluster_changed",
    "its journal named {before} and names {cluster}: it is read there as a journal that begins, and"
    " what is known from before is held against nothing",
    Lack.JOURNAL,
)
RECORDS_MISSING = reason(
    "journal_records_missing", "records {first} to {last} are missing", Lack.JOURNAL
)
RECORDS_LOST = reason("journal_records_lost", "tallystick missed part of this log", Lack.JOURNAL)
RELAY_LOG_UNREADABLE = reason(
    "relay_log_unreadable", "the channel's relay log was not read: {why}", Lack.RELAY_LOG
)
RECORDS_REPEATED = reason(
    "journal_repeated", "records {first} to {last} came again: dropped", Lack.NOTED
)
RECORDS_FORGOTTEN = reason(
    "journal_repeated_forgotten",
    "records {first} to {last} came again: dropped; {forgotten:n record} of them"
    " {forgotten:is|are} older than what is remembered, so the two deliveries were not compared",
    Lack.ONE_WRITER,
)
SEQUENCE_REUSED = reason(
    "journal_sequence_reused",
    "records {first} to {last} of epoch {epoch} came again, from record {record} on with other"
    " content: two producers write this journal, or one that lost its state; what follows is read"
    " as a journal that begins",
    Lack.ONE_WRITER,
)
STALE_EPOCH = reason(
    "journal_stale_epoch",
    "records of epoch {epoch} came after epoch {newest}, from record {first} on: dropped; two"
    " producers write this journal, or one whose epoch fell, and what they show is not judged",
    Lack.ONE_WRITER,
)
TOPIC_MESSAGES_GONE = reason(
    "topic_messages_gone",
    "topic {topic!r}, partition {partition}: expected offset {expected}, found {found}: messages"
    " are gone that were not read (retention has passed them, or the topic was made anew)",
    Lack.MESSAGES,
)
TOPIC_PARTITION_GONE = reason(
    "topic_partition_gone",
    "topic {topic!r}, partition {partition}: expected offset {expected}, and the partition is gone:"
    " the topic was made anew",
    Lack.MESSAGES,
)
TOPIC_MADE_ANEW = reason(
    "topic_made_anew",
    "topic {topic!r} was made anew: its id was {expected}, and is {found}; of the new one, messages"
    " before the offsets that had been read are not read",
    Lack.MESSAGES,
)
MESSAGE_UNREADABLE = reason("message_unreadable", "{error}", Lack.MESSAGES)
MESSAGES_UNREADABLE = reason(
    "messages_unreadable",
    "{count:n message} under the key {key!r}, of which nothing was ever read, cannot be read and"
    " went to the dead letters: {error}",
    Lack.MESSAGES,
)
OTHERS_UNREADABLE = reason(
    "others_unreadable",
    "{count:n message} under {keys:n key}, of which nothing was ever read, cannot be read and went"
    " to the dead letters",
    Lack.MESSAGES,
)
TOO_MANY_UNREADABLE = reason(
    "too_many_unreadable",
    "more than unreadable_max messages of the journal's topic cannot be read, and for ten minutes"
    " after the last of them nobody knows of whom something is missing; one of them: {error}",
    Lack.MESSAGES,
)
DEAD_LETTERS_LOST = reason(
    "dead_letters_lost",
    "{count:n message} that cannot be read could not be written to the dead letters: {error}",
    Lack.MESSAGES,
)
BLOCK_UNREADABLE = reason(
    "block_unreadable",
    "a block could not be read and went to the dead letters: {error}",
    Lack.MESSAGES,
)
BLOCK_REFUSED = reason(
    "block_refused",
    "records {first} to {last} could not be judged and do not count, an internal error: {error}",
    Lack.AUDIT,
)
END_REFUSED = reason(
    "end_refused", "its last rows could not be judged, an internal error: {error}", Lack.AUDIT
)
EVIDENCE_REFUSED = reason(
    "evidence_refused",
    "what it has shown could not be compared with other instances and does not count, an internal"
    " error: {error}",
    Lack.AUDIT,
)
REFUSALS = frozenset({BLOCK_REFUSED.code, END_REFUSED.code, EVIDENCE_REFUSED.code})
"""What is an internal error, and no fault of a journal."""
RECORD_UNREADABLE = reason(
    "record_unreadable", "record {record} could not be read: {error}", Lack.MESSAGES
)
FILE_NAME_UNREADABLE = reason(
    "file_name_unreadable",
    "an event of the {log} names the file {file!r}: expected base.NNNNNN without a directory",
    Lack.MESSAGES,
)

# Saved state

STATE_UNREADABLE = reason(
    "state_unreadable", "{error}. The instance begins anew, as after a gap.", Lack.AUDIT
)
SETTINGS_UNREADABLE = reason(
    "settings_unreadable",
    "{error}. The instance begins anew, as after a gap. Its rows are undecided until a start record"
    " has the server's settings.",
    Lack.AUDIT,
)
FLEET_STATE_UNREADABLE = reason(
    "fleet_state_unreadable",
    "open collections begin anew: {error}",
    Lack.AUDIT,
)
COMPARISONS_UNREADABLE = reason(
    "comparisons_unreadable",
    "comparisons between instances begin anew: {error}",
    Lack.AUDIT,
)
BEGINNING_LOST = reason(
    "journal_beginning_lost",
    "{error}: what was before is gone from the broker, so a rebuild cannot judge it.",
    Lack.JOURNAL,
)

# Events

REDELIVERED_UNCHANGED = reason(
    "redelivered_unchanged",
    "events of {file} from {start} on came again, unchanged; the second delivery was dropped",
    Lack.NOTED,
)
REDELIVERED_FORGOTTEN = reason(
    "redelivered_forgotten",
    "events of {file} from {start} on came again; they are older than what is remembered, or than a"
    " crash that may have taken the end of the file, so the two deliveries were not compared",
    Lack.ONE_WRITER,
)
REDELIVERED_LATE = reason(
    "redelivered_late",
    "events of the older file {file} came late; they were dropped",
    Lack.ONE_WRITER,
)
FILE_LEFT_OPEN = reason(
    "file_left_open",
    "{file} of the {log} has neither ROTATE nor STOP at its end, and {next_file} follows though the"
    " server has not started since: what {file} ended with is not in the journal",
    Lack.JOURNAL,
)
START_LEFT_OUT = reason(
    "start_left_out",
    "{file} of the {log} ends with STOP, as the server has stopped, and {next_file} follows: with"
    " which settings it has started, and what it read then, is not in the journal",
    Lack.JOURNAL,
)
NUMBERS_LEFT_OUT = reason(
    "numbers_left_out",
    "{next_file} of the {log} follows {file}, and neither a ROTATE nor its PREVIOUS_GTIDS shows"
    " that the server left the numbers between them out: there may be files that are not in the"
    " journal",
    Lack.JOURNAL,
)
START_UNRECORDED = reason(
    "start_unrecorded",
    "the server goes on after its stop, and its start is not in the journal: what it read then,"
    " with which settings and with which data it goes on, is not known",
    Lack.JOURNAL,
)
LOG_BEGUN_UNRECORDED = reason(
    "log_begun_unrecorded",
    "{file} of the {log} begins again and is not what is remembered of it: the {log} was begun"
    " anew by a command that is not in the journal ({commands}), or its events came again when they"
    " could not be compared any more",
    Lack.JOURNAL,
)
OF_DROPPED_EVENTS: Mapping[DroppedEvents, tuple[ObservationCode, Reason, bool]] = {
    DroppedEvents.FILE_NAME_UNREADABLE: (
        ObservationCode.BLOCK_UNREADABLE,
        FILE_NAME_UNREADABLE,
        True,
    ),
    DroppedEvents.REDELIVERED_UNCHANGED: (
        ObservationCode.EVENT_REDELIVERED,
        REDELIVERED_UNCHANGED,
        False,
    ),
    DroppedEvents.REDELIVERED_FORGOTTEN: (
        ObservationCode.EVENT_REDELIVERED,
        REDELIVERED_FORGOTTEN,
        True,
    ),
    DroppedEvents.REDELIVERED_LATE: (ObservationCode.EVENT_REDELIVERED, REDELIVERED_LATE, True),
    DroppedEvents.FILE_LEFT_OPEN: (ObservationCode.JOURNAL_GAP, FILE_LEFT_OPEN, True),
    DroppedEvents.START_LEFT_OUT: (ObservationCode.JOURNAL_GAP, START_LEFT_OUT, True),
    DroppedEvents.NUMBERS_LEFT_OUT: (ObservationCode.JOURNAL_GAP, NUMBERS_LEFT_OUT, True),
    DroppedEvents.LOG_BEGUN_UNRECORDED: (
        ObservationCode.JOURNAL_GAP,
        LOG_BEGUN_UNRECORDED,
        True,
    ),
}
"""What is noted of dropped events, and whether checks are undecided because of it."""
HISTORY_RESET = reason(
    "history_reset",
    "the binary log was reset: {count:n executed GTID} ({gtids:gtids}) must be executed again"
    " unless SET gtid_purged names them; a source sends them again, and GTIDs of the server's own"
    " are given out again",
    Lack.NOTED,
)

GNO_FREE = reason(
    "gno_free",
    "{count:n number} of the server's own below the last one logged ({gtids:gtids}) neither logged"
    " nor executed: skipped by GTID_NEXT, or given back; a later transaction may take it",
    Lack.NOTED,
)

# Rows

ROW_EARLY = reason(
    "row_early",
    "the row of collection {collection} names coordinates that the journal has not reached: it"
    " waits for what was written up to its time",
    Lack.NOTED,
)
NO_ROW = reason("no_row", "collection {collection} brought no row: {error}", Lack.ANSWER)
FIELD_NOT_GIVEN = reason(
    "field_not_given", "the journal's events of logs have no {field}", Lack.VALUE
)
GTID_MODE_NOT_KNOWN = reason("gtid_mode_not_known", "gtid_mode was not reported", Lack.VALUE)
ROW_NAMES_ANOTHER_SERVER = reason(
    "row_names_another_server",
    "the row of collection {collection} is of the server with the server_uuid {found}, and the"
    " journal is of the one with {expected}: a proxy or virtual address may have led to another"
    " server, or the server got another server_uuid and its start is not in the journal",
    Lack.ANSWER,
)
NOT_ANSWERED = reason(
    "not_answered",
    "{instance!r} has not answered collection {collection!r}; its last answer: {last_ts:moment}",
    Lack.ANSWER,
)
NEVER_ANSWERED = reason(
    "never_answered",
    "{instance!r} has not answered collection {collection!r}, nor any before",
    Lack.ANSWER,
)
NOBODY_ANSWERED = reason(
    "nobody_answered",
    "nobody has answered collection {collection!r}: no instance is known",
    Lack.ANSWER,
)
INSTANCE_NOT_LISTED = reason(
    "instance_not_listed",
    "{instance!r} writes a journal and is not among the instances that are listed",
    Lack.SERVER,
)
INSTANCE_BEYOND = reason(
    "instance_beyond",
    "{instance!r} is one instance too many: it is not compared with others and need not answer;"
    " list the instances that are yours",
    Lack.SERVER,
)
INSTANCES_BEYOND = reason(
    "instances_beyond",
    "{count:n instance} or more are too many: they are not compared with others and need not"
    " answer; list the instances that are yours",
    Lack.SERVER,
)
ROW_TORN = reason(
    "row_torn",
    "gtid_executed trails the coordinate {position} by {count:n GTID} ({gtids:gtids}): use position"
    " or set of this row, not both as one point (server bugs 102175, 112331)",
    Lack.NOTED,
)

CLOCKS_DIFFER = reason(
    "clocks_differ",
    "by its observer's clock the instance answers {lag_ms} ms after the request: that clock differs"
    " from the others, or all answers are slow; what contradicts another instance is decided when"
    " their clocks leave no doubt which came first",
    Lack.CLOCK,
)

TIME_IMPLAUSIBLE = reason(
    "time_implausible",
    "a record has the time {shown:instant} after one of {before:instant}: the journal's time goes"
    " on without that step, until an answer shows how much time has passed",
    Lack.CLOCK,
)

TIME_AFTER_MESSAGE = reason(
    "time_after_message",
    "a record has the time {shown:instant} and came in a message that was sent at {sent:instant}:"
    " its observer's clock is ahead, or of another unit",
    Lack.CLOCK,
)

DURATION_UNCONFIRMED = reason(
    "duration_unconfirmed",
    "by the times of its records something took too long, or came too early, and no answer shows"
    " that its observer's clock was not set meanwhile",
    Lack.CLOCK,
)

# Runs

COMPARISON_WAITS = reason(
    "comparison_waits",
    "it was not compared before the deadline, as other journals were not known that far",
    Lack.SOURCE_LATER,
)
COLLECTIONS_OPEN = reason(
    "collections_open",
    "no collection is closed yet: answers are missing, or were not compared",
    Lack.AUDIT,
)
JOURNAL_NOT_READ = reason(
    "journal_not_read", "the audit did not read the whole journal in time", Lack.AUDIT
)
VALIDATION_UNDECIDED = reason(
    "validation_undecided",
    "Great Expectations leaves collection {collection!r} undecided",
    Lack.AUDIT,
)
VALIDATION_FAILED = reason(
    "validation_failed",
    "Great Expectations leaves collection {collection!r} undecided: {error}",
    Lack.AUDIT,
)

# Rules of events at a collection

LOG_NOT_READ = reason("log_not_read", "its binary log was not read", Lack.BINARY_LOG)
RELAY_LOG_NOT_READ = reason("relay_log_not_read", "its relay log was not read", Lack.RELAY_LOG)
