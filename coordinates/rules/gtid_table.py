"""Tier 2: does mysql.gtid_executed hold what was put into it (WL#9211)?

That is what closed binary log files held, and what the GTID persister has written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, Undecided
from tallystick.coordinates.rules.registry import Case, reason, rule
from tallystick.coordinates.rules.statements import GTID_TABLE
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.rules.outcomes import RowAnswer

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
        persisted: What the persister was seen to write before the table was read.
    """

    table: GtidSet | None
    executed: GtidSet | None
    closed: GtidSet | None
    is_read_later: bool
    names_later_file: bool
    persisted: GtidSet

    scope: ClassVar = "instance"


INTERVALS_MAX = 4096
"""Intervals of GTIDs in memory; a persister that leaves as many gaps is followed anew."""


@dataclass(eq=False)
class PersistedGtids:
    """What the persister was seen to write into the table, as far as it is there for good.

    The newest write is apart: a row may have been asked for before it and after the others.
    """

    _earlier: GtidSet = GtidSet.EMPTY
    _earlier_ts: int = -1
    _newest: GtidSet = GtidSet.EMPTY
    _newest_ts: int = -1
    _dropped: GtidSet = GtidSet.EMPTY
    """What was dropped is among these: all numbers between the least and the greatest of them."""
    _dropped_ts: int = -1

    def add(self, gtids: GtidSet, ts: int) -> bool:
        """Take what was written at a moment; returns whether all that came before is kept."""
        earlier = self.all
        is_kept = _count(earlier) <= INTERVALS_MAX
        if not is_kept:
            self._dropped, self._dropped_ts = _hull(self._dropped | earlier), ts
        self._earlier = earlier if is_kept else GtidSet.EMPTY
        self._earlier_ts = self._newest_ts
        self._newest, self._newest_ts = gtids, ts
        return is_kept

    @property
    def all(self) -> GtidSet:
        """All that was written."""
        return self._earlier | self._newest

    def before(self, asked_at: object) -> GtidSet:
        """What was written before a row was asked for; nothing if that moment is not known."""
        if not isinstance(asked_at, int) or asked_at <= self._earlier_ts:
            return GtidSet.EMPTY
        return self._earlier if asked_at <= self._newest_ts else self.all

    def found(self, table: GtidSet, executed: GtidSet, asked_at: object, ts: int) -> bool:
        """Whether the table is known to have what was dropped; it is remembered again then.

        Args:
            table: What a row shows of it.
            executed: gtid_executed in that row.
            asked_at: When it was asked for, if that is known.
            ts: The row's moment.
        """
        if not isinstance(asked_at, int) or asked_at <= self._dropped_ts:
            return False
        again = self._earlier | (table & self._dropped)
        if (executed - table) & self._dropped or _count(again) > INTERVALS_MAX:
            return False
        self._earlier, self._earlier_ts = again, max(self._earlier_ts, ts)
        self._dropped = GtidSet.EMPTY
        return True

    def started(self) -> None:
        """A start reads what is executed from the table, and stores in it what the log has."""
        self._dropped = GtidSet.EMPTY

    def remove(self, gtids: GtidSet) -> None:
        """These are not in the table, or need not be."""
        if gtids:
            self._earlier, self._newest = self._earlier - gtids, self._newest - gtids

    def time_anew(self, ts: int) -> None:
        """All was written before this moment, by another clock."""
        self._earlier_ts = self._newest_ts = self._dropped_ts = ts


def _count(gtids: GtidSet) -> int:
    """Of how many intervals a set is."""
    return sum(map(len, gtids.bounds().values())) // 2


def _hull(gtids: GtidSet) -> GtidSet:
    """All numbers between the least and the greatest of each server and tag."""
    return GtidSet((sid, int(b[0]), int(b[-1]) - 1) for sid, b in gtids.bounds().items())


@rule(
    number=92,
    tier=3,
    scope="S",
    family=Family.GTID_TABLE,
    severity=Severity.ERROR,
    heals="held",
    claim=(
        "The table mysql.gtid_executed holds every executed GTID of the binary log files that"
        " were closed before it was read, and every one that the GTID persister had written."
    ),
    why=(
        "A rotation saves what the persister has not: GTIDs of non-transactional and empty"
        " groups. It does so before the next file is opened, and a start does the same with the"
        " last file of the previous boot. Only RESET BINARY LOGS AND GTIDS takes a GTID out."
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
        "table_lacks_persisted": Case(
            "mysql.gtid_executed lacks {missing:gtids}, which the GTID persister had written.",
            "{table:gtids}",
            "mysql.gtid_executed",
            "with {missing:gtids}",
            "the persister's writes in the journal",
            remedy=(
                "Before the server is restarted compare mysql.gtid_executed with gtid_executed;"
                " FLUSH LOCAL BINARY LOGS stores all logged GTIDs in the table. What is not logged"
                " has no other place: a start forgets it, and replication brings it again."
            ),
        ),
    },
)
def gtid_table_has_closed_files(e: GtidTable) -> RowAnswer:
    """Whether the table has what was persisted, or executed before the previous row's file."""
    if e.table is None or e.executed is None:
        return Undecided(TABLE_NOT_READ)
    lost = (e.persisted & e.executed) - e.table
    if lost:
        return Broken("table_lacks_persisted", witness=lost, missing=lost, table=e.table)
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
