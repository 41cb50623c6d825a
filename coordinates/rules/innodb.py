"""Rules on InnoDB's log sequence numbers: at one row, and from row to row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules import columns as cells
from tallystick.coordinates.rules.columns import has_fallen
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import (
    HOLDS,
    NOT_APPLICABLE,
    Broken,
    RowAnswer,
    Undecided,
)
from tallystick.coordinates.rules.registry import Case, reason, rule
from tallystick.coordinates.rules.statements import INNODB_STATUS, LSNS, REDO_CAPACITY, groups
from tallystick.coordinates.values.innodb import BLOCK_LENGTH, LSN_MIN, lsn_offset_is_legal

NO_LSN = reason("no_lsn", "the row has no readable LSN of InnoDB", Lack.VALUE)
CAPACITY_UNKNOWN = reason(
    "capacity_unknown", "LSN, checkpoint or innodb_redo_log_capacity is not known", Lack.VALUE
)
NO_ROW_BEFORE = reason("no_row_before", "there is no accepted row before", Lack.NEXT_ROW)
OTHER_ENGINES = reason("other_engines", "commits may be of another storage engine", Lack.SETTING)
REDO_DISABLED = reason(
    "redo_disabled", "the redo log was disabled: commits wrote no redo", Lack.SETTING
)
COMMITS_ANONYMOUS = reason(
    "commits_anonymous",
    "groups without GTIDs were logged since the previous row, and the LSN stayed: whether InnoDB"
    " has committed any of them is not known",
    Lack.SETTING,
)
COMMITS_UNKNOWN = reason("commits_unknown", "two accepted executed sets are needed", Lack.NEXT_ROW)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedoEvidence:
    """The log sequence numbers of a row, and those before it. None: not known.

    The fields after ``previous`` are known to the audit alone.

    Attributes:
        lsn, lsn_checkpoint: Of log_status, one statement.
        previous: Of the last accepted row of this data directory: ``LSN``, ``LSN_checkpoint`` and
            ``flushed``.
        innodb: LSNs of the status variables by name, another statement.
        fallen: Later values, reported as fallen.
        capacity: What the redo log's files can hold: innodb_redo_log_capacity, and until they have
            shrunk to it what they held before.
        has_other_engines: Whether engines beside InnoDB keep logs.
        redo_was_disabled: Whether changes wrote no redo at some time since the row before.
        commits: GTIDs that InnoDB committed between the two rows; None: the executed set of one of
            them is not known.
        has_anonymous: Whether groups without GTIDs were logged between them, which InnoDB may have
            committed or not.
    """

    lsn: int | None
    lsn_checkpoint: int | None = None
    previous: Mapping[str, int] = field(default_factory=dict)
    innodb: Mapping[str, int] = field(default_factory=dict)
    fallen: Mapping[str, Any] = field(default_factory=dict)
    capacity: int | None = None
    has_other_engines: bool = False
    redo_was_disabled: bool = False
    commits: Sequence[str] | None = None
    has_anonymous: bool = False

    scope: ClassVar = "instance"

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> RedoEvidence:
        """The evidence that a row of the cut table holds."""
        previous_lsn = cells.integer(columns, "previous_lsn")
        return cls(
            lsn=cells.integer(columns, "lsn"),
            lsn_checkpoint=cells.integer(columns, "lsn_checkpoint"),
            previous={} if previous_lsn is None else {"LSN": previous_lsn},
        )

    def numbers(self) -> dict[str, int]:
        """What may be compared with an earlier row, by name."""
        values = {
            "LSN": self.lsn,
            "LSN_checkpoint": self.lsn_checkpoint,
            **{name: self.innodb.get(name) for name in ("flushed", "written", "current")},
        }
        return {name: value for name, value in values.items() if value is not None}


@rule(
    number=38,
    tier=2,
    scope="S",
    family=Family.REDO_LOG,
    severity=Severity.CRITICAL,
    heals="held",
    claim=(
        "The checkpoint LSN of log_status is not above its current LSN, and no LSN that the server"
        " shows is below 8192."
    ),
    why=(
        "A checkpoint passes only pages whose redo is flushed. log_status reads current and"
        " checkpoint with the redo log stopped; SHOW GLOBAL STATUS reads its variables one after"
        " another while the log goes on, so flushed may be beyond current there. The log of a new"
        " data directory begins at 8192."
    ),
    undecided_when=(
        "the row has no InnoDB part. LSNs of different statements, and those of the status"
        " variables, are never compared with each other here"
    ),
    sources=("WL#9452, F-1.2.4", "MySQL manual: Redo Log"),
    remedy=(
        "Do not stop a redo copy at this LSN. Compare with SHOW ENGINE INNODB STATUS: if it is"
        " right there, fix the collector; if not, take a logical backup at once and look for"
        " a damaged redo log."
    ),
    verify=(LSNS, INNODB_STATUS),
    evidence=RedoEvidence,
    columns=("lsn", "lsn_checkpoint"),
    cases={
        "out_of_order": Case(
            "{low_name} {low} is beyond {high_name} {high} in {statement}.",
            "{low_name} {low}",
            "{statement}",
            "at most {high_name} {high}",
            "{statement}",
        ),
    },
)
def lsn_order(e: RedoEvidence) -> RowAnswer:
    """Between two statements the log grows, and while SHOW GLOBAL STATUS runs."""
    if e.lsn is None:
        return Undecided(NO_LSN)
    names = ("checkpoint", "flushed", "written", "current")
    shown = [("LSN_checkpoint", e.lsn_checkpoint, "log_status"), ("LSN", e.lsn, "log_status")]
    shown += [(name, e.innodb.get(name), "the status variables") for name in names]
    compared = [("first LSN", LSN_MIN, *each) for each in shown]
    if e.lsn_checkpoint is not None:
        compared.append(("LSN_checkpoint", e.lsn_checkpoint, "LSN", e.lsn, "log_status"))
    for low_name, low, high_name, high, statement in compared:
        if high is not None and low > high:
            return Broken(
                "out_of_order",
                witness=f"{low} > {high}",
                low_name=low_name,
                low=low,
                high_name=high_name,
                high=high,
                statement=statement,
            )
    return HOLDS


@rule(
    number=39,
    tier=2,
    scope="S",
    family=Family.REDO_LOG,
    severity=Severity.ERROR,
    heals="held",
    claim=(
        "Current and checkpoint LSN lie in the data part of a redo block: their remainder by"
        " 512 is from 12 to 507."
    ),
    why=(
        "The LSN counts headers (12 bytes) and trailers (4 bytes) of the 512-byte blocks too,"
        " but records only fill what is between; a full block moves the LSN on after the next"
        " header. Another remainder is a number that InnoDB never had."
    ),
    undecided_when="the row has no InnoDB part, or a number in it is not readable",
    sources=(
        "WL#9452, F-1.2.4",
        "MySQL source documentation: InnoDB redo log, format of redo log blocks",
    ),
    remedy=(
        "Find what rounded or computed the LSN on the way (a collector, a conversion to a"
        " floating-point number) and discard backups that were cut at it."
    ),
    verify=(LSNS, INNODB_STATUS),
    evidence=RedoEvidence,
    columns=("lsn", "lsn_checkpoint"),
    cases={
        "outside_data": Case(
            "{name} {lsn} is byte {offset} of its block, outside the data.",
            "{lsn} mod 512 = {offset}",
            "{name} of log_status",
            "12 to 507",
            "data bytes of a redo log block",
        ),
    },
)
def lsn_block_offset(e: RedoEvidence) -> RowAnswer:
    """An LSN below the first one breaks the order, not this."""
    if e.lsn is None:
        return Undecided(NO_LSN)
    for name, lsn in (("LSN", e.lsn), ("LSN_checkpoint", e.lsn_checkpoint)):
        if lsn is not None and lsn >= LSN_MIN and not lsn_offset_is_legal(lsn):
            return Broken(
                "outside_data", witness=lsn, name=name, lsn=lsn, offset=lsn % BLOCK_LENGTH
            )
    return HOLDS


@rule(
    number=40,
    tier=2,
    scope="S",
    family=Family.REDO_LOG,
    severity=Severity.WARNING,
    heals="held",
    claim="The redo between checkpoint and current LSN is less than the redo log's capacity.",
    why=(
        "Redo since the checkpoint is what recovery needs, and the files are reused in a"
        " circle. Before the age reaches the capacity InnoDB flushes pages by force and makes"
        " sessions wait, so that needed redo is never overwritten."
    ),
    undecided_when=(
        "innodb_redo_log_capacity is not known, or the row lacks a readable current or"
        " checkpoint LSN. From a start, and while the capacity shrinks, the files may hold more,"
        " until a row or a checkpoint shows an age that the new capacity holds"
    ),
    sources=(
        "WL#9452, High Level Specification: LSN_checkpoint",
        "MySQL manual: Redo Log; innodb_redo_log_capacity",
    ),
    remedy=(
        "Check that the reported capacity is the server's. Then enlarge innodb_redo_log_capacity"
        " and look for slow page flushing (innodb_io_capacity, a slow disk, an error in the"
        " log)."
    ),
    verify=(LSNS, REDO_CAPACITY),
    evidence=RedoEvidence,
    cases={
        "too_old": Case(
            "The checkpoint is {age:n byte} before the LSN, more than the redo log holds.",
            "{age}",
            "LSN - LSN_checkpoint of log_status",
            "below {capacity}",
            "innodb_redo_log_capacity",
        ),
    },
)
def checkpoint_age_within_capacity(e: RedoEvidence) -> RowAnswer:
    """The age is the redo that recovery needs."""
    if e.lsn is None or e.lsn_checkpoint is None or e.capacity is None:
        return Undecided(CAPACITY_UNKNOWN)
    age = e.lsn - e.lsn_checkpoint
    if age < e.capacity:
        return HOLDS
    return Broken(
        "too_old",
        witness=f"{e.lsn} - {e.lsn_checkpoint} = {age}",
        age=age,
        capacity=e.capacity,
    )


@rule(
    number=47,
    tier=3,
    scope="T",
    family=Family.REDO_LOG,
    severity=Severity.CRITICAL,
    heals="data",
    claim=(
        "Current, checkpoint, written and flushed LSN never fall in one data lineage, across"
        " restarts and crashes too."
    ),
    why=(
        "The LSN counts all redo since the data directory was made; recovery goes on after"
        " what it found. If it falls, redo that pages already rely on is gone, or the data"
        " directory is another one. The redo log is flushed before a group goes into the binary"
        " log: if it ends before that, InnoDB lacks what the binary log and gtid_executed count."
    ),
    undecided_when=(
        "the row has no readable LSN, or no row of this data lineage was accepted before; after"
        " a clone or a restore that the journal reports, comparison begins anew. After a crash"
        " only what was flushed, the checkpoint, or a row after which groups were logged with"
        " innodb_flush_log_at_trx_commit=1 bounds the LSN: redo in memory is gone"
    ),
    sources=("WL#9452, F-1.2.4", "MySQL manual: Redo Log; InnoDB Recovery"),
    remedy=(
        "Check for an old row published again, two servers under one name, or a data directory"
        " and binary logs of two moments, as of two snapshots. If it is true, look into the error"
        " log for pages whose LSN is in the future, and rebuild the server from a backup."
    ),
    verify=(LSNS, INNODB_STATUS),
    evidence=RedoEvidence,
    columns=("lsn", "previous_lsn"),
    cases={
        "fell": Case(
            "{name} fell from {previous} to {value}.",
            "{value}",
            "{name} of this collection",
            "at least {previous}",
            "last accepted row",
        ),
    },
)
def lsn_monotone(e: RedoEvidence) -> RowAnswer:
    """Of several numbers that fell the first is reported."""
    if e.lsn is None:
        return Undecided(NO_LSN)
    if not e.previous:
        return NOT_APPLICABLE
    for name, value in e.numbers().items():
        previous = e.previous.get(name)
        if has_fallen(value, previous, e.fallen.get(name)):
            return Broken(
                "fell",
                witness=f"{value} < {previous}",
                name=name,
                value=value,
                previous=previous,
            )
    return HOLDS


@rule(
    number=48,
    tier=3,
    scope="T",
    family=Family.REDO_LOG,
    severity=Severity.ERROR,
    heals="data",
    claim=("If an InnoDB transaction was committed between two rows, their LSNs differ."),
    why=(
        "A group that ends in XID changed InnoDB pages, and its commit alone writes redo."
        " Groups without InnoDB changes (non-transactional, empty) end otherwise and are not"
        " counted."
    ),
    undecided_when=(
        "the row has no readable LSN, there is no accepted earlier row, or the LSN is"
        " still and the executed set of one of the two rows was not accepted, what was logged has"
        " no GTIDs, another engine (MyRocks) keeps logs of its own, or the redo log is disabled"
    ),
    sources=("WL#9211, Design Summary: Clone GTID", "MySQL manual: Redo Log"),
    remedy=(
        "Look for a collector or cache that repeats an old STORAGE_ENGINES part; a physical"
        " backup that stops at this LSN lacks committed transactions."
    ),
    verify=(LSNS, groups("gtid")),
    evidence=RedoEvidence,
    cases={
        "stayed": Case(
            "{gtid} was committed in InnoDB since the previous row, but the LSN stayed at {lsn}.",
            "{lsn}",
            "LSN of this collection",
            "more than {lsn}",
            "LSN of the last accepted row",
        ),
    },
)
def lsn_grows_with_commits(e: RedoEvidence) -> RowAnswer:
    """Only groups that end in XID are commits of InnoDB for certain."""
    if e.lsn is None:
        return Undecided(NO_LSN)
    previous = e.previous.get("LSN")
    if previous is None:
        return Undecided(NO_ROW_BEFORE)
    if e.lsn != previous:
        return HOLDS
    if e.has_other_engines:
        return Undecided(OTHER_ENGINES)
    if e.redo_was_disabled:
        return Undecided(REDO_DISABLED)
    if e.commits is None:
        return Undecided(COMMITS_UNKNOWN)
    if not e.commits:
        return Undecided(COMMITS_ANONYMOUS) if e.has_anonymous else HOLDS
    return Broken("stayed", witness=e.commits[0], gtid=e.commits[0], lsn=e.lsn)
