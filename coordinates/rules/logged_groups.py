"""Tier 1: do the groups of one log and their GTIDs agree with each other?

`coordinates.logs` follows the logs and reports anomalies; each case here has the code of one.
"""

from __future__ import annotations

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.families import Family
from tallystick.coordinates.rules.outcomes import NOT_APPLICABLE, Broken, RowAnswer
from tallystick.coordinates.rules.registry import Case, Rule, register
from tallystick.coordinates.rules.statements import (
    EVENTS_THERE,
    events_until,
    groups,
    not_purged,
    sql,
)
from tallystick.coordinates.values.gtid import GtidSet

BINLOG_GROUP_WELLFORMED = register(
    Rule(
        number=11,
        name="binlog_group_wellformed",
        tier=1,
        scope="E",
        family=Family.DAMAGED_LOG,
        severity=Severity.CRITICAL,
        heals="log",
        claim=(
            "A group opens with a GTID or anonymous GTID event and ends with one commit, rollback,"
            " XA PREPARE or single statement, without another group inside and within one file,"
            " and no INCIDENT says that changes are missing."
        ),
        why=(
            "A session collects its group in a private cache and the flush stage copies the whole"
            " cache under LOCK_log; a rotation waits for the group to end, however large. So"
            " groups of two sessions never mix and no file ends within one. Only a server that has"
            " changed data and could not log it writes INCIDENT, so that replicas stop there."
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
            "Read the log there with mysqlbinlog. If it is torn, replicas stop at it or skip"
            " changes: rebuild those that passed it, and take backups from a server with a whole"
            " log."
        ),
        verify=(events_until("at"), EVENTS_THERE),
        cases={
            "group_inside_group": Case(
                "The event at {at} does not fit its group: another group opens inside it.",
                "event type {type} in state {state}",
                "{log} at {at}",
                "GTID, BEGIN … XID, COMMIT, ROLLBACK or XA PREPARE, or GTID and one statement",
                "form of a group",
            ),
            "event_outside_group": Case(
                "The event at {at} does not fit its group: it is outside any group.",
                "event type {type} in state {state}",
                "{log} at {at}",
                "GTID, BEGIN … XID, COMMIT, ROLLBACK or XA PREPARE, or GTID and one statement",
                "form of a group",
            ),
            "group_without_begin": Case(
                "The event at {at} does not fit its group: nothing began the group's body.",
                "event type {type} in state {state}",
                "{log} at {at}",
                "GTID, BEGIN … XID, COMMIT, ROLLBACK or XA PREPARE, or GTID and one statement",
                "form of a group",
            ),
            "group_begins_twice": Case(
                "The event at {at} does not fit its group: the group's body begins twice.",
                "event type {type} in state {state}",
                "{log} at {at}",
                "GTID, BEGIN … XID, COMMIT, ROLLBACK or XA PREPARE, or GTID and one statement",
                "form of a group",
            ),
            "file_ends_inside_group": Case(
                "The event at {at} does not fit its group: the file ends inside the group.",
                "event type {type} in state {state}",
                "{log} at {at}",
                "GTID, BEGIN … XID, COMMIT, ROLLBACK or XA PREPARE, or GTID and one statement",
                "form of a group",
            ),
            "format_description_inside_group": Case(
                (
                    "The event at {at} does not fit its group: a format description is inside the"
                    " group."
                ),
                "event type {type} in state {state}",
                "{log} at {at}",
                "GTID, BEGIN … XID, COMMIT, ROLLBACK or XA PREPARE, or GTID and one statement",
                "form of a group",
            ),
            "events_lost": Case(
                "The INCIDENT at {at} says that the {log} lacks changes that the server has made.",
                "INCIDENT",
                "{log} at {at}",
                "no INCIDENT",
                "a log of all changes",
                remedy=(
                    "The event's text and the error log say what was lost and why. Replicas stop"
                    " there with error 1590, and whoever passes over it lacks these changes:"
                    " rebuild them from this server's data, and take a new full backup, as no"
                    " older one can be recovered beyond this point."
                ),
            ),
        },
    )
)

