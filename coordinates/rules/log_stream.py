"""Tier 1: does one binary log or relay log agree with itself, event by event? Registry entries.

What reads the logs, and so judges them, is `coordinates.logs.log_reader` and its two kinds.
"""

from __future__ import annotations

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.registry import Rule, register

BINLOG_FILE_FRAMING = register(
    Rule(
        number=6,
        name="binlog_file_framing",
        tier=1,
        scope="E",
        severity=Severity.ERROR,
        claim=(
            "A binary log file begins with FORMAT_DESCRIPTION at 4, then PREVIOUS_GTIDS, and"
            " nothing follows its ROTATE or STOP."
        ),
        why=(
            "Opening a file writes the magic number and these two events under LOCK_log before any"
            " session can write; closing it writes the last event under the same lock, and the"
            " next event goes to the next file."
        ),
        undecided_when=(
            "the journal does not hold the beginning of the file, or has a gap around the first or"
            " the last event"
        ),
        sources=("WL#9452, F-3", "MySQL source documentation: binary log events"),
        remedy=(
            "Read the file with mysqlbinlog. If it is damaged there, do not let replicas or backups"
            " read it: take the history from another server that has the same GTIDs."
        ),
    )
)

LOG_EVENTS_CONTIGUOUS = register(
    Rule(
        number=7,
        name="log_events_contiguous",
        tier=1,
        scope="E",
        severity=Severity.CRITICAL,
        claim=(
            "Within a log file each event begins where the one before it ends, the first one at"
            " position 4, counted in 64 bits."
        ),
        why=(
            "Logs are only appended to, by one writer at a time under the lock of the log, and"
            " events have no room between them. A hole is an event that was lost on the way, an"
            " overlap one that was written or counted twice."
        ),
        undecided_when=(
            "observation began inside the file, or the transport itself reports lost records: then"
            " the stream is taken up at its next group and the jump is not judged"
        ),
        sources=("WL#9452, F-3", "MySQL manual: The Binary Log"),
        remedy=(
            "Read the file around the named position with mysqlbinlog. If the event is there, the"
            " producer lost it (behind 4 GiB: it counts positions in 32 bits); if not, the log is"
            " damaged and its replicas must be compared with the source."
        ),
    )
)

BINLOG_LOG_POS_FIELD_AGREES = register(
    Rule(
        number=8,
        name="binlog_log_pos_field_agrees",
        tier=1,
        scope="E",
        severity=Severity.ERROR,
        claim=(
            "The position in an event's header equals the event's end in the binary log, modulo"
            " 2^32; artificial events have none."
        ),
        why=(
            "The writer stores the end into the header just before it appends the event under"
            " LOCK_log. The field has 32 bits while positions have 64, so it wraps in files beyond"
            " 4 GiB; events made up for a dump stream carry 0."
        ),
        undecided_when=(
            "the journal does not carry the field, or the event's place is not certain after a gap"
        ),
        sources=(
            "MySQL source documentation: binary log events",
            "measured on MySQL 8.0.31 (files beyond 4 GiB)",
        ),
        remedy=(
            "Check the file with mysqlbinlog --verify-binlog-checksum. A replica without"
            " auto-positioning takes its source position from this field: set it up anew by GTID."
        ),
    )
)

LOG_REDELIVERY_IDENTICAL = register(
    Rule(
        number=9,
        name="log_redelivery_identical",
        tier=1,
        scope="E",
        severity=Severity.CRITICAL,
        claim=(
            "An event delivered twice for one place of one log has the same type, length, GTID and"
            " checksum both times."
        ),
        why=(
            "Transport is at least once, so an event may come again, but a place in a log is"
            " written once in its lineage. Two contents for one place mean that two servers report"
            " under one name, or that the log was rewritten without anybody saying so."
        ),
        undecided_when=(
            "the first delivery is no longer remembered; a missing checksum leaves the other"
            " fields to compare"
        ),
        sources=(
            "Kafka documentation: message delivery semantics",
            "MySQL manual: The Binary Log",
        ),
        remedy=(
            "Check that each instance key belongs to one server and one producer. If a server was"
            " restored or reset in place, its journal must say so with a start or reset record."
        ),
    )
)

