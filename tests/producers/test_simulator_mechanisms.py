"""Backup locks, GTID persister and clone, as servers play them."""

from tallystick.coordinates.events.journal import QueryVerb, RecordType, Stream
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tests.support.simulated_journal import Record, bodies_of, records

SEEDS = range(4)


def journals(negative: str, seed: int) -> dict[str, list[Record]]:
    history = simulate(Scenario(seed=seed, negatives=(negative,)))
    return {instance_id: records(block) for instance_id, block in history.journals.items()}


def test_table_lock_lets_innodb_commits_go_on_only() -> None:
    """Under LOCK TABLES FOR BACKUP no DDL and no non-transactional group is logged."""
    under_lock = 0
    for seed in SEEDS:
        for journal in journals("backup_locks", seed).values():
            is_locked = binlog_is_locked = False
            for record in journal:
                if record.is_fact(RecordType.BACKUP_LOCK):
                    is_taken = record.body["step"] == "lock"
                    if record.body["lock"] == "tables":
                        is_locked = is_taken
                    else:
                        binlog_is_locked = is_taken
                elif record.stream is Stream.BINLOG:
                    assert not binlog_is_locked
                    if is_locked:
                        assert record.query is not QueryVerb.COMMIT or _is_empty(journal, record)
                        under_lock += bool(record.gtid)
            assert not is_locked
    assert under_lock > 10


def _is_empty(journal: list[Record], commit: Record) -> bool:
    return journal[commit.index - 1].query is QueryVerb.BEGIN


def test_header_is_fresh_under_the_table_lock() -> None:
    """A backup-safe server's TRX_SYS coordinates are those of the lock or of a later commit."""
    seen = 0
    for seed in range(16):
        for journal in journals("backup_locks", seed).values():
            position: tuple[str, int] | None = None
            end = ("", 0)
            for record in journal:
                if record.stream is Stream.BINLOG:
                    end = (record.file, record.end)
                if record.is_fact(RecordType.BACKUP_LOCK) and record.body["lock"] == "tables":
                    position = end if record.body["step"] == "lock" else None
                if position and record.is_fact(RecordType.LOG_STATUS) and "row" in record.body:
                    header = record.body["trx_sys"]
                    written = (header["binary_log_file"], header["binary_log_position"])
                    assert position <= written <= end
                    seen += 1
    assert seen > 5


def test_persister_never_lets_purge_pass_it() -> None:
    """The purge limit is at most the oldest number whose GTID is not in the table."""
    writes = 0
    for seed in SEEDS:
        for journal in journals("gtid_persister", seed).values():
            unpersisted: dict[str, int] = {}
            for body in bodies_of(journal, RecordType.GTID_PERSISTER):
                if body["step"] == "commit":
                    unpersisted[body["gtid"]] = body["trx_no"]
                elif body["step"] == "write":
                    written = GtidSet.parse(body["gtids"])
                    unpersisted = {g: n for g, n in unpersisted.items() if g not in written}
                    writes += 1
                elif body["step"] == "purge":
                    assert all(body["trx_no"] <= number for number in unpersisted.values())
                elif body["step"] == "recover":
                    unpersisted = {}
    assert writes > 10


def test_undo_and_table_hold_everything_after_a_crash() -> None:
    """What the table lacks at a crash is found in undo headers and in the first row."""
    found = 0
    for seed in range(8):
        journal = journals("gtid_persister", seed)["source-a"]
        start = next(r for r in journal if r.is_fact(RecordType.START) and r.body["crashed"])
        undo = GtidSet.parse(start.body.get("undo_gtids", ""))
        table = GtidSet.parse(start.body["gtid_executed_table"])
        first = next(
            r.body
            for r in journal[start.index :]
            if r.is_fact(RecordType.LOG_STATUS) and "row" in r.body
        )
        assert undo | table <= GtidSet.parse(first["row"]["LOCAL"]["gtid_executed"])
        found += bool(undo)
    assert found > 0


def test_clone_has_the_donors_coordinates() -> None:
    """The recipient's clone status is a position in the donor's log and the set up to it."""
    for seed in SEEDS:
        both = journals("clone", seed)
        status = bodies_of(both["replica-a1"], RecordType.LOG_STATUS)[-1]["clone_status"]
        coordinates = (status["BINLOG_FILE"], status["BINLOG_POSITION"])
        cloned = GtidSet.parse(status["GTID_EXECUTED"])
        logged = GtidSet.parse("")
        for record in both["source-a"]:
            if record.is_fact(RecordType.GTID_PURGED):
                logged |= GtidSet.parse(record.body["added"])
            if (
                record.stream is Stream.BINLOG
                and record.gtid
                and (record.file, record.end) <= coordinates
            ):
                logged |= GtidSet([(record.gtid[0], record.gtid[1], record.gtid[1])])
        assert cloned == logged
        assert any(
            r.body.get("data_lineage") == "cloned"
            for r in both["replica-a1"]
            if r.is_fact(RecordType.START)
        )
