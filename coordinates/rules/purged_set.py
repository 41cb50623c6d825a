"""Rules on gtid_purged, the list of binary log files and mysql.gtid_executed at a row."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

from tallystick.coordinates.events.log_status import LENGTH_UNKNOWN
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules import columns as cells
from tallystick.coordinates.rules.columns import NOT_READ, has_fallen
from tallystick.coordinates.rules.executed_set import PURGED_NOT_READ
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import (
    HOLDS,
    NOT_APPLICABLE,
    Broken,
    RowAnswer,
    Undecided,
)
from tallystick.coordinates.rules.registry import Case, reason, rule
from tallystick.coordinates.rules.statements import (
    BINARY_LOGS,
    EVENTS_THERE,
    GTID_TABLE,
    not_executed,
    not_purged,
    sql,
)
from tallystick.coordinates.values.binlog import (
    ENCRYPTION_HEADER_LENGTH,
    format_log_file_name,
    parse_log_file_name,
)
from tallystick.coordinates.values.gtid import GtidSet

LIST_CHANGED = reason(
    "list_changed", "the list of binary logs changed while it was read", Lack.NEXT_ROW
)
OLDEST_UNSEEN = reason(
    "oldest_unseen", "the PREVIOUS_GTIDS of the oldest file was not seen", Lack.BINARY_LOG
)
PURGE_IN_DOUBT = reason(
    "purge_in_doubt",
    "the list of binary logs begins with {listed}, though a purge before it is said to have left"
    " {file} as the oldest: a purge stops at a file that is in use",
    Lack.BINARY_LOG,
)
PURGE_BETWEEN = reason(
    "purge_between",
    "a purge may lie between the readings: the list of binary logs was not read twice",
    Lack.NEXT_ROW,
)
NUMBERS_UNSEEN = reason(
    "numbers_unseen",
    "the list of binary logs goes from {before} to {after}, and the journal does not show whether"
    " there were files between them or the server left their numbers out",
    Lack.BINARY_LOG,
)
NOT_LISTED = reason("not_listed", "the list of binary logs was not read", Lack.VALUE)
END_UNSEEN = reason(
    "file_end_unseen", "{file} was not seen from its beginning to its end", Lack.BINARY_LOG
)
TABLE_NOT_READ = reason("table_not_read", "mysql.gtid_executed was not read", Lack.VALUE)
IN_COMMIT_UNKNOWN = reason(
    "in_commit_unknown", "gtid_owned or the prepared XA transactions were not read", Lack.VALUE
)
EXECUTED_BEGAN_ANEW = reason(
    "executed_began_anew", "gtid_executed began anew while the answer was read", Lack.LINEAGE
)
MAY_HAVE_LOG = reason(
    "may_have_log",
    "the row names no binary log, and whether log_bin is off is not known",
    Lack.SETTING,
)
FIRST_NOT_READ = reason(
    "executed_first_not_read", "gtid_executed was not read before gtid_purged", Lack.VALUE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgedEvidence:
    """gtid_purged of a row, the files that are kept, and mysql.gtid_executed. None: not known.

    The fields after ``previous_gtid_purged`` are known to the audit alone.

    Attributes:
        previous_gtid_purged: Of the last accepted row of this history.
        fallen: A later one, reported as fallen.
        has_binlog: Whether the server writes a binary log.
        is_off: Whether it is known to have been started without one.
        logged: What its binary log holds.
        grouped: Of it, what groups that were seen hold.
        lost_from_log: GTIDs that count as purged, and that the log has lost: own ones while it
            holds older ones, and any that a crash took out of it.
        oldest_file: The oldest file that is kept.
        oldest_previous: Its PREVIOUS_GTIDS.
        is_oldest_as_before: Whether it was the oldest at the previous row.
        binary_logs: The server's list, each file's name and length.
        seen: The files whose head the journal has.
        followed: The file before each whose number is not the next one, as its ROTATE named it.
        closed: Where files end that the journal has whole.
        open_end: Where the last file of the list ends in the journal, None not known, or a RESET
            may lie between the list and the row.
        list_changed: Whether the list was read before and after gtid_purged, and differed.
        list_confirmed: Whether it was read twice, and was the same.
        gtid_table: The table mysql.gtid_executed.
        gtid_owned, prepared_xa: What is in commit.
        executed_first: gtid_executed, read before all else.
    """

    gtid_purged: GtidSet | None
    gtid_executed: GtidSet | None
    previous_gtid_purged: GtidSet | None = None
    fallen: GtidSet | None = None
    has_binlog: bool = True
    is_off: bool = False
    logged: GtidSet = GtidSet.EMPTY
    grouped: GtidSet = GtidSet.EMPTY
    lost_from_log: GtidSet = GtidSet.EMPTY
    oldest_file: str | None = None
    oldest_previous: GtidSet | None = None
    is_oldest_as_before: bool = False
    binary_logs: Sequence[tuple[str, int]] | None = None
    seen: Collection[str] = ()
    followed: Mapping[str, str] = field(default_factory=dict)
    closed: Mapping[str, int] = field(default_factory=dict)
    open_end: int | None = None
    list_changed: bool = False
    list_confirmed: bool = False
    gtid_table: GtidSet | None = None
    gtid_owned: GtidSet | None = None
    prepared_xa: GtidSet | None = None
    executed_first: GtidSet | None = None

    scope: ClassVar = "instance"

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> PurgedEvidence:
        """The evidence that a row of the cut table holds."""
        return cls(
            gtid_purged=cells.gtid_set(columns, "gtid_purged"),
            gtid_executed=cells.gtid_set(columns, "gtid_executed"),
            previous_gtid_purged=cells.gtid_set(columns, "previous_gtid_purged"),
        )


@rule(
    number=25,
    tier=2,
    scope="S",
    family=Family.LOG_FILES,
    severity=Severity.CRITICAL,
    heals="held",
    claim="Every purged GTID is executed.",
    why=(
        "GTIDs become purged when the file that holds them is removed, long after their commit,"
        " or by SET gtid_purged, which adds them to gtid_executed under the same lock. A"
        " purged GTID that is not executed can neither be applied nor be sent any more."
    ),
    undecided_when=(
        "gtid_purged was not read or is not readable, or gtid_executed is not readable"
    ),
    sources=("MySQL manual: gtid_purged",),
    remedy=(
        "Compare the server with one that has the transaction; if its changes are missing,"
        " rebuild the server from a backup or a clone rather than correct the set."
    ),
    verify=(sql("SELECT GTID_SUBTRACT(@@GLOBAL.gtid_purged, @@GLOBAL.gtid_executed) AS missing;"),),
    evidence=PurgedEvidence,
    columns=("gtid_executed", "gtid_purged"),
    cases={
        "not_executed": Case(
            "{excess:gtids} {excess:is|are} purged, but {excess:was|were} never executed.",
            "{purged:gtids}",
            "@@gtid_purged",
            "within {executed:gtids}",
            "gtid_executed of log_status",
        ),
    },
)
def purged_within_executed(e: PurgedEvidence) -> RowAnswer:
    """Both sets come from one answer."""
    if e.gtid_purged is None:
        return Undecided(PURGED_NOT_READ)
    if e.gtid_executed is None:
        return Undecided(NOT_READ)
    if e.gtid_purged <= e.gtid_executed:
        return HOLDS
    excess = e.gtid_purged - e.gtid_executed
    return Broken(
        "not_executed",
        witness=excess,
        excess=excess,
        purged=e.gtid_purged,
        executed=e.gtid_executed,
    )


@rule(
    number=26,
    tier=2,
    scope="S",
    family=Family.LOG_FILES,
    severity=Severity.ERROR,
    heals="held",
    claim=(
        "gtid_purged is the PREVIOUS_GTIDS of the oldest file kept, and GTIDs that never were"
        " in a file; without a binary log it is all that is executed."
    ),
    why=(
        "After a purge the server reads the oldest file's PREVIOUS_GTIDS and makes it the"
        " purged set; only GTIDs that came without a log are added. A set too small promises"
        " replicas groups that are gone, one too large refuses them groups that are there. Its"
        " own GTIDs come through its log: one that becomes purged while the log still has older"
        " ones was lost from the log, as by a power cut with sync_binlog other than 1, and so was"
        " a received one that the log held before a crash. With log_bin"
        " off the server gives its executed set under both names, so what was executed before"
        " gtid_purged was read is in it."
    ),
    undecided_when=(
        "gtid_purged was not read, SHOW BINARY LOGS before and after it differ, a purge may lie"
        " between the readings (the list was read once, or a purge lies between two rows"
        " without lists), the list has files that a purge before it is said to have removed, or the"
        " PREVIOUS_GTIDS of the oldest file was not observed; where the row"
        " names no binary log, whether log_bin is off is not known, gtid_executed was not read"
        " before gtid_purged, or began anew (RESET) since"
    ),
    sources=(
        "MySQL manual: gtid_purged",
        "MySQL manual: PURGE BINARY LOGS Statement",
        "measured on MySQL 8.0.31 with log_bin off (docs/fidelity.md)",
    ),
    remedy=(
        "Purge with PURGE BINARY LOGS, never with rm. If files were removed by hand, restart"
        " the server with a right index so that it computes the set anew, and check which"
        " replicas still need the lost files."
    ),
    verify=(not_purged(), BINARY_LOGS),
    evidence=PurgedEvidence,
    cases={
        "lost_from_log": Case(
            "{lost:gtids} {lost:is executed and counts|are executed and count} as purged, though"
            " older groups are still in this server's binary log: the log has lost {lost:it|them},"
            " or was off.",
            "{purged:gtids}",
            "@@gtid_purged",
            "{logged:gtids}",
            "binary log: files that are kept, and what was purged before them",
            remedy=(
                "No replica can get these groups from this server: those that lack them have to be"
                " rebuilt, or moved to a server that has them in a file. After a crash set"
                " sync_binlog=1; if the binary log was off, find out who switched it off."
            ),
            heals="log",
        ),
        "not_purged": Case(
            "The oldest file kept, {file}, begins after {absent:gtids}, which {absent:is|are} not"
            " purged.",
            "{purged:gtids}",
            "@@gtid_purged",
            "{previous:gtids}",
            "Previous_gtids of {file}",
        ),
        "still_there": Case(
            "{wrong:gtids} {wrong:counts|count} as purged, but {wrong:is|are} still in a file kept"
            " or never {wrong:was|were} executed.",
            "{purged:gtids}",
            "@@gtid_purged",
            "{previous:gtids}",
            "Previous_gtids of {file}",
        ),
        "kept_without_log": Case(
            "{kept:gtids} {kept:is|are} executed and {kept:does|do} not count as purged, although"
            " the server has no binary log that could hold {kept:it|them}.",
            "{purged:gtids}",
            "@@gtid_purged",
            "at least {executed:gtids}",
            "@@gtid_executed, read before it",
            remedy=(
                "Read both variables by hand. If they are equal there, fix the collector: it has"
                " mixed answers of two moments or of two servers. If they are not, report it with"
                " the server's version, and take no backup's coordinates from this server."
            ),
        ),
    },
)
def purged_matches_oldest_file(e: PurgedEvidence) -> RowAnswer:
    """GTIDs that never were in a file count as purged too."""
    if e.gtid_purged is None:
        return Undecided(PURGED_NOT_READ)
    if not e.has_binlog:
        return _purged_without_log(e, e.gtid_purged)
    if e.lost_from_log:
        lost = e.lost_from_log
        return Broken(
            "lost_from_log",
            witness=lost,
            at=lost,
            lost=lost,
            purged=e.gtid_purged,
            logged=e.logged,
        )
    if e.list_changed:
        return Undecided(LIST_CHANGED)
    if e.oldest_previous is None:
        return Undecided(OLDEST_UNSEEN)
    absent = e.oldest_previous - e.gtid_purged
    extra = e.gtid_purged - e.oldest_previous
    wrong = extra & e.grouped
    if e.gtid_executed is not None:
        wrong = wrong | (extra - e.gtid_executed)
    if not absent and not wrong:
        return HOLDS
    if not e.list_confirmed and (e.binary_logs or not e.is_oldest_as_before):
        return Undecided(PURGE_BETWEEN)
    values = {"file": e.oldest_file, "purged": e.gtid_purged, "previous": e.oldest_previous}
    if absent:
        return Broken("not_purged", witness=absent, absent=absent, **values)
    return Broken("still_there", witness=wrong, wrong=wrong, **values)


def _purged_without_log(e: PurgedEvidence, purged: GtidSet) -> RowAnswer:
    """More than the row has executed is found by purged_within_executed."""
    if not e.is_off:
        return Undecided(MAY_HAVE_LOG)
    if e.executed_first is None:
        return Undecided(FIRST_NOT_READ)
    kept = e.executed_first - purged
    if not kept:
        return HOLDS
    if e.gtid_executed is None:
        return Undecided(NOT_READ)
    if not e.executed_first <= e.gtid_executed:
        return Undecided(EXECUTED_BEGAN_ANEW)
    return Broken(
        "kept_without_log",
        witness=kept,
        at=kept,
        kept=kept,
        purged=purged,
        executed=e.executed_first,
    )


@rule(
    number=43,
    tier=3,
    scope="T",
    family=Family.LOG_FILES,
    severity=Severity.ERROR,
    heals="log",
    claim=(
        "gtid_purged never loses a GTID, unless the binary log was reset, or switched on or off or"
        " given another index at a restart."
    ),
    why=(
        "Files that were purged do not come back, and SET gtid_purged must keep what is purged."
        " A restart computes the set anew from the oldest file, which changes it only if"
        " binary logging itself changed: another log_bin has an index of its own, unless"
        " log_bin_index names one."
    ),
    undecided_when=(
        "gtid_purged was not read or is not readable, or there is no accepted value of this"
        " lineage to compare with"
    ),
    sources=("MySQL manual: gtid_purged",),
    remedy=(
        "See whether old binary log files were copied back into the directory or the index was"
        " edited; take them out while the server is stopped, and check the replicas that"
        " connected meanwhile."
    ),
    verify=(not_purged("lost"), BINARY_LOGS),
    evidence=PurgedEvidence,
    columns=("gtid_purged", "previous_gtid_purged"),
    cases={
        "lost": Case(
            "{lost:gtids} {lost:was|were} purged at an earlier row and {lost:is|are} not any more.",
            "{purged:gtids}",
            "@@gtid_purged of this collection",
            "{previous:gtids}",
            "@@gtid_purged of the last accepted row",
        ),
    },
)
def purged_monotone(e: PurgedEvidence) -> RowAnswer:
    """After the binary log was switched off or on there is no previous value."""
    if e.gtid_purged is None:
        return Undecided(PURGED_NOT_READ)
    previous = e.previous_gtid_purged
    if previous is None:
        return NOT_APPLICABLE
    if not has_fallen(e.gtid_purged, previous, e.fallen):
        return HOLDS
    lost = previous - e.gtid_purged
    return Broken("lost", witness=lost, at=lost, lost=lost, purged=e.gtid_purged, previous=previous)


@rule(
    number=49,
    tier=3,
    scope="T",
    family=Family.LOG_FILES,
    severity=Severity.ERROR,
    heals="held",
    claim=(
        "The binary log files kept of one base name are numbered without a hole, but for what the"
        " server left out itself; a purge removes only the oldest and never the active one; a start"
        " opens another number."
    ),
    why=(
        "The server alone names files, one higher than the highest of the name in the directory,"
        " whoever has put that there, and removes them from the old end"
        " of its index. It never appends to a file of an earlier boot. A missing number is a"
        " missing piece of history. A file that is listed and not there has length 0."
    ),
    undecided_when=(
        "neither the list of binary logs nor the files' events were observed, they changed inside a"
        " gap of the journal, or numbers are left out where the journal has none of the files, no"
        " ROTATE that does so, and no start whose first PREVIOUS_GTIDS, with GTIDs alone, is what"
        " was logged before"
    ),
    sources=(
        "MySQL manual: The Binary Log; PURGE BINARY LOGS Statement",
        "measured on MySQL 8.0.31",
    ),
    remedy=(
        "Find out who removed or renamed a file in the file system. Put it back if it still"
        " exists; otherwise no backup or replica can be brought past it: take a new full"
        " backup."
    ),
    verify=(BINARY_LOGS, EVENTS_THERE),
    cases={
        "file_number_skipped": Case(
            "Binary log file number {number} follows number {previous}.",
            "{number}",
            "number of the file that was opened",
            "{expected}",
            "number that the ROTATE of the previous file names",
            heals="log",
        ),
        "old_file_continued": Case(
            (
                "After a start the binary log goes on in the old file {file}; a start opens"
                " the next one."
            ),
            "{at}",
            "first event after the start",
            "file number {expected}",
            "every start opens a file",
            heals="log",
        ),
        "active_file_purged": Case(
            "The purge to {to_file} removed the active file {file}.",
            "{to_file}",
            "oldest file after the purge",
            "at most {file}",
            "file being written",
            heals="log",
        ),
        "missing_number": Case(
            "The list of binary logs goes from number {before} to {number}.",
            "{first} … {last} without {witness}",
            "SHOW BINARY LOGS",
            "{witness}",
            "one range of numbers",
        ),
        "missing_file": Case(
            "The server lists {gone:list} among its binary logs, and"
            " {gone:the file is|these files are} not there or cannot be opened.",
            "length 0 of {gone:list}",
            "SHOW BINARY LOGS",
            "a file with its header",
            "the directory of the binary logs",
        ),
    },
    evidence=PurgedEvidence,
)
def binlog_files_form_range(e: PurgedEvidence) -> RowAnswer:
    """The server lists what its index names, with length 0 for what it cannot open.

    The last file may be about to be made. Under another base name the numbers begin at the next
    one that the directory has free for it, and a file that somebody has put there raises them.
    """
    logs = e.binary_logs
    if logs is None:
        return Undecided(NOT_LISTED)
    hole = None
    for before, after in pairwise(name for name, _ in logs):
        (base_before, number_before), (base_name, number) = map(
            parse_log_file_name, (before, after)
        )
        is_next = base_before != base_name or number_before + 1 == number
        if is_next or e.followed.get(after) == before:
            continue
        seen = [
            name
            for name, (base, between) in ((name, parse_log_file_name(name)) for name in e.seen)
            if base == base_name and number_before < between < number
        ]
        if seen or number <= number_before:
            absent = min(seen, default=format_log_file_name(base_name, number_before + 1))
            return Broken(
                "missing_number",
                witness=absent,
                at=absent,
                before=number_before,
                number=number,
                first=logs[0][0],
                last=logs[-1][0],
            )
        hole = hole or Undecided(NUMBERS_UNSEEN, before=before, after=after)
    gone = [name for name, size in logs[:-1] if size == 0]
    if gone and e.list_confirmed:
        return Broken("missing_file", witness=gone[0], at=gone[0], gone=gone)
    return hole or HOLDS


@rule(
    number=146,
    tier=2,
    scope="S",
    family=Family.LOG_FILES,
    severity=Severity.ERROR,
    heals="held",
    claim=(
        "Each binary log file that is closed is as long as the events that were written to it, and"
        " the one that was open when the list was read is not longer than it was at the row."
    ),
    why=(
        "A server appends to the last file of its index alone: one that it has closed with ROTATE"
        " or STOP never changes. A shorter one has lost events that replicas and a recovery to a"
        " point in time need, a longer one has bytes that the server did not write. Of the open one"
        " the server shows where it writes, and the list is read before the row."
    ),
    undecided_when=(
        "the list of binary logs or the length of a file was not read, the list changed while it"
        " was read, or the journal does not have a closed file from its beginning to its end, as"
        " after a gap, or after a crash whose recovered end is not known. It holds for a"
        " file that is longer by the 512 bytes of the header of an encrypted one, and for an open"
        " file at the first row of a binary log, before which a RESET may lie"
    ),
    sources=("MySQL manual: SHOW BINARY LOGS Statement; Encrypting Binary Log Files",),
    remedy=(
        "Find out what has written to the file or cut it (a full disk, a copy, a restore of files)"
        " and read it with mysqlbinlog to its end. If events are lost, no replica or backup can be"
        " brought past it: take a new full backup, and rebuild replicas that have not read them."
    ),
    verify=(BINARY_LOGS, EVENTS_THERE),
    evidence=PurgedEvidence,
    cases={
        "length_differs": Case(
            "The closed binary log file {file} is {size:n byte} long, but its last event ends at"
            " {end}.",
            "{size}",
            "SHOW BINARY LOGS",
            "{end}",
            "events of the file",
        ),
        "open_file_longer": Case(
            "The open binary log file {file} was {size:n byte} long when the list was read, but at"
            " the row after it its last event ends at {end}.",
            "{size}",
            "SHOW BINARY LOGS",
            "at most {end}",
            "events of the file",
        ),
    },
)
def closed_file_length_agrees(e: PurgedEvidence) -> RowAnswer:
    """A length of 0 is that of a file which cannot be opened: binlog_files_form_range has it."""
    if e.binary_logs is None:
        return Undecided(NOT_LISTED)
    if e.list_changed:
        return Undecided(LIST_CHANGED)
    unseen = None
    for file, size in e.binary_logs[:-1]:
        end = e.closed.get(file)
        if end is None or size == LENGTH_UNKNOWN:
            unseen = unseen or file
        elif size not in (0, end, end + ENCRYPTION_HEADER_LENGTH):
            return Broken(
                "length_differs", witness=f"{file}:{size}", at=file, file=file, size=size, end=end
            )
    for file, size in e.binary_logs[-1:]:
        if e.open_end is not None and size > e.open_end + ENCRYPTION_HEADER_LENGTH:
            longer = {"file": file, "size": size, "end": e.open_end}
            return Broken("open_file_longer", witness=f"{file}:{size}", at=file, **longer)
    return HOLDS if unseen is None else Undecided(END_UNSEEN, file=unseen)


@rule(
    number=63,
    tier=3,
    scope="S",
    family=Family.GTID_TABLE,
    severity=Severity.CRITICAL,
    heals="held",
    claim=(
        "Every GTID in the table mysql.gtid_executed is executed, logged, owned by a session"
        " that is committing it, or that of a prepared XA transaction."
    ),
    why=(
        "The table is filled from transactions that InnoDB has committed or prepared, and read"
        " before the row, so it trails gtid_executed. A GTID only in the table would count as"
        " executed after the next start, and its transaction would never come."
    ),
    undecided_when=(
        "the table was not read or is not readable, gtid_executed is not readable, or an"
        " excess could be owned or prepared and gtid_owned or the prepared XA transactions"
        " were not read, or gtid_executed began anew (RESET) while the answer was read"
    ),
    sources=("WL#9211, F-7", "MySQL manual: mysql.gtid_executed Table"),
    remedy=(
        "Before the server is restarted, find out whether the transaction's changes are in the"
        " data. If they are not, rebuild the server: never edit the table."
    ),
    verify=(not_executed("excess"), GTID_TABLE),
    evidence=PurgedEvidence,
    cases={
        "only_in_table": Case(
            "mysql.gtid_executed holds {excess:gtids}, which {excess:is|are} neither executed nor"
            " owned nor prepared.",
            "{table:gtids}",
            "mysql.gtid_executed",
            "{executed:gtids}",
            "gtid_executed, gtid_owned and prepared XA",
        ),
    },
)
def gtid_table_within_executed(e: PurgedEvidence) -> RowAnswer:
    """A group's row commits with it, before gtid_executed has it; owned is read when that is over.

    So what is logged does not count as an excess.
    """
    if e.gtid_table is None or e.gtid_executed is None:
        return Undecided(TABLE_NOT_READ)
    excess = e.gtid_table - e.gtid_executed
    if excess and (e.gtid_owned is None or e.prepared_xa is None):
        return Undecided(IN_COMMIT_UNKNOWN)
    excess = excess - (e.gtid_owned or GtidSet.EMPTY) - (e.prepared_xa or GtidSet.EMPTY) - e.logged
    if not excess:
        return HOLDS
    if e.executed_first is not None and excess <= e.executed_first:
        return Undecided(EXECUTED_BEGAN_ANEW)
    return Broken(
        "only_in_table",
        witness=excess,
        excess=excess,
        table=e.gtid_table,
        executed=e.gtid_executed,
    )
