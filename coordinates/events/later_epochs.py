"""Journals from several sources, one after the other: each begins in an epoch of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from tallystick.coordinates.events.journal import Block


def in_later_epochs(blocks: Iterable[Block], next_epoch: Callable[[str], int]) -> Iterator[Block]:
    """The blocks, each instance's in epochs from ``next_epoch`` on, or its own if they are higher.

    Epochs of one instance keep their distances, so one that falls is seen to have fallen.

    Args:
        blocks: Of any number of instances, each instance's in order.
        next_epoch: The lowest epoch that an instance's first block may have.
    """
    shifts: dict[str, int] = {}
    for block in blocks:
        name = block.instance_id
        if name not in shifts:
            shifts[name] = max(0, next_epoch(name) - block.epoch)
        yield replace(block, epoch=block.epoch + shifts[name])
