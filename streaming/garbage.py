"""When a Python worker looks for garbage: what it holds between tasks is none."""

from __future__ import annotations

import gc

FEW, MANY = 8, 128
"""Tasks."""


class GarbageOfTasks:
    """``gc`` for Spark's loop, which collects after every task.

    The audits that a worker holds are no garbage, and to walk thousands of them takes seconds. So
    what a few tasks leave behind is walked once, and all of it after many. Otherwise nothing is
    looked for: nearly all that a step makes is gone without, or is still needed.
    """

    def __init__(self) -> None:
        self._tasks = 0

    def collect(self) -> None:
        """A task has ended."""
        self._tasks += 1
        if self._tasks % MANY == 0:
            gc.unfreeze()
        if self._tasks % FEW == 0:
            gc.collect()
            gc.freeze()
