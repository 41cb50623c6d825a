"""How each row of a table is judged: by the rules of the registry, and by what is no rule.

A rule on a row is judged by its predicate, on evidence made of the row's columns. Where the row
also has checks (the column ``checks``, JSON), the audit's answer counts: it knows more than the
row. Knows neither Great Expectations nor Spark: Spark's workers import this module.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from tallystick.coordinates.audit.cut import cut_columns
from tallystick.coordinates.results import Check, Verdict
from tallystick.coordinates.results import Outcome as CheckOutcome
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.columns import forget_texts
from tallystick.coordinates.rules.explanation import check_text, fill
from tallystick.coordinates.rules.outcomes import Broken, Holds, NotApplicable
from tallystick.coordinates.rules.registry import Rule
from tallystick.expectations.judgement import (
    HELD,
    CellType,
    Judgement,
    Outcome,
    UnreadableCellError,
    broken,
    not_applicable,
    read_cell,
    undecided,
)

__all__ = ["JUDGES", "Judge", "checks_of", "forget", "is_row_rule", "judge_row"]

Row = Mapping[str, Any]
"""Column of the cut table to value; None where the table has NULL."""

_SCOPES = ("instance", "channel")


class Judge(NamedTuple):
    """What judges a row.

    Attributes:
        columns: What it reads, by the names of the cut table, with their types.
        scopes: Which rows it is about.
        judge: Judges by those columns; None: only the checks decide.
        rule: The rule that the checks are asked for; None: it is no rule.
    """

    columns: Mapping[str, CellType]
    scopes: Sequence[str]
    judge: Callable[[Row], Judgement] | None
    rule: Rule | None = None


def is_row_rule(rule: Rule) -> bool:
    """Whether a row of the cut table by itself decides on a rule."""
    return rule.evidence is not None and bool(rule.columns)


def judge_row(
    name: str, scope: Any, checks: Any, cells: Sequence[Any], *, has_checks: bool
) -> Judgement:
    """Judge one row.

    Args:
        name: Key of ``JUDGES``.
        scope: The row's scope, None: the table does not mix instances and channels.
        checks: The row's checks, as text or as a list.
        cells: The values of the judge's columns, as the engine has them.
        has_checks: Whether the table has checks at all.
    """
    judge = JUDGES[name]
    try:
        check = checks_of(checks).get(name) if has_checks and judge.rule is not None else None
        shown = _judged_by_columns(judge, scope, cells)
    except UnreadableCellError as error:
        return undecided(str(error))
    if check is None:
        if has_checks and judge.rule is not None and shown.outcome is Outcome.BROKEN:
            return undecided(f"the audit does not judge it; the row shows: {shown.sentence}")
        return shown
    text = check_text(check)
    if check.outcome is CheckOutcome.BROKEN:
        return broken(text, check.data.get("witness", shown.witness))
    if check.outcome is CheckOutcome.UNDECIDED:
        return undecided(text)
    if shown.outcome is Outcome.BROKEN:
        return undecided(f"the audit calls it kept; the row alone shows: {shown.sentence}")
    return HELD


def checks_of(cell: Any) -> Mapping[str, Check]:
    """The checks in a cell, by rule: JSON text or a list of objects, as in the tables of a run.

    Raises:
        UnreadableCellError: It is neither.
    """
    if not isinstance(cell, str):
        if cell is None or not hasattr(cell, "__len__"):
            return {}
        cell = json.dumps([dict(check) for check in cell])
    return _parsed(cell)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Mapping[str, Check]:
    try:
        checks = map(_check, json.loads(text))
        return {check.rule: check for check in checks}
    except (ValueError, TypeError, KeyError) as error:
        raise UnreadableCellError(f"checks: {error!r}") from None


def _check(values: dict[str, Any]) -> Check:
    data = values.get("data") or {}
    return Check(
        values["rule"],
        CheckOutcome(values["outcome"]),
        values.get("reason") or "",
        json.loads(data) if isinstance(data, str) else data,
    )


def forget() -> None:
    """Release what was read of the last table: one text is read for many rules."""
    forget_texts()
    _parsed.cache_clear()


def _judged_by_columns(judge: Judge, scope: Any, cells: Sequence[Any]) -> Judgement:
    if judge.judge is None:
        return not_applicable("the row has no check of the rule")
    row_scope = read_cell(scope, str)
    if row_scope is not None and row_scope not in judge.scopes:
        return not_applicable("the rule is about other rows")
    row: dict[str, Any] = {}
    for (column, kind), cell in zip(judge.columns.items(), cells, strict=True):
        try:
            row[column] = read_cell(cell, kind)
        except UnreadableCellError as error:
            raise UnreadableCellError(f"{column}: {error}") from None
    return judge.judge(row)


def _of_rule(rule: Rule) -> Judge:
    if not is_row_rule(rule):
        return Judge({}, _SCOPES, None, rule)
    evidence: Any = rule.evidence
    predicate: Any = rule.judge

    def judge(row: Row) -> Judgement:
        answer = predicate(evidence.from_columns(row))
        if isinstance(answer, Holds):
            return HELD
        if isinstance(answer, NotApplicable):
            return not_applicable("the row is none that the rule is about")
        if isinstance(answer, Broken):
            values = {"witness": answer.witness, **answer.data}
            check = Check(rule.name, CheckOutcome.BROKEN, answer.case, values)
            return broken(check_text(check), answer.witness)
        return undecided(fill(answer.reason.text, answer.data))

    known = cut_columns()
    scopes = _SCOPES if evidence.scope is None else (evidence.scope,)
    columns: dict[str, Any] = {name: known[name] for name in rule.columns}
    return Judge(columns, scopes, judge, rule)


def _answered(row: Row) -> Judgement:
    answer = row["answer"]
    if answer is None:
        return undecided("answer is not known")
    if answer == "row":
        return HELD
    if answer in ("refused", "failed", "missing"):
        code = "" if row["error_code"] is None else f" {row['error_code']}"
        text = f": {row['error_text'][:300]}" if row["error_text"] else ""
        return undecided(f"no row, {answer}{code}{text}")
    return broken(f"the collection brought neither a row nor an error: {answer[:300]!r}", answer)


def _verdict_known(row: Row) -> Judgement:
    verdict = row["verdict"]
    if verdict is None:
        return undecided("verdict is not known")
    if verdict in {one.value for one in Verdict}:
        return HELD
    return broken(f"{verdict[:300]!r} is no verdict", verdict)


_types: dict[str, Any] = cut_columns()

JUDGES: Mapping[str, Judge] = {
    **{name: _of_rule(rule) for name, rule in RULES.items()},
    "answered": Judge(
        {name: _types[name] for name in ("answer", "error_code", "error_text")},
        ("instance",),
        _answered,
    ),
    "verdict_known": Judge({"verdict": _types["verdict"]}, _SCOPES, _verdict_known),
}
"""Every rule by its name, and what is no rule."""
