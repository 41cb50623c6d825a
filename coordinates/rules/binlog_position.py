"""Rules on the binary log coordinates of a row: in the file, between groups, never falling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules import columns as cells
from tallystick.coordinates.rules.columns import (
    NOT_READ,
    NOT_REMEMBERED,
    has_fallen,
    same_family,
)
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import (
    HOLDS,
    NOT_APPLICABLE,
    Broken,
    RowAnswer,
    Undecided,
)
from tallystick.coordinates.rules.registry import Case, reason, rule
from tallystick.coordinates.rules.statements import BINARY_LOGS, LOG_STATUS, events_from
from tallystick.coordinates.values.binlog import MAGIC_LENGTH, LogCoordinates

NO_BINLOG_SEEN = reason("no_binlog_seen", "no event of this log was seen", Lack.BINARY_LOG)
OTHER_BASE_NAME = reason(
    "binlog_of_other_base_name", "the journal shows files of {base_name!r}", Lack.BINARY_LOG
)
BINLOG_MISSED = reason(
    "binlog_missed", "part of the journal is missing before the row", Lack.BINARY_LOG
)
OFFSETS_DOUBTFUL = reason(
    "offsets_doubtful", "the offsets of the file are in doubt after a break", Lack.BINARY_LOG
)
ROW_MAY_BE_OLD = reason(
    "row_may_be_old",
    "the binary log goes on to {end} before the row, and nothing says when the row was read: it may"
    " be of an earlier moment",
    Lack.JOURNAL,
)
NOT_IN_FILE = reason("not_in_file", "the position is not in the file", Lack.OTHER_FINDING)
GROUP_NOT_WHOLE = reason(
    "group_not_whole", "the group around the position was not seen whole", Lack.BINARY_LOG
)

_ROW = "log_status, binary_log_file and binary_log_position"
_BEFORE = "last group end before it in the binary log"


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionEvidence:
    """The binary log coordinates of a row, and what the log shows there. None: not known.

    The fields after ``previous_position`` are known to the audit alone.

    Attributes:
        position: Of the row.
        has_binlog: Whether the server writes a binary log.
        journal_position: The last end of a group, header or file at or before ``position``.
        previous_position: Of the last accepted row of this history.
        fallen: A later one, reported as fallen.
        log_before: Where the log ended before the row was read, if that is beyond its position.
        is_timed: Whether it is known when that was.
        relay_log_of: The channel whose relay log has files of the name in ``position``.
        doubt: Why the log says nothing about the position.
        boundary_doubt: Why it does not say whether a group ends there.
        log_end: Where the log ends.
        file_end: Where the file that the row names ends.
        is_event_end: Whether an event ends at the position.
    """

    position: LogCoordinates | None
    has_binlog: bool = True
    journal_position: LogCoordinates | None = None
    previous_position: LogCoordinates | None = None
    fallen: LogCoordinates | None = None
    log_before: LogCoordinates | None = None
    is_timed: bool = False
    relay_log_of: str | None = None
    doubt: Undecided | None = None
    boundary_doubt: Undecided | None = None
    log_end: LogCoordinates | None = None
    file_end: LogCoordinates | None = None
    is_event_end: bool | None = None

    scope: ClassVar = "instance"

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> PositionEvidence:
        """The evidence that a row of the cut table holds."""
        return cls(
            position=cells.coordinates(columns, "binary_log_file", "binary_log_position"),
            has_binlog=not cells.binlog_is_off(columns),
            journal_position=cells.coordinates(
                columns, "journal_binary_log_file", "journal_binary_log_position"
            ),
            previous_position=cells.coordinates(
                columns, "previous_binary_log_file", "previous_binary_log_position"
            ),
        )


@rule(
    number=20,
    tier=2,
    scope="S",
    family=Family.ROW,
    severity=Severity.CRITICAL,
    heals="held",
    claim=(
        "The binary log coordinate of a row lies within the named file: at 4 or after it, and"
        " not beyond the last event written when the row was taken."
    ),
    why=(
        "The collection holds LOCK_log, under which alone the binary log grows, and reports the"
        " position up to which the flush stage has written. What lies beyond is not there to"
        " be copied."
    ),
    undecided_when=(
        "the row has no readable coordinate, the journal shows no file of that base name, has"
        " not reached the row's position or has a gap before it, or no longer remembers the file"
    ),
    sources=(
        "WL#9452, High Level Specification: binary log coordinates",
        "MySQL manual: The log_status Table",
    ),
    remedy=(
        "Discard a backup that was cut by this row and collect again. If it comes back, compare"
        " SHOW BINARY LOGS with the files' sizes and check that row and journal come from one"
        " server."
    ),
    verify=(BINARY_LOGS, LOG_STATUS),
    evidence=PositionEvidence,
    cases={
        "of_relay_log": Case(
            "The row says {position}, which is in a file of the relay log of channel {name!r}.",
            "{position}",
            _ROW,
            "a file of the binary log",
            "logs of the server",
        ),
        "beyond_end": Case(
            "The row says {position}, but that file ends at {end}.",
            "{position}",
            _ROW,
            "at most {end}",
            "binary log",
        ),
        "no_such_file": Case(
            "The row says {position}, but that file does not exist yet.",
            "{position}",
            _ROW,
            "at most {end}",
            "binary log",
        ),
        "before_first_event": Case(
            "The row says {position}, but the first event of a file starts at {first}.",
            "{position}",
            _ROW,
            "at least {first}",
            "format of log files",
        ),
    },
)
def snapshot_position_within_file(e: PositionEvidence) -> RowAnswer:
    """A file of which nothing is remembered may have any length."""
    if not e.has_binlog:
        return NOT_APPLICABLE
    if e.position is None:
        return Undecided(NOT_READ)
    if e.relay_log_of is not None:
        name = e.relay_log_of
        return Broken("of_relay_log", witness=e.position, position=e.position, name=name)
    if e.doubt is not None:
        return e.doubt
    if e.position.position < MAGIC_LENGTH:
        return Broken(
            "before_first_event", witness=e.position, position=e.position, first=MAGIC_LENGTH
        )
    if e.log_end is not None and e.position.file_number > e.log_end.file_number:
        return Broken("no_such_file", witness=e.position, position=e.position, end=e.log_end)
    if e.file_end is None:
        return HOLDS if e.position == e.journal_position else Undecided(NOT_REMEMBERED)
    if e.position > e.file_end:
        return Broken("beyond_end", witness=e.position, position=e.position, end=e.file_end)
    return HOLDS


@rule(
    number=21,
    tier=2,
    scope="S",
    family=Family.ROW,
    severity=Severity.CRITICAL,
    heals="held",
    claim=(
        "The binary log coordinate of a row is the end of a group, of the file's header events"
        " or of its ROTATE or STOP; never inside."
    ),
    why=(
        "The flush stage copies whole groups and publishes the position after them, all under"
        " the LOCK_log that the collection takes. Servers before 8.0.42 can break this (server"
        " bug 32442772); a log cut inside a group ends torn."
    ),
    undecided_when=(
        "the coordinate is not readable or not within the file, the journal has a gap there,"
        " the group around the position was not seen whole, or the events around it are no longer"
        " remembered"
    ),
    sources=("WL#9452, F-3", "server bug 32442772"),
    remedy=(
        "Do not start a replica at this position: take the end of the last group before it and"
        " let GTIDs skip what was applied. Upgrade a server older than 8.0.42."
    ),
    verify=(events_from("boundary"),),
    evidence=PositionEvidence,
    columns=(
        "binary_log_file",
        "binary_log_position",
        "journal_binary_log_file",
        "journal_binary_log_position",
        "journal_gtid_set",
    ),
    cases={
        "inside_event": Case(
            "The row says {position}, which is inside an event.",
            "{position}",
            _ROW,
            "{boundary}",
            _BEFORE,
        ),
        "inside_group": Case(
            "The row says {position}, which is inside a group.",
            "{position}",
            _ROW,
            "{boundary}",
            _BEFORE,
        ),
        "not_a_boundary": Case(
            "The row says {position}, where no group ends.",
            "{position}",
            _ROW,
            "{boundary}",
            _BEFORE,
        ),
    },
)
def snapshot_position_on_group_boundary(e: PositionEvidence) -> RowAnswer:
    """The ends of a file's header events and of the file itself are boundaries too."""
    if not e.has_binlog:
        return NOT_APPLICABLE
    if e.position is None:
        return Undecided(NOT_READ)
    if e.doubt is not None:
        return e.doubt
    if isinstance(_within_file(e), Broken):
        return Undecided(NOT_IN_FILE)
    if e.position == e.journal_position:
        return HOLDS
    if e.boundary_doubt is not None:
        return e.boundary_doubt
    if e.is_event_end is None and e.journal_position is None:
        return Undecided(NOT_REMEMBERED)
    case = {None: "not_a_boundary", True: "inside_group", False: "inside_event"}[e.is_event_end]
    boundary = "the end of a group" if e.journal_position is None else e.journal_position
    return Broken(case, witness=e.position, position=e.position, boundary=boundary)


