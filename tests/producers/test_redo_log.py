"""InnoDB's redo log in simulated servers: what commits wait for, and what a crash leaves."""

from __future__ import annotations

import pytest

from tallystick.coordinates.events.journal import RecordType, RedoType, Stream
from tallystick.producers.simulator.assemble import Fleet
from tallystick.producers.simulator.innodb import redo_log
from tallystick.producers.simulator.innodb.redo_log import FLUSH_POLICY, Innodb
from tallystick.producers.simulator.kernel.instance import Instance
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.server import clients, lifecycle
from tests.support.simulated_journal import Record, records


def quiet_server() -> tuple[Fleet, Instance]:
    """A server to which nobody writes."""
    fleet = Fleet(Scenario(seed=1, topology="single", acts=False, writes_per_second=0.001))
    (instance,) = fleet.instances.values()
    return fleet, instance


def redo_of(instance: Instance) -> list[Record]:
    """The redo events since the last call."""
    return [r for r in records(instance.journal.build()) if r.stream is Stream.REDO]


def kinds(found: list[Record]) -> list[RedoType]:
    return [RedoType(record.type) for record in found]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (1, [RedoType.WRITE, RedoType.FLUSH, RedoType.COMMIT]),
        (2, [RedoType.WRITE, RedoType.COMMIT]),
        (0, [RedoType.COMMIT]),
    ],
)
def test_a_commit_waits_for_what_is_set(policy: int, expected: list[RedoType]) -> None:
    """innodb_flush_log_at_trx_commit: flushed, written, or nothing."""
    fleet, instance = quiet_server()
    instance.variables[FLUSH_POLICY] = policy
    instance.journal.build()
    clients.write(fleet, instance, GroupKind.INNODB)
    fleet.run(fleet.now + 10_000)
    assert kinds(redo_of(instance)) == expected


def test_a_group_carries_the_redo_of_those_before_it() -> None:
    """One write holds what mini-transactions and earlier commits have left in the buffer."""
    fleet, instance = quiet_server()
    innodb = instance[Innodb]
    redo_log.add_redo(instance, 700)
    before = innodb.written
    assert before < innodb.lsn
    instance.journal.build()
    clients.write(fleet, instance, GroupKind.INNODB)
    write, flush, *_ = redo_of(instance)
    assert (write.start, write.value) == (before, flush.value)
    assert flush.value == innodb.flushed == innodb.lsn


def test_a_crash_takes_the_log_buffer() -> None:
    """Recovery goes on where the files end."""
    fleet, instance = quiet_server()
    redo_log.add_redo(instance, 5_000)
    redo_log.write_full_blocks(instance)
    written = instance[Innodb].written
    assert instance[Innodb].flushed < written < instance[Innodb].lsn
    lifecycle.crash(fleet, instance, torn=False)
    fleet.run(fleet.now + 1_000_000)
    assert instance[Innodb].recovered == written


def test_a_power_cut_takes_what_was_not_flushed() -> None:
    """And the first write after the start begins there."""
    fleet, instance = quiet_server()
    redo_log.add_redo(instance, 5_000)
    redo_log.write_full_blocks(instance)
    flushed = instance[Innodb].flushed
    lifecycle.crash(fleet, instance, torn=False, power_cut=True)
    fleet.run(fleet.now + 1_000_000)
    made = records(instance.journal.build())
    start = next(r for r in reversed(made) if r.is_fact(RecordType.START))
    write, flush, checkpoint = [r for r in made[start.index :] if r.stream is Stream.REDO][:3]
    assert kinds([write, flush, checkpoint]) == list(RedoType)[:3]
    assert write.start == flushed
    assert write.value == flush.value == checkpoint.value


def test_a_crash_takes_commits_that_have_not_returned() -> None:
    """Their sessions are gone: whoever commits next returns alone."""
    fleet, instance = quiet_server()
    redo_log.committed(instance, instance[Innodb].written)
    lifecycle.crash(fleet, instance, torn=False)
    fleet.run(fleet.now + 1_000_000)
    clients.write(fleet, instance, GroupKind.NON_TRANSACTIONAL)
    fleet.run(fleet.now + 10_000)
    assert RedoType.COMMIT not in kinds(redo_of(instance))


def test_a_clean_stop_leaves_everything_on_disk() -> None:
    """Its last redo event is a checkpoint at the LSN, where the next boot goes on."""
    fleet, instance = quiet_server()
    redo_log.add_redo(instance, 5_000)
    lifecycle.shut_down(fleet, instance)
    innodb = instance[Innodb]
    assert innodb.checkpoint == innodb.flushed == innodb.written == innodb.lsn
    assert kinds(redo_of(instance))[-1] is RedoType.CHECKPOINT


def test_a_disabled_redo_log_does_not_grow() -> None:
    """ALTER INSTANCE DISABLE INNODB REDO_LOG."""
    _, instance = quiet_server()
    instance.variables[redo_log.ENABLED] = False
    lsn = instance[Innodb].lsn
    assert redo_log.add_redo(instance, 500) == lsn == instance[Innodb].lsn
