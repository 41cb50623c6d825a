"""The errors of the domain: what cannot be read. Findings are data and are never raised.

The tree:

    AuditError
    ├── GtidSetParseError (ValueError)   text or bytes that are no GTID, no GTID set
    ├── CoordinateError (ValueError)     coordinates, GNOs or LSNs out of range or not comparable
    ├── JournalError (ValueError)        a journal event that cannot be read
    │   └── BlockError                   a block of events that cannot be decoded
    ├── StateError                       saved state of an audit that cannot be read
    │   ├── StateVersionError            another schema: another version of tallystick has saved it
    │   └── StateDamagedError            cut short, or changed since
    └── MissingExtraError                a package of an optional extra is not installed

Errors of configuration, collection and delivery live beside what raises them.
"""

from __future__ import annotations


class AuditError(Exception):
    """Base of every error that tallystick raises on purpose."""


class GtidSetParseError(AuditError, ValueError):
    """A text or byte string is not a GTID or GTID set in the server's grammar."""


class CoordinateError(AuditError, ValueError):
    """A file name, position, GNO or LSN is out of range, or two of them are not comparable."""


class JournalError(AuditError, ValueError):
    """A journal event cannot be read."""


class BlockError(JournalError):
    """A block of journal events cannot be decoded."""


class StateError(AuditError):
    """The saved state of an audit cannot be read."""


class StateVersionError(StateError):
    """Saved state is of another schema than this build's."""


class StateDamagedError(StateError):
    """Saved state is cut short, or has changed since it was saved."""


class MissingExtraError(AuditError):
    """A package that only an optional extra brings is not installed.

    Args:
        needs: What needs which package: ``the streaming job needs pyspark``.
        extra: The extra that brings it.
    """

    def __init__(self, needs: str, extra: str) -> None:
        super().__init__(f"{needs}, which is not installed. {install_extra(extra)}")


def install_extra(extra: str) -> str:
    """How to install an extra."""
    return f"To fix: in a clone of tallystick: pip install '.[{extra}]'"


def one_line(error: object) -> str:
    """What another program or library says of an error, which may be long and of many lines."""
    return " ".join(str(error).split())[:200] or type(error).__name__
