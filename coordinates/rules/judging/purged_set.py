"""Judging a row's gtid_purged, the oldest file, the list of files and mysql.gtid_executed."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tallystick.coordinates.rules.clone import GTID_TABLE_WITHIN_EXECUTED
from tallystick.coordinates.rules.history import (
    BINLOG_FILES_FORM_RANGE,
    PURGED_MONOTONE,
)
from tallystick.coordinates.rules.judging.row import UNREADABLE, note_fall
from tallystick.coordinates.rules.logged_groups import PREVIOUS_GTIDS_CONTINUITY
from tallystick.coordinates.rules.snapshot import (
    PURGED_MATCHES_OLDEST_FILE,
    PURGED_WITHIN_EXECUTED,
)
from tallystick.coordinates.values.binlog import format_log_file_name, parse_log_file_name
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.audit.row_evidence import Row

_FILES_SHOWN = 5


def judge_purged(row: Row) -> None:
    """Judge U against X, the row before and the oldest file."""
    state, history, judgement = row.state, row.baselines, row.judgement
    purged = state.purged
    rules = (PURGED_WITHIN_EXECUTED, PURGED_MATCHES_OLDEST_FILE, PURGED_MONOTONE)
    if purged is None:
        for rule in rules:
            judgement.undecided(rule, "gtid_purged was not read, or could not be read")
        return
    _judge_table_only(row, purged)
    if state.executed is None:
        judgement.undecided(PURGED_WITHIN_EXECUTED, UNREADABLE)
    elif purged <= state.executed:
        judgement.holds(PURGED_WITHIN_EXECUTED)
    else:
        excess = purged - state.executed
        judgement.broken(
            PURGED_WITHIN_EXECUTED,
            sentence=f"{excess.first(3)} is purged, but was never executed.",
            observed=purged,
            observed_in="@@gtid_purged",
            expected=f"within {state.executed}",
            expected_in="gtid_executed of log_status",
            witness=excess.first(10),
        )
    before, history.had_binlog = history.had_binlog, state.has_binlog
    if history.log_bin_changed or (before is not None and before != state.has_binlog):
        history.purged = None
        history.log_bin_changed = False
        history.log_bin_was_off = True
    if note_fall(history.fallen, "purged", purged, history.purged) and history.purged is not None:
        lost = history.purged - purged
        judgement.broken(
            PURGED_MONOTONE,
            at=str(lost.first(3)),
            sentence=f"{lost.first(3)} was purged at an earlier row and is not any more.",
            observed=purged,
            observed_in="@@gtid_purged of this collection",
            expected=history.purged,
            expected_in="@@gtid_purged of the last accepted row",
            witness=lost.first(10),
        )
    else:
        judgement.holds(PURGED_MONOTONE)
    _judge_oldest_file(row, purged)


def _judge_table_only(row: Row, purged: GtidSet) -> None:
    table_only = row.binlog.table_only
    row.binlog.table_only = GtidSet.EMPTY
    unexplained = table_only - purged
    if unexplained:
        row.judgement.broken(
            PREVIOUS_GTIDS_CONTINUITY,
            at=str(unexplained.first(3)),
            sentence=f"A Previous_gtids holds {unexplained.first(3)}, which no file before logged "
            "and which is not purged.",
            observed=table_only,
            observed_in="PREVIOUS_GTIDS without the groups of the files before",
            expected=f"within {purged}",
            expected_in="@@gtid_purged",
            witness=unexplained.first(10),
        )


def _lost_from_log(row: Row, purged: GtidSet) -> GtidSet:
    """Own GTIDs that count as purged, never were in the log, and have older ones in it.

    Files are purged from the oldest on. At a start the server counts as purged what InnoDB has
    committed and the log does not hold.
    """
    own, binlog = row.server.server_uuid, row.binlog
    if own is None or not binlog.logged_is_complete or row.baselines.log_bin_was_off:
        return GtidSet.EMPTY
    logged = binlog.logged.freeze()
    lost = (purged - logged - row.baselines.assigned).restrict(own)
    kept = (logged - purged).restrict(own)
    oldest = {sid: first for sid, first, _ in reversed(list(kept))}
    return GtidSet.from_bounds(
        {sid: [first, last + 1] for sid, first, last in lost if first > oldest.get(sid, last)}
    )


def _judge_oldest_file(row: Row, purged: GtidSet) -> None:
    state, binlog, judgement = row.state, row.binlog, row.judgement
    rule = PURGED_MATCHES_OLDEST_FILE
    if state.has_binlog is False:
        judgement.holds(rule)
        return
    lost = _lost_from_log(row, purged)
    if lost:
        judgement.broken(
            rule,
            at=str(lost.first(3)),
            sentence=f"{lost.first(3)} is executed and counts as purged, though older groups of"
            " this server are still in its binary log: the log has lost it, or was off.",
            observed=purged,
            observed_in="@@gtid_purged",
            expected=binlog.logged.freeze(),
            expected_in="binary log: files that are kept, and what was purged before them",
            witness=lost.first(10),
        )
        return
    if state.binary_logs_changed:
        judgement.undecided(rule, "the list of binary logs changed while it was read")
        return
    oldest = binlog.oldest_file
    if state.binary_logs:
        oldest = parse_log_file_name(state.binary_logs[0][0])[1]
    previous = None if oldest is None else binlog.previous.get(oldest)
    if previous is None or oldest is None:
        judgement.undecided(rule, "the PREVIOUS_GTIDS of the oldest file was not seen")
        return
    absent = previous - purged
    extra = purged - previous
    wrong = extra & binlog.grouped.freeze()
    if state.executed is not None:
        wrong = wrong | (extra - state.executed)
    before, row.baselines.oldest_file = row.baselines.oldest_file, oldest
    if not absent and not wrong:
        judgement.holds(rule)
        return
    if not state.binary_logs_confirmed and (state.binary_logs or oldest != before):
        judgement.undecided(
            rule, "a purge may lie between the readings: the list of binary logs was not read twice"
        )
        return
    name = format_log_file_name(binlog.base_name or "", oldest)
    judgement.broken(
        rule,
        sentence=f"The oldest file kept, {name}, begins after {absent.first(3)}, which is not "
        "purged."
        if absent
        else f"{wrong.first(3)} counts as purged, but is still in a file kept or never was "
        "executed.",
        observed=purged,
        observed_in="@@gtid_purged",
        expected=previous,
        expected_in=f"Previous_gtids of {name}",
        witness=(absent or wrong).first(10),
    )


def judge_file_list(row: Row) -> None:
    """Judge whether the binary logs listed beside the row form one range."""
    logs = row.state.binary_logs
    if logs is None:
        row.judgement.undecided(BINLOG_FILES_FORM_RANGE, "the list of binary logs was not read")
        return
    names = [parse_log_file_name(name) for name, _ in logs]
    for (base_before, before), (base_name, number) in pairwise(names):
        if (base_before, before + 1) == (base_name, number):
            continue
        absent = format_log_file_name(base_before, before + 1)
        row.judgement.broken(
            BINLOG_FILES_FORM_RANGE,
            at=absent,
            sentence=f"The list of binary logs goes from number {before} to {number}.",
            observed=f"{logs[0][0]} … {logs[-1][0]} without {absent}",
            observed_in="SHOW BINARY LOGS",
            expected=absent,
            expected_in="one range of numbers",
            witness=absent,
        )
        return
    # The server lists what its index names, and length 0 for what it cannot open; the last file
    # may be about to be made.
    gone = [name for name, size in logs[:-1] if size == 0]
    if gone and row.state.binary_logs_confirmed:
        row.judgement.broken(
            BINLOG_FILES_FORM_RANGE,
            at=gone[0],
            sentence=f"The server lists {gone[0]} among its binary logs, and the file is not there"
            " or cannot be opened.",
            observed=f"length 0 of {', '.join(gone[:_FILES_SHOWN])}",
            observed_in="SHOW BINARY LOGS",
            expected="a file with its header",
            expected_in="the directory of the binary logs",
            witness=gone[0],
        )
        return
    row.judgement.holds(BINLOG_FILES_FORM_RANGE)


def judge_gtid_table(row: Row) -> None:
    """Judge mysql.gtid_executed against X, O and what is prepared."""
    state, judgement = row.state, row.judgement
    if state.gtid_table is None or state.executed is None:
        judgement.undecided(GTID_TABLE_WITHIN_EXECUTED, "mysql.gtid_executed was not read")
        return
    excess = state.gtid_table - state.executed
    if excess and (state.owned is None or state.prepared_xa is None):
        judgement.undecided(
            GTID_TABLE_WITHIN_EXECUTED, "gtid_owned or the prepared XA transactions were not read"
        )
        return
    excess = excess - (state.owned or GtidSet.EMPTY) - (state.prepared_xa or GtidSet.EMPTY)
    # A group's row commits with it, before gtid_executed has it; owned is read when that is over.
    excess = excess - row.binlog.logged.freeze()
    if not excess:
        judgement.holds(GTID_TABLE_WITHIN_EXECUTED)
        return
    if state.executed_first is not None and excess <= state.executed_first:
        judgement.undecided(
            GTID_TABLE_WITHIN_EXECUTED, "gtid_executed began anew while the answer was read"
        )
        return
    judgement.broken(
        GTID_TABLE_WITHIN_EXECUTED,
        sentence=f"mysql.gtid_executed holds {excess.first(3)}, which is neither executed nor "
        "owned nor prepared.",
        observed=state.gtid_table,
        observed_in="mysql.gtid_executed",
        expected=state.executed,
        expected_in="gtid_executed, gtid_owned and prepared XA",
        witness=excess.first(10),
    )
