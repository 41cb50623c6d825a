"""Which backup lock is needed for which coordinate: over all interleavings, and without a deadlock.

The order of locks is the one that the simulator's utility takes; removing either lock shows the
trouble that the document names.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest

from tallystick.producers.simulator.backup.backup_utility import (
    BackupUtility,
    Options,
    needs_binlog_lock,
)
from tallystick.producers.simulator.backup.galera_node import GaleraNode
from tallystick.producers.simulator.backup.lock_state import BINLOG, TABLES, BackupLocks
from tallystick.producers.simulator.innodb.header import VARIABLE
from tallystick.producers.simulator.server import administration
from tests.support import backup_interleavings
from tests.support.backup_fleets import pass_time, quiet_fleet, server
from tests.support.backup_interleavings import APPLIED, INNODB, OTHER, Server
from tests.support.interleavings import Step, Thread, change, explore, release, share, take

BINARY_LOG = "binary log"
TABLES_OF_OTHERS = "tables of other engines"
DEFINITIONS = "definitions"
READ = "position read"
EXECUTED = "position executed"
FROZEN = frozenset({BINARY_LOG, TABLES_OF_OTHERS, DEFINITIONS, READ, EXECUTED})
_LOG = "LOCK_log"
_COMMIT = "LOCK_commit"


class _RecordingLocks(BackupLocks):
    """Backup locks that write down in which order a session takes and releases them."""

    steps: list[Step]

    def take(self, lock: str, session: int) -> None:
        super().take(lock, session)
        self.steps.append(take(lock))

    def release(self, lock: str, session: int) -> None:
        super().release(lock, session)
        self.steps += release(lock)


def recorded_plan(options: Options) -> tuple[Step, ...]:
    """The locks of one backup, as the simulator took them."""
    fleet = quiet_fleet("single")
    source = server(fleet)
    locks = _RecordingLocks()
    locks.steps = []
    source[BackupLocks] = locks
    BackupUtility(fleet, source, options).begin()
    pass_time(fleet, 2_000)
    return tuple(locks.steps)


PLAN = recorded_plan(Options())
WITHOUT_BINLOG_LOCK = recorded_plan(Options(lock_binlog=False))

_WRITE_BINLOG = [take(_LOG), change(BINARY_LOG), *release(_LOG)]
_COMMIT_STAGE = [take(_COMMIT), change("InnoDB"), *release(_COMMIT)]
OPERATIONS: dict[str, tuple[Step, ...]] = {
    "InnoDB commit": (share(BINLOG), *_WRITE_BINLOG, *_COMMIT_STAGE, *release(BINLOG)),
    "non-transactional change": (
        share(TABLES),
        change(TABLES_OF_OTHERS),
        share(BINLOG),
        *_WRITE_BINLOG,
        *release(BINLOG, TABLES),
    ),
    "DDL": (
        share(TABLES),
        change(DEFINITIONS),
        share(BINLOG),
        *_WRITE_BINLOG,
        *release(BINLOG, TABLES),
    ),
    "applier": (
        share(BINLOG),
        *_WRITE_BINLOG,
        *_COMMIT_STAGE,
        change(EXECUTED),
        *release(BINLOG),
    ),
    "applier of another engine": (
        share(TABLES),
        change(TABLES_OF_OTHERS),
        share(BINLOG),
        *_WRITE_BINLOG,
        change(EXECUTED),
        *release(BINLOG, TABLES),
    ),
    "receiver": (share(BINLOG), change("relay log"), change(READ), *release(BINLOG)),
    "FLUSH BINARY LOGS": (share(BINLOG), *_WRITE_BINLOG, *release(BINLOG)),
    "another backup": PLAN,
}


def backup_thread(plan: tuple[Step, ...], freezes: frozenset[str] = FROZEN) -> Thread:
    """A backup that relies on something while it holds its locks."""
    return Thread("backup", plan, freezes)


def test_the_plan_is_that_of_the_document() -> None:
    """The binlog lock is taken under the table lock and given up before it, or not at all."""
    assert PLAN == (take(TABLES), take(BINLOG), *release(BINLOG, TABLES))
    assert WITHOUT_BINLOG_LOCK == (take(TABLES), *release(TABLES))


@pytest.mark.parametrize("name", OPERATIONS)
def test_nothing_deadlocks_with_a_backup_and_nothing_moves_under_both_locks(name: str) -> None:
    """One operation and every pair of them, in every interleaving."""
    for first, second in combinations_with_replacement(OPERATIONS, 2):
        if first != name:
            continue
        threads = [backup_thread(PLAN), Thread("1", OPERATIONS[first])]
        for others in (threads, [*threads, Thread("2", OPERATIONS[second])]):
            found = explore(others)
            assert found.deadlock is None, (first, second)
            assert found.broken is None, (first, second)
            assert found.ends == 1
            assert found.frozen_states > 0


@pytest.mark.parametrize(
    ("lock", "moves", "operation"),
    [
        (TABLES, TABLES_OF_OTHERS, "non-transactional change"),
        (TABLES, TABLES_OF_OTHERS, "applier of another engine"),
        (TABLES, DEFINITIONS, "DDL"),
        (BINLOG, BINARY_LOG, "InnoDB commit"),
        (BINLOG, BINARY_LOG, "FLUSH BINARY LOGS"),
        (BINLOG, EXECUTED, "applier"),
        (BINLOG, READ, "receiver"),
    ],
)
def test_each_lock_is_needed(lock: str, moves: str, operation: str) -> None:
    """Without it something moves that the backup relies on."""
    plan = tuple(step for step in PLAN if step.what != lock)
    found = explore(
        [backup_thread(plan, frozenset({moves})), Thread(operation, OPERATIONS[operation])]
    )
    assert found.broken is not None
    assert found.broken[-1].endswith(f"CHANGE {moves}")


def test_the_table_lock_alone_lets_innodb_commit() -> None:
    """The log grows and nothing else that it protects moves."""
    tables = frozenset({TABLES_OF_OTHERS, DEFINITIONS})
    for name, steps in OPERATIONS.items():
        threads = [backup_thread(WITHOUT_BINLOG_LOCK, tables), Thread(name, steps)]
        assert explore(threads).broken is None
    growing = frozenset({BINARY_LOG})
    commit = Thread("commit", OPERATIONS["InnoDB commit"])
    assert explore([backup_thread(WITHOUT_BINLOG_LOCK, growing), commit]).broken is not None


@pytest.mark.parametrize("operation", ["non-transactional change", "DDL"])
def test_the_locks_in_the_wrong_order_deadlock(operation: str) -> None:
    """Who holds a table waits for the binlog lock, whose holder waits for the table."""
    inverted = (take(BINLOG), take(TABLES), *release(TABLES, BINLOG))
    found = explore([backup_thread(inverted), Thread(operation, OPERATIONS[operation])])
    assert found.deadlock is not None
    assert "(stuck) backup: TAKE tables" in found.deadlock


def test_unlocked_in_the_wrong_order_a_table_changes_under_the_binlog_lock() -> None:
    """Between UNLOCK TABLES and UNLOCK BINLOG a change is visible that no coordinate holds."""
    rest = (take(BINLOG), *release(BINLOG))
    writer = Thread("writer", OPERATIONS["non-transactional change"])
    found = explore([backup_thread(rest, frozenset({TABLES_OF_OTHERS})), writer])
    assert found.broken is not None


# What the backup reports against what it copied

COORDINATES = {"header", "status", "file", "executed", "read"}
CHANGES = (INNODB, OTHER, APPLIED)


@pytest.mark.parametrize(
    ("beside", "right"),
    [
        (Server(binlog_lock=False), {"header"}),
        (Server(), COORDINATES),
        (Server(is_backup_safe=False), COORDINATES - {"header"}),
        (Server(is_backup_safe=False, binlog_lock=False), set()),
        (Server(tables_lock=False, is_backup_safe=False), {"executed", "read"}),
        (Server(tables_lock=False, binlog_lock=False), set()),
    ],
)
def test_which_lock_is_needed_for_which_coordinate(beside: Server, right: set[str]) -> None:
    """A coordinate may be trusted if it agrees with the copy in every interleaving."""
    found = backup_interleavings.explore(beside, *CHANGES)
    assert not found.is_stuck
    assert right == COORDINATES - found.wrong
    assert found.commits_under_tables_lock or not beside.tables_lock


def test_fix_1_serves_as_fix_2_does() -> None:
    """A header that each update writes is as fresh as one that the table lock writes."""
    fix_1 = Server(is_backup_safe=False, binlog_lock=False, writes_header_at_each_update=True)
    assert "header" not in backup_interleavings.explore(fix_1, *CHANGES).wrong


@pytest.mark.parametrize(
    "without",
    [
        Server(binlog_lock=False, awaits_commits_for_header=False),
        Server(binlog_lock=False, orders_commits=False),
    ],
)
def test_the_header_needs_more_than_the_write(without: Server) -> None:
    """Commits must be awaited before it is written, and come in the order of the log."""
    assert "header" in backup_interleavings.explore(without, INNODB, OTHER, INNODB).wrong


@pytest.mark.parametrize("is_safe", [True, False])
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize(("slave_info", "is_node"), [(False, False), (True, False), (False, True)])
def test_the_utility_takes_the_locks_that_its_coordinates_need(
    is_safe: bool, ordered: bool, slave_info: bool, is_node: bool
) -> None:
    """What it decides is right in every interleaving; where it leaves the lock out, it may."""
    source = server(quiet_fleet("single", order_commits=ordered))
    if is_safe:
        administration.set_variables(source, **{VARIABLE: True})
    source[GaleraNode] = GaleraNode() if is_node else None
    locks = needs_binlog_lock(source, slave_info=slave_info)
    beside = Server(binlog_lock=locks, is_backup_safe=is_safe, orders_commits=ordered)
    wanted = {"status" if locks else "header"}
    wanted |= {"executed"} if slave_info else set()
    wanted |= {"file"} if is_node else set()
    assert not wanted & backup_interleavings.explore(beside, *CHANGES).wrong
    if not locks:
        return
    lockless = Server(binlog_lock=False, is_backup_safe=is_safe, orders_commits=ordered)
    wanted = (wanted - {"status"}) | {"header"}
    assert wanted & backup_interleavings.explore(lockless, *CHANGES).wrong