def _within_file(e: PositionEvidence) -> RowAnswer:
    assert snapshot_position_within_file.judge is not None
    answer: RowAnswer = snapshot_position_within_file.judge(e)
    return answer


@rule(
    number=41,
    tier=3,
    scope="T",
    family=Family.ROW,
    severity=Severity.CRITICAL,
    heals="log",
    claim=(
        "From row to row of one binary log lineage the binary log coordinate, by file number"
        " and then position, never falls; nor is it before what had been read of the log when the"
        " row was asked for."
    ),
    why=(
        "Under LOCK_log a file only grows and only the next higher number is opened. Only RESET"
        " BINARY LOGS AND GTIDS, a clone or a restore begins anew, and each of them begins a"
        " new lineage."
    ),
    undecided_when=(
        "the row has no readable coordinate, no row of this lineage was accepted before, or the"
        " base name of the binary log changed; the log goes on beyond the row before it in the"
        " journal, and when the row was read is not known"
    ),
    sources=("WL#9452, F-2.1 and F-3", "MySQL manual: The Binary Log"),
    remedy=(
        "Check for an old row published again or two servers under one name. If the server"
        " itself went back, it was reset or restored without telling: rebuild or re-point its"
        " replicas."
    ),
    verify=(LOG_STATUS, BINARY_LOGS),
    evidence=PositionEvidence,
    columns=(
        "binary_log_file",
        "binary_log_position",
        "previous_binary_log_file",
        "previous_binary_log_position",
        "journal_gtid_set",
    ),
    cases={
        "fell": Case(
            "The binary log coordinate fell from {previous} to {position}.",
            "{position}",
            "log_status of this collection",
            "at least {previous}",
            "last accepted log_status",
        ),
        "before_log": Case(
            "The row says {position}, but the binary log ended at {end} before it was read.",
            "{position}",
            "log_status of this collection",
            "at least {end}",
            "binary log when the row was asked for",
            heals="held",
        ),
    },
)
def snapshot_position_monotone(e: PositionEvidence) -> RowAnswer:
    """Coordinates of files with another base name are not compared."""
    if not e.has_binlog:
        return NOT_APPLICABLE
    if e.position is None:
        return Undecided(NOT_READ)
    is_compared = same_family(e.previous_position, e.position)
    if is_compared and has_fallen(e.position, e.previous_position, e.fallen):
        return Broken("fell", witness=e.position, position=e.position, previous=e.previous_position)
    if e.log_before is None:
        return HOLDS if is_compared else NOT_APPLICABLE
    if not e.is_timed:
        return Undecided(ROW_MAY_BE_OLD, end=e.log_before)
    return Broken("before_log", witness=e.position, position=e.position, end=e.log_before)
