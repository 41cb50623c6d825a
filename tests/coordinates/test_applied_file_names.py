"""Which file of the source an applier names, by the ROTATE events of a relay log."""

from __future__ import annotations

import pytest

from tallystick.coordinates.logs.applied_file_names import REMEMBERED, AppliedFileNames
from tallystick.coordinates.values.binlog import LogCoordinates

WITHIN, BETWEEN, NOT_KNOWN = True, False, None
Rotate = tuple[bool | None, int | None, int]
"""Whether it comes within a group, and the numbers of the files before and after it."""


def after(*rotates: Rotate, is_first: bool = True) -> AppliedFileNames:
    """The names after ROTATE events, each at the end of the next relay log file's first event."""
    names = AppliedFileNames.from_the_start() if is_first else AppliedFileNames()
    for number, (is_within, former, to) in enumerate(rotates, 1):
        before = None if former is None else ("binlog", former)
        names.rotated((number, 100), before, ("binlog", to), is_within=is_within)
    return names


def shown(names: AppliedFileNames, file: int, number: int, position: int = 100) -> str | None:
    """Where the applier is, if it names a file at a place of the relay log; None: not known."""
    at = LogCoordinates("relay", file, position)
    if not names.is_known(at):
        return None
    return str(names.in_its_file(at, LogCoordinates("binlog", number, 7)))


@pytest.mark.parametrize(
    ("rotates", "expected"),
    [
        ([(BETWEEN, None, 3)], 24),
        ([(BETWEEN, None, 24), (WITHIN, 24, 3)], 3),
        ([(BETWEEN, None, 24), (WITHIN, 24, 3), (WITHIN, 3, 3)], 3),
        ([(BETWEEN, None, 24), (WITHIN, 24, 3), (WITHIN, 3, 5)], 5),
        ([(BETWEEN, None, 24), (WITHIN, 24, 3), (BETWEEN, 3, 5)], 24),
        ([(BETWEEN, None, 2), (WITHIN, 2, 3), (BETWEEN, 3, 24), (WITHIN, 24, 5)], 5),
        ([(BETWEEN, None, 2), (WITHIN, 2, 3), (BETWEEN, 3, 4), (BETWEEN, 4, 24)], 24),
        ([(BETWEEN, None, 24), (NOT_KNOWN, 24, 3)], None),
        ([(BETWEEN, None, 24), (NOT_KNOWN, 24, 24)], 24),
        ([(BETWEEN, None, 24), (NOT_KNOWN, 24, 3), (WITHIN, 3, 5)], None),
        ([(BETWEEN, None, 24), (NOT_KNOWN, 24, 3), (BETWEEN, 3, 5)], 24),
        ([(BETWEEN, None, 24), (WITHIN, 24, 3), (NOT_KNOWN, 3, 5)], None),
        ([(WITHIN, None, 3)], None),
    ],
)
def test_what_is_shown_beside_a_name(rotates: list[Rotate], expected: int | None) -> None:
    """A file that the applier shows is the one that it keeps, or it is what it says."""
    place = shown(after(*rotates), len(rotates), 24)
    assert place == (None if expected is None else f"binlog.{expected:06d}:7")


def test_a_name_is_kept_from_the_end_of_its_rotate_on() -> None:
    names = after((BETWEEN, None, 24), (WITHIN, 24, 3), (BETWEEN, 3, 5))
    places = [(1, 100), (2, 99), (2, 100), (3, 99), (3, 100)]
    numbers = [24, 24, 3, 3, 24]
    assert [shown(names, file, 24, position) for file, position in places] == [
        f"binlog.{number:06d}:7" for number in numbers
    ]


def test_where_the_beginning_was_not_seen_a_row_or_a_rotate_says_what_is_named() -> None:
    assert shown(after(is_first=False), 1, 24) is None
    assert shown(after((BETWEEN, None, 24), is_first=False), 1, 24) == "binlog.000024:7"
    names = after((NOT_KNOWN, None, 24), is_first=False)
    assert (names.is_known(), shown(names, 1, 24)) == (False, None)
    names.take_over(LogCoordinates("relay", 1, 100))
    assert (names.is_known(), shown(names, 1, 24)) == (True, "binlog.000024:7")
    assert shown(names, 1, 24, 99) is None


def test_as_many_are_remembered_and_what_is_before_them_is_not_known() -> None:
    times = REMEMBERED * 2
    turns: list[Rotate] = [(WITHIN, 24, 3), (BETWEEN, 3, 24)] * (times // 2)
    names = after((BETWEEN, None, 24), *turns)
    assert shown(names, times, 24) == "binlog.000003:7"
    first = next(file for file in range(1, times) if shown(names, file, 24) is not None)
    assert first == times - REMEMBERED + 3
