"""Judging a row's binary log coordinate against the events of the log (invariants 20, 21, 41)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tallystick.coordinates.logs.event_window import END, FILE, MARK, Mark
from tallystick.coordinates.rules.history import (
    SNAPSHOT_POSITION_MONOTONE,
)
from tallystick.coordinates.rules.judging.row import FIRST_POSITION, UNREADABLE, note_fall
from tallystick.coordinates.rules.snapshot import (
    SNAPSHOT_POSITION_ON_GROUP_BOUNDARY,
    SNAPSHOT_POSITION_WITHIN_FILE,
)
from tallystick.coordinates.values.binlog import format_log_file_name
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.audit.row_evidence import Row
    from tallystick.coordinates.values.binlog import LogCoordinates

NO_JOURNAL = "no event of this log was seen"
_IS_BOUNDARY = np.zeros(len(Mark), dtype=bool)
_IS_BOUNDARY[[Mark.GROUP, Mark.HEADER, Mark.FILE]] = True


def judge_position(row: Row) -> GtidSet | None:
    """Judge P; returns L(P), None when the journal cannot tell."""
    state, binlog, judgement = row.state, row.binlog, row.judgement
    rules = (SNAPSHOT_POSITION_WITHIN_FILE, SNAPSHOT_POSITION_ON_GROUP_BOUNDARY)
    position = state.position
    if position is None:
        if state.has_binlog is False:
            return GtidSet.EMPTY
        for rule in (*rules, SNAPSHOT_POSITION_MONOTONE):
            judgement.undecided(rule, UNREADABLE)
        return None
    reason = None
    if binlog.base_name is None:
        reason = NO_JOURNAL
    elif binlog.base_name != position.base_name:
        reason = f"the journal shows files of {binlog.base_name!r}"
    elif binlog.end < 0:
        reason = "part of the journal is missing before the row"
    elif binlog.offsets_doubtful:
        reason = "the offsets of the file are in doubt after a break"
    if reason is not None:
        for rule in rules:
            judgement.undecided(rule, reason)
    else:
        _judge_place(row, position)
    _judge_position_monotone(row, position)
    return None if reason is not None else binlog.logged_at(position.file_number, position.position)


def _judge_place(row: Row, position: LogCoordinates) -> None:
    binlog, judgement = row.binlog, row.judgement
    number, offset = position.file_number, position.position
    rows = binlog.window.rows()
    ends = rows[rows[:, FILE] == number][:, END]
    if number == binlog.file_number:
        end: int | None = binlog.end
    elif number > binlog.file_number:
        end = -1
    else:
        end = int(ends[-1]) if len(ends) else None
    if (end is not None and offset > end) or offset < FIRST_POSITION:
        judgement.broken(
            SNAPSHOT_POSITION_WITHIN_FILE,
            sentence=f"The row says {position}, but that file "
            + (f"ends at {end}." if end is not None and end >= 0 else "does not exist yet."),
            observed=position,
            observed_in="log_status, binary_log_file and binary_log_position",
            expected=f"at most {format_log_file_name(binlog.base_name or '', number)}:{end}"
            if end is not None and end >= 0
            else f"at most {binlog.file_name}:{binlog.end}",
            expected_in="binary log",
            witness=position,
        )
        judgement.undecided(SNAPSHOT_POSITION_ON_GROUP_BOUNDARY, "the place is not in the file")
        return
    if end is None:
        reason = "the place is older than the events remembered"
        judgement.undecided(SNAPSHOT_POSITION_WITHIN_FILE, reason)
        judgement.undecided(SNAPSHOT_POSITION_ON_GROUP_BOUNDARY, reason)
        return
    judgement.holds(SNAPSHOT_POSITION_WITHIN_FILE)
    found = binlog.window.find_end(number, offset)
    window = binlog.window
    if found is None and (not window.covers(number, offset) or window.begins_at(number, offset)):
        judgement.undecided(
            SNAPSHOT_POSITION_ON_GROUP_BOUNDARY, "the place is older than the events remembered"
        )
        return
    mark = Mark(int(rows[found, MARK])) if found is not None else None
    if mark in (Mark.GROUP, Mark.HEADER, Mark.FILE):
        judgement.holds(SNAPSHOT_POSITION_ON_GROUP_BOUNDARY)
        return
    if mark is Mark.UNKNOWN:
        judgement.undecided(
            SNAPSHOT_POSITION_ON_GROUP_BOUNDARY, "the group around the place was not seen whole"
        )
        return
    before = boundary_before(row)
    judgement.broken(
        SNAPSHOT_POSITION_ON_GROUP_BOUNDARY,
        sentence=f"The row says {position}, which lies inside "
        + ("an event." if mark is None else "a group."),
        observed=position,
        observed_in="log_status, binary_log_file and binary_log_position",
        expected="the end of a group" if before is None else f"{before[0]}:{before[1]}",
        expected_in="last group end before it in the binary log",
        witness=position,
    )


def place_is_undecided(row: Row) -> bool:
    """Whether the journal cannot tell what ends at or before P."""
    judgement = row.judgement
    return judgement.is_undecided(SNAPSHOT_POSITION_WITHIN_FILE) or (
        judgement.is_undecided(SNAPSHOT_POSITION_ON_GROUP_BOUNDARY)
        and not judgement.is_broken(SNAPSHOT_POSITION_WITHIN_FILE)
    )


def boundary_before(row: Row) -> tuple[str, int] | None:
    """The last end of a group, header or file at or before P: file name and position."""
    position, binlog = row.state.position, row.binlog
    if position is None or position.base_name != binlog.base_name:
        return None
    rows = binlog.window.rows()
    ends = rows[_IS_BOUNDARY[rows[:, MARK]]]
    earlier = ends[
        (ends[:, FILE] < position.file_number)
        | ((ends[:, FILE] == position.file_number) & (ends[:, END] <= position.position))
    ]
    if not len(earlier):
        return None
    return format_log_file_name(position.base_name, int(earlier[-1, FILE])), int(earlier[-1, END])


def _judge_position_monotone(row: Row, position: LogCoordinates) -> None:
    history, judgement = row.baselines, row.judgement
    before = history.position
    if before is not None and before.base_name != position.base_name:
        before = None
    if note_fall(history.fallen, "position", position, before):
        judgement.broken(
            SNAPSHOT_POSITION_MONOTONE,
            sentence=f"The binary log coordinate fell from {before} to {position}.",
            observed=position,
            observed_in="log_status of this collection",
            expected=f"at least {before}",
            expected_in="last accepted log_status",
            witness=position,
        )
    else:
        judgement.holds(SNAPSHOT_POSITION_MONOTONE)
