"""The mutexes and rwlocks of one server that a collection of WL#9452 takes, and who holds them.

An act of the simulator is one moment, so nothing but another collection ever meets a held latch.
What two acts would do to each other inside one moment is explored over the recorded orders.
"""

from __future__ import annotations

from typing import Final

LOCK_COLLECT_INSTANCE_LOG: Final = "LOCK_collect_instance_log"
"""One collection at a time (WL#9452, Step-3)."""
CHANNEL_MAP: Final = "channel_map"
"""Rwlock of the replication channels map; a collection takes it for writing."""
LOCK_PLUGIN: Final = "LOCK_plugin"
"""Held only while the storage engines are listed."""
LOCK_LOG: Final = "LOCK_log"
"""Of the binary log."""
GLOBAL_SID_LOCK: Final = "global_sid_lock"
"""Rwlock over the GTID state; a collection takes it for writing."""
LOG_BUFFER: Final = "log_buffer"
"""Rwlock of InnoDB: who holds it for writing lets nobody reserve room in the log buffer."""
LOG_CHECKPOINTER: Final = "log_checkpointer_mutex"
"""Of InnoDB: who holds it lets no checkpoint be written."""


def data_lock(channel_name: str) -> str:
    """Master_info::data_lock of a channel."""
    return f"data_lock:{channel_name}"


class Latches:
    """Who holds which latch; the key is the latch's name, the value the session."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: dict[str, int] = {}

    def take(self, name: str, session: int) -> None:
        """Take a latch that is free."""
        assert name not in self.held, f"session {self.held[name]} holds {name}"
        self.held[name] = session

    def release(self, name: str, session: int) -> None:
        """Release a latch that the session holds."""
        assert self.held.get(name) == session, f"session {session} does not hold {name}"
        del self.held[name]
