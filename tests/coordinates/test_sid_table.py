"""UUIDs as numbers: a sid keeps its number, and columns of others' numbers become the table's."""

from __future__ import annotations

import numpy as np
import pytest

from tallystick.coordinates.logs.sid_table import SidTable

A, B, C = (f"{letter * 8}-0000-0000-0000-000000000001" for letter in "abc")


@pytest.mark.parametrize(
    ("known", "names", "expected"),
    [
        ([], [A, B], [1, 0, -1, 1]),
        ([A, B], [A, B], [1, 0, -1, 1]),
        ([A, B], [B, A], [0, 1, -1, 0]),
        ([A, B], [A, C], [2, 0, -1, 2]),
        ([C], [A, B], [2, 1, -1, 2]),
    ],
)
def test_a_column_gets_the_numbers_of_the_table(
    known: list[str], names: list[str], expected: list[int]
) -> None:
    """Those that it has stay, new ones come after them; -1 is an anonymous group everywhere."""
    table = SidTable(sids=[*known])
    column = table.sid_column(names, np.array([1, 0, -1, 1], dtype=np.int16))
    assert (column.tolist(), column.dtype) == (expected, np.int32)
    assert table.sids[: len(known)] == known
    assert [table.sids[number] for number in column.tolist() if number >= 0] == [
        names[1], names[0], names[1]
    ]  # fmt: skip
    assert len(set(table.sids)) == len(table.sids)
