"""How a server is followed, and the clock that all tails of a process share."""

from __future__ import annotations

import time
from dataclasses import dataclass
from uuid import uuid4


@dataclass(frozen=True, slots=True, kw_only=True)
class TailOptions:
    """How a server is followed.

    Attributes:
        from_oldest: A new journal begins with the oldest binary log file; else with the present
            one, from its beginning.
        first_file: The binary log file that a new journal begins with, while there is such a one.
        deadline_s: A collection that is not answered by then, or whose row has not found its
            position in the log, is given up.
        probe_interval_s: How often the end of the log is asked for.
        heartbeat_s: How long the server may be silent on the stream.
        hold_s: How long events wait for a row that is being read.
        save_interval_s: How often the state is saved.
        back_off_max_s: The longest wait between two tries to connect.
    """

    from_oldest: bool = False
    first_file: str = ""
    deadline_s: float = 15.0
    probe_interval_s: float = 0.5
    heartbeat_s: float = 1.0
    hold_s: float = 5.0
    save_interval_s: float = 1.0
    back_off_max_s: float = 15.0


CLOCK = str(uuid4())
"""The name of this process's clock: journals that have it can be compared by their times."""
_started_us, _started_ns = time.time_ns() // 1_000, time.monotonic_ns()


def steady_clock_us() -> int:
    """Microseconds since 1970, by a clock that is set once and never falls in this process."""
    return _started_us + (time.monotonic_ns() - _started_ns) // 1_000
