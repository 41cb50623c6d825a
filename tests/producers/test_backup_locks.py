"""Percona's backup locks in the simulator: who waits for what, and what the InnoDB header says."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tallystick.coordinates.events.journal import QueryVerb, RecordType, Stream
from tallystick.coordinates.values.innodb import lsn_offset_is_legal
from tallystick.producers.simulator.assemble import Fleet, simulate
from tallystick.producers.simulator.backup import backup_locks
from tallystick.producers.simulator.backup.galera_node import GaleraNode
from tallystick.producers.simulator.backup.lock_state import BINLOG, TABLES, BackupLocks
from tallystick.producers.simulator.innodb import header
from tallystick.producers.simulator.innodb.header import HeaderUpdates, InnodbHeader
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.server import administration, clients, commit, lifecycle
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import (
    Applier,
    ChannelMap,
    QueuedGroup,
    Receiver,
    RelayLog,
)
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState
from tests.support.backup_fleets import (
    MILLISECOND,
    journal,
    lock_steps,
    logged,
    pass_time,
    quiet_fleet,
    replica,
    server,
)
from tests.support.simulated_journal import records

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance

SESSION = 7


def nothing() -> None:
    """The session does nothing with its lock."""


# LOCK TABLES FOR BACKUP


def test_the_table_lock_stops_what_innodb_cannot_take_back() -> None:
    """DDL and non-transactional changes wait for the unlock; nothing else does."""
    fleet = quiet_fleet()
    source = server(fleet)
    backup_locks.lock_tables(fleet, source, SESSION, nothing)
    kinds = (
        GroupKind.DDL,
        GroupKind.NON_TRANSACTIONAL,
        GroupKind.MIXED,
        GroupKind.ROLLED_BACK,
        GroupKind.INNODB,
        GroupKind.EMPTY,
        GroupKind.COMPRESSED,
    )
    for kind in kinds:
        clients.write(fleet, source, kind)
    pass_time(fleet, 50)
    assert list(kinds[4:]) == logged(source)
    backup_locks.unlock_tables(fleet, source, SESSION)
    pass_time(fleet, 50)
    assert [*kinds[4:], *kinds[:4]] == logged(source)


@pytest.mark.parametrize("workers", [0, 4])
@pytest.mark.parametrize("in_order", [True, False])
def test_an_applier_waits_for_the_table_lock_as_a_client_does(workers: int, in_order: bool) -> None:
    """What comes after a DDL waits with it, unless workers may commit in another order."""
    fleet = quiet_fleet(applier_workers=workers, preserve_commit_order=in_order)
    source, copy = server(fleet), replica(fleet)
    pass_time(fleet, 100)
    backup_locks.lock_tables(fleet, copy, SESSION, nothing)
    for kind in (GroupKind.INNODB, GroupKind.DDL, GroupKind.INNODB):
        clients.write(fleet, source, kind)
    pass_time(fleet, 300)
    expected = [GroupKind.INNODB] * (2 if workers and not in_order else 1)
    assert expected == logged(copy)
    backup_locks.unlock_tables(fleet, copy, SESSION)
    pass_time(fleet, 300)
    assert copy[GtidState].executed == source[GtidState].executed
    assert sorted(k.name for k in logged(copy)) == ["DDL", "INNODB", "INNODB"]


def test_the_table_lock_waits_for_a_change_that_is_under_way() -> None:
    """A change between flush and commit stage holds its table still; who comes later is behind."""
    fleet = quiet_fleet("single")
    source = server(fleet)
    fleet.pace.commit_stage_us = (9_000, 9_001)
    got: list[int] = []
    clients.write(fleet, source, GroupKind.NON_TRANSACTIONAL)
    backup_locks.lock_tables(fleet, source, SESSION, lambda: got.append(fleet.now))
    clients.write(fleet, source, GroupKind.NON_TRANSACTIONAL)
    asked = fleet.now
    pass_time(fleet, 8)
    assert not got
    pass_time(fleet, 40)
    assert [asked + 9_000] == got
    assert logged(source) == [GroupKind.NON_TRANSACTIONAL]


def test_two_sessions_share_a_lock() -> None:
    """Backup locks conflict with changes, not with each other: the last unlock lets go."""
    fleet = quiet_fleet("single")
    source = server(fleet)
    for session in (1, 2):
        backup_locks.lock_tables(fleet, source, session, nothing)
    clients.write(fleet, source, GroupKind.DDL)
    backup_locks.unlock_tables(fleet, source, 1)
    backup_locks.unlock_tables(fleet, source, 1)
    pass_time(fleet, 20)
    assert not logged(source)
    backup_locks.unlock_tables(fleet, source, 2)
    pass_time(fleet, 20)
    assert logged(source) == [GroupKind.DDL]
    assert lock_steps(source)[-2:] == ["unlock tables", "unlock tables"]


# LOCK BINLOG FOR BACKUP


def test_commits_wait_for_the_binlog_lock_and_come_in_the_order_of_arrival() -> None:
    """The coordinates stand still, whoever writes; then all of it is logged, first come first."""
    fleet = quiet_fleet("single")
    source = server(fleet)
    backup_locks.lock_binlog(fleet, source, SESSION, nothing)
    position, executed = source[BinaryLog].position, source[GtidState].executed.copy()
    kinds = [GroupKind.INNODB, GroupKind.NON_TRANSACTIONAL, GroupKind.EMPTY, GroupKind.DDL]
    for kind in kinds:
        clients.write(fleet, source, kind)
    administration.flush_binary_logs(fleet, source)
    pass_time(fleet, 1_000)
    assert position == source[BinaryLog].position
    assert executed == source[GtidState].executed
    backup_locks.unlock_binlog(fleet, source, SESSION)
    pass_time(fleet, 50)
    assert kinds == logged(source)
    assert len(source[BinaryLog].files) == 2


@pytest.mark.parametrize("workers", [0, 4])
@pytest.mark.parametrize("by_gtid", [True, False])
def test_positions_of_a_replica_stand_still_under_the_binlog_lock(
    workers: int, by_gtid: bool
) -> None:
    """Neither receiver nor applier moves, not even by a new connection; then both catch up."""
    fleet = quiet_fleet(applier_workers=workers, auto_position=by_gtid)
    source, copy = server(fleet), replica(fleet)
    (channel,) = copy[ChannelMap].channels.values()
    pass_time(fleet, 100)
    for _ in range(4):
        clients.write(fleet, source)
    fleet.run(fleet.now + 3 * MILLISECOND)
    granted: list[tuple[object, ...]] = []

    def state() -> tuple[object, ...]:
        return (
            copy[BinaryLog].position,
            channel[Receiver].read,
            channel[Applier].executed,
            copy[GtidState].executed.text(),
            [file.end for file in channel[RelayLog].files],
        )

    backup_locks.lock_binlog(fleet, copy, SESSION, lambda: granted.append(state()))
    for _ in range(4):
        clients.write(fleet, source)
    administration.reconnect(fleet, channel)
    pass_time(fleet, 400)
    assert granted == [state()]
    assert channel[Receiver].read[1] < source[BinaryLog].position[1]
    backup_locks.unlock_binlog(fleet, copy, SESSION)
    pass_time(fleet, 400)
    assert copy[GtidState].executed == source[GtidState].executed
    assert channel[Applier].executed == channel[Receiver].read == source[BinaryLog].position


@pytest.mark.parametrize("workers", [0, 4])
@pytest.mark.parametrize("is_executed", [True, False])
def test_an_applier_with_work_waits_for_the_binlog_lock(workers: int, is_executed: bool) -> None:
    """What is in the relay log is neither executed nor, if its GTIDs are executed, passed by."""
    fleet = quiet_fleet(applier_workers=workers)
    source, copy = server(fleet), replica(fleet)
    (channel,) = copy[ChannelMap].channels.values()
    pass_time(fleet, 100)
    fleet.pace.apply_us = (30_000, 30_001)
    for _ in range(3):
        clients.write(fleet, source)
    pass_time(fleet, 20)
    assert sum(isinstance(item, QueuedGroup) for item in channel.pending) == 3
    if is_executed:
        for gtids in (copy[GtidState].logged, copy[GtidState].executed):
            gtids.update(source[GtidState].executed)
    before = channel[Applier].executed, channel[Applier].applied, copy[BinaryLog].position
    backup_locks.lock_binlog(fleet, copy, SESSION, nothing)
    pass_time(fleet, 400)
    after = channel[Applier].executed, channel[Applier].applied, copy[BinaryLog].position
    assert before == after
    backup_locks.unlock_binlog(fleet, copy, SESSION)
    pass_time(fleet, 400)
    assert channel[Applier].executed == source[BinaryLog].position


def test_the_binlog_lock_waits_for_commits_under_way_and_for_their_rotation() -> None:
    """A group between its stages ends first, and a rotation that it makes due."""
    fleet = quiet_fleet("single", max_binlog_size=4_096)
    source = server(fleet)
    fleet.pace.commit_stage_us = (5_000, 5_001)
    clients.write(fleet, source, rows_length=5_000)
    seen: list[tuple[str, int]] = []
    backup_locks.lock_binlog(
        fleet, source, SESSION, lambda: seen.append(source[BinaryLog].position)
    )
    pass_time(fleet, 20)
    assert seen == [source[BinaryLog].position]
    assert source[BinaryLog].active.number == 2
    assert not source[CommitQueue].in_commit


# Sessions that go away


@pytest.mark.parametrize("lock", [TABLES, BINLOG])
def test_a_killed_session_releases_what_it_holds(lock: str) -> None:
    """The server unlocks for it, and who waited goes on."""
    fleet = quiet_fleet("single")
    source = server(fleet)
    take = {TABLES: backup_locks.lock_tables, BINLOG: backup_locks.lock_binlog}[lock]
    take(fleet, source, SESSION, nothing)
    clients.write(fleet, source, GroupKind.DDL)
    backup_locks.end_all(fleet, source)
    pass_time(fleet, 20)
    assert logged(source) == [GroupKind.DDL]
    assert lock_steps(source) == [f"lock {lock}", f"unlock {lock}"]


def test_a_session_killed_while_it_waits_never_gets_the_lock() -> None:
    """Its request is forgotten; nobody waits behind it any more."""
    fleet = quiet_fleet("single")
    source = server(fleet)
    fleet.pace.commit_stage_us = (5_000, 5_001)
    clients.write(fleet, source)
    got: list[int] = []
    backup_locks.lock_binlog(fleet, source, SESSION, partial(got.append, 1))
    backup_locks.end_session(fleet, source, SESSION)
    clients.write(fleet, source)
    assert len(logged(source)) == 2
    pass_time(fleet, 20)
    assert not got
    assert not lock_steps(source)


@pytest.mark.parametrize("stop", [lifecycle.shut_down, lifecycle.crash])
def test_no_lock_outlives_its_server(stop: object) -> None:
    """After a restart nobody holds anything, and clients and replication work."""
    fleet = quiet_fleet()
    source, copy = server(fleet), replica(fleet)
    pass_time(fleet, 100)
    for lock in (backup_locks.lock_tables, backup_locks.lock_binlog):
        lock(fleet, copy, SESSION, nothing)
    clients.write(fleet, source)
    pass_time(fleet, 50)
    stop(fleet, copy)  # type: ignore[operator]
    pass_time(fleet, 2_000)
    clients.write(fleet, source)
    pass_time(fleet, 500)
    assert not any(copy[BackupLocks].holders.values())
    assert copy[GtidState].executed == source[GtidState].executed


# Coordinates in the InnoDB header


def write_and_finish(fleet: Fleet, instance: Instance, kind: GroupKind) -> None:
    """One group, all stages."""
    clients.write(fleet, instance, kind)
    commit.finish_all(fleet, instance)


def test_the_header_is_stale_after_a_non_transactional_update() -> None:
    """It names the last InnoDB commit, whatever was logged after it, until the next one."""
    fleet = quiet_fleet("single")
    source = server(fleet)
    source[InnodbHeader].updates = HeaderUpdates.INNODB_COMMITS
    write_and_finish(fleet, source, GroupKind.INNODB)
    written = source[BinaryLog].position
    assert written == source[Innodb].trx_sys
    write_and_finish(fleet, source, GroupKind.NON_TRANSACTIONAL)
    backup_locks.lock_tables(fleet, source, SESSION, nothing)
    assert written == source[Innodb].trx_sys != source[BinaryLog].position
    backup_locks.unlock_tables(fleet, source, SESSION)
    write_and_finish(fleet, source, GroupKind.INNODB)
    assert source[BinaryLog].position == source[Innodb].trx_sys


def test_mysql_8_writes_no_header_at_commits() -> None:
    """Only a clone does; so a stale header says nothing there."""
    fleet = quiet_fleet("single")
    write_and_finish(fleet, server(fleet), GroupKind.INNODB)
    assert server(fleet)[Innodb].trx_sys == ("", 0)


def test_fix_1_writes_the_header_at_each_update() -> None:
    """Whatever the storage engine: fresh at all times, at the price of redo for each update."""
    fleet = quiet_fleet("single")
    source = server(fleet)
    source[InnodbHeader].updates = HeaderUpdates.EVERY_UPDATE
    for kind in (GroupKind.INNODB, GroupKind.NON_TRANSACTIONAL, GroupKind.DDL, GroupKind.EMPTY):
        before = source[Innodb].lsn
        write_and_finish(fleet, source, kind)
        assert source[BinaryLog].position == source[Innodb].trx_sys
        assert before < source[Innodb].lsn


def test_fix_2_writes_and_redo_logs_the_header_with_the_table_lock() -> None:
    """The lock makes the header fresh, and its redo is flushed and counts in the LSN."""
    fleet = quiet_fleet("single")
    source = server(fleet)
    administration.set_variables(source, **{header.VARIABLE: True})
    write_and_finish(fleet, source, GroupKind.NON_TRANSACTIONAL)
    before = source[Innodb].lsn
    backup_locks.lock_tables(fleet, source, SESSION, nothing)
    assert source[BinaryLog].position == source[Innodb].trx_sys
    assert before < source[Innodb].lsn == source[Innodb].flushed
    assert lsn_offset_is_legal(source[Innodb].lsn)


def test_commits_wait_while_the_header_is_written() -> None:
    """On a backup-safe server the lock waits for all groups between the stages, InnoDB's too."""
    fleet = quiet_fleet("single")
    source = server(fleet)
    administration.set_variables(source, **{header.VARIABLE: True})
    fleet.pace.commit_stage_us = (5_000, 5_001)
    clients.write(fleet, source)
    backup_locks.lock_tables(fleet, source, SESSION, nothing)
    clients.write(fleet, source)
    assert len(logged(source)) == 1
    pass_time(fleet, 20)
    assert len(logged(source)) == 2
    position = source[BinaryLog].active.groups()[0].end
    steps = [r for r in journal(source) if r.is_fact(RecordType.BACKUP_LOCK) or r.gtid]
    assert [bool(r.gtid) for r in steps] == [True, False, True]
    assert source[Innodb].trx_sys[1] > position


