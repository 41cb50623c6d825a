"""A backup that collects inside LOCK INSTANCE FOR BACKUP and FLUSH TABLES WITH READ LOCK.

The five statements of WL#9452, F-4, by one session. The row is the backup's own: the audit sees its
lock steps, and what the locks around them hold back.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tallystick.producers.simulator.backup import outer_locks
from tallystick.producers.simulator.backup.outer_locks import OuterLocks
from tallystick.producers.simulator.log_status.log_status_query import LogStatusQuery
from tallystick.producers.simulator.server import commit

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

_STATEMENT_US = 5_000
HELD_US = 120_000
"""How long the backup holds both locks: it copies what cannot be copied later."""


def lock_instance(instance: Instance) -> None:
    """LOCK INSTANCE FOR BACKUP."""
    assert instance.get(OuterLocks) is None
    instance[OuterLocks] = outer_locks.OuterLocks()
    outer_locks.take(instance, outer_locks.INSTANCE)


def flush_tables_with_read_lock(fleet: World, instance: Instance) -> None:
    """FLUSH TABLES WITH READ LOCK: what is being committed ends first."""
    assert instance.get(OuterLocks) is not None
    commit.finish_all(fleet, instance)
    outer_locks.take(instance, outer_locks.GLOBAL_READ)


def unlock_tables(fleet: World, instance: Instance) -> None:
    """UNLOCK TABLES: changes go on."""
    outer_locks.release(fleet, instance, outer_locks.GLOBAL_READ)


def unlock_instance(fleet: World, instance: Instance) -> None:
    """UNLOCK INSTANCE."""
    outer_locks.release(fleet, instance, outer_locks.INSTANCE)
    instance.remove(OuterLocks)


def back_up(
    fleet: World,
    instance: Instance,
    collected: Callable[[dict[str, Any]], None],
    ended: Callable[[], None],
) -> None:
    """The five statements of F-4, one after the other.

    Args:
        fleet: The fleet.
        instance: The server that is backed up.
        collected: Gets the row of log_status, while the session holds all its locks.
        ended: Called after UNLOCK INSTANCE.
    """
    if not instance.is_running or instance.get(OuterLocks) is not None:
        return
    lock_instance(instance)
    locks = instance.get(OuterLocks)

    def at(after_us: int, act: Callable[[], None]) -> None:
        fleet.clock.schedule(fleet.now + after_us, instance, _while_held, instance, locks, act)

    def collect() -> None:
        name = f"backup of {instance.instance_id} at {fleet.now - fleet.start_ts}"
        LogStatusQuery(fleet, instance, name, collected, _no_row).begin()

    def unlock_all() -> None:
        unlock_tables(fleet, instance)
        unlock_instance(fleet, instance)
        ended()

    at(_STATEMENT_US, partial(flush_tables_with_read_lock, fleet, instance))
    at(2 * _STATEMENT_US, collect)
    at(HELD_US, unlock_all)


def _while_held(
    instance: Instance, locks: outer_locks.OuterLocks | None, act: Callable[[], None]
) -> None:
    """The session ends with the server: what it had still to do is never done."""
    if locks is not None and instance.get(OuterLocks) is locks:
        act()


def _no_row(error: dict[str, Any]) -> None:
    """The backup goes on without the row; its locks are released as planned."""
