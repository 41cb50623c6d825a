"""Tier 0: can the datum be read at all? Registry entries.

What reads them, and so judges them, is `coordinates.events.log_status` and the log readers.
"""

from __future__ import annotations

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.registry import Case, Rule, reason, register

GTID_TEXT_WELLFORMED = register(
    Rule(
        number=1,
        name="gtid_text_wellformed",
        tier=0,
        scope="S",
        severity=Severity.CRITICAL,
        claim=(
            "Every GTID and every GTID set that an instance reports follows the server's grammar;"
            " tags occur only on servers that know them (8.3 and later)."
        ),
        why=(
            "A server prints these texts from its own interval lists, which hold nothing but UUIDs,"
            " tags and transaction numbers from 1 to 2^63-2. Text that does not parse was damaged"
            " or cut off after the server gave it."
        ),
        undecided_when=(
            "the text is not part of the answer; a tag is not judged while the server's version is"
            " not known. Whatever would use an unreadable text is undecided in turn"
        ),
        sources=(
            "WL#9452, High Level Specification",
            "MySQL manual: GTID Format and Storage",
        ),
        remedy=(
            "Ask the server for the same value by hand. If the text is right there, look for a"
            " collector, driver or column that shortens or re-encodes it; do not use the value."
        ),
        cases={
            "gtid_unreadable": Case(
                "The GTID of the group at {at} cannot be read.",
                "{witness}",
                "GTID event at {at}",
                "UUID:GNO or UUID:TAG:GNO, GNO from 1 to 9223372036854775806",
                "MySQL manual: GTID format",
            ),
            "previous_gtids_unreadable": Case(
                "The Previous_gtids of {log} file {file} cannot be read: {error}",
                "{witness}",
                "PREVIOUS_GTIDS at {at}",
                "a GTID set",
                "MySQL manual: GTID sets",
            ),
        },
    )
)

GTID_TEXT_CANONICAL = register(
    Rule(
        number=2,
        name="gtid_text_canonical",
        tier=0,
        scope="S",
        severity=Severity.WARNING,
        claim=(
            "A GTID set that a server printed is in canonical form: lower case, UUIDs in order,"
            " intervals ascending and merged."
        ),
        why=(
            "The server keeps each set sorted, with touching intervals joined, and prints it by"
            " walking through it; only a newline after each comma between UUIDs is added. Another"
            " spelling of the same set was put together by something else."
        ),
        undecided_when="the text is not part of the answer or does not parse",
        sources=(
            "WL#9452, F-1.2.2",
            "MySQL manual: GTID Format and Storage",
        ),
        remedy=(
            "Find the program that rewrites the set between server and journal (a proxy, a script,"
            " a hand-made collector) and let it pass the server's text through unchanged."
        ),
    )
)

LOG_STATUS_ROW_COMPLETE = register(
    Rule(
        number=3,
        name="log_status_row_complete",
        tier=0,
        scope="S",
        severity=Severity.CRITICAL,
        claim=(
            "A log_status row has its four columns; file and position come together or not at all;"
            " file names are base.NNNNNN without a directory; numbers are integers below 2^63."
        ),
        why=(
            "The server fills all four columns in one call and reports error 3722 instead of a part"
            " of them. It leaves out the file and the position only together, when binary logging"
            " is off."
        ),
        undecided_when=(
            "there is no row, because the instance did not answer or answered with an error. Checks"
            " that need a missing or malformed part of the row are undecided in turn"
        ),
        sources=(
            "WL#9452, I-1 and High Level Specification",
            "MySQL manual: The log_status Table",
        ),
        remedy=(
            "Read performance_schema.log_status by hand and compare. If it is complete there, fix"
            " the collector; a backup must not be cut at coordinates of which a part is missing."
        ),
    )
)

CHANNEL_ROWS_UNIQUE = register(
    Rule(
        number=4,
        name="channel_rows_unique",
        tier=0,
        scope="S",
        severity=Severity.CRITICAL,
        claim=(
            "A channel name, whatever its case, occurs once in a log_status row and once in each"
            " replication info table."
        ),
        why=(
            "Channels live in a map whose key is the lower-case name, and Channel_name is the"
            " primary key of the info tables. Two entries would let a replica start from either."
        ),
        undecided_when=(
            "the row, or the info table in question, was not read. What the doubled entries say of"
            " the channel is given to no other check"
        ),
        sources=("WL#2775, REQ-2", "WL#9452, F-2.3", "MySQL manual: Replication Channels"),
        remedy=(
            "Compare SHOW REPLICA STATUS with the two info tables. If a table really holds the"
            " channel twice (an altered key), stop the channel, note its GTID set, RESET REPLICA"
            " ALL for it and configure it again."
        ),
    )
)

SNAPSHOT_NEVER_SILENTLY_EMPTY = register(
    Rule(
        number=5,
        name="snapshot_never_silently_empty",
        tier=0,
        scope="S",
        severity=Severity.ERROR,
        claim="A collection brings either one log_status row or an error; never nothing at all.",
        why=(
            "The table always has exactly one row. Without BACKUP_ADMIN the server refuses with"
            " error 1227, without SELECT with 1142, and a part that it cannot collect is error"
            " 3722. No row and no error means that somebody swallowed the answer."
        ),
        undecided_when="the instance was not asked, did not answer in time, or is unreachable",
        sources=("WL#9452, F-1.1, I-2 and I-3", "MySQL manual: The log_status Table"),
        remedy=(
            "Give the collecting account BACKUP_ADMIN and SELECT on performance_schema.log_status,"
            " and let the collector pass on every error of the server; never trust a backup whose"
            " coordinates were stored empty."
        ),
    )
)

NO_ROW = {
    "refused": reason("log_status_refused", "the server refused the collection"),
    "failed": reason("log_status_failed", "the collection failed"),
    "missing": reason("log_status_missing", "the server did not answer"),
    "empty": reason("log_status_empty", "the answer has neither a row nor an error"),
}
NOT_REACHED = reason(
    "row_not_reached", "the journal did not reach the coordinates of the log_status row"
)
SETTINGS_LOST = reason(
    "settings_lost",
    "the server's settings are not known since the saved state could not be read",
)
