"""The critical zone of WL#3576 under every interleaving of a few threads.

Each step of a thread is one call of the zone's API (``enter``, ``drop``, ``close``, ``wait``,
``open``) or one step of its critical sequence. Every order of all steps is tried on the simulator's
own `CriticalZone`: after each of them a zone is built anew and the steps are played from the start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tallystick.producers.simulator.backup.critical_zone import CriticalZone, Ticket
from tallystick.producers.simulator.backup.read_write_lock import ReadWriteLock
from tests.support.interleavings import Do, Step, add, change, release, share, take, wait_for_none
from tests.support.interleavings import Thread as LockThread
from tests.support.interleavings import explore as explore_locks

if TYPE_CHECKING:
    from collections.abc import Callable

CLIENT = ("enter", "write_binlog", "commit", "unlock_tables", "drop")
OUTSIDER = ("write_binlog", "commit", "unlock_tables")
BACKUP = ("close", "wait", "validity_point", "open")
EARLY = ("enter", "write_binlog", "commit", "drop", "unlock_tables")
HASTY = ("close", "validity_point", "open")


@dataclass
class Thread:
    """A thread: what it does, and how far it is."""

    name: str
    steps: tuple[str, ...]
    done: int = 0
    ticket: Ticket | None = None
    is_waiting: bool = False


@dataclass
class World:
    """A zone and the threads on their way through it."""

    threads: list[Thread]
    zone: CriticalZone = field(init=False)
    reported: list[tuple[str, Any]] = field(default_factory=list)
    inside: set[str] = field(default_factory=set)
    """Participating threads in the critical sequence, counted by what they do, not by the zone."""
    at_point: list[frozenset[str]] = field(default_factory=list)
    """Who was in the critical sequence at each validity point."""
    logged_at_point: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.zone = CriticalZone(lambda step, **about: self.reported.append((step, about)))

    def movable(self) -> list[int]:
        """Threads that can make their next step."""
        return [
            i
            for i, thread in enumerate(self.threads)
            if thread.done < len(thread.steps) and not thread.is_waiting
        ]

    def move(self, number: int) -> None:
        """Let a thread make its next step; it may have to wait for it."""
        thread = self.threads[number]
        step = thread.steps[thread.done]
        if step == "enter":
            thread.ticket = self.zone.enter(thread.name, self.wake(thread))
            if thread.ticket is None:
                thread.is_waiting = True
                return
        elif step == "drop":
            assert thread.ticket is not None
            thread.ticket.drop()
        elif step == "close":
            if not self.zone.is_open:  # another backup synchronises: this one tries again later
                return
            self.zone.close()
        elif step == "wait":
            thread.is_waiting = True
            self.zone.wait(self.wake(thread))
        elif step == "open":
            self.zone.open()
        elif step == "validity_point":
            self.at_point.append(frozenset(self.inside))
        elif step == "write_binlog":
            if any(
                other.done and other.steps[other.done - 1] == "validity_point"
                for other in self.threads
            ):
                self.logged_at_point.add(thread.name)
            if "enter" in thread.steps:
                self.inside.add(thread.name)
        elif step == "unlock_tables":
            self.inside.discard(thread.name)
        thread.done += step != "wait"

    def wake(self, thread: Thread) -> Callable[[], None]:
        def go_on() -> None:
            thread.is_waiting = False
            thread.done += thread.steps[thread.done] == "wait"

        return go_on

    def key(self) -> tuple[Any, ...]:
        """All that decides what can happen from here on, and what has been seen."""
        state = tuple((thread.done, thread.is_waiting) for thread in self.threads)
        return (*state, self.zone.is_open, tuple(self.at_point), frozenset(self.logged_at_point))


@dataclass
class Found:
    """What all runs showed."""

    states: int = 0
    ends: int = 0
    stuck: list[tuple[int, ...]] = field(default_factory=list)
    inside_at_point: set[str] = field(default_factory=set)
    logged_at_point: set[str] = field(default_factory=set)
    points: int = 0
    left_behind: int = 0
    """Runs that end with a closed zone or with somebody inside."""


def explore(*plans: tuple[str, ...]) -> Found:
    """Every interleaving of threads with these steps."""

    def play(run: tuple[int, ...]) -> World:
        world = World([Thread(f"t{i}", steps) for i, steps in enumerate(plans)])
        for number in run:
            world.move(number)
        return world

    found = Found()
    seen: set[tuple[Any, ...]] = set()
    runs: list[tuple[int, ...]] = [()]
    while runs:
        run = runs.pop()
        world = play(run)
        key = world.key()
        if key in seen:
            continue
        seen.add(key)
        found.states += 1
        for inside in world.at_point:
            found.inside_at_point |= inside
        found.logged_at_point |= world.logged_at_point
        movable = world.movable()
        if not movable:
            if all(thread.done == len(thread.steps) for thread in world.threads):
                found.ends += 1
                found.points = max(found.points, len(world.at_point))
                found.left_behind += not world.zone.is_open or bool(world.zone.inside)
            else:
                found.stuck.append(run)
        runs += [(*run, number) for number in movable]
    return found


@pytest.mark.parametrize("clients", [1, 2, 3])
def test_nobody_is_inside_at_the_validity_point_and_everybody_goes_on(clients: int) -> None:
    """Some clients and one backup: no deadlock, no participant inside, all come through."""
    found = explore(BACKUP, *[CLIENT] * clients)
    assert found.stuck == []
    assert found.left_behind == 0
    assert found.inside_at_point == set()
    assert found.ends > 0
    assert found.points == 1
    assert found.states > 20


def test_two_backups_of_one_zone_come_one_after_the_other() -> None:
    """The second cannot close what is closed; it does so when the zone is open again."""
    found = explore(BACKUP, BACKUP, CLIENT)
    assert found.stuck == []
    assert found.left_behind == 0
    assert found.inside_at_point == set()
    assert found.points == 2


def test_who_takes_no_part_logs_at_the_validity_point() -> None:
    """Outsiders are never blocked, and in some run one logs while the point is taken."""
    found = explore(BACKUP, CLIENT, OUTSIDER)
    assert found.stuck == []
    assert found.left_behind == 0
    assert found.inside_at_point == set()
    assert found.logged_at_point == {"t2"}


def test_a_thread_that_enters_twice_in_turn_meets_the_closed_zone_in_between() -> None:
    """An applier goes from group to group: no ticket of the one before lets it in again."""
    found = explore(BACKUP, (*CLIENT, *CLIENT), CLIENT)
    assert found.stuck == []
    assert found.left_behind == 0
    assert found.inside_at_point == set()
    assert found.ends > 0


def test_without_waiting_somebody_is_inside() -> None:
    """The exploration can fail: close() alone is not enough."""
    assert explore(HASTY, CLIENT).inside_at_point == {"t1"}


def test_a_ticket_dropped_before_the_tables_are_unlocked_is_too_early() -> None:
    """The exploration can fail: commit is not the end for engines without transactions."""
    assert explore(BACKUP, EARLY).inside_at_point == {"t1"}


def test_a_zone_that_is_never_opened_keeps_clients_waiting() -> None:
    """The exploration can fail: a backup that ends without open() leaves a deadlock."""
    assert explore(BACKUP[:-1], CLIENT).stuck


# The two implementations that the document names, lock by lock

LOG = "binary log"
COUNT = "mutex of the counter"
GATE = "gate"


def counting(amount: int) -> tuple[Step, ...]:
    """Change the shared counter under its mutex."""
    return (take(COUNT), add("inside", amount), *release(COUNT))


ENTER_BY_COUNTER = (take(GATE), *counting(+1), *release(GATE))
"""Who closes the zone holds the gate: nobody counts himself in meanwhile."""
CLIENT_BY_COUNTER = (*ENTER_BY_COUNTER, change(LOG), *counting(-1))
CLIENT_BY_RWLOCK = (share("zone"), change(LOG), *release("zone"))


def backup_by_counter(*, waits: bool = True) -> LockThread:
    """Close, wait until the counter is zero, read position and counter, open."""
    wait = (wait_for_none("inside"),) if waits else ()
    point = (take(COUNT), Step(Do.COLLECT, LOG), *release(COUNT))
    return LockThread("backup", (take(GATE), *wait, *point, *release(GATE)), frozenset({LOG}))


@pytest.mark.parametrize("clients", [1, 2, 3])
def test_a_counter_under_a_mutex_makes_a_zone(clients: int) -> None:
    """Where there are no read-write locks: no deadlock, and no change at the validity point."""
    threads = [LockThread(f"t{i}", CLIENT_BY_COUNTER) for i in range(clients)]
    found = explore_locks([backup_by_counter(), *threads])
    assert (found.deadlock, found.broken) == (None, None)
    assert found.ends
    assert found.changed == {LOG}


@pytest.mark.parametrize("clients", [1, 2, 3])
def test_a_read_write_lock_makes_a_zone(clients: int) -> None:
    """Where there are: closing waits by itself until nobody is inside."""
    threads = [LockThread(f"t{i}", CLIENT_BY_RWLOCK) for i in range(clients)]
    closed = (take("zone"), Step(Do.COLLECT, LOG), *release("zone"))
    found = explore_locks([LockThread("backup", closed, frozenset({LOG})), *threads])
    assert (found.deadlock, found.broken) == (None, None)
    assert found.ends


def test_the_counter_alone_makes_no_zone() -> None:
    """The exploration can fail: without the wait, without the gate, or counted out too early."""
    client = LockThread("t", CLIENT_BY_COUNTER)
    ungated = LockThread("t", (*counting(+1), change(LOG), *counting(-1)))
    early = LockThread("t", (*ENTER_BY_COUNTER, *counting(-1), change(LOG)))
    assert explore_locks([backup_by_counter(waits=False), client]).broken
    assert explore_locks([backup_by_counter(), ungated]).broken
    assert explore_locks([backup_by_counter(), early]).broken


def test_a_writer_has_the_lock_alone_and_keeps_new_readers_out() -> None:
    """Readers share it; the writer waits for the last of them, and who comes later for him."""
    lock, seen = ReadWriteLock(), list[str]()
    assert lock.rdlock("a", lambda: seen.append("a"))
    assert lock.rdlock("b", lambda: seen.append("b"))
    lock.wrlock(lambda: seen.append("written"))
    assert not lock.rdlock("c", lambda: seen.append("c"))
    lock.unlock_by_reader()
    assert seen == []
    lock.unlock_by_reader()
    assert seen == ["written"]
    assert not lock.rdlock("d", lambda: seen.append("d"))
    with pytest.raises(AssertionError, match="another writer"):
        lock.wrlock(lambda: None)
    lock.unlock_by_writer()
    assert seen == ["written", "c", "d"]
    with pytest.raises(AssertionError, match="no writer"):
        lock.unlock_by_writer()


def test_a_ticket_is_dropped_once_and_a_zone_opened_once() -> None:
    """Misuse is refused where it happens."""
    zone = CriticalZone(lambda *_, **__: None)
    ticket = zone.enter("a", lambda: None)
    assert ticket is not None
    ticket.drop()
    with pytest.raises(AssertionError, match="ticket 1 is not held"):
        ticket.drop()
    with pytest.raises(AssertionError, match="open already"):
        zone.open()
    zone.close()
    with pytest.raises(AssertionError, match="closed already"):
        zone.close()


def test_the_end_of_a_scope_drops_a_ticket_that_is_still_held() -> None:
    """The destructor leaves the zone, unless drop() was called or the ticket was handed on."""
    reported: list[str] = []
    zone = CriticalZone(lambda step, **_: reported.append(step))
    first = zone.enter("a", lambda: None)
    assert first is not None
    with first:
        pass
    second = zone.enter("b", lambda: None)
    assert second is not None
    with second:
        second.drop()
    third = zone.enter("c", lambda: None)
    assert third is not None
    with third:
        kept = third.hand_on()
    assert reported == ["enter", "drop", "enter", "drop", "enter"]
    assert kept.is_held
    kept.drop()
    assert not zone.inside


def test_zones_of_one_server_are_independent() -> None:
    """Closing one zone keeps nobody out of another, and each has tickets of its own."""
    backup, archive = (CriticalZone(lambda *_, **__: None) for _ in range(2))
    backup.close()
    ticket = archive.enter("a", lambda: None)
    assert ticket is not None
    assert backup.enter("a", lambda: None) is None
    emptied: list[str] = []
    backup.wait(lambda: emptied.append("backup"))
    archive.close()
    archive.wait(lambda: emptied.append("archive"))
    assert emptied == ["backup"]
    ticket.drop()
    assert emptied == ["backup", "archive"]
