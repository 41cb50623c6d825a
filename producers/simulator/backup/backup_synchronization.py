"""Who passes a server's critical zone: participating threads, by the tables that they change.

A thread that changes tables decides while it locks them whether it will enter (``enter_zone``). It
enters when all changes have been requested, and executes the critical sequence inside: it writes
the binary log, commits, unlocks its tables. The last makes a change of a non-transactional table
visible, as committing does elsewhere (WL#3576, "Solution with a critical zone" and
"Optimization of the zone"); until then no other thread changes that table. Metadata operations stay
outside: a backup blocks them anyway.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.backup import backup_locks, outer_locks
from tallystick.producers.simulator.backup.critical_zone import CriticalZone
from tallystick.producers.simulator.backup.tables import BACKED_UP, MYISAM, table_of
from tallystick.producers.simulator.backup.threads import Thread
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.kernel.world import WENT_DOWN
from tallystick.producers.simulator.server.binary_log import BinaryLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.kernel.bus import Bus
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import QueuedGroup

_STATEMENT_US = (100, 9_000)
"""From the locking of a statement's tables to its critical sequence, at a client."""
_UNLOCK_US = (50, 1_500)
"""From the commit of a non-transactional change to the unlocking of its table."""


@dataclass(slots=True, eq=False)
class BackupSynchronization:
    """One server's zone, and the threads that are on their way through it.

    Attributes:
        is_on: The global flag ``backup_synchronization``.
        backed_up: Names of the tables that the backup takes.
        outside: What appliers wait to execute until the zone opens, or a table is unlocked.
        locked: MyISAM tables that are changed, and who waits for each.
        unlocking: Threads that have committed and still hold their tables, and what unlocking does.
    """

    instance: Instance
    rng: Random
    zone: CriticalZone = field(init=False)
    is_on: bool = False
    backed_up: frozenset[str] = frozenset(table.name for table in BACKED_UP)
    outside: set[QueuedGroup] = field(default_factory=set)
    locked: dict[str, list[Callable[[], None]]] = field(default_factory=dict)
    unlocking: dict[Thread, Callable[[], None]] = field(default_factory=dict)
    last_thread: int = 0

    def __post_init__(self) -> None:
        self.zone = CriticalZone(self.record)

    def record(self, step: str, **about: Any) -> None:
        """Write a ``zone`` record."""
        self.instance.journal.record(RecordType.ZONE, {"step": step, **about})

    # The backup's side

    def close(self, emptied: Callable[[], None]) -> None:
        """Begin to synchronise; ``emptied`` is called when no participating thread is inside."""
        self.is_on = True
        self.zone.close(tables=sorted(self.backed_up))
        self.zone.wait(emptied)

    def open(self) -> None:
        """End synchronising."""
        self.outside.clear()
        self.zone.open()
        self.is_on = False

    # The threads' side

    def waits_for_table(self, group: Group, again: Callable[[], None]) -> bool:
        """Whether a change waits for another: MyISAM locks whole tables. ``again`` tries anew."""
        table = table_of(group)
        if table is None or table.name not in self.locked:
            return False
        self.locked[table.name].append(again)
        return True

    def lock_tables(self, group: Group, *, is_applier: bool = False) -> Thread:
        """Begin a statement: its tables decide whether it will enter the zone."""
        table = table_of(group)
        tables = () if table is None else (table.name,)
        if table is not None and table.engine == MYISAM:
            self.locked[table.name] = []
        enter_zone = not self.is_on or self.participates(tables)
        self.last_thread += 1
        return Thread(self.last_thread, group, tables, enter_zone, is_applier)

    def unlock_tables(self, thread: Thread) -> None:
        """A statement ends: who waits for its table tries again, one after the other."""
        for name in thread.tables:
            for again in self.locked.pop(name, ()):
                again()

    def participates(self, tables: tuple[str, ...]) -> bool:
        """Whether a thread that changes these tables takes part in the backup."""
        return not self.backed_up.isdisjoint(tables)

    def execute(
        self, thread: Thread, run: Callable[[Thread], Any], go_on: Callable[[], None]
    ) -> bool:
        """Execute the critical sequence; False: the zone is closed, ``go_on`` is called later.

        The ticket is dropped on every way out of ``run``, unless it was handed on to the commit
        stage, which drops it when the tables are unlocked.
        """
        if thread.enter_zone:
            thread.ticket = self.zone.enter(thread.number, go_on)
            if thread.ticket is None:
                return False
        with thread.ticket or nullcontext():
            run(thread)
        if not thread.is_committing:
            self.unlock_tables(thread)
        return True

    def record_sequence(self, step: str, thread: Thread) -> None:
        """Tell one step of a thread's critical sequence."""
        about: dict[str, Any] = {"thread": thread.number, "tables": list(thread.tables)}
        if thread.ticket is not None:
            about["ticket"] = thread.ticket.number
        self.record(step, **about)

    def stays_outside(self, groups: list[QueuedGroup]) -> bool:
        """Whether an applier waits in front of the closed zone with one of these groups."""
        return not self.outside.isdisjoint(groups)


