"""The critical zone, engine locks and blocked metadata operations of WL#3576, as played."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tallystick.coordinates.events.journal import RecordType, Stream
from tallystick.producers.simulator.assemble import Fleet, simulate
from tallystick.producers.simulator.backup import (
    backup_protocol,
    backup_synchronization,
    binlog_mutex,
    tables,
)
from tallystick.producers.simulator.backup.backup_synchronization import BackupSynchronization
from tallystick.producers.simulator.backup.engine_locking import ENGINES, Engine
from tallystick.producers.simulator.backup.tables import TableData
from tallystick.producers.simulator.faults.hooks import FaultHooks
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.kernel.transactions import Group, GroupKind
from tallystick.producers.simulator.server import applier, clients, commit, workload
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import Applier, ChannelMap
from tallystick.producers.simulator.server.gtid_state import GtidState
from tests.support.simulated_journal import Record, records

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance

SEEDS = range(4)
NEGATIVES = ("commit_zone", "backup_bails_out", "replica_zone", "crash_in_zone")
SECOND = 1_000_000


def journals(negative: str, seed: int) -> dict[str, list[Record]]:
    history = simulate(Scenario(seed=seed, negatives=(negative,)))
    return {instance_id: records(block) for instance_id, block in history.journals.items()}


def zone_steps(journal: list[Record]) -> list[dict[str, Any]]:
    return [record.body for record in journal if record.is_fact(RecordType.ZONE)]


def engine_steps(journal: list[Record]) -> list[Record]:
    return [record for record in journal if record.is_fact(RecordType.ENGINE_LOCK)]


def fleet_with_zone(topology: str = "single", **options: Any) -> Fleet:
    """A fleet whose clients do nothing of themselves; its first server has a critical zone."""
    fleet = Fleet(
        Scenario(seed=3, topology=topology, writes_per_second=0.001, acts=False, **options)
    )
    backup_synchronization.install(fleet, next(iter(fleet.instances.values())))
    return fleet


@pytest.mark.parametrize("negative", NEGATIVES)
def test_validity_points_are_taken_in_an_empty_closed_zone(negative: str) -> None:
    """Nobody enters a closed zone; each ticket is dropped once; the point waits for the last."""
    points = outsiders = 0
    for seed in SEEDS:
        for journal in journals(negative, seed).values():
            is_open, inside = True, set()
            for record in journal:
                if record.stream is Stream.BINLOG and record.gtid and not is_open and not inside:
                    outsiders += 1
                if record.is_fact(RecordType.START):
                    is_open, inside = True, set()
                if not record.is_fact(RecordType.ZONE):
                    continue
                step, ticket = record.body["step"], record.body.get("ticket")
                if step == "enter":
                    assert is_open
                    inside.add(ticket)
                elif step == "drop":
                    inside.remove(ticket)
                elif step == "close":
                    assert is_open
                    is_open = False
                elif step == "validity_point":
                    assert not is_open
                    assert not inside
                    points += 1
                elif step == "open":
                    assert not is_open
                    is_open = True
            assert is_open
            assert not inside
    assert outsiders > 0
    assert points >= 4 or negative == "backup_bails_out"


@pytest.mark.parametrize("negative", NEGATIVES)
def test_the_critical_sequence_lies_inside_the_ticket_in_its_order(negative: str) -> None:
    """Writing the log, committing, unlocking: between enter and drop, or of tables left out."""
    inside = outside = 0
    for seed in SEEDS:
        for journal in journals(negative, seed).values():
            steps = zone_steps(journal)
            threads: dict[int, list[str]] = {}
            tickets: set[int] = set()
            for body in steps:
                if body["step"] == "enter":
                    tickets.add(body["ticket"])
                elif body["step"] == "drop":
                    tickets.remove(body["ticket"])
                elif "thread" in body:
                    threads.setdefault(body["thread"], []).append(body["step"])
                    if "ticket" in body:
                        assert body["ticket"] in tickets
                        inside += 1
                    else:
                        assert all(table.startswith("scratch.") for table in body["tables"])
                        outside += 1
            order = ["write_binlog", "commit", "unlock_tables"]
            if negative != "crash_in_zone":
                assert all(done == order for done in threads.values())
    assert inside > 100
    assert outside > 0 or negative == "crash_in_zone"


def test_tables_decide_who_takes_part_while_a_backup_synchronises() -> None:
    """enter_zone is decided while tables are locked; without a backup everybody enters."""
    fleet = fleet_with_zone()
    server = fleet.instances["source-a"]
    synchronization = server.get(BackupSynchronization)
    assert synchronization is not None
    scratch, taken = group_of("scratch."), group_of("shop.")
    assert synchronization.lock_tables(scratch).enter_zone
    synchronization.is_on = True
    assert not synchronization.lock_tables(scratch).enter_zone
    assert synchronization.lock_tables(taken).enter_zone


def test_a_statement_that_locked_its_tables_before_waits_though_it_takes_no_part() -> None:
    """The flag enter_zone stays as it was decided; who comes later passes the closed zone by."""
    fleet = fleet_with_zone()
    server = fleet.instances["source-a"]
    synchronization = server.get(BackupSynchronization)
    assert synchronization is not None
    early, late = group_of("scratch."), group_of("scratch.", skip=1)
    commit.commit(fleet, server, early)
    synchronization.close(lambda: None)
    commit.commit(fleet, server, late)
    fleet.run(fleet.now + SECOND)
    logged = [one.group for one in server[BinaryLog].active.groups()]
    assert late in logged
    assert early not in logged
    synchronization.open()
    assert early in [one.group for one in server[BinaryLog].active.groups()]


def test_a_group_that_fails_inside_leaves_the_zone() -> None:
    """The ticket's destructor: on every way out nobody stays inside, an error included."""

    class Hooks(FaultHooks):
        outcome: Exception | None = None

        def on_commit(self, fleet: Fleet, instance: Instance, group: Group) -> Group | None:
            if self.outcome is not None:
                raise self.outcome
            return None

    hooks = Hooks()
    fleet = Fleet(Scenario(seed=3, topology="single", writes_per_second=0.001, acts=False), hooks)
    server = fleet.instances["source-a"]
    backup_synchronization.install(fleet, server)
    commit.commit(fleet, server, group_of("shop."))
    fleet.run(fleet.now + SECOND)
    hooks.outcome = RuntimeError("disk full")
    commit.commit(fleet, server, group_of("shop.", skip=1))
    with pytest.raises(RuntimeError, match="disk full"):
        fleet.run(fleet.now + SECOND)
    journal = records(fleet.advance(fleet.now)["source-a"])
    assert ["enter", "drop", "enter", "drop"] == [body["step"] for body in zone_steps(journal)]


