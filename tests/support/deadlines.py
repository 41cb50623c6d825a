"""A deadline for what does not end when it is wrong, such as a pattern that takes square time."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ends_within(seconds: float) -> Iterator[None]:
    """Fails once this process has worked so many seconds of processor time: choose far too many."""

    def fail(*_: object) -> None:
        raise AssertionError(f"not done after {seconds:g} seconds of processor time")

    before = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
