"""Journals written by hand after docs/journal.md, as a stranger would write them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tallystick.coordinates.results import Verdict
from tests.support.journals import Record, audit

VECTORS = Path(__file__).with_name("vectors")
PAGE = Path(__file__).parents[2] / "docs" / "journal.md"
EXPECTED = {
    "crash_and_restart": ([], ["CONSISTENT", "CONSISTENT"]),
    "torn_backup": (["snapshot_position_on_group_boundary"], ["INCONSISTENT"]),
}


def timed(lines: list[str]) -> list[Record]:
    """Records as they are read: without a time, one more than the line before."""
    return [{"ts": number} | json.loads(line) for number, line in enumerate(lines, 1)]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_journal_by_hand_is_judged_as_its_writer_meant(name: str):
    """Fields that servers do not show are left out, and the answer is the same."""
    lines = (VECTORS / f"{name}.jsonl").read_text("utf-8").splitlines()
    result = audit(timed(lines))
    assert EXPECTED[name] == (result.broken, result.verdicts)


def test_every_vector_is_expected():
    """A file that nobody reads proves nothing."""
    assert EXPECTED.keys() == {path.stem for path in VECTORS.glob("*.jsonl")}


ALTERED = {
    "as it stands": ("", "", []),
    "position inside the group": (
        '"binary_log_position":457',
        '"binary_log_position":426',
        ["executed_within_logged", "snapshot_position_on_group_boundary"],
    ),
    "a GTID too many": (
        '000000000001:1","binary_log_file"',
        '000000000001:1-2","binary_log_file"',
        ["executed_within_logged"],
    ),
}


@pytest.mark.parametrize("name", ALTERED)
def test_the_page_says_what_the_audit_says_of_its_example(name: str):
    """docs/journal.md promises three answers; these are they."""
    match = re.search(r"```json\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert match is not None
    old, new, broken = ALTERED[name]
    assert old in match[1]
    result = audit(timed(match[1].replace(old, new, 1).splitlines()))
    assert broken == result.broken
    assert [Verdict.INCONSISTENT if broken else Verdict.CONSISTENT] == result.verdicts