def test_a_non_transactional_change_becomes_visible_when_its_table_is_unlocked() -> None:
    """Logged, committed, in gtid_executed, and still invisible: the ticket is held until then."""
    fleet = fleet_with_zone()
    server = fleet.instances["source-a"]
    tables.install([server])
    synchronization = server.get(BackupSynchronization)
    assert synchronization is not None
    before = server[TableData].checksums()
    commit.commit(fleet, server, group_of("shop.visits", kind=GroupKind.NON_TRANSACTIONAL))
    seen = False
    for _ in range(2_000):
        fleet.run(fleet.now + 20)
        if server[GtidState].executed and synchronization.unlocking:
            seen = True
            assert synchronization.zone.inside
            assert server[TableData].checksums() == before
    assert seen
    assert not synchronization.zone.inside
    assert server[TableData].checksums() != before


@pytest.mark.parametrize("kind", [GroupKind.NON_TRANSACTIONAL, GroupKind.INNODB])
def test_one_statement_at_a_time_changes_a_myisam_table(kind: GroupKind) -> None:
    """The second begins when the first has unlocked the table; of InnoDB both run at once."""
    table = "shop.visits" if kind is GroupKind.NON_TRANSACTIONAL else "shop.orders"
    fleet = fleet_with_zone()
    server = fleet.instances["source-a"]
    for skip in range(3):
        commit.commit(fleet, server, group_of(table, skip=skip, kind=kind))
    fleet.run(fleet.now + 200_000)
    threads = [
        body["thread"]
        for body in zone_steps(records(server.journal.build()))
        if body["step"] in ("write_binlog", "unlock_tables")
    ]
    assert len(threads) == 6
    one_by_one = threads[0::2] == threads[1::2]
    assert one_by_one == (kind is GroupKind.NON_TRANSACTIONAL)


