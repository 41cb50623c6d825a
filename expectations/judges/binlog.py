"""Rules about the coordinates of the binary log."""

from __future__ import annotations

from tallystick.coordinates.values.binlog import MAGIC_LENGTH
from tallystick.expectations.judgement import (
    HELD,
    Judgement,
    Row,
    RowRule,
    broken,
    missing,
    not_applicable,
    undecided,
)
from tallystick.expectations.judges._reading import (
    NoEvidenceError,
    coordinates,
    is_before,
    no_evidence,
)

_FILE, _POSITION = "binary_log_file", "binary_log_position"


def _is_off(row: Row) -> bool:
    """A server with binary logging off names neither file nor position."""
    return row[_FILE] is None and row[_POSITION] is None


def _complete(row: Row) -> Judgement:
    if row["answer"] is None:
        return undecided("answer is not known")
    if row["answer"] != "row":
        return undecided(f"the collection brought no row: {row['answer'][:40]}")
    if _is_off(row):
        return not_applicable("the server writes no binary log")
    for present, absent in ((_FILE, _POSITION), (_POSITION, _FILE)):
        if row[absent] is None:
            return broken(f"the row has {present} and no {absent}", row[present])
    try:
        told = coordinates(row, _FILE, _POSITION)
    except NoEvidenceError as error:
        return broken(str(error), f"{row[_FILE]}:{row[_POSITION]}")
    if told.position < MAGIC_LENGTH:
        return broken(f"no event of a file starts or ends before {MAGIC_LENGTH}", told)
    return HELD


def _on_boundary(row: Row) -> Judgement:
    if _is_off(row):
        if row["gtid_executed"] is None:
            return undecided(f"{_FILE} is not known")
        return not_applicable("the server writes no binary log")
    journal = ("journal_binary_log_file", "journal_binary_log_position")
    if unknown := missing(row, _FILE, _POSITION, *journal):
        return unknown
    try:
        told, shown = coordinates(row, _FILE, _POSITION), coordinates(row, *journal)
    except NoEvidenceError as error:
        return no_evidence(error)
    if told == shown:
        return HELD
    return broken(f"the last group end at or before {told} is {shown}", told)


def _kept(row: Row) -> Judgement:
    previous = (f"previous_{_FILE}", f"previous_{_POSITION}")
    if all(row[role] is None for role in previous):
        return not_applicable("there is no earlier row of this history")
    if unknown := missing(row, _FILE, _POSITION, *previous):
        return unknown
    try:
        told, before = coordinates(row, _FILE, _POSITION), coordinates(row, *previous)
        has_fallen = is_before(told, before)
    except NoEvidenceError as error:
        return no_evidence(error)
    return broken(f"the position fell from {before} to {told}", told) if has_fallen else HELD


RULES = (
    RowRule(
        "coordinates_complete",
        {"answer": str, _FILE: str, _POSITION: int},
        _complete,
        "instance",
        "log_status_row_complete",
    ),
    RowRule(
        "position_on_boundary",
        {
            _FILE: str,
            _POSITION: int,
            "journal_binary_log_file": str,
            "journal_binary_log_position": int,
            "gtid_executed": str,
        },
        _on_boundary,
        "instance",
        "snapshot_position_on_group_boundary",
    ),
    RowRule(
        "position_kept",
        {
            _FILE: str,
            _POSITION: int,
            "previous_binary_log_file": str,
            "previous_binary_log_position": int,
        },
        _kept,
        "instance",
        "snapshot_position_monotone",
    ),
)
