"""Rules on what a row shows as logged and not executed yet: bounded, the last groups, soon over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules import columns as cells
from tallystick.coordinates.rules.executed_set import LOGGED_UNKNOWN
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, RowAnswer, Undecided
from tallystick.coordinates.rules.registry import Case, reason, rule
from tallystick.coordinates.rules.statements import groups, not_executed, sql
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    import numpy.typing as npt

SETTLE_US = 10_000_000
"""After so long a logged group must be executed."""

LAG_MAX_UNKNOWN = reason(
    "lag_max_unknown",
    "neither max_connections nor commit_lag_max of the server is known",
    Lack.VALUE,
)
MORE_THAN_REMEMBERED = reason(
    "more_than_remembered", "more groups are in flight than are remembered", Lack.MEMORY
)
COMMITS_STALL = reason(
    "commits_stall",
    "commits stand still after the last executed group (a source that waits for a semi-synchronous"
    " replica, a stalled disk)",
    Lack.THREAD,
)
STILL_SETTLING = reason("still_settling", "logged groups still have time to settle", Lack.NEXT_ROW)


class LoggedGroups(NamedTuple):
    """The remembered groups up to a position, oldest first.

    Attributes:
        sids: The names of the counters.
        numbers: Of each group, the index of its counter.
        gnos: Of each group.
    """

    sids: Sequence[str]
    numbers: npt.NDArray[np.int64]
    gnos: npt.NDArray[np.int64]

    def are_in(self, gtids: GtidSet) -> npt.NDArray[np.bool_]:
        """Which groups a set holds."""
        held = np.zeros(len(self.gnos), dtype=bool)
        for number in np.unique(self.numbers).tolist():
            of_sid = self.numbers == number
            held[of_sid] = gtids.contains_gnos(self.sids[number], self.gnos[of_sid])
        return held

    def after(self, index: int) -> GtidSet:
        """The GTIDs of the groups after the one at ``index``."""
        return GtidSet.from_groups(self.sids, self.numbers[index + 1 :], self.gnos[index + 1 :])

    def gtid(self, index: int) -> str:
        """The GTID of one group."""
        return f"{self.sids[int(self.numbers[index])]}:{int(self.gnos[index])}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LagEvidence:
    """What is logged up to a row's position and not executed. None: not known.

    The fields after ``commit_lag_max`` are known to the audit alone.

    Attributes:
        journal_gtid_set: What the binary log holds up to the row's position.
        commit_lag_max: How many groups can be between the binary log and gtid_executed.
        knows_commit_lag_max: Whether it is the server's own, not made of default settings.
        commits_are_ordered: Whether groups become executed in the order of the log.
        groups: The groups up to the row's position; None: nothing is missing, or no position.
        known_holes: Missing groups that were reported as holes.
        late_recovered: Missing groups that this row shows as not recovered.
        due: What was missing at a row ``SETTLE_US`` or more ago.
        lost: Of it, what was reported.
        missing: What is logged and not executed.
    """

    gtid_executed: GtidSet | None
    journal_gtid_set: GtidSet | None
    commit_lag_max: int | None = None
    knows_commit_lag_max: bool = True
    commits_are_ordered: bool = False
    groups: LoggedGroups | None = None
    known_holes: GtidSet = GtidSet.EMPTY
    late_recovered: GtidSet = GtidSet.EMPTY
    due: GtidSet = GtidSet.EMPTY
    lost: GtidSet = GtidSet.EMPTY
    missing: GtidSet | None = field(init=False)

    scope: ClassVar = "instance"

    def __post_init__(self) -> None:
        logged, executed = self.journal_gtid_set, self.gtid_executed
        missing = None if logged is None or executed is None else logged - executed
        object.__setattr__(self, "missing", missing)

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> LagEvidence:
        """The evidence that a row of the cut table holds."""
        return cls(
            gtid_executed=cells.gtid_set(columns, "gtid_executed"),
            journal_gtid_set=cells.gtid_set(columns, "journal_gtid_set"),
            commit_lag_max=cells.integer(columns, "commit_lag_max"),
        )

    def holes(self) -> tuple[GtidSet, int]:
        """Missing groups before the last executed one, and the index of that one; -1 none."""
        missing = self.missing
        if missing is None or self.groups is None:
            return GtidSet.EMPTY, -1
        waiting = missing - self.known_holes - self.late_recovered
        is_waiting = self.groups.are_in(waiting)
        done = np.flatnonzero(~is_waiting)
        if not len(done):
            return GtidSet.EMPTY, -1
        last = int(done[-1])
        return waiting - self.groups.after(last), last

    def never_executed(self) -> tuple[GtidSet, GtidSet]:
        """What is due: before the last executed group, and after it, where commits stand still."""
        missing = self.missing
        if missing is None:
            return GtidSet.EMPTY, GtidSet.EMPTY
        due = (self.due & missing) - self.lost
        if not due or self.groups is None or self.gtid_executed is None:
            return due, GtidSet.EMPTY
        done = np.flatnonzero(self.groups.are_in(self.gtid_executed))
        in_flight = due & self.groups.after(int(done[-1]) if len(done) else -1)
        return due - in_flight, in_flight


@rule(
    number=23,
    tier=2,
    scope="S",
    family=Family.NOT_COMMITTED,
    severity=Severity.ERROR,
    heals="held",
    claim=(
        "At most as many logged groups are missing from gtid_executed as sessions and applier"
        " workers can be committing at once; none in profile wl9452, whose rows are one instant."
    ),
    why=(
        "Between the flush stage, which logs a group, and the commit stage, which executes it,"
        " each session has one group under way. More missing groups than sessions are not in"
        " flight: they are lost, or the set is an old one."
    ),
    undecided_when=(
        "gtid_executed is not readable, what was logged up to the coordinate is not known, or"
        " more are missing than a server's default bound and neither max_connections nor"
        " commit_lag_max was given"
    ),
    sources=(
        "WL#9452, F-2.2",
        "Percona Server issue PS-7873",
        "server bugs 102175 and 112331",
    ),
    remedy=(
        "Collect again. If the same GTIDs stay missing, compare the binary log with the data;"
        " if only the number is high, give the audit the true max_connections or commit_lag_max"
        " of the server."
    ),
    verify=(not_executed(), sql("SELECT @@GLOBAL.max_connections;")),
    evidence=LagEvidence,
    columns=("gtid_executed", "journal_gtid_set", "commit_lag_max"),
    cases={
        "too_many": Case(
            "Not executed: {count:n logged GTID}; at most {maximum} can be in flight.",
            "{count}",
            "GTIDs of the binary log up to the coordinate, not in gtid_executed",
            "at most {maximum}",
            "max_connections and applier workers, commit_lag_max, or profile wl9452",
        ),
    },
)
def commit_lag_bounded(e: LagEvidence) -> RowAnswer:
    """Holes that were reported are not in flight."""
    missing = e.missing
    if missing is None:
        return Undecided(LOGGED_UNKNOWN)
    if e.commit_lag_max is None:
        return Undecided(LAG_MAX_UNKNOWN)
    waiting = missing - e.known_holes
    count = waiting.count()
    if count <= e.commit_lag_max:
        return HOLDS
    if not e.knows_commit_lag_max:
        return Undecided(LAG_MAX_UNKNOWN)
    return Broken("too_many", witness=waiting, count=count, maximum=e.commit_lag_max)


@rule(
    number=24,
    tier=2,
    scope="S",
    family=Family.NOT_COMMITTED,
    severity=Severity.WARNING,
    heals="executed",
    claim=(
        "While commits are ordered, the logged groups that gtid_executed lacks are the last"
        " ones of the binary log, without an executed one among them."
    ),
    why=(
        "With binlog_order_commits the leader of the commit stage commits its queue in the"
        " order of the flush stage, and replica_preserve_commit_order makes appliers queue in"
        " the source's order. A group executed before an earlier one jumped the queue, or the"
        " earlier one is lost."
    ),
    undecided_when=(
        "what was logged up to the coordinate is not known, or more groups are in flight than"
        " the audit remembers. Nothing is claimed while either option is off"
    ),
    sources=("WL#9211, Design Summary", "measured on MySQL 8.0.31"),
    remedy=(
        "Watch the next row: if it holds the GTID, the row was torn and its set must not be"
        " used beside its position; if not, treat it as a logged group that was never"
        " executed."
    ),
    verify=(not_executed("holes"), groups("holes")),
    evidence=LagEvidence,
    cases={
        "hole": Case(
            "{holes:gtids} {holes:is|are} logged before {last}, which is executed, but"
            " {holes:is not executed itself|are not executed themselves}, though commits are"
            " ordered.",
            "{executed:gtids}",
            "gtid_executed of log_status",
            "{holes:gtids} before {last}",
            "order of the binary log",
        ),
    },
)
def commit_lag_is_suffix(e: LagEvidence) -> RowAnswer:
    """What is missing before the last executed group is a hole."""
    missing = e.missing
    if missing is None:
        return Undecided(LOGGED_UNKNOWN)
    waiting = missing - e.known_holes - e.late_recovered
    if not waiting or not e.commits_are_ordered or e.groups is None:
        return HOLDS
    holes, last = e.holes()
    if last < 0:
        return HOLDS if len(e.groups.gnos) == waiting.count() else Undecided(MORE_THAN_REMEMBERED)
    if not holes:
        return HOLDS
    return Broken(
        "hole",
        witness=holes,
        at=holes,
        holes=holes,
        last=e.groups.gtid(last),
        executed=e.gtid_executed,
    )


@rule(
    number=44,
    tier=3,
    scope="T",
    family=Family.NOT_COMMITTED,
    severity=Severity.ERROR,
    heals="executed",
    claim=(
        "A group that is in the binary log at one row is executed at the first row that is 10"
        " seconds or more younger."
    ),
    why=(
        "A logged group has only the sync and the commit stage before it, which take"
        " milliseconds. A group that stays in the log without being executed is sent to"
        " replicas although the server itself does not count it."
    ),
    undecided_when=(
        "no row is old enough yet, gtid_executed is not readable, or what was logged up to the"
        " coordinates is not known, or nothing logged after the missing groups is executed"
        " either: then commits wait, as on a source whose semi-synchronous replica is silent"
    ),
    sources=("WL#9452, F-2.2", "Percona Server issue PS-7873", "server bug 102175"),
    remedy=(
        "Look for sessions that wait in commit (semi-synchronous acknowledgement, a full disk,"
        " Waiting for handler commit). If none does, search the group's changes in the data and"
        " compare with the replicas."
    ),
    verify=(not_executed("lost"), groups("lost")),
    evidence=LagEvidence,
    cases={
        "never_executed": Case(
            "{lost:gtids} {lost:was|were} logged more than {seconds} s ago and {lost:is|are} still"
            " not executed.",
            "{executed:gtids}",
            "gtid_executed of log_status",
            "{lost:gtids}",
            "binary log at an earlier row",
        ),
    },
)
def logged_eventually_executed(e: LagEvidence) -> RowAnswer:
    """Where nothing logged after the missing groups is executed either, commits wait."""
    missing = e.missing
    if missing is None:
        return Undecided(LOGGED_UNKNOWN)
    lost, in_flight = e.never_executed()
    if lost:
        return Broken(
            "never_executed",
            witness=lost,
            at=lost,
            lost=lost,
            seconds=SETTLE_US // 1_000_000,
            executed=e.gtid_executed,
        )
    if in_flight:
        return Undecided(COMMITS_STALL)
    return Undecided(STILL_SETTLING) if missing else HOLDS
