"""The locks that a backup may take around a collection: LOCK INSTANCE FOR BACKUP and FTWRL.

WL#9452, F-4: the collecting state is reached with and without them. Under FLUSH TABLES WITH READ
LOCK every change waits, of clients and of appliers; receivers go on. Under LOCK INSTANCE FOR BACKUP
DDL waits and no binary log is purged. Whoever waits goes on in the order of arrival.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.server.locks import MAY_EXECUTE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.kernel.bus import Bus
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import GroupKind
    from tallystick.producers.simulator.kernel.world import World

INSTANCE = "instance"
GLOBAL_READ = "global_read"
_SESSION = 88


class OuterLocks:
    """What a session holds of one instance, and who waits for it."""

    __slots__ = ("held", "waiting")

    def __init__(self) -> None:
        self.held: list[str] = []
        self.waiting: list[Callable[[], None]] = []

    def stop(self, kind: GroupKind) -> bool:
        """Whether a change of that kind has to wait."""
        return GLOBAL_READ in self.held or (INSTANCE in self.held and kind.value == "ddl")


def must_wait(instance: Instance, kind: GroupKind, again: Callable[[], None]) -> bool:
    """Whether a change has to wait; if so ``again`` is called when it may go on."""
    locks = instance.get(OuterLocks)
    if locks is None or not locks.stop(kind):
        return False
    locks.waiting.append(again)
    return True


def join(bus: Bus) -> None:
    """Clients and appliers wait for the locks."""
    bus.connect(MAY_EXECUTE, lambda instance, kind, again: not must_wait(instance, kind, again))


def forbids_purge(instance: Instance) -> bool:
    """Whether PURGE BINARY LOGS is refused (4085), and expiry does nothing."""
    locks = instance.get(OuterLocks)
    return locks is not None and INSTANCE in locks.held


def take(instance: Instance, lock: str) -> None:
    """Give the session a lock."""
    instance[OuterLocks].held.append(lock)
    _record(instance, "lock", lock)


def release(fleet: World, instance: Instance, lock: str) -> None:
    """Take a lock back; who waited goes on."""
    locks = instance[OuterLocks]
    locks.held.remove(lock)
    _record(instance, "unlock", lock)
    waiting, locks.waiting = locks.waiting, []
    for again in waiting:
        fleet.clock.schedule(fleet.now, instance, again)


def _record(instance: Instance, step: str, lock: str) -> None:
    instance.journal.record(
        RecordType.BACKUP_LOCK, {"step": step, "lock": lock, "session": _SESSION}
    )
