"""Percona's backup locks: LOCK TABLES FOR BACKUP and LOCK BINLOG FOR BACKUP.

The table lock stops changes of non-transactional tables and DDL; InnoDB goes on. The binlog lock
stops all that moves the binary log's coordinates or, of a channel, the position read or executed.
Whoever is stopped waits for the unlock, in the order of arrival. A session that asks for a lock
waits itself until what runs already has ended, and who comes after it waits too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.backup.lock_state import BINLOG, TABLES, BackupLocks, Request
from tallystick.producers.simulator.innodb import header
from tallystick.producers.simulator.kernel.bus import Permit
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.commit_queue import COMMITS_ENDED, CommitQueue
from tallystick.producers.simulator.server.locks import MAY_MOVE, MAY_WRITE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.kernel.bus import Bus
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

HEADER_FLUSH: Permit[[World, Instance]] = Permit(
    "LOCK TABLES FOR BACKUP is to write the InnoDB header; False: it stays as it was"
)

_BLOCKED_KINDS = frozenset(
    {GroupKind.NON_TRANSACTIONAL, GroupKind.DDL, GroupKind.MIXED, GroupKind.ROLLED_BACK}
)
"""What a table of an engine without transactions, or a definition, takes part in."""


# Statements


def lock_tables(
    fleet: World, instance: Instance, session: int, granted: Callable[[], None]
) -> None:
    """LOCK TABLES FOR BACKUP; ``granted`` is called when the session has the lock."""
    _ask(fleet, instance, Request(session, TABLES, granted))


def lock_binlog(
    fleet: World, instance: Instance, session: int, granted: Callable[[], None]
) -> None:
    """LOCK BINLOG FOR BACKUP; ``granted`` is called when the session has the lock."""
    _ask(fleet, instance, Request(session, BINLOG, granted))


def unlock_binlog(fleet: World, instance: Instance, session: int) -> None:
    """UNLOCK BINLOG."""
    _release(fleet, instance, BINLOG, session)


def unlock_tables(fleet: World, instance: Instance, session: int) -> None:
    """UNLOCK TABLES."""
    _release(fleet, instance, TABLES, session)


def end_session(fleet: World, instance: Instance, session: int) -> None:
    """The session is gone: the server releases what it held, and forgets what it asked for."""
    locks = instance[BackupLocks]
    locks.requests = [request for request in locks.requests if request.session != session]
    for lock in (BINLOG, TABLES):
        _release(fleet, instance, lock, session)
    _settle(fleet, instance)


def end_all(fleet: World, instance: Instance) -> None:
    """KILL, or a shutdown: no session is left that holds a lock or asks for one."""
    locks = instance[BackupLocks]
    asking = [request.session for request in locks.requests]
    for session in sorted({*asking, *locks.holders[BINLOG], *locks.holders[TABLES]}):
        end_session(fleet, instance, session)
        locks.sessions.pop(session, _nobody)()


def lose_all(fleet: World, instance: Instance) -> None:
    """The server is gone, and its locks with it."""
    locks = instance[BackupLocks]
    locks.requests = []
    locks.holders = {TABLES: [], BINLOG: []}
    _settle(fleet, instance)
    sessions, locks.sessions = locks.sessions, {}
    for ended in sessions.values():
        ended()


def _nobody() -> None:
    """No program of ours runs in the session."""


# Who waits


def stops_change(instance: Instance, kind: GroupKind) -> bool:
    """Whether the table lock stops a change of that kind."""
    return instance[BackupLocks].stops_changes and kind in _BLOCKED_KINDS


def change_waits(instance: Instance, kind: GroupKind, again: Callable[[], None]) -> bool:
    """Whether the table lock stops a change; if so ``again`` is called after the unlock."""
    if not stops_change(instance, kind):
        return False
    instance[BackupLocks].waiting[TABLES].append(again)
    return True


def join(bus: Bus) -> None:
    """Changes wait for the table lock, what moves coordinates for the binlog lock."""
    bus.connect(MAY_WRITE, lambda instance, kind, again: not change_waits(instance, kind, again))
    bus.connect(MAY_MOVE, lambda instance, again: not coordinates_wait(instance, again))
    bus.connect(COMMITS_ENDED, commits_ended)


def coordinates_wait(instance: Instance, again: Callable[[], None]) -> bool:
    """Whether the binlog lock stops what moves a coordinate; if so ``again`` is called later."""
    locks = instance[BackupLocks]
    if not locks.stops_coordinates:
        return False
    locks.waiting[BINLOG].append(again)
    return True


def commits_ended(fleet: World, instance: Instance) -> None:
    """Groups have left the commit stage: a session may have waited for them."""
    if instance[BackupLocks].requests:
        _settle(fleet, instance)


# How a lock is given and taken back


def _ask(fleet: World, instance: Instance, request: Request) -> None:
    instance[BackupLocks].requests.append(request)
    _settle(fleet, instance)


def _settle(fleet: World, instance: Instance) -> None:
    """Give what can be given, then let go on who waits for nothing any more."""
    locks = instance[BackupLocks]
    for request in list(locks.requests):
        if not _has_to_wait(instance, request.lock):
            locks.requests.remove(request)
            _grant(fleet, instance, request)
    asked = {request.lock for request in locks.requests}
    locks.stops_changes = bool(locks.holders[TABLES]) or TABLES in asked
    # A backup-safe server holds commits back until the header is written.
    locks.stops_coordinates = (
        bool(locks.holders[BINLOG])
        or BINLOG in asked
        or (TABLES in asked and header.is_backup_safe(instance))
    )
    for lock, is_stopped in ((TABLES, locks.stops_changes), (BINLOG, locks.stops_coordinates)):
        if not is_stopped and locks.waiting[lock]:
            waiting, locks.waiting[lock] = locks.waiting[lock], []
            for again in waiting:
                fleet.clock.schedule(fleet.now, instance, again)


def _has_to_wait(instance: Instance, lock: str) -> bool:
    """Whether something is under way that the lock stops."""
    if lock == BINLOG or header.is_backup_safe(instance):
        return bool(instance[CommitQueue].in_commit) or instance[BinaryLog].rotation_is_due
    return any(
        pending.logged.group.kind in _BLOCKED_KINDS for pending in instance[CommitQueue].in_commit
    )


def _grant(fleet: World, instance: Instance, request: Request) -> None:
    instance[BackupLocks].take(request.lock, request.session)
    writes_header = request.lock == TABLES and header.is_backup_safe(instance)
    redo: dict[str, int] = {}
    if writes_header and fleet.bus.emit(HEADER_FLUSH, fleet, instance):
        redo["lsn"] = header.flush_coordinates(instance)
    _record(instance, "lock", request.lock, request.session, **redo)
    fleet.clock.schedule(fleet.now, instance, request.granted)


def _release(fleet: World, instance: Instance, lock: str, session: int) -> None:
    locks = instance[BackupLocks]
    if not locks.is_held(lock, session):
        return
    locks.release(lock, session)
    _record(instance, "unlock", lock, session)
    _settle(fleet, instance)


def _record(instance: Instance, step: str, lock: str, session: int, **redo: int) -> None:
    body = {"step": step, "lock": lock, "session": session, **redo}
    instance.journal.record(RecordType.BACKUP_LOCK, body)
