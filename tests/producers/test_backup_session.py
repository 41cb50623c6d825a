"""A backup that collects inside LOCK INSTANCE FOR BACKUP and FLUSH TABLES WITH READ LOCK (F-4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallystick.coordinates.events.journal import RecordType, Stream
from tallystick.producers.simulator.assemble import Fleet
from tallystick.producers.simulator.backup import backup_session
from tallystick.producers.simulator.backup.outer_locks import OuterLocks
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.server import administration, binary_log, clients, lifecycle
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.gtid_state import GtidState
from tests.support.simulated_journal import Record, bodies_of, records

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance

BACKUP_AT_US = 2_000_000


def backed_up(instance_id: str, **options: Any) -> tuple[Fleet, Instance, list[Any]]:
    """A busy pair whose instance begins a backup; what the backup recorded."""
    fleet = Fleet(Scenario(seed=3, topology="pair", writes_per_second=40.0, **options))
    instance = fleet.instances[instance_id]
    fleet.run(fleet.start_ts + BACKUP_AT_US)
    reported: list[Any] = []
    backup_session.back_up(fleet, instance, reported.append, lambda: reported.append("ended"))
    return fleet, instance, reported


def lock_steps(journal: list[Record]) -> list[tuple[str, str]]:
    return [(body["step"], body["lock"]) for body in bodies_of(journal, RecordType.BACKUP_LOCK)]


@pytest.mark.parametrize("instance_id", ["source-a", "replica-a1"])
def test_the_five_statements_of_a_backup(instance_id: str) -> None:
    """Two locks, a row that the logs agree with to the end, two unlocks; then life goes on."""
    fleet, instance, reported = backed_up(instance_id)
    fleet.run(fleet.now + backup_session.HELD_US - 1)
    (row,) = reported
    coordinates = row["LOCAL"]["binary_log_file"], row["LOCAL"]["binary_log_position"]
    assert coordinates == instance[BinaryLog].position
    assert row["LOCAL"]["gtid_executed"] == instance[GtidState].executed.server_text()
    journal = records(fleet.advance(fleet.now + 1_000_000)[instance_id])
    assert reported == [row, "ended"]
    assert lock_steps(journal) == [
        ("lock", "instance"),
        ("lock", "global_read"),
        ("unlock", "global_read"),
        ("unlock", "instance"),
    ]
    steps = [body["step"] for body in bodies_of(journal, RecordType.COLLECTION)]
    assert (steps[0], steps[-1]) == ("enter", "leave")
    assert instance.get(OuterLocks) is None
    assert instance[BinaryLog].position != coordinates


def test_changes_wait_and_go_on_in_order() -> None:
    """Nothing is logged between FLUSH TABLES WITH READ LOCK and UNLOCK TABLES; relay logs grow."""
    fleet, replica, _ = backed_up("replica-a1", acts=False)
    journal = records(fleet.advance(fleet.now + 1_000_000)["replica-a1"])
    began = next(
        i for i, r in enumerate(journal)
        if r.is_fact(RecordType.BACKUP_LOCK) and r.body["lock"] == "global_read"
    )  # fmt: skip
    ended = next(
        i for i, r in enumerate(journal[began + 1 :], began + 1)
        if r.is_fact(RecordType.BACKUP_LOCK)
    )  # fmt: skip
    between = {record.stream for record in journal[began:ended]}
    assert Stream.BINLOG not in between
    assert Stream.RELAY in between
    assert Stream.BINLOG in {record.stream for record in journal[ended:]}
    assert replica[GtidState].executed.is_subset(fleet.instances["source-a"][GtidState].executed)


def test_the_instance_lock_alone_holds_back_only_ddl() -> None:
    """DDL waits for UNLOCK INSTANCE, rows do not."""
    fleet = Fleet(Scenario(seed=3, topology="single", writes_per_second=0.001, acts=False))
    source = fleet.instances["source-a"]
    backup_session.lock_instance(source)
    assert clients.write(fleet, source, GroupKind.DDL) is None
    before = source[BinaryLog].position
    assert clients.write(fleet, source, GroupKind.INNODB) is not None
    assert before != source[BinaryLog].position
    written = source[BinaryLog].position
    backup_session.unlock_instance(fleet, source)
    fleet.run(fleet.now + 10_000)
    assert written != source[BinaryLog].position


def test_no_log_is_purged_under_the_instance_lock() -> None:
    """PURGE BINARY LOGS is refused (4085), and expiry does nothing."""
    fleet = Fleet(Scenario(seed=3, topology="single", writes_per_second=0.001, acts=False))
    source = fleet.instances["source-a"]
    for _ in range(12):
        administration.flush_binary_logs(fleet, source)
    backup_session.lock_instance(source)
    administration.purge_binary_logs(fleet, source)
    binary_log.expire(fleet, source)
    assert len(source[BinaryLog].files) == 13
    backup_session.unlock_instance(fleet, source)
    binary_log.expire(fleet, source)
    assert len(source[BinaryLog].files) < 13


def test_a_backup_begins_on_a_running_server_that_has_no_other() -> None:
    """Neither a second one beside it, nor one of a server that is down, asks for anything."""
    fleet, instance, reported = backed_up("source-a", acts=False)
    backup_session.back_up(fleet, instance, reported.append, lambda: reported.append("second"))
    fleet.run(fleet.now + 1_000_000)
    assert reported[1:] == ["ended"]
    lifecycle.crash(fleet, instance)
    backup_session.back_up(fleet, instance, reported.append, lambda: reported.append("third"))
    assert instance.get(OuterLocks) is None


def test_a_server_that_goes_down_ends_the_backup() -> None:
    """The locks are gone with the server; nothing is unlocked afterwards, and clients go on."""
    fleet, source, reported = backed_up("source-a")
    fleet.run(fleet.now + 20_000)
    lifecycle.crash(fleet, source)
    journal = records(fleet.advance(fleet.now + 2_000_000)["source-a"])
    assert "ended" not in reported
    assert lock_steps(journal) == [("lock", "instance"), ("lock", "global_read")]
    assert source.get(OuterLocks) is None
    assert source.is_running