def test_engine_locks_give_up_in_time_and_pause() -> None:
    """The first round times out after 2 s; the retry comes 10 s later and ends well."""
    retried = 0
    for journal in journals("commit_zone", 1).values():
        at = {
            (r.body["step"], r.body.get("round"), r.body.get("engine")): r
            for r in engine_steps(journal)
        }
        if not at:
            continue
        begin = at["begin", 1, None].ts
        timeout = at["timeout", 1, "binlog"]
        assert timeout.ts - begin == 2 * SECOND
        assert ("lock", 1, "innodb") in at
        assert at["unlock_all", 1, None].ts >= timeout.ts
        assert at["retry", 2, None].ts - at["unlock_all", 1, None].ts >= 10 * SECOND
        assert at["done", 2, None].ts < at["unlock_all", 2, None].ts
        retried += 1
    assert retried > 0


def test_a_large_flush_keeps_the_binary_log_from_being_locked() -> None:
    """The first stall of the mail: the round times out, and who commits waits for the flush."""
    fleet = fleet_with_zone()
    server = fleet.instances["source-a"]
    large, other = group_of("scratch."), group_of("scratch.", skip=1)
    binlog_mutex.flush_large(fleet, server, large, 3 * SECOND)
    backup_protocol.begin(fleet, server, ENGINES)
    commit.commit(fleet, server, other)
    fleet.run(fleet.now + 3 * SECOND - 1)
    assert not server[BinaryLog].active.groups()
    journal = records(fleet.advance(fleet.now)["source-a"])
    steps = [(r.body["step"], r.body.get("engine")) for r in engine_steps(journal)]
    assert steps[-2:] == [("timeout", "binlog"), ("unlock_all", None)]
    fleet.run(fleet.now + SECOND)
    assert {one.group for one in server[BinaryLog].active.groups()} == {large, other}
    fleet.run(fleet.now + 12 * SECOND)
    journal = records(fleet.advance(fleet.now)["source-a"])
    assert [r.body["step"] for r in engine_steps(journal)][-2:] == ["done", "unlock_all"]


