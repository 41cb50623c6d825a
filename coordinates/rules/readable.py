"""Rules on an answer to a collection: tier 0, can it be read at all?

`coordinates.events.log_status` reads answers and says what it could not read; the readers of the
logs report GTIDs that they could not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tallystick.coordinates.events.log_status import Problem, ProblemKind
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules import columns as cells
from tallystick.coordinates.rules.columns import NOT_READ
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, RowAnswer, Undecided
from tallystick.coordinates.rules.registry import Case, reason, rule
from tallystick.coordinates.rules.statements import (
    CHANNELS_STORED,
    EVENTS_THERE,
    GTID_SETS,
    LOG_STATUS,
    LOG_STATUS_OF_ROW,
)
from tallystick.coordinates.values.binlog import parse_log_file_name
from tallystick.coordinates.values.errors import CoordinateError, GtidSetParseError
from tallystick.coordinates.values.gtid import GtidSet, is_canonical_server_text

NO_ROW = {
    "refused": reason("log_status_refused", "the server refused the collection", Lack.ANSWER),
    "failed": reason("log_status_failed", "the collection failed", Lack.ANSWER),
    "missing": reason("log_status_missing", "the server did not answer", Lack.ANSWER),
    "empty": reason("log_status_empty", "the answer has neither a row nor an error", Lack.ANSWER),
}
NOT_REACHED = reason(
    "row_not_reached",
    "the journal did not reach the coordinates of the log_status row",
    Lack.ANSWER,
)
OF_ANOTHER_SERVER = reason(
    "row_of_another_server",
    "the log_status row is of another server than the journal: its server_uuid differs",
    Lack.ANSWER,
)
SETTINGS_LOST = reason(
    "settings_lost",
    "the server's settings are not known since the saved state could not be read",
    Lack.VALUE,
)

_SETS = ("gtid_executed", "gtid_purged")
_OWNED = "gtid_owned"
_COORDINATES = ("binary_log_file", "binary_log_position")
_DATUM = "{datum} of the answer to {collection}"
_MANUAL = "MySQL manual: performance_schema.log_status"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerEvidence:
    """One answer to a collection, and what could not be read of it.

    Attributes:
        collection_id: The collection.
        answer: ``row``, ``refused``, ``failed``, ``missing`` or ``empty``; None not known.
        problems: What could not be read.
        has_executed: Whether there is a gtid_executed; the cut table has no value that the audit
            could not read.
    """

    collection_id: str = ""
    answer: str | None = "row"
    problems: tuple[Problem, ...] = ()
    has_executed: bool = True

    scope: ClassVar = "instance"

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> AnswerEvidence:
        """The evidence that a row of the cut table holds."""
        return cls(
            collection_id=str(columns.get("collection_id") or ""),
            answer=columns.get("answer"),
            problems=tuple(_problems(columns)),
            has_executed=isinstance(columns.get("gtid_executed"), str),
        )

    def first(self, kind: ProblemKind) -> Problem | None:
        """The first problem of a kind."""
        return next((problem for problem in self.problems if problem.kind is kind), None)


def _problems(columns: Mapping[str, Any]) -> Iterator[Problem]:
    for name in (*_SETS, _OWNED):
        text = columns.get(name)
        if not isinstance(text, str):
            continue
        try:
            shown = GtidSet.parse_owned(text) if name == _OWNED else GtidSet.parse(text)
        except GtidSetParseError as error:
            yield Problem(
                ProblemKind.GTIDS_UNREADABLE, name, repr(text), "a GTID set", error=str(error)
            )
            continue
        if name != _OWNED and not is_canonical_server_text(text):
            yield Problem(ProblemKind.GTIDS_NOT_CANONICAL, name, text, str(shown))
    file, position = (columns.get(name) for name in _COORDINATES)
    datum = "binary log coordinates"
    if (file is None) != (position is None):
        absent = _COORDINATES[0 if file is None else 1]
        found = position if file is None else file
        yield Problem(ProblemKind.INCOMPLETE, datum, repr(found), f"{absent} as well")
    elif file is not None:
        expected = _expected_of(file, cells.integer(columns, _COORDINATES[1]))
        if expected:
            yield Problem(ProblemKind.INCOMPLETE, datum, f"{file}:{position}", expected)


def _expected_of(file: Any, position: int | None) -> str:
    """What was expected of coordinates; empty: nothing else."""
    if position is None or not 0 <= position < 2**63:
        return "an integer from 0 to 2^63-1"
    try:
        parse_log_file_name(str(file))
    except CoordinateError:
        return "a file name base.NNNNNN without a directory"
    return ""


@rule(
    number=1,
    tier=0,
    scope="S",
    family=Family.UNREADABLE,
    severity=Severity.CRITICAL,
    heals="held",
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
    verify=(LOG_STATUS_OF_ROW, EVENTS_THERE),
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
        "set_unreadable": Case(
            "{datum} cannot be read: {error}", "{observed}", _DATUM, "a GTID set", _MANUAL
        ),
    },
    evidence=AnswerEvidence,
    columns=(*_SETS, _OWNED),
)
def gtid_text_wellformed(e: AnswerEvidence) -> RowAnswer:
    """The readers of the logs judge the GTIDs of groups and PREVIOUS_GTIDS."""
    if not e.has_executed:
        return Undecided(NOT_READ)
    problem = e.first(ProblemKind.GTIDS_UNREADABLE)
    return HOLDS if problem is None else _broken("set_unreadable", problem, e)


@rule(
    number=2,
    tier=0,
    scope="S",
    family=Family.UNREADABLE,
    severity=Severity.WARNING,
    heals="held",
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
    verify=(LOG_STATUS, GTID_SETS),
    evidence=AnswerEvidence,
    columns=_SETS,
    cases={
        "other_spelling": Case(
            "{datum} is not printed in canonical form.", "{observed}", _DATUM, "{expected}", _MANUAL
        ),
    },
)
def gtid_text_canonical(e: AnswerEvidence) -> RowAnswer:
    """A server prints what ``is_canonical_server_text`` accepts."""
    if not e.has_executed:
        return Undecided(NOT_READ)
    problem = e.first(ProblemKind.GTIDS_NOT_CANONICAL)
    return HOLDS if problem is None else _broken("other_spelling", problem, e)


@rule(
    number=3,
    tier=0,
    scope="S",
    family=Family.UNREADABLE,
    severity=Severity.CRITICAL,
    heals="held",
    claim=(
        "A log_status row has its four columns, and InnoDB among the storage engines; file and"
        " position come together, and are there where log_bin is on; file names are base.NNNNNN"
        " without a directory; numbers are integers below 2^63."
    ),
    why=(
        "The server fills all four columns in one call and reports error 3722 instead of a part"
        " of them; InnoDB, which is always there, gives its LSN. It leaves out the file and the"
        " position only together, when binary logging is off. With log_bin on that is so only"
        " after an error at which the server gave up its log (binlog_error_action=IGNORE_ERROR):"
        " no replica gets what it has executed since."
    ),
    undecided_when=(
        "there is no row, because the instance did not answer or answered with an error. Checks"
        " that need a missing or malformed part of the row are undecided in turn; so are those on"
        " the position, and not this one, where the row names no binary log though the journal has"
        " one, and log_bin is not known or binlog_error_action is IGNORE_ERROR"
    ),
    sources=(
        "WL#9452, I-1 and High Level Specification",
        "MySQL manual: The log_status Table",
    ),
    remedy=(
        "Read performance_schema.log_status by hand and compare. If it is complete there, fix"
        " the collector; a backup must not be cut at coordinates of which a part is missing."
    ),
    verify=(LOG_STATUS,),
    evidence=AnswerEvidence,
    columns=("answer", "gtid_executed", *_COORDINATES),
    cases={
        "incomplete": Case(
            "{datum} of the log_status row is incomplete or malformed: expected {expected}.",
            "{observed}",
            _DATUM,
            "{expected}",
            _MANUAL,
        ),
        "no_binlog": Case(
            "The row names no binary log although log_bin is on: its coordinates were left out, or"
            " the server has given up its log after an error.",
            "{observed}",
            _DATUM,
            "{expected}",
            "start of the server: log_bin",
            remedy=(
                "Read performance_schema.log_status by hand. If it names no file either, look in"
                " the error log for the error at which binary logging ended: what was committed"
                " since is in no log, so restart the server, rebuild its replicas, and set"
                " binlog_error_action=ABORT_SERVER. If it does, fix the collector."
            ),
        ),
    },
)
def log_status_row_complete(e: AnswerEvidence) -> RowAnswer:
    """Without a row there is nothing to be complete."""
    if e.answer != "row":
        return Undecided(NO_ROW.get(e.answer or "", NOT_READ))
    problem = e.first(ProblemKind.INCOMPLETE)
    left_out = e.first(ProblemKind.NO_BINLOG)
    if problem is not None:
        return _broken("incomplete", problem, e)
    if left_out is not None:
        return _broken("no_binlog", left_out, e)
    return HOLDS if e.has_executed else Undecided(NOT_READ)


@rule(
    number=4,
    tier=0,
    scope="S",
    family=Family.UNREADABLE,
    severity=Severity.CRITICAL,
    heals="held",
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
    verify=(LOG_STATUS, CHANNELS_STORED),
    evidence=AnswerEvidence,
    cases={
        "twice": Case(
            "The channel {named!r} occurs more than once in {table}.",
            "{observed}",
            _DATUM,
            "{expected}",
            _MANUAL,
        ),
    },
)
def channel_rows_unique(e: AnswerEvidence) -> RowAnswer:
    """Names are compared in lower case."""
    problem = e.first(ProblemKind.CHANNEL_TWICE)
    if problem is None:
        return HOLDS
    table, _, named = problem.datum.partition(":")
    return _broken("twice", problem, e, table=table, named=named)


@rule(
    number=5,
    tier=0,
    scope="S",
    family=Family.UNREADABLE,
    severity=Severity.ERROR,
    heals="held",
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
    verify=(LOG_STATUS,),
    evidence=AnswerEvidence,
    columns=("answer",),
    cases={
        "silent": Case(
            "Collection {witness} brought no row and no error.",
            "zero rows, no error",
            "query of performance_schema.log_status",
            "one row, or error 1142, 1227 or 3722",
            "WL#9452, I-2 and I-3",
        ),
    },
)
def snapshot_never_silently_empty(e: AnswerEvidence) -> RowAnswer:
    """An error, a timeout and an unreachable server are answers too."""
    if e.answer == "empty":
        return Broken("silent", witness=e.collection_id)
    return HOLDS if e.answer in ("row", *NO_ROW) else Undecided(NOT_READ)


def _broken(case: str, problem: Problem, e: AnswerEvidence, **values: str) -> Broken:
    return Broken(
        case,
        witness=problem.observed,
        at=f"{e.collection_id} {problem.datum}",
        datum=problem.datum,
        observed=problem.observed,
        expected=problem.expected,
        error=problem.error,
        **values,
    )
