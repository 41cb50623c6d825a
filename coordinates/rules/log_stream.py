"""Tier 1: do the files of one binary log or relay log agree with themselves, event by event?

`coordinates.logs` follows the logs and reports anomalies; each case here has the code of one.
"""

from __future__ import annotations

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.families import Family
from tallystick.coordinates.rules.registry import Case, Rule, register
from tallystick.coordinates.rules.statements import (
    BINARY_LOGS,
    EVENTS_THERE,
    events_until,
    file_from,
)

BINLOG_FILE_FRAMING = register(
    Rule(
        number=6,
        name="binlog_file_framing",
        tier=1,
        scope="E",
        family=Family.DAMAGED_LOG,
        severity=Severity.ERROR,
        heals="log",
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
        verify=(EVENTS_THERE,),
        cases={
            "event_after_end_of_file": Case(
                "The event at {at} has type {type}, though ROTATE or STOP has ended the file.",
                "event type {type}",
                "binary log at {at}",
                "nothing",
                "after ROTATE or STOP",
            ),
            "first_event_differs": Case(
                "The event at {at} has type {type} where FORMAT_DESCRIPTION belongs.",
                "event type {type}",
                "binary log at {at}",
                "FORMAT_DESCRIPTION",
                "first event of a file",
            ),
            "second_event_differs": Case(
                "The event at {at} has type {type} where PREVIOUS_GTIDS belongs.",
                "event type {type}",
                "binary log at {at}",
                "PREVIOUS_GTIDS",
                "second event of a file",
            ),
        },
    )
)

LOG_EVENTS_CONTIGUOUS = register(
    Rule(
        number=7,
        name="log_events_contiguous",
        tier=1,
        scope="E",
        family=Family.DAMAGED_LOG,
        severity=Severity.CRITICAL,
        heals="log",
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
            " producer lost it (after 4 GiB: it counts positions in 32 bits); if not, the log is"
            " damaged and its replicas must be compared with the source."
        ),
        verify=(file_from("file", "expected"),),
        cases={
            "events_not_contiguous": Case(
                (
                    "In {log} file {file} the event at {start} does not start where the previous"
                    " event ends, at {expected}."
                ),
                "{start}",
                "start of the event in {file}",
                "{expected}",
                "end of the previous event",
            ),
        },
    )
)

BINLOG_LOG_POS_FIELD_AGREES = register(
    Rule(
        number=8,
        name="binlog_log_pos_field_agrees",
        tier=1,
        scope="E",
        family=Family.DAMAGED_LOG,
        severity=Severity.ERROR,
        heals="log",
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
            "the journal does not carry the field, or the position is not certain after a gap"
        ),
        sources=(
            "MySQL source documentation: binary log events",
            "measured on MySQL 8.0.31 (files beyond 4 GiB)",
        ),
        remedy=(
            "Check the file with mysqlbinlog --verify-binlog-checksum. A replica without"
            " auto-positioning takes its source position from this field: set it up anew by GTID."
        ),
        verify=(EVENTS_THERE,),
        cases={
            "log_pos_differs": Case(
                "The event at {at} ends at {end}, but its header says {log_pos}.",
                "{log_pos}",
                "field log_pos of the event's header",
                "{expected}",
                "end of the event modulo 2^32",
            ),
        },
    )
)

LOG_REDELIVERY_IDENTICAL = register(
    Rule(
        number=9,
        name="log_redelivery_identical",
        tier=1,
        scope="E",
        family=Family.DAMAGED_LOG,
        severity=Severity.CRITICAL,
        heals="log",
        claim=(
            "An event delivered twice for one position has the same type, length, GTID and checksum"
            " both times."
        ),
        why=(
            "Transport is at least once, so an event may come again, but a position in a log is"
            " written once in its lineage. Two contents of one position mean that two servers"
            " report under one name, or that the log was rewritten without anybody saying so."
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
        verify=(EVENTS_THERE,),
        cases={
            "redelivery_differs": Case(
                "The event at {at} was delivered twice with different content.",
                (
                    "type {second_type}, {second_length:n byte}, GTID {second_gtid}, checksum"
                    " {second_checksum}"
                ),
                "second delivery",
                (
                    "type {first_type}, {first_length:n byte}, GTID {first_gtid}, checksum"
                    " {first_checksum}"
                ),
                "first delivery",
            ),
        },
    )
)

BINLOG_ROTATE_SUCCESSOR = register(
    Rule(
        number=10,
        name="binlog_rotate_successor",
        tier=1,
        scope="E",
        family=Family.DAMAGED_LOG,
        severity=Severity.ERROR,
        heals="log",
        claim="The ROTATE that closes a file names a later one and position 4, and that follows.",
        why=(
            "The server makes the next name, one higher than the highest in the directory, under"
            " LOCK_index and LOCK_log, writes it into ROTATE and then opens that file. Replicas"
            " follow the name in ROTATE, so a wrong one leads them past a file or nowhere."
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
        verify=(EVENTS_THERE, BINARY_LOGS),
        cases={
            "rotate_differs": Case(
                "The ROTATE at {at} does not name the next file at position {expected_position}.",
                "{file!r} position {position}",
                "ROTATE at {at}",
                "file number {expected} position {expected_position}",
                "next file of the binary log",
            ),
        },
    )
)

RELAY_SOURCE_POS_MONOTONE = register(
    Rule(
        number=18,
        name="relay_source_pos_monotone",
        tier=1,
        scope="E",
        family=Family.LOST_BY_RECEIVER,
        severity=Severity.ERROR,
        heals="log",
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
        verify=(events_until("at"), EVENTS_THERE),
        cases={
            "source_position_fell": Case(
                (
                    "In relay log file {file} the source position falls from {previous} to"
                    " {position} of {source} without a new connection."
                ),
                "{source}:{position}",
                "relay log at {at}",
                "beyond {source}:{previous}",
                "previous relay log event",
            ),
        },
    )
)
