"""Rules about the collection itself: was there an answer, and does the audit say what it shows?"""

from __future__ import annotations

from typing import Any

from tallystick.coordinates.results import Verdict
from tallystick.expectations.judgement import (
    HELD,
    CellType,
    Judgement,
    Outcome,
    Row,
    RowRule,
    broken,
    missing,
    undecided,
    undecided_reasons,
)
from tallystick.expectations.judges import binlog, gtid, redo, relay

_MIRRORING = tuple(
    rule
    for rule in (*gtid.RULES, *binlog.RULES, *relay.RULES, *redo.RULES)
    if rule.invariant is not None
)
_SHOWN_TEXT_MAX = 300


def _answered(row: Row) -> Judgement:
    if unknown := missing(row, "answer"):
        return unknown
    answer = row["answer"]
    if answer == "row":
        return HELD
    if answer == "empty":
        return broken("the collection brought neither a row nor an error", answer)
    if answer in ("refused", "failed", "missing"):
        code = "" if row["error_code"] is None else f" {row['error_code']}"
        text = f": {row['error_text'][:_SHOWN_TEXT_MAX]}" if row["error_text"] else ""
        return undecided(f"no row, {answer}{code}{text}")
    return broken(f"{answer[:_SHOWN_TEXT_MAX]!r} is no answer that a collection can have", answer)


def _verdict_known(row: Row) -> Judgement:
    if unknown := missing(row, "verdict"):
        return unknown
    if row["verdict"] in {verdict.value for verdict in Verdict}:
        return HELD
    return broken(f"{row['verdict'][:_SHOWN_TEXT_MAX]!r} is no verdict", row["verdict"])


def _consistent(row: Row) -> Judgement:
    if unknown := missing(row, "verdict", "broken"):
        return unknown
    if row["broken"] or row["verdict"] == Verdict.INCONSISTENT.value:
        names = row["broken"] or "an invariant that it does not name"
        return broken(f"the audit found broken: {names}", row["broken"] or row["verdict"])
    if row["verdict"] == Verdict.CONSISTENT.value:
        return HELD
    return undecided(f"the audit left undecided: {row['undecided'] or 'the whole row'}")


def _no_event_findings(row: Row) -> Judgement:
    if unknown := missing(row, "event_findings"):
        return unknown
    count = row["event_findings"]
    if count == 0:
        return HELD
    return broken(f"the journal since the cut before shows {count} broken invariants", count)


def _agrees(row: Row) -> Judgement:
    """Compare the audit's own columns with each other, then with what the two halves show."""
    if unknown := missing(row, "verdict", "broken", "undecided", "scope"):
        return unknown
    says_broken = {name.strip() for name in row["broken"].split(",") if name.strip()}
    says_undecided = undecided_reasons(row["undecided"])
    if says_broken and row["verdict"] != Verdict.INCONSISTENT.value:
        return broken(
            f"the audit names broken invariants and calls the row {row['verdict']}", row["broken"]
        )
    for rule in _MIRRORING:
        if rule.scope != row["scope"] or rule.invariant in says_undecided:
            continue
        shown = rule.judge(row)
        if shown.outcome is Outcome.BROKEN and rule.invariant not in says_broken:
            return broken(
                f"the halves break {rule.invariant}, the audit does not say so: {shown.sentence}",
                shown.witness,
            )
        if shown.outcome is Outcome.HELD and rule.invariant in says_broken:
            return broken(
                f"the audit says that {rule.invariant} is broken, the halves keep it",
                rule.invariant,
            )
    return HELD


def _agreement_roles() -> dict[str, CellType]:
    roles: dict[str, Any] = {"verdict": str, "broken": str, "undecided": str, "scope": str}
    for rule in _MIRRORING:
        roles.update(rule.roles)
    return roles


RULES = (
    RowRule(
        "answered",
        {"answer": str, "error_code": int, "error_text": str},
        _answered,
        None,
        "snapshot_never_silently_empty",
    ),
    RowRule("verdict_known", {"verdict": str}, _verdict_known),
    RowRule("audit_consistent", {"verdict": str, "broken": str, "undecided": str}, _consistent),
    RowRule("no_event_findings", {"event_findings": int}, _no_event_findings),
    RowRule("audit_agrees", _agreement_roles(), _agrees),
)
