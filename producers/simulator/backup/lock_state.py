"""What backup locks add to the state of a server: data only, ``backup_locks`` changes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

TABLES: Final = "tables"
BINLOG: Final = "binlog"


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
        sessions: Who is called when the server ends a session.
        backups_begun: How many backups have taken them.
    """

    holders: dict[str, list[int]] = field(default_factory=lambda: {TABLES: [], BINLOG: []})
    requests: list[Request] = field(default_factory=list)
    waiting: dict[str, list[Callable[[], None]]] = field(
        default_factory=lambda: {TABLES: [], BINLOG: []}
    )
    stops_changes: bool = False
    stops_coordinates: bool = False
    sessions: dict[int, Callable[[], None]] = field(default_factory=dict)
    backups_begun: int = 0

    def take(self, lock: str, session: int) -> None:
        """A session gets a lock."""
        self.holders[lock].append(session)

    def release(self, lock: str, session: int) -> None:
        """A session gives a lock back."""
        self.holders[lock].remove(session)

    def is_held(self, lock: str, session: int) -> bool:
        """Whether the session holds the lock."""
        return session in self.holders[lock]