TRANSACTION_LENGTH_AGREES = register(
    Rule(
        number=12,
        name="transaction_length_agrees",
        tier=1,
        scope="E",
        family=Family.DAMAGED_LOG,
        severity=Severity.ERROR,
        heals="log",
        claim=(
            "The sizes of a group's events add up to the transaction_length in its opening event."
        ),
        why=(
            "The flush stage knows the size of the finished cache and writes the sum, checksums and"
            " the opening event included, before it copies the cache. A replica that logs the"
            " group again computes its own value."
        ),
        undecided_when=(
            "transaction_length is 0 or not known (servers before 8.0.2), or an event of the group"
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
        verify=(EVENTS_THERE,),
        cases={
            "transaction_length_differs": Case(
                "The group at {at} announces {announced:n byte}, but its events take {size}.",
                "{size}",
                "sum of the lengths of the group's events",
                "{announced}",
                "transaction_length of its GTID event",
            ),
        },
    )
)

SEQUENCE_NUMBERS_VALID = register(
    Rule(
        number=13,
        name="sequence_numbers_valid",
        tier=1,
        scope="E",
        family=Family.DAMAGED_LOG,
        severity=Severity.ERROR,
        heals="log",
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
            "the numbers are not reported, observation began inside the file, or a gap precedes the"
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
        verify=(events_until("at"), EVENTS_THERE),
        cases={
            "sequence_number_differs": Case(
                "The group at {at} has sequence_number {number} where {expected} belongs.",
                "{number}",
                "sequence_number of the group at {at}",
                "{expected}",
                "sequence of the groups of the file",
            ),
            "last_committed_out_of_range": Case(
                "The group at {at} has last_committed {number}, which is not from 0 to {maximum}.",
                "{number}",
                "last_committed of the group at {at}",
                "from 0 to {maximum}",
                "sequence of the groups of the file",
            ),
        },
    )
)

GTID_LOGGED_ONCE = register(
    Rule(
        number=14,
        name="gtid_logged_once",
        tier=1,
        scope="E",
        family=Family.TWO_HISTORIES,
        severity=Severity.CRITICAL,
        heals="log",
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
        verify=(groups(),),
        cases={
            "gtid_logged_twice": Case(
                "The group at {at} has the GTID {witness}, which the binary log holds already.",
                "{witness}",
                "group at {at}",
                "a GTID not logged before",
                "binary log before this group",
            ),
        },
    )
)

PREVIOUS_GTIDS_CONTINUITY = register(
    Rule(
        number=15,
        name="previous_gtids_continuity",
        tier=1,
        scope="E",
        family=Family.DAMAGED_LOG,
        severity=Severity.CRITICAL,
        heals="log",
        claim=(
            "The PREVIOUS_GTIDS of a file are those of the file before and the GTIDs that it"
            " logged, and nothing more but purged GTIDs that never were in a file."
        ),
        why=(
            "A source sends a replica that connects the files from the newest one on whose"
            " Previous_gtids the replica has: what that set lacks of the files before is never"
            " sent, and nothing reports it. A rotation waits until what InnoDB has prepared is"
            " committed, so the executed set that the new file takes over contains every group of"
            " the old one; but for XA COMMIT and XA ROLLBACK MySQL does not wait (8.0.31, 9.7.4:"
            " measured). GTIDs that came without a log (SET gtid_purged, binary logging off) are in"
            " gtid_purged. With another log_bin a server begins an index of its own, unless"
            " log_bin_index names one: then the first head has nothing of the files before, which"
            " count as purged."
        ),
        undecided_when=(
            "the file before was not observed whole, or holds a gap; extra GTIDs wait for the next"
            " row that shows gtid_purged"
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
        verify=(EVENTS_THERE, not_purged()),
        cases={
            "previous_gtids_lack": Case(
                "Previous_gtids of {file} lacks {missing:gtids}, which the previous file holds.",
                "{previous:gtids}",
                "PREVIOUS_GTIDS at {at}",
                "{expected:gtids}",
                "Previous_gtids and groups of the previous file",
            ),
            "rotated_while_committing": Case(
                "Previous_gtids of {file} lacks {missing:gtids}, which the previous file holds: the"
                " log was rotated while {missing:it was|they were} being committed. A replica that"
                " has all but {missing:it|them} when it connects is not sent {missing:it|them}.",
                "{previous:gtids}",
                "PREVIOUS_GTIDS at {at}",
                "{expected:gtids}",
                "Previous_gtids and groups of the previous file",
                remedy=(
                    "See that every replica has executed what the set lacks before it connects"
                    " again; give one that lacks it what mysqlbinlog --include-gtids prints of the"
                    " previous file. When all have it: FLUSH BINARY LOGS, whose new file has it in"
                    " its set, and PURGE BINARY LOGS TO that file."
                ),
            ),
            "head_not_purged": Case(
                "A Previous_gtids holds {unexplained:gtids}, which no file before logged and which"
                " {unexplained:is|are} not purged.",
                "{found:gtids}",
                "PREVIOUS_GTIDS without the groups of the files before",
                "within {purged:gtids}",
                "@@gtid_purged",
            ),
        },
    )
)

GTID_MODE_RESPECTED = register(
    Rule(
        number=17,
        name="gtid_mode_respected",
        tier=1,
        scope="E",
        family=Family.GTID_MODE,
        severity=Severity.ERROR,
        heals="log",
        claim=(
            "Under gtid_mode ON a log gets no anonymous group, under OFF no group with a GTID;"
            " both are allowed only in between."
        ),
        why=(
            "The mode is read under a lock that its change must take, and changes go one step at a"
            " time through the permissive modes; ON is reached only when no anonymous transaction"
            " is on its way."
        ),
        undecided_when="gtid_mode has not been reported, or may have changed inside a gap",
        sources=("WL#9211, F-6", "MySQL manual: gtid_mode"),
        remedy=(
            "Go back to the permissive mode beside it, wait until all replicas have passed the"
            " foreign groups, and repeat the change step by step on all servers."
        ),
        verify=(EVENTS_THERE, sql("SELECT @@GLOBAL.gtid_mode;")),
        cases={
            "anonymous_group_under_on": Case(
                "Under gtid_mode=ON an anonymous group was logged at {at}.",
                "an anonymous group",
                "binary log at {at}",
                "a GTID",
                "gtid_mode=ON",
            ),
            "gtid_under_off": Case(
                "Under gtid_mode=OFF a group with a GTID was logged at {at}.",
                "a group with a GTID",
                "binary log at {at}",
                "no GTID",
                "gtid_mode=OFF",
            ),
        },
    )
)


def head_is_purged(found: GtidSet, purged: GtidSet) -> RowAnswer:
    """At a row: GTIDs that a PREVIOUS_GTIDS added without a group are purged ones.

    Args:
        found: Those added since the last row.
        purged: gtid_purged of the row.
    """
    unexplained = found - purged
    if not unexplained:
        return NOT_APPLICABLE
    return Broken(
        "head_not_purged",
        witness=unexplained,
        at=unexplained,
        unexplained=unexplained,
        found=found,
        purged=purged,
    )
