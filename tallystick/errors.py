"""Exit codes, and the errors that only the command line raises.

AuditError                 coordinates.values.errors
└── MisuseError            a flag, a setting or a file that cannot be what was meant
"""

from __future__ import annotations

from enum import IntEnum

from tallystick.coordinates.results import Verdict
from tallystick.coordinates.values.errors import AuditError


class MisuseError(AuditError):
    """A flag, a setting or a file cannot be what was meant; the message says what is expected."""


class ExitCode(IntEnum):
    """What a command's end says to a script."""

    CONSISTENT = 0
    INCONSISTENT = 1
    MISUSE = 2
    """Misuse, and whatever else a user can fix: no Java, no broker, a full disk."""
    UNDECIDED = 3
    CRASHED = 70
    """An internal error: never to be read as a verdict."""
    FAILED = 75
    """A job that ran ended by itself, as when its broker goes away: another try may succeed."""
    INTERRUPTED = 130
    TERMINATED = 143

    @classmethod
    def of(cls, verdict: Verdict) -> ExitCode:
        """The exit code of a verdict."""
        return cls[verdict.name]
