"""Threads without a ticket, where it is not known which tables they change or which are copied."""

from __future__ import annotations

import pytest

from tests.support.journals import Journal, Record, audit

_CLOSE: Record = {"step": "close", "tables": ["shop.a"]}
_WRITE: Record = {"step": "write_binlog", "thread": 5, "tables": ["scratch.a"]}
_UNLOCK: Record = {"step": "unlock_tables", "thread": 5, "tables": ["scratch.a"]}
_POINT: Record = {"step": "validity_point"}
_RULE = "critical_sequence_in_zone"


def _nameless(step: Record) -> Record:
    return {name: value for name, value in step.items() if name != "tables"}


@pytest.mark.parametrize("disabled", [False, True])
@pytest.mark.parametrize("is_named", [(True, True), (False, True), (True, False)])
@pytest.mark.parametrize(
    ("order", "is_in_doubt"),
    [
        ("cwup", True),  # logged while the zone is closed
        ("wcpu", True),  # still at it at the validity point
        ("wucp", False),  # done before
        ("cpowu", False),  # begun after the zone was opened
    ],
)
def test_a_thread_of_unknown_tables(
    order: str, is_in_doubt: bool, is_named: tuple[bool, bool], disabled: bool
) -> None:
    """It may change what is copied, and is accused of nothing."""
    close, write = (
        step if known else _nameless(step)
        for step, known in zip((_CLOSE, _WRITE), is_named, strict=True)
    )
    steps = {"c": close, "w": write, "u": _UNLOCK, "p": _POINT, "o": {"step": "open"}}
    journal = Journal().begin()
    for name in order:
        journal.record("zone", **steps[name])
    if "o" not in order:
        journal.record("zone", step="open")
    journal.row()
    result = audit(journal, disabled={_RULE} if disabled else set())
    assert result.broken == []
    noted = [one for one in result.observations if one.reason == "zone_tables_unknown"]
    assert len(noted) == (is_in_doubt and not all(is_named) and not disabled)
    assert all(one.is_undecided and one.rules == (_RULE,) for one in noted)


@pytest.mark.parametrize("tables", [["shop.a"], ["scratch.a"], ["shop.a", "scratch.a"]])
def test_a_thread_outside_is_judged_at_each_validity_point_until_it_is_found(
    tables: list[str],
) -> None:
    """The second closing is for other tables; what was found at the first point is not again."""
    journal = Journal().begin()
    journal.record("zone", **_WRITE | {"tables": tables})
    for closed in ("shop.a", "scratch.a"):
        journal.record("zone", step="close", tables=[closed])
        journal.record("zone", **_POINT)
        journal.record("zone", step="open")
    findings = audit(journal).findings
    assert [one.case for one in findings] == ["outside_at_validity_point"]
