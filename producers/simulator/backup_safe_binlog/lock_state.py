"""What backup locks add to the state of a server: data only, ``backup_locks`` changes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

TABLES: Final = "tables"
BINLOG: Final = "binlog"


class HeaderUpdates(Enum):
    """What makes a server write its coordinates into the header."""

    NEVER = "never"
    """MySQL 8.0, but for the time of a clone."""
    INNODB_COMMITS = "InnoDB commits"
    """Servers before 8.0."""
    EVERY_UPDATE = "every update"
    """Fix 1: whatever the storage engine."""


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A session that waits for a lock."""

    session: int
    lock: str
    granted: Callable[[], None]


@dataclass(slots=True, eq=False)
class BackupLocks:
    """The backup locks of one server.

    Attributes:
        holders: Sessions that hold each lock; several may hold one.
        requests: Sessions that wait for one.
        waiting: What waits for the unlock of each.
        stops_changes: Whether non-transactional changes and DDL wait.
        stops_coordinates: Whether commits, receivers and appliers wait.
        sessions: Who is told when the server ends a session.
    """

    holders: dict[str, list[int]] = field(default_factory=lambda: {TABLES: [], BINLOG: []})
    requests: list[Request] = field(default_factory=list)
    waiting: dict[str, list[Callable[[], None]]] = field(
        default_factory=lambda: {TABLES: [], BINLOG: []}
    )
    stops_changes: bool = False
    stops_coordinates: bool = False
    sessions: dict[int, Callable[[], None]] = field(default_factory=dict)

    def take(self, lock: str, session: int) -> None:
        """A session gets a lock."""
        self.holders[lock].append(session)

    def release(self, lock: str, session: int) -> None:
        """A session gives a lock back."""
        self.holders[lock].remove(session)

    def is_held(self, lock: str, session: int) -> bool:
        """Whether the session holds the lock."""
        return session in self.holders[lock]
