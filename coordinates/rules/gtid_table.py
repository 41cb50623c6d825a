"""Tier 2: does mysql.gtid_executed hold what closed binary log files held (WL#9211)?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, Undecided
from tallystick.coordinates.rules.registry import Case, reason, rule
from tallystick.coordinates.rules.statements import GTID_TABLE

if TYPE_CHECKING:
    from tallystick.coordinates.rules.outcomes import RowAnswer
    from tallystick.coordinates.values.gtid import GtidSet

TABLE_NOT_READ = reason(
    "gtid_table_not_read", "mysql.gtid_executed or gtid_executed was not read", Lack.VALUE
)
NO_CLOSED_FILE = reason(
    "gtid_table_no_file",
    "the previous row named no file whose Previous_gtids are known",
    Lack.NEXT_ROW,
)
TABLE_READ_EARLY = reason(
    "gtid_table_read_early",
    "it is not known that the table was read after the previous row",
    Lack.NEXT_ROW,
)
FILE_NOT_LATER = reason(
    "gtid_table_file_not_later",
    "the row names no file, or an older one than the previous row",
    Lack.NEXT_ROW,
)


@dataclass(frozen=True, slots=True)
class GtidTable:
    """What a row shows of mysql.gtid_executed, and of a file that was closed before.

    Attributes:
        table: The table's GTIDs, None when it was not read.
        executed: gtid_executed.
        closed: Previous_gtids of the file that the previous row named, None when not known.
        is_read_later: Whether the table was read after the previous row.
        names_later_file: Whether the row names that file or a later one.
    """

    table: GtidSet | None
    executed: GtidSet | None
    closed: GtidSet | None
    is_read_later: bool
    names_later_file: bool

    scope: ClassVar = "instance"


@rule(
    number=92,
    tier=3,
    scope="S",
    family=Family.GTID_TABLE,
    severity=Severity.ERROR,
    heals="held",
    claim=(
        "The table mysql.gtid_executed holds every executed GTID of the binary log files that"
        " were closed before it was read."
    ),
    why=(
        "A rotation saves what the persister has not: GTIDs of non-transactional and empty"
        " groups. It does so before the next file is opened, and a start does the same with the"
        " last file of the previous boot."
    ),
    undecided_when=(
        "the table was not read, the previous row named no file whose Previous_gtids are known,"
        " the collection was asked for before that row was taken, or the row is older than it"
    ),
    sources=(
        "WL#9211, Gtid_state::save_gtids_of_last_binlog_into_table()",
        "MySQL manual: mysql.gtid_executed Table",
    ),
    remedy=(
        "As long as the files are there a restart reads the GTIDs again. Before PURGE BINARY"
        " LOGS, rotate once more and compare table and gtid_executed."
    ),
    verify=(GTID_TABLE,),
    evidence=GtidTable,
    cases={
        "table_lacks_closed_file": Case(
            "mysql.gtid_executed lacks {missing:gtids}, logged in a file that is closed.",
            "{table:gtids}",
            "mysql.gtid_executed",
            "with {missing:gtids}",
            "Previous_gtids of the file that the previous row named",
        ),
    },
)
def gtid_table_has_closed_files(e: GtidTable) -> RowAnswer:
    """Whether the table has what was executed before the file that the previous row named."""
    if e.table is None or e.executed is None:
        return Undecided(TABLE_NOT_READ)
    if e.closed is None:
        return Undecided(NO_CLOSED_FILE)
    if not e.is_read_later:
        return Undecided(TABLE_READ_EARLY)
    if not e.names_later_file:
        return Undecided(FILE_NOT_LATER)
    missing = (e.closed & e.executed) - e.table
    if not missing:
        return HOLDS
    return Broken("table_lacks_closed_file", witness=missing, missing=missing, table=e.table)
