"""Processes by pid, without mistaking one for another.

A pid is reused by the system: a process is named here by its pid, the boot it lives in and the
tick it was started at, as Linux's /proc shows them.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

POLL_S = 0.05

# Runs before java, in java's process: asks the kernel to kill it when the thread that started it
# ends, and gives up if that has happened already. A function run between fork and exec
# (preexec_fn) could deadlock in a process that has threads, as one with a Kafka client has.
_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True, slots=True)
class ProcessName:
    """A process that cannot be mistaken for a later one of the same pid.

    Attributes:
        pid: the process id.
        boot_id: the boot of the system it lives in.
        started_ticks: when it was started, in clock ticks since that boot.
    """

    pid: int
    boot_id: str
    started_ticks: int

    @classmethod
    def of(cls, pid: int) -> ProcessName | None:
        """Names a running process; None when there is none of that pid, or only its zombie."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
            boot_id = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        except OSError:
            return None
        # The command's name is in brackets and may hold anything, brackets included.
        fields = stat.rpartition(")")[2].split()
        if fields[0] in {"Z", "X"}:
            return None
        return cls(pid, boot_id, int(fields[19]))

    def is_running(self) -> bool:
        """Reports whether this very process is still there."""
        return ProcessName.of(self.pid) == self

    def send(self, number: signal.Signals) -> None:
        """Signals this process; does nothing when it has ended."""
        if self.is_running():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return


def dying_with_parent(command: Sequence[str], python: str) -> list[str]:
    """Wraps a command so that the kernel kills it when the thread that starts it ends.

    Args:
        command: the program, by its path, and its arguments.
        python: the interpreter that arranges it and then becomes the command.
    """
    return [python, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]


def wait_until(condition: Callable[[], bool], deadline_s: float) -> bool:
    """Waits for a condition; returns False when it does not hold within the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(POLL_S)
    return True
