"""Journals that are read one after the other: each goes on in later epochs than the one before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallystick.coordinates.events.journal import BlockBuilder
from tallystick.coordinates.events.later_epochs import in_later_epochs


@pytest.mark.parametrize(
    ("next_epoch", "expected"),
    [(0, [3, 2, 4]), (3, [3, 2, 4]), (4, [4, 3, 5])],
)
def test_a_journal_begins_in_a_later_epoch_than_another_ended(
    next_epoch: int, expected: list[int]
) -> None:
    """What falls within it is seen to fall; an instance of which nothing was read keeps its own."""
    empty = {name: BlockBuilder(name).build() for name in ("a", "b")}
    blocks = [replace(empty["a"], epoch=epoch) for epoch in (3, 2, 4)]
    blocks.insert(1, replace(empty["b"], epoch=1))
    begun = {"a": next_epoch, "b": 0}
    made = list(in_later_epochs(blocks, begun.__getitem__))
    assert [one.epoch for one in made if one.instance_id == "a"] == expected
    assert [one.epoch for one in made if one.instance_id == "b"] == [1]