BINLOG_ROTATE_SUCCESSOR = register(
    Rule(
        number=10,
        name="binlog_rotate_successor",
        tier=1,
        scope="E",
        severity=Severity.ERROR,
        claim="The ROTATE that closes file n names file n+1 and position 4.",
        why=(
            "The server makes the next name from the index under LOCK_index and LOCK_log, writes it"
            " into ROTATE and then opens that file. Replicas follow the name in ROTATE, so a"
            " wrong one leads them past a file or nowhere."
        ),
        undecided_when=(
            "the ROTATE was not observed: lost in a gap, or never written because the file was"
            " ended by a stop or a crash"
        ),
        sources=("MySQL source documentation: binary log events",),
        remedy=(
            "Compare the index file with the files on disk; if somebody renamed or removed files,"
            " put the index right while the server is stopped, and check every replica that passed"
            " this rotation."
        ),
    )
)

BINLOG_GROUP_WELLFORMED = register(
    Rule(
        number=11,
        name="binlog_group_wellformed",
        tier=1,
        scope="E",
        severity=Severity.CRITICAL,
        claim=(
            "A group opens with a GTID or anonymous GTID event and ends with one commit, rollback,"
            " XA PREPARE or single statement, without another group inside and within one file."
        ),
        why=(
            "A session collects its group in a private cache and the flush stage copies the whole"
            " cache under LOCK_log; a rotation waits for the group to end, however large. So"
            " groups of two sessions never mix and no file ends within one."
        ),
        undecided_when=(
            "the journal has a gap inside the group, observation began inside it, or a crash cut"
            " the last group of a file off before recovery removed it"
        ),
        sources=(
            "WL#3576, Solution with a critical zone",
            "MySQL source documentation: binary log events",
        ),
        remedy=(
            "Read the place with mysqlbinlog. If the log is torn there, replicas stop at it or skip"
            " changes: rebuild those that passed it, and take backups from a server with a whole"
            " log."
        ),
    )
)

TRANSACTION_LENGTH_AGREES = register(
    Rule(
        number=12,
        name="transaction_length_agrees",
        tier=1,
        scope="E",
        severity=Severity.ERROR,
        claim=(
            "The sizes of a group's events add up to the transaction_length in its opening event."
        ),
        why=(
            "The flush stage knows the size of the finished cache and writes the sum, checksums and"
            " the opening event included, before it copies the cache. A replica that logs the"
            " group again computes its own value."
        ),
        undecided_when=(
            "transaction_length is 0 or not told (servers before 8.0.2), or an event of the group"
            " was not observed"
        ),
        sources=(
            "MySQL source documentation: GTID events",
            "measured on MySQL 8.0.31 (binary logs and relay logs)",
        ),
        remedy=(
            "Read the group with mysqlbinlog and compare. If an event is missing in the file itself"
            " treat the group as lost data and compare the replicas with the source."
        ),
    )
)

SEQUENCE_NUMBERS_VALID = register(
    Rule(
        number=13,
        name="sequence_numbers_valid",
        tier=1,
        scope="E",
        severity=Severity.ERROR,
        claim=(
            "In each binary log file the sequence numbers of groups are 1, 2, 3 and so on, and"
            " last_committed is at least 0 and below the group's own number."
        ),
        why=(
            "A logical clock, set back when a file is opened, is moved by one for each group in the"
            " flush stage under LOCK_log. Multi-threaded appliers build their dependencies on the"
            " two numbers: wrong ones let groups run side by side that must not."
        ),
        undecided_when=(
            "the numbers are not told, observation began inside the file, or a gap precedes the"
            " group"
        ),
        sources=(
            "MySQL manual: replica_parallel_type, binlog_transaction_dependency_tracking",
            "measured on MySQL 8.0.31",
        ),
        remedy=(
            "Look for a group that was lost between the two numbers. Until it is explained let"
            " replicas of this log apply with one worker."
        ),
    )
)

GTID_LOGGED_ONCE = register(
    Rule(
        number=14,
        name="gtid_logged_once",
        tier=1,
        scope="E",
        severity=Severity.CRITICAL,
        claim="A binary log holds each GTID once in its lineage.",
        why=(
            "A session must own its GTID before it writes, and a GTID that is owned or executed"
            " cannot be taken again: the second session waits and then skips its transaction. A"
            " second group under the GTID is skipped by every replica, with all its changes."
        ),
        undecided_when=(
            "what the log held before is not known: after a gap until the next PREVIOUS_GTIDS, or"
            " before the first one observed"
        ),
        sources=("MySQL manual: GTID Life Cycle",),
        remedy=(
            "Compare the two groups with mysqlbinlog. If their changes differ, the replicas lack"
            " the second one: rebuild them from the server that wrote both."
        ),
    )
)

