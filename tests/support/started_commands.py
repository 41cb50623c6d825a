"""Commands as users start them: processes with a broker and topics of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEADLINE_S = 480
POLL_S = 0.5
"""A condition may read whole tables, and what is waited for needs the processor itself."""


class Commands:
    """Starts commands with a broker and topics of their own; what still runs is killed.

    Args:
        directory: Where they run.
        bootstrap_servers: The broker.
        settings: More settings of all of them, as their environment has them.
    """

    def __init__(self, directory: Path, bootstrap_servers: str, **settings: str) -> None:
        self.directory = directory
        self._processes: list[subprocess.Popen[str]] = []
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TALLYSTICK_")}
        self._environment = kept | {
            "PYTHONPATH": str(ROOT),
            "TALLYSTICK_BOOTSTRAP_SERVERS": bootstrap_servers,
            "TALLYSTICK_TOPIC_PREFIX": f"t{uuid.uuid4().hex[:8]}",
        }
        self.set(**settings)

    def set(self, **settings: str) -> None:
        """More settings of those that are started from now on."""
        self._environment |= {f"TALLYSTICK_{name.upper()}": v for name, v in settings.items()}

    @property
    def prefix(self) -> str:
        return self._environment["TALLYSTICK_TOPIC_PREFIX"]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command of tallystick."""
        return self.run(sys.executable, "-m", "tallystick.cli", *arguments)

    def run(self, *command: str) -> subprocess.Popen[str]:
        """Start any program; what it writes to standard error is in a file."""
        process = subprocess.Popen(
            command,
            cwd=self.directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=(self.directory / f"errors.{len(self._processes)}").open("w"),
            text=True,
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def kill_all(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what}: {value!r} after {DEADLINE_S} s"
        time.sleep(POLL_S)
