"""Notices that acknowledgements have stopped, and that they come again.

The client sends a message again for as long as it takes, without a word. Here is who reports it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import final

OUTAGE_S = 5.0
"""An outage begins when so long nothing was acknowledged although something waits for it."""
CHECK_S = 0.5
_CHECKS = round(OUTAGE_S / CHECK_S)


@final
class OutageWatch:
    """Watches a sink from a thread of its own, which ends with the process.

    Time is counted in checks: a process that was stopped for a while has not seen an outage.

    Args:
        bootstrap_servers: Whose acknowledgements are awaited.
        report: Called with a sentence when an outage begins, and with None when it is over.
        is_waiting: Whether something that was sent is not acknowledged; takes in what was.

    Attributes:
        is_away: Whether there is an outage.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        report: Callable[[str | None], None],
        is_waiting: Callable[[], bool],
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._report = report
        self._is_waiting = is_waiting
        self._lock = threading.Lock()
        self._checks = 0
        self.is_away = False
        self._is_closed = threading.Event()

    def start(self) -> None:
        """Begin to watch."""
        threading.Thread(target=self._run, name="outages", daemon=True).start()

    def close(self) -> None:
        """Watch no more."""
        self._is_closed.set()

    def delivered(self) -> None:
        """Something was acknowledged."""
        with self._lock:
            self._checks = 0
            if self.is_away:
                self.is_away = False
                self._report(None)

    def check(self) -> None:
        """Count how long nothing was acknowledged."""
        is_waiting = self._is_waiting()
        with self._lock:
            self._checks = self._checks + 1 if is_waiting else 0
            if self._checks > _CHECKS and not self.is_away:
                self.is_away = True
                self._report(
                    f"{self._bootstrap_servers} has acknowledged nothing for {OUTAGE_S:.0f} s:"
                    " what is to be written waits"
                )

    def _run(self) -> None:
        while not self._is_closed.wait(CHECK_S):
            self.check()
