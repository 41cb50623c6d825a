"""Rules about GTID sets: their text, and how the sets of one row relate to each other."""

from __future__ import annotations

from collections.abc import Callable

from tallystick.coordinates.values.gtid import GtidSet, is_canonical_server_text
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
    gtid_set,
    no_evidence,
    owned_set,
    witness,
)

_SHOWN_TEXT_MAX = 120


def _wellformed(row: Row) -> Judgement:
    return missing(row, "gtid_set") or _readable(row, gtid_set)


def _owned_wellformed(row: Row) -> Judgement:
    return missing(row, "gtid_owned") or _readable(row, owned_set)


def _readable(row: Row, read: Callable[[Row, str], GtidSet]) -> Judgement:
    (role,) = row
    try:
        read(row, role)
    except NoEvidenceError as error:
        return broken(f"{error}", row[role][:_SHOWN_TEXT_MAX])
    return HELD


def _canonical(row: Row) -> Judgement:
    if unknown := missing(row, "gtid_set"):
        return unknown
    try:
        parsed = gtid_set(row, "gtid_set")
    except NoEvidenceError as error:
        return no_evidence(error)
    if is_canonical_server_text(row["gtid_set"]):
        return HELD
    return broken(
        f"the text is not what a server prints for this set, which is {_cut(str(parsed))!r}",
        _cut(row["gtid_set"]),
    )


def _executed_logged(row: Row) -> Judgement:
    if unknown := missing(row, "gtid_executed"):
        return unknown
    try:
        executed = gtid_set(row, "gtid_executed")
        purged = None if row["gtid_purged"] is None else gtid_set(row, "gtid_purged")
        if row["journal_gtid_set"] is None:
            return _executed_without_log(row, executed, purged)
        rest = executed - gtid_set(row, "journal_gtid_set")
    except NoEvidenceError as error:
        return no_evidence(error)
    if not rest:
        return HELD
    if purged is None:
        return undecided(
            f"{rest.count()} executed GTIDs are not in the log, and gtid_purged is not known"
        )
    rest -= purged
    if not rest:
        return HELD
    return broken(
        f"gtid_executed holds {rest.count()} GTIDs that the binary log up to the row's position"
        " does not hold, nor gtid_purged",
        witness(rest),
    )


def _executed_without_log(row: Row, executed: GtidSet, purged: GtidSet | None) -> Judgement:
    if purged is not None and executed <= purged:
        return HELD
    if row["binary_log_file"] is None:
        return not_applicable("the server writes no binary log")
    return undecided("journal_gtid_set is not known")


def _purged_executed(row: Row) -> Judgement:
    if unknown := missing(row, "gtid_executed", "gtid_purged"):
        return unknown
    try:
        rest = gtid_set(row, "gtid_purged") - gtid_set(row, "gtid_executed")
    except NoEvidenceError as error:
        return no_evidence(error)
    if not rest:
        return HELD
    return broken(
        f"gtid_purged holds {rest.count()} GTIDs that gtid_executed does not hold", witness(rest)
    )


def _owned_disjoint(row: Row) -> Judgement:
    if unknown := missing(row, "gtid_executed", "gtid_owned"):
        return unknown
    try:
        both = owned_set(row, "gtid_owned") & gtid_set(row, "gtid_executed")
    except NoEvidenceError as error:
        return no_evidence(error)
    if not both:
        return HELD
    return broken(f"{both.count()} GTIDs are owned and executed at once", witness(both))


def _retrieved_received(row: Row) -> Judgement:
    if unknown := missing(row, "retrieved_gtid_set", "journal_retrieved_gtid_set"):
        return unknown
    try:
        told = gtid_set(row, "retrieved_gtid_set")
        shown = gtid_set(row, "journal_retrieved_gtid_set")
    except NoEvidenceError as error:
        return no_evidence(error)
    # What came in between the reading of the channel's status and the row is missing from the
    # status of a healthy server; so one cut can show what is too much, not what is too little.
    more = told - shown
    if not more:
        return HELD
    return broken(
        f"retrieved_gtid_set holds {more.count()} GTIDs that no retained relay log holds",
        witness(more),
    )


def _lag_bounded(row: Row) -> Judgement:
    if row["binary_log_file"] is None and row["journal_gtid_set"] is None:
        if row["gtid_executed"] is None:
            return undecided("gtid_executed is not known")
        return not_applicable("the server writes no binary log")
    if unknown := missing(row, "gtid_executed", "journal_gtid_set", "commit_lag_max"):
        return unknown
    try:
        behind = gtid_set(row, "journal_gtid_set") - gtid_set(row, "gtid_executed")
    except NoEvidenceError as error:
        return no_evidence(error)
    lag, lag_max = behind.count(), row["commit_lag_max"]
    if lag <= lag_max:
        return HELD
    return broken(
        f"{lag} logged GTIDs are not executed yet; {lag_max} can be in flight", witness(behind)
    )


def _executed_kept(row: Row) -> Judgement:
    return _kept(row, "gtid_executed")


def _purged_kept(row: Row) -> Judgement:
    return _kept(row, "gtid_purged")


def _kept(row: Row, role: str) -> Judgement:
    if row[f"previous_{role}"] is None:
        return not_applicable("there is no earlier row of this history")
    if unknown := missing(row, role):
        return unknown
    try:
        lost = gtid_set(row, f"previous_{role}") - gtid_set(row, role)
    except NoEvidenceError as error:
        return no_evidence(error)
    if not lost:
        return HELD
    return broken(f"{role} has lost {lost.count()} GTIDs since the row before", witness(lost))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_TEXT_MAX else text[:_SHOWN_TEXT_MAX] + "…"


RULES = (
    RowRule("gtid_set_wellformed", {"gtid_set": str}, _wellformed),
    RowRule("gtid_owned_wellformed", {"gtid_owned": str}, _owned_wellformed),
    RowRule("gtid_set_canonical", {"gtid_set": str}, _canonical),
    RowRule(
        "executed_logged",
        {
            "gtid_executed": str,
            "journal_gtid_set": str,
            "gtid_purged": str,
            "binary_log_file": str,
        },
        _executed_logged,
        "instance",
        "executed_within_logged",
    ),
    RowRule(
        "purged_executed",
        {"gtid_executed": str, "gtid_purged": str},
        _purged_executed,
        "instance",
        "purged_within_executed",
    ),
    RowRule(
        "owned_disjoint",
        {"gtid_executed": str, "gtid_owned": str},
        _owned_disjoint,
        "instance",
        "owned_disjoint_from_executed",
    ),
    RowRule(
        "retrieved_received",
        {"retrieved_gtid_set": str, "journal_retrieved_gtid_set": str},
        _retrieved_received,
        "channel",
        "retrieved_matches_relay",
    ),
    RowRule(
        "lag_bounded",
        {
            "gtid_executed": str,
            "journal_gtid_set": str,
            "commit_lag_max": int,
            "binary_log_file": str,
        },
        _lag_bounded,
        "instance",
        "commit_lag_bounded",
    ),
    RowRule(
        "executed_kept",
        {"gtid_executed": str, "previous_gtid_executed": str},
        _executed_kept,
        "instance",
        "executed_monotone",
    ),
    RowRule(
        "purged_kept",
        {"gtid_purged": str, "previous_gtid_purged": str},
        _purged_kept,
        "instance",
        "purged_monotone",
    ),
)
