"""Negative cases of GTID persistence: each shows what it says."""

from __future__ import annotations

import pytest

from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.assemble import Fleet, simulate
from tallystick.producers.simulator.innodb.gtid_persistence import CrashPoint, GtidPersistence
from tallystick.producers.simulator.innodb.gtid_persister import TRANSACTIONS_MAX
from tallystick.producers.simulator.kernel.scenario import Scenario
from tests.support.simulated_journal import Record, bodies_of, records


def journal_of(negative: str, instance: str, seed: int = 0) -> list[Record]:
    return records(simulate(Scenario(seed=seed, negatives=(negative,))).journals[instance])


def test_a_burst_is_written_before_its_second_is_over() -> None:
    """At least 1024 GTIDs in one write, within a few milliseconds of the first of them."""
    journal = journal_of("persister_burst", "source-a", 1)
    steps = [r for r in journal if r.is_fact(RecordType.GTID_PERSISTER)]
    great = next(
        r
        for r in steps
        if r.body["step"] == "write" and GtidSet.parse(r.body["gtids"]).count() >= TRANSACTIONS_MAX
    )
    committed = next(
        r
        for r in steps
        if r.body["step"] == "commit" and r.body["gtid"] in GtidSet.parse(great.body["gtids"])
    )
    assert great.ts - committed.ts < 500_000


@pytest.mark.parametrize("seed", range(len(CrashPoint)))
def test_every_server_crashes_before_its_step(seed: int) -> None:
    """Over the seeds each crash point is taken by a source and by a replica."""
    fleet = Fleet(Scenario(seed=seed, negatives=("persister_crash",)))
    fleet.run(fleet.load_ends_at + 5_000_000)
    for instance in fleet.instances.values():
        starts = bodies_of(records(instance.journal.build()), RecordType.START)
        assert instance[GtidPersistence].crash_at is None
        assert any(start["crashed"] for start in starts)


def test_a_prepared_transaction_is_there_after_the_crash() -> None:
    """Two starts after a crash, and both ends of prepared transactions after the first."""
    journal = journal_of("persister_xa", "source-a")
    crashes = [r.index for r in journal if r.is_fact(RecordType.START) and r.body["crashed"]]
    prepares = [
        r.index
        for r in journal
        if r.is_fact(RecordType.GTID_PERSISTER) and r.body["step"] == "prepare"
    ]
    assert len(crashes) == 2
    assert len(prepares) == 2
    assert max(prepares) < min(crashes)


def test_without_a_binary_log_undo_logs_bring_back_what_the_table_lacks() -> None:
    """Over the seeds some crash finds GTIDs in undo logs, and the first row has them all."""
    found = 0
    for seed in range(4):
        journal = journal_of("persister_without_binlog", "replica-a1", seed)
        start = next(r for r in journal if r.is_fact(RecordType.START) and r.body["crashed"])
        undo = GtidSet.parse(start.body["undo_gtids"])
        first = next(
            r.body
            for r in journal[start.index :]
            if r.is_fact(RecordType.LOG_STATUS) and "row" in r.body
        )
        assert not start.body["variables"]["log_bin"]
        assert undo <= GtidSet.parse(first["row"]["LOCAL"]["gtid_executed"])
        found += bool(undo)
    assert found


def test_a_reset_falls_into_a_write() -> None:
    """Between the write that RESET waits for and the end nothing from before is written."""
    journal = journal_of("persister_reset", "source-a")
    reset = next(r.index for r in journal if r.is_fact(RecordType.BINLOG_RESET))
    before = [r.body for r in journal[:reset] if r.is_fact(RecordType.GTID_PERSISTER)]
    assert before[-1]["step"] == "number"
    first = next(r.gtid for r in journal[reset:] if r.gtid)
    assert first[1] == 1