def test_a_galera_node_keeps_its_xid_fresh_whatever_the_engine() -> None:
    """TOI operations write it too; a group without changes is no write set."""
    fleet = quiet_fleet("single")
    source = server(fleet)
    source[GaleraNode] = GaleraNode()
    for number, kind in enumerate(
        (GroupKind.INNODB, GroupKind.NON_TRANSACTIONAL, GroupKind.DDL), 1
    ):
        write_and_finish(fleet, source, kind)
        assert (number, number) == (
            source.get(GaleraNode).seqno,
            source.get(GaleraNode).header_seqno,
        )
    write_and_finish(fleet, source, GroupKind.EMPTY)
    assert source.get(GaleraNode).seqno == 3


# Whole histories


@pytest.mark.parametrize(
    "negative", ["stale_innodb_header", "binlog_lock_held_long", "galera_snapshot"]
)
def test_whole_histories_keep_what_the_locks_promise(negative: str) -> None:
    """No DDL and no non-transactional group under the table lock, nothing under the binlog lock."""
    waited = 0
    for seed in range(4):
        for block in simulate(Scenario(seed=seed, negatives=(negative,))).journals.values():
            held: set[str] = set()
            reported = records(block)
            for record in reported:
                if record.is_fact(RecordType.BACKUP_LOCK):
                    change = held.add if record.body["step"] == "lock" else held.discard
                    change(record.body["lock"])
                    waited += record.body["lock"] == BINLOG
                elif record.stream is not Stream.SERVER and record.gtid:
                    assert BINLOG not in held
                elif record.stream is Stream.BINLOG and TABLES in held:
                    before = reported[record.index - 1]
                    is_ddl = record.query is QueryVerb.STATEMENT and before.gtid is not None
                    is_rows = record.query is QueryVerb.COMMIT and before.query is QueryVerb.NONE
                    assert not is_ddl
                    assert not is_rows
            assert not held
    assert waited > 0
