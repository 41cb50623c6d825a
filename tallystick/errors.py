"""Exit codes, and the errors that only the command line raises.

AuditError                 coordinates.values.errors
└── MisuseError            a flag, a setting or a file that cannot be what was meant
"""

from __future__ import annotations

from enum import IntEnum

from tallystick.coordinates.results import Verdict
from tallystick.coordinates.values.errors import AuditError


class MisuseError(AuditError):
    """A flag, a setting or a file cannot be what was meant; the message has what is expected."""


class ExitCode(IntEnum):
    """What a command's end means to a script."""

    CONSISTENT = 0
    INCONSISTENT = 1
    MISUSE = 2
    """A usage or environment error: an unknown flag, no Java, no broker, a full disk."""
    UNDECIDED = 3
    CRASHED = 70
    """An internal error of tallystick: never to be read as a verdict."""
    FAILED = 75
    """A job that ran ended by itself, as when its broker goes away: another try may succeed."""
    SUPERSEDED = 76
    """Another producer writes this one's journals now: to start it again would end that one."""
    INTERRUPTED = 130
    CLOSED_PIPE = 141
    """Nobody reads standard output any more (``| head``): as cat or grep end in a shell."""
    TERMINATED = 143

    @classmethod
    def of(cls, verdict: Verdict) -> ExitCode:
        """The exit code of a verdict."""
        return cls[verdict.name]
