"""What is logged and not executed is found once, and is no finding while it may still come."""

from __future__ import annotations

import pytest

from tests.support.journals import UUID_A, Audited, Journal, audit
from tests.support.rule_cases import local, source


def _found(result: Audited) -> list[tuple[str, object]]:
    return [(one.rule, one.witness) for one in result.findings]


def _row(journal: Journal, executed: str) -> None:
    local(journal.row())["gtid_executed"] = executed and f"{UUID_A}:{executed}"


def test_a_hole_is_found_once() -> None:
    """Beside it the last group is on its way at the next rows."""
    journal = source(5)
    _row(journal, "1-3:5")
    journal.groups(2)
    for _ in range(3):
        _row(journal, "1-3:5-6")
    result = audit(journal)
    assert _found(result) == [("commit_lag_is_suffix", f"{UUID_A}:4")]


@pytest.mark.parametrize("executed", ["", "1-2"])
def test_what_only_follows_is_no_hole(executed: str) -> None:
    """Where nothing is executed yet as well."""
    journal = source()
    _row(journal, executed)
    result = audit(journal)
    assert result.broken == []
    assert "commit_lag_is_suffix" not in result.undecided()


def test_what_stayed_away_is_found_once() -> None:
    """Commits come in any order here, and a group that comes later has its own time to settle."""
    journal = source(5, binlog_order_commits=False)
    for executed in ("1-3:5", "1-3:5", "1-3:5-6", "1-3:5-7"):
        _row(journal, executed)
        journal.wait(5)
        journal.groups(1)
    assert _found(audit(journal)) == [("logged_eventually_executed", f"{UUID_A}:4")]


def test_what_came_in_time_is_not_found() -> None:
    """While another group is on its way."""
    journal = source(5, binlog_order_commits=False)
    _row(journal, "1-3:5")
    journal.wait(10)
    journal.groups(2)
    _row(journal, "1-5:7")
    assert _found(audit(journal)) == []