def install(fleet: World, instance: Instance) -> None:
    """From now on threads of the instance pass a critical zone; a crash leaves a new one."""
    seed = f"critical zone {fleet.scenario.seed} {instance.instance_id} {fleet.now}"
    instance[BackupSynchronization] = BackupSynchronization(instance, Random(seed))


def begin(fleet: World, instance: Instance, group: Group, run: Callable[[Thread], Any]) -> None:
    """A client's statement: lock its tables, change them, execute the critical sequence."""
    synchronization = instance.get(BackupSynchronization)
    if synchronization is None or not instance.is_running:
        return  # it waited for a table, and the server went down meanwhile
    if synchronization.waits_for_table(group, partial(begin, fleet, instance, group, run)):
        return
    thread = synchronization.lock_tables(group)
    spent = synchronization.rng.randrange(*_STATEMENT_US)
    fleet.clock.schedule(
        fleet.now + spent, instance, _end_statement, instance, synchronization, thread, run
    )


def _end_statement(
    instance: Instance,
    synchronization: BackupSynchronization,
    thread: Thread,
    run: Callable[[Thread], Any],
) -> None:
    if instance.get(BackupSynchronization) is not synchronization or not instance.is_running:
        return  # the connection was lost with the server, nothing was logged
    again = partial(_end_statement, instance, synchronization, thread, run)
    # FLUSH TABLES WITH READ LOCK may have come since it locked its tables.
    if outer_locks.must_wait(instance, thread.group.kind, again):
        return
    if not backup_locks.coordinates_wait(instance, again):
        synchronization.execute(thread, run, again)


def apply(
    instance: Instance, queued: QueuedGroup, run: Callable[[Thread], Any], wake: Callable[[], None]
) -> None:
    """An applier executes a group inside the zone, or waits in front of it until it is woken.

    So it does in front of a locked table; its own lock is taken anew when it tries again.
    """
    synchronization = instance.get(BackupSynchronization)
    assert synchronization is not None

    def again() -> None:
        synchronization.outside.discard(queued)
        wake()

    if synchronization.waits_for_table(queued.logged.group, again):
        synchronization.outside.add(queued)
        return
    thread = synchronization.lock_tables(queued.logged.group, is_applier=True)
    if not synchronization.execute(thread, run, wake):
        synchronization.outside.add(queued)
        synchronization.unlock_tables(thread)


def write_binlog(instance: Instance, thread: Thread) -> None:
    """The critical sequence begins: what follows is written to the binary log."""
    synchronization = instance.get(BackupSynchronization)
    assert synchronization is not None
    synchronization.record_sequence("write_binlog", thread)


def committed(
    fleet: World, instance: Instance, thread: Thread, make_visible: Callable[[], None]
) -> None:
    """Behind the commit stage: unlock the tables, then leave the zone.

    Args:
        fleet: The fleet.
        instance: The server.
        thread: Whose group was committed.
        make_visible: What unlocking does to a change that committing left invisible.
    """
    synchronization = instance.get(BackupSynchronization)
    assert synchronization is not None
    synchronization.record_sequence("commit", thread)
    synchronization.unlocking[thread] = make_visible
    if thread.is_applier or thread.group.kind is not GroupKind.NON_TRANSACTIONAL:
        _unlock_tables(synchronization, thread)
        return
    spent = synchronization.rng.randrange(*_UNLOCK_US)
    fleet.clock.schedule(fleet.now + spent, instance, _unlock_tables, synchronization, thread)


def _unlock_tables(synchronization: BackupSynchronization, thread: Thread) -> None:
    make_visible = synchronization.unlocking.pop(thread, None)
    if make_visible is None:
        return  # the server went down meanwhile
    with thread.ticket or nullcontext():
        make_visible()
        synchronization.record_sequence("unlock_tables", thread)
    synchronization.unlock_tables(thread)


def record_metadata_operation(instance: Instance, group: Group) -> None:
    """A metadata operation is executed on a server that is backed up now and then."""
    table = table_of(group)
    engine = "innodb" if table is None else table.engine.lower()
    body = {"engine": engine, "type": "ddl", "binlogged": instance[BinaryLog].is_open}
    instance.journal.record(RecordType.STATEMENT, body)


def join(bus: Bus) -> None:
    """The server may go down."""
    bus.connect(WENT_DOWN, _interrupt)


def _interrupt(fleet: World, instance: Instance) -> None:
    """Tickets are gone, and all who wait; a non-transactional table keeps what it was given."""
    synchronization = instance.get(BackupSynchronization)
    if synchronization is None:
        return
    for make_visible in synchronization.unlocking.values():
        make_visible()
    synchronization.unlocking.clear()
    install(fleet, instance)