def test_a_mutex_taken_in_prelock_stalls_the_server() -> None:
    """The second stall: commits wait for MyISAM's prelock; locked last, they do not."""
    waited = []
    for early in (True, False):
        fleet = fleet_with_zone()
        server = fleet.instances["source-a"]
        binlog = Engine("binlog", prelock_us=int(early), is_locked_by_prelock=early)
        myisam = Engine("myisam", prelock_us=SECOND)
        backup_protocol.begin(fleet, server, (binlog, myisam) if early else (myisam, binlog))
        fleet.run(fleet.now + SECOND // 100)
        commit.commit(fleet, server, group_of("scratch."))
        since = fleet.now
        while not server[BinaryLog].active.groups():
            fleet.run(fleet.now + SECOND // 100)
            assert fleet.now < since + 5 * SECOND
        waited.append(fleet.now - since)
    assert waited[0] > SECOND * 9 // 10
    assert waited[1] < SECOND // 10


def test_each_engine_gets_what_is_left_of_one_time_out() -> None:
    """The binary log is the last of the engines, and prelocking is no part of the time."""
    for journal in journals("commit_zone", 1).values():
        steps = engine_steps(journal)
        if not steps:
            continue
        names = [r.body["engine"] for r in steps if r.body["step"] == "prelock"]
        assert ["myisam", "ndb", "innodb"] == names
        begin = next(i for i, r in enumerate(steps) if r.body["step"] == "begin")
        assert all(r.body["step"] != "prelock" for r in steps[begin:])
        began = last = steps[begin].ts
        order = []
        for step in steps[begin + 1 :]:
            if step.body["step"] not in ("lock", "timeout"):
                break
            assert step.body["timeout"] == began + 2 * SECOND - last
            last = step.ts
            order.append(step.body["engine"])
        assert ["myisam", "ndb", "innodb", "binlog"] == order


def test_pauses_grow_and_too_many_rounds_end_the_backup() -> None:
    """Back-off and bail out: 10 s, 20 s, then abort; clients go on meanwhile and afterwards."""
    fleet = fleet_with_zone()
    server = fleet.instances["source-a"]
    ends: list[bool] = []
    never = (Engine("myisam"), Engine("innodb", waits_us=(60 * SECOND,) * 3))
    assert backup_protocol.begin(fleet, server, never, at_end=ends.append)
    assert not backup_protocol.begin(fleet, server), "one backup at a time"
    fleet.run(fleet.now + 60 * SECOND)
    assert [False] == ends
    journal = records(fleet.advance(fleet.now)["source-a"])
    steps = [(r.body["step"], r.ts) for r in engine_steps(journal)]
    words = [word for word, _ in steps if word not in ("prelock", "lock")]
    assert words == [
        *("begin", "timeout", "unlock_all"),
        *("retry", "timeout", "unlock_all") * 2,
        "abort",
    ]
    unlocks = [ts for word, ts in steps if word == "unlock_all"]
    retries = [ts for word, ts in steps if word == "retry"]
    first, second = (retry - unlock for retry, unlock in zip(retries, unlocks, strict=False))
    assert first >= 10 * SECOND
    assert second >= 20 * SECOND
    assert not any(body["step"] == "validity_point" for body in zone_steps(journal))
    assert server.get(BackupSynchronization) is not None
    assert server.get(BackupSynchronization).zone.is_open


def test_an_engine_that_ignores_its_time_out_costs_the_round() -> None:
    """It comes back too late: the others get no time any more, all are unlocked."""
    fleet = fleet_with_zone()
    server = fleet.instances["source-a"]
    deaf = (Engine("myisam", waits_us=(3 * SECOND,), ignores_timeout=True), Engine("innodb"))
    backup_protocol.begin(fleet, server, deaf)
    fleet.run(fleet.now + 30 * SECOND)
    journal = records(fleet.advance(fleet.now)["source-a"])
    steps = [(r.body["step"], r.body.get("engine")) for r in engine_steps(journal)]
    begin = steps.index(("begin", None))
    assert [("lock", "myisam"), ("unlock_all", None), ("retry", None)] == steps[
        begin + 1 : begin + 4
    ]
    assert steps[-1] == ("unlock_all", None)
    assert steps[-2] == ("done", None)


def test_nothing_is_logged_while_the_binary_log_is_locked() -> None:
    """The data freeze: from the lock of the binary log to the end not even others log."""
    frozen = 0
    for seed in SEEDS:
        for journal in journals("replica_zone", seed).values():
            is_locked = False
            for record in journal:
                if record.is_fact(RecordType.ENGINE_LOCK):
                    if record.body["step"] == "lock" and record.body["engine"] == "binlog":
                        is_locked = True
                        frozen += 1
                    elif record.body["step"] == "unlock_all":
                        is_locked = False
                assert not (is_locked and record.stream is Stream.BINLOG)
    assert frozen >= len(SEEDS)


def test_ndb_commits_while_the_zone_is_closed_and_not_while_it_is_locked() -> None:
    """The zone freezes who commits through the server; a cluster's members need the lock."""
    in_closed_zone = 0
    for seed in SEEDS:
        for journal in journals("backup_bails_out", seed).values():
            is_open, is_locked = True, False
            for record in journal:
                if record.is_fact(RecordType.ENGINE_LOCK):
                    locks = record.body["step"] == "lock" and record.body["engine"] == "ndb"
                    is_locked = locks or (is_locked and record.body["step"] != "unlock_all")
                elif record.is_fact(RecordType.ZONE):
                    word = record.body["step"]
                    is_open = word == "open" or (is_open and word != "close")
                elif record.is_fact(RecordType.STATEMENT) and record.body["engine"] == "ndb":
                    assert not is_locked
                    in_closed_zone += not is_open
    assert in_closed_zone > 0


def test_metadata_operations_wait_for_the_end_of_a_backup() -> None:
    """A DDL is neither logged nor lost; it needs no ticket."""
    fleet = fleet_with_zone()
    server = fleet.instances["source-a"]
    ends: list[bool] = []
    backup_protocol.begin(fleet, server, ENGINES, at_end=ends.append)
    clients.write(fleet, server, GroupKind.DDL)
    assert not server[BinaryLog].active.groups()
    fleet.run(fleet.now + SECOND)
    assert [True] == ends
    assert [GroupKind.DDL] == [one.group.kind for one in server[BinaryLog].active.groups()]
    journal = records(fleet.advance(fleet.now)["source-a"])
    assert not any(body["step"] == "enter" for body in zone_steps(journal))


def test_a_ddl_stops_the_applier_of_a_replica_that_is_backed_up() -> None:
    """Replication stops with the error, in front of the DDL; after the backup it goes on."""
    stopped = 0
    for seed in SEEDS:
        history = simulate(Scenario(seed=seed, negatives=("replica_zone",)))
        source, replica = (records(history.journals[name]) for name in ("source-a", "replica-a1"))
        errors = [
            record
            for record in replica
            if record.is_fact(RecordType.CHANNEL) and record.body.get("errno") == 1205
        ]
        stopped += len(errors)
        for error in errors:
            later = replica[error.index :]
            restart = next(r for r in later if r.body.get("action") == "start_applier")
            unlocked = next(r for r in later if r.is_fact(RecordType.BACKUP_LOCK))
            assert unlocked.body["step"] == "unlock"
            assert unlocked.index <= restart.index
            between = replica[error.index : restart.index]
            assert not any(r.stream is Stream.BINLOG for r in between)
        logged = {r.gtid for r in source if r.stream is Stream.BINLOG and r.gtid}
        executed = {r.gtid for r in replica if r.stream is Stream.BINLOG and r.gtid}
        assert logged == executed
    assert stopped > 0


def test_the_error_of_the_applier_is_in_the_replica_status() -> None:
    """Last_SQL_Errno, as long as the applier stands still."""
    fleet = fleet_with_zone("pair")
    source, replica = fleet.instances["source-a"], fleet.instances["replica-a1"]
    backup_synchronization.install(fleet, replica)
    fleet.run(fleet.now + SECOND)
    backup_protocol.begin(fleet, replica, (Engine("myisam", waits_us=(SECOND,)),))
    clients.write(fleet, source, GroupKind.DDL)
    fleet.run(fleet.now + SECOND // 2)
    channel = replica[ChannelMap].channels[""]
    assert not channel[Applier].is_running
    assert channel[Applier].sql_errno == 1205
    assert not replica[BinaryLog].active.groups()
    fleet.run(fleet.now + 2 * SECOND)
    applier.start(fleet, channel)
    fleet.run(fleet.now + SECOND)
    assert channel[Applier].sql_errno == 0
    assert GroupKind.DDL in [one.group.kind for one in replica[BinaryLog].active.groups()]


def test_a_crash_inside_leaves_an_open_zone_and_nobody_waiting() -> None:
    """No ticket, no lock and no flag survives; backups and writes of the next boot go well."""
    crashed_inside = 0
    for seed in SEEDS:
        for journal in journals("crash_in_zone", seed).values():
            is_open = True
            for record in journal:
                if record.is_fact(RecordType.START):
                    crashed_inside += not is_open
                    is_open = True
                elif record.is_fact(RecordType.ZONE):
                    word = record.body["step"]
                    is_open = word == "open" or (is_open and word != "close")
            boot = max(r.index for r in journal if r.is_fact(RecordType.START))
            assert any(body["step"] == "validity_point" for body in zone_steps(journal[boot:]))
    assert crashed_inside > 0


def group_of(table: str, *, skip: int = 0, kind: GroupKind = GroupKind.INNODB) -> Group:
    """A transaction that changes a table whose name begins so."""
    rng = Random(f"{table} {skip}")
    while True:
        group = workload.make_group(rng, kind, 1, 1)
        changed = tables.table_of(group)
        if changed is not None and changed.name.startswith(table):
            return group
