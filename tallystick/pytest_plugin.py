"""The pytest fixture ``tallystick_audit``, for those who test their replication code.

pytest loads this module wherever tallystick is installed, so the audit is imported when it is used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tallystick.coordinates.audit.replay import AuditResult
    from tallystick.coordinates.results import Finding, Verdict

Records = Iterable[Mapping[str, Any] | str] | Path


@dataclass(frozen=True, slots=True)
class Audited:
    """The result of the audit of a test's records.

    Attributes:
        result: All of it.
    """

    result: AuditResult

    @property
    def verdict(self) -> Verdict:
        """CONSISTENT, INCONSISTENT, or UNDECIDED for want of evidence."""
        return self.result.verdict

    @property
    def findings(self) -> list[Finding]:
        """The contradictions, each once, in journal order."""
        return self.result.findings

    def assert_consistent(self) -> None:
        """Fail the test unless the verdict is CONSISTENT.

        Raises:
            AssertionError: It is not; the message is what ``tallystick replay`` prints.
        """
        __tracebackhide__ = True
        from tallystick.coordinates.results import Verdict

        if self.verdict is not Verdict.CONSISTENT:
            raise AssertionError("\n".join(_summary(self.result)))


def _summary(result: AuditResult) -> Iterator[str]:
    from tallystick.outputs.text import lines
    from tallystick.runs.replay import result_of_audit

    now = datetime.now(timezone.utc)
    shown = result_of_audit(result, command="replay", title="records of a test", begun_at=now)
    for line in lines(shown):
        yield line if isinstance(line, str) else line[0]


def _lines(records: Records) -> Iterator[str]:
    if isinstance(records, str):  # which would be read letter by letter
        raise TypeError("expected records, lines or a Path, got a str")
    if isinstance(records, Path):
        with records.open(encoding="utf-8") as lines:
            yield from lines
        return
    for record in records:
        yield record if isinstance(record, str) else json.dumps(record)


def _audit(records: Records, *, disabled: Collection[str] = ()) -> Audited:
    from tallystick.coordinates.audit.replay import audit_history
    from tallystick.coordinates.events.json_lines import blocks_from_lines

    blocks = blocks_from_lines(_lines(records), end_heartbeats=True)
    return Audited(audit_history(blocks, disabled=frozenset(disabled)))


@pytest.fixture
def tallystick_audit() -> Callable[..., Audited]:
    """Audit records: dicts or lines of docs/journal.md, or a file of such lines.

    ``tallystick_audit(records, disabled=["rule"])`` returns an ``Audited``. A record that cannot be
    read raises a JournalError with its line number.
    """
    return _audit