PREVIOUS_GTIDS_CONTINUITY = register(
    Rule(
        number=15,
        name="previous_gtids_continuity",
        tier=1,
        scope="E",
        severity=Severity.CRITICAL,
        claim=(
            "The PREVIOUS_GTIDS of a file are those of the file before and the GTIDs that it"
            " logged, and nothing more but purged GTIDs that never were in a file."
        ),
        why=(
            "A rotation waits until all prepared groups are committed, so the executed set that the"
            " new file takes over contains every group of the old one. GTIDs that came without a"
            " log (SET gtid_purged, binary logging off) are in gtid_purged."
        ),
        undecided_when=(
            "the file before was not observed whole, or holds a gap; extra GTIDs wait for the next"
            " row that tells gtid_purged"
        ),
        sources=(
            "WL#9211, Gtid_state update_prev_gtids",
            "MySQL manual: GTID Format and Storage",
        ),
        remedy=(
            "A source decides by these sets which file a replica needs first: do not connect or"
            " reset replicas with auto-positioning before the set is explained. Rebuild from a"
            " server with whole logs if a GTID is missing."
        ),
    )
)

OWN_GNO_DENSE = register(
    Rule(
        number=16,
        name="own_gno_dense",
        tier=1,
        scope="E",
        severity=Severity.WARNING,
        claim=(
            "A server numbers its own transactions without leaving one out: each takes the smallest"
            " free number of its UUID."
        ),
        why=(
            "Automatic numbers are taken in the flush stage, one group at a time: the lowest that"
            " is neither executed nor owned, so the log is in their order. A hole needs a"
            " transaction that was rolled back (its number is given out next), an explicit"
            " GTID_NEXT, or a lost group; one of several numbers that the log went over, and that"
            " were not executed otherwise, shows it also when it has been filled since."
        ),
        undecided_when=(
            "server_uuid, gtid_executed or gtid_owned is not known before the group, the log has a"
            " gap, or the number belongs to a block of Group Replication"
        ),
        sources=("MySQL manual: GTID Life Cycle", "measured on MySQL 8.0.31"),
        remedy=(
            "Ask whether somebody set GTID_NEXT under the server's own UUID. If not, search the"
            " binary log for the missing number: replicas will see its hole for ever."
        ),
    )
)

GTID_MODE_RESPECTED = register(
    Rule(
        number=17,
        name="gtid_mode_respected",
        tier=1,
        scope="E",
        severity=Severity.ERROR,
        claim=(
            "Under gtid_mode ON a log gets no anonymous group, under OFF no group with a GTID;"
            " both are allowed only in between."
        ),
        why=(
            "The mode is read under a lock that its change must take, and changes go one step at a"
            " time through the permissive modes; ON is reached only when no anonymous transaction"
            " is on its way."
        ),
        undecided_when="gtid_mode has not been told, or may have changed inside a gap",
        sources=("WL#9211, F-6", "MySQL manual: gtid_mode"),
        remedy=(
            "Go back to the permissive mode beside it, wait until all replicas have passed the"
            " foreign groups, and repeat the change step by step on all servers."
        ),
    )
)

RELAY_SOURCE_POS_MONOTONE = register(
    Rule(
        number=18,
        name="relay_source_pos_monotone",
        tier=1,
        scope="E",
        severity=Severity.ERROR,
        claim=(
            "Within one relay log file and one file of the source the source position of queued"
            " events never falls, unless the receiver connected anew."
        ),
        why=(
            "The dump thread reads the source's file forward and the receiver appends in that"
            " order. Only a new connection may begin further back: by GTID it asks for whole"
            " groups, and a group that was cut off comes again."
        ),
        undecided_when=(
            "the events carry no source position, the source's file is not known because no ROTATE"
            " was observed, or the relay log has a gap"
        ),
        sources=("WL#2775, REQ-3", "MySQL manual: The Relay Log"),
        remedy=(
            "Without GTIDs a group queued again is applied again: stop the applier before it and"
            " fetch the relay log anew from the applied position. With GTIDs look for what feeds"
            " the receiver (a proxy, a second producer under the channel's name)."
        ),
    )
)
